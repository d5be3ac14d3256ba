/**
 * Metrics of a running control plane, in the text form of OpenMetrics.
 *
 * They count from the start of the process. They cover all organizations together, so they are for the operator and
 * need a key of their own; no API key is accepted. The caller's address proves nothing: behind a proxy, every
 * caller comes from this computer.
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/error.ts";
import { fieldValue } from "../wire/port/exchange.ts";
import { textAnswer } from "../wire/port/routes.ts";
import { type Interceptor, pathOf } from "../wire/rpc/service.ts";
import type { ConfigContext } from "./config/config_threads.ts";
import type { DiskState } from "./store/disk_space.ts";
import { type FleetFigures, FleetMetrics, type FleetSample } from "./fleet_metrics.ts";
import { Parts } from "./tenants/parts.ts";
import { DELAY_BOUNDS_MS, type DelayFigures, type LoopDelay, type TimeClasses } from "./loop_delay.ts";
import type { Route } from "../wire/port/route.ts";

const TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/** The text form that older scrapers and promtool read. */
const PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8";
const LOG = pathOf(RobotService.method.log);

/** Upper bounds of the classes of calls. */
const CALL_BOUNDS_MS = [5, 25, 100, 500, 2_500, 10_000];

export interface MetricsOptions {
  readonly metricsKey?: string;
  readonly loopDelay?: LoopDelay;
  /** Of this process. */
  readonly memory?: () => { readonly residentBytes: number; readonly heapUsedBytes: number };
}

interface Sample {
  readonly labels?: string;
  readonly value: number;
}

export class Metrics {
  /** By their labels. */
  readonly #requests = new Map<string, number>();
  /** By method: the number of calls that ended within each bound. */
  readonly #durations = new Map<string, { readonly counts: number[]; sumMs: number }>();
  #fleet: FleetMetrics | undefined;
  #logLines = 0;

  /** Counts calls by outcome. Unserved methods never get here, so the number of labels is limited. */
  readonly interceptor: Interceptor = (ctx, request) => {
    const beganMs = this.clock.monotonicMs();
    const lines = ctx.path === LOG
      ? (request as { logs?: readonly unknown[] } | undefined)?.logs?.length ?? 0
      : 0;
    return (error) => {
      const labels = `method="${ctx.path.slice(1)}",code="${error?.code ?? "ok"}"`;
      this.#requests.set(labels, (this.#requests.get(labels) ?? 0) + 1);
      if (!error) this.#logLines += lines;
      this.#took(ctx.path.slice(1), this.clock.monotonicMs() - beganMs);
    };
  };

  /** `waiting` has the lengths of queues that only the composition knows. */
  constructor(
    private readonly clock: Clock,
    private readonly waiting: () => Readonly<Record<string, number>> = () => ({}),
  ) {}

