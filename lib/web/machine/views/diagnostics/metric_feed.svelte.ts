/**
 * The program's own metrics as plots show them: rates of what only grows, units that people read. They come from the
 * machine once a second, at first with those of the last minutes.
 */

import { useLink } from "../../link/page_link.svelte.ts";
import { type MethodTotals, type PageMetrics, pageServiceOf } from "../../link/page_service.ts";
import { poll } from "../../link/poll.svelte.ts";
import { TimeSeries } from "../../parts/time_series.svelte.ts";

const EVERY_MS = 1000;
const MB = 1e6;
const MODULE_MEMORY = /^proc\.modules\.(?<name>.+)\.resident_bytes$/;
const MODULES_MAX = 6;

type Sample = { readonly timeMs: number; readonly values: ReadonlyMap<string, number> };

/** The calls of one method in the time between two answers. */
export interface MethodRate {
  /** `RobotService/GetVersion` */
  readonly name: string;
  readonly perSecond: number;
  readonly meanMs: number;
  readonly failed: number;
  readonly total: number;
}

export class MetricFeed {
  readonly #link = useLink();
  readonly cpu = new TimeSeries(["CPU"]);
  readonly memory = new TimeSeries(["process", "objects"]);
  readonly delay = new TimeSeries(["longest delay"]);
  readonly calls = new TimeSeries(["ended", "failed", "open"]);
  readonly latency = new TimeSeries(["mean"]);
  readonly roundTrip = new TimeSeries(["round trip"]);
  readonly modules = new TimeSeries([]);
  methods = $state.raw<readonly MethodRate[]>([]);
  moduleNames = $state.raw<readonly string[]>([]);
  offReason = $state("");
  /** How far the machine's clock is ahead of this computer's. */
  clockAheadMs = $state<number>();

  #before: Sample | undefined;
  #totals: { readonly atMs: number; readonly byName: ReadonlyMap<string, MethodTotals> } | undefined;
  readonly #poll = poll(
    async (client) => {
      const askedMs = Date.now();
      const answer = await pageServiceOf(client).getMetrics({ afterMs: this.#before?.timeMs ?? 0 });
      return { answer, middleMs: (askedMs + Date.now()) / 2 };
    },
    EVERY_MS,
    { heard: ({ answer, middleMs }) => this.#take(answer, middleMs) },
  );

  get problem(): string | undefined {
    return this.#poll.problem;
  }

  #take({ names, samples, methods, offReason, nowMs }: PageMetrics, middleMs: number): void {
    this.offReason = offReason;
    this.clockAheadMs = nowMs - middleMs;
    for (const { timeMs, values } of samples) {
      const sample = { timeMs, values: new Map(names.map((name, at) => [name, values[at] ?? NaN])) };
      if (this.#before) this.#plot(this.#before, sample);
      this.#before = sample;
    }
    this.roundTrip.push({ "round trip": this.#link.rttMs });
    this.#rate(methods, nowMs);
  }

  #plot(before: Sample, { timeMs, values }: Sample): void {
    const seconds = (timeMs - before.timeMs) / 1000;
    const grown = (name: string) => {
      const by = (values.get(name) ?? NaN) - (before.values.get(name) ?? 0);
      // Another program began.
      return by >= 0 && seconds > 0 ? by : undefined;
    };
    const perSecond = (name: string) => {
      const by = grown(name);
      return by === undefined ? undefined : by / seconds;
    };
    const cpuUs = perSecond("process.cpu_total_us");
    this.cpu.push({ CPU: cpuUs === undefined ? undefined : cpuUs / 1e4 }, undefined, timeMs);
    const megabytes = (name: string) => (values.get(name) ?? NaN) / MB;
    this.memory.push(
      { process: megabytes("process.resident_bytes"), objects: megabytes("process.heap_used_bytes") },
      undefined,
      timeMs,
    );
    this.delay.push({ "longest delay": (values.get("loop.lag_max_us") ?? NaN) / 1000 }, undefined, timeMs);
    const calls = {
      ended: perSecond("calls.ended_total"),
      failed: perSecond("calls.failed_total"),
      open: values.get("calls.open"),
    };
    this.calls.push(calls, undefined, timeMs);
    const ended = grown("calls.ended_total");
    const timeUs = grown("calls.time_total_us");
    const mean = ended && timeUs !== undefined ? timeUs / ended / 1000 : undefined;
    this.latency.push({ mean }, undefined, timeMs);
    this.#plotModules(values, timeMs);
  }

  #plotModules(values: Sample["values"], timeMs: number): void {
    const found = [...values].flatMap(([metric, bytes]) => {
      const name = MODULE_MEMORY.exec(metric)?.groups?.name;
      return name === undefined || Number.isNaN(bytes) ? [] : [[name, bytes / MB] as const];
    }).slice(0, MODULES_MAX);
    const names = found.map(([name]) => name);
    if (names.join("\n") !== this.moduleNames.join("\n")) this.moduleNames = names;
    if (names.length > 0) this.modules.push(Object.fromEntries(found), names, timeMs);
  }

  #rate(methods: readonly MethodTotals[], nowMs: number): void {
    const before = this.#totals;
    this.#totals = { atMs: nowMs, byName: new Map(methods.map((one) => [one.name, one])) };
    const seconds = before ? (nowMs - before.atMs) / 1000 : NaN;
    this.methods = methods.map((one) => {
      const last = before?.byName.get(one.name);
      const ended = last ? one.endedTotal - last.endedTotal : 0;
      return {
        name: one.name.split(".").at(-1) ?? one.name,
        perSecond: ended >= 0 && seconds > 0 ? ended / seconds : 0,
        meanMs: one.endedTotal > 0 ? one.timeTotalUs / one.endedTotal / 1000 : NaN,
        failed: one.failedTotal,
        total: one.endedTotal,
      };
    }).sort((a, b) => b.total - a.total);
  }
}
