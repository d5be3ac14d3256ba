/**
 * Runs the tests of the tree, or of the files and folders that the arguments name, in several processes of
 * `deno test` at once: most tests wait for a program, a socket or a disk, so one process leaves a computer idle.
 *
 * A process takes a batch of files. The output of a batch is printed when the batch has ended, so that the lines of
 * two batches never mix. The last line counts all tests: `ok | 2221 passed | 0 failed | 12 ignored (10m)`.
 */

import { SystemClock } from "../lib/base/clock.ts";
import { sourceFiles } from "./support/sources.ts";

const FOLDERS = ["cli/", "drivers/", "lib/", "proto/", "tests/"];
/** Batches that take minutes; the other batches fill the time beside them. */
const LONGEST_FIRST = [
  "tests/attack/cloud_test.ts",
  "tests/attack/wire_test.ts",
  "tests/docs/sessions_test.ts",
  "tests/interop/interop_test.ts",
];
/** Files in a batch of quick tests, where the start of a process would cost more than the tests. */
const QUICK_FILES = 12;
const BATCH_MS = 20 * 60_000;
const ROOT = new URL("../", import.meta.url);

/** The counts of a batch, from Deno's last line. */
interface Counted {
  passed: number;
  failed: number;
  ignored: number;
}

/** The files to run: a file of `tests/` alone, files beside the code together. */
async function batches(wanted: readonly string[]): Promise<string[][]> {
  const under = (path: string) => wanted.some((name) => path === name || path.startsWith(`${name}/`));
  const files = (await sourceFiles(FOLDERS)).map(({ path }) => path)
    .filter((path) => path.endsWith("_test.ts") && (wanted.length === 0 || under(path)));
  const alone = files.filter((path) => path.startsWith("tests/"));
  const quick = files.filter((path) => !path.startsWith("tests/"));
  const made = alone.map((path) => [path]);
  for (let at = 0; at < quick.length; at += QUICK_FILES) made.push(quick.slice(at, at + QUICK_FILES));
  const isLong = ([path]: string[]) => LONGEST_FIRST.includes(path);
  return [...made.filter(isLong), ...made.filter((batch) => !isLong(batch))];
}

/** Runs a batch and prints its output. A process that ends badly without having counted a failure counts as one. */
async function runBatch(files: string[]): Promise<Counted> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "--no-check", ...files],
    cwd: ROOT,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let late = false;
  const cancel = new SystemClock().after(BATCH_MS, () => {
    late = true;
    child.kill("SIGKILL");
  });
  const { code, stdout, stderr } = await child.output();
  cancel();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  console.log(text.trimEnd());
  if (late) console.log(`killed after ${BATCH_MS / 60_000} minutes: ${files.join(" ")}`);
  const counted = countOf(text);
  if (code !== 0 && counted.failed === 0) {
    console.log(`deno test ended with ${code} and counted no failure: ${files.join(" ")}`);
    counted.failed = 1;
  }
  return counted;
}

/** The counts of the last line that `deno test` prints. */
function countOf(text: string): Counted {
  // deno-lint-ignore no-control-regex
  const lines = text.replaceAll(/\x1b\[[0-9;]*m/g, "").split("\n");
  const last = lines.findLast((line) => /^(ok|FAILED) \| \d+ passed/.test(line)) ?? "";
  const count = (word: string) => Number(last.match(new RegExp(`(\\d+) ${word}`))?.[1] ?? 0);
  return { passed: count("passed"), failed: count("failed"), ignored: count("ignored") };
}

const start = performance.now();
const queue = await batches(Deno.args.map((path) => path.replace(/^\.\//, "").replace(/\/$/, "")));
if (queue.length === 0) {
  console.error(`no tests under ${Deno.args.join(" ")}: name a folder or a file that ends in _test.ts`);
  Deno.exit(2);
}
const total: Counted = { passed: 0, failed: 0, ignored: 0 };
const failing: string[] = [];
const work = async () => {
  for (let batch = queue.shift(); batch; batch = queue.shift()) {
    const counted = await runBatch(batch);
    for (const word of ["passed", "failed", "ignored"] as const) total[word] += counted[word];
    if (counted.failed > 0) failing.push(batch.join(" "));
  }
};
// One more than there are cores: each waits for something most of the time.
await Promise.all(Array.from({ length: navigator.hardwareConcurrency + 1 }, work));
const minutes = ((performance.now() - start) / 60_000).toFixed(1);
for (const files of failing) console.log(`failed in: ${files}`);
const verdict = total.failed === 0 ? "ok" : "FAILED";
console.log(
  `${verdict} | ${total.passed} passed | ${total.failed} failed | ${total.ignored} ignored (${minutes}m)`,
);
if (total.failed > 0) Deno.exit(1);
