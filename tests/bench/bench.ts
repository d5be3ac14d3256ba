/**
 * `deno task bench`: how fast the runtime starts, answers, streams and builds, and how much memory it takes.
 *
 * Every figure is measured here and now; compare the ratios of one run, not the milliseconds of two machines. The
 * server is always a process of its own. Executables are measured if dist/ has them.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { BoardService } from "../../proto/gen/board_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SLAMService } from "../../proto/gen/slam_pb.ts";
import { residentBytes, type ServerProcess, startServer, withDemo, writeConfig } from "../support/server.ts";
import { agent } from "./agent_bench.ts";
import { clouds } from "./cloud_bench.ts";
import { config } from "./config_bench.ts";
import { fleet } from "./fleet_bench.ts";
import { heading, median, rate, row } from "./figures.ts";
import { logs } from "./log_bench.ts";
import { changes, ends, plans } from "./machine_bench.ts";
import { modules } from "./module_bench.ts";
import { obstacles } from "./obstacles_bench.ts";
import { executables, start } from "./start_bench.ts";
import { traffic } from "./traffic_bench.ts";
import { web } from "./web_bench.ts";
import { webrtc } from "./webrtc_bench.ts";
import { wire } from "./wire_bench.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SERVER = `${ROOT}cli/server/main.ts`;
/** The number of calls of the published figures of memory. */
const CALLS = 33_000;
const EMPTY_SERVER =
  'Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => console.log("listening") }, () => new Response())';
const clock = new SystemClock();

const sections: Record<string, () => Promise<void>> = {
  start: starts,
  memory,
  calls,
  wire,
  webrtc,
  streams,
  resources,
  plans,
  changes,
  config,
  clouds,
  ends,
  logs,
  obstacles,
  agent,
  modules,
  traffic,
  web,
  fleet,
};
for (const name of Deno.args.length > 0 ? Deno.args : Object.keys(sections)) {
  const section = sections[name];
  if (!section) {
    console.error(`bench: unknown section "${name}", there are ${Object.keys(sections).join(", ")}`);
    Deno.exit(2);
  }
  await section();
}

/** `-version` beside a program that does nothing, and the start of servers. */
async function starts(): Promise<void> {
  const source = [Deno.execPath(), "run", "-A"], folder = await executables();
  await versions("from source", [Deno.execPath(), "eval", ""], [...source, SERVER]);
  if (folder !== undefined) {
    await versions("executables", [`${folder}/empty`, "end"], [`${folder}/svc-server`]);
  }
  await start();
}

async function versions(what: string, empty: readonly string[], server: readonly string[]): Promise<void> {
  heading(`an answer, ${what}`);
  const timed = ([program, ...args]: readonly string[]) =>
    median(async () => {
      const began = performance.now();
      await new Deno.Command(program, { args }).output();
      return performance.now() - began;
    });
  const nothing = await timed(empty), version = await timed([...server, "-version"]);
  row("an empty program", `${nothing.toFixed(0)} ms`);
  row("-version", `${version.toFixed(0)} ms`, `${(version / nothing).toFixed(1)} x empty`);
}

/** Resident memory at rest, beside that of a server that does nothing, and after many calls. */
async function memory(): Promise<void> {
  await memoryOf("from source", [Deno.execPath(), "eval", EMPTY_SERVER]);
  const folder = await executables();
  if (folder !== undefined) await memoryOf("executables", [`${folder}/empty`], [`${folder}/svc-server`]);
}

async function memoryOf(what: string, empty: readonly string[], command?: string[]): Promise<void> {
  heading(`resident memory (example machine, ${what})`);
  // The least of several, because now and then a start takes some ten megabytes more.
  let nothing = Infinity;
  for (let start = 0; start < 5; start++) nothing = Math.min(nothing, await emptyServerBytes(empty));
  row("an empty server", megabytes(nothing));
  await withDemo(
    async (server) => {
      const idle = await residentBytes(server.pid);
      row("idle", megabytes(idle), `${(idle / nothing).toFixed(2)} x empty`);
      const channel = connectGrpc(new URL(server.url).host, { clock });
      const board = client(BoardService, channel);
      await load(() => board.getGPIO({ name: "board1", pin: "20" }), 64, CALLS);
      const after = await residentBytes(server.pid);
      row(`after ${CALLS} calls, 64 at once`, megabytes(after), `${(after / idle).toFixed(2)} x idle`);
      channel.close();
    },
    [],
    command,
  );
}

