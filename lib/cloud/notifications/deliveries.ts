/**
 * Notifications in delivery: each is stored before it is sent, retried with growing pauses, and kept as undelivered if
 * all attempts fail.
 *
 * Owns the tables `trigger_deliveries`, `trigger_times`, `trigger_days` and `trigger_secrets`. A control plane claims a
 * notification for the time of one attempt. If it stops during the attempt, another one takes over. So a receiver may
 * get a notification twice, with the same id, but never misses one.
 */

import { createHash, randomBytes, randomUUID } from "node:crypto";
import { shownUrl } from "../../base/log/shown_url.ts";
import type { SvcError } from "../../base/error.ts";
import { type Limits, overLimit, requireWithin } from "../access/limits.ts";
import { isDue, latestMs } from "../store/due.ts";
import { placeholders, queryOne, type Sql, type SqlValue, typedRows } from "../store/store.ts";

export type DeliveryKind = "webhook" | "email";
export const DELIVERY_STATES = ["pending", "delivered", "dead"] as const;
export type DeliveryState = typeof DELIVERY_STATES[number];

/** The content of a notification. */
export interface TriggerMessage {
  readonly method: "GET" | "POST";
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** JSON for a webhook; empty for GET. */
  readonly body: string;
  /** For people. */
  readonly subject: string;
  readonly text: string;
}

export interface NewDelivery {
  readonly organizationId: string;
  readonly partId: string;
  readonly trigger: string;
  readonly kind: DeliveryKind;
  readonly target: string;
  readonly message: TriggerMessage;
}

export interface Delivery extends Omit<NewDelivery, "message"> {
  readonly id: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly createdMs: number;
  readonly nextMs: number;
  readonly endedMs: number | null;
  readonly error: string;
}

export interface ClaimedDelivery extends Delivery {
  readonly message: TriggerMessage;
}

export interface DeliverySelection {
  readonly organizationId?: string;
  readonly partId?: string;
  readonly state?: DeliveryState;
  /** Those that follow this cursor. */
  readonly after?: DeliveryCursor;
  readonly limit: number;
}

/** Where a notification stands, newest first. */
export type DeliveryCursor = Pick<Delivery, "createdMs" | "id">;

const DAY_MS = 24 * 3600 * 1000;
/** Limit of the pause before another attempt. */
const WAIT_MS_MAX = DAY_MS / 2;
const DELIVERED_MS = 7 * DAY_MS;
const DEAD_MS = 30 * DAY_MS;
const FORGET_AT_ONCE = 1_000;
/** How long a new secret and its predecessor both sign. */
const SECRET_OVERLAP_MS = 7 * DAY_MS;
const SECRET_BYTES = 32;
const TRIGGERS_A_QUERY = 200;
const IDS_A_QUERY = 500;
const ERROR_LENGTH_MAX = 500;

/** The limits of what leaves for an organization in a day. */
const DAY_LIMITS = { webhook: "webhooksPerOrganizationDay", email: "mailsPerOrganizationDay" } as const;

const COLUMNS =
  `id, organization_id AS "organizationId", part_id AS "partId", trigger_name AS "trigger", kind,
  target, state, attempts, created_ms AS "createdMs", next_ms AS "nextMs", ended_ms AS "endedMs", error`;

export class Deliveries {
  constructor(private readonly sql: Sql) {}

  /** Adds a notification. Returns its id. */
  async add(one: NewDelivery, nowMs: number, error = ""): Promise<string> {
    const id = randomUUID();
    await this.sql.query(
      `INSERT INTO trigger_deliveries (id, organization_id, part_id, trigger_name, kind, target, message, state, attempts,
         created_ms, next_ms, ended_ms, error, lease_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, 0)`,
      id,
      one.organizationId,
      one.partId,
      one.trigger,
      one.kind,
      one.target,
      JSON.stringify(one.message),
      error === "" ? "pending" : "dead",
      nowMs,
      nowMs,
      error === "" ? null : nowMs,
      error,
    );
    return id;
  }

