/**
 * When a caller polls the control plane: at its interval; at once when news is announced; and rarely while every change
 * is announced anyway, so that an idle machine moves few bytes. Never earlier than a control plane that refused a poll
 * wants to be asked again.
 */

import { unevenMs } from "../../base/async/backoff.ts";
import { type Clock, Waker } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Announcements, Changed } from "./change_feed.ts";

/** News that reach every machine at once: their polls are spread over this time. */
const TO_ALL: ReadonlySet<Changed> = new Set<Changed>(["release"]);
const TO_ALL_MS = 5_000;

export interface PollTimerParts {
  readonly changes?: Announcements;
  /** Which news cause a poll. */
  readonly what: readonly Changed[];
  /** Interval while changes are announced (`Traffic`). */
  readonly rareMs: number;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random?: () => number;
}

export class PollTimer {
  readonly #parts: PollTimerParts;
  readonly #waker: Waker;
  readonly #unhear: readonly (() => void)[];
  #isDue = false;
  #isClosed = false;
  /** When the next poll is due at the latest, whatever its interval. */
  #soonMs = Infinity;
  /** Before this time the control plane wants no poll. */
  #heldUntilMs = 0;
  /** The connection that was open when the last poll began. Nothing that came after that poll goes unannounced on it. */
  #polledOn: number | undefined;

  constructor(parts: PollTimerParts) {
    const { changes, what, clock, random = Math.random } = parts;
    this.#parts = parts;
    this.#waker = new Waker(clock);
    const hear = (one: Changed) => {
      if (!TO_ALL.has(one)) return this.wake();
      this.#soonMs = Math.min(this.#soonMs, clock.monotonicMs() + TO_ALL_MS * random());
      this.#waker.wake();
    };
    this.#unhear = changes
      ? [
        ...what.map((one) => changes.hear(one, () => hear(one))),
        changes.hear("end", () => this.#waker.wake()),
      ]
      : [];
  }

  /** The next poll is due now. */
  wake(): void {
    this.#isDue = true;
    this.#waker.wake();
  }

  /** The last poll failed, so it is repeated after the usual interval, or later if the control plane wants that. */
  failed(error?: unknown): void {
    this.#polledOn = undefined;
    this.#heldUntilMs = this.#parts.clock.monotonicMs() + (SvcError.from(error).retryMs ?? 0);
  }

  /** How much longer the control plane wants no poll. */
  get heldMs(): number {
    return Math.max(0, this.#heldUntilMs - this.#parts.clock.monotonicMs());
  }

  /** Waits until the next poll is due; `usualMs` is the interval without announcements. */
  async next(usualMs: number): Promise<void> {
    const { changes, clock, rareMs, random = Math.random } = this.#parts;
    const isSure = () => changes?.connection !== undefined && changes.connection === this.#polledOn;
    const rare = unevenMs(rareMs, random);
    let endMs = clock.monotonicMs() + (isSure() ? Math.max(rare, usualMs) : usualMs);
    while (!this.#isClosed) {
      const dueMs = this.#isDue ? 0 : Math.min(endMs, this.#soonMs);
      const leftMs = Math.max(dueMs, this.#heldUntilMs) - clock.monotonicMs();
      if (leftMs <= 0) break;
      await this.#waker.sleep(leftMs);
      if (!isSure()) endMs = Math.min(endMs, clock.monotonicMs() + usualMs);
    }
    this.#isDue = false;
    this.#soonMs = Infinity;
    this.#polledOn = changes?.connection;
  }

  /** Ends the announcements; a wait ends. */
  close(): void {
    this.#isClosed = true;
    for (const unhear of this.#unhear) unhear();
    this.wake();
  }
}
