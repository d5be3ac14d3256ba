/**
 * `status`: how a machine and its resources are.
 */

import {
  GetMachineStatusResponse_State as MachineState,
  JobStatusSchema,
  ModuleStatus_State as ModuleState,
  ResourceStatus_Reachability as Reachability,
  ResourceStatus_State as ResourceState,
} from "../../../proto/gen/robot_pb.ts";
import { toMs } from "../../../lib/api/shared/time.ts";
import { escapedLine } from "../../../lib/base/escape.ts";
import type { MessageShape } from "../../../lib/wire/rpc/proto.ts";
import { wrap } from "../../flags.ts";
import { EXIT } from "../../program.ts";
import {
  type Column,
  facts,
  fittedTable,
  printLines,
  printResult,
  type TableForm,
  timeText,
} from "../../table.ts";
import type { MachineClient } from "./reach.ts";
import { machineCommand, type MachineContext } from "./machine_command.ts";

/** Without a terminal, lines are cut nowhere; reasons are still wrapped at this width. */
const USUAL_COLUMNS = 80;

export const STATUS = machineCommand({
  words: "status",
  takes: [],
  summary: "Prints the state of a running machine: its resources and modules, and why some are unhealthy. " +
    "The exit code is 1 if one is.",
  flags: [],
  run: async (context) => {
    const found = await machineReport(await context.machine());
    const isGood = unhealthyOf(found).length === 0;
    printReport(context, found);
    return isGood ? EXIT.ok : EXIT.failed;
  },
});

export interface ResourceReport {
  readonly name: string;
  readonly api: string;
  readonly state: string;
  readonly error?: string;
  readonly since?: string;
  readonly remote?: string;
  readonly reachability?: string;
}

export interface ModuleReport {
  readonly name: string;
  readonly state: string;
  readonly error?: string;
  readonly since?: string;
}

export interface MachineReport {
  readonly machine: string;
  readonly version: string;
  readonly state: string;
  readonly revision: string;
  readonly applied?: string;
  readonly resources: readonly ResourceReport[];
  readonly modules: readonly ModuleReport[];
  readonly jobs: readonly { readonly name: string; readonly last: string; readonly at?: string }[];
}

/** What the machine says about itself, in words. */
export async function machineReport({ robot, limits, where }: MachineClient): Promise<MachineReport> {
  const [{ version }, status] = await Promise.all([
    robot.getVersion({}, limits),
    robot.getMachineStatus({}, limits),
  ]);
  const { resources, modules, config, jobStatuses } = status;
  return {
    machine: where,
    version,
    state: wordOf(MachineState, status.state),
    revision: config?.revision ?? "",
    applied: isoTime(config?.lastUpdated),
    resources: resources.map((one) => ({
      name: one.name?.name ?? "",
      api: apiText(one.name),
      state: wordOf(ResourceState, one.state),
      error: one.error || undefined,
      since: isoTime(one.lastUpdated),
      remote: one.remote || undefined,
      reachability: one.reachability === Reachability.REACHABLE || one.reachability === 0
        ? undefined
        : wordOf(Reachability, one.reachability),
    })).sort((a, b) => compare(a.api, b.api) || compare(a.name, b.name)),
    modules: modules.map(({ moduleName: name, state, error, lastUpdated }) => ({
      name,
      state: wordOf(ModuleState, state),
      error: error || undefined,
      since: isoTime(lastUpdated),
    })),
    jobs: jobStatuses.map(jobReport),
  };
}

