/**
 * Logging on change: a problem that lasts is logged once, and again only if its text changes or it returns.
 */

/** Subjects whose last text is remembered; with more, the oldest is forgotten and may be logged again. */
const SUBJECTS_MAX = 1_000;

export class LogOnChange {
  readonly #last = new Map<string, string>();

  constructor(private readonly subjectsMax = SUBJECTS_MAX) {}

  /** Whether `text` differs from the last one of its subject, and remembers it. An empty text means: no problem. */
  isNew(text: string, subject = ""): boolean {
    if (this.last(subject) === text) return false;

    this.#last.delete(subject);
    if (text === "") return true;

    if (this.#last.size >= this.subjectsMax) this.#last.delete(this.#last.keys().next().value!);
    this.#last.set(subject, text);
    return true;
  }

  /** The last text of a subject; empty if there was no problem. */
  last(subject = ""): string {
    return this.#last.get(subject) ?? "";
  }

  /** The problem is over: its next occurrence is new. */
  clear(subject = ""): void {
    this.#last.delete(subject);
  }
}
