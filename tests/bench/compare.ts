/**
 * `deno task compare [SECTION…] --peer PROGRAM`: this svc-server beside other programs that take the same configuration,
 * on the same work in the same run, in turns. A peer is an executable, or the `main.ts` of another checkout.
 *
 * Prints a table in Markdown: the median of the rounds with the least and the most, and for each peer the ratio by which
 * this one is better. The client is the same for all, in this process: where calls are fast, its own time is a part of
 * what is measured, so rates say less than the time of the processor that the server takes.
 */

import { Buffer } from "node:buffer";
import { begin, EXIT, type Terminal } from "../../cli/program.ts";
import { V8_FLAGS } from "../../cli/v8_flags.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { framed } from "../../lib/wire/rpc/message.ts";
import { create, toBinary } from "../../lib/wire/rpc/proto.ts";
import { dialWebRtc } from "../../lib/wire/signaling/dialer.ts";
import { BoardService, GetGPIORequestSchema } from "../../proto/gen/board_pb.ts";
import { CameraService } from "../../proto/gen/camera_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { freePort } from "../support/free_port.ts";
import { processorMs, residentBytes } from "../support/server.ts";
import { executables } from "./start_bench.ts";

const PROGRAM = {
  name: "deno task compare",
  summary: "Measures svc-server beside other programs on the same work, in turns.",
  style: "gnu",
  usage: "[SECTION…] [flags]",
  flags: [
    {
      name: "peer",
      type: "list",
      default: [] as readonly string[],
      value: "PROGRAM",
      help: "An executable, or the main.ts of another checkout; again for several.",
    },
    { name: "rounds", type: "int", default: 5, help: "Measurements of each figure." },
  ],
} as const;

const ROOT = new URL("../../", import.meta.url).pathname;
const START_MS_MAX = 60_000;
const REST_MS = 2000;
const CALLS_OF_MEMORY = 33_000;
const RESOURCES = 1000;
const clock = new SystemClock();

interface Contestant {
  readonly name: string;
  /** The program with its first arguments, before `-config`. */
  readonly command: readonly string[];
}

interface Running {
  readonly pid: number;
  readonly port: number;
  readonly channel: Channel;
  /** From the start of the process to its first accepted connection. */
  readonly listeningMs: number;
  /** Writes the file anew. */
  configure(config: object): Promise<void>;
}

/** Figures of one round, by their names. */
type Figures = { readonly [name: string]: number };

/** Figures of which less is better end with these units; of others more is better. */
const LESS_IS_BETTER = /, (ms|µs|MB)$/;

