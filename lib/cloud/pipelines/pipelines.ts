/**
 * Data pipelines: queries that run once for each window of their schedule, and store their results.
 *
 * Owns the tables `data_pipelines`, `pipeline_runs`, `pipeline_late` and `pipeline_documents`. The cursor of a pipeline
 * moves in the transaction that schedules a window, one control plane claims a run, and the transaction that stores the
 * documents of a window replaces those of an earlier run and ends the run. So each window counts once.
 *
 * The room owns data pipelines: their windows, their runs, and their results.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { lastRemovedUs } from "../capture/retention_policies.ts";
import { lastInFiles, type LastsOfFiles } from "../readings/lasts.ts";
import { isDue } from "../store/due.ts";
import { type BatchStatement, queryOne, type Sql, type SqlText } from "../store/store.ts";
import { PipelineWindows, type Span } from "./windows.ts";

export interface NewPipeline {
  readonly organizationId: string;
  readonly name: string;
  readonly mql: readonly Uint8Array[];
  readonly schedule: string;
  readonly hasBackfill: boolean;
  /** As published. */
  readonly sourceType: number;
}

export interface DataPipelineRow extends NewPipeline {
  readonly id: string;
  readonly isEnabled: boolean;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** The end of the last window that was scheduled, and of the next one. */
  readonly cursorMs: number;
  readonly nextMs: number;
  /** Windows before this time have yet to be checked for data that is older than the pipeline. */
  readonly backfillMs: number | null;
}

/** As published. */
export const RUN_STATUS = { scheduled: 1, started: 2, completed: 3, failed: 4 } as const;

export interface PipelineRun extends Span {
  readonly id: string;
  readonly pipelineId: string;
  readonly status: number;
  readonly startedMs: number | null;
  readonly endedMs: number | null;
  readonly error: string;
  readonly attempts: number;
}

export interface ClaimedRun extends PipelineRun {
  readonly organizationId: string;
  readonly mql: readonly Uint8Array[];
}

/** The times of a claim, and which runs it takes. */
export interface ClaimTimes {
  readonly nowMs: number;
  readonly leaseMs: number;
  /** The latest windows instead of those that have waited longest. */
  readonly newest?: boolean;
}

/** How long a runner of runs counts as alive without a sign of it. */
export const RUN_LEASE_MS = 60_000;
/** The published delay between the end of a window and its run, in which late readings arrive. */
const DELAY_MS = 2 * 60_000;
/** How often an interrupted run is repeated. */
const ATTEMPTS_MAX = 5;
/** Limit of waiting runs of a pipeline while earlier windows are filled in. */
const BACKFILL_AT_ONCE = 10;
const RUNS_KEPT = 1_000;
/** Windows of one pipeline that are scheduled together. */
const WINDOWS_AT_ONCE = 200;
const NAME_LENGTH_MAX = 200;
const MQL_BYTES_MAX = 64 * 1024;
/** Limit of an organization's unprocessed late uploads; for further ones, no window is computed again. */
const LATE_MAX = 5_000;
/** Limit of windows of one pipeline that one late upload affects. */
const LATE_WINDOWS_MAX = 500;

const READINGS_GONE =
  "retention has removed readings of this window since it was computed: its earlier results stay as they are";

const COLUMNS =
  `id, organization_id AS "organizationId", name, mql, schedule, enabled, backfill AS "hasBackfill",
  source_type AS "sourceType", created_ms AS "createdMs", updated_ms AS "updatedMs", cursor_ms AS "cursorMs",
  next_ms AS "nextMs", backfill_ms AS "backfillMs"`;
const RUN_COLUMNS = `id, pipeline_id AS "pipelineId", from_ms AS "fromMs", until_ms AS "untilMs", status,
  started_ms AS "startedMs", ended_ms AS "endedMs", error, attempts`;

type Row = Omit<DataPipelineRow, "mql" | "isEnabled" | "hasBackfill"> & {
  readonly mql: string;
  readonly enabled: number;
  readonly hasBackfill: number;
};

