/**
 * How long programs take until they serve, beside one that does nothing: from source, and as executables where there are
 * some in dist/.
 *
 * Figures are time of the processor, which a busy computer stretches less than time on the clock; the least of several
 * starts, in turns, so that what else the computer does meets all of them alike.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { CameraService } from "../../proto/gen/camera_pb.ts";
import { processorMs, residentBytes, writeConfig } from "../support/server.ts";
import { until } from "../support/until.ts";
import { heading, row } from "./figures.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const STARTS = 7;
const DEADLINE_MS = 60_000;

interface Start {
  readonly name: string;
  readonly command: readonly string[];
  /** The least that was seen; `startMs` on the clock. */
  processorMs: number;
  startMs: number;
  residentBytes: number;
}

/** Start to serving, as a multiple of nothing's; and the demo. */
export async function start(): Promise<void> {
  await demoPictures();
  const demo = JSON.parse(await Deno.readTextFile(`${ROOT}examples/demo.json`));
  const config = await writeConfig({ ...demo, network: {} });
  const board = { name: "board", api: "rdk:component:board", model: "fake" };
  const small = await writeConfig({ components: [board], network: { no_tls: true } });
  const source = [Deno.execPath(), "run", "-A"];
  try {
    heading("start to serving, from source (time of the processor; example machine)");
    await compare([
      begun("a program that does nothing", [...source, `${ROOT}cli/build/empty.ts`]),
      begun("svc-server", [...source, `${ROOT}cli/server/main.ts`, "-config", config]),
      begun("svc-micro-server, one board", [...source, `${ROOT}cli/micro/main.ts`, "-config", small]),
    ]);
    const folder = await executables();
    if (folder === undefined) {
      return row("executables", "none in dist/: make them with deno task compile, or compile:check");
    }
    heading(`start to serving, executables (${folder.slice(ROOT.length)})`);
    await compare([
      begun("a program that does nothing", [`${folder}/empty`]),
      begun("svc-server", [`${folder}/svc-server`, "-config", config]),
      begun("svc-micro-server, one board", [`${folder}/svc-micro-server`, "-config", small]),
    ]);
  } finally {
    await Promise.all([config, small].map((path) => Deno.remove(path)));
  }
}

function begun(name: string, command: readonly string[]): Start {
  return { name, command, processorMs: Infinity, startMs: Infinity, residentBytes: Infinity };
}

/** The first of `starts` is what the others are compared with. */
async function compare(starts: readonly Start[]): Promise<void> {
  for (let turn = 0; turn < STARTS; turn++) for (const one of starts) await measure(one);
  const [nothing] = starts;
  for (const one of starts) {
    row(
      one.name,
      `${one.processorMs.toFixed(0)} ms`,
      `${(one.processorMs / nothing.processorMs).toFixed(1)} x nothing`,
      `on the clock ${(one.startMs / nothing.startMs).toFixed(1)} x`,
      `${(one.residentBytes / 1e6).toFixed(0)} MB`,
    );
  }
}

/** Starts it, waits for the address that it prints, and ends it. */
async function measure(one: Start): Promise<void> {
  const began = performance.now();
  const [program, ...args] = one.command;
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const child = new Deno.Command(program, { args, stdout: "piped", stderr: "null", stdin: "null", signal })
    .spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  try {
    await addressFrom(output, program);
    one.startMs = Math.min(one.startMs, performance.now() - began);
    one.processorMs = Math.min(one.processorMs, await processorMs(child.pid));
    one.residentBytes = Math.min(one.residentBytes, await residentBytes(child.pid));
  } finally {
    child.kill("SIGKILL");
    await output.cancel();
    await child.status;
  }
}

/** The host and port that a starting program prints. */
async function addressFrom(output: ReadableStreamDefaultReader<string>, program: string): Promise<string> {
  for (let printed = "";;) {
    const { value, done } = await output.read();
    if (done) throw new Error(`${program} ended without serving:\n${printed}`);
    printed += value;
    const [, address] = /http:\/\/([\w.:[\]-]+:\d+)\D/.exec(printed) ?? [];
    if (address !== undefined) return address;
  }
}

/** README's first command, until it answers with a picture of its camera. */
async function demoPictures(): Promise<void> {
  heading("the demo (deno task demo) until its first picture");
  const began = performance.now();
  const elapsed = () => `${((performance.now() - began) / 1000).toFixed(2)} s`;
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["task", "demo"],
    cwd: ROOT,
    stdout: "piped",
    stderr: "null",
    stdin: "null",
    signal,
  }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  try {
    const address = await addressFrom(output, "deno task demo");
    const served = elapsed();
    const channel = connectGrpc(address, { clock: new SystemClock() });
    const camera = client(CameraService, channel);
    const isPictured = () =>
      camera.getImages({ name: "camera1" }).then(({ images }) => images.length > 0, () => false);
    await until(isPictured);
    row("deno task demo", `address after ${served}`, `picture after ${elapsed()}`);
    channel.close();
  } finally {
    child.kill("SIGINT");
    await output.cancel();
    await child.status;
  }
}

/** Where there are released executables, or else those that compile:check made with the older runtime. */
export async function executables(): Promise<string | undefined> {
  const target = `${Deno.build.os}-${Deno.build.arch === "x86_64" ? "x64" : "arm64"}`;
  for (const folder of ["dist", "dist/check"]) {
    const path = `${ROOT}${folder}/${target}`;
    const wanted = ["empty", "svc-server", "svc-micro-server"];
    const there = await Promise.all(
      wanted.map((name) => Deno.stat(`${path}/${name}`).then(() => true, () => false)),
    );
    if (there.every((one) => one)) return path;
  }
  return undefined;
}
