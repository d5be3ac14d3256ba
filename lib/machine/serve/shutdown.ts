/**
 * The end of the program: stage after stage, watched.
 *
 * What fails to close is told and the next stage goes on. Promises that it ends: at the deadline, or when it is
 * forced, whatever is still closing is left behind and the outcome is that it was not clean.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

/** The whole of it, unless the environment says otherwise. */
export const SHUTDOWN_TIMEOUT_MS = 60_000;
export const SHUTDOWN_TIMEOUT_VARIABLES = ["SVC_SHUTDOWN_TIMEOUT"] as const;
/** Between two reports of what is still closing. */
export const SHUTDOWN_REPORT_MS = 10_000;

export interface Stage {
  /** What is closed: "the port". */
  readonly name: string;
  close(): Promise<void>;
  /** The parts that are not closed yet, where there is more to say than the name. */
  remaining?(): readonly string[];
}

export interface ShutdownParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends it at once. */
  readonly forced: AbortSignal;
  readonly timeoutMs?: number;
}

/** Closes the stages one after the other. Whether all of it was closed, in time and without errors. Never rejects. */
export async function shutDown(
  stages: readonly Stage[],
  { clock, logger, forced, timeoutMs = SHUTDOWN_TIMEOUT_MS }: ShutdownParts,
): Promise<boolean> {
  let [stage, ...later] = stages;
  const left = () => [...stage.remaining?.() ?? [stage.name], ...later.map(({ name }) => name)].join(", ");
  const late = () => new SvcError("deadline_exceeded", `not closed within ${timeoutMs / 1000} s`);
  const { signal, done } = deadline(clock, timeoutMs, late, forced);
  const callOffReports = every(clock, SHUTDOWN_REPORT_MS, (ms) => {
    logger.warn(`still closing after ${ms / 1000} s: ${left()}`);
  });
  let clean = true;
  for (; stage && !signal.aborted; [stage, ...later] = later) {
    logger.debug(`closing ${stage.name}`);
    try {
      await race(Promise.resolve().then(() => stage.close()), signal);
    } catch (error) {
      clean = false;
      if (signal.aborted) break;
      logger.error(`cannot close ${stage.name}: ${chainOf(error)}`);
    }
  }
  callOffReports();
  done();
  if (!stage) return clean;
  logger.error(`the end is forced (${chainOf(signal.reason)}), left behind: ${left()}`);
  return false;
}

/** Calls `run` again and again with the time that has gone by, until the returned function is called. */
function every(clock: Clock, ms: number, run: (passedMs: number) => void): () => void {
  let callOff = () => {};
  const next = (passedMs: number) => {
    callOff = clock.after(ms, () => {
      run(passedMs);
      next(passedMs + ms);
    });
  };
  next(ms);
  return () => callOff();
}
