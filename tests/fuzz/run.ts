/**
 * `deno task fuzz [TARGET…]`: changes good inputs of each reader of bytes from
 * outside, and looks for one at which it fails, hangs or takes memory without end. V8's block coverage guides the
 * search: an input that runs new code is kept in dist/fuzz/TARGET/, and later searches begin from there.
 *
 * A target is `area/reader`, or an area. Each has a process of its own. Prints a line for each; exit code 1 if there is
 * a fault, whose input lies in dist/fuzz/TARGET/faults/. `--case FILE` tries one input.
 */

import { begin, EXIT, type Terminal } from "../../cli/program.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { BlockCoverage } from "./coverage.ts";
import { type Fault, search } from "./search.ts";
import { attempt, INPUT_BYTES_MAX, type Target } from "./target.ts";
import { TARGETS } from "./targets.ts";
import { HEAD_BYTES } from "./watch_worker.ts";

const PROGRAM = {
  name: "deno task fuzz",
  summary: "Changes good inputs of every reader of bytes from outside, and looks for one at which it fails.",
  style: "gnu",
  usage: "[TARGET…] [flags]",
  flags: [
    { name: "seconds", type: "int", default: 20, help: "Time for each target." },
    { name: "seed", type: "int", default: 0, help: "Repeats a search; 0 draws one." },
    { name: "case", type: "string", default: "", value: "FILE", help: "Try one input of one target." },
    { name: "here", type: "bool", default: false, help: "Search one target in this process." },
  ],
} as const;

const HANG_MS = 10_000;
const RESIDENT_BYTES_MAX = 1.5 * 1024 ** 3;
const FOLDER = new URL("../../dist/fuzz/", import.meta.url);
const clock = new SystemClock();

interface Wanted {
  readonly seconds: number;
  readonly seed: number;
}

/** Searches one target in this process; returns whether it found no fault. */
async function searchHere(target: Target, { seconds, seed }: Wanted): Promise<boolean> {
  if (!await isOpened(target)) return true;
  const folder = new URL(`${target.name}/`, FOLDER);
  const faultFolder = new URL("faults/", folder);
  await Deno.mkdir(faultFolder, { recursive: true });

  const memory = new SharedArrayBuffer(HEAD_BYTES + 2 * INPUT_BYTES_MAX);
  const head = new Int32Array(memory, 0, 2);
  const input = new Uint8Array(memory, HEAD_BYTES);
  const watch = new Worker(new URL("./watch_worker.ts", import.meta.url), { type: "module" });
  const file = new URL("hang", faultFolder).pathname;
  watch.postMessage({ memory, file, limitMs: HANG_MS });

  const coverage = await BlockCoverage.start(target.covers);
  const stray: unknown[] = [];
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    stray.push(event.reason);
  });
  const beganMs = clock.monotonicMs();
  const endMs = beganMs + seconds * 1000;
  const { cases, inputs, faults, slowest } = await search(target, {
    seed,
    coverage,
    corpus: await corpusIn(folder),
    nowMs: () => clock.monotonicMs(),
    isOver: () => clock.monotonicMs() >= endMs || stray.length > 0 || residentBytes() > RESIDENT_BYTES_MAX,
    trying: (bytes) => {
      input.set(bytes.subarray(0, input.length));
      Atomics.store(head, 1, Math.min(bytes.length, input.length));
      Atomics.add(head, 0, 1);
    },
    // The runtime frees some memory only between two turns of its event loop.
    between: () => clock.sleep(0),
    kept: (bytes) => Deno.writeFileSync(new URL(`${sumOf(bytes)}`, folder), bytes),
  });
  coverage.stop();
  watch.terminate();
  await target.close?.();

  const found = [...faults, ...stray.map((error): Fault => ({ bytes: input.slice(0, head[1]), error }))];
  if (residentBytes() > RESIDENT_BYTES_MAX) {
    found.push({ bytes: input.slice(0, head[1]), error: new Error(`${megabytes()} MB are resident`) });
  }
  const rate = Math.round(cases / ((clock.monotonicMs() - beganMs) / 1000));
  console.log([
    target.name.padEnd(24),
    `${cases} cases`.padStart(14),
    `${rate}/s`.padStart(8),
    `${inputs} inputs`.padStart(12),
    `${coverage.letters} letters`.padStart(15),
    `slowest ${slowest.ms.toFixed(0)} ms`.padStart(17),
    `${megabytes()} MB`.padStart(8),
    `${found.length} faults`,
  ].join(" "));
  for (const { bytes, error } of found) {
    const path = new URL(sumOf(bytes), faultFolder).pathname;
    await Deno.writeFile(path, bytes);
    console.error(`${target.name} failed at an input of ${bytes.length} bytes, ${path}:`, error);
  }
  return found.length === 0;
}

