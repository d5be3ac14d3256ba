/**
 * Notices between control planes on one database.
 *
 * A notice reaches every present listener, including the sender's own, in the order in which one process sent them.
 * Nothing is stored for later listeners, and a broken connection may lose notices. So a sender must not depend on a
 * notice: it needs a time limit, or a later check.
 */

import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";

export interface Notices {
  /** Other processes may be on the database. */
  readonly shared: boolean;
  /** Throws `invalid_argument` for a notice that is too long. */
  tell(topic: NoticeTopic, text: string): Promise<void>;
  /** Calls `listener` for each notice until the returned function is called. */
  hear(topic: NoticeTopic, listener: (text: string) => void): Promise<() => Promise<void>>;
}

/** A notice of `changes` names the changed thing (`part 1234`), or is any other text if that is unknown. */
const NOTICE_TOPICS = ["signaling", "changes"] as const;
export type NoticeTopic = typeof NOTICE_TOPICS[number];

export const NOTICE_BYTES_MAX = 256 * 1024;

/** PostgreSQL limits the length of a notice, so it travels in pieces: `<id> <number>/<count> <base64>`. */
const PIECE_CHARS = 7_500;
/** Limit of incomplete notices; the oldest are dropped. */
const PARTIAL_MAX = 256;

/** For a database with a single process. */
export class OwnNotices implements Notices {
  readonly shared = false;
  readonly #listeners = new Map<NoticeTopic, Set<(text: string) => void>>();

  // deno-lint-ignore require-await
  async tell(topic: NoticeTopic, text: string): Promise<void> {
    checkLength(text);
    for (const listener of [...this.#listeners.get(topic) ?? []]) queueMicrotask(() => listener(text));
  }

  hear(topic: NoticeTopic, listener: (text: string) => void): Promise<() => Promise<void>> {
    const listeners = this.#listeners.getOrInsertComputed(topic, () => new Set());
    listeners.add(listener);
    return Promise.resolve(() => {
      listeners.delete(listener);
      return Promise.resolve();
    });
  }
}

export function piecesOf(text: string): string[] {
  checkLength(text);
  const whole = Buffer.from(text).toString("base64");
  const id = crypto.randomUUID().slice(0, 13);
  const count = Math.max(1, Math.ceil(whole.length / PIECE_CHARS));
  return Array.from({ length: count }, (_, index) => {
    return `${id} ${index + 1}/${count} ${whole.slice(index * PIECE_CHARS, (index + 1) * PIECE_CHARS)}`;
  });
}

/** Reassembles notices. Drops texts that are not pieces, and pieces out of order. */
export class PieceReader {
  readonly #partial = new Map<string, string[]>();

  /** The notice that this piece completes. */
  add(piece: string): string | undefined {
    const [, id, number, count, content] = /^(\S+) (\d+)\/(\d+) (.*)$/s.exec(piece) ?? [];
    if (id === undefined) return undefined;
    const pieces = this.#partial.get(id) ?? [];
    this.#partial.delete(id);
    if (pieces.length + 1 !== Number(number)) return undefined;
    pieces.push(content);
    if (number === count) return Buffer.from(pieces.join(""), "base64").toString();
    if (pieces.length * PIECE_CHARS > NOTICE_BYTES_MAX * 2) return undefined;
    if (this.#partial.size >= PARTIAL_MAX) this.#partial.delete(this.#partial.keys().next().value!);
    this.#partial.set(id, pieces);
    return undefined;
  }
}

function checkLength(text: string): void {
  if (text.length <= NOTICE_BYTES_MAX) return;
  throw new SvcError(
    "invalid_argument",
    `a notice of ${text.length} characters, wanted at most ${NOTICE_BYTES_MAX}`,
  );
}