  #took(method: string, ms: number): void {
    const known = this.#durations.getOrInsertComputed(method, () => {
      return { counts: CALL_BOUNDS_MS.map(() => 0).concat(0), sumMs: 0 };
    });
    const found = CALL_BOUNDS_MS.findIndex((bound) => ms <= bound);
    const at = found < 0 ? CALL_BOUNDS_MS.length : found;
    known.counts[at] = (known.counts[at] ?? 0) + 1;
    known.sumMs += ms;
  }

  /** `metricsKey`: the key that readers present; without one nobody may read. */
  route(
    cloud: ConfigContext,
    { metricsKey: key, loopDelay, memory }: MetricsOptions,
  ): Route {
    return async ({ method, fields }) => {
      if (method !== "GET" && method !== "HEAD") return textAnswer(405, "/metrics answers GET");
      if (!isKey(key, fieldValue(fields, "authorization"))) {
        return textAnswer(
          401,
          "wanted a header `authorization: Bearer <metrics key>`; see --metrics-key-file",
        );
      }
      try {
        const page = await this.#page(cloud, loopDelay?.figures, memory?.());
        const wantsPlain = /^text\/plain/.test(fieldValue(fields, "accept") ?? "");
        if (wantsPlain) return { status: 200, contentType: PLAIN_TYPE, body: plainText(page) };
        return { status: 200, contentType: TYPE, body: page };
      } catch (error) {
        return textAnswer(503, messageOf(error));
      }
    };
  }

  async #page(
    { store, files, presence, usage, clock, configs }: ConfigContext,
    delay?: DelayFigures,
    memory?: ReturnType<NonNullable<MetricsOptions["memory"]>>,
  ): Promise<string> {
    const seen = await new Parts(store).sightings();
    const online = seen.filter(({ id, seenMs }) => presence.state(presence.seenMs(id, seenMs)) === "online");
    const fleet = await (this.#fleet ??= new FleetMetrics(store, presence, clock)).figures();
    const requests = [...this.#requests].map(([labels, value]) => ({ labels, value }));
    const families = [
      counter("svc_cloud_requests", "Calls by method and outcome.", requests),
      counter("svc_cloud_log_lines", "Log entries received from machines.", [{ value: this.#logLines }]),
      gauge("svc_cloud_parts", "Parts of machines.", seen.length),
      gauge("svc_cloud_parts_online", "Parts seen a moment ago.", online.length),
      gauge("svc_cloud_database_bytes", "Size of the database.", await store.bytes()),
      ...diskFamilies(await files.diskState()),
      nearlyFullFamily(usage.nearlyFull),
      ...(delay ? delayFamilies(delay) : []),
      this.#durationFamily(),
      ...fleetFamilies(fleet),
      queueFamily({ ...this.waiting(), ...store.waiting, config_checks: configs.waiting }, fleet.queues),
      ...(memory ? memoryFamilies(memory) : []),
    ];
    return `${families.flat().join("\n")}\n# EOF\n`;
  }

  /** Durations of calls that have ended; a stream lasts as long as its caller wants. */
  #durationFamily(): string[] {
    const name = "svc_cloud_request_duration_seconds";
    const lines = [...this.#durations].flatMap(([method, { counts, sumMs }]) => {
      let count = 0;
      const buckets = counts.map((some, at) => {
        const bound = bucketBound(CALL_BOUNDS_MS[at]);
        return `${name}_bucket{method="${method}",le="${bound}"} ${count += some}`;
      });
      return [
        ...buckets,
        `${name}_sum{method="${method}"} ${sumMs / 1000}`,
        `${name}_count{method="${method}"} ${count}`,
      ];
    });
    return [
      `# HELP ${name} How long calls took, by method.`,
      `# TYPE ${name} histogram`,
      `# UNIT ${name} seconds`,
      ...lines,
    ];
  }
}

/**
 * The same figures in Prometheus' older text form, in which a counter is described under the name of its samples.
 */
function plainText(page: string): string {
  const counters = [...page.matchAll(/^# TYPE (\S+) counter$/gm)].map(([, name]) => name);
  const lines = page.split("\n").filter((line) => !/^# (?:UNIT|EOF)/.test(line)).map((line) => {
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    return name !== undefined && counters.includes(name) ? `# ${kind} ${name}_total ${rest}` : line;
  });
  return lines.join("\n");
}

function fleetFamilies({ seen, states, versions, bytes, rows, jobs }: FleetFigures): string[][] {
  return [
    family("svc_cloud_part_last_seen_timestamp_seconds", "When a part was seen last.", seen),
    family("svc_cloud_parts_in_state", "Parts that are online, offline, or were never seen.", states),
    family("svc_cloud_fleet_versions", "Parts by the version of svc-server and by state.", versions),
    family("svc_cloud_stored_bytes", "What an organization stores, by kind.", bytes),
    family("svc_cloud_stored_items", "How many things an organization stores, by kind.", rows),
    family("svc_cloud_training_jobs", "Training jobs by state; pending ones wait.", jobs),
  ];
}

/** Lengths of the queues in this process, and of those in the database, which any control plane works on. */
function queueFamily(own: { readonly [queue: string]: number }, shared: readonly FleetSample[]): string[] {
  const ofProcess = Object.entries(own).map(([queue, value]) => ({ labels: `queue="${queue}"`, value }));
  return family("svc_cloud_queue_length", "What waits now, by queue.", [...ofProcess, ...shared]);
}

function memoryFamilies(
  { residentBytes, heapUsedBytes }: { residentBytes: number; heapUsedBytes: number },
): string[][] {
  return [
    gauge("svc_cloud_memory_resident_bytes", "Memory of the process.", residentBytes),
    gauge("svc_cloud_memory_heap_bytes", "Memory of its objects.", heapUsedBytes),
  ];
}

function family(name: string, help: string, samples: readonly FleetSample[]): string[] {
  const lines = samples.map(({ labels, value }) => `${name}{${labels}} ${value}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...lines];
}

function diskFamilies(disk: DiskState | undefined): string[][] {
  if (!disk) return [];
  return [
    gauge("svc_cloud_disk_bytes", "Size of the disk with uploads and database.", disk.totalBytes),
    gauge("svc_cloud_disk_free_bytes", "Free space of that disk.", disk.freeBytes),
    gauge("svc_cloud_disk_reserve_bytes", "Space that uploads leave free.", disk.reserveBytes),
    gauge("svc_cloud_disk_held_bytes", "Space held by uploads under way.", disk.heldBytes),
  ];
}

/** A limit without a sample is nearly full for nobody. */
function nearlyFullFamily(counts: ReadonlyMap<string, number>): string[] {
  const name = "svc_cloud_limits_nearly_reached";
  const lines = [...counts].map(([limit, count]) => `${name}{limit="${limit}"} ${count}`);
  const help = "Organizations and machines that use more than 80 % of a limit.";
  return [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...lines];
}

function delayFamilies({ delay, busy, longestMs }: DelayFigures): string[][] {
  const busyHelp = "The same without the time in which the computer was busy with other processes.";
  return [
    histogram("svc_cloud_event_loop_delay_seconds", "How late timers were: callers waited as long.", delay),
    histogram("svc_cloud_event_loop_busy_seconds", busyHelp, busy),
    gauge("svc_cloud_event_loop_delay_longest_seconds", "The longest delay.", longestMs / 1000),
  ];
}

/** The upper bound of a bucket in seconds; the last bucket has none. */
function bucketBound(ms: number | undefined): string {
  return ms === undefined ? "+Inf" : String(ms / 1000);
}

function histogram(name: string, help: string, { counts, sumMs }: TimeClasses): string[] {
  let count = 0;
  const buckets = counts.map((some, at) => {
    const bound = bucketBound(DELAY_BOUNDS_MS[at]);
    return `${name}_bucket{le="${bound}"} ${count += some}`;
  });
  const total = [`${name}_sum ${sumMs / 1000}`, `${name}_count ${count}`];
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} histogram`,
    `# UNIT ${name} seconds`,
    ...buckets,
    ...total,
  ];
}

function isKey(key: string | undefined, given: string | undefined): boolean {
  const [, shown = ""] = /^Bearer (.+)$/i.exec(given ?? "") ?? [];
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return key !== undefined && key !== "" && timingSafeEqual(digest(key), digest(shown));
}

function counter(name: string, help: string, samples: readonly Sample[]): string[] {
  const lines = samples.map(({ labels, value }) => `${name}_total${labels ? `{${labels}}` : ""} ${value}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} counter`, ...lines];
}

function gauge(name: string, help: string, value: number): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, `${name} ${value}`];
}
