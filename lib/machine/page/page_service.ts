/**
 * MachinePageService: what the page of the machine needs beside the published services.
 *
 * The room owns what the machine's page needs from the program beside its files: this service, and what it keeps.
 */

import { MachinePageService } from "../../../proto/gen/machine_page_pb.ts";
import { toTimestamp } from "../../api/shared/time.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type DescFile, FileDescriptorProtoSchema, toBinary } from "../../wire/rpc/proto.ts";
import { type CallContext, type Service, service } from "../../wire/rpc/service.ts";
import type { MetricHistory } from "../diagnostics/metric_history.ts";
import type { Machine } from "../graph/machine.ts";
import type { DashboardCaller, DashboardStore } from "./dashboards.ts";
import type { LogBatch, LogFeed } from "./log_feed.ts";
import type { SharedCheck } from "./shared_check.ts";

/** Of an API's name in an error. */
const API_CHARS_MAX = 100;

export interface PageServiceParts {
  readonly machine: Pick<Machine, "nodes" | "apis">;
  readonly feed: LogFeed;
  readonly dashboards: DashboardStore;
  readonly check: SharedCheck;
  /** Absent if the program captures no metrics. */
  readonly history: MetricHistory | undefined;
  readonly clock: Clock;
}

export function pageService({ machine, feed, dashboards, check, history, clock }: PageServiceParts): Service {
  return service(MachinePageService, {
    followLogs: ({ backlog }, { signal }) => {
      if (!feed.hasPlace) {
        throw new SvcError("resource_exhausted", "too many callers follow the log; close another page");
      }
      return messagesOf(feed.follow(backlog, signal));
    },
    getGraph: () => ({
      nodes: [...machine.nodes].map(({ name, config, holds }) => ({
        id: name.full,
        model: config.model,
        dependsOn: [...holds],
      })),
    }),
    describeApi: ({ api: wanted }) => {
      const api = machine.apis.find(({ name }) => name === wanted);
      if (!api) throw new SvcError("not_found", `this machine has no API ${wanted.slice(0, API_CHARS_MAX)}`);
      const files = filesOf(api.desc.file).map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
      return { service: api.desc.typeName, files };
    },
    getMetrics: ({ afterMs }) => ({
      ...history ? metricsMessage(history, afterMs) : { offReason: "svc-server runs with -ftdc=false" },
      nowMs: clock.nowMs(),
    }),
    checkNetwork: async () => {
      const { findings, ...rest } = await check.findings();
      const shown = findings.map(({ group, subject, outcome, detail }) => ({
        group,
        subject,
        outcome,
        detail,
      }));
      return { ...rest, conclusions: [...rest.conclusions], findings: shown };
    },
    getDashboards: async () => ({
      dashboards: (await dashboards.list()).map(({ name, cards }) => ({ name, cards: [...cards] })),
    }),
    setDashboard: async ({ dashboard, formerName }, ctx) => {
      if (!dashboard) throw new SvcError("invalid_argument", "there is no dashboard in the request");
      const { name, cards } = dashboard;
      await dashboards.set({ name, cards }, formerName, callerOf(ctx));
      return {};
    },
    deleteDashboard: async ({ name }, ctx) => {
      await dashboards.delete(name, callerOf(ctx));
      return {};
    },
  });
}

/** A key, or the address that the caller came from. */
function callerOf({ entity, peer, signal }: CallContext): DashboardCaller {
  return { caller: entity ?? peer.entity ?? peer.signaledFrom ?? peer.remoteAddress ?? peer.kind, signal };
}

/** The samples as columns: their names are sent once. */
function metricsMessage(history: MetricHistory, afterMs: number) {
  const samples = history.since(afterMs);
  const names = [...new Set(samples.flatMap(({ values }) => Object.keys(values)))];
  return {
    names,
    samples: samples.map(({ timeMs, values }) => ({
      timeMs,
      values: names.map((name) => values[name] ?? NaN),
    })),
    methods: history.methods(),
  };
}

/** A file after all that it imports. */
function filesOf(file: DescFile, found = new Set<DescFile>()): DescFile[] {
  for (const dependency of file.dependencies) if (!found.has(dependency)) filesOf(dependency, found);
  found.add(file);
  return [...found];
}

async function* messagesOf(batches: AsyncIterable<LogBatch>) {
  for await (const { records, leftOut } of batches) {
    yield {
      records: records.map(({ timeMs, caller = "", ...record }) => ({
        ...record,
        caller,
        time: toTimestamp(timeMs),
      })),
      leftOut: BigInt(leftOut),
    };
  }
}
