/** A svc-server of its own process with modules, for tests of modules that are written with our library. */

import { assertEquals } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { type Channel, client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { type ServerProcess, startServer } from "../support/server.ts";
import { until } from "../support/until.ts";

export const ROOT = new URL("../../", import.meta.url).pathname;

/** How a module of this tree is run. */
export function fromSource(path: string): string[] {
  return [Deno.execPath(), "run", "-A", "--config", `${ROOT}deno.json`, `${ROOT}${path}`];
}

export interface ModuleMachine {
  readonly folder: string;
  readonly server: ServerProcess;
  readonly channel: Channel;
  readonly robot: ServiceClient<typeof RobotService>;
  /** Why resources are not ready, by name; empty when all are. */
  sick(): Promise<Record<string, string>>;
  /** Resolves when every resource is ready. */
  ready(): Promise<void>;
  /** Replaces the configuration. */
  write(config: JsonObject): Promise<void>;
}

/** Makes a program of a command, as modules are configured. */
export async function programOf(folder: string, name: string, command: readonly string[]): Promise<string> {
  const path = `${folder}/${name}.sh`;
  const words = command.map((word) => `'${word}'`).join(" ");
  await Deno.writeTextFile(path, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
  return path;
}

/** Runs `use` beside a machine. `modules` are commands by name. */
export async function withModules(
  modules: Readonly<Record<string, readonly string[]>>,
  config: JsonObject,
  use: (machine: ModuleMachine) => Promise<void>,
  args: string[] = [],
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-sdk-" });
  const programs = await Promise.all(
    Object.entries(modules).map(async ([name, command]) => {
      const program = await programOf(folder, name, command);
      return { name, executable_path: program, env: { VIAM_MODULE_ROOT: ROOT } };
    }),
  );
  const path = `${folder}/machine.json`;
  const write = (config: JsonObject) => {
    const whole = { network: { bind_address: "localhost:0" }, modules: programs, ...config };
    return Deno.writeTextFile(path, JSON.stringify(whole));
  };
  await write(config);
  const server = await startServer(path, { args, env: { SVC_HOME: folder } });
  const channel = connectGrpc(new URL(server.url).host, { clock: new SystemClock() });
  const robot = client(RobotService, channel);
  const sick = async () => {
    const { resources } = await robot.getMachineStatus({});
    const not = resources.filter(({ error, state }) => error !== "" || state !== 3);
    return Object.fromEntries(not.map(({ name, error, state }) => [name!.name, error || `state ${state}`]));
  };
  const ready = async () => {
    let found: Record<string, string> = {};
    await until(async () => {
      const { resources } = await robot.getMachineStatus({});
      found = await sick();
      return resources.length > 1 && Object.keys(found).length === 0;
    }, { found: () => `${JSON.stringify(found)}\n${server.output()}` });
  };
  try {
    await use({ folder, server, channel, robot, sick, ready, write });
  } finally {
    channel.close();
    const code = await server.stop();
    await Deno.remove(folder, { recursive: true });
    assertEquals(code, 0, server.output());
  }
}