async function emptyServerBytes([program, ...args]: readonly string[]): Promise<number> {
  const child = new Deno.Command(program, { args, stdout: "piped" }).spawn();
  const output = child.stdout.getReader();
  try {
    await output.read();
    return await residentBytes(child.pid);
  } finally {
    child.kill();
    await output.cancel();
    await child.status;
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}

async function calls(): Promise<void> {
  heading("unary calls (GetGPIO of the fake board)");
  await withServer({}, async ({ url }) => {
    const channel = connectGrpc(new URL(url).host, { clock });
    const board = client(BoardService, channel);
    const call = () => board.getGPIO({ name: "board1", pin: "20" });
    await load(call, 8, 2000);
    const one = await load(call, 1, 4000);
    const many = await load(call, 64, 20_000);
    row("concurrency 1", rate(one.perSecond), latency(one));
    row("concurrency 64", rate(many.perSecond), latency(many));
    row("64 over 1", `${(many.perSecond / one.perSecond).toFixed(2)} x throughput`);
    channel.close();
  });
}

async function streams(): Promise<void> {
  heading("server streaming (point cloud map of the fake SLAM service)");
  const config = { services: [{ name: "slam1", api: "rdk:service:slam", model: "fake" }] };
  await withServer(config, async ({ url }) => {
    const channel = connectGrpc(new URL(url).host, { clock });
    const slam = client(SLAMService, channel);
    const began = performance.now();
    let messages = 0;
    let bytes = 0;
    while (performance.now() - began < 3000) {
      for await (const { pointCloudPcdChunk } of slam.getPointCloudMap({ name: "slam1" })) {
        messages++;
        bytes += pointCloudPcdChunk.length;
      }
    }
    const seconds = (performance.now() - began) / 1000;
    row("one stream after another", rate(messages / seconds), `${(bytes / seconds / 1e6).toFixed(1)} MB/s`);
    channel.close();
  });
}

async function resources(): Promise<void> {
  heading("resident memory and time to build (10 levels of generic components)");
  let idleMb = 0;
  for (const count of [0, 100, 1000]) {
    const components = levelled(count, 10);
    await withServer({ components, services: [] }, async (server) => {
      const builtMs = await sinceServing(server);
      const residentMb = await residentBytes(server.pid) / 1e6;
      if (count === 0) idleMb = residentMb;
      const more = count === 0 ? "" : `${((residentMb - idleMb) * 1000 / count).toFixed(1)} kB a resource`;
      row(`${count} resources`, `${residentMb.toFixed(0)} MB`, `built in ${builtMs} ms`, more);
    });
  }
}

/** Milliseconds between the lines that say it serves and that the machine is running, by its own log. */
async function sinceServing(server: ServerProcess): Promise<number> {
  await server.wrote("machine is running");
  const at = (text: string) =>
    Date.parse(server.output().split("\n").find((one) => one.includes(text))!.split("\t")[0]);
  return at("machine is running") - at('"url":"');
}

/** Generic components in `levels` layers, each of which uses one of the layer before. */
function levelled(count: number, levels: number): Record<string, unknown>[] {
  const width = count / levels;
  return Array.from({ length: count }, (_, index) => ({
    name: `g${index}`,
    api: "rdk:component:generic",
    model: "fake",
    depends_on: index < width ? [] : [`g${index - width}`],
  }));
}

interface Load {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

async function load(call: () => Promise<unknown>, concurrency: number, count: number): Promise<Load> {
  const took: number[] = [];
  let left = count;
  const began = performance.now();
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (left-- > 0) {
      const start = performance.now();
      await call();
      took.push(performance.now() - start);
    }
  }));
  const seconds = (performance.now() - began) / 1000;
  took.sort((a, b) => a - b);
  const at = (share: number) => took[Math.min(took.length - 1, Math.floor(took.length * share))];
  return { perSecond: took.length / seconds, p50Ms: at(0.5), p99Ms: at(0.99) };
}

async function withServer<T>(
  config: Record<string, unknown>,
  use: (server: ServerProcess) => Promise<T>,
): Promise<T> {
  const demo = JSON.parse(await Deno.readTextFile(`${ROOT}examples/demo.json`));
  const path = await writeConfig({ ...demo, network: {}, ...config });
  const server = await startServer(path);
  try {
    const channel = connectGrpc(new URL(server.url).host, { clock });
    const { platform } = await client(RobotService, channel).getVersion({});
    channel.close();
    if (platform !== "rdk") throw new SvcError("internal", `not a machine: ${platform}`);
    return await use(server);
  } finally {
    await server.stop();
    await Deno.remove(path);
  }
}

function latency({ p50Ms, p99Ms }: Load): string {
  return `p50 ${p50Ms.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms`;
}
