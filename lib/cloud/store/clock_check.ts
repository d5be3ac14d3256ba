/**
 * Whether this computer's clock can be right, for work that a clock that is ahead would make harmful: removing what is
 * past its time, and computing windows that have not been yet.
 *
 * A clock that is behind does no harm. One that is ahead shows beside PostgreSQL's clock, and by a time that has passed
 * faster than the program's own count of it, or since a program last worked here. After such a leap the clock counts as
 * right once a machine has sent something that its own clock says is of this time, or when the operator says so.
 */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import { notedSetting, noteSetting } from "./settings.ts";
import { queryOne, type Sql, type Store } from "./store.ts";

interface ClockCheckParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
}

const SETTING = "last right time";
const [MINUTE_MS, HOUR_MS] = [60_000, 3_600_000];
/** How far this clock may be ahead of PostgreSQL's, of its own count, and of the last program's last time. */
const AHEAD_MS = 5 * MINUTE_MS;
const LEAP_MS = 10 * MINUTE_MS;
/** Control planes stop for a holiday. */
const STOPPED_MS = 14 * 24 * HOUR_MS;
/** What machines send is of this time at most so long before or after it. */
const NEAR_MS = 6 * HOUR_MS;
/** A clock that was right stays so for this long, unless it leaps. */
const FRESH_MS = 20_000;
const NOTE_MS = MINUTE_MS;

/** Logs once when the clock turns wrong, and right again. */
export class ClockCheck {
  /** The last time that was right, and the program's count then. */
  #right: { readonly nowMs: number; readonly countMs: number } | undefined;
  #notedMs = -Infinity;
  #isWrong = false;

  constructor(private readonly parts: ClockCheckParts) {}

  /**
   * The time, if the clock can be right. Work goes by this time until its next check, because the clock may leap in the
   * midst of it.
   */
  async rightMs(): Promise<number | undefined> {
    const { store, clock, logger } = this.parts;
    const [nowMs, countMs] = [clock.nowMs(), clock.monotonicMs()];
    const passedMs = this.#right && countMs - this.#right.countMs;
    const expectedMs = this.#right && this.#right.nowMs + passedMs!;
    const hasLeapt = expectedMs === undefined || Math.abs(nowMs - expectedMs) > LEAP_MS;
    if (!hasLeapt && passedMs! < FRESH_MS) return nowMs;

    const problem = await clockProblem(store, nowMs, expectedMs);
    // The text tells the time, and so is another one every minute.
    if (problem && !this.#isWrong) logger.warn(problem);
    if (!problem && this.#isWrong) logger.info("the clock is right; old data is removed again");
    this.#isWrong = problem !== undefined;
    if (problem) return undefined;

    this.#right = { nowMs, countMs };
    if (Math.abs(nowMs - this.#notedMs) >= NOTE_MS) {
      // Another control plane may have just noted it.
      const notedMs = await notedTime(store) ?? -Infinity;
      if (nowMs - notedMs >= NOTE_MS) await store.transaction((sql) => noteRightTime(sql, nowMs));
      this.#notedMs = nowMs;
    }
    return nowMs;
  }
}

/**
 * Why a clock cannot be right; `undefined` if it may be. `expectedMs` is what a program that has been running expects
 * it to show.
 */
export async function clockProblem(
  store: Store,
  nowMs: number,
  expectedMs?: number,
): Promise<string | undefined> {
  const serverMs = await store.serverMs();
  if (serverMs !== undefined && nowMs - serverMs > AHEAD_MS) {
    return `${aheadText(nowMs, serverMs, "PostgreSQL's clock")}. Set the clock`;
  }
  const lastMs = Math.max(expectedMs ?? -Infinity, await rightTime(store) ?? -Infinity);
  const leapMs = nowMs - lastMs;
  if (lastMs === -Infinity || leapMs <= (expectedMs === undefined ? STOPPED_MS : LEAP_MS)) return undefined;
  if (await isConfirmed(store, nowMs, Math.min(leapMs / 2, NEAR_MS))) return undefined;
  return `${
    aheadText(nowMs, lastMs, "the last time that svc-cloud knows")
  }, and no machine has sent anything ` +
    "of this time yet. If the clock is right: svc-cloud retention --trust-clock";
}

/** Notes that this time is right, unless a later one has been noted. */
export async function noteRightTime(sql: Sql, nowMs: number): Promise<void> {
  const notedMs = await notedTime(sql);
  if (notedMs === undefined || notedMs < nowMs) await noteSetting(sql, SETTING, String(nowMs));
}

async function notedTime(sql: Sql): Promise<number | undefined> {
  const text = await notedSetting(sql, SETTING);
  return text === undefined ? undefined : Number(text);
}

/** Databases of earlier versions have the time of the last change instead. */
async function rightTime(sql: Sql): Promise<number | undefined> {
  const notedMs = await notedTime(sql);
  if (notedMs !== undefined) return notedMs;
  const { atMs } = await queryOne<{ atMs: number | null }>(sql, `SELECT MAX(at_ms) AS "atMs" FROM audit`);
  return atMs || undefined;
}

/** Whether something has arrived about this time that a machine's own clock gave about this time. */
async function isConfirmed(sql: Sql, nowMs: number, nearMs: number): Promise<boolean> {
  const [fromMs, untilMs] = [nowMs - nearMs, nowMs + nearMs];
  const data = (table: string) =>
    sql.query(
      `SELECT 1 AS one FROM data_origins o WHERE EXISTS (SELECT 1 FROM ${table} d WHERE d.origin_id = o.id
         AND d.captured_us BETWEEN ? AND ? AND d.stored_ms BETWEEN ? AND ?) LIMIT 1`,
      ...[fromMs * 1000, untilMs * 1000, fromMs, untilMs],
    );
  if ((await data("tabular_data")).length > 0 || (await data("binary_data")).length > 0) return true;
  // Lines without a time have that of their arrival; those of svc-cloud itself have its own.
  const lines = await sql.query(
    `SELECT 1 AS one FROM logs WHERE received_ms BETWEEN ? AND ? AND written_ms BETWEEN ? AND ?
       AND written_ms <> received_ms AND logger NOT LIKE 'app.%' LIMIT 1`,
    ...[fromMs, untilMs, fromMs, untilMs],
  );
  return lines.length > 0;
}

function aheadText(nowMs: number, otherMs: number, other: string): string {
  const hours = (nowMs - otherMs) / HOUR_MS;
  const ahead = hours < 48 ? `${hours.toFixed(1)} hours` : `${Math.round(hours / 24)} days`;
  return `nothing is removed for its age: this computer's clock shows ${
    shown(nowMs)
  }, ${ahead} after ${other} ` +
    `(${shown(otherMs)})`;
}

function shown(ms: number): string {
  return Math.abs(ms) <= 8.64e15
    ? new Date(ms).toISOString().slice(0, 16).replace("T", " ") + " UTC"
    : `${ms}`;
}
