/**
 * The triggers of each part, and the events that they may wait for.
 *
 * Owns the tables `part_triggers` and `trigger_events`. The event of an upload is stored in the transaction that stores
 * its data, and a transaction that turns an event into notifications removes it: so each event counts once, even if a
 * control plane stops at any time.
 *
 * The room owns triggers: their settings, and the events that wait for notifications.
 */

import { randomUUID } from "node:crypto";
import { nextTurn } from "../../base/clock.ts";
import { comparableJson, type Json } from "../../base/schema/schema.ts";
import type { BatchStatement, Sql, SqlText } from "../store/store.ts";
import { type DataKind, type Trigger, triggersIn } from "./settings.ts";

/** The readings of one upload. */
export interface UploadedReadings {
  readonly kind: "data";
  readonly type: "tabular";
  readonly originId: string;
  readonly fromUs: number;
  readonly untilUs: number;
  readonly storedMs: number;
}

/** An uploaded image or file. */
export interface UploadedFile {
  readonly kind: "data";
  readonly type: Exclude<DataKind, "tabular">;
  readonly dataId: string;
}

/** A range of log entries, after one number and up to another, with some that a trigger wants. */
export interface LoggedEntries {
  readonly kind: "logs";
  readonly trigger: string;
  readonly after: number;
  readonly head: number;
}

/** What happened at a part. */
export type EventFacts =
  | { readonly kind: "online" }
  | { readonly kind: "offline" }
  | UploadedReadings
  | UploadedFile
  | LoggedEntries
  | { readonly kind: "test"; readonly trigger: string };

export interface PartEvent {
  readonly id: string;
  readonly partId: string;
  readonly organizationId: string;
  readonly atMs: number;
  readonly facts: EventFacts;
}

export interface PartTriggers {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly triggers: readonly Trigger[];
}

/** Limit of an organization's unprocessed events; further ones are dropped. */
const WAITING_MAX = 5_000;
/** Limit of events of one organization in one pass, so that a busy organization delays nobody. */
const OF_ORGANIZATION_MAX = 8;
/** Limits of a page of triggers: of the parts, and of the triggers at which it ends with the part. */
const PAGE_PARTS_MAX = 50;
const PAGE_TRIGGERS = 200;

/** Stores a part's triggers, as its configuration and fragments have them. */
export async function keepTriggers(
  sql: Sql,
  partId: string,
  json: Json | undefined,
  isOnline: boolean,
): Promise<void> {
  const { triggers } = triggersIn(json);
  if (triggers.length === 0) {
    await sql.query("DELETE FROM part_triggers WHERE part_id = ?", partId);
    return;
  }
  const types = new Set<string>(triggers.map(({ event }) => event.type));
  const flag = (is: boolean) => is ? 1 : 0;
  const isData = types.has("part_data_ingested") || types.has("conditional_data_ingested");
  await sql.query(
    `INSERT INTO part_triggers (part_id, triggers, has_data, is_online) VALUES (?, ?, ?, ?)
     ON CONFLICT (part_id) DO UPDATE SET triggers = excluded.triggers, has_data = excluded.has_data`,
    partId,
    comparableJson(json ?? null),
    flag(isData),
    flag(isOnline),
  );
  const watched = triggers.filter(({ event }) => event.type === "conditional_logs_ingested");
  const known = await sql.query<{ trigger: string }>(
    `SELECT trigger_name AS "trigger" FROM trigger_log_marks WHERE part_id = ?`,
    partId,
  );
  for (const { trigger } of known.filter((one) => !watched.some(({ name }) => name === one.trigger))) {
    await sql.query("DELETE FROM trigger_log_marks WHERE part_id = ? AND trigger_name = ?", partId, trigger);
  }
  for (const { name } of watched) {
    // The trigger waits for entries that are logged from now on.
    await sql.query(
      `INSERT INTO trigger_log_marks (part_id, trigger_name, number, next_ms)
       SELECT CAST(? AS TEXT), CAST(? AS TEXT), COALESCE(MAX(number), 0), 0 FROM log_heads WHERE part_id = ?
       ON CONFLICT (part_id, trigger_name) DO NOTHING`,
      partId,
      name,
      partId,
    );
  }
}

/** Whether a part's stored triggers are these. */
export async function hasTriggers(sql: Sql, partId: string, json: Json | undefined): Promise<boolean> {
  const text = "SELECT triggers FROM part_triggers WHERE part_id = ?";
  const [row] = await sql.query<{ triggers: string }>(text, partId);
  if (!row) return triggersIn(json).triggers.length === 0;
  return row.triggers === comparableJson(json ?? null);
}

