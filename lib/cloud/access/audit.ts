/**
 * The audit log: who changed what and when, and who was refused.
 *
 * A change and its entry share a transaction, so both exist or neither. Entries are kept for a year. Listeners are
 * notified of each change that may concern a machine.
 */

import { randomUUID } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { enclosingOrganization, type Ref } from "./access.ts";
import { placeholders, type Sql, type SqlValue, type Store } from "../store/store.ts";

/** The actor (an API key's id, or a person at the command line) and the action. */
export interface Actor {
  readonly who: string;
  readonly action: string;
}

/**
 * The object of a change: something with roles on it, or a release, secret, account, administrator or command, which
 * belongs to the whole control plane.
 */
export type Subject = Ref | {
  readonly kind: "release" | "secret" | "account" | "administrator" | "command";
  readonly id: string;
};

export interface AuditEntry extends Actor {
  readonly id: string;
  readonly atMs: number;
  /** `machine 1234`; several objects are separated by commas. */
  readonly resource: string;
  readonly outcome: "done" | "refused";
}

/** Selects entries by organization, a part of the actor's name, a part of the action's name, and by time. */
export interface AuditSelection {
  readonly organizationId?: string;
  readonly who?: string;
  /** Actors who count, too. */
  readonly whoIds?: readonly string[];
  readonly action?: string;
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

/** An entry's id, and what has changed. */
export type AuditedChange = Pick<AuditEntry, "id" | "resource">;

/** Where an entry stands, newest first. */
export type AuditCursor = Pick<AuditEntry, "atMs" | "id">;

/** Objects that determine a machine's configuration and programs, and orders to it. */
const CONCERNS_MACHINES: ReadonlySet<Subject["kind"]> = new Set<Subject["kind"]>([
  "organization",
  "location",
  "machine",
  "part",
  "key",
  "fragment",
  "package",
  "release",
  "secret",
]);

/** Limit of the objects of a refused attempt whose organizations see it; the others are in the operator's log alone. */
const REFUSED_REFS_MAX = 8;
const DAY_MS = 24 * 3600 * 1000;
/** Limit of the changes that one look reads. */
const CHANGES_MAX = 1_000;
/** Limit of the entries that one transaction deletes. */
const FORGET_AT_ONCE = 5_000;
/** Limit of recorded refusals of one caller per minute; a further entry says that there were more. */
const REFUSALS_MAX = 60;
const MINUTE_MS = 60_000;
/** Limit of callers whose refusals are counted; beyond it, the caller who was refused first is forgotten. */
const CALLERS_MAX = 10_000;
const RESOURCE_CHARS_MAX = 1_000;

export class Audit {
  /** Refusals by caller, in the order of the first refusal. */
  readonly #refusals = new Map<string, { readonly untilMs: number; count: number }>();

  constructor(private readonly store: Store, private readonly clock: Clock) {}

  /**
   * Runs a change in a transaction and records it. `on` is its object; `rolesOf` is the key or account whose roles on it
   * change.
   */
  async change<T>(
    actor: Actor,
    on: Subject,
    work: (sql: Sql, nowMs: number) => Promise<T>,
    rolesOf?: string,
  ): Promise<T> {
    const value = await this.store.transaction(async (sql) => {
      const nowMs = this.clock.nowMs();
      // Of something that is deleted before the work, of something that is made after it.
      const before = await enclosingOrganization(sql, on);
      const value = await work(sql, nowMs);
      const organizationId = before ?? await enclosingOrganization(sql, on) ?? "";
      await this.#note(
        sql,
        { ...actor, atMs: nowMs, resource: named([on]), outcome: "done" },
        organizationId,
      );
      return value;
    });
    // The change is committed even if the notification fails, because machines also poll.
    const tell = (text: string) => this.store.notices.tell("changes", text).catch(() => {});
    if (CONCERNS_MACHINES.has(on.kind)) await tell(named([on]));
    if (rolesOf !== undefined) await tell(named([{ kind: "key", id: rolesOf }]));
    return value;
  }

  /** Records a refused attempt, within the limit for its caller. */
  async refused(actor: Actor, on: readonly Ref[]): Promise<void> {
    const count = this.#countRefusal(actor.who);
    if (count > REFUSALS_MAX + 1) return;
    const more = count > REFUSALS_MAX ? ", and further attempts in this minute are left out" : "";
    const atMs = this.clock.nowMs();
    await this.store.transaction(async (sql) => {
      // Each organization reads its own objects only.
      for (const [organizationId, refs] of await byOrganization(sql, on)) {
        const entry = { ...actor, atMs, resource: `${named(refs)}${more}`, outcome: "refused" } as const;
        await this.#note(sql, entry, organizationId);
      }
    });
  }

