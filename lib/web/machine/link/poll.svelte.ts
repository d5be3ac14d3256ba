/**
 * Asks the machine for something again and again while somebody sees the answer: one question at a time, never faster
 * than the machine answers, and slower while it fails.
 */

import { Code, ConnectError } from "@connectrpc/connect";
import type { RobotClient } from "@viamrobotics/sdk";
import { untrack } from "svelte";
import { useShown } from "../../shared/shown.svelte.ts";
import { linkProblem, useLink } from "./page_link.svelte.ts";

const FAILED_EVERY_MS = 2000;
/** For measuring: `?every=100` asks for everything every 100 ms. */
const FORCED_MS = Number(new URLSearchParams(location.search).get("every")) || undefined;

export interface Poll<T> {
  readonly value: T | undefined;
  readonly problem: string | undefined;
  /** The resource does not have this: it is not asked again. */
  readonly unsupported: boolean;
  /** Asks at once. */
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

  again(): void {
    this.wake();
  }
}

/** For the beginning of a component. `everyMs` and `enabled` are followed; `ask` reads its arguments at each question. */
export function poll<T>(
  ask: (client: RobotClient) => Promise<T>,
  everyMs: number | (() => number),
  { enabled = () => true, heard }: PollOptions<T> = {},
): Poll<T> {
  const link = useLink();
  const shown = useShown();
  const state = new PollState<T>();
  $effect(() => {
    const { client } = link;
    if (!client || !shown.now || !enabled()) return;
    const every = FORCED_MS ?? (typeof everyMs === "number" ? everyMs : everyMs());
    let over = false;
    const question = async () => {
      try {
        const value = await ask(client);
        if (over) return;
        state.value = value;
        if (state.problem !== undefined) state.problem = undefined;
        heard?.(value);
        return every;
      } catch (error) {
        if (over) return;
        state.problem = linkProblem(error);
        if (error instanceof ConnectError && error.code === Code.Unimplemented) {
          state.unsupported = true;
          return Infinity;
        }
        return Math.max(every, FAILED_EVERY_MS);
      }
    };
    const run = async () => {
      while (!over) {
        const startMs = performance.now();
        const nextMs = await question();
        if (over || nextMs === undefined) return;
        await new Promise<void>((resolve) => {
          state.wake = resolve;
          if (nextMs !== Infinity) setTimeout(resolve, Math.max(0, nextMs - (performance.now() - startMs)));
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
