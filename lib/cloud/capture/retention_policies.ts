/**
 * How long captured data is kept, by organization and by collector, which is a method of a component.
 *
 * Owns the tables `data_retention`, `collector_retention` and `removed_readings`. An organization has the operator's
 * bound and its owners' own choice within it; of each value the tighter one acts, so a bound that the operator lowers
 * later acts at once.
 * Collectors have theirs in the machine's configuration, in the published `retention_policy` of a resource or of a
 * capture method, and a part in its `data_retention_policy`.
 *
 * The room owns what readings, files and their calls share: the source, the form and the retention of captured data,
 * and the filters that find it.
 */

import { SvcError } from "../../base/error.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import { queryOne, type Sql } from "../store/store.ts";

/** An absent member means no limit. */
export interface DataRetention {
  /** By the time of capture. */
  readonly days?: number;
  /** Of images and files. */
  readonly binaryBytes?: number;
  /** Of readings. */
  readonly tabularBytes?: number;
}

/** Of everything that a part captures, of one component, or of one of its methods. */
export interface CollectorRetention extends DataRetention {
  /** Empty for all components. */
  readonly componentName: string;
  /** Empty for all methods. */
  readonly methodName: string;
}

export function collectorWords({ componentName, methodName }: CollectorRetention): string {
  return [componentName, methodName].filter((one) => one !== "").join(" ") || "everything";
}

/** A retention that is due. */
export interface DueRetention extends DataRetention {
  readonly organizationId: string;
  /** Absent for an organization. */
  readonly collector?: {
    readonly partId: string;
    readonly componentName: string;
    readonly methodName: string;
  };
}

/** What an organization's owners chose; an absent member means the operator's bound. */
export interface OwnRetention extends DataRetention {
  /** Of the machines' logs. */
  readonly logDays?: number;
}

/** How long an organization's data is kept, and why. */
export interface RetentionSettings {
  /** Set by the operator. */
  readonly bound: DataRetention;
  readonly own: OwnRetention;
  /** The tighter ones of both. */
  readonly inEffect: DataRetention;
}

export const GB_BYTES = 1_000_000_000;
const DAYS_MAX = 100_000;
const GB_MAX = 1_000_000;
const COLLECTORS_MAX = 1_000;
const TEXT_LENGTH_MAX = 1_000;
/** A check that is later than this was set by a clock that was ahead. */
const CLOCKS_APART_MS = 3_600_000;

interface Row {
  readonly days: number | null;
  readonly binaryBytes: number | null;
  readonly tabularBytes: number | null;
}

const COLUMNS = `days, binary_bytes AS "binaryBytes", tabular_bytes AS "tabularBytes"`;

interface SettingsRow extends Row {
  readonly ownDays: number | null;
  readonly ownBinaryBytes: number | null;
  readonly ownTabularBytes: number | null;
  readonly ownLogDays: number | null;
}

const SETTINGS_COLUMNS = `${COLUMNS}, own_days AS "ownDays", own_binary_bytes AS "ownBinaryBytes",
  own_tabular_bytes AS "ownTabularBytes", own_log_days AS "ownLogDays"`;

/** The retention of the collectors in a configuration; meaningless entries are left out. */
export function collectorsIn(config: JsonObject): CollectorRetention[] {
  const found = new Map<string, CollectorRetention>();
  const add = (component: Json | undefined, method: Json | undefined, policy: Json | undefined) => {
    const collector = collectorOf(component, method, policy);
    if (!collector || found.size >= COLLECTORS_MAX) return;
    found.set(`${collector.componentName} ${collector.methodName}`, collector);
  };
  const ofPart = config.data_retention_policy;
  // As published, a part has days alone.
  if (isObject(ofPart)) add("", "", { days: (ofPart as JsonObject).days ?? null });
  const listed = (...lists: (Json | undefined)[]) =>
    lists.flatMap((all) => Array.isArray(all) ? all : []).filter(isObject) as JsonObject[];
  // A name in the list of a component is the one that it had before, or its own.
  const own = listed(config.components, config.services).map((one) => {
    return { one, nameOf: (_method: JsonObject) => one.name };
  });
  const far = listed(config.remotes).map((one) => ({
    one,
    nameOf: (method: JsonObject) => nameHere(one.prefix, method.name),
  }));
  for (const { one: { service_configs: services }, nameOf } of [...own, ...far]) {
    for (const service of Array.isArray(services) ? services : []) {
      if (!isObject(service) || !/(^|:)data_manager$/.test(String(service.type ?? service.api ?? ""))) {
        continue;
      }
      const attributes = isObject(service.attributes as Json) ? service.attributes as JsonObject : {};
      const methods = listed(attributes.capture_methods);
      for (const name of new Set([nameOf({}), ...methods.map(nameOf)])) {
        if (name) add(name, "", attributes.retention_policy);
      }
      for (const method of methods) {
        const name = nameOf(method);
        if (name && method.method) add(name, method.method, method.retention_policy);
      }
    }
  }
  return [...found.values()];
}

