/** A server of `program.ts` on a configuration that tests change under it. */

import { GenericService } from "../../proto/gen/generic_pb.ts";
import { ResourceStatus_State as State, RobotService } from "../../proto/gen/robot_pb.ts";
import { SensorService } from "../../proto/gen/sensor_pb.ts";
import { type RestartStatus, RuntimeProbe } from "../../lib/agent/supervise/probe.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { type ServerProcess, startServer } from "../support/server.ts";
import { FakeFiles } from "../support/fake_files.ts";

const clock = new SystemClock();
const PROGRAM = new URL("program.ts", import.meta.url).pathname;

export interface Bench {
  readonly folder: string;
  /** Where the configuration is. */
  readonly path: string;
  readonly server: ServerProcess;
}

/** `{ name, api, model }` of a generic part. */
export function part(name: string, attributes: JsonObject = {}): JsonObject {
  return { name, api: "rdk:component:generic", model: "part", attributes };
}

/** The sensor `gate`, and its first reading. */
export function gate(allowed: boolean): JsonObject {
  const attributes = { readings: { allowed } };
  return { name: "gate", api: "rdk:component:sensor", model: "settable", attributes };
}

/** A configuration as text, on a free port. */
export function text(config: JsonObject): string {
  return JSON.stringify({ network: { bind_address: "localhost:0" }, ...config });
}

export async function withServer(
  config: JsonObject,
  test: (bench: Bench) => Promise<void>,
  { args = [] as string[], env = {} as Record<string, string>, ready = "machine is running" } = {},
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-" });
  const path = `${folder}/machine.json`;
  await Deno.writeTextFile(path, text(config));
  const command = [Deno.execPath(), "run", "-A", PROGRAM];
  const server = await startServer(path, { command, args, env });
  try {
    await server.wrote(ready);
    await test({ folder, path, server });
  } finally {
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs `use` with a connection of its own. */
export async function withChannel<T>(url: string, use: (channel: Channel) => Promise<T>): Promise<T> {
  const channel = connectGrpc(new URL(url).host, { clock });
  try {
    return await use(channel);
  } finally {
    channel.close();
  }
}

/**
 * The machine's status in short: revision, and the state of every resource by name, with its error if it has one.
 * Default resources are left out.
 */
export function statusOf(url: string): Promise<{ revision: string; resources: Record<string, string> }> {
  return withChannel(url, async (channel) => {
    const { resources, config } = await client(RobotService, channel).getMachineStatus({});
    const configured = resources.filter(({ name }) => name!.subtype !== "motion");
    const states = configured.map(({ name, state, error }) => {
      const full = name!.namespace === "rdk"
        ? name!.name
        : `${name!.namespace}:${name!.type}:${name!.subtype}`;
      return [full, `${State[state].toLowerCase()}${error === "" ? "" : `: ${error}`}`];
    });
    return { revision: config!.revision, resources: Object.fromEntries(states) };
  });
}

/** Tells the sensor `gate` what to say. */
export function allow(url: string, allowed: JsonObject[string]): Promise<void> {
  return withChannel(url, async (channel) => {
    await client(SensorService, channel).doCommand({ name: "gate", command: { set: { allowed } } });
  });
}

/** Whether the generic component `name` answers. */
export function answers(url: string, name: string): Promise<boolean> {
  return withChannel(url, async (channel) => {
    return await client(GenericService, channel).getGeometries({ name }).then(() => true, () => false);
  });
}

/** What `GET /restart_status` says. */
export async function mayRestart(url: string): Promise<boolean> {
  const response = await fetch(`${url}/restart_status`);
  return (await response.json()).restart_allowed;
}

/** The same as an agent understands it. */
export async function restartStatus(url: string): Promise<RestartStatus | undefined> {
  const files = FakeFiles.with({ "serving.json": JSON.stringify({ url }) });
  return await new RuntimeProbe(files, clock, "serving.json", () => Promise.resolve(undefined))
    .restartStatus();
}
