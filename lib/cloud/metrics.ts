/**
 * Metrics of a running control plane, in the text form of OpenMetrics.
 *
 * They count from the start of the process. They cover all organizations together, so they are for the operator and
 * need a key of their own, which no API key replaces. The caller's address proves nothing: behind a proxy, every
 * caller comes from this computer.
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { messageOf } from "../base/error.ts";
import { fieldValue } from "../wire/port/exchange.ts";
import { type Route, textAnswer } from "../wire/port/routes.ts";
import { type Interceptor, pathOf } from "../wire/service.ts";
import type { CloudContext } from "./context.ts";
import type { DiskState } from "./store/disk_space.ts";
import { Fleet } from "./fleet/fleet.ts";
import { DELAY_BOUNDS_MS, type DelayFigures, type LoopDelay, type TimeClasses } from "./loop_delay.ts";

const TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const LOG = pathOf(RobotService.method.log);

interface Sample {
  readonly labels?: string;
  readonly value: number;
}

export class Metrics {
  /** By their labels. */
  readonly #requests = new Map<string, number>();
  #logLines = 0;

  /** Counts calls by outcome. Unserved methods never get here, so the number of labels is limited. */
  readonly interceptor: Interceptor = (ctx, request) => {
    const lines = ctx.path === LOG
      ? (request as { logs?: readonly unknown[] } | undefined)?.logs?.length ?? 0
      : 0;
    return (error) => {
      const labels = `method="${ctx.path.slice(1)}",code="${error?.code ?? "ok"}"`;
      this.#requests.set(labels, (this.#requests.get(labels) ?? 0) + 1);
      if (!error) this.#logLines += lines;
    };
  };

  /** `metricsKey`: the key that readers present; without one nobody may read. */
  route(
    cloud: CloudContext,
    { metricsKey: key, loopDelay }: { readonly metricsKey?: string; readonly loopDelay?: LoopDelay },
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
        return { status: 200, contentType: TYPE, body: await this.#page(cloud, loopDelay?.figures) };
      } catch (error) {
        return textAnswer(503, messageOf(error));
      }
    };
  }

  async #page({ store, files, presence, usage }: CloudContext, delay?: DelayFigures): Promise<string> {
    const seen = await new Fleet(store).seen();
    const online = seen.filter(({ id, seenMs }) => presence.state(presence.seenMs(id, seenMs)) === "online");
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
    ];
    return `${families.flat().join("\n")}\n# EOF\n`;
  }
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

/** A limit without a sample is nobody's problem. */
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

function histogram(name: string, help: string, { counts, sumMs }: TimeClasses): string[] {
  let count = 0;
  const buckets = counts.map((some, at) => {
    const bound = at < DELAY_BOUNDS_MS.length ? DELAY_BOUNDS_MS[at] / 1000 : "+Inf";
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