/** The list of a remote has the full names of the resources there; the machine names them with the prefix. */
function nameHere(prefix: Json | undefined, far: Json | undefined): string | undefined {
  if (typeof far !== "string" || far === "") return undefined;
  return `${typeof prefix === "string" ? prefix : ""}${far.slice(far.lastIndexOf("/") + 1)}`;
}

function collectorOf(component: Json | undefined, method: Json | undefined, policy: Json | undefined) {
  if (typeof component !== "string" || typeof method !== "string" || !isObject(policy)) return undefined;
  if (component.length > TEXT_LENGTH_MAX || method.length > TEXT_LENGTH_MAX) return undefined;
  const { days, binary_limit_gb: binary, tabular_limit_gb: tabular } = policy as JsonObject;
  const retention = {
    days: amountOf(days, DAYS_MAX),
    binaryBytes: bytesOf(binary),
    tabularBytes: bytesOf(tabular),
  };
  if (Object.values(retention).every((one) => one === undefined)) return undefined;
  return { componentName: component, methodName: method, ...retention };
}

function amountOf(value: Json | undefined, max: number): number | undefined {
  return typeof value === "number" && value > 0 && value <= max ? value : undefined;
}

function bytesOf(gigabytes: Json | undefined): number | undefined {
  const amount = amountOf(gigabytes, GB_MAX);
  return amount === undefined ? undefined : Math.floor(amount * GB_BYTES);
}

/** Stores the retention of a part's collectors, if it is another one than before. */
export async function keepCollectors(
  sql: Sql,
  partId: string,
  collectors: readonly CollectorRetention[],
): Promise<void> {
  if (await hasCollectors(sql, partId, collectors)) return;
  await sql.query("DELETE FROM collector_retention WHERE part_id = ?", partId);
  for (const one of collectors) {
    await sql.query(
      `INSERT INTO collector_retention (part_id, component_name, method_name, days, binary_bytes, tabular_bytes, next_ms)
       VALUES (?, ?, ?, ?, ?, ?, 0)`,
      partId,
      one.componentName,
      one.methodName,
      wholeDays(one.days) ?? null,
      one.binaryBytes ?? null,
      one.tabularBytes ?? null,
    );
  }
}

/** Whether a part's stored collectors are these. */
export async function hasCollectors(
  sql: Sql,
  partId: string,
  collectors: readonly CollectorRetention[],
): Promise<boolean> {
  const stored = await sql.query<Row & { componentName: string; methodName: string }>(
    `SELECT component_name AS "componentName", method_name AS "methodName", ${COLUMNS}
     FROM collector_retention WHERE part_id = ?`,
    partId,
  );
  const textOf = (
    one: Row | DataRetention,
    names: Pick<CollectorRetention, "componentName" | "methodName">,
  ) =>
    JSON.stringify([
      names.componentName,
      names.methodName,
      one.days ?? null,
      one.binaryBytes ?? null,
      one.tabularBytes ?? null,
    ]);
  const before = stored.map((one) => textOf(one, one)).sort();
  const now = collectors.map((one) => textOf({ ...one, days: wholeDays(one.days) }, one)).sort();
  return before.join() === now.join();
}

/** Rounds up to whole days. */
function wholeDays(days: number | undefined): number | undefined {
  return days === undefined ? undefined : Math.ceil(days);
}

