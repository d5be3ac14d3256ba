/**
 * The health of machines in a rollout: the facts about a machine, and the verdict on its change.
 *
 * A machine takes a change, and then has to be healthy for the time in the plan: online, no newly broken resource, no
 * more errors in its log than before, and readings that satisfy the plan.
 */

import type { ReleasedProgram } from "../packages/releases.ts";
import { parseVersion } from "../../base/semver.ts";
import type { ConfigThreads } from "../config/config_threads.ts";
import { type AgentReport, agentReports } from "../fleet/agent_reports.ts";
import { isOnlineAt, type Presence } from "../tenants/presence.ts";
import { Conditions } from "../capture/filter.ts";
import { payloadBytes } from "../capture/payload.ts";
import { TabularData } from "../data/tabular_data.ts";
import type { FileStore } from "../store/files.ts";
import { placeholders, queryOne, type Sql } from "../store/store.ts";
import type { RolloutChange } from "./change.ts";
import type { RolloutPlan, RolloutReading } from "./plan.ts";
import { type PartHealth, readPartHealths } from "../fleet/part_health.ts";
import type { Baseline, Rollout, RolloutPart } from "./rollouts.ts";

export interface PartFacts {
  readonly seenMs: number | undefined;
  readonly isOnline: boolean;
  readonly health?: PartHealth;
  readonly agent?: AgentReport;
  /** Errors in its log since the change. */
  readonly errors: number;
}

export type Verdict = "taken" | "healthy" | { readonly problem: string } | undefined;

/** A machine that sends no reports is assumed to have its configuration after this time online. */
const POLLED_MS = 20_000;
/** Limit of log entries that are searched for errors. */
const ENTRIES_MAX = 20_000;
const ERRORS_MAX = 1_000;
const ERROR_LEVELS = ["error", "dpanic", "panic", "fatal"];
const SHOWN_MAX = 3;

/** The verdict on a part. `isSettled`: machines have had time to report since a control plane was away. */
export function verdictOf(
  { plan, change }: Pick<Rollout, "plan" | "change">,
  part: Pick<RolloutPart, "state" | "baseline" | "revision" | "appliedMs" | "takenMs">,
  facts: PartFacts,
  nowMs: number,
  isSettled: boolean,
): Verdict {
  const refused = refusedBy(change, facts);
  if (refused) return { problem: refused };
  const before = errorsExpected(part, plan, nowMs);
  if (facts.errors > before + plan.errorsMax) {
    const allowed = plan.errorsMax > 0 ? `, wanted at most ${plan.errorsMax} more` : "";
    return {
      problem:
        `${facts.errors} errors in its log since the change, ${before} in the same time before${allowed}`,
    };
  }

  if (part.state === "applied") {
    if (hasTaken(change, part, facts)) return "taken";
    // A machine that takes changes only in a maintenance window reports this.
    const isHeldBack = facts.isOnline && facts.health?.heldBack;
    const isLate = isSettled && !isHeldBack && nowMs - part.appliedMs! > plan.takeMs;
    return isLate ? { problem: notTaken(change, facts) } : undefined;
  }

  const other = otherVersion(change, facts);
  if (other) return { problem: `it went back to ${other} since the change` };
  if (nowMs - part.takenMs! < plan.soakMs) return undefined;
  if (!facts.isOnline) return isSettled ? { problem: "it is offline since the change" } : undefined;
  // The agent still tries the version, and may return to the one before it.
  if (!isProven(change, facts)) {
    const isLate = isSettled && nowMs - part.takenMs! > plan.soakMs + plan.takeMs;
    return isLate ? { problem: `its agent has not accepted ${change.kind} ${change.version}` } : undefined;
  }
  const broken = brokenSince(part.baseline, facts.health);
  if (broken.length > 0) return { problem: `broken since the change: ${shown(broken)}` };
  return "healthy";
}

/**
 * The expected number of errors of a part since its change at the former rate; the baseline counts those in `soakMs`.
 */
function errorsExpected(
  { baseline, appliedMs }: Pick<RolloutPart, "baseline" | "appliedMs">,
  { soakMs }: RolloutPlan,
  nowMs: number,
): number {
  return Math.ceil(baseline.errors * Math.max(1, (nowMs - appliedMs!) / soakMs));
}

/** The resources that are broken now but were not before. */
function brokenSince(baseline: Baseline, health: PartHealth | undefined): string[] {
  const before = new Set(baseline.unhealthy.map(nameOf));
  return (health?.unhealthy ?? []).filter((one) => !before.has(nameOf(one)));
}

function nameOf(broken: string): string {
  const [resource = ""] = broken.split(": ", 1);
  return resource;
}

function shown(all: readonly string[]): string {
  const more = all.length > SHOWN_MAX ? [`and ${all.length - SHOWN_MAX} more`] : [];
  return [...all.slice(0, SHOWN_MAX), ...more].join("; ");
}

function hasTaken(
  change: RolloutChange,
  { revision, appliedMs }: Pick<RolloutPart, "revision" | "appliedMs">,
  { health, agent, seenMs }: PartFacts,
): boolean {
  if (namesVersion(change)) return runningOf(change.kind, agent) === change.version;
  if (health) return Number(health.revision.split("+", 1)[0]) >= revision;
  return (seenMs ?? 0) >= appliedMs! + POLLED_MS;
}

function notTaken({ kind, version }: RolloutChange, { agent, isOnline }: PartFacts): string {
  if (!isOnline) return "it is offline since the change";
  if (!isProgram(kind)) return "it does not run the changed configuration";
  const running = runningOf(kind, agent);
  return `it runs ${running ? `${kind} ${running}` : `no ${kind}`}, wanted ${version}`;
}

