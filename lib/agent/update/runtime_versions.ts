/**
 * Decides which version of the runtime runs: coordinates the updates of svc-server with its starts.
 *
 * A decision about versions and a start of the runtime never overlap, so neither relies on what the other is changing.
 * A working runtime stops for another version only if somebody requested that version, or in a maintenance window.
 * Every start takes the newest ready version.
 */

import type { Clock } from "../../base/clock.ts";
import type { Probe } from "../supervise/probe.ts";
import type { Boots, RuntimeProcess, RuntimeState } from "../supervise/runtime.ts";
import { noteLasting, noteLateEnd } from "./late_ends.ts";
import type { Now, Updates } from "./updater.ts";

/** Health of this length proves a version; a version without it after the limit is given up. */
export const PROBATION_MS = 60_000;
export const PROBATION_LIMIT_MS = 15 * 60_000;

export interface RuntimeVersionsParts {
  readonly updater: Updates;
  readonly probe: Probe;
  readonly clock: Clock;
  /** The present setting. */
  readonly startTimeoutMs: () => number;
  /** Called when a download or check has ended, so that the next pass can continue. */
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

  /** While nothing runs, an update interrupts nothing, so a ready version goes first. */
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

  endedLate(file: string, how: string): Promise<void> {
    return this.alone(() => this.#parts.updater.note((slot, seen) => noteLateEnd(slot, file, how, seen)));
  }

  lasted(file: string): Promise<void> {
    return this.alone(() => this.#parts.updater.note((slot) => noteLasting(slot, file)));
  }

  /** Takes the next steps of an update, and restarts the runtime if needed. */
  async update(runtime: RuntimeProcess, signal: AbortSignal): Promise<void> {
    const { updater, probe, changed } = this.#parts;
    const asked = runtime.state;
    // Asks the runtime only if a restart is wanted, and outside the lock, so that no start waits for the answer.
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
      // Not awaited: a runtime may take minutes to end, and the watchdog needs a sign of life before that.
      void began?.then(changed);
      if (restart) void runtime.restart("another version is to run");
      else if (runtime.state.stale && maySwitch) void runtime.restart("its environment has changed");
    });
  }

  /** The runtime's health, as far as it decides about its version. */
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
      const reason = `it was not healthy for a minute within ${minutes} minutes`;
      return { running, health: "failed", reason, lastFailure };
    }
    return { running, health: "starting", lastFailure };
  }
}

/** Whether nothing runs that an update could interrupt. */
export function isIdle({ phase }: RuntimeState): boolean {
  return phase === "stopped" || phase === "waiting";
}