/** Sets the operator's bound of how long an organization's data is kept; without a value, there is none. */
export async function setRetention(
  sql: Sql,
  organizationId: string,
  retention: DataRetention,
): Promise<void> {
  const values = [retention.days, retention.binaryBytes, retention.tabularBytes];
  const wrong = values.find((one) => one !== undefined && !(Number.isSafeInteger(one) && one > 0));
  if (wrong !== undefined) {
    throw new SvcError("invalid_argument", `found ${wrong}, wanted a whole number above 0`);
  }
  await sql.query(
    `INSERT INTO data_retention (organization_id, days, binary_bytes, tabular_bytes, next_ms) VALUES (?, ?, ?, ?, 0)
     ON CONFLICT (organization_id) DO UPDATE SET days = excluded.days, binary_bytes = excluded.binary_bytes,
       tabular_bytes = excluded.tabular_bytes, next_ms = 0`,
    organizationId,
    ...values.map((one) => one ?? null),
  );
}

/** Sets the choice of an organization's owners, which the operator's bound must allow. */
export async function setOwnRetention(
  sql: Sql,
  organizationId: string,
  own: OwnRetention,
  logDaysMax: number,
): Promise<void> {
  const { bound } = await retentionSettings(sql, organizationId);
  requireWithin("days", own.days, bound.days ?? DAYS_MAX);
  requireWithin("bytes of images and files", own.binaryBytes, bound.binaryBytes ?? GB_MAX * GB_BYTES);
  requireWithin("bytes of readings", own.tabularBytes, bound.tabularBytes ?? GB_MAX * GB_BYTES);
  requireWithin("days of logs", own.logDays, logDaysMax);
  const values = [own.days, own.binaryBytes, own.tabularBytes, own.logDays];
  await sql.query(
    `INSERT INTO data_retention (organization_id, own_days, own_binary_bytes, own_tabular_bytes, own_log_days, next_ms)
     VALUES (?, ?, ?, ?, ?, 0)
     ON CONFLICT (organization_id) DO UPDATE SET own_days = excluded.own_days,
       own_binary_bytes = excluded.own_binary_bytes, own_tabular_bytes = excluded.own_tabular_bytes,
       own_log_days = excluded.own_log_days, next_ms = 0`,
    organizationId,
    ...values.map((one) => one ?? null),
  );
}

function requireWithin(what: string, value: number | undefined, max: number): void {
  if (value === undefined || (Number.isSafeInteger(value) && value > 0 && value <= max)) return;
  throw new SvcError(
    "invalid_argument",
    `retention, ${what}: found ${value}, wanted a whole number from 1 to ${max}, ` +
      "which the operator of the control plane allows, or none",
  );
}

/** How long an organization's data is kept. */
export async function readRetention(sql: Sql, organizationId: string): Promise<DataRetention> {
  return (await retentionSettings(sql, organizationId)).inEffect;
}

export async function retentionSettings(sql: Sql, organizationId: string): Promise<RetentionSettings> {
  const text = `SELECT ${SETTINGS_COLUMNS} FROM data_retention WHERE organization_id = ?`;
  const [found] = await sql.query<SettingsRow>(text, organizationId);
  return found ? settingsIn(found) : { bound: {}, own: {}, inEffect: {} };
}

function settingsIn(row: SettingsRow): RetentionSettings {
  const bound = plain(row);
  const own = {
    days: row.ownDays ?? undefined,
    binaryBytes: row.ownBinaryBytes ?? undefined,
    tabularBytes: row.ownTabularBytes ?? undefined,
    logDays: row.ownLogDays ?? undefined,
  };
  const inEffect = {
    days: tighter(bound.days, own.days),
    binaryBytes: tighter(bound.binaryBytes, own.binaryBytes),
    tabularBytes: tighter(bound.tabularBytes, own.tabularBytes),
  };
  return { bound, own, inEffect };
}

function tighter(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? one ?? other : Math.min(one, other);
}

/** A collector of an organization with a retention of its own. */
export interface PartCollector extends CollectorRetention {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
}

