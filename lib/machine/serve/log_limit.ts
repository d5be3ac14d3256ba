/**
 * The limit of foreign lines in this machine's log, per second and connection. Excess lines are counted and dropped;
 * refusing them would only make their writers complain, in the log.
 */

import type { Clock } from "../../base/clock.ts";
import type { Peer } from "../../wire/rpc/service.ts";

const WINDOW_MS = 1_000;
const LINES_MAX = 500;

interface Window {
  endMs: number;
  lines: number;
}

export class LogLimit {
  readonly #windows = new WeakMap<Peer, Window>();

  constructor(private readonly clock: Clock) {}

  /** Whether a connection may write another line, and how many unreported ones were dropped before it. */
  enter(peer: Peer): { readonly admitted: boolean; readonly leftOut: number } {
    const nowMs = this.clock.monotonicMs();
    const window = this.#windows.getOrInsertComputed(peer, () => ({ endMs: 0, lines: 0 }));
    let leftOut = 0;
    if (nowMs >= window.endMs) {
      leftOut = Math.max(0, window.lines - LINES_MAX);
      Object.assign(window, { endMs: nowMs + WINDOW_MS, lines: 0 });
    }
    return { admitted: ++window.lines <= LINES_MAX, leftOut };
  }
}
