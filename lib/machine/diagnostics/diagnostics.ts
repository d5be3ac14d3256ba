/**
 * Everything that the program records about itself: one object with the requested parts.
 *
 * Parts that are not requested cost nothing. Nothing in here can stop the machine.
 *
 * The room owns the views into a running machine: captured metrics, telemetry, profiles, and the network check.
 */

import type { ResourceSpans } from "../../../proto/gen/trace_pb.ts";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Environment, ProcessUsage } from "../../base/host.ts";
import type { LogFiles, ReadFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logs } from "../../base/log/log.ts";
import type { Interceptor, Peer } from "../../wire/rpc/service.ts";
import { CallStats } from "../serve/call_stats.ts";
import { LogLimit } from "../serve/log_limit.ts";
import type { MachineConfig } from "../config/config.ts";
import { Ftdc, type MetricSource } from "./ftdc.ts";
import type { BuildState, Machine } from "../graph/machine.ts";
import { MetricHistory } from "./metric_history.ts";
import { homeFolder } from "../config/placeholder.ts";
import { receivedSpans } from "./received_spans.ts";
import { startTelemetry, type Telemetry, type TelemetryOptions } from "./telemetry.ts";
import { profileRoutes } from "./web_profile.ts";
import type { Route } from "../../wire/port/route.ts";

export interface DiagnosticsOptions {
  /** Captures metrics continuously. */
  readonly ftdc: boolean;
  /** Serves profiles to everybody; the configuration may enable them for callers on this computer. */
  readonly webProfile: boolean;
  /** Writes metrics and spans to the log. */
  readonly telemetry: boolean;
}

export interface DiagnosticsParts {
  readonly machine: Pick<Machine, "nodes" | "config" | "registry">;
  readonly host: Environment & ProcessUsage & LogFiles & ReadFiles;
  readonly clock: Clock;
  readonly logs: Logs;
  /** `0.1.0` */
  readonly version: string;
  /** Further metrics to capture. */
  readonly sources?: readonly MetricSource[];
}

const NO_TELEMETRY: TelemetryOptions = {
  metrics: false,
  console: false,
  file: undefined,
  endpoint: undefined,
};

export class Diagnostics {
  /** Interceptors for every call. */
  readonly interceptors: readonly Interceptor[];
  /** HTTP pages of the port. */
  readonly routes: ReadonlyMap<string, Route>;
  /** The last samples; absent if nothing is captured. */
  readonly history: MetricHistory | undefined;
  readonly #options: DiagnosticsOptions;
  readonly #parts: DiagnosticsParts;
  readonly #calls: CallStats;
  readonly #spanLimit: LogLimit;
  readonly #closing = new AbortController();
  #ftdc: Ftdc | undefined;
  #telemetry: Telemetry | undefined;
  /** The requested telemetry, and the queue of its changes. */
  #wanted: TelemetryOptions = NO_TELEMETRY;
  readonly #work = new SerialQueue();

