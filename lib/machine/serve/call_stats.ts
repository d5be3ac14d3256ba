/**
 * Counts, durations and failures of calls by method, for diagnostics.
 */

import type { Clock } from "../../base/clock.ts";
import type { Interceptor } from "../../wire/rpc/service.ts";

interface MethodStats {
  ended: number;
  failed: number;
  timeMs: number;
}

export class CallStats {
  #open = 0;
  readonly #methods = new Map<string, MethodStats>();

  constructor(private readonly clock: Clock) {}

  readonly interceptor: Interceptor = ({ path }) => {
    const begunMs = this.clock.monotonicMs();
    this.#open++;
    return (error) => {
      this.#open--;
      const stats = this.#of(path);
      stats.ended++;
      if (error) stats.failed++;
      stats.timeMs += this.clock.monotonicMs() - begunMs;
    };
  };

  /** Methods by the path of their calls, from the first call on. */
  metrics(): { [metric: string]: number } {
    const values: { [metric: string]: number } = { "calls.open": this.#open };
    for (const [path, { ended, failed, timeMs }] of this.#methods) {
      const name = `calls.${path.slice(1)}`;
      values[`${name}.ended_total`] = ended;
      values[`${name}.failed_total`] = failed;
      values[`${name}.time_total_us`] = timeMs * 1_000;
    }
    return values;
  }

  #of(path: string): MethodStats {
    let stats = this.#methods.get(path);
    if (!stats) this.#methods.set(path, stats = { ended: 0, failed: 0, timeMs: 0 });
    return stats;
  }
}
