/**
 * The logs of many parts at once: the newest of all, and what arrives.
 *
 * Owns the choice of the parts and the merging of their logs. A search looks through a limited number of parts, those
 * that logged last, and stops in the others where their entries become too old to be among the wanted ones.
 */

import { type LogEntry, LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { toBinary } from "../../wire/rpc/proto.ts";
import type { EffectiveGrant } from "../access/access.ts";
import { locationsWithin } from "../tenants/locations.ts";
import { placeholders, type Sql, type SqlValue } from "../store/store.ts";
import type { LogCursor, LogFilter, NumberedLog } from "./log_search.ts";
import type { LogStore } from "./logs.ts";

/** A part whose logs are read. */
export interface LoggedPart {
  readonly id: string;
  readonly name: string;
  readonly machineId: string;
  readonly machineName: string;
  /** The time of its last entry; `null` for none. */
  readonly lastMs: number | null;
}

export interface PartSelection {
  readonly organizationIds: readonly string[];
  /** Locations with all inside them; of each list, none for all. */
  readonly locationIds?: readonly string[];
  readonly machineIds?: readonly string[];
  /** Machines with any of these. */
  readonly tags?: readonly string[];
}

/** Where an entry stands in the order of all parts' entries: by time, then by part. */
export interface PartLogCursor extends LogCursor {
  readonly partId: string;
}

export interface PartLog extends NumberedLog {
  readonly partId: string;
}

export interface PartLogs {
  /** Newest first. */
  readonly entries: readonly PartLog[];
  readonly more: boolean;
}

/** Limit of the entries in one answer, in bytes; a longer entry is alone in its answer. */
const BYTES_MAX = 8 * 1024 ** 2;
const LAST = Number.MAX_SAFE_INTEGER;

/** The parts in a selection that the grants reach, those first that logged last. */
export async function loggedParts(
  sql: Sql,
  { organizationIds, locationIds = [], machineIds = [], tags = [] }: PartSelection,
  grants: readonly EffectiveGrant[],
): Promise<LoggedPart[]> {
  const inside = (await locationsWithin(sql, locationIds)).map(({ id }) => id);
  const conditions: string[] = [];
  const values: SqlValue[] = [];
  const oneOf = (condition: (list: string) => string, wanted: readonly string[]) => {
    // An empty list of values is no condition on its own.
    conditions.push(condition(wanted.length > 0 ? placeholders(wanted) : "NULL"));
    values.push(...wanted);
  };
  oneOf((list) => `l.organization_id IN (${list})`, organizationIds);
  if (locationIds.length > 0) oneOf((list) => `l.id IN (${list})`, inside);
  if (machineIds.length > 0) oneOf((list) => `m.id IN (${list})`, machineIds);
  if (tags.length > 0) {
    oneOf((list) => `m.id IN (SELECT t.machine_id FROM machine_tags t WHERE t.tag IN (${list}))`, tags);
  }
  const found = await sql.query<LoggedPart & { locationId: string; organizationId: string }>(
    `SELECT p.id, p.name, m.id AS "machineId", m.name AS "machineName", l.id AS "locationId",
       l.organization_id AS "organizationId",
       (SELECT MAX(g.written_ms) FROM logs g WHERE g.part_id = p.id) AS "lastMs"
     FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
     WHERE ${conditions.join(" AND ")}`,
    ...values,
  );
  const on = (wanted: EffectiveGrant["kind"]) =>
    grants.filter(({ kind }) => kind === wanted).map(({ resourceId }) => resourceId);
  const organizations = new Set(on("organization"));
  const machines = new Set(on("machine")), parts = new Set(on("part"));
  const locations = new Set((await locationsWithin(sql, on("location"))).map(({ id }) => id));
  return found.filter(({ id, machineId, locationId, organizationId }) =>
    organizations.has(organizationId) || locations.has(locationId) || machines.has(machineId) || parts.has(id)
  ).sort((a, b) => (b.lastMs ?? -LAST) - (a.lastMs ?? -LAST));
}

/** The newest entries of all these parts. Throws the reason of `signal` if it aborts first. */
export async function newestLogs(
  logs: Pick<LogStore, "find">,
  parts: readonly { readonly id: string; readonly lastMs?: number | null }[],
  filter: LogFilter,
  { limit, after }: { readonly limit: number; readonly after?: PartLogCursor },
  signal?: AbortSignal,
): Promise<PartLogs> {
  const newest = new Newest(limit);
  for (const { id, lastMs } of parts) {
    if (lastMs === null || newest.isTooOld(lastMs ?? LAST)) continue;
    let cursor = after && cursorOfPart(id, after);
    for (let more = true; more;) {
      const fromMs = Math.max(filter.fromMs ?? -LAST, newest.oldestMs);
      const paging = { order: "newest first", after: cursor, limit: limit + 1 } as const;
      const bounded = fromMs === -LAST ? filter : { ...filter, fromMs };
      const page = await logs.find(id, { ...bounded, ...paging }, signal);
      newest.add(page.entries.map((one) => ({ ...one, partId: id })));
      cursor = page.entries.at(-1);
      more = page.more && cursor !== undefined && !newest.isTooOld(cursor.writtenMs);
    }
  }
  return newest;
}

/** Where a part's entries go on behind a cursor in the order of all parts' entries. */
function cursorOfPart(partId: string, { writtenMs, number, partId: last }: PartLogCursor): LogCursor {
  if (partId === last) return { writtenMs, number };
  return { writtenMs, number: partId > last ? LAST : -1 };
}

/** The newest of the entries that were added, up to a number and a size. */
class Newest implements PartLogs {
  entries: PartLog[] = [];
  more = false;
  readonly #bytes = new WeakMap<LogEntry, number>();

  constructor(private readonly limit: number) {}

  /** Entries before this time are not among the newest any more. */
  get oldestMs(): number {
    return this.more ? this.entries.at(-1)?.writtenMs ?? -LAST : -LAST;
  }

  isTooOld(writtenMs: number): boolean {
    return writtenMs < this.oldestMs;
  }

  add(found: readonly PartLog[]): void {
    for (const { entry } of found) this.#bytes.set(entry, toBinary(LogEntrySchema, entry).length);
    const all = [...this.entries, ...found].sort((a, b) =>
      b.writtenMs - a.writtenMs || compared(a.partId, b.partId) || b.number - a.number
    );
    let bytes = 0;
    const over = all.findIndex(({ entry }, at) => (bytes += this.#bytes.get(entry)!) > BYTES_MAX && at > 0);
    const count = Math.min(this.limit, over < 0 ? all.length : over);
    this.more ||= all.length > count;
    this.entries = all.slice(0, count);
  }
}

function compared(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