export class DataPipelines {
  constructor(private readonly sql: Sql) {}

  /** Throws `already_exists`. */
  async create(made: NewPipeline, nowMs: number): Promise<string> {
    const id = randomUUID();
    const { fromMs, untilMs } = new PipelineWindows(made.schedule).around(nowMs);
    await unique(made.name, () =>
      this.sql.query(
        `INSERT INTO data_pipelines (id, organization_id, name, mql, schedule, enabled, backfill, source_type, created_ms,
           updated_ms, cursor_ms, next_ms, backfill_ms) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)`,
        id,
        made.organizationId,
        checkedQueryName(made.name),
        mqlText(made.mql),
        made.schedule,
        made.hasBackfill ? 1 : 0,
        made.sourceType,
        nowMs,
        nowMs,
        fromMs,
        untilMs,
        made.hasBackfill ? fromMs : null,
      ));
    return id;
  }

  async get(id: string): Promise<DataPipelineRow> {
    const [row] = await this.sql.query<Row>(`SELECT ${COLUMNS} FROM data_pipelines WHERE id = ?`, id);
    if (!row) throw new SvcError("not_found", `there is no pipeline "${id}"`);
    return pipelineOf(row);
  }

  async list(organizationId: string): Promise<DataPipelineRow[]> {
    const text = `SELECT ${COLUMNS} FROM data_pipelines WHERE organization_id = ? ORDER BY name, id`;
    return (await this.sql.query<Row>(text, organizationId)).map(pipelineOf);
  }

  async rename(id: string, name: string, nowMs: number): Promise<void> {
    await unique(name, () =>
      this.sql.query(
        "UPDATE data_pipelines SET name = ?, updated_ms = ? WHERE id = ?",
        checkedQueryName(name),
        nowMs,
        id,
      ));
  }

  /** Deletes a pipeline with its results. */
  async delete(id: string): Promise<void> {
    await this.sql.query("DELETE FROM stored_bytes WHERE kind = 'sinks' AND owner_id = ?", id);
    await this.sql.query("DELETE FROM data_pipelines WHERE id = ?", id);
  }

  /** An enabled pipeline starts with the present window; waiting runs of a disabled one do not run. */
  async enable(id: string, isEnabled: boolean, nowMs: number): Promise<void> {
    const pipeline = await this.get(id);
    if (pipeline.isEnabled === isEnabled) return;
    const { fromMs, untilMs } = new PipelineWindows(pipeline.schedule).around(nowMs);
    await this.sql.query(
      "UPDATE data_pipelines SET enabled = ?, updated_ms = ?, cursor_ms = ?, next_ms = ? WHERE id = ?",
      isEnabled ? 1 : 0,
      nowMs,
      isEnabled ? fromMs : pipeline.cursorMs,
      isEnabled ? untilMs : pipeline.nextMs,
      id,
    );
    if (!isEnabled) {
      await this.sql.query(
        "DELETE FROM pipeline_runs WHERE pipeline_id = ? AND status = ?",
        id,
        RUN_STATUS.scheduled,
      );
    }
  }

  /** The newest windows first. */
  async runs(pipelineId: string, offset: number, limit: number): Promise<PipelineRun[]> {
    return await this.sql.query<PipelineRun>(
      `SELECT ${RUN_COLUMNS} FROM pipeline_runs WHERE pipeline_id = ?
       ORDER BY from_ms DESC, due_ms DESC, id LIMIT ? OFFSET ?`,
      pipelineId,
      limit,
      offset,
    );
  }

  /** The pipelines whose next window is over. */
  async due(nowMs: number, limit: number): Promise<DataPipelineRow[]> {
    const rows = await this.sql.query<Row>(
      `SELECT ${COLUMNS} FROM data_pipelines WHERE enabled = 1 AND next_ms <= ? ORDER BY next_ms, id LIMIT ?`,
      nowMs,
      limit,
    );
    return rows.map(pipelineOf);
  }

