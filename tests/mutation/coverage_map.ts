/**
 * Which test runs which line. A test file is run with coverage when it is first asked about, and its lines are kept in
 * dist/mutation/ for later runs, as long as neither the test nor a file that it runs has changed.
 */

import { bytesSum } from "../../cli/build/sums.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { Mutant } from "./operators.ts";
import type { TreeCopy } from "./tree_copy.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const FOLDER = `${ROOT}dist/mutation`;
/** A test file that takes longer is none for mutants: a fault that it alone finds wants a nearer test. */
const TEST_MS = 300_000;

type Place = Pick<Mutant, "file" | "blockLine" | "line">;

/** What a test file runs. */
interface Kept {
  /** Sums of the files: of the test and of what it runs. */
  readonly sums: Readonly<Record<string, string>>;
  /** Lines by file. */
  readonly lines: Readonly<Record<string, readonly number[]>>;
  /** How long it took. */
  readonly ms: number;
  /** Whether it passes without a mutant. */
  readonly passes: boolean;
}

export class CoverageMap {
  readonly #clock = new SystemClock();
  readonly #known = new Map<string, Kept>();

  constructor(private readonly copy: TreeCopy) {}

  /**
   * How long the test takes, if it passes and may run the line. A line with a part that did not run, as in
   * `if (isOver) return;`, counts as one that did not, so any line from the beginning of its block on is good enough.
   */
  async msOf(test: string, { file, blockLine, line }: Place): Promise<number | undefined> {
    const { passes, lines, ms } = this.#known.get(test) ?? await this.#look(test);
    return passes && lines[file]?.some((one) => blockLine <= one && one <= line) ? ms : undefined;
  }

  async #look(test: string): Promise<Kept> {
    const path = `${FOLDER}/${test.replaceAll("/", "-")}.json`;
    const read = await Deno.readTextFile(path).then(JSON.parse, () => undefined) as Kept | undefined;
    const kept = read && await isFresh(read) ? read : await this.#run(test);
    if (kept !== read) {
      await Deno.mkdir(FOLDER, { recursive: true });
      await Deno.writeTextFile(path, JSON.stringify(kept));
    }
    this.#known.set(test, kept);
    if (!kept.passes) console.error(`${test} does not pass where mutants run, so it finds none`);
    return kept;
  }

  async #run(test: string): Promise<Kept> {
    const folder = "dist/coverage";
    await Deno.remove(`${this.copy.root}/${folder}`, { recursive: true }).catch(() => {});
    const startMs = this.#clock.monotonicMs();
    const end = await this.copy.test(test, TEST_MS, folder);
    const ms = this.#clock.monotonicMs() - startMs;

    const lines = linesOf(await this.copy.lcov(folder), this.copy.root);
    const sums: Record<string, string> = {};
    for (const file of [test, ...Object.keys(lines)]) sums[file] = await sumOf(file);
    return { sums, lines, ms, passes: end === "passed" };
  }
}

async function isFresh({ sums }: Kept): Promise<boolean> {
  for (const [file, sum] of Object.entries(sums)) {
    if (await sumOf(file).catch(() => "") !== sum) return false;
  }
  return true;
}

async function sumOf(file: string): Promise<string> {
  return await bytesSum(await Deno.readFile(ROOT + file));
}

/** The lines that ran, by file, of an LCOV report. */
export function linesOf(lcov: string, root: string): Record<string, number[]> {
  const found: Record<string, number[]> = {};
  let file = "";
  for (const line of lcov.split("\n")) {
    const [, word, value] = /^(SF|DA):(.*)$/.exec(line) ?? [];
    if (word === "SF") file = value.replace(`${root}/`, "");
    const [number, times] = (value ?? "").split(",").map(Number);
    if (word === "DA" && times > 0) (found[file] ??= []).push(number);
  }
  return found;
}
