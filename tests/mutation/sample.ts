/** Which mutants a run tries, in which order. */

import type { Mutant } from "./operators.ts";
import { mutantsOf } from "./operators.ts";
import type { SourceFile } from "../support/sources.ts";

/** Code whose faults tests are to find: not tests, and not what generates or only prints. */
function isCode(path: string): boolean {
  return /^(lib|drivers|cli)\//.test(path) && !path.endsWith("_test.ts") &&
    !/^(cli\/build|lib\/web)\//.test(path);
}

/**
 * All mutants of the files of a room (all rooms if it is empty), or of changed lines, in an order that looks like
 * chance. The place of each follows from its own text and the seed, so a sample stays what it is while other lines
 * come and go.
 */
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
  const found = new Map<string, number>();
  const ranks = new Map(all.map((one) => {
    const text = `${seed} ${one.file} ${one.before} ${one.edit}`, count = found.get(text) ?? 0;
    found.set(text, count + 1);
    // The same edit may be possible at several places of a line.
    return [one, rankOf(count === 0 ? text : `${text} ${count}`)];
  }));
  return all.sort((a, b) => ranks.get(a)! - ranks.get(b)!);
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

/** A number from 0 to 2^32 that follows from a text, and looks like chance (FNV-1a, with its bits mixed once more). */
function rankOf(text: string): number {
  let rank = 2_166_136_261;
  for (const char of text) rank = Math.imul(rank ^ char.codePointAt(0)!, 16_777_619);
  rank = Math.imul(rank ^ rank >>> 16, 0x45d9f3b);
  return (rank ^ rank >>> 16) >>> 0;
}
