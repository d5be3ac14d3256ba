/**
 * Turns for callers that wait for them, when only a few can run at once: fair among groups and their members
 * (`FairQueue`). The waiting places are a shared pool, so a caller that asks again and again, or hangs, takes time from
 * its own group alone.
 */

import { type Clock, race } from "../clock.ts";
import { FairQueue, type TurnCaller } from "./fair_queue.ts";
import { type PoolHolder, SharedPool } from "./shared_pool.ts";

export interface TurnLimits {
  /** Turns at once, of all groups. */
  readonly turnsMax: number;
  /** The same of one group. */
  readonly turnsOfGroupMax: number;
  /** Limits of the waiting callers: of all, of one group, and of one member of a group. */
  readonly waiting: readonly [number, number, number];
  /** For people: `inferences`. */
  readonly what: string;
  /** A group without a limit of its turns: the server itself. */
  readonly ownGroup?: string;
}

export class CallerTurns {
  readonly #queue: FairQueue<(leave: () => void) => void>;
  readonly #places: SharedPool;
  #turns = 0;

  constructor(private readonly limits: TurnLimits, clock: Clock) {
    const { turnsOfGroupMax, waiting, what, ownGroup } = limits;
    this.#queue = new FairQueue({ turnsOfGroupMax, what, ownGroup, byTurns: true }, clock);
    const levels = ["this server", "one organization", "one caller"];
    this.#places = new SharedPool({ shares: waiting, levels, what: `waiting ${what}` }, clock);
  }

  /** How many callers wait. */
  get waiting(): number {
    return this.#queue.size;
  }

  /**
   * Waits for a turn; call the returned function at its end. Throws `resource_exhausted` if too many wait, also later
   * if a place is needed for a group that has fewer.
   */
  async enter([group, member = ""]: TurnCaller, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const turn = Promise.withResolvers<() => void>();
    let place: PoolHolder | undefined;
    const takeBack = this.#queue.add([group, member], (leave) => {
      place?.release();
      turn.resolve(leave);
    });
    try {
      place = this.#places.take([group, member], (reason) => {
        takeBack();
        turn.reject(reason);
      });
      this.#next();
      return await (signal ? race(turn.promise, signal, (leave) => leave()) : turn.promise);
    } catch (error) {
      place?.release();
      takeBack();
      throw error;
    }
  }

  #next(): void {
    while (this.#turns < this.limits.turnsMax) {
      const turn = this.#queue.next();
      if (!turn) return;
      this.#turns++;
      let left = false;
      turn.item(() => {
        if (left) return;
        left = true;
        this.#turns--;
        turn.leave();
        this.#next();
      });
    }
  }
}
