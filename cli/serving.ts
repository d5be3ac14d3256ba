/**
 * Serves a machine, from the first log line to the end by a signal or a call.
 */

import { type Clock, settle, SystemClock } from "../lib/base/clock.ts";
import { SvcError } from "../lib/base/error.ts";
import type { Host } from "../lib/base/host.ts";
import type { Logger, Logs } from "../lib/base/log/log.ts";
import { logOwnFaults } from "../lib/base/log/own_faults.ts";
import type { Runtime } from "../lib/machine/runtime.ts";
import { giveBackFreed } from "../lib/base/native/freed_memory.ts";
import { OrphanReaper } from "../lib/base/native/processes/orphans.ts";
import { giveSigns } from "../lib/base/native/processes/service_signs.ts";
import { openLogs } from "./logs.ts";
import { EXIT } from "./program.ts";
import { revision, VERSION } from "./version.ts";
import { openOwnWayOut } from "./way_out.ts";

export interface ServingOptions {
  /** The name of the program. */
  readonly name: string;
  readonly logFile: string;
  readonly debug: boolean;
}

export interface ServingParts {
  readonly clock: Clock;
  readonly logs: Logs;
  readonly logger: Logger;
  readonly version: string;
  /** Asks the program to end. */
  readonly stop: (reason: string) => void;
  /** Aborts at the first signal that asks the program to end. */
  readonly stopping: AbortSignal;
}

/** Starts a runtime and ends it on request; a second signal ends it at once. Returns the exit code. */
export async function serveMachine(
  { name, logFile, debug }: ServingOptions,
  host: Host,
  start: (parts: ServingParts) => Promise<Runtime>,
): Promise<number> {
  const clock = new SystemClock();
  using open = openLogs(name, logFile, host, clock);
  await using _giving = giveBackFreed(clock);
  using _reaper = new OrphanReaper(clock);
  await using _signs = giveSigns({ pid: Deno.pid, parent: Deno.ppid, host }, clock);
  const { logs } = open;
  logs.configure([], debug);
  const logger = logs.logger("rdk");
  using _faults = logOwnFaults(name, logger);

  const stopped = Promise.withResolvers<string>();
  const stopping = new AbortController();
  const forced = new AbortController();
  const end = Promise.withResolvers<number>();
  let signals = 0;
  const ignore = host.onTermination((signal) => {
    if (++signals === 1) {
      stopping.abort(new SvcError("canceled", `${signal} came before the configuration was read`));
      return stopped.resolve(signal);
    }
    // The end of a terminal comes from the system and from the shell; nobody asks again with it.
    if (signal === "SIGHUP") return;
    forced.abort(new SvcError("canceled", `${signal} came again`));
    // Also before there is something to close.
    void settle().then(() => end.resolve(EXIT.failed));
  });
  logger.info(name, { version: VERSION, git_rev: revision() ?? "built from source" });
  const run = async () => {
    const { signal } = stopping;
    const parts = { clock, logs, logger, version: VERSION, stop: stopped.resolve, stopping: signal };
    const wayOut = await openOwnWayOut(host);
    for (const problem of wayOut.problems) logger.warn(problem);
    const unfollow = wayOut.follow(host, clock, logger);
    try {
      const runtime = await start(parts).catch((error) => {
        if (!signal.aborted || error !== signal.reason) throw error;
      });
      const reason = await stopped.promise;
      logger.info(`shutting down: ${reason}`);
      const isClean = await runtime?.close(forced.signal, reason) ?? true;
      return isClean ? EXIT.ok : EXIT.failed;
    } finally {
      await unfollow();
    }
  };
  try {
    return await Promise.race([run(), end.promise]);
  } finally {
    ignore();
  }
}
