/**
 * "Did you mean": the known word nearest to an unknown one.
 *
 * Shared by command lines and configuration checks. It stays silent rather than guess wildly: a suggestion differs
 * from the word in at most a third of the letters, or is the only candidate that starts with the word.
 */

/** Longer words are not compared: nobody needs the suggestion, and it costs quadratic time. */
const LONGEST_WORD = 100;

const SUGGESTIONS_MAX = 10;
const CANDIDATES_MAX = 500;

/** A shorter word is not treated as the start of another one. */
const SHORTEST_BEGINNING = 3;

/**
 * The candidate nearest to `word`, or `undefined` if none is near. Letter case and the choice of `-` or `_` do not
 * count as differences; of equally near candidates the first one wins.
 */
export function suggest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > LONGEST_WORD) return undefined;
  const wanted = folded(word);
  let best: { candidate: string; distance: number } | undefined;
  const begun: string[] = [];
  for (const candidate of candidates) {
    const known = folded(candidate);
    const length = Math.max(wanted.length, known.length);
    if (length > LONGEST_WORD) continue;
    if (wanted.length >= SHORTEST_BEGINNING && known.startsWith(wanted)) begun.push(candidate);
    const distance = editDistance(wanted, known);
    if (distance > Math.floor(length / 3)) continue;
    if (best === undefined || distance < best.distance) best = { candidate, distance };
  }
  return best?.candidate ?? (begun.length === 1 ? begun[0] : undefined);
}

/** The end of a message about an unknown word: `; did you mean CANDIDATE?`, or nothing if none is near. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const near = suggest(word, candidates);
  return near === undefined ? "" : `; did you mean ${near}?`;
}

function folded(word: string): string {
  return word.toLowerCase().replaceAll("_", "-");
}

/** Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  const costAt = (row: readonly number[], j: number) => row[j] ?? Infinity;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = costAt(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwapped ? costAt(beforeLast, j - 2) + 1 : Infinity;
      row.push(Math.min(replaced, swapped, costAt(last, j) + 1, costAt(row, j - 1) + 1));
    }
    beforeLast = last;
    last = row;
  }
  return costAt(last, b.length);
}

/** Suggestions for one document, which a person reads: only the first problems get one, so that all are fast. */
export class Suggestions {
  #left = SUGGESTIONS_MAX;

  of(word: string, candidates: Iterable<string>): string | undefined {
    if (this.#left === 0) return undefined;
    this.#left--;
    return suggest(word, Iterator.from(candidates).take(CANDIDATES_MAX));
  }
}