  /**
   * Whether a notification may be sent after the last one to the same target; if so, it counts. `everyMs`: the shortest
   * time between two.
   */
  async isDue(
    { partId, trigger, kind, target }: Pick<NewDelivery, "partId" | "trigger" | "kind" | "target">,
    everyMs: number,
    nowMs: number,
  ): Promise<boolean> {
    const receiver = createHash("sha256").update(`${kind} ${target}`).digest("hex").slice(0, 32);
    const taken = await this.sql.query(
      `INSERT INTO trigger_times (part_id, trigger_name, receiver, at_ms) VALUES (?, ?, ?, ?)
       ON CONFLICT (part_id, trigger_name, receiver) DO UPDATE SET at_ms = excluded.at_ms
         WHERE trigger_times.at_ms <= excluded.at_ms - ? OR trigger_times.at_ms > ? RETURNING part_id`,
      partId,
      trigger,
      receiver,
      nowMs,
      everyMs,
      latestMs(nowMs, 0),
    );
    return taken.length > 0;
  }

  /** Counts a notification of today. `error`: why it exceeds a limit; `isFirst`: as the first one of today. */
  async count(
    organizationId: string,
    kind: DeliveryKind,
    limits: Limits,
    nowMs: number,
  ): Promise<{ readonly error?: string; readonly isFirst: boolean }> {
    const name = DAY_LIMITS[kind];
    const found = await this.#countToday(organizationId, kind, 1, nowMs);
    if (found <= limits[name]) return { isFirst: false };
    return { error: overLimit(limits, name, `found ${found}`).message, isFirst: found === limits[name] + 1 };
  }

  /** Counts one that is not stored here, such as an invitation. Throws `resource_exhausted` beyond the limit. */
  async requireOneMore(
    organizationId: string,
    kind: DeliveryKind,
    limits: Limits,
    nowMs: number,
  ): Promise<void> {
    const found = await this.#countToday(organizationId, kind, 1, nowMs);
    requireWithin(limits, DAY_LIMITS[kind], found);
  }

