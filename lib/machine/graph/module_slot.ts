/** The modules of a machine, which are loaded when a configuration first has some. */

import { type Clock, deadline } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Modules } from "../modules/modules.ts";
import type { MachineConfig } from "../config/config.ts";

export class ModuleSlot {
  #load: (() => Promise<Modules>) | undefined;
  #modules: Modules | undefined;

  constructor(
    private readonly clock: Clock,
    /** Called when modules come, go or change their mind. */
    private readonly changed: () => void,
  ) {}

  /** Has `load` called when a configuration first has modules; until then they are ignored. */
  runModules(load: () => Promise<Modules>): void {
    this.#load = load;
  }

  get modules(): Modules | undefined {
    return this.#modules;
  }

  async configure(config: MachineConfig): Promise<void> {
    if (config.modules.length > 0) this.#modules ??= await this.#open();
    this.#modules?.configure(config);
  }

  /** Waits until modules have started or failed to; calls `meanwhile` again and again, as often as `everyMs` tells. */
  async settled(everyMs: number, meanwhile: () => Promise<void>, overtaken: AbortSignal): Promise<void> {
    while (this.#modules && !overtaken.aborted) {
      const late = () => new SvcError("deadline_exceeded", "modules are still starting");
      const { signal, done } = deadline(this.clock, everyMs, late, overtaken);
      await this.#modules.settled(signal).finally(done);
      if (!signal.aborted) return;
      await meanwhile();
    }
  }

  async #open(): Promise<Modules | undefined> {
    const modules = await this.#load?.();
    modules?.follow(this.changed);
    return modules;
  }
}