function refusedBy({ kind, version }: RolloutChange, { agent }: PartFacts): string | undefined {
  const isRefused = isProgram(kind) && agent?.refused.includes(`${kind} ${version}`);
  return isRefused ? `its agent has refused ${kind} ${version}` : undefined;
}

/** The version of the changed program that runs in place of the wanted one. */
function otherVersion(change: RolloutChange, { agent }: PartFacts): string | undefined {
  if (!namesVersion(change)) return undefined;
  const running = runningOf(change.kind, agent);
  return running === "" || running === change.version ? undefined : `${change.kind} ${running}`;
}

/** Whether a program runs and its agent has accepted it: an agent reports a version as installed after its trial. */
function isProven(change: RolloutChange, { agent }: PartFacts): boolean {
  if (!namesVersion(change)) return true;
  const installed = change.kind === "svc-agent" ? agent?.agentInstalled : agent?.serverInstalled;
  return runningOf(change.kind, agent) === change.version && installed === change.version;
}

/** Whether the change is to one version of a program, rather than to a channel or to something else. */
function namesVersion(change: RolloutChange): change is RolloutChange & { readonly kind: ReleasedProgram } {
  return isProgram(change.kind) && parseVersion(change.version) !== undefined;
}

function isProgram(kind: RolloutChange["kind"]): kind is ReleasedProgram {
  return kind === "svc-agent" || kind === "svc-server";
}

function runningOf(kind: ReleasedProgram, agent: AgentReport | undefined): string {
  return (kind === "svc-agent" ? agent?.agentRunning : agent?.serverRunning) ?? "";
}

/** The facts of parts, by part; `nowMs` from before the parts were read. */
export async function readPartFacts(
  sql: Sql,
  presence: Presence,
  parts: readonly Pick<RolloutPart, "partId" | "seenMs" | "baseline">[],
  nowMs: number,
): Promise<ReadonlyMap<string, PartFacts>> {
  const ids = parts.map(({ partId }) => partId);
  const [healths, agents] = [await readPartHealths(sql, ids), await agentReports(sql, ids)];
  const facts = new Map<string, PartFacts>();
  for (const { partId, seenMs: stored, baseline } of parts) {
    const seenMs = presence.seenMs(partId, stored);
    facts.set(partId, {
      seenMs,
      isOnline: seenMs !== undefined && isOnlineAt(seenMs, nowMs),
      health: healths.get(partId),
      agent: agents.get(partId),
      errors: await errorsBetween(sql, partId, baseline.logNumber, baseline.logNumber + ENTRIES_MAX, 0),
    });
  }
  return facts;
}

/** The state of a part just before its change. */
export async function readBaseline(
  sql: Sql,
  partId: string,
  soakMs: number,
  nowMs: number,
): Promise<Baseline> {
  const text = "SELECT COALESCE(MAX(number), 0) AS head FROM logs WHERE part_id = ?";
  const { head } = await queryOne<{ head: number }>(sql, text, partId);
  const health = (await readPartHealths(sql, [partId])).get(partId);
  return {
    logNumber: head,
    errors: await errorsBetween(sql, partId, head - ENTRIES_MAX, head, nowMs - soakMs),
    unhealthy: health?.unhealthy ?? [],
  };
}

/** The problem in the readings of a part since a time, if there is one. */
export async function readingProblem(
  { sql, files, configs }: {
    readonly sql: Sql;
    readonly files: FileStore;
    readonly configs: ConfigThreads;
  },
  { organizationId, partId }: Pick<RolloutPart, "organizationId" | "partId">,
  { readings }: RolloutPlan,
  sinceMs: number,
): Promise<string | undefined> {
  for (const reading of readings) {
    const payload = await newestReading(new TabularData(sql, files), partId, reading, sinceMs);
    const wanted = reading.evals.map(({ operator, value }) => `${operator} ${JSON.stringify(value)}`).join(
      ", ",
    );
    if (!payload) return `no reading of ${reading.component} since the change, wanted ${wanted}`;
    const [found = -1] = await configs.judge(organizationId, {
      payloads: [payload],
      conditions: [reading.evals],
    });
    if (found < 0) return `the reading of ${reading.component} is not ${wanted}`;
  }
  return undefined;
}

async function newestReading(
  data: TabularData,
  partId: string,
  { component }: RolloutReading,
  sinceMs: number,
): Promise<Uint8Array | undefined> {
  const found = new Conditions().only("o.part_id = ?", partId).only("o.component_name = ?", component)
    .within("captured", { fromUs: sinceMs * 1000 });
  const { readings: [newest] } = await data.page(found, { limit: 1, order: "newest first", last: "" });
  return newest && payloadBytes(newest.payload);
}

/** The number of errors among the log entries after one number, up to another one, received since a time. */
async function errorsBetween(
  sql: Sql,
  partId: string,
  after: number,
  until: number,
  sinceMs: number,
): Promise<number> {
  const { amount } = await queryOne<{ amount: number }>(
    sql,
    `SELECT COUNT(*) AS amount FROM (SELECT number FROM logs WHERE part_id = ? AND number > ? AND number <= ?
       AND received_ms >= ? AND level IN (${placeholders(ERROR_LEVELS)}) LIMIT ?) AS errors`,
    partId,
    after,
    until,
    sinceMs,
    ...ERROR_LEVELS,
    ERRORS_MAX,
  );
  return Number(amount);
}
