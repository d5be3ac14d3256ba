/** The machine's time: a robot without a clock of its own, or a phone, may be minutes or years off. */

import { pageServiceOf } from "./page_service.ts";
import { poll } from "./poll.svelte.ts";

const EVERY_MS = 30_000;

/** Milliseconds since 1970. */
export interface MachineClock {
  /** The time by the machine's clock; by this computer's until the machine has told. */
  nowMs(): number;
  /** How long ago the machine's clock showed this time. */
  sinceMs(timeMs: number): number;
}

/** For the beginning of a component that shows how long ago the machine did something. */
export function useMachineClock(): MachineClock {
  const ahead = poll(async (client) => {
    const askedMs = Date.now();
    const { nowMs } = await pageServiceOf(client).getMetrics({ afterMs: Number.MAX_VALUE });
    return nowMs - (askedMs + Date.now()) / 2;
  }, EVERY_MS);
  const nowMs = () => Date.now() + (ahead.value ?? 0);
  return { nowMs, sinceMs: (timeMs) => Math.max(0, nowMs() - timeMs) };
}
