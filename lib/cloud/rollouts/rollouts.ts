/**
 * Rollouts and their parts in the database: the state of each part, and which rollout is due.
 *
 * Owns the tables `rollouts` and `rollout_parts`. A part is in one unfinished rollout at most. Any number of control
 * planes may work on one rollout: each step of a part is a transaction that requires the part's former state.
 *
 * The room owns rollouts: changes of many machines that advance or are reverted by the machines' health.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { isDue } from "../store/due.ts";
import { placeholders, queryOne, type Sql } from "../store/store.ts";
import type { RolloutChange, Undo } from "./change.ts";
import type { RolloutPlan } from "./plan.ts";

export type RolloutState = "running" | "paused" | "halted" | "aborted" | "completed";
/**
 * `applied`: its configuration has the change. `taken`: the machine runs it. `reverting`: to be reverted. `kept`: not
 * reverted, because somebody has changed the same setting.
 */
export type RolloutPartState =
  | "waiting"
  | "applied"
  | "taken"
  | "healthy"
  | "reverting"
  | "reverted"
  | "kept"
  | "skipped";

export interface Rollout {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly change: RolloutChange;
  readonly plan: RolloutPlan;
  readonly state: RolloutState;
  readonly step: number;
  readonly reason: string;
  readonly who: string;
  readonly accepted: number;
  readonly createdMs: number;
  readonly stepMs: number;
  readonly endedMs: number | null;
}

/** The state of a machine before its change. */
export interface Baseline {
  readonly errors: number;
  /** The last entry of its log. */
  readonly logNumber: number;
  readonly unhealthy: readonly string[];
}

export interface RolloutPart {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly organizationId: string;
  readonly seenMs: number | null;
  readonly step: number;
  readonly place: number;
  readonly state: RolloutPartState;
  readonly unhealthy: boolean;
  readonly reason: string;
  readonly undo: Undo | undefined;
  readonly baseline: Baseline;
  readonly revision: number;
  readonly appliedMs: number | null;
  readonly takenMs: number | null;
}

/** The parts of one step, by their states. */
export interface StepCounts {
  readonly machines: number;
  readonly waiting: number;
  readonly changing: number;
  readonly healthy: number;
  readonly unhealthy: number;
  readonly skipped: number;
}

export type PartTurn = Partial<Pick<RolloutPart, "reason" | "undo" | "baseline" | "revision">> & {
  readonly state: RolloutPartState;
  readonly unhealthy?: boolean;
  readonly appliedMs?: number;
  readonly takenMs?: number;
};

export interface PartsQuery {
  readonly states?: readonly RolloutPartState[];
  readonly unhealthy?: boolean;
  /** Only parts up to this step. */
  readonly untilStep?: number;
  /** Only parts that were last seen between these times, both included. */
  readonly seen?: readonly [fromMs: number, toMs: number];
  /** Only parts after this place. */
  readonly after?: number;
  readonly limit: number;
}

export const UNFINISHED: readonly RolloutState[] = ["running", "paused", "halted"];
const EMPTY: StepCounts = { machines: 0, waiting: 0, changing: 0, healthy: 0, unhealthy: 0, skipped: 0 };
/** Limit of stored ended rollouts of an organization. */
const ENDED_MAX = 200;
const COLUMNS =
  `id, organization_id AS "organizationId", name, change, plan, state, step, reason, who, accepted,
  created_ms AS "createdMs", step_ms AS "stepMs", ended_ms AS "endedMs"`;
const PARTS =
  `SELECT r.part_id AS "partId", p.name AS "partName", m.id AS "machineId", m.name AS "machineName",
    l.organization_id AS "organizationId", p.seen_ms AS "seenMs", r.step, r.place, r.state, r.unhealthy, r.reason,
    r.undo, r.baseline, r.revision, r.applied_ms AS "appliedMs", r.taken_ms AS "takenMs"
  FROM rollout_parts r JOIN parts p ON p.id = r.part_id JOIN machines m ON m.id = p.machine_id
    JOIN locations l ON l.id = m.location_id`;

type Row = Omit<Rollout, "change" | "plan"> & { readonly change: string; readonly plan: string };
type PartRow = Omit<RolloutPart, "undo" | "baseline" | "unhealthy"> & {
  readonly undo: string;
  readonly baseline: string;
  readonly unhealthy: number;
};

export class Rollouts {
  constructor(private readonly sql: Sql) {}

