/**
 * A control plane and a machine of it, a process each, for tests of their cooperation.
 */

import { AppService } from "../../proto/gen/app_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { type ServerProcess, startServer } from "../support/server.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "./program.ts";

export interface ManagedMachine {
  readonly example: Example;
  /** The names of the machine. */
  readonly fqdn: string;
  readonly localFqdn: string;
  /** The certificate of the control plane's authority. */
  readonly ca: string;
  /** The file with it. */
  readonly authority: string;
  readonly folder: string;
  /** Tells commands of svc-cloud where everything is. */
  readonly data: readonly string[];
  /** The control plane, and its flags. */
  readonly cloud: CloudProcess;
  readonly flags: readonly string[];
  readonly server: ServerProcess;
  /** To the control plane, as the owner. */
  readonly channel: Channel;
}

export interface ManagedOptions {
  readonly cloudFlags?: readonly string[];
  readonly machineEnv?: Readonly<Record<string, string>>;
  readonly initFlags?: readonly string[];
}

/** Runs both while `work` does. */
export async function withManagedMachine(
  config: object,
  work: (machine: ManagedMachine) => Promise<void>,
  { cloudFlags = [], machineEnv = {}, initFlags = [] }: ManagedOptions = {},
): Promise<void> {
  const clock = new SystemClock();
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", `${folder}/data`];
  const example: Example = JSON.parse(await svcCloud("init", ...initFlags, ...data, "--json"));
  const { partId, ownerKey } = example;
  const whole = { network: { bind_address: "localhost:0" }, ...config };
  await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(whole));
  await svcCloud("config", "set", partId, `${folder}/config.json`, ...data);
  const ca = await svcCloud("authority", ...data);
  const authority = `${folder}/authority.pem`;
  await Deno.writeTextFile(authority, ca);
  const flags = [...data, "--localhost-certificates", ...cloudFlags];
  const cloud = await serveCloud(flags);
  const key = new Secret(ownerKey.key);
  const channel = connectApp({ address: cloud.url, ca, keyId: ownerKey.id, key, clock });
  const file = `${folder}/machine.json`;
  const own = { ...example.config.cloud, app_address: cloud.url, refresh_interval: "1s" };
  await Deno.writeTextFile(file, JSON.stringify({ cloud: own }));
  const server = await startServer(file, {
    args: ["-allow-insecure-creds"],
    env: { SVC_HOME: folder, DENO_CERT: authority, ...machineEnv },
  });
  try {
    await server.wrote("machine is running");
    const { fqdn, localFqdn } = (await client(AppService, channel).getRobotPart({ id: partId })).part!;
    await work({ example, fqdn, localFqdn, ca, authority, folder, data, cloud, flags, server, channel });
  } finally {
    await server.stop();
    channel.close();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}