/** The triggers of a part. */
export async function selectTriggers(sql: Sql, partId: string): Promise<Trigger[]> {
  const text = "SELECT triggers FROM part_triggers WHERE part_id = ?";
  const [row] = await sql.query<{ triggers: string }>(text, partId);
  return row ? triggersIn(JSON.parse(row.triggers)).triggers : [];
}

/** A page of the triggers of an organization's parts, by the parts' ids. `next`: the page after it; empty for the last. */
export async function triggersPage(
  sql: Sql,
  organizationId: string,
  after: string,
): Promise<{ readonly parts: PartTriggers[]; readonly next: string }> {
  const rows = await sql.query<Omit<PartTriggers, "triggers"> & { triggers: string }>(
    `SELECT t.part_id AS "partId", p.name AS "partName", m.id AS "machineId", m.name AS "machineName", t.triggers
     FROM part_triggers t JOIN parts p ON p.id = t.part_id JOIN machines m ON m.id = p.machine_id
       JOIN locations l ON l.id = m.location_id
     WHERE l.organization_id = ? AND t.part_id > ? ORDER BY t.part_id LIMIT ?`,
    organizationId,
    after,
    PAGE_PARTS_MAX,
  );
  const parts: PartTriggers[] = [];
  let count = 0;
  for (const { triggers: text, ...part } of rows) {
    if (count >= PAGE_TRIGGERS) break;
    const { triggers } = triggersIn(JSON.parse(text));
    parts.push({ ...part, triggers });
    count += triggers.length;
    // Long triggers take some time to check; others have their turn between them.
    await new Promise<void>((turn) => void nextTurn(turn));
  }
  const isLast = parts.length === rows.length && rows.length < PAGE_PARTS_MAX;
  return { parts, next: isLast ? "" : parts.at(-1)?.partId ?? "" };
}

/** Stores an event. `ifData`: only if the part has triggers that wait for data. */
export async function noteEvent(
  sql: Sql,
  part: EventPart,
  facts: EventFacts,
  atMs: number,
  ifData = false,
): Promise<void> {
  const { text, values } = eventStatement(randomUUID(), part, facts, atMs, { ifData });
  await sql.query(text, ...values);
}

/** The part of an event. */
type EventPart = { readonly id: string; readonly organizationId: string };

/** Stores an event, once by its id. `ifAlso`: only if this condition holds, too. */
export function eventStatement(
  eventId: string,
  { id, organizationId }: EventPart,
  facts: EventFacts,
  atMs: number,
  { ifData = false, ifAlso }: { readonly ifData?: boolean; readonly ifAlso?: SqlText } = {},
): BatchStatement {
  const conditions: SqlText[] = [
    ...ifData
      ? [{ text: "EXISTS (SELECT 1 FROM part_triggers WHERE part_id = ? AND has_data = 1)", values: [id] }]
      : [],
    {
      text: "(SELECT COUNT(*) FROM trigger_events WHERE organization_id = ?) < CAST(? AS BIGINT)",
      values: [organizationId, WAITING_MAX],
    },
    ...ifAlso ? [ifAlso] : [],
  ];
  return {
    text: `INSERT INTO trigger_events (id, part_id, organization_id, at_ms, facts)
     SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT)
     WHERE ${conditions.map(({ text }) => text).join(" AND ")} ON CONFLICT DO NOTHING`,
    values: [
      ...[eventId, id, organizationId, atMs, JSON.stringify(facts)],
      ...conditions.flatMap(({ values }) => values),
    ],
  };
}

/** The oldest events, some of each organization. */
export async function oldestEvents(sql: Sql, limit: number): Promise<PartEvent[]> {
  const rows = await sql.query<Omit<PartEvent, "facts"> & { facts: string }>(
    `SELECT id, part_id AS "partId", organization_id AS "organizationId", at_ms AS "atMs", facts FROM (
       SELECT e.*, ROW_NUMBER() OVER (PARTITION BY organization_id ORDER BY at_ms, id) AS place
       FROM trigger_events e
     ) AS placed WHERE place <= ? ORDER BY place, at_ms, id LIMIT ?`,
    OF_ORGANIZATION_MAX,
    limit,
  );
  return rows.map((row) => ({ ...row, facts: JSON.parse(row.facts) }));
}

/** Removes an event. Returns whether it was still there. */
export async function takeEvent(sql: Sql, id: string): Promise<boolean> {
  const gone = await sql.query("DELETE FROM trigger_events WHERE id = ? RETURNING id", id);
  return gone.length > 0;
}
