/**
 * Where the values of a document stand in its text: the spans of `parseJsonc`, and lines and columns for people.
 */

import type { TextSpan } from "./jsonc.ts";

/** The span of a path, or of the innermost thing that is there. */
export function spanAt(path: string, spans: ReadonlyMap<string, TextSpan>): TextSpan {
  for (let at = path;; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    const span = spans.get(at);
    if (span && at !== "") return span;
    if (at === "") return { from: 0, to: 0 };
  }
}

/** A position in a text, both numbers from 1; the column counts UTF-16 units. */
export interface LineColumn {
  readonly line: number;
  readonly column: number;
}

/** Finds the lines of a text: one pass over it, then a binary search for each position. */
export class TextLines {
  readonly #starts = [0];

  constructor(text: string) {
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) this.#starts.push(at + 1);
  }

  at(position: number): LineColumn {
    let [low, high] = [0, this.#starts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.#startOf(middle) <= position) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: position - this.#startOf(low) + 1 };
  }

  #startOf(line: number): number {
    return this.#starts[line] ?? 0;
  }
}