/** Whether what the target needs is here; says what is missing. */
async function isOpened(target: Target): Promise<boolean> {
  const missing = await target.open?.();
  if (missing !== undefined) console.log(`${target.name.padEnd(24)} not run: ${missing}`);
  return missing === undefined;
}

async function corpusIn(folder: URL): Promise<Uint8Array[]> {
  const names: string[] = [];
  for await (const { name, isFile } of Deno.readDir(folder)) if (isFile) names.push(name);
  return await Promise.all(names.sort().map((name) => Deno.readFile(new URL(name, folder))));
}

/** FNV-1a: names files, guards nothing. */
function sumOf(bytes: Uint8Array): string {
  let sum = 0xcbf29ce484222325n;
  for (const byte of bytes) sum = ((sum ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  return sum.toString(16).padStart(16, "0");
}

function residentBytes(): number {
  return Deno.memoryUsage().rss;
}

function megabytes(): string {
  return (residentBytes() / 1e6).toFixed(0);
}

/** Searches a target in a process of its own, which a hang or a full memory ends. */
async function searchApart({ name }: Target, { seconds, seed }: Wanted): Promise<boolean> {
  const args = [
    "run",
    "-A",
    "--no-check",
    import.meta.filename!,
    name,
    "--here",
    `--seconds=${seconds}`,
    `--seed=${seed}`,
  ];
  const { code } = await new Deno.Command(Deno.execPath(), { args, stdin: "null" }).spawn().status;
  return code === 0;
}

async function tryCase(target: Target, file: string): Promise<boolean> {
  if (!await isOpened(target)) return true;
  const error = await attempt(target, await Deno.readFile(file));
  console.log(error ?? "no fault");
  await target.close?.();
  return error === undefined;
}

async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { values: { seconds, seed, case: file, here }, rest: names } = begun;
  const unknown = names.find((name) => !TARGETS.some((target) => isNamed(target, name)));
  if (unknown !== undefined) {
    terminal.writeError(
      `fuzz: unknown target ${unknown}, wanted one of ${TARGETS.map(({ name }) => name).join(", ")}\n`,
    );
    return EXIT.usage;
  }
  const targets = TARGETS.filter((one) => names.length === 0 || names.some((name) => isNamed(one, name)));
  const [first] = targets;
  if (file !== "") return await tryCase(first, file) ? EXIT.ok : EXIT.failed;

  const wanted = { seconds, seed: seed > 0 ? seed : crypto.getRandomValues(new Uint32Array(1))[0] };
  if (here) return await searchHere(first, wanted) ? EXIT.ok : EXIT.failed;

  terminal.write(`${targets.length} targets, ${wanted.seconds} s each, seed ${wanted.seed}\n`);
  let failed = 0;
  for (const target of targets) if (!await searchApart(target, wanted)) failed++;
  terminal.write(`${targets.length - failed} passed, ${failed} failed\n`);
  return failed === 0 ? EXIT.ok : EXIT.failed;
}

function isNamed({ name }: Target, wanted: string): boolean {
  return name === wanted || name.startsWith(`${wanted}/`);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
