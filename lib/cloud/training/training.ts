/**
 * Training jobs in the database: accepted, assigned one by one, and finished.
 *
 * Owns the tables `training_jobs`, `training_images` and `training_logs`. A job has the images of its dataset at the
 * time of its submission, whatever happens to the dataset. As long as it exists, no other job can create the same
 * version of the same model. Data that only the work needs is deleted at its end.
 *
 * Everything here runs in the callers' transactions; these are serializable, which decides all races.
 *
 * The room owns training jobs from their submission to their model: rules of state, queue, logs, and output.
 */

import { randomUUID } from "node:crypto";
import { type Code, CODES, SvcError } from "../../base/error.ts";
import type { DatasetImage } from "../../cloud_client/dataset.ts";
import type { JobTask, LogLevel } from "../executors/executor.ts";
import { Keys } from "../access/keys.ts";
import { JOB_LEASE_MS } from "../../base/async/job_runner.ts";
import { isDue } from "../store/due.ts";
import { queryOne, rowPieces, type Sql, type SqlValue } from "../store/store.ts";
import { type FairOrder, fairOrder, type QueueShare, type Waiting } from "./queue.ts";
import { isFinalState, next, spoken, type TrainingEvent, type TrainingState } from "./state.ts";

export interface NewJob extends Omit<JobTask, "id"> {
  readonly organizationId: string;
}

export interface TrainingJob extends NewJob {
  readonly id: string;
  readonly state: TrainingState;
  readonly createdMs: number;
  readonly modifiedMs: number;
  readonly startedMs?: number;
  readonly endedMs?: number;
  /** The reason of a failure. */
  readonly error?: { readonly code: Code; readonly message: string };
  /** The resulting package. */
  readonly modelId?: string;
  /** The control plane that works on it, and the time until which it counts as alive. */
  readonly runner?: string;
  readonly leaseMs?: number;
  /** The API key of its script. */
  readonly keyId?: string;
  /** How often a control plane has died that ran it. */
  readonly interruptions: number;
}

/** The trainers: the embedded one, and the executor of scripts. Each has a queue of its own. */
export type TrainingQueueName = "managed" | "custom";

export interface JobLog {
  readonly number: number;
  readonly atMs: number;
  readonly level: LogLevel;
  readonly message: string;
}

export type NewLog = Omit<JobLog, "number">;

/** Limit for one organization. */
export const WAITING_MAX = 50;
/** A job that so many control planes did not survive may be the reason. */
const INTERRUPTIONS_MAX = 3;
export const LOGS_KEPT_MS = 7 * 24 * 3600 * 1000;
const MESSAGE_CHARS_MAX = 16 * 1024;

/** Nullable columns arrive as null. */
type Row =
  & Omit<
    TrainingJob,
    | "labels"
    | "script"
    | "learning"
    | "error"
    | "startedMs"
    | "endedMs"
    | "modelId"
    | "runner"
    | "leaseMs"
    | "keyId"
  >
  & { readonly learning: string }
  & { readonly [K in "labels" | "script" | "errorMessage" | "modelId" | "runner" | "keyId"]: string | null }
  & { readonly [K in "errorCode" | "startedMs" | "endedMs" | "leaseMs"]: number | null };

const JOBS = `SELECT id, organization_id AS "organizationId", state, dataset_id AS "datasetId",
    model_name AS "modelName", model_version AS "modelVersion", model_type AS "modelType",
    model_framework AS "modelFramework", labels, script, learning, key_id AS "keyId", created_ms AS "createdMs",
    modified_ms AS "modifiedMs", started_ms AS "startedMs", ended_ms AS "endedMs", error_code AS "errorCode",
    error_message AS "errorMessage", model_id AS "modelId", runner, lease_ms AS "leaseMs", interruptions
  FROM training_jobs`;
const RUNNING = "state IN ('in_progress', 'canceling')";

export class TrainingJobs {
  constructor(private readonly sql: Sql) {}

  async get(id: string): Promise<TrainingJob> {
    const [row] = await this.sql.query<Row>(`${JOBS} WHERE id = ?`, id);
    if (!row) throw new SvcError("not_found", `there is no training job "${id}"`);
    return jobOf(row);
  }

