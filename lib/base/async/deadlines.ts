/**
 * The deadlines of many calls, nearly all of which end long before them.
 *
 * Deadlines that are close to each other share a timer, which fires a little before the first of them; a call that is
 * still running then gets a timer of its own. So most calls cost no timer, and deadlines are as exact as the clock.
 */

import type { Clock } from "../clock.ts";
import { BriefMap } from "../collections/brief_map.ts";
import { LinkedList, type ListLink } from "../collections/linked_list.ts";

/** Deadlines share a timer if they differ by less than this part of the remaining time. */
const CLOSE_SHIFT = 5;
/** Shorter deadlines have timers of their own. */
const SOON_MS = 64;
const LONGEST_MS = 2 ** 31 - 1;

interface Deadline {
  readonly atMs: number;
  readonly run: () => void;
  readonly isExact: boolean;
  /** Cancels the deadline's own timer, once it has one. */
  stop?: () => void;
}

export class Deadlines {
  readonly #groups = new BriefMap<number, Group>();

  constructor(private readonly clock: Clock) {}

  /** Calls `run` once after `ms`; the returned function cancels it. */
  after(ms: number, run: () => void): () => void {
    return this.#add(ms, run, true);
  }

  /** The same for what comes often and may come up to a 32nd of the time earlier: it needs no timer of its own. */
  around(ms: number, run: () => void): () => void {
    return this.#add(ms, run, false);
  }

  #add(ms: number, run: () => void, isExact: boolean): () => void {
    if (!(ms >= SOON_MS)) return this.clock.after(ms, run);
    const nowMs = this.clock.monotonicMs(), atMs = nowMs + Math.min(ms, LONGEST_MS);
    const shift = 31 - CLOSE_SHIFT - Math.clz32(atMs - nowMs);
    const spanMs = 2 ** shift, begin = Math.floor(atMs / spanMs);
    // Spans have unique numbers: there are fewer than 32 widths.
    const key = begin * 32 + shift;
    const group = this.#groups.getOrInsertComputed(
      key,
      () => new Group(this.clock, begin * spanMs - nowMs, () => this.#groups.delete(key)),
    );
    return group.add({ atMs, run, isExact });
  }
}

/** Deadlines that share a timer. */
class Group {
  readonly #deadlines = new LinkedList<Deadline>();
  readonly #stop: () => void;
  /** Whether its timer has fired. */
  #isOver = false;

  /** @param over the group takes no more deadlines */
  constructor(private readonly clock: Clock, ms: number, private readonly over: () => void) {
    this.#stop = clock.after(ms, () => this.#split());
  }

  add(deadline: Deadline): () => void {
    const link = this.#deadlines.add(deadline);
    return () => this.#remove(link, deadline);
  }

  #remove(link: ListLink<Deadline>, deadline: Deadline): void {
    deadline.stop?.();
    if (!this.#deadlines.delete(link) || this.#isOver || this.#deadlines.size > 0) return;
    this.#stop();
    this.over();
  }

  #split(): void {
    this.#isOver = true;
    this.over();
    const nowMs = this.clock.monotonicMs();
    for (let deadline = this.#deadlines.shift(); deadline; deadline = this.#deadlines.shift()) {
      const { atMs, run, isExact } = deadline;
      if (isExact) deadline.stop = this.clock.after(atMs - nowMs, run);
      else run();
    }
  }
}
