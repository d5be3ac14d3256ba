/**
 * The agent's status for people: problems first, then the connection, svc-server, and a table of versions that fits the
 * terminal; and for programs, with times.
 */

import { escapedLine } from "../../lib/base/escape.ts";
import type { AgentStatus } from "../../lib/agent/control/status.ts";
import type { UpdaterStatus } from "../../lib/agent/update/updater.ts";
import { wrap } from "../flags.ts";
import { type Column, fittedTable, sizeText, type TableForm } from "../table.ts";
import { counted } from "../../lib/base/log/counted.ts";

const COLUMNS: readonly Column[] = [
  { heading: "PROGRAM" },
  { heading: "RUNS", cutTo: 8 },
  { heading: "WANTED", cutTo: 8 },
  { heading: "PREVIOUS", cutTo: 8, rank: 1 },
  { heading: "ON TRIAL", cutTo: 10, rank: 2 },
  { heading: "REFUSED", cutTo: 8, rank: 3 },
];
/** The indent of what a line goes on with. */
const INDENT = 12;

export function statusLines(status: AgentStatus, form: TableForm): string[] {
  const { version, uptimeMs, runtime, versions, problems } = status;
  const failures = runtime.failures > 0
    ? `; failed ${counted(runtime.failures, "time")}, the last time it ${runtime.lastFailure}`
    : "";
  const named = Object.entries(versions);
  const line = (name: string, text: string) => wrapped(name, text, form);
  return [
    ...problems.flatMap((problem) => line("!", problem)),
    ...line("svc-agent", `${version}, up for ${duration(uptimeMs)}`),
    ...line("cloud", cloudText(status)),
    ...line(
      "svc-server",
      `${runtime.phase}${runtime.pid === undefined ? "" : `, pid ${runtime.pid}`}${
        runtime.url ? `, ${runtime.url}` : ""
      }${failures}`,
    ),
    "",
    ...fittedTable(COLUMNS, named.map(([name, one]) => versionRow(name, one)), form),
    ...named.flatMap(([name, one]) => remarks(one).flatMap((text) => ["", ...line(name, text)])),
  ];
}

function cloudText({ online, refused, offlineWhy, sinceOnlineMs }: AgentStatus): string {
  if (online) return "reached";
  const since = sinceOnlineMs === undefined ? "never reached" : `last reached ${duration(sinceOnlineMs)} ago`;
  return refused ? `refuses this device: ${offlineWhy}` : `${since}: ${offlineWhy}`;
}

/** The status for programs: times in place of lengths of time that are out of date when they are read. */
export function statusJson({ uptimeMs, sinceOnlineMs, ...status }: AgentStatus, nowMs: number): unknown {
  const ago = (ms: number) => new Date(nowMs - ms).toISOString();
  return {
    ...status,
    uptimeMs,
    started: ago(uptimeMs),
    ...sinceOnlineMs === undefined ? {} : { sinceOnlineMs, seen: ago(sinceOnlineMs) },
  };
}

function versionRow(name: string, { good, previous, trial, refused, target }: UpdaterStatus): string[] {
  return [
    name,
    good?.version ?? "none",
    target?.version ?? "not told yet",
    previous?.version ?? "-",
    trial ? `${trial.build.version} (${trial.stage})` : "-",
    refused?.version ?? "-",
  ];
}

/** What a table has no place for. */
function remarks({ refused, problem, waiting, progress }: UpdaterStatus): string[] {
  const lines: string[] = [];
  if (refused) lines.push(`refused ${refused.version}: ${refused.reason}`);
  if (progress) {
    const { doneBytes, totalBytes } = progress;
    const whole = totalBytes
      ? ` of ${sizeText(totalBytes)} (${Math.floor(100 * doneBytes / totalBytes)} %)`
      : "";
    lines.push(`downloads ${sizeText(doneBytes)}${whole}`);
  }
  if (waiting) lines.push(`waits: ${waiting}`);
  if (problem) lines.push(`problem: ${problem}`);
  return lines;
}

/** A name, and a text that goes on below itself. */
function wrapped(name: string, text: string, { columns = Infinity }: TableForm): string[] {
  return wrap(escapedLine(text), Math.max(columns - INDENT, INDENT)).map((one, at) =>
    (at === 0 ? name : "").padEnd(INDENT) + one
  );
}

function duration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}