const SECTIONS: { readonly [name: string]: (one: Contestant) => Promise<Figures> } = {
  start: (one) =>
    withProgram(one, demoConfig(), async ({ pid, listeningMs }) => {
      const processor = await processorMs(pid);
      await clock.sleep(REST_MS);
      return {
        "listening, ms": listeningMs,
        "processor time until then, ms": processor,
        "idle memory, MB": await residentBytes(pid) / 1e6,
      };
    }),
  memory: (one) =>
    withProgram(one, demoConfig(), async ({ pid, channel }) => {
      await callsOf(channel, 64, CALLS_OF_MEMORY);
      return { [`memory after ${CALLS_OF_MEMORY} calls, MB`]: await residentBytes(pid) / 1e6 };
    }),
  calls: (one) =>
    withProgram(one, demoConfig(), async (running) => {
      await callsOf(running.channel, 16, 2000);
      const figures: { [name: string]: number } = {};
      for (const [concurrency, count] of [[1, 2000], [16, 8000], [64, 8000], [256, 8000]]) {
        await timed(running, `gRPC calls, ${concurrency} at once`, figures, count, () => {
          return callsOf(running.channel, concurrency, count);
        });
      }
      return figures;
    }),
  web: (one) =>
    withProgram(one, demoConfig(), async (running) => {
      const figures: { [name: string]: number } = {};
      await webCalls(running.port, 16, 500);
      for (const concurrency of [1, 16]) {
        await timed(running, `gRPC-web calls, ${concurrency} at once`, figures, 2000, () => {
          return webCalls(running.port, concurrency, 2000);
        });
      }
      return figures;
    }),
  webrtc: (one) =>
    withProgram(one, demoConfig(), async (running) => {
      const figures: { [name: string]: number } = {};
      const peer = await dialWebRtc({ signaling: running.channel, host: `127.0.0.1:${running.port}`, clock });
      try {
        await callsOf(peer, 16, 500);
        for (const concurrency of [1, 64]) {
          await timed(running, `WebRTC calls, ${concurrency} at once`, figures, 2000, () => {
            return callsOf(peer, concurrency, 2000);
          });
        }
      } finally {
        peer.close();
      }
      return figures;
    }),
  resources: async (one) => {
    const began = performance.now();
    return await withProgram(one, { components: generics(RESOURCES) }, async (running) => {
      await hasResource(running.channel, `g${RESOURCES - 1}`);
      const builtMs = performance.now() - began;
      const memory = await residentBytes(running.pid) / 1e6;
      const savedMs = performance.now();
      await running.configure({ components: generics(RESOURCES + 1) });
      await hasResource(running.channel, `g${RESOURCES}`);
      return {
        [`start with ${RESOURCES} resources, ms`]: builtMs,
        [`memory with ${RESOURCES} resources, MB`]: memory,
        "one resource added among them, ms": performance.now() - savedMs,
      };
    });
  },
  configuration: (one) =>
    withProgram(one, { components: generics(10) }, async (running) => {
      await hasResource(running.channel, "g9");
      const savedMs = performance.now();
      await running.configure({ components: generics(11) });
      await hasResource(running.channel, "g10");
      return { "configuration saved to applied, ms": performance.now() - savedMs };
    }),
  cameras: (one) => {
    const camera = { name: "camera1", api: "rdk:component:camera", model: "fake" };
    return withProgram(one, { components: [camera] }, async (running) => {
      await hasResource(running.channel, "camera1");
      const cameras = client(CameraService, running.channel);
      const figures: { [name: string]: number } = {};
      const ways: [name: string, call: () => Promise<unknown>][] = [
        ["pictures of a camera", () => cameras.getImages({ name: "camera1" })],
        [
          "point clouds of a camera",
          () => cameras.getPointCloud({ name: "camera1", mimeType: "pointcloud/pcd" }),
        ],
      ];
      for (const [name, call] of ways) {
        await repeated(call, 1, 20);
        await timed(running, name, figures, 100, () => repeated(call, 1, 100));
      }
      return figures;
    });
  },
};

/** Calls a second, and what each takes of the server's processor. */
async function timed(
  { pid }: Running,
  name: string,
  figures: { [name: string]: number },
  count: number,
  work: () => Promise<void>,
): Promise<void> {
  const [beganMs, beforeMs] = [performance.now(), await processorMs(pid)];
  await work();
  figures[`${name}, a second`] = count / ((performance.now() - beganMs) / 1000);
  figures[`${name}: processor time of each, µs`] = (await processorMs(pid) - beforeMs) / count * 1000;
}

function demoConfig(): object {
  const { components, services } = JSON.parse(Deno.readTextFileSync(`${ROOT}examples/demo.json`));
  return { components, services };
}

function generics(count: number): object[] {
  return Array.from(
    { length: count },
    (_, at) => ({ name: `g${at}`, api: "rdk:component:generic", model: "fake" }),
  );
}

async function callsOf(channel: Channel, concurrency: number, count: number): Promise<void> {
  const board = client(BoardService, channel);
  await repeated(() => board.getGPIO({ name: "board1", pin: "20" }), concurrency, count);
}

/** The same calls as browsers make them. */
async function webCalls(port: number, concurrency: number, count: number): Promise<void> {
  const message = toBinary(GetGPIORequestSchema, create(GetGPIORequestSchema, { name: "board1", pin: "20" }));
  const url = `http://127.0.0.1:${port}/${BoardService.typeName}/GetGPIO`;
  const request = {
    method: "POST",
    headers: { "content-type": "application/grpc-web+proto", "x-grpc-web": "1" },
    body: new Uint8Array(framed(message)),
  };
  await repeated(
    async () => {
      const bytes = Buffer.from(await (await fetch(url, request)).arrayBuffer());
      if (!bytes.includes("grpc-status: 0") && !bytes.includes("grpc-status:0")) {
        throw new Error(
          `${url} failed: ${bytes}`,
        );
      }
    },
    concurrency,
    count,
  );
}

async function repeated(call: () => Promise<unknown>, concurrency: number, count: number): Promise<void> {
  let left = count;
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (left-- > 0) await call();
  }));
}