  /** The number of this refusal among those of the caller in a minute. */
  #countRefusal(who: string): number {
    const nowMs = this.clock.monotonicMs();
    const known = this.#refusals.get(who);
    if (known && nowMs < known.untilMs) return ++known.count;
    this.#refusals.delete(who);
    if (this.#refusals.size >= CALLERS_MAX) this.#refusals.delete(this.#refusals.keys().next().value!);
    this.#refusals.set(who, { untilMs: nowMs + MINUTE_MS, count: 1 });
    return 1;
  }

  /** The newest entries in a selection, newest first; after a cursor, those that follow it. Letter case does not count. */
  async newest(limit: number, selection: AuditSelection = {}, after?: AuditCursor): Promise<AuditEntry[]> {
    const { organizationId, who = "", whoIds = [], action = "", sinceMs, untilMs } = selection;
    const conditions: string[] = [];
    const values: SqlValue[] = [];
    const add = (condition: string, ...more: SqlValue[]) => {
      conditions.push(condition);
      values.push(...more);
    };
    const like = (text: string) => `%${text.toLowerCase().replaceAll(/[\\%_]/g, "\\$&")}%`;
    add("at_ms >= ?", sinceMs ?? 0);
    if (organizationId !== undefined) add("organization_id = ?", organizationId);
    if (untilMs !== undefined) add("at_ms <= ?", untilMs);
    if (after) add("(at_ms < ? OR (at_ms = ? AND id > ?))", after.atMs, after.atMs, after.id);
    const byId = whoIds.length > 0 ? ` OR who IN (${placeholders(whoIds)})` : "";
    if (who !== "") add(`(LOWER(who) LIKE ? ESCAPE '\\'${byId})`, like(who), ...whoIds);
    if (action !== "") add("LOWER(action) LIKE ? ESCAPE '\\'", like(action));
    return await this.store.query(
      `SELECT id, at_ms AS "atMs", who, action, resource, outcome FROM audit
       WHERE ${conditions.join(" AND ")} ORDER BY at_ms DESC, id LIMIT ?`,
      ...values,
      limit,
    );
  }

  /** The newest changes since then of things of these kinds. */
  async changesSince(
    ms: number,
    kinds: readonly Subject["kind"][],
  ): Promise<{ readonly changes: AuditedChange[]; readonly hasMore: boolean }> {
    const changes = await this.store.query<AuditedChange>(
      `SELECT id, resource FROM audit WHERE at_ms >= ? AND outcome = 'done'
         AND (${kinds.map(() => "resource LIKE ?").join(" OR ")})
       ORDER BY at_ms DESC, id LIMIT ?`,
      ms,
      ...kinds.map((kind) => `${kind} %`),
      CHANGES_MAX,
    );
    return { changes, hasMore: changes.length === CHANGES_MAX };
  }

  /** Deletes entries that are older than `days`. */
  async forgetOld(days: number): Promise<void> {
    for (let gone = FORGET_AT_ONCE; gone >= FORGET_AT_ONCE;) {
      const removed = await this.store.transaction((sql) =>
        sql.query(
          "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at_ms < ? LIMIT ?) RETURNING id",
          this.clock.nowMs() - days * DAY_MS,
          FORGET_AT_ONCE,
        )
      );
      gone = removed.length;
    }
  }

  async #note(
    sql: Sql,
    { atMs, who, action, resource, outcome }: Omit<AuditEntry, "id">,
    organizationId: string,
  ): Promise<void> {
    await sql.query(
      `INSERT INTO audit (id, at_ms, who, action, resource, outcome, organization_id)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      randomUUID(),
      atMs,
      who,
      action,
      resource,
      outcome,
      organizationId,
    );
  }
}

/** The objects by their organizations; those of none, and those of many that are not looked up, under an empty id. */
async function byOrganization(sql: Sql, on: readonly Ref[]): Promise<ReadonlyMap<string, Ref[]>> {
  const found = new Map<string, Ref[]>();
  for (const [at, ref] of on.entries()) {
    const id = at < REFUSED_REFS_MAX ? await enclosingOrganization(sql, ref) ?? "" : "";
    found.getOrInsertComputed(id, () => []).push(ref);
  }
  return found.size > 0 ? found : new Map([["", []]]);
}

function named(refs: readonly Subject[]): string {
  const all = refs.map(({ kind, id }) => `${kind} ${id}`).join(", ");
  return all.length > RESOURCE_CHARS_MAX ? `${all.slice(0, RESOURCE_CHARS_MAX)}…` : all;
}