  /**
   * Schedules the windows of a pipeline that are over, as many as fit into one step, unless another control plane has
   * just done so. After weeks of stop there are tens of thousands.
   */
  async scheduleNext({ id, schedule, cursorMs, nextMs }: DataPipelineRow, nowMs: number): Promise<void> {
    const windows = new PipelineWindows(schedule);
    const spans: Span[] = [];
    let [fromMs, untilMs] = [cursorMs, nextMs];
    while (untilMs <= nowMs && spans.length < WINDOWS_AT_ONCE) {
      spans.push({ fromMs, untilMs });
      [fromMs, untilMs] = [untilMs, windows.after(untilMs)];
    }
    const moved = await this.sql.query(
      `UPDATE data_pipelines SET cursor_ms = ?, next_ms = ? WHERE id = ? AND next_ms = ? AND enabled = 1
       RETURNING id`,
      fromMs,
      untilMs,
      id,
      nextMs,
    );
    if (moved.length === 0) return;
    for (const span of spans) await this.#schedule(id, span, span.untilMs + DELAY_MS);
  }

  /** Schedules one more window that has data and is older than the pipeline. */
  async scheduleEarlier(
    { id, organizationId, schedule, backfillMs }: DataPipelineRow,
    lasts: LastsOfFiles,
    nowMs: number,
  ): Promise<void> {
    if (backfillMs === null) return;
    const text = "SELECT COUNT(*) AS count FROM pipeline_runs WHERE pipeline_id = ? AND status IN (?, ?)";
    const { count } = await queryOne<{ count: number }>(
      this.sql,
      text,
      id,
      RUN_STATUS.scheduled,
      RUN_STATUS.started,
    );
    if (count >= BACKFILL_AT_ONCE) return;
    const { ownUs } = await queryOne<{ ownUs: number | null }>(
      this.sql,
      `SELECT MAX((SELECT MAX(d.captured_us) FROM tabular_data d WHERE d.origin_id = o.id AND d.captured_us < ?)) AS "ownUs"
       FROM data_origins o WHERE o.organization_id = ?`,
      backfillMs * 1000,
      organizationId,
    );
    const inFilesUs = await lastInFiles(this.sql, organizationId, backfillMs * 1000, lasts);
    const lastUs = ownUs === null || inFilesUs === undefined
      ? ownUs ?? inFilesUs ?? null
      : Math.max(ownUs, inFilesUs);
    const window = lastUs === null
      ? undefined
      : new PipelineWindows(schedule).around(Math.floor(lastUs / 1000));
    await this.sql.query(
      "UPDATE data_pipelines SET backfill_ms = ? WHERE id = ?",
      window ? window.fromMs : null,
      id,
    );
    if (window) await this.#schedule(id, window, nowMs);
  }

  /** The pipelines that have windows to fill in. */
  async backfilling(limit: number): Promise<DataPipelineRow[]> {
    const rows = await this.sql.query<Row>(
      `SELECT ${COLUMNS} FROM data_pipelines WHERE enabled = 1 AND backfill_ms IS NOT NULL
       ORDER BY backfill_ms DESC, id LIMIT ?`,
      limit,
    );
    return rows.map(pipelineOf);
  }

  /** Schedules the windows of one late upload again. Returns whether there was one. */
  async scheduleLate(nowMs: number): Promise<boolean> {
    const [late] = await this.sql.query<Span & { organizationId: string }>(
      `DELETE FROM pipeline_late WHERE id = (SELECT id FROM pipeline_late LIMIT 1)
       RETURNING organization_id AS "organizationId", from_ms AS "fromMs", until_ms AS "untilMs"`,
    );
    if (!late) return false;
    for (const { id, schedule, hasBackfill, isEnabled, cursorMs } of await this.list(late.organizationId)) {
      if (!hasBackfill || !isEnabled) continue;
      const windows = new PipelineWindows(schedule);
      let window = windows.around(late.fromMs);
      for (let count = 0; count < LATE_WINDOWS_MAX; count++) {
        if (window.untilMs > cursorMs || window.fromMs > late.untilMs) break;
        await this.#schedule(id, window, nowMs);
        window = { fromMs: window.untilMs, untilMs: windows.after(window.untilMs) };
      }
    }
    return true;
  }

