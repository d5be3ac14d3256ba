/**
 * Detects events that no call reports: parts that come online or go offline, and log entries of certain levels.
 *
 * The state that triggers know is in the database, and changes in the transaction that stores the event: each change
 * counts once, with any number of control planes, and over restarts.
 */

import type { Clock } from "../../base/clock.ts";
import { isDue } from "../store/due.ts";
import type { Store } from "../store/store.ts";
import { onlineTimes } from "../tenants/presence.ts";
import { LOG_ENTRIES_MAX, logConditions } from "./events.ts";
import { noteEvent, selectTriggers } from "../triggers/outbox.ts";

/** Limit of changed parts in one pass. */
const PARTS_AT_ONCE = 200;
/** Limit of triggers on logs in one pass, and of the entry numbers that each examines. */
const MARKS_AT_ONCE = 50;
const ENTRIES_AT_ONCE = 20_000;
/** Interval of the checks of a part's logs, and the published interval between two notifications. */
const LOGS_MS = 20_000;
const LOGS_TOLD_MS = 3600 * 1000;
/**
 * After a start, or after failed passes, machines get this time to report before any counts as offline, because the
 * control plane was away.
 */
const GRACE_MS = 90_000;
/** A longer break between two passes means that machines could not report. */
const BREAK_MS = 30_000;

interface WatchedPart {
  readonly id: string;
  readonly organizationId: string;
}

export class TriggerWatch {
  #lookedMs: number;
  #graceUntilMs: number;

  constructor(private readonly store: Store, private readonly clock: Clock) {
    this.#lookedMs = clock.monotonicMs();
    this.#graceUntilMs = this.#lookedMs + GRACE_MS;
  }

  /** Stores an event for each part whose state has changed. */
  async lookAtParts(): Promise<void> {
    const { store, clock } = this;
    const nowMs = clock.nowMs();
    const online = onlineTimes(nowMs);
    const found = await store.query<WatchedPart & { isOnline: number }>(
      `SELECT t.part_id AS id, l.organization_id AS "organizationId", t.is_online AS "isOnline"
       FROM part_triggers t JOIN parts p ON p.id = t.part_id JOIN machines m ON m.id = p.machine_id
         JOIN locations l ON l.id = m.location_id
       WHERE (t.is_online = 0 AND p.seen_ms BETWEEN ? AND ?)
         OR (t.is_online = 1 AND p.seen_ms NOT BETWEEN ? AND ?) LIMIT ?`,
      ...online,
      ...online,
      PARTS_AT_ONCE,
    );
    const isBreak = clock.monotonicMs() - this.#lookedMs > BREAK_MS;
    this.#lookedMs = clock.monotonicMs();
    if (isBreak) this.#graceUntilMs = this.#lookedMs + GRACE_MS;
    const inGrace = this.#lookedMs < this.#graceUntilMs;
    for (const { isOnline, ...part } of found) {
      if (isOnline === 1 && inGrace) continue;
      await this.#turn(part, isOnline === 1 ? 0 : 1, nowMs);
    }
  }

  /** Stores an event for each trigger whose awaited entries have arrived. */
  async lookAtLogs(): Promise<void> {
    const next = isDue("k.next_ms", this.clock.nowMs(), LOGS_TOLD_MS);
    const due = await this.store.query<WatchedPart & { trigger: string; number: number; head: number }>(
      `SELECT k.part_id AS id, k.trigger_name AS "trigger", k.number, COALESCE(h.number, 0) AS head,
         l.organization_id AS "organizationId"
       FROM trigger_log_marks k JOIN parts p ON p.id = k.part_id JOIN machines m ON m.id = p.machine_id
         JOIN locations l ON l.id = m.location_id LEFT JOIN log_heads h ON h.part_id = k.part_id
       WHERE ${next.text} ORDER BY k.next_ms LIMIT ?`,
      ...next.values,
      MARKS_AT_ONCE,
    );
    for (const { trigger, number, head, ...part } of due) {
      await this.#lookAtLog(part, trigger, number, Math.min(head, number + ENTRIES_AT_ONCE), head);
    }
  }

  async #turn(part: WatchedPart, isOnline: 0 | 1, nowMs: number): Promise<void> {
    await this.store.transaction(async (sql) => {
      const turned = await sql.query(
        `UPDATE part_triggers SET is_online = ? WHERE part_id = ? AND is_online <> ? RETURNING part_id`,
        isOnline,
        part.id,
        isOnline,
      );
      if (turned.length > 0) await noteEvent(sql, part, { kind: isOnline ? "online" : "offline" }, nowMs);
    });
  }

  async #lookAtLog(
    part: WatchedPart,
    trigger: string,
    after: number,
    until: number,
    head: number,
  ): Promise<void> {
    const { store, clock } = this;
    const triggers = await selectTriggers(store, part.id);
    const levels = triggers.find(({ name }) => name === trigger)?.event.logLevels ?? [];
    const found = levels.length === 0 || until === after ? [] : await store.query<{ number: number }>(
      `SELECT number FROM logs WHERE ${logConditions(levels)} ORDER BY number LIMIT ?`,
      part.id,
      after,
      until,
      ...levels,
      LOG_ENTRIES_MAX,
    );
    const nowMs = clock.nowMs();
    const pauseMs = until < head ? 0 : LOGS_MS;
    // After a notification the next pass finds everything since.
    const last = found.at(-1);
    const reached = last && found.length === LOG_ENTRIES_MAX ? last.number : until;
    await store.transaction(async (sql) => {
      const moved = await sql.query(
        `UPDATE trigger_log_marks SET number = ?, next_ms = ?
         WHERE part_id = ? AND trigger_name = ? AND number = ? RETURNING part_id`,
        reached,
        nowMs + (found.length > 0 ? LOGS_TOLD_MS : pauseMs),
        part.id,
        trigger,
        after,
      );
      if (moved.length === 0 || found.length === 0) return;
      await noteEvent(sql, part, { kind: "logs", trigger, after, head: reached }, nowMs);
    });
  }
}
