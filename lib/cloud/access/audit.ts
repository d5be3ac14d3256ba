/**
 * The audit log: who changed what and when, and who was refused.
 *
 * A change and its entry share a transaction, so both exist or neither. Entries are kept for a year. Listeners are
 * notified of each change that may concern a machine.
 */

import { randomUUID } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import type { Ref } from "./access.ts";
import type { Sql, Store } from "../store/store.ts";

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
  readonly atMs: number;
  /** `machine 1234`; several objects are separated by commas. */
  readonly resource: string;
  readonly outcome: "done" | "refused";
}

/**
 * Selects entries by a part of the actor's name, a part of the action's name, the earliest time, and the ids that the
 * object may have.
 */
export interface AuditSelection {
  readonly on?: ReadonlySet<string>;
  readonly who?: string;
  readonly action?: string;
  readonly sinceMs?: number;
}

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

/** Entries that are read at once where the database does not choose them. */
const PAGE = 1_000;
const DAY_MS = 24 * 3600 * 1000;
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

  /** Runs a change in a transaction and records it. `on` is its object. */
  async change<T>(actor: Actor, on: Subject, work: (sql: Sql, nowMs: number) => Promise<T>): Promise<T> {
    const value = await this.store.transaction(async (sql) => {
      const nowMs = this.clock.nowMs();
      const value = await work(sql, nowMs);
      await this.#note(sql, { ...actor, atMs: nowMs, resource: named([on]), outcome: "done" });
      return value;
    });
    // The change is committed even if the notification fails, because machines also poll.
    if (CONCERNS_MACHINES.has(on.kind)) await this.store.notices.tell("changes", named([on])).catch(() => {});
    return value;
  }

  /** Records a refused attempt, within the limit for its caller. */
  async refused(actor: Actor, on: readonly Ref[]): Promise<void> {
    const count = this.#countRefusal(actor.who);
    if (count > REFUSALS_MAX + 1) return;
    const resource = count > REFUSALS_MAX
      ? `${named(on)}, and further attempts in this minute are left out`
      : named(on);
    await this.store.transaction((sql) =>
      this.#note(sql, { ...actor, atMs: this.clock.nowMs(), resource, outcome: "refused" })
    );
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

  /** The newest entries in a selection, newest first. */
  async newest(limit: number, selection: AuditSelection = {}): Promise<AuditEntry[]> {
    const { on } = selection;
    if (!on) return await this.#page(selection, limit, 0);
    const found: AuditEntry[] = [];
    for (let at = 0; found.length < limit; at += PAGE) {
      const page = await this.#page(selection, PAGE, at);
      found.push(...page.filter(({ resource }) => resource.match(/[\w-]+/g)?.some((word) => on.has(word))));
      if (page.length < PAGE) break;
    }
    return found.slice(0, limit);
  }

  #page(
    { who = "", action = "", sinceMs = 0 }: AuditSelection,
    limit: number,
    offset: number,
  ): Promise<AuditEntry[]> {
    const like = (text: string) => `%${text.replaceAll(/[\\%_]/g, "\\$&")}%`;
    return this.store.query(
      `SELECT at_ms AS "atMs", who, action, resource, outcome FROM audit
       WHERE at_ms >= ? AND who LIKE ? ESCAPE '\\' AND action LIKE ? ESCAPE '\\'
       ORDER BY at_ms DESC, id LIMIT ? OFFSET ?`,
      sinceMs,
      like(who),
      like(action),
      limit,
      offset,
    );
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

  async #note(sql: Sql, { atMs, who, action, resource, outcome }: AuditEntry): Promise<void> {
    await sql.query(
      "INSERT INTO audit (id, at_ms, who, action, resource, outcome) VALUES (?, ?, ?, ?, ?, ?)",
      randomUUID(),
      atMs,
      who,
      action,
      resource,
      outcome,
    );
  }
}

function named(refs: readonly Subject[]): string {
  const all = refs.map(({ kind, id }) => `${kind} ${id}`).join(", ");
  return all.length > RESOURCE_CHARS_MAX ? `${all.slice(0, RESOURCE_CHARS_MAX)}…` : all;
}