async function hasResource(channel: Channel, name: string): Promise<void> {
  const robot = client(RobotService, channel);
  const isThere = async () => {
    const { resources } = await robot.resourceNames({});
    return resources.some((one) => one.name === name);
  };
  await until(isThere, `the resource ${name} does not appear`);
}

async function until(isSo: () => Promise<boolean>, problem: string): Promise<void> {
  const endMs = performance.now() + START_MS_MAX;
  while (!await isSo().catch(() => false)) {
    if (performance.now() > endMs) throw new Error(problem);
    await clock.sleep(2);
  }
}

async function withProgram(
  { name, command: [program, ...args] }: Contestant,
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
  const env = { HOME: folder, SVC_HOME: `${folder}/home` };
  const child = new Deno.Command(program, {
    args: [...args, "-config", path],
    env: program === Deno.execPath() ? { SVC_HOME: env.SVC_HOME } : env,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    await until(async () => {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return true;
    }, `${name} does not listen`);
    const listeningMs = performance.now() - began;
    const channel = connectGrpc(`127.0.0.1:${port}`, { clock });
    try {
      await until(
        () => client(RobotService, channel).resourceNames({}).then(() => true),
        `${name} does not answer`,
      );
      return await measure({ pid: child.pid, port, channel, listeningMs, configure });
    } finally {
      channel.close();
    }
  } finally {
    child.kill("SIGTERM");
    await child.status;
    await Deno.remove(folder, { recursive: true });
  }
}

/** The figures of all rounds, by contestant and name. */
async function measured(
  section: (one: Contestant) => Promise<Figures>,
  contestants: readonly Contestant[],
  rounds: number,
): Promise<ReadonlyMap<string, readonly (readonly number[])[]>> {
  const all = new Map<string, number[][]>();
  for (let round = 0; round < rounds; round++) {
    for (const [at, one] of contestants.entries()) {
      for (const [name, value] of Object.entries(await section(one))) {
        const columns = all.get(name) ?? contestants.map(() => []);
        columns[at].push(value);
        all.set(name, columns);
      }
    }
  }
  return all;
}

function summary(values: readonly number[]): { median: number; text: string } {
  const sorted = values.toSorted((a, b) => a - b);
  const median = sorted[sorted.length >> 1];
  const shown = (value: number) => value.toFixed(value < 100 ? 1 : 0);
  return { median, text: `${shown(median)} (${shown(sorted[0])}–${shown(sorted.at(-1)!)})` };
}

/** A row: ours, then each peer with the ratio by which ours is better. */
function row(name: string, columns: readonly (readonly number[])[]): string {
  const [ours, ...peers] = columns.map(summary);
  const cells = peers.flatMap(({ median, text }) => {
    const ratio = LESS_IS_BETTER.test(name) ? median / ours.median : ours.median / median;
    return [text, `${ratio.toFixed(2)} ×`];
  });
  return `| ${[name, ours.text, ...cells].join(" | ")} |`;
}

function commandOf(program: string): readonly string[] {
  return program.endsWith(".ts") ? [Deno.execPath(), "run", "-A", V8_FLAGS, program] : [program];
}

async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { values: { peer: peers, rounds }, rest } = begun;
  const names = rest.length > 0 ? rest : Object.keys(SECTIONS);
  const unknown = names.find((name) => !Object.hasOwn(SECTIONS, name));
  if (unknown !== undefined || rounds < 1) {
    const problem = unknown === undefined
      ? `--rounds ${rounds}, wanted at least 1`
      : `unknown section ${unknown}, wanted some of ${Object.keys(SECTIONS).join(", ")}`;
    terminal.writeError(`compare: ${problem}\n`);
    return EXIT.usage;
  }

  const folder = await executables();
  const own = folder === undefined ? `${ROOT}cli/server/main.ts` : `${folder}/svc-server`;
  const contestants = [
    { name: `svc-server (${own.slice(ROOT.length)})`, command: commandOf(own) },
    ...peers.map((program) => ({ name: program, command: commandOf(program) })),
  ];
  const heads = ["", contestants[0].name, ...peers.flatMap((program) => [program, "better by"])];
  terminal.write(`| ${heads.join(" | ")} |\n|${" --- |".repeat(heads.length)}\n`);
  for (const name of names) {
    const figures = await measured(SECTIONS[name], contestants, rounds);
    for (const [figure, columns] of figures) terminal.write(`${row(figure, columns)}\n`);
  }
  return EXIT.ok;
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