  /** Throws `failed_precondition` if a part is in another unfinished rollout. */
  async add(
    made: Pick<Rollout, "id" | "organizationId" | "name" | "change" | "plan" | "who">,
    parts: readonly { readonly id: string; readonly step: number }[],
    nowMs: number,
  ): Promise<void> {
    const { id, organizationId, name, change, plan, who } = made;
    await this.requireFree(parts.map((one) => one.id));
    await this.sql.query(
      `INSERT INTO rollouts (id, organization_id, name, change, plan, state, step, reason, who, accepted, created_ms,
         step_ms, next_ms) VALUES (?, ?, ?, ?, ?, 'running', 0, '', ?, 0, ?, ?, ?)`,
      ...[id, organizationId, name, JSON.stringify(change), JSON.stringify(plan), who, nowMs, nowMs, nowMs],
    );
    for (let at = 0; at < parts.length; at += PARTS_A_QUERY) {
      const some = parts.slice(at, at + PARTS_A_QUERY);
      const rows = some.map(() => "(?, ?, ?, ?, 'waiting', 1, 0, '', '', '', 0)").join(", ");
      await this.sql.query(
        `INSERT INTO rollout_parts (rollout_id, part_id, place, step, state, is_open, unhealthy, reason, undo, baseline,
           revision) VALUES ${rows}`,
        ...some.flatMap((part, number) => [id, part.id, at + number, part.step]),
      );
    }
    await this.#forgetEnded(organizationId);
  }

  async get(id: string): Promise<Rollout> {
    const [row] = await this.sql.query<Row>(`SELECT ${COLUMNS} FROM rollouts WHERE id = ?`, id);
    if (row) return parsed(row);
    throw new SvcError("not_found", `there is no rollout "${id}"`);
  }

  /** Newest first. */
  async list(organizationId: string): Promise<Rollout[]> {
    const text = `SELECT ${COLUMNS} FROM rollouts WHERE organization_id = ? ORDER BY created_ms DESC, id`;
    return (await this.sql.query<Row>(text, organizationId)).map(parsed);
  }

  /** `aheadMs`: a look further away was set by a clock that was ahead, and is due. */
  async hasDue(nowMs: number, aheadMs: number): Promise<boolean> {
    const due = isDue("next_ms", nowMs, aheadMs);
    return (await this.sql.query(`SELECT id FROM rollouts WHERE ${due.text} LIMIT 1`, ...due.values)).length >
      0;
  }

  /** The next one to look at; nobody else gets it for `leasedMs`. */
  async takeDue(nowMs: number, leasedMs: number, aheadMs = leasedMs): Promise<Rollout | undefined> {
    const due = isDue("next_ms", nowMs, aheadMs);
    const [found] = await this.sql.query<{ id: string; nextMs: number }>(
      `SELECT id, next_ms AS "nextMs" FROM rollouts WHERE ${due.text} ORDER BY next_ms, id LIMIT 1`,
      ...due.values,
    );
    if (!found) return undefined;
    const { id, nextMs } = found;
    if (nextMs > nowMs) await this.#rightTimes(id, nowMs);
    const [row] = await this.sql.query<Row>(
      `UPDATE rollouts SET next_ms = ? WHERE id = ? AND next_ms = ? RETURNING ${COLUMNS}`,
      nowMs + leasedMs,
      id,
      nextMs,
    );
    return row && parsed(row);
  }