  /** Claims due runs, one of each organization; the organizations in `busy` have enough. */
  async claim(
    limit: number,
    busy: readonly string[],
    runner: string,
    { nowMs, leaseMs, newest = false }: ClaimTimes,
  ): Promise<ClaimedRun[]> {
    const order = newest ? "r.from_ms DESC" : "r.due_ms";
    const others = busy.length === 0
      ? ""
      : `AND p.organization_id NOT IN (${busy.map(() => "?").join(", ")})`;
    const due = await this.sql.query<{ id: string }>(
      `SELECT id FROM (
         SELECT r.id, r.due_ms, ROW_NUMBER() OVER (PARTITION BY p.organization_id ORDER BY ${order}, r.id) AS place
         FROM pipeline_runs r JOIN data_pipelines p ON p.id = r.pipeline_id
         WHERE r.status = ? AND r.due_ms <= ? AND p.enabled = 1 ${others} AND NOT EXISTS (
           SELECT 1 FROM pipeline_runs s WHERE s.pipeline_id = r.pipeline_id AND s.from_ms = r.from_ms AND s.status = ?)
       ) AS placed WHERE place = 1 ORDER BY due_ms, id LIMIT ?`,
      RUN_STATUS.scheduled,
      nowMs,
      ...busy,
      RUN_STATUS.started,
      limit,
    );
    const claimed: ClaimedRun[] = [];
    for (const { id } of due) {
      const [run] = await this.sql.query<PipelineRun>(
        `UPDATE pipeline_runs SET status = ?, started_ms = ?, runner = ?, lease_ms = ?
         WHERE id = ? AND status = ? RETURNING ${RUN_COLUMNS}`,
        RUN_STATUS.started,
        nowMs,
        runner,
        leaseMs,
        id,
        RUN_STATUS.scheduled,
      );
      if (!run) continue;
      const { organizationId, mql } = await this.get(run.pipelineId);
      claimed.push({ ...run, organizationId, mql });
    }
    return claimed;
  }

  /** Renews the lease of a runner's runs. */
  async renew(runner: string, leaseMs: number): Promise<void> {
    await this.sql.query(
      "UPDATE pipeline_runs SET lease_ms = ? WHERE runner = ? AND status = ?",
      leaseMs,
      runner,
      RUN_STATUS.started,
    );
  }

  /** Ends the runs whose runner is gone, and schedules their windows again. Returns their number. */
  async recover(nowMs: number, limit: number): Promise<number> {
    const lapsed = isDue("lease_ms", nowMs - 1, RUN_LEASE_MS);
    const gone = await this.sql.query<PipelineRun>(
      `SELECT ${RUN_COLUMNS} FROM pipeline_runs WHERE status = ? AND ${lapsed.text} LIMIT ?`,
      RUN_STATUS.started,
      ...lapsed.values,
      limit,
    );
    for (const run of gone) await this.again(run, "the control plane that ran it has stopped", nowMs, nowMs);
    return gone.length;
  }