  /** Adds to the count of today, and returns it. */
  async #countToday(
    organizationId: string,
    kind: DeliveryKind,
    more: number,
    nowMs: number,
  ): Promise<number> {
    const counts = [kind === "webhook" ? more : 0, kind === "email" ? more : 0];
    const kept = (column: string) =>
      `${column} = CASE WHEN trigger_days.day = excluded.day THEN trigger_days.${column} ELSE 0 END + excluded.${column}`;
    const { calls, mails } = await queryOne<{ calls: number; mails: number }>(
      this.sql,
      `INSERT INTO trigger_days (organization_id, day, calls, mails) VALUES (?, ?, ?, ?)
       ON CONFLICT (organization_id) DO UPDATE SET ${kept("calls")}, ${kept("mails")}, day = excluded.day
       RETURNING calls, mails`,
      organizationId,
      Math.floor(nowMs / DAY_MS),
      ...counts,
    );
    return kind === "webhook" ? calls : mails;
  }

  /** Claims due notifications, the oldest of each organization first; the organizations in `busy` have enough. */
  async claim(
    { all, ofOrganization }: { readonly all: number; readonly ofOrganization: number },
    busy: readonly string[],
    nowMs: number,
    untilMs: number,
  ): Promise<ClaimedDelivery[]> {
    const others = busy.length === 0 ? "" : `AND organization_id NOT IN (${busy.map(() => "?").join(", ")})`;
    const next = isDue("next_ms", nowMs, WAIT_MS_MAX);
    const lease = isDue("lease_ms", nowMs, untilMs - nowMs);
    const due = await this.sql.query<{ id: string }>(
      `SELECT id FROM (
         SELECT id, next_ms, ROW_NUMBER() OVER (PARTITION BY organization_id ORDER BY next_ms, id) AS place
         FROM trigger_deliveries WHERE state = 'pending' AND ${next.text} AND ${lease.text} ${others}
       ) AS placed WHERE place <= ? ORDER BY place, next_ms, id LIMIT ?`,
      ...next.values,
      ...lease.values,
      ...busy,
      ofOrganization,
      all,
    );
    const claimed: ClaimedDelivery[] = [];
    for (const { id } of due) {
      const [row] = await this.sql.query<Delivery & { message: string }>(
        `UPDATE trigger_deliveries SET lease_ms = ? WHERE id = ? AND state = 'pending' AND ${lease.text}
         RETURNING ${COLUMNS}, message`,
        untilMs,
        id,
        ...lease.values,
      );
      if (row) claimed.push({ ...row, message: JSON.parse(row.message) });
    }
    return claimed;
  }

  async delivered(id: string, nowMs: number): Promise<void> {
    await this.#end(id, "delivered", nowMs, "");
  }

  /** Marks a notification as undelivered, until somebody retries it. */
  async died(id: string, error: string, nowMs: number): Promise<void> {
    await this.#end(id, "dead", nowMs, error);
  }

  /** The next attempt is at `nextMs`. */
  async failed(id: string, error: string, nextMs: number): Promise<void> {
    await this.sql.query(
      `UPDATE trigger_deliveries SET attempts = attempts + 1, next_ms = ?, lease_ms = 0, error = ?
       WHERE id = ? AND state = 'pending'`,
      nextMs,
      clipped(error),
      id,
    );
  }

  /**
   * Sends undelivered notifications again, the oldest first. Returns how many. `limit`: of all of an organization.
   * `limits`: counts them as new ones of today, and throws `resource_exhausted` if today's limits leave none.
   */
  async retry(
    selection: { readonly id?: string; readonly organizationId: string; readonly limit?: number },
    nowMs: number,
    limits?: Limits,
  ): Promise<number> {
    const { id, organizationId, limit = Number.MAX_SAFE_INTEGER } = selection;
    const dead = await this.sql.query<{ id: string; kind: DeliveryKind }>(
      `SELECT id, kind FROM trigger_deliveries WHERE state = 'dead' AND organization_id = ?
         ${id === undefined ? "" : "AND id = ?"} ORDER BY created_ms, id LIMIT ?`,
      organizationId,
      ...id === undefined ? [] : [id],
      limit,
    );

    let again = 0;
    let refusal: SvcError | undefined;
    for (const [kind, some] of Map.groupBy(dead, (one) => one.kind)) {
      const ids = some.map((one) => one.id);
      if (!limits) {
        again += await this.#revive(ids, nowMs);
        continue;
      }

      const used = await this.#countToday(organizationId, kind, 0, nowMs);
      const left = Math.max(0, limits[DAY_LIMITS[kind]] - used);
      if (left === 0) refusal = overLimit(limits, DAY_LIMITS[kind], `found ${used} today`);
      const revived = await this.#revive(ids.slice(0, left), nowMs);
      await this.#countToday(organizationId, kind, revived, nowMs);
      again += revived;
    }

    if (again === 0 && refusal) throw refusal;
    return again;
  }

  /** Returns how many of these notifications were dead. */
  async #revive(ids: readonly string[], nowMs: number): Promise<number> {
    let revived = 0;
    for (let start = 0; start < ids.length; start += IDS_A_QUERY) {
      const some = ids.slice(start, start + IDS_A_QUERY);
      const found = await this.sql.query(
        `UPDATE trigger_deliveries SET state = 'pending', attempts = 0, next_ms = ?, lease_ms = 0, ended_ms = NULL
         WHERE state = 'dead' AND id IN (${placeholders(some)}) RETURNING id`,
        nowMs,
        ...some,
      );
      revived += found.length;
    }
    return revived;
  }

  async find(id: string): Promise<Delivery | undefined> {
    return (await this.sql.query<Delivery>(`SELECT ${COLUMNS} FROM trigger_deliveries WHERE id = ?`, id))[0];
  }

  /** Newest first. */
  async list({ organizationId, partId, state, after, limit }: DeliverySelection): Promise<Delivery[]> {
    const columns = { organization_id: organizationId, part_id: partId, state };
    const given = Object.entries(columns).filter(([, value]) => value !== undefined);
    const conditions = given.map(([column]) => `${column} = ?`);
    const values = given.map(([, value]) => value as SqlValue);
    if (after) {
      conditions.push("(created_ms < ? OR (created_ms = ? AND id > ?))");
      values.push(after.createdMs, after.createdMs, after.id);
    }
    const where = conditions.join(" AND ") || "1 = 1";
    return await this.sql.query<Delivery>(
      `SELECT ${COLUMNS} FROM trigger_deliveries WHERE ${where} ORDER BY created_ms DESC, id LIMIT ?`,
      ...values,
      limit,
    );
  }

  /** The newest notification of each of these triggers. */
  async newest(
    organizationId: string,
    triggers: readonly Pick<Delivery, "partId" | "trigger">[],
  ): Promise<Delivery[]> {
    const found: Delivery[] = [];
    for (let start = 0; start < triggers.length; start += TRIGGERS_A_QUERY) {
      const some = triggers.slice(start, start + TRIGGERS_A_QUERY);
      found.push(
        ...await this.sql.query<Delivery>(
          `WITH wanted (part, name) AS (VALUES ${typedRows(some, "TEXT", "TEXT")})
           SELECT ${COLUMNS} FROM trigger_deliveries WHERE id IN (
             SELECT (SELECT d.id FROM trigger_deliveries d WHERE d.part_id = w.part AND d.trigger_name = w.name
                 AND d.organization_id = ? ORDER BY d.created_ms DESC, d.id LIMIT 1) FROM wanted w)`,
          ...some.flatMap(({ partId, trigger }) => [partId, trigger]),
          organizationId,
        ),
      );
    }
    return found;
  }

  /** Deletes some notifications that ended long ago. Returns whether there are more. */
  async forget(nowMs: number): Promise<boolean> {
    const gone = await this.sql.query(
      `DELETE FROM trigger_deliveries WHERE id IN (SELECT id FROM trigger_deliveries
         WHERE (state = 'delivered' AND ended_ms < ?) OR (state = 'dead' AND ended_ms < ?) LIMIT ?) RETURNING id`,
      nowMs - DELIVERED_MS,
      nowMs - DEAD_MS,
      FORGET_AT_ONCE,
    );
    return gone.length === FORGET_AT_ONCE;
  }

  /** The secrets that sign an organization's webhooks now, the newest first. Makes the first one. */
  async secrets(organizationId: string, nowMs: number): Promise<string[]> {
    await this.sql.query(
      `INSERT INTO trigger_secrets (organization_id, secret, until_ms) VALUES (?, ?, 0)
       ON CONFLICT (organization_id) DO NOTHING`,
      organizationId,
      newWebhookSecret(),
    );
    const row = await queryOne<{ secret: string; previous: string | null; untilMs: number }>(
      this.sql,
      `SELECT secret, previous, until_ms AS "untilMs" FROM trigger_secrets WHERE organization_id = ?`,
      organizationId,
    );
    return [row.secret, ...row.previous !== null && row.untilMs > nowMs ? [row.previous] : []];
  }

  /** Replaces an organization's secret; for a week the old one signs, too, unless it is compromised (`isLost`). */
  async rotateSecret(organizationId: string, isLost: boolean, nowMs: number): Promise<void> {
    await this.secrets(organizationId, nowMs);
    await this.sql.query(
      "UPDATE trigger_secrets SET previous = secret, secret = ?, until_ms = ? WHERE organization_id = ?",
      newWebhookSecret(),
      isLost ? 0 : nowMs + SECRET_OVERLAP_MS,
      organizationId,
    );
  }

  async #end(id: string, state: DeliveryState, nowMs: number, error: string): Promise<void> {
    await this.sql.query(
      `UPDATE trigger_deliveries SET state = ?, attempts = attempts + 1, ended_ms = ?, lease_ms = 0, error = ?,
         message = CASE WHEN ? = 'delivered' THEN '{}' ELSE message END
       WHERE id = ? AND state = 'pending'`,
      state,
      nowMs,
      clipped(error),
      state,
      id,
    );
  }
}

/** Whom a notification goes to: a mail address as it is, a webhook without what gives access to it. */
export function shownTarget(target: string): string {
  return target.includes("://") ? shownUrl(target) : target;
}

function newWebhookSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
}

function clipped(error: string): string {
  return error.length > ERROR_LENGTH_MAX ? `${error.slice(0, ERROR_LENGTH_MAX)}…` : error;
}
