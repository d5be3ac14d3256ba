/**
 * A line on the terminal that says a command is still at work, for one that has written nothing yet: a person who sees
 * nothing for seconds takes a program for dead.
 */

import type { Clock } from "../../lib/base/clock.ts";
import type { Output, Screen } from "../../lib/base/host.ts";
import { QUICK_MS, TICK_MS } from "./progress_bar.ts";

/** To the first column, and nothing behind it. */
const ERASED = "\r\x1b[K";

/** What a command writes by; the line listens there. */
type WatchedOutput = Output & Pick<Screen, "draw" | "show" | "drawnColumns">;

/** Does `work` with the line below; it goes with the first output. Without a terminal there is none. */
export async function withWaitingLine<T>(
  output: Output & Partial<WatchedOutput>,
  clock: Pick<Clock, "monotonicMs" | "after">,
  work: () => Promise<T>,
): Promise<T> {
  if (!isWatched(output) || output.drawnColumns() === undefined) return await work();
  const stop = showUntilOutput(output, clock);
  try {
    return await work();
  } finally {
    stop();
  }
}

function isWatched(output: Output & Partial<WatchedOutput>): output is WatchedOutput {
  return output.draw !== undefined && output.show !== undefined && output.drawnColumns !== undefined;
}

/** Draws the line until the first output or the returned function. */
function showUntilOutput(
  output: WatchedOutput,
  clock: Pick<Clock, "monotonicMs" | "after">,
): () => void {
  const { write, writeError, draw, show } = output;
  const own = { write, writeError, draw, show };
  const beganMs = clock.monotonicMs();
  let isDrawn = false;
  const tick = () => {
    const seconds = Math.round((clock.monotonicMs() - beganMs) / 1000);
    own.draw.call(output, `${ERASED}still at work (${seconds} s)`);
    isDrawn = true;
    cancel = clock.after(TICK_MS, tick);
  };
  let cancel = clock.after(QUICK_MS, tick);

  const stop = () => {
    cancel();
    Object.assign(output, own);
    if (isDrawn) own.draw.call(output, ERASED);
    isDrawn = false;
  };
  for (const name of Object.keys(own) as (keyof typeof own)[]) {
    output[name] = (text: string) => {
      stop();
      own[name].call(output, text);
    };
  }
  return stop;
}