  /** Ends a run as failed, and schedules its window again unless it has failed too often. */
  async again(run: PipelineRun, error: string, nowMs: number, dueMs: number): Promise<void> {
    if (!await this.#end(run.id, RUN_STATUS.failed, error, nowMs)) return;
    if (run.attempts + 1 < ATTEMPTS_MAX) await this.#schedule(run.pipelineId, run, dueMs, run.attempts + 1);
  }

  async fail(run: PipelineRun, error: string, nowMs: number): Promise<void> {
    await this.#end(run.id, RUN_STATUS.failed, error, nowMs);
  }

  /**
   * Stores the results of a run in place of earlier results for its window, if the run still belongs to its runner.
   * Where retention has removed readings of the window since, the earlier results are the better ones: the run fails.
   */
  async complete(
    { id, pipelineId, fromMs, organizationId }: ClaimedRun,
    documents: readonly Uint8Array[],
    nowMs: number,
  ): Promise<void> {
    const removedUs = await lastRemovedUs(this.sql, organizationId);
    if (removedUs !== undefined && removedUs >= fromMs * 1000 && await this.#hasResults(pipelineId, fromMs)) {
      await this.#end(id, RUN_STATUS.failed, READINGS_GONE, nowMs);
      return;
    }
    if (!await this.#end(id, RUN_STATUS.completed, "", nowMs)) return;
    const removed = await this.sql.query<{ bytes: number }>(
      "DELETE FROM pipeline_documents WHERE pipeline_id = ? AND from_ms = ? RETURNING LENGTH(document) AS bytes",
      pipelineId,
      fromMs,
    );
    const rows = documents.map((document, place) => [pipelineId, fromMs, place, document] as const);
    for (let at = 0; at < rows.length; at += 200) {
      const some = rows.slice(at, at + 200);
      await this.sql.query(
        `INSERT INTO pipeline_documents (pipeline_id, from_ms, place, document)
         VALUES ${some.map(() => "(?, ?, ?, ?)").join(", ")}`,
        ...some.flat(),
      );
    }
    const sum = (sizes: readonly number[]) => sizes.reduce((all, one) => all + one, 0);
    const more = sum(documents.map(({ length }) => length)) - sum(removed.map(({ bytes }) => bytes));
    await this.sql.query(
      `INSERT INTO stored_bytes (kind, owner_id, organization_id, bytes) VALUES ('sinks', ?, ?, ?)
       ON CONFLICT (kind, owner_id) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes`,
      pipelineId,
      organizationId,
      more,
    );
  }

  /** The documents of a pipeline, a batch at a time, the oldest window first. */
  async *documents(pipelineId: string): AsyncGenerator<readonly Uint8Array[]> {
    let last = { fromMs: -1, place: -1 };
    for (;;) {
      const rows = await this.sql.query<typeof last & { document: Uint8Array }>(
        `SELECT from_ms AS "fromMs", place, document FROM pipeline_documents
         WHERE pipeline_id = ? AND (from_ms, place) > (CAST(? AS BIGINT), CAST(? AS BIGINT))
         ORDER BY from_ms, place LIMIT 200`,
        pipelineId,
        last.fromMs,
        last.place,
      );
      const end = rows.at(-1);
      if (!end) return;
      yield rows.map(({ document }) => document);
      last = end;
    }
  }

  /** Forgets all but the newest runs of each pipeline that have ended. */
  async forgetRuns(): Promise<void> {
    await this.sql.query(
      `DELETE FROM pipeline_runs WHERE id IN (SELECT id FROM (
         SELECT id, ROW_NUMBER() OVER (PARTITION BY pipeline_id ORDER BY due_ms DESC, id) AS place
         FROM pipeline_runs WHERE status IN (?, ?)) AS placed WHERE place > ?)`,
      RUN_STATUS.completed,
      RUN_STATUS.failed,
      RUNS_KEPT,
    );
  }

  async #hasResults(pipelineId: string, fromMs: number): Promise<boolean> {
    const text = "SELECT place FROM pipeline_documents WHERE pipeline_id = ? AND from_ms = ? LIMIT 1";
    return (await this.sql.query(text, pipelineId, fromMs)).length > 0;
  }

  async #schedule(pipelineId: string, { fromMs, untilMs }: Span, dueMs: number, attempts = 0): Promise<void> {
    await this.sql.query(
      `INSERT INTO pipeline_runs (id, pipeline_id, from_ms, until_ms, status, due_ms, error, attempts, runner, lease_ms)
       VALUES (?, ?, ?, ?, ?, ?, '', ?, '', 0) ON CONFLICT DO NOTHING`,
      randomUUID(),
      pipelineId,
      fromMs,
      untilMs,
      RUN_STATUS.scheduled,
      dueMs,
      attempts,
    );
  }

