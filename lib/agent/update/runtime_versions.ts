/**
 * Which version of the runtime runs: brings the updates of svc-server and its starts together.
 *
 * Promises: a decision about versions and a start of the runtime never overlap, so neither goes by what the other is
 * about to change; a runtime that works is stopped for a version only if somebody asked for that version, or in a
 * maintenance window; every start takes the newest version that is ready.
 */

import type { Clock } from "../../base/clock.ts";
import type { Probe } from "../supervise/probe.ts";
import type { Boots, RuntimeProcess, RuntimeState } from "../supervise/runtime.ts";
import type { Now, Updates } from "./updater.ts";

/** A version is believed when it has been well for this long, and given up when it was not within the other. */
export const PROBATION_MS = 60_000;
export const PROBATION_LIMIT_MS = 15 * 60_000;

export interface RuntimeVersionsParts {
  readonly updater: Updates;
  readonly probe: Probe;
  readonly clock: Clock;
  /** As it is set now. */
  readonly startTimeoutMs: () => number;
  /** Hears that a download or check has ended: the next pass may go on. */
  readonly changed: () => void;
}

export class RuntimeVersions implements Boots {
  readonly #parts: RuntimeVersionsParts;
  #trial: { readonly file: string; readonly sinceMs: number } | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: RuntimeVersionsParts) {
    this.#parts = parts;
  }

  alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }

  /** Nothing runs that an update could interrupt, so a version that is ready has its turn first. */
  async boot() {
    const { updater } = this.#parts;
    const now: Now = { health: "starting", maySwitch: true, mayUpdate: true, atStart: true };
    await updater.pass(now, new AbortController().signal);
    return await updater.boot();
  }

  current(): Promise<string | undefined> {
    return this.#parts.updater.current();
  }

  settled(): Promise<void> {
    return this.#parts.updater.settled();
  }

  /** Takes the next steps of an update, and restarts the runtime where that is to be. */
  async update(runtime: RuntimeProcess, signal: AbortSignal): Promise<void> {
    const { updater, probe, changed } = this.#parts;
    const asked = runtime.state;
    // The runtime is asked only when somebody means to stop it, and not for longer than nobody starts another one.
    const wanted = asked.stale || updater.status().trial !== undefined;
    const status = wanted && !isIdle(asked) ? await probe.restartStatus(signal) : undefined;
    await this.alone(async () => {
      const { state } = runtime;
      const idle = isIdle(state);
      const answered = state.pid === asked.pid && state.startedMs === asked.startedMs ? status : undefined;
      const maySwitch = idle || (answered?.restartAllowed ?? false);
      const mayUpdate = idle || (maySwitch && (answered?.inWindow ?? false));
      const { restart, began } = await updater.pass(
        { ...this.#verdict(state), maySwitch, mayUpdate },
        signal,
      );
      // Not waited for: a runtime may take minutes to end, and whoever watches the agent wants to hear of it.
      void began?.then(changed);
      if (restart) void runtime.restart("another version is to run");
      else if (runtime.state.stale && maySwitch) void runtime.restart("its environment has changed");
    });
  }

  /** How the runtime does, as far as its version is to be judged by it. */
  #verdict({ phase, file, healthySinceMs, lastFailure }: RuntimeState): Omit<Now, "maySwitch" | "mayUpdate"> {
    const { clock, updater, startTimeoutMs } = this.#parts;
    const nowMs = clock.monotonicMs();
    const running = phase === "starting" || phase === "running" ? file : undefined;
    const { trial } = updater.status();
    const onTrial = trial?.stage === "probation" && trial.build.file === file ? file : undefined;
    if (onTrial !== this.#trial?.file) {
      this.#trial = onTrial === undefined ? undefined : { file: onTrial, sinceMs: nowMs };
    }
    if (healthySinceMs !== undefined && nowMs - healthySinceMs >= PROBATION_MS) {
      return { running, health: "healthy", lastFailure };
    }
    const limitMs = Math.max(PROBATION_LIMIT_MS, startTimeoutMs() + 2 * PROBATION_MS);
    if (this.#trial && nowMs - this.#trial.sinceMs >= limitMs) {
      const minutes = Math.round(limitMs / 60_000);
      const reason = `it was not well for a minute within ${minutes} minutes`;
      return { running, health: "failed", reason, lastFailure };
    }
    return { running, health: "starting", lastFailure };
  }
}

/** Nothing runs that could mind. */
function isIdle({ phase }: RuntimeState): boolean {
  return phase === "stopped" || phase === "waiting";
}
