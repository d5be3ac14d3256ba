/**
 * Statements in the form of the driver.
 *
 * The driver's object for a statement gets functions as properties, which V8 keeps until it collects all of its memory,
 * with all that the object refers to (docs/development.md, "Garbage"). So a text is made once, and the object forgets
 * what it has sent.
 *
 * Every connection keeps the statements that it has prepared, and a process of the server with it: a kilobyte and more
 * for each value. Callers decide how many values some statements have, so only so many are prepared. Those of batches,
 * which store what machines send, are counted for themselves: they have few sizes (`rowPieces`), and no reader of long
 * lists may make them slow.
 */

import type { SqlRow, SqlValue } from "../store.ts";

/** The part of the driver's client that sends statements. */
export interface StatementSender {
  unsafe(text: string, values?: SqlValue[], options?: { readonly prepare: boolean }): PromiseLike<unknown>;
}

/** What the driver's object for a statement keeps. */
interface SentStatement {
  strings: unknown;
  args: unknown;
  string: unknown;
  signature: unknown;
  parameters: unknown;
}

/** Limits of the values of one prepared statement (64 log lines have 640), and of all of them. */
const PREPARED_VALUES_MAX = 700;
const ALL_PREPARED_VALUES_MAX = 30_000;
/** How many texts are known, and as many that were used before. */
const TEXTS_MAX = 500;
/** Longer ones hardly come again: 64 log lines have 6,100. */
const TEXT_LENGTH_MAX = 8_192;

/** The texts that are prepared. */
export class PreparedTexts {
  readonly #texts = new Set<string>();
  #values = 0;

  /** Whether a text with so many values is prepared, as it is from now on if it may be. */
  admit(text: string, values: number): boolean {
    if (this.#texts.has(text)) return true;
    // A plan has a size of its own, too.
    const more = values + 1;
    if (more > PREPARED_VALUES_MAX || this.#values + more > ALL_PREPARED_VALUES_MAX) return false;
    this.#values += more;
    this.#texts.add(text);
    return true;
  }
}

/** Those of all connections of this process: of batches, and of everything else. */
export const BATCHED_TEXTS = new PreparedTexts();
const OTHER_TEXTS = new PreparedTexts();

/** Runs a statement with `$1`, `$2`… for its values; returns its rows. Throws the driver's errors. */
export async function runStatement(
  sender: StatementSender,
  text: string,
  values: readonly SqlValue[],
  texts = OTHER_TEXTS,
): Promise<readonly SqlRow[]> {
  const prepare = texts.admit(text, values.length);
  const statement = sender.unsafe(text, [...values], { prepare });
  try {
    return await statement as SqlRow[];
  } finally {
    forgetSent(statement as unknown as SentStatement);
  }
}

function forgetSent(statement: SentStatement): void {
  statement.strings =
    statement.args =
    statement.string =
    statement.signature =
    statement.parameters =
      undefined;
}

/** Turns `?` into `$1`, `$2`…; our statements contain no other question marks. */
export class NumberedTexts {
  #texts = new Map<string, string>();
  /** Those from before, until they are used again. */
  #earlier = new Map<string, string>();

  of(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const numbered = this.#earlier.get(text) ?? numberedText(text);
    if (text.length > TEXT_LENGTH_MAX) return numbered;
    if (this.#texts.size === TEXTS_MAX) {
      this.#earlier = this.#texts;
      this.#texts = new Map();
    }
    this.#texts.set(text, numbered);
    return numbered;
  }
}

function numberedText(text: string): string {
  let number = 0;
  return text.replaceAll("?", () => `$${++number}`);
}
