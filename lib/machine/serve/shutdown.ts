/**
 * The end of the program: stage after stage, supervised.
 *
 * A stage that fails to close is logged and the next one follows. The shutdown always ends: at the deadline, or when
 * it is forced, it abandons the open stages and reports that the end was not clean.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Machine } from "../graph/machine.ts";

/** Default time limit of the whole. */
export const SHUTDOWN_TIMEOUT_MS = 60_000;
export const SHUTDOWN_TIMEOUT_VARIABLES = ["SVC_SHUTDOWN_TIMEOUT"] as const;
/** Interval of reports about open stages. */
const SHUTDOWN_REPORT_MS = 10_000;

export interface ShutdownStage {
  /** The object of the stage: "the port". */
  readonly name: string;
  close(): Promise<void>;
  /** Its open parts, if the name alone does not say enough. */
  remaining?(): readonly string[];
}

export interface ShutdownParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends it at once. */
  readonly forced: AbortSignal;
  readonly timeoutMs?: number;
}

/** Closes the stages in order. Whether all of them closed in time and without errors. Never rejects. */
export async function shutDown(
  stages: readonly ShutdownStage[],
  { clock, logger, forced, timeoutMs = SHUTDOWN_TIMEOUT_MS }: ShutdownParts,
): Promise<boolean> {
  const waiting = [...stages];
  const left = () => {
    const [stage, ...later] = waiting;
    const open = stage ? stage.remaining?.() ?? [stage.name] : [];
    return [...open, ...later.map(({ name }) => name)].join(", ");
  };
  const late = () => new SvcError("deadline_exceeded", `not closed within ${timeoutMs / 1000} s`);
  const { signal, done } = deadline(clock, timeoutMs, late, forced);
  const callOffReports = every(clock, SHUTDOWN_REPORT_MS, (ms) => {
    logger.warn(`still closing after ${ms / 1000} s: ${left()}`);
  });
  let clean = true;
  for (const stage of stages) {
    if (signal.aborted) break;
    logger.debug(`closing ${stage.name}`);
    try {
      await race(Promise.resolve().then(() => stage.close()), signal);
    } catch (error) {
      clean = false;
      if (signal.aborted) break;
      logger.error(`cannot close ${stage.name}: ${chainOf(error)}`);
    }
    waiting.shift();
  }

  callOffReports();
  done();
  if (waiting.length === 0) return clean;

  logger.error(`the shutdown is forced (${chainOf(signal.reason)}), still open: ${left()}`);
  return false;
}

/** Calls `run` periodically with the elapsed time, until the returned function is called. */
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

/** The resources, then the modules that are not closed yet. */
export function remaining({ nodes, modules }: Pick<Machine, "nodes" | "modules">): string[] {
  const left = [...nodes].filter(({ instance, state }) => instance || state === "removing");
  const programs = modules?.statuses ?? [];
  return [...left.map(({ name }) => name.full), ...programs.map(({ name }) => `module "${name}"`)];
}