  /** Newest first. */
  async list(organizationId: string, state?: TrainingState): Promise<TrainingJob[]> {
    const only = state ? " AND state = ?" : "";
    const values = state ? [organizationId, state] : [organizationId];
    const order = "ORDER BY number DESC";
    return (await this.sql.query<Row>(`${JOBS} WHERE organization_id = ?${only} ${order}`, ...values)).map(
      jobOf,
    );
  }

  /**
   * Accepts a job. Throws `already_exists` if another one makes the same version, `resource_exhausted` if too many of
   * its organization wait.
   */
  async add(
    job: NewJob,
    images: readonly DatasetImage[],
    nowMs: number,
    waitingMax = WAITING_MAX,
  ): Promise<string> {
    const { count } = await queryOne<{ count: number }>(
      this.sql,
      "SELECT COUNT(*) AS count FROM training_jobs WHERE organization_id = ? AND state = 'pending'",
      job.organizationId,
    );
    if (count >= waitingMax) {
      throw new SvcError(
        "resource_exhausted",
        `${count} training jobs of this organization wait already, wanted fewer than ${waitingMax}: wait for one to ` +
          "start, or cancel one",
      );
    }
    await this.#refuseVersion(job);
    const id = randomUUID();
    const { script, labels, learning = {} } = job;
    const values: SqlValue[] = [
      id,
      job.organizationId,
      queueOf(job),
      job.datasetId,
      job.modelName,
      job.modelVersion,
      job.modelType,
      job.modelFramework,
      JSON.stringify(labels),
      script ? JSON.stringify(script) : null,
      script?.sha256 ?? null,
      JSON.stringify(learning),
      nowMs,
      nowMs,
    ];
    try {
      await this.sql.query(
        `INSERT INTO training_jobs (id, organization_id, queue, dataset_id, model_name, model_version, model_type,
           model_framework, labels, script, sha256, learning, created_ms, modified_ms, state, number)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending',
           (SELECT COALESCE(MAX(number), 0) + 1 FROM training_jobs))`,
        ...values,
      );
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw new SvcError("already_exists", `another training job ${versionOf(job)}`);
    }
    const rows = images.map((image, position) => [id, position, image.sha256, JSON.stringify(image)]);
    await this.#insert("training_images (job_id, position, sha256, image)", rows);
    return id;
  }

