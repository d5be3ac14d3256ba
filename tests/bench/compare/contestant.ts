/**
 * The programs that `deno task compare` measures, and how one of them is started and its figures taken.
 */

import { V8_FLAGS } from "../../../cli/v8_flags.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { GetMachineStatusResponse_State as MachineState, RobotService } from "../../../proto/gen/robot_pb.ts";
import { freePort } from "../../support/free_port.ts";
import { processorMs } from "../../support/server.ts";

export const ROOT = new URL("../../../", import.meta.url).pathname;
const START_MS_MAX = 60_000;
const LOOK_MS = 2;
/** Where a checkout has the program that maps a recording. */
export const MAPPER = "tests/bench/compare/map_recording.ts";
export const clock = new SystemClock();

/** A program with its first arguments. */
export type Command = readonly [program: string, ...args: string[]];

/** What a contestant may have; a mapper is as `map_recording.ts`. */
export type Role = "server" | "agent" | "cloud" | "mapper";

/** The programs of one maker. */
export interface Contestant {
  readonly name: string;
  readonly programs: Partial<Readonly<Record<Role, Command>>>;
}

export interface Running {
  readonly pid: number;
  readonly port: number;
  readonly channel: Channel;
  readonly folder: string;
  /** From the start of the process to its first accepted connection. */
  readonly listeningMs: number;
  /** Writes the file anew. */
  configure(config: object): Promise<void>;
}

/** Figures of one round, by their names. */
export type Figures = { readonly [name: string]: number };

/** Figures that a section adds one by one. */
export type OpenFigures = { [name: string]: number };

/** What is measured of programs of one role, once. */
export interface Section {
  readonly of: Role;
  measure(command: Command): Promise<Figures>;
}

/** The command for an executable, or for the `main.ts` of a checkout. */
export function commandOf(program: string): Command {
  return program.endsWith(".ts") ? [Deno.execPath(), "run", "-A", V8_FLAGS, program] : [program];
}

/** The contestant with a server, and with what lies beside it: the other programs of its checkout or build. */
export function contestantOf(name: string, server: string): Contestant {
  const checkout = /^(.*)cli\/server\/main\.ts$/.exec(server)?.[1];
  const folder = server.replace(/[^/]*$/, "");
  const paths = checkout === undefined ? { agent: `${folder}svc-agent`, cloud: `${folder}svc-cloud` } : {
    agent: `${checkout}cli/agent/main.ts`,
    cloud: `${checkout}cli/cloud/main.ts`,
    mapper: `${checkout}${MAPPER}`,
  };

  const beside = Object.entries(paths).filter(([, path]) => isFile(path));
  const programs = Object.fromEntries(beside.map(([role, path]) => [role, commandOf(path)]));
  return { name, programs: { server: commandOf(server), ...programs } };
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** Starts the server on a configuration, measures, and ends it. */
export async function withServer(
  [program, ...args]: Command,
  config: object,
  measure: (running: Running) => Promise<Figures>,
): Promise<Figures> {
  const folder = await Deno.makeTempDir({ prefix: "svc-compare-" });
  const [port, path] = [freePort(), `${folder}/machine.json`];
  const configure = async (wanted: object) => {
    const text = JSON.stringify({ ...wanted, network: { bind_address: `127.0.0.1:${port}` } });
    await Deno.writeTextFile(`${path}.new`, text);
    await Deno.rename(`${path}.new`, path);
  };
  await configure(config);

  const began = performance.now();
  const child = spawn([program, ...args, "-config", path], folder);
  let exitCode: number | undefined;
  void child.status.then(({ code }) => exitCode = code);
  try {
    await waitFor(async () => {
      if (exitCode !== undefined) return true;
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return true;
    }, `${program} does not listen`);
    if (exitCode !== undefined) throw new Error(`${program} ended with code ${exitCode} before it listened`);
    const listeningMs = performance.now() - began;
    const channel = connectGrpc(`127.0.0.1:${port}`, { clock });
    try {
      await waitFor(() => isAnswering(channel), `${program} does not answer`);
      return await measure({ pid: child.pid, port, channel, folder, listeningMs, configure });
    } finally {
      channel.close();
    }
  } finally {
    await endProcess(child);
    await Deno.remove(folder, { recursive: true });
  }
}

/** Asks a program to end, and waits until it has. */
export async function endProcess(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGTERM");
  } catch {
    // It has ended by itself.
  }
  await child.status;
}

/** Starts a program that keeps its files in a folder. From source, Deno keeps its cache where it has it. */
export function spawn([program, ...args]: Command, folder: string): Deno.ChildProcess {
  const home = program === Deno.execPath() ? {} as Record<string, string> : { HOME: folder };
  return new Deno.Command(program, {
    args,
    env: { ...home, SVC_HOME: `${folder}/home` },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
}

async function isAnswering(channel: Channel): Promise<boolean> {
  await client(RobotService, channel).resourceNames({});
  return true;
}

/** Waits until a resource is there. */
export async function hasResource({ channel }: Pick<Running, "channel">, name: string): Promise<void> {
  const robot = client(RobotService, channel);
  const isThere = async () => {
    const { resources } = await robot.resourceNames({});
    return resources.some((one) => one.name === name);
  };
  await waitFor(isThere, `the resource ${name} does not appear`);
}

/** Waits until the whole configuration is built. */
export async function isBuilt({ channel }: Pick<Running, "channel">): Promise<void> {
  const robot = client(RobotService, channel);
  const isRunning = async () => (await robot.getMachineStatus({})).state === MachineState.RUNNING;
  await waitFor(isRunning, "the machine is not running");
}

/** Asks every few milliseconds; a refusal is a no. */
export async function waitFor(isSo: () => Promise<boolean>, problem: string): Promise<void> {
  const endMs = performance.now() + START_MS_MAX;
  while (!await isSo().catch(() => false)) {
    if (performance.now() > endMs) throw new Error(problem);
    await clock.sleep(LOOK_MS);
  }
}

/** So many calls by so many callers. */
export async function callsOf(
  call: () => Promise<unknown>,
  concurrency: number,
  count: number,
): Promise<void> {
  let left = count;
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (left-- > 0) await call();
  }));
}

/** Adds the calls a second of `work`, and what each takes of the server's processor. */
export async function addRate(
  figures: OpenFigures,
  name: string,
  { pid }: Pick<Running, "pid">,
  count: number,
  work: () => Promise<void>,
): Promise<void> {
  const [beganMs, beforeMs] = [performance.now(), await processorMs(pid)];
  await work();
  figures[`${name}, a second`] = count / ((performance.now() - beganMs) / 1000);
  figures[`${name}: processor time of each, µs`] = (await processorMs(pid) - beforeMs) / count * 1000;
}
