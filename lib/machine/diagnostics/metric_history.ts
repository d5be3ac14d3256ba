/**
 * The captured metrics of the last minutes in memory, for whoever looks at them while the program runs.
 *
 * Keeps a bounded number of samples. The figures of calls by method are kept once, because they only grow; the samples
 * have their sums.
 */

import type { MetricSample } from "./ftdc_format.ts";

const SAMPLES_MAX = 300;
/** Metrics of one sample; a machine with very many modules has more. */
const METRICS_MAX = 200;
const METHODS_MAX = 200;

/** `calls.viam.robot.v1.RobotService/GetVersion.ended_total` */
const CALL_METRIC = /^calls\.(?<method>.+)\.(?<figure>ended_total|failed_total|time_total_us)$/;
type CallFigure = "ended_total" | "failed_total" | "time_total_us";

/** The calls of one method since the program began. */
export interface MethodFigures {
  /** `viam.robot.v1.RobotService/GetVersion` */
  readonly name: string;
  readonly endedTotal: number;
  readonly failedTotal: number;
  readonly timeTotalUs: number;
}

export class MetricHistory {
  readonly #samples: MetricSample[] = [];
  #latest: MetricSample["values"] = {};

  add({ timeMs, values }: MetricSample): void {
    this.#latest = values;
    this.#samples.push({ timeMs, values: withSums(values) });
    if (this.#samples.length > SAMPLES_MAX) this.#samples.shift();
  }

  /** The oldest first. */
  since(afterMs: number): readonly MetricSample[] {
    return this.#samples.filter(({ timeMs }) => timeMs > afterMs);
  }

  /** The methods that took the most time, first. */
  methods(): MethodFigures[] {
    const byName = new Map<string, Record<CallFigure, number>>();
    for (const [metric, value] of Object.entries(this.#latest)) {
      const { method, figure } = CALL_METRIC.exec(metric)?.groups ?? {};
      if (method === undefined || figure === undefined) continue;
      const figures = byName.get(method) ?? { ended_total: 0, failed_total: 0, time_total_us: 0 };
      byName.set(method, { ...figures, [figure]: value });
    }
    return [...byName].map(([name, figures]) => ({
      name,
      endedTotal: figures.ended_total,
      failedTotal: figures.failed_total,
      timeTotalUs: figures.time_total_us,
    })).sort((a, b) => b.timeTotalUs - a.timeTotalUs).slice(0, METHODS_MAX);
  }
}

/** One sum over all methods in place of the figures of each: `calls.ended_total`. */
function withSums(values: MetricSample["values"]): MetricSample["values"] {
  const sums: Record<string, number> = {};
  const kept: Record<string, number> = {};
  let count = 0;
  for (const [metric, value] of Object.entries(values)) {
    const figure = CALL_METRIC.exec(metric)?.groups?.figure;
    if (figure) sums[`calls.${figure}`] = (sums[`calls.${figure}`] ?? 0) + value;
    else if (count++ < METRICS_MAX) kept[metric] = value;
  }
  return { ...kept, ...sums };
}