  async #end(id: string, status: number, error: string, nowMs: number): Promise<boolean> {
    const ended = await this.sql.query(
      "UPDATE pipeline_runs SET status = ?, ended_ms = ?, error = ? WHERE id = ? AND status = ? RETURNING id",
      status,
      nowMs,
      error.slice(0, 1_000),
      id,
      RUN_STATUS.started,
    );
    return ended.length > 0;
  }
}

/** Throws `invalid_argument` for an impossible pipeline; its stages are checked where they run. */
export function requireUsable({ name, mql, schedule }: Pick<NewPipeline, "name" | "mql" | "schedule">): void {
  checkedQueryName(name);
  mqlText(mql);
  new PipelineWindows(schedule);
}

/** The stages of a query as a text. Throws `invalid_argument` for too many bytes. */
export function mqlText(mql: readonly Uint8Array[]): string {
  const bytes = mql.reduce((sum, { length }) => sum + length, 0);
  if (mql.length > 0 && bytes <= MQL_BYTES_MAX) return JSON.stringify(mql.map((one) => one.toBase64()));
  const found = mql.length === 0 ? "no stage" : `${bytes} bytes`;
  throw new SvcError("invalid_argument", `mql_binary: found ${found}, wanted 1 to ${MQL_BYTES_MAX} bytes`);
}

export function mqlIn(text: string): Uint8Array[] {
  return (JSON.parse(text) as string[]).map((one) => Uint8Array.fromBase64(one));
}

/** Checks a name that people choose. Throws `invalid_argument`. */
export function checkedQueryName(name: string): string {
  // deno-lint-ignore no-control-regex
  if (name !== "" && name.length <= NAME_LENGTH_MAX && !/[\x00-\x1f\x7f]/.test(name)) return name;
  throw new SvcError(
    "invalid_argument",
    `name: found ${
      JSON.stringify(name.slice(0, NAME_LENGTH_MAX))
    }, wanted 1 to ${NAME_LENGTH_MAX} characters`,
  );
}

/** Throws `already_exists` with the name. */
export async function unique<T>(name: string, insert: () => Promise<T>): Promise<T> {
  try {
    return await insert();
  } catch (error) {
    if (SvcError.from(error).code !== "already_exists") throw error;
    throw new SvcError("already_exists", `there is "${name}" in this organization already`);
  }
}

function pipelineOf({ mql, enabled, hasBackfill, ...row }: Row): DataPipelineRow {
  return { ...row, mql: mqlIn(mql), isEnabled: enabled === 1, hasBackfill: hasBackfill === 1 };
}

/** Records late readings, once by their id, if a window that contains them has already been scheduled. */
export function lateStatement(
  id: string,
  organizationId: string,
  { fromMs, untilMs }: { readonly fromMs: number; readonly untilMs: number },
  ifAlso: SqlText = { text: "1 = 1", values: [] },
): BatchStatement {
  return {
    text: `INSERT INTO pipeline_late (id, organization_id, from_ms, until_ms)
       SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS BIGINT)
       WHERE EXISTS (SELECT 1 FROM data_pipelines WHERE organization_id = ? AND backfill = 1 AND enabled = 1
           AND cursor_ms > ?)
         AND (SELECT COUNT(*) FROM pipeline_late WHERE organization_id = ?) < CAST(? AS BIGINT)
         AND ${ifAlso.text} ON CONFLICT DO NOTHING`,
    values: [
      ...[id, organizationId, fromMs, untilMs],
      ...[organizationId, fromMs],
      ...[organizationId, LATE_MAX],
      ...ifAlso.values,
    ],
  };
}
