/** Applies the settings to the subsystems, one after the other: at every change, and every few minutes. */

import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import type { AgentSettings } from "./settings.ts";
import type { Subsystem } from "./subsystem.ts";

const SUBSYSTEMS_MS = 5 * 60_000;

export class SubsystemPasses {
  #nextMs = 0;
  #passing: Promise<void> | undefined;
  /** Why settings could not be applied to a subsystem, by its name. */
  readonly #unapplied = new Map<string, string>();
  readonly #logged = new LogOnChange();

  constructor(
    private readonly subsystems: readonly Subsystem[],
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  get problems(): string[] {
    return [...this.#unapplied].map(([name, problem]) => `${name}: ${problem}`);
  }

  /** The settings have changed: the next pass is due. */
  expire(): void {
    this.#nextMs = 0;
  }

  /** Begins a pass if one is due and none runs. Does not wait for it, because an upgrade of the system takes long. */
  begin(settings: () => AgentSettings, signal: AbortSignal): void {
    if (this.clock.monotonicMs() < this.#nextMs || this.#passing) return;
    this.#passing = this.#apply(settings, signal).finally(() => this.#passing = undefined);
  }

  /** Resolves when no pass runs. */
  async idle(): Promise<void> {
    await this.#passing;
  }

  async close(): Promise<void> {
    for (const subsystem of this.subsystems) await subsystem.close();
  }

  async #apply(settings: () => AgentSettings, signal: AbortSignal): Promise<void> {
    this.#nextMs = this.clock.monotonicMs() + SUBSYSTEMS_MS;
    for (const subsystem of this.subsystems) {
      try {
        await subsystem.apply(settings(), signal);
        this.#unapplied.delete(subsystem.name);
        this.#logged.clear(subsystem.name);
      } catch (error) {
        const problem = chainOf(error);
        this.#unapplied.set(subsystem.name, problem);
        if (!this.#logged.isNew(problem, subsystem.name)) continue;
        this.logger.error(`${subsystem.name}: ${problem}`);
      }
    }
  }
}
