/**
 * Changes that may take a right away: of a key or an account, which a notice or the audit log names, and of other things
 * that roles depend on, such as a machine that moves.
 *
 * Notices may be lost, so the audit log is read as well where other processes share the database.
 */

import type { Clock } from "../base/clock.ts";
import type { Audit } from "./access/audit.ts";
import { type Notices, UNKNOWN_CHANGE } from "./store/notices.ts";

/** Interval of the looks into the audit log. */
const LOOK_MS = 5_000;
/** Another process may have another computer's clock. */
const CLOCKS_APART_MS = 60_000;
/** On these the rights of many depend. */
const OF_MANY = ["machine", "location", "organization"] as const;
/** What is looked for. Every change of a configuration is one of a part, so those come by notices alone. */
const LOOKED_FOR = ["key", ...OF_MANY] as const;
/** A change of a key, or of a part, which may have a secret of its own. */
const OF_ONE = /^(?:key|part) (.+)$/;

export interface RightsChangesParts {
  readonly clock: Clock;
  readonly notices: Notices;
  readonly audit: Pick<Audit, "changesSince">;
}

export class RightsChanges {
  #changedMs = -Infinity;
  #listening: Promise<() => Promise<void>> | undefined;
  #looking: Promise<void> | undefined;
  #hasMore = false;
  #lookedMs = -Infinity;
  /** When the last look began, by the clock of the audit log. */
  #readMs = 0;
  /** The entries of the audit log that the last look found. */
  #known: ReadonlySet<string> = new Set();
  #isClosed = false;

  /** `changed` is called with a key, an account or a part whose rights have changed. */
  constructor(private readonly parts: RightsChangesParts, private readonly changed: (id: string) => void) {}

  /** When something changed last on which the rights of many depend, by the monotonic clock. */
  get changedMs(): number {
    return this.#changedMs;
  }

  /** Is called again and again: begins to listen, and looks into the audit log when it is time. */
  follow(): void {
    const { clock, notices } = this.parts;
    if (this.#isClosed) return;
    if (!this.#listening) {
      this.#readMs = clock.nowMs();
      this.#listening = notices.hear("changes", (text) => this.#hear(text), () => this.#look());
      // The next call tries again.
      this.#listening.catch(() => this.#listening = undefined);
    }
    if (notices.shared && clock.monotonicMs() - this.#lookedMs >= LOOK_MS) this.#look();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#listening?.catch(() => undefined))?.();
    await this.#looking;
  }

  #hear(text: string): void {
    if (text === UNKNOWN_CHANGE) this.#look();
    else this.#note(text);
  }

  #note(resource: string): void {
    const [, id] = OF_ONE.exec(resource) ?? [];
    if (id !== undefined) this.changed(id);
    else if (OF_MANY.some((kind) => resource.startsWith(`${kind} `))) {
      this.#changedMs = this.parts.clock.monotonicMs();
    }
  }

  /** A look under way may have begun before the change. */
  #look(): void {
    this.#lookedMs = this.parts.clock.monotonicMs();
    this.#hasMore = true;
    this.#looking ??= this.#readChanges();
  }

  async #readChanges(): Promise<void> {
    while (this.#hasMore && !this.#isClosed) {
      this.#hasMore = false;
      const sinceMs = this.#readMs - CLOCKS_APART_MS;
      const readMs = this.parts.clock.nowMs();
      const found = await this.parts.audit.changesSince(sinceMs, LOOKED_FOR).catch(() => undefined);
      // Without an answer the next look has the same beginning.
      if (!found) continue;
      this.#readMs = readMs;
      for (const { id, resource } of found.changes) if (!this.#known.has(id)) this.#note(resource);
      if (found.hasMore) this.#changedMs = this.parts.clock.monotonicMs();
      this.#known = new Set(found.changes.map(({ id }) => id));
    }
    // Set in the same step that finds no more, so that the next change begins anew.
    this.#looking = undefined;
  }
}
