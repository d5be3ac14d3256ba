/**
 * Checks format, rules and types of the tree, and runs its tests, or those of the files and folders that the arguments
 * name, in several processes of `deno test` at once: most tests wait for a program, a socket or a disk, so one process
 * leaves a computer idle.
 *
 * A process takes a batch of files. The output of a batch is printed when the batch has ended, so that the lines of
 * two batches never mix. At the end come the batches that took longest, those that took most of the processors,
 * and the output of each failed batch once more.
 * The last line counts all tests: `ok | 2221 passed | 0 failed | 12 ignored (10m)`.
 */

import { SystemClock } from "../lib/base/clock.ts";
import { prepareForeignPrograms } from "./interop/programs.ts";
import { LONGEST_FIRST } from "./longest.ts";
import { makeTemplates } from "./cloud/templates.ts";
import { POSTGRES_VARIABLE, postgresPrograms, startPostgres } from "./support/postgres.ts";
import { sourceFiles } from "./support/sources.ts";

const FOLDERS = ["cli/", "drivers/", "lib/", "proto/", "tests/"];
/** The tests of several files in one isolate. */
const BATCH_FILE = "tests/batch.ts";
const CODE = "beside the code";
/** Files in a batch of tests beside the code, which are quick. */
const QUICK_FILES = 12;
/** Files in a batch of `tests/`, which wait for programs. */
const FOLDER_FILES = 6;
/** Processes per core: each waits for something most of the time. */
const PER_CORE = 2;
const BATCH_MS = 25 * 60_000;
const LONGEST_SHOWN = 10;
const COSTLIEST_SHOWN = 30;
/**
 * A shell that runs a command and then prints what its processes have had of the processors, which Deno does not tell:
 * those that it has waited for, and theirs.
 */
const TIMED = ["-c", '"$@"; code=$?; times >&2; exit $code', "sh"];
/**
 * V8's options for the checks: most of what the compiler makes stays until its end, so that to look for garbage is in
 * vain. It takes a tenth less of the processors so.
 */
const CHECKS_V8 =
  "--single-threaded,--min-semi-space-size=64,--max-semi-space-size=64,--initial-heap-size=2500";
const ROOT = new URL("../", import.meta.url);

const clock = new SystemClock();