  /** Does not start anything yet. */
  constructor(options: DiagnosticsOptions, parts: DiagnosticsParts) {
    this.#options = options;
    this.#parts = parts;
    this.#calls = new CallStats(parts.clock);
    this.#spanLimit = new LogLimit(parts.clock);
    this.history = options.ftdc ? new MetricHistory() : undefined;
    this.interceptors = [
      (ctx, request) => this.#telemetry?.interceptor(ctx, request),
      ...(options.ftdc ? [this.#calls.interceptor] : []),
    ];
    const { machine, clock } = parts;
    const audience = () => {
      if (options.webProfile) return "everybody";
      return machine.config?.enableWebProfile ? "this computer" : "nobody";
    };
    this.routes = profileRoutes({ machine, clock, audience, signal: this.#closing.signal });
  }

  /** `config` names the machine part of the captures, and the tracing settings. */
  async begin(config: MachineConfig): Promise<void> {
    this.adopt(config);
    await this.#work.idle();

    const { machine, host, clock, logs, sources = [] } = this.#parts;
    if (!this.#options.ftdc) return;

    this.#ftdc = await Ftdc.start({
      folder: captureFolder((name) => host.env(name), config),
      sources: [
        () => processMetrics(host),
        () => resourceMetrics(machine),
        () => this.#calls.metrics(),
        ...sources,
      ],
      host,
      clock,
      logger: logs.logger("rdk.ftdc"),
      sampled: (sample) => this.history?.add(sample),
    });
  }

  /** Applies the tracing settings of another configuration. Does not wait, never throws. */
  adopt(config: MachineConfig): void {
    const wanted = this.#telemetryOptions(config);
    if (this.#closing.signal.aborted || JSON.stringify(wanted) === JSON.stringify(this.#wanted)) return;
    this.#wanted = wanted;
    void this.#work.run(() => this.#trace(wanted));
  }

  /** Takes the spans that a module sends, as many a second as one connection may send. Never throws, never waits. */
  receiveSpans(request: readonly ResourceSpans[], peer: Peer): void {
    const receive = this.#telemetry?.receive;
    if (!receive) return;
    const { spans, leftOut } = receivedSpans(request);
    let excess = leftOut;
    const admitted = spans.filter(() => {
      const { admitted, leftOut: earlier } = this.#spanLimit.enter(peer);
      excess += earlier;
      return admitted;
    });
    receive(admitted);
    const logger = this.#parts.logs.logger("rdk.telemetry");
    if (excess > 0) {
      logger.warn(`${excess} spans of a module are left out: too many, or without ids or times`);
    }
  }

  /** Ends everything and writes the rest. Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", "the machine is shutting down"));
    this.#ftdc?.close();
    await this.#work.idle();
    await this.#trace(NO_TELEMETRY);
  }

  async #trace(options: TelemetryOptions): Promise<void> {
    const { machine: { registry }, host, clock, logs, version } = this.#parts;
    const logger = logs.logger("rdk.telemetry");
    try {
      const before = this.#telemetry;
      this.#telemetry = undefined;
      await before?.close();
      if (JSON.stringify(options) === JSON.stringify(NO_TELEMETRY)) return;
      this.#telemetry = await startTelemetry(options, { host, clock, logger, version, registry });
    } catch (error) {
      logger.error(`telemetry is off: ${chainOf(error)}`);
    }
  }

  #telemetryOptions({ tracing, cloud }: MachineConfig): TelemetryOptions {
    const printed = this.#options.telemetry;
    const { enabled, disk, console, otlpendpoint } = tracing;
    // The published place and name, in this program's home.
    const folder = `${homeFolder((name) => this.#parts.host.env(name))}/trace/${ownerOf(cloud)}`;
    return {
      metrics: printed,
      console: printed || (enabled && console),
      file: enabled && disk ? `${folder}/traces.jsonl` : undefined,
      records: enabled && disk ? `${folder}/traces` : undefined,
      endpoint: enabled ? otlpendpoint : undefined,
    };
  }
}

/** The published place, in this program's home. */
function captureFolder(env: (name: string) => string | undefined, { cloud }: MachineConfig): string {
  return `${homeFolder(env)}/diagnostics.data/${ownerOf(cloud)}`;
}

/** The name of a folder or file of what this program keeps for its machine: the machine part. */
export function ownerOf(cloud: MachineConfig["cloud"]): string {
  return cloud?.id ?? "local-config";
}

function processMetrics(host: ProcessUsage) {
  const { residentBytes, heapUsedBytes, cpuUs } = host.usage();
  return {
    "process.resident_bytes": residentBytes,
    "process.heap_used_bytes": heapUsedBytes,
    "process.cpu_total_us": cpuUs,
  };
}

/** Counts of resources by state. */
function resourceMetrics({ nodes }: Pick<Machine, "nodes">) {
  const counts: { [S in BuildState]: number } = {
    unconfigured: 0,
    configuring: 0,
    ready: 0,
    unhealthy: 0,
    removing: 0,
  };
  for (const { state } of nodes) counts[state]++;
  return Object.fromEntries(Object.entries(counts).map(([state, count]) => [`resources.${state}`, count]));
}