  /** What a clock that was ahead has set counts as of now: machines would never have been healthy for long enough. */
  async #rightTimes(id: string, nowMs: number): Promise<void> {
    const right = (column: string) => `${column} = CASE WHEN ${column} > ? THEN ? ELSE ${column} END`;
    await this.sql.query(`UPDATE rollouts SET ${right("step_ms")} WHERE id = ?`, nowMs, nowMs, id);
    await this.sql.query(
      `UPDATE rollout_parts SET ${right("applied_ms")}, ${right("taken_ms")} WHERE rollout_id = ?`,
      ...[nowMs, nowMs, nowMs, nowMs, id],
    );
  }

  async lookAgain(id: string, nextMs: number | null): Promise<void> {
    await this.sql.query("UPDATE rollouts SET next_ms = ? WHERE id = ?", nextMs, id);
  }

  async isIn(id: string, state: RolloutState): Promise<boolean> {
    return (await this.sql.query("SELECT id FROM rollouts WHERE id = ? AND state = ?", id, state)).length > 0;
  }

  /** Throws `failed_precondition` unless it is in one of the states. */
  async turn(
    id: string,
    from: readonly RolloutState[],
    to: RolloutState,
    reason: string,
    nowMs: number,
  ): Promise<void> {
    const isEnd = !UNFINISHED.includes(to);
    const [row] = await this.sql.query(
      `UPDATE rollouts SET state = ?, reason = ?, next_ms = ?, ended_ms = ? WHERE id = ?
         AND state IN (${placeholders(from)}) RETURNING id`,
      ...[to, reason, nowMs, isEnd ? nowMs : null, id, ...from],
    );
    if (!row) {
      const { state } = await this.get(id);
      throw new SvcError("failed_precondition", `the rollout is ${state}, wanted ${from.join(" or ")}`);
    }
    if (isEnd) await this.#release(id);
  }

  /** Accepts the parts that have become unhealthy so far: they no longer count. */
  async accept(id: string, nowMs: number): Promise<void> {
    await this.sql.query(
      `UPDATE rollouts SET step_ms = ?, accepted =
         (SELECT COUNT(*) FROM rollout_parts WHERE rollout_id = ? AND unhealthy = 1) WHERE id = ?`,
      nowMs,
      id,
      id,
    );
  }

  async goTo(id: string, from: number, step: number, nowMs: number): Promise<void> {
    const text = "UPDATE rollouts SET step = ?, step_ms = ? WHERE id = ? AND step = ? AND state = 'running'";
    await this.sql.query(text, step, nowMs, id, from);
  }

  // Parts.

  async parts(id: string, query: PartsQuery): Promise<RolloutPart[]> {
    const { states = [], unhealthy, untilStep, seen, after, limit } = query;
    const conditions: [string, ...(string | number)[]][] = [["r.rollout_id = ?", id]];
    if (states.length > 0) conditions.push([`r.state IN (${placeholders(states)})`, ...states]);
    if (unhealthy) conditions.push(["r.unhealthy = 1"]);
    if (untilStep !== undefined) conditions.push(["r.step <= ?", untilStep]);
    if (seen !== undefined) conditions.push(["p.seen_ms BETWEEN ? AND ?", ...seen]);
    if (after !== undefined) conditions.push(["r.place > ?", after]);
    const rows = await this.sql.query<PartRow>(
      `${PARTS} WHERE ${conditions.map(([text]) => text).join(" AND ")} ORDER BY r.place LIMIT ?`,
      ...conditions.flatMap(([, ...values]) => values),
      limit,
    );
    return rows.map(parsedPart);
  }

  async hasParts(id: string, states: readonly RolloutPartState[]): Promise<boolean> {
    return (await this.parts(id, { states, limit: 1 })).length > 0;
  }

  async countIn(id: string, states: readonly RolloutPartState[]): Promise<number> {
    const text = `SELECT COUNT(*) AS amount FROM rollout_parts WHERE rollout_id = ? AND state IN (${
      placeholders(states)
    })`;
    const { amount } = await queryOne<{ amount: number }>(this.sql, text, id, ...states);
    return Number(amount);
  }

  /** Returns whether the part was in the state `from`. */
  async turnPart(
    id: string,
    partId: string,
    from: readonly RolloutPartState[],
    to: PartTurn,
  ): Promise<boolean> {
    const { state, unhealthy, reason, undo, baseline, revision, appliedMs, takenMs } = to;
    const rows = await this.sql.query(
      `UPDATE rollout_parts SET state = ?, unhealthy = COALESCE(?, unhealthy), reason = COALESCE(?, reason),
         undo = COALESCE(?, undo), baseline = COALESCE(?, baseline), revision = COALESCE(?, revision),
         applied_ms = COALESCE(?, applied_ms), taken_ms = COALESCE(?, taken_ms)
       WHERE rollout_id = ? AND part_id = ? AND state IN (${placeholders(from)}) RETURNING part_id`,
      state,
      unhealthy === undefined ? null : Number(unhealthy),
      reason ?? null,
      undo ? JSON.stringify(undo) : null,
      baseline ? JSON.stringify(baseline) : null,
      revision ?? null,
      appliedMs ?? null,
      takenMs ?? null,
      id,
      partId,
      ...from,
    );
    return rows.length > 0;
  }

  /** Turns every part that is in one of the states. */
  async turnParts(
    id: string,
    from: readonly RolloutPartState[],
    to: RolloutPartState,
    reason: string,
  ): Promise<void> {
    await this.sql.query(
      `UPDATE rollout_parts SET state = ?, reason = ? WHERE rollout_id = ? AND state IN (${
        placeholders(from)
      })`,
      ...[to, reason, id, ...from],
    );
  }

  async requireUnfinished(id: string): Promise<void> {
    const { state } = await this.get(id);
    if (UNFINISHED.includes(state)) return;
    throw new SvcError("failed_precondition", `the rollout is ${state}, wanted ${UNFINISHED.join(" or ")}`);
  }

  /** By rollout, the counts of each step. */
  async counts(ids: readonly string[]): Promise<ReadonlyMap<string, readonly StepCounts[]>> {
    if (ids.length === 0) return new Map();
    const rows = await this.sql.query<
      { id: string; step: number; state: string; unhealthy: number; amount: number }
    >(
      `SELECT rollout_id AS id, step, state, unhealthy, COUNT(*) AS amount FROM rollout_parts
       WHERE rollout_id IN (${placeholders(ids)}) GROUP BY rollout_id, step, state, unhealthy`,
      ...ids,
    );
    const found = new Map<string, StepCounts[]>();
    for (const { id, step, state, unhealthy, amount } of rows) {
      const steps = found.getOrInsertComputed(id, () => []);
      while (steps.length <= step) steps.push(EMPTY);
      const kind = Number(unhealthy) === 1 ? "unhealthy" : COUNTED_AS[state as RolloutPartState];
      const counts = steps[step] ?? EMPTY;
      steps[step] = {
        ...counts,
        machines: counts.machines + Number(amount),
        [kind]: counts[kind] + Number(amount),
      };
    }
    return found;
  }

  /** Frees its parts for other rollouts, except those that still have to be reverted. */
  async #release(id: string): Promise<void> {
    await this.sql.query(
      "UPDATE rollout_parts SET is_open = 0 WHERE rollout_id = ? AND is_open = 1 AND state <> 'reverting'",
      id,
    );
  }

  /** Frees a part that was reverted after the end of its rollout. */
  async releasePart(id: string, partId: string): Promise<void> {
    if (UNFINISHED.includes((await this.get(id)).state)) return;
    const text = "UPDATE rollout_parts SET is_open = 0 WHERE rollout_id = ? AND part_id = ? AND is_open = 1";
    await this.sql.query(text, id, partId);
  }

  async requireFree(partIds: readonly string[]): Promise<void> {
    for (let start = 0; start < partIds.length; start += PARTS_A_QUERY) {
      const some = partIds.slice(start, start + PARTS_A_QUERY);
      const rows = await this.sql.query<{ id: string; name: string; state: string }>(
        `SELECT o.id, o.name, o.state FROM rollout_parts r JOIN rollouts o ON o.id = r.rollout_id
         WHERE r.is_open = 1 AND r.part_id IN (${placeholders(some)}) LIMIT 1`,
        ...some,
      );
      const [other] = rows;
      if (!other) continue;
      const { id, name, state } = other;
      throw new SvcError(
        "failed_precondition",
        `rollout "${name}" (${id}, ${state}) has some of these machines: wait for its end or abort it; nothing is changed`,
      );
    }
  }

  async #forgetEnded(organizationId: string): Promise<void> {
    await this.sql.query(
      `DELETE FROM rollouts WHERE id IN (SELECT id FROM rollouts WHERE organization_id = ? AND next_ms IS NULL
         AND ended_ms IS NOT NULL ORDER BY created_ms DESC, id LIMIT 1000 OFFSET ?)`,
      organizationId,
      ENDED_MAX,
    );
  }
}

const PARTS_A_QUERY = 500;
const COUNTED_AS: { readonly [S in RolloutPartState]: Exclude<keyof StepCounts, "machines"> } = {
  waiting: "waiting",
  applied: "changing",
  taken: "changing",
  healthy: "healthy",
  reverting: "changing",
  reverted: "skipped",
  kept: "skipped",
  skipped: "skipped",
};

export function newRolloutId(): string {
  return randomUUID();
}

function parsed({ change, plan, ...row }: Row): Rollout {
  return { ...row, change: JSON.parse(change), plan: JSON.parse(plan) };
}

function parsedPart({ undo, baseline, unhealthy, ...row }: PartRow): RolloutPart {
  return {
    ...row,
    unhealthy: Number(unhealthy) === 1,
    undo: undo === "" ? undefined : JSON.parse(undo),
    baseline: baseline === "" ? { errors: 0, logNumber: 0, unhealthy: [] } : JSON.parse(baseline),
  };
}