/** A command with the tests that it runs. */
interface Batch {
  readonly name: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The counts of a batch, from Deno's last line. */
interface Counted {
  passed: number;
  failed: number;
  ignored: number;
}

interface Outcome extends Counted {
  readonly name: string;
  readonly text: string;
  readonly seconds: number;
  /** Of the processors, by all its processes. */
  readonly processorSeconds: number;
}

/** The files to run: long ones alone, others together if their folders share what they import. */
async function batchesOf(wanted: readonly string[]): Promise<Batch[]> {
  const isWanted = (path: string) => wanted.some((name) => path === name || path.startsWith(`${name}/`));
  const files = (await sourceFiles(FOLDERS)).map(({ path }) => path)
    .filter((path) => path.endsWith("_test.ts") && (wanted.length === 0 || isWanted(path)));

  const long = LONGEST_FIRST.filter((path) => files.includes(path));
  const others = files.filter((path) => !long.includes(path));
  const { [CODE]: quick = [], ...folders } = Object.groupBy(others, folderOf);
  const batches = Object.values(folders).flatMap((paths) => chunksOf(paths ?? [], FOLDER_FILES));
  // The quick ones go last, so that all processes end at about the same time.
  batches.push(...chunksOf(quick, QUICK_FILES));
  return [...long.map((path) => [path]), ...batches].map((paths) => ({
    name: paths.join(" "),
    args: ["test", "-A", "--no-check", ...paths.length === 1 ? paths : [BATCH_FILE, "--", ...paths]],
  }));
}

/** Whose tests share batches: those of a folder of `tests/`, or all that are beside the code. */
function folderOf(path: string): string {
  return path.startsWith("tests/") ? path.replace(/[^/]*$/, "") : CODE;
}

function chunksOf(paths: readonly string[], size: number): string[][] {
  const count = Math.ceil(paths.length / size);
  return Array.from({ length: count }, (_, at) => paths.slice(at * size, (at + 1) * size));
}

/**
 * Runs a batch and prints its output. A process that ends badly without having counted a failure counts as one, and so
 * does one that has run no test: a file may have ended it before.
 */
async function runBatch({ name, args, env }: Batch): Promise<Outcome> {
  const startMs = clock.monotonicMs();
  const child = new Deno.Command("sh", {
    args: [...TIMED, Deno.execPath(), ...args],
    env,
    cwd: ROOT,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let late = false;
  const cancel = clock.after(BATCH_MS, () => {
    late = true;
    killCommandOf(child);
  });
  const { code, stdout, stderr } = await child.output();
  cancel();

  const { text: errors, seconds: processorSeconds } = withoutTimes(new TextDecoder().decode(stderr));
  let text = (new TextDecoder().decode(stdout) + errors).trimEnd();
  if (late) text += `\nkilled after ${BATCH_MS / 60_000} minutes: ${name}`;
  const counted = countOf(text);
  const hasRunNothing = args[0] === "test" && counted.passed + counted.ignored === 0;
  if (counted.failed === 0 && (code !== 0 || hasRunNothing)) {
    text += `\ndeno ended with ${code} and counted no failure${
      hasRunNothing ? ", nor any test" : ""
    }: ${name}`;
    counted.failed = 1;
  }
  console.log(text);
  return { ...counted, name, text, seconds: secondsSince(startMs), processorSeconds };
}

/** Kills what the shell runs, so that the shell comes to its end. */
function killCommandOf({ pid }: Deno.ChildProcess): void {
  const [command] = /\d+/.exec(Deno.readTextFileSync(`/proc/${pid}/task/${pid}/children`)) ?? [];
  if (command !== undefined) Deno.kill(Number(command), "SIGKILL");
}

/** What a command has written, and what its processes took of the processors: the second of the last two lines. */
function withoutTimes(errors: string): { readonly text: string; readonly seconds: number } {
  const time = String.raw`(\d+)m([\d.]+)s`;
  const lines = new RegExp(String.raw`.* .*\n${time} ${time}\n$`).exec(errors);
  if (!lines) return { text: errors, seconds: 0 };
  const [user, userRest, system, systemRest] = lines.slice(1).map(Number);
  return { text: errors.slice(0, lines.index), seconds: 60 * (user + system) + userRest + systemRest };
}

function secondsSince(startMs: number): number {
  return (clock.monotonicMs() - startMs) / 1000;
}

function plain(text: string): string[] {
  // deno-lint-ignore no-control-regex
  return text.replaceAll(/\x1b\[[0-9;]*m/g, "").split("\n");
}

/** The counts of the last line that `deno test` prints. */
function countOf(text: string): Counted {
  const last = plain(text).findLast((line) => /^(ok|FAILED) \| \d+ passed/.test(line)) ?? "";
  const count = (word: string) => Number(last.match(new RegExp(`(\\d+) ${word}`))?.[1] ?? 0);
  return { passed: count("passed"), failed: count("failed"), ignored: count("ignored") };
}

/** Runs the batches, some at once, in their order. */
async function runAll(queue: Batch[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const work = async () => {
    for (let batch = queue.shift(); batch; batch = queue.shift()) outcomes.push(await runBatch(batch));
  };
  await Promise.all(Array.from({ length: navigator.hardwareConcurrency * PER_CORE }, work));
  return outcomes;
}

function printLongest(outcomes: readonly Outcome[]): void {
  console.log("\nlongest:");
  const longest = outcomes.toSorted((one, other) => other.seconds - one.seconds).slice(0, LONGEST_SHOWN);
  for (const { name, seconds } of longest) printTime(seconds, name);
}

function printCostliest(outcomes: readonly Outcome[]): void {
  const sum = outcomes.reduce((all, { processorSeconds }) => all + processorSeconds, 0);
  const batches = outcomes.toSorted((one, other) => other.processorSeconds - one.processorSeconds);
  console.log(`\n${sum.toFixed(0)} s of the processors, most of them:`);
  for (const { name, processorSeconds } of batches.slice(0, COSTLIEST_SHOWN)) {
    printTime(processorSeconds, name);
  }
}

/** Of a batch only the first file is named. */
function printTime(seconds: number, name: string): void {
  const [first, ...others] = name.split(" ");
  const shown = first.endsWith(".ts") && others.length > 0 ? `${first} and ${others.length} others` : name;
  console.log(`${seconds.toFixed(0).padStart(5)} s  ${shown}`);
}

/** Shows what failed once more, where a reader of the log's end sees it. */
function printFailed(failed: readonly Outcome[]): void {
  for (const { name, text } of failed) console.log(`\n==== failed: ${name}\n${text}`);
  if (failed.length > 0) console.log();
  for (const { name } of failed) console.log(`failed in: ${name}`);
}

async function main(words: readonly string[]): Promise<number> {
  const startMs = clock.monotonicMs();
  const batches = await batchesOf(words.map((path) => path.replace(/^\.\//, "").replace(/\/$/, "")));
  if (batches.length === 0) {
    console.error(`no tests under ${words.join(" ")}: name a folder or a file that ends in _test.ts`);
    return 2;
  }
  const checks = { name: "deno task check", args: ["task", "check"], env: { DENO_V8_FLAGS: CHECKS_V8 } };

  const isWhole = words.length === 0;
  // Tests that need one of these wait for it; those that need none begin meanwhile.
  const preparing = isWhole ? prepareForeignPrograms() : undefined;
  const postgres = isWhole && postgresPrograms() ? startPostgres() : undefined;
  if (postgres) Deno.env.set(POSTGRES_VARIABLE, String(postgres.port));
  const removeTemplates = isWhole ? await makeTemplates({ withPostgres: postgres !== undefined }) : () => {};
  const outcomes = await runAll([checks, ...batches]).finally(() => {
    postgres?.stop();
    removeTemplates();
  });
  await preparing;

  const total = { passed: 0, failed: 0, ignored: 0 };
  for (const one of outcomes) {
    for (const word of ["passed", "failed", "ignored"] as const) total[word] += one[word];
  }
  printLongest(outcomes);
  printCostliest(outcomes);
  printFailed(outcomes.filter(({ failed }) => failed > 0));
  const verdict = total.failed === 0 ? "ok" : "FAILED";
  const minutes = (secondsSince(startMs) / 60).toFixed(1);
  console.log(
    `${verdict} | ${total.passed} passed | ${total.failed} failed | ${total.ignored} ignored (${minutes}m)`,
  );
  return total.failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