/** The collectors of an organization that have a retention of their own, by the names of their machines. */
export async function selectCollectors(
  sql: Sql,
  organizationId: string,
  limit?: number,
): Promise<PartCollector[]> {
  const rows = await sql.query<Omit<PartCollector, keyof DataRetention> & Row>(
    `SELECT c.part_id AS "partId", p.name AS "partName", m.id AS "machineId", m.name AS "machineName",
       c.component_name AS "componentName", c.method_name AS "methodName", ${COLUMNS}
     FROM collector_retention c JOIN parts p ON p.id = c.part_id JOIN machines m ON m.id = p.machine_id
       JOIN locations l ON l.id = m.location_id
     WHERE l.organization_id = ? ORDER BY m.name, p.name, c.component_name, c.method_name
       ${limit === undefined ? "" : "LIMIT ?"}`,
    organizationId,
    ...limit === undefined ? [] : [limit],
  );
  return rows.map(({ days, binaryBytes, tabularBytes, ...names }) => {
    return { ...names, ...plain({ days, binaryBytes, tabularBytes }) };
  });
}

/** Takes a retention that is due, and sets its next check to `nextMs`; nobody else takes it before. */
export async function takeDue(sql: Sql, nowMs: number, nextMs: number): Promise<DueRetention | undefined> {
  const [organization] = await sql.query<SettingsRow & { organizationId: string }>(
    `UPDATE data_retention SET next_ms = ? WHERE organization_id = (
       SELECT organization_id FROM data_retention WHERE next_ms <= ? OR next_ms > ?
       ORDER BY next_ms, organization_id LIMIT 1)
     RETURNING organization_id AS "organizationId", ${SETTINGS_COLUMNS}`,
    nextMs,
    nowMs,
    nextMs + CLOCKS_APART_MS,
  );
  if (organization) {
    return { organizationId: organization.organizationId, ...settingsIn(organization).inEffect };
  }
  const [collector] = await sql.query<Row & NonNullable<DueRetention["collector"]>>(
    `UPDATE collector_retention SET next_ms = ? WHERE (part_id, component_name, method_name) = (
       SELECT part_id, component_name, method_name FROM collector_retention
       WHERE next_ms <= ? OR next_ms > ? ORDER BY next_ms, part_id, component_name, method_name LIMIT 1)
     RETURNING part_id AS "partId", component_name AS "componentName", method_name AS "methodName", ${COLUMNS}`,
    nextMs,
    nowMs,
    nextMs + CLOCKS_APART_MS,
  );
  if (!collector) return undefined;
  const { partId, componentName, methodName, ...row } = collector;
  const { organizationId } = await queryOne<{ organizationId: string }>(
    sql,
    `SELECT l.organization_id AS "organizationId" FROM parts p JOIN machines m ON m.id = p.machine_id
       JOIN locations l ON l.id = m.location_id WHERE p.id = ?`,
    partId,
  );
  return { organizationId, collector: { partId, componentName, methodName }, ...plain(row) };
}

/** Makes a retention due at once, because there is more to remove. */
export async function hurry(sql: Sql, { organizationId, collector }: DueRetention): Promise<void> {
  if (!collector) {
    await sql.query("UPDATE data_retention SET next_ms = 0 WHERE organization_id = ?", organizationId);
    return;
  }
  await sql.query(
    "UPDATE collector_retention SET next_ms = 0 WHERE part_id = ? AND component_name = ? AND method_name = ?",
    collector.partId,
    collector.componentName,
    collector.methodName,
  );
}

/** Notes that retention has removed readings of an organization that were captured until then. */
export async function noteRemoved(sql: Sql, organizationId: string, untilUs: number): Promise<void> {
  await sql.query(
    `INSERT INTO removed_readings (organization_id, until_us) VALUES (?, ?)
     ON CONFLICT (organization_id) DO UPDATE SET until_us = excluded.until_us
     WHERE excluded.until_us > removed_readings.until_us`,
    organizationId,
    untilUs,
  );
}

/** The last time of capture of the readings that retention has removed; `undefined` without any. */
export async function lastRemovedUs(sql: Sql, organizationId: string): Promise<number | undefined> {
  const text = `SELECT until_us AS "untilUs" FROM removed_readings WHERE organization_id = ?`;
  const [row] = await sql.query<{ untilUs: number }>(text, organizationId);
  return row?.untilUs;
}

function plain({ days, binaryBytes, tabularBytes }: Row): DataRetention {
  return {
    days: days ?? undefined,
    binaryBytes: binaryBytes ?? undefined,
    tabularBytes: tabularBytes ?? undefined,
  };
}
