/**
 * Asks for something again and again while somebody sees the answer: one question at a time, never faster than it is
 * answered, and slower while it fails.
 */

import { Code, ConnectError } from "@connectrpc/connect";
import { untrack } from "svelte";
import { useShown } from "./shown.svelte.ts";

const FAILED_EVERY_MS = 2000;

export interface Poll<T> {
  readonly value: T | undefined;
  readonly problem: string | undefined;
  /** The resource does not have this: it is not asked again. */
  readonly unsupported: boolean;
  /** Asks at once; the answer to a question that is under way is not taken, for it may be from before a change. */
  again(): void;
}

export interface PollOptions<T> {
  readonly enabled?: () => boolean;
  /** Hears every answer. */
  readonly heard?: (value: T) => void;
}

class PollState<T> implements Poll<T> {
  value = $state.raw<T>();
  problem = $state<string>();
  unsupported = $state(false);
  wake = () => {};
  /** Grows with every wish to ask at once: an answer to a question from before may be out of date. */
  round = 0;

  again(): void {
    this.round++;
    this.wake();
  }
}

/** Who is asked. */
export interface PollSource<C> {
  /** Followed; while there is none, nobody is asked. */
  readonly client: () => C | undefined;
  /** What went wrong, in words. */
  readonly problemOf: (error: unknown) => string;
}

/** For the beginning of a component. `everyMs` and `enabled` are followed; `ask` reads its arguments at each question. */
export function pollBy<C, T>(
  source: PollSource<C>,
  ask: (client: C) => Promise<T>,
  everyMs: number | (() => number),
  { enabled = () => true, heard }: PollOptions<T> = {},
): Poll<T> {
  const shown = useShown();
  const state = new PollState<T>();
  $effect(() => {
    const client = source.client();
    if (!client || !shown.now || !enabled()) return;
    const every = typeof everyMs === "number" ? everyMs : everyMs();
    let over = false;
    const question = async (round: number) => {
      const isLate = () => over || round !== state.round;
      try {
        const value = await ask(client);
        if (isLate()) return 0;
        state.value = value;
        if (state.problem !== undefined) state.problem = undefined;
        heard?.(value);
        return every;
      } catch (error) {
        if (isLate()) return 0;
        state.problem = source.problemOf(error);
        if (error instanceof ConnectError && error.code === Code.Unimplemented) {
          state.unsupported = true;
          return Infinity;
        }
        return Math.max(every, FAILED_EVERY_MS);
      }
    };
    const run = async () => {
      // A question is due by the one before, not by when its late timer came: else each lateness adds up.
      let dueMs = performance.now();
      while (!over) {
        const { round } = state;
        const nextMs = await question(round);
        if (over) return;
        if (round !== state.round) {
          dueMs = performance.now();
          continue;
        }
        await new Promise<void>((resolve) => {
          state.wake = () => {
            dueMs = performance.now();
            resolve();
          };
          dueMs = Math.max(dueMs + nextMs, performance.now());
          if (nextMs !== Infinity) setTimeout(resolve, dueMs - performance.now());
        });
      }
    };
    untrack(() => void run());
    return () => {
      over = true;
      state.wake();
    };
  });
  return state;
}