  /** A version differs from those of all earlier jobs for the model, whatever their outcome. */
  async #refuseVersion(job: NewJob): Promise<void> {
    const [found] = await this.sql.query<{ id: string; state: TrainingState }>(
      `SELECT id, state FROM training_jobs
       WHERE organization_id = ? AND model_name = ? AND model_version = ? ORDER BY number DESC LIMIT 1`,
      job.organizationId,
      job.modelName,
      job.modelVersion,
    );
    if (!found) return;
    const other = isFinalState(found.state) ? ", or delete that job first" : "";
    const which = `training job "${found.id}", which is ${spoken(found.state)},`;
    throw new SvcError("already_exists", `${which} ${versionOf(job)}${other}`);
  }

  /** The training data of a job; nothing once it has ended. */
  async images(id: string): Promise<DatasetImage[]> {
    const text = "SELECT image FROM training_images WHERE job_id = ? ORDER BY position";
    return (await this.sql.query<{ image: string }>(text, id)).map(({ image }) => JSON.parse(image));
  }

  /** The waiting jobs of a queue, in the order in which they would start. */
  async waiting(queue: TrainingQueueName, runningMax: number): Promise<FairOrder<Waiting>> {
    const waiting = await this.sql.query<Waiting>(
      `SELECT id, organization_id AS "organizationId" FROM training_jobs
       WHERE state = 'pending' AND queue = ? ORDER BY number`,
      queue,
    );
    const shares = await this.sql.query<QueueShare & { organizationId: string }>(
      `SELECT t.organization_id AS "organizationId", t.turn, (SELECT COUNT(*) FROM training_jobs j
         WHERE j.organization_id = t.organization_id AND j.queue = t.queue AND ${RUNNING}) AS running
       FROM training_turns t WHERE t.queue = ?`,
      queue,
    );
    return fairOrder(waiting, new Map(shares.map((one) => [one.organizationId, one])), runningMax);
  }

  /** The running jobs: those of one runner, or those whose runner's time ended before `lapsedMs`. */
  async running(by: { readonly runner: string } | { readonly lapsedMs: number }): Promise<TrainingJob[]> {
    const { text, values } = "runner" in by
      ? { text: "runner = ?", values: [by.runner] }
      : isDue("lease_ms", by.lapsedMs - 1, JOB_LEASE_MS);
    return (await this.sql.query<Row>(`${JOBS} WHERE ${RUNNING} AND ${text}`, ...values)).map(jobOf);
  }

  async start(id: string, runner: string, leaseMs: number, nowMs: number): Promise<TrainingJob> {
    await this.#move(id, "start", nowMs, { runner, lease_ms: leaseMs, started_ms: nowMs });
    const job = await this.get(id);
    await this.sql.query(
      `INSERT INTO training_turns (organization_id, queue, turn)
       VALUES (?, ?, (SELECT COALESCE(MAX(turn), 0) + 1 FROM training_turns))
       ON CONFLICT (organization_id, queue) DO UPDATE SET turn = excluded.turn`,
      job.organizationId,
      queueOf(job),
    );
    return job;
  }

  /** The key is revoked when the job ends. */
  async giveKey(id: string, keyId: string): Promise<void> {
    await this.sql.query("UPDATE training_jobs SET key_id = ? WHERE id = ?", keyId, id);
  }

  /** From now on it is this runner's; for `undefined`, nobody's for so long. */
  async handOver(id: string, runner: string | undefined, leaseMs: number): Promise<void> {
    await this.sql.query(
      `UPDATE training_jobs SET runner = ?, lease_ms = ? WHERE id = ? AND ${RUNNING}`,
      runner ?? null,
      leaseMs,
      id,
    );
  }

  async renew(runner: string, leaseMs: number): Promise<void> {
    await this.sql.query(
      `UPDATE training_jobs SET lease_ms = ? WHERE runner = ? AND ${RUNNING}`,
      leaseMs,
      runner,
    );
  }

  cancel(id: string, nowMs: number): Promise<Ended> {
    return this.#move(id, "cancel", nowMs);
  }

  /** `publish` returns the id of the model's package; it is not called for a job that has to be canceled. */
  async complete(id: string, publish: () => Promise<string>, nowMs: number): Promise<Ended> {
    const completes = next((await this.get(id)).state, "complete") === "completed";
    return await this.#move(id, "complete", nowMs, completes ? { model_id: await publish() } : {});
  }

  /**
   * Its control plane has ended: the job waits and begins anew, unless it had to be canceled, or too many have died.
   *
   * @param died rather than stopped
   */
  async interrupt(id: string, died: boolean, nowMs: number): Promise<Ended> {
    const job = await this.get(id);
    const interruptions = job.interruptions + (died ? 1 : 0);
    const what = `interrupted: the control plane that ran the job ${died ? "went away" : "was stopped"}`;
    if (interruptions >= INTERRUPTIONS_MAX) {
      const error = new SvcError("aborted", `${what}, as did ${interruptions - 1} before it`);
      return await this.fail(id, "interrupt", error, nowMs);
    }

    const free = { interruptions, runner: null, lease_ms: null, started_ms: null, key_id: null };
    const ended = await this.#move(id, "repeat", nowMs, free);
    if (ended.state === "pending") {
      if (job.keyId) await new Keys(this.sql).delete(job.keyId);
      await this.log(id, [{ atMs: nowMs, level: "warn", message: `${what}; it waits, and begins anew` }]);
    }
    return ended;
  }

  /** The error is stored if the job failed, but not if it had to be canceled anyway. */
  async fail(id: string, event: "fail" | "interrupt", error: SvcError, nowMs: number): Promise<Ended> {
    const failed = (await this.get(id)).state === "in_progress";
    const facts = { error_code: CODES[error.code], error_message: error.message.replaceAll("\0", " ") };
    return await this.#move(id, event, nowMs, failed ? facts : {});
  }

  async delete(id: string): Promise<void> {
    next((await this.get(id)).state, "delete");
    await this.sql.query("DELETE FROM training_jobs WHERE id = ?", id);
  }

  async log(id: string, lines: readonly NewLog[]): Promise<void> {
    const text = "SELECT COALESCE(MAX(number), 0) AS last FROM training_logs WHERE job_id = ?";
    const { last } = await queryOne<{ last: number }>(this.sql, text, id);
    const rows = lines.map(({ atMs, level, message }, index) => {
      return [id, last + 1 + index, atMs, level, message.slice(0, MESSAGE_CHARS_MAX).replaceAll("\0", " ")];
    });
    await this.#insert("training_logs (job_id, number, at_ms, level, message)", rows);
  }

  /** Lines after the one with this number, oldest first. Lines are numbered from 1 on, without gaps. */
  logs(id: string, after: number, limit: number): Promise<JobLog[]> {
    return this.sql.query(
      `SELECT number, at_ms AS "atMs", level, message FROM training_logs
       WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?`,
      id,
      after,
      limit,
    );
  }

  async forgetLogs(beforeMs: number): Promise<void> {
    await this.sql.query("DELETE FROM training_logs WHERE at_ms < ?", beforeMs);
  }

  async #move(
    id: string,
    event: Exclude<TrainingEvent, "delete">,
    nowMs: number,
    facts: { readonly [column: string]: SqlValue } = {},
  ): Promise<Ended> {
    const job = await this.get(id);
    const state = next(job.state, event);
    const ended = state === "completed" || state === "failed" || state === "canceled";
    const all = {
      state,
      modified_ms: nowMs,
      ...(ended ? { ended_ms: nowMs, runner: null, lease_ms: null, sha256: null } : {}),
      ...facts,
    };
    const columns = Object.keys(all).map((column) => `${column} = ?`).join(", ");
    await this.sql.query(`UPDATE training_jobs SET ${columns} WHERE id = ?`, ...Object.values(all), id);
    const released = ended
      ? await this.sql.query<{ sha256: string }>(
        "DELETE FROM training_images WHERE job_id = ? RETURNING sha256",
        id,
      )
      : [];
    if (ended && job.keyId) await new Keys(this.sql).delete(job.keyId);
    const contents = [
      ...released.map(({ sha256 }) => sha256),
      ...ended && job.script ? [job.script.sha256] : [],
    ];
    return { state, contents: [...new Set(contents)] };
  }

  async #insert(into: string, rows: readonly SqlValue[][]): Promise<void> {
    for (const some of rowPieces(rows)) {
      const places = some.map((row) => `(${row.map(() => "?").join(", ")})`).join(", ");
      await this.sql.query(`INSERT INTO ${into} VALUES ${places}`, ...some.flat());
    }
  }
}

export interface Ended {
  readonly state: TrainingState;
  /** Contents that the job no longer refers to, for `releaseFile`. */
  readonly contents: readonly string[];
}

export function queueOf({ script }: NewJob): TrainingQueueName {
  return script ? "custom" : "managed";
}

function versionOf({ modelName, modelVersion }: NewJob): string {
  return `has version "${modelVersion}" of model "${modelName}" already: wanted a new model_version`;
}

function jobOf({ labels, script, learning, errorCode, errorMessage, ...row }: Row): TrainingJob {
  return {
    ...row,
    labels: JSON.parse(labels ?? "[]"),
    script: script ? JSON.parse(script) : undefined,
    learning: JSON.parse(learning),
    error: errorCode === null ? undefined : SvcError.fromStatus(errorCode, errorMessage ?? ""),
    startedMs: row.startedMs ?? undefined,
    endedMs: row.endedMs ?? undefined,
    modelId: row.modelId ?? undefined,
    runner: row.runner ?? undefined,
    leaseMs: row.leaseMs ?? undefined,
    keyId: row.keyId ?? undefined,
  };
}
