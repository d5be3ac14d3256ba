/**
 * Stops the svc-server that an earlier agent has left running. An agent without usable credentials supervises none, and
 * a stop of the service would reach only the agent itself.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { endsWithin, type ProcessHost } from "../../base/process.ts";
import { RUNTIME_MARK } from "../system/service_unit.ts";

export interface LeftRuntimeParts {
  readonly processes: Pick<ProcessHost, "findMarked">;
  /** The agent's folder. */
  readonly base: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Time for it to end by itself. */
const STOP_MS = 120_000;

/** Ends the runtimes of this folder with all that they have started. Never throws. */
export async function endLeftRuntime({ processes, base, clock, logger }: LeftRuntimeParts): Promise<void> {
  const over = new AbortController();
  try {
    const left = await processes.findMarked(RUNTIME_MARK, base, clock, over.signal);
    await Promise.all(left.map(async ({ process }) => {
      logger.info("svc-server of an earlier agent is stopped", { pid: process.pid });
      process.signal("SIGTERM");
      await endsWithin(process.exited, clock, STOP_MS);
      process.signal("SIGKILL", { group: true });
    }));
  } catch (error) {
    logger.warn(`cannot stop svc-server of an earlier agent: ${chainOf(error)}`);
  } finally {
    over.abort();
  }
}
