/** The server under attack: an `svc-server` in a process of its own. */

import { SystemClock } from "../../../lib/base/clock.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import { selfSigned } from "../../support/echo.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { V8_FLAGS } from "../../../cli/v8_flags.ts";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { CameraService } from "../../../proto/gen/camera_pb.ts";
import { type ServerProcess, startServer, writeConfig } from "../../support/server.ts";
import type { Victim } from "./attack.ts";
import type { Target } from "./peer.ts";

/** File descriptors of the narrow server: enough to serve, few enough to use up. */
const NARROW_FILES = 256;
const KEY = { id: "owner", key: "the key of the owner" };
const MACHINE = {
  components: [
    { name: "board1", api: "rdk:component:board", model: "fake", attributes: {} },
    { name: "camera1", api: "rdk:component:camera", model: "fake", attributes: {} },
  ],
};

/** A server under attack. */
export interface RunningVictim {
  readonly server: ServerProcess;
  /** Its address, with a token if it needs one. */
  readonly target: Target;
  /** Ends it and removes its files. */
  stop(): Promise<void>;
}

export async function startVictim(kind: Victim): Promise<RunningVictim> {
  const folder = await Deno.makeTempDir({ prefix: "svc-attack-" });
  const configPath = await writeConfig({ ...MACHINE, ...await particulars(kind, folder) });
  const removeFiles = async () => {
    await Deno.remove(configPath);
    await Deno.remove(folder, { recursive: true });
  };

  let server: ServerProcess | undefined;
  try {
    const command = kind === "narrow" ? narrow() : undefined;
    const started = server = await startServer(configPath, { command, args: ["-ftdc=false"] });
    const url = new URL(started.url);
    const target = { host: "127.0.0.1", port: Number(url.port), secure: url.protocol === "https:" };
    const token = kind === "keyed" ? await tokenOf(target) : undefined;
    const stop = async () => {
      await started.stop();
      await removeFiles();
    };
    return { server: started, target: { ...target, token }, stop };
  } catch (error) {
    await server?.stop();
    await removeFiles();
    throw error;
  }
}

async function particulars(kind: Victim, folder: string): Promise<Record<string, unknown>> {
  const bind = "127.0.0.1:0";
  if (kind === "keyed") {
    const config = { [KEY.id]: KEY.key, keys: [KEY.id] };
    return { network: { bind_address: bind }, auth: { handlers: [{ type: "api-key", config }] } };
  }
  if (kind !== "tls") return { network: { bind_address: bind } };
  const { certPem, keyPem } = await selfSigned();
  const [cert, key] = [`${folder}/cert.pem`, `${folder}/key.pem`];
  await Deno.writeTextFile(cert, certPem);
  await Deno.writeTextFile(key, keyPem);
  return { network: { bind_address: bind, tls_cert_file: cert, tls_key_file: key } };
}

/** The program from source, with few descriptors. */
function narrow(): string[] {
  const program = new URL("../../../cli/server/main.ts", import.meta.url).pathname;
  const script = `ulimit -n ${NARROW_FILES}; exec "$0" "$@"`;
  return ["sh", "-c", script, Deno.execPath(), "run", "-A", V8_FLAGS, program];
}

/** Makes the camera draw its cloud: it does so once, on the first request, which is not an attack's fault. */
export async function drawCloud({ host, port }: Target): Promise<void> {
  const channel = connectGrpc(`${host}:${port}`, { clock: new SystemClock() });
  try {
    await client(CameraService, channel).getPointCloud({ name: "camera1", mimeType: "pointcloud/pcd" });
  } finally {
    channel.close();
  }
}

async function tokenOf({ host, port }: Target): Promise<string> {
  const channel = connectGrpc(`${host}:${port}`, { clock: new SystemClock() });
  try {
    const credentials = { type: "api-key", payload: KEY.key };
    const { accessToken } = await client(AuthService, channel).authenticate({ entity: KEY.id, credentials });
    return accessToken;
  } finally {
    channel.close();
  }
}