function jobReport(
  { jobName: name, recentSuccessfulRuns, recentFailedRuns }: MessageShape<typeof JobStatusSchema>,
) {
  const newest = (runs: typeof recentFailedRuns) => Math.max(-Infinity, ...runs.map(toMs));
  const [good, bad] = [newest(recentSuccessfulRuns), newest(recentFailedRuns)];
  if (good === -Infinity && bad === -Infinity) return { name, last: "never ran" };
  return { name, last: bad > good ? "failed" : "ok", at: new Date(Math.max(good, bad)).toISOString() };
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** The number of an enum as a word: `REMOTE_DISCONNECTED` as `remote disconnected`. */
function wordOf(names: { readonly [number: number]: string }, value: number): string {
  return (names[value] ?? String(value)).toLowerCase().replaceAll("_", " ");
}

function apiText(
  name: { readonly namespace: string; readonly type: string; readonly subtype: string } | undefined,
): string {
  if (!name) return "";
  return [name.namespace, name.type, name.subtype].filter((word) => word !== "").join(":");
}

function isoTime(time: Parameters<typeof toMs>[0]): string | undefined {
  const ms = toMs(time);
  return ms === 0 || Number.isNaN(new Date(ms).getTime()) ? undefined : new Date(ms).toISOString();
}

/** Whatever is not as configured, with the reason. */
function unhealthyOf({ resources, modules }: MachineReport): (ResourceReport | ModuleReport)[] {
  return [...modules, ...resources].filter(({ state, error }) =>
    state === "unhealthy" || error !== undefined
  );
}

function printReport({ host, json }: MachineContext, report: MachineReport): void {
  if (json) return printResult(host, true, report, []);
  const columns = host.columns();
  const form = { columns, coloured: host.coloured() };
  printLines(host, [
    ...facts([
      ["machine", `${report.machine} (svc-server ${report.version}, ${report.state})`],
      ["revision", [report.revision, time(report.applied)].filter(Boolean).join(", applied ")],
    ]).map(escapedLine),
    "",
    ...resourceTable(report, form),
    ...moduleTable(report, form),
    ...jobTable(report, form),
    ...reasons(report, columns ?? USUAL_COLUMNS),
  ]);
}

function resourceTable({ resources }: MachineReport, form: TableForm): string[] {
  if (resources.length === 0) return ["no resources: add some to the machine's configuration"];
  const hasRemotes = resources.some(({ remote }) => remote !== undefined);
  const columns: Column[] = [
    { heading: "RESOURCE", cutTo: 16 },
    { heading: "TYPE", cutTo: 10, rank: 1 },
    { heading: "STATE", isState: true },
    { heading: "SINCE (UTC)", rank: 2 },
    ...hasRemotes ? [{ heading: "REMOTE", cutTo: 8, rank: 3 }] : [],
  ];
  const rows = resources.map((one) => {
    const row = [one.name, one.api.split(":").at(-1)!, stateOf(one), time(one.since)];
    return hasRemotes ? [...row, one.remote ?? ""] : row;
  });
  return fittedTable(columns, rows, form);
}

function moduleTable({ modules }: MachineReport, form: TableForm): string[] {
  if (modules.length === 0) return [];
  const columns: Column[] = [
    { heading: "MODULE", cutTo: 16 },
    { heading: "STATE", isState: true },
    { heading: "SINCE (UTC)", rank: 1 },
  ];
  return ["", ...fittedTable(columns, modules.map((one) => [one.name, one.state, time(one.since)]), form)];
}

function jobTable({ jobs }: MachineReport, form: TableForm): string[] {
  if (jobs.length === 0) return [];
  const columns: Column[] = [
    { heading: "JOB", cutTo: 16 },
    { heading: "LAST RUN", isState: true },
    { heading: "AT (UTC)", rank: 1 },
  ];
  return ["", ...fittedTable(columns, jobs.map(({ name, last, at }) => [name, last, time(at)]), form)];
}

function stateOf({ state, reachability }: ResourceReport): string {
  return reachability === undefined ? state : `${state}, ${reachability}`;
}

/** Why something is unhealthy, below the tables. */
function reasons(report: MachineReport, columns: number): string[] {
  const bad = unhealthyOf(report);
  if (bad.length === 0) return [];
  const reported = bad.flatMap(({ name, error = "gives no reason" }) =>
    wrap(escapedLine(`${name}: ${error}`), Math.max(20, columns - 2)).map((line, at) =>
      at === 0 ? line : `  ${line}`
    )
  );
  return ["", "Not healthy:", ...reported];
}

function time(iso: string | undefined): string {
  return iso ? timeText({ seconds: BigInt(Math.floor(Date.parse(iso) / 1000)), nanos: 0 }) : "";
}
