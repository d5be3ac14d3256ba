/**
 * The agent's status for people: a few lines, problems first.
 */

import type { AgentStatus } from "../../lib/agent/supervise/status.ts";
import type { UpdaterStatus } from "../../lib/agent/update/updater.ts";

export function statusLines(status: AgentStatus): string[] {
  const { version, uptimeMs, online, offlineWhy, sinceOnlineMs, runtime, versions, problems } = status;
  const since = sinceOnlineMs === undefined ? "never reached" : `last reached ${duration(sinceOnlineMs)} ago`;
  const failures = runtime.failures > 0
    ? `; failed ${runtime.failures} times, the last time it ${runtime.lastFailure}`
    : "";
  return [
    ...problems.map((problem) => `! ${problem}`),
    `svc-agent   ${version}, up for ${duration(uptimeMs)}`,
    `cloud       ${online ? "reached" : `${since}: ${offlineWhy}`}`,
    `svc-server  ${runtime.phase}${runtime.pid === undefined ? "" : `, pid ${runtime.pid}`}${
      runtime.url ? `, ${runtime.url}` : ""
    }${failures}`,
    ...Object.entries(versions).flatMap(([name, one]) => ["", `versions of ${name}`, ...versionLines(one)]),
  ];
}

function versionLines({ good, previous, trial, refused, target, problem, waiting, progress }: UpdaterStatus) {
  const lines = [
    `  wanted    ${target?.version ?? "the cloud has not said"}`,
    `  good      ${good?.version ?? "none"}`,
    `  previous  ${previous?.version ?? "none"}`,
  ];
  if (trial) lines.push(`  on trial  ${trial.build.version} (${trial.stage})`);
  if (refused) lines.push(`  refused   ${refused.version}: ${refused.reason}`);
  if (progress) {
    const { doneBytes, totalBytes } = progress;
    const part = totalBytes ? ` (${Math.floor(100 * doneBytes / totalBytes)} %)` : "";
    lines.push(`  getting   ${(doneBytes / 1e6).toFixed(1)} MB${part}`);
  }
  if (waiting) lines.push(`  waiting   ${waiting}`);
  if (problem) lines.push(`  problem   ${problem}`);
  return lines;
}

function duration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}
