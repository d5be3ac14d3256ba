/**
 * How long captured data is kept, by organization and by collector, which is a method of a component.
 *
 * Owns the tables `data_retention` and `collector_retention`. Collectors have theirs in the machine's configuration, in
 * the published `retention_policy` of a capture method.
 *
 * The room owns the retention of captured data.
 */

import { SvcError } from "../../base/error.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import type { Sql } from "../store/store.ts";

/** An absent member means no limit. */
export interface DataRetention {
  /** By the time of capture. */
  readonly days?: number;
  /** Of images and files. */
  readonly binaryBytes?: number;
  /** Of readings. */
  readonly tabularBytes?: number;
}

export interface CollectorRetention extends DataRetention {
  readonly componentName: string;
  readonly methodName: string;
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

export const GB_BYTES = 1_000_000_000;
const DAYS_MAX = 100_000;
const GB_MAX = 1_000_000;
const COLLECTORS_MAX = 1_000;
const TEXT_LENGTH_MAX = 1_000;

interface Row {
  readonly days: number | null;
  readonly binaryBytes: number | null;
  readonly tabularBytes: number | null;
}

const COLUMNS = `days, binary_bytes AS "binaryBytes", tabular_bytes AS "tabularBytes"`;

/** The retention of the collectors in a configuration; meaningless entries are left out. */
export function collectorsIn(config: JsonObject): CollectorRetention[] {
  const found = new Map<string, CollectorRetention>();
  const resources = [config.components, config.services].flatMap((all) => Array.isArray(all) ? all : []);
  for (const resource of resources.filter(isObject) as JsonObject[]) {
    const { name, service_configs: services } = resource;
    for (const service of Array.isArray(services) ? services : []) {
      if (!isObject(service) || !/(^|:)data_manager$/.test(String(service.type ?? service.api ?? ""))) {
        continue;
      }
      const attributes = service.attributes as Json;
      const methods = isObject(attributes) ? (attributes as JsonObject).capture_methods : undefined;
      for (const one of (Array.isArray(methods) ? methods : []).filter(isObject) as JsonObject[]) {
        const collector = collectorOf(name, one);
        if (!collector || found.size >= COLLECTORS_MAX) continue;
        found.set(`${collector.componentName} ${collector.methodName}`, collector);
      }
    }
  }
  return [...found.values()];
}

function collectorOf(resource: Json | undefined, { name, method, retention_policy: policy }: JsonObject) {
  // In the list of a remote the name is the full one of the resource there.
  const component = typeof name === "string" && name !== ""
    ? name.slice(name.lastIndexOf("/") + 1)
    : resource;
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

/** Sets how long an organization's data is kept; without a value, it is kept until somebody removes it. */
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
  await sql.query("DELETE FROM data_retention WHERE organization_id = ?", organizationId);
  if (values.every((one) => one === undefined)) return;
  await sql.query(
    `INSERT INTO data_retention (organization_id, days, binary_bytes, tabular_bytes, next_ms) VALUES (?, ?, ?, ?, 0)`,
    organizationId,
    ...values.map((one) => one ?? null),
  );
}

export async function retentionOf(sql: Sql, organizationId: string): Promise<DataRetention> {
  const text = `SELECT ${COLUMNS} FROM data_retention WHERE organization_id = ?`;
  const [field] = await sql.query<Row>(text, organizationId);
  return field ? plain(field) : {};
}

/** A collector of an organization with a retention of its own. */
export interface PartCollector extends CollectorRetention {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
}

/** The collectors of an organization that have a retention of their own, by the names of their machines. */
export async function collectorsOf(
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
  const [organization] = await sql.query<Row & { organizationId: string }>(
    `UPDATE data_retention SET next_ms = ? WHERE organization_id = (
       SELECT organization_id FROM data_retention WHERE next_ms <= ? ORDER BY next_ms, organization_id LIMIT 1)
     RETURNING organization_id AS "organizationId", ${COLUMNS}`,
    nextMs,
    nowMs,
  );
  if (organization) return { organizationId: organization.organizationId, ...plain(organization) };
  const [collector] = await sql.query<Row & NonNullable<DueRetention["collector"]>>(
    `UPDATE collector_retention SET next_ms = ? WHERE (part_id, component_name, method_name) = (
       SELECT part_id, component_name, method_name FROM collector_retention WHERE next_ms <= ?
       ORDER BY next_ms, part_id, component_name, method_name LIMIT 1)
     RETURNING part_id AS "partId", component_name AS "componentName", method_name AS "methodName", ${COLUMNS}`,
    nextMs,
    nowMs,
  );
  if (!collector) return undefined;
  const { partId, componentName, methodName, ...row } = collector;
  const [{ organizationId }] = await sql.query<{ organizationId: string }>(
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

function plain({ days, binaryBytes, tabularBytes }: Row): DataRetention {
  return {
    days: days ?? undefined,
    binaryBytes: binaryBytes ?? undefined,
    tabularBytes: tabularBytes ?? undefined,
  };
}
