/** Which mutants a run tries, in which order. */

import type { Mutant } from "./operators.ts";
import { mutantsOf } from "./operators.ts";
import type { SourceFile } from "../support/sources.ts";

/** Code whose faults tests are to find: not tests, and not what generates or only prints. */
function isCode(path: string): boolean {
  return /^(lib|drivers|cli)\//.test(path) && !path.endsWith("_test.ts") &&
    !/^(cli\/build|lib\/web)\//.test(path);
}

/** All mutants of the files of a room (all rooms if it is empty), or of changed lines, in an order that the seed gives. */
export function sampleOf(
  files: readonly SourceFile[],
  { room, changed, seed }: {
    readonly room: string;
    readonly changed?: ReadonlyMap<string, ReadonlySet<number>>;
    readonly seed: number;
  },
): Mutant[] {
  const wanted = files.filter(({ path }) =>
    isCode(path) && (room === "" || `${path}/`.startsWith(`${room}/`))
  )
    .filter(({ path }) => !changed || changed.has(path));
  const all = wanted.flatMap(({ path, text }) => mutantsOf(path, text))
    .filter(({ file, line }) => !changed || changed.get(file)!.has(line));
  return shuffled(all, seed);
}

/** The lines that `git diff -U0` names, by file. */
export function changedLines(diff: string): Map<string, Set<number>> {
  const found = new Map<string, Set<number>>();
  let lines = new Set<number>();
  for (const line of diff.split("\n")) {
    const [, file] = /^\+\+\+ b\/(.*)$/.exec(line) ?? [];
    if (file !== undefined) found.set(file, lines = new Set());
    const [, from, count = "1"] = /^@@ \S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    for (let at = 0; from !== undefined && at < Number(count); at++) lines.add(Number(from) + at);
  }
  return found;
}

/** The same values in an order that looks like chance (Fisher and Yates). */
function shuffled<T>(values: readonly T[], seed: number): T[] {
  const all = [...values];
  let state = seed >>> 0;
  for (let at = all.length - 1; at > 0; at--) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const other = Math.floor(state / 2 ** 32 * (at + 1));
    [all[at], all[other]] = [all[other], all[at]];
  }
  return all;
}
