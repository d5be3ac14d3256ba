/**
 * Notices between control planes on one database.
 *
 * A notice reaches every present listener, including the sender's own, in the order in which one process sent them.
 * Nothing is stored for later listeners, and a broken connection may lose notices. So a sender must not depend on a
 * notice: it needs a time limit, or a later check.
 */

import { SvcError } from "../../base/error.ts";

export interface Notices {
  /** Whether other processes may use the database. */
  readonly shared: boolean;
  /** Throws `invalid_argument` for a notice that is too long. */
  tell(topic: NoticeTopic, text: string): Promise<void>;
  /**
   * Calls `listener` for each notice until the returned function is called, and `missed` when a broken connection is
   * back, because notices may have been lost meanwhile.
   */
  hear(
    topic: NoticeTopic,
    listener: (text: string) => void,
    missed?: () => void,
  ): Promise<() => Promise<void>>;
  /** Seals all later notices where others can hear them. Without keys, none is sent or accepted there. */
  useKeys(keys: NoticeKeys): void;
}

export interface NoticeKeys {
  /** Secrets that only the control planes on this database have; the first one seals, all of them open. */
  valid(): Promise<readonly string[]>;
  /** Called when notices are ignored; `why` names the likely sender and the remedy. */
  warn(why: string): void;
}

/** A notice of `changes` names the changed thing (`part 1234`), or is `UNKNOWN_CHANGE`. */
const NOTICE_TOPICS = ["signaling", "changes"] as const;
export type NoticeTopic = typeof NOTICE_TOPICS[number];

/** Another process has changed something. */
export const UNKNOWN_CHANGE = "the database";

export const NOTICE_BYTES_MAX = 256 * 1024;

/** Notices of a database with a single process, which nobody else hears. */
export class OwnNotices implements Notices {
  readonly shared = false;
  readonly #listeners = new Map<NoticeTopic, Set<(text: string) => void>>();

  // deno-lint-ignore require-await
  async tell(topic: NoticeTopic, text: string): Promise<void> {
    requireNoticeLength(text);
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

  useKeys(): void {
    // Nothing leaves the process.
  }
}

/** Throws `invalid_argument` for a text that is too long. */
export function requireNoticeLength(text: string): void {
  if (text.length <= NOTICE_BYTES_MAX) return;
  throw new SvcError(
    "invalid_argument",
    `a notice of ${text.length} characters, wanted at most ${NOTICE_BYTES_MAX}`,
  );
}
