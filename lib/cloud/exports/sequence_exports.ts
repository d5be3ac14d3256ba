/**
 * Exports of datasets of sequences: the jobs, each taken by one control plane, and their archives.
 *
 * Owns the table `sequence_exports`. An archive is kept for a week. If its control plane stops, a job starts
 * from the beginning.
 */

import { PeriodicWork } from "../../base/async/periodic_work.ts";
import { randomUUID } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { LinkedContent } from "../data/links.ts";
import { isDue } from "../store/due.ts";
import { keepFile, releaseFile } from "../store/file_refs.ts";
import type { FileStore } from "../store/files.ts";
import type { Sql, Store } from "../store/store.ts";
import { sequenceArchive } from "./sequence_files.ts";
import { ZIP_BYTES_MAX } from "./zip.ts";

/** As published. */
export const EXPORT_STATUS = { running: 1, completed: 2, failed: 3 } as const;

export interface SequenceExport {
  readonly id: string;
  readonly datasetId: string;
  readonly organizationId: string;
  readonly status: number;
  readonly sha256: string | null;
  readonly bytes: number;
  readonly error: string;
  readonly createdMs: number;
  readonly completedMs: number | null;
}

const LOOK_MS = 2_000;
const LEASE_MS = 60_000;
const RENEW_MS = 20_000;
const ATTEMPTS_MAX = 3;
export const EXPORT_KEPT_MS = 7 * 24 * 3600 * 1000;

const COLUMNS =
  `id, dataset_id AS "datasetId", organization_id AS "organizationId", status, sha256, bytes, error,
  created_ms AS "createdMs", completed_ms AS "completedMs"`;

export class SequenceExports {
  constructor(private readonly sql: Sql) {}

  async start(datasetId: string, organizationId: string, nowMs: number): Promise<string> {
    const id = randomUUID();
    await this.sql.query(
      `INSERT INTO sequence_exports (id, dataset_id, organization_id, status, bytes, error, created_ms, attempts, lease_ms)
       VALUES (?, ?, ?, ?, 0, '', ?, 0, 0)`,
      id,
      datasetId,
      organizationId,
      EXPORT_STATUS.running,
      nowMs,
    );
    return id;
  }

  async find(id: string): Promise<SequenceExport | undefined> {
    return (await this.sql.query<SequenceExport>(`SELECT ${COLUMNS} FROM sequence_exports WHERE id = ?`, id))[
      0
    ];
  }

  /** Throws `not_found`. */
  async get(id: string): Promise<SequenceExport> {
    const found = await this.find(id);
    if (found) return found;
    throw new SvcError("not_found", `there is no export "${id}"`);
  }

  /** The archive of a link. */
  async findArchive(id: string): Promise<LinkedContent | undefined> {
    const found = await this.find(id);
    if (!found?.sha256) return undefined;
    const { datasetId, sha256, bytes } = found;
    return { id, sha256, bytes, fileName: `${datasetId}.zip`, fileExt: ".zip", mimeType: "application/zip" };
  }

  /** Claims the oldest job that nobody works on. */
  async claim(nowMs: number): Promise<(SequenceExport & { readonly attempts: number }) | undefined> {
    const lease = isDue("lease_ms", nowMs, LEASE_MS);
    const [job] = await this.sql.query<SequenceExport & { attempts: number }>(
      `UPDATE sequence_exports SET lease_ms = ?, attempts = attempts + 1 WHERE id = (
         SELECT id FROM sequence_exports WHERE status = ? AND ${lease.text} ORDER BY created_ms, id LIMIT 1)
       RETURNING ${COLUMNS}, attempts`,
      nowMs + LEASE_MS,
      EXPORT_STATUS.running,
      ...lease.values,
    );
    return job;
  }

  async renew(id: string, nowMs: number): Promise<void> {
    await this.sql.query("UPDATE sequence_exports SET lease_ms = ? WHERE id = ?", nowMs + LEASE_MS, id);
  }

  async end(id: string, file: { readonly sha256: string; readonly bytes: number } | string, nowMs: number) {
    const [sha256, bytes, error] = typeof file === "string" ? [null, 0, file] : [file.sha256, file.bytes, ""];
    await this.sql.query(
      `UPDATE sequence_exports SET status = ?, sha256 = ?, bytes = ?, error = ?, completed_ms = ?
       WHERE id = ? AND status = ?`,
      error === "" ? EXPORT_STATUS.completed : EXPORT_STATUS.failed,
      sha256,
      bytes,
      error,
      nowMs,
      id,
      EXPORT_STATUS.running,
    );
  }

  /** Forgets old jobs. Returns the contents of their archives, for the caller to release. */
  async forget(nowMs: number): Promise<string[]> {
    const gone = await this.sql.query<{ sha256: string | null }>(
      "DELETE FROM sequence_exports WHERE completed_ms < ? RETURNING sha256",
      nowMs - EXPORT_KEPT_MS,
    );
    return gone.flatMap(({ sha256 }) => sha256 ?? []);
  }
}

interface ExportParts {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Works on the jobs, one at a time. */
export class SequenceExportRunner {
  readonly #periodic: PeriodicWork;

  constructor(private readonly parts: ExportParts) {
    const every = { everyMs: LOOK_MS, problem: "cannot look after exports" };
    this.#periodic = new PeriodicWork({ ...parts, ...every }, [(signal) => this.#look(signal)]);
  }

  async close(): Promise<void> {
    await this.#periodic.close(new SvcError("unavailable", "the control plane is stopping"));
  }

  async forgetOld(): Promise<void> {
    const { store, files, clock } = this.parts;
    const gone = await store.transaction((sql) => new SequenceExports(sql).forget(clock.nowMs()));
    for (const sha256 of gone) await releaseFile(store, files, sha256);
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { store, clock } = this.parts;
    while (!signal.aborted) {
      const job = await store.transaction((sql) => new SequenceExports(sql).claim(clock.nowMs()));
      if (!job) return;
      await this.#work(job, signal);
    }
  }

  async #work(
    { id, datasetId, attempts }: SequenceExport & { readonly attempts: number },
    signal: AbortSignal,
  ) {
    const { store, files, clock } = this.parts;
    let renewedMs = clock.monotonicMs();
    const moved = async () => {
      signal.throwIfAborted();
      if (clock.monotonicMs() - renewedMs < RENEW_MS) return;
      renewedMs = clock.monotonicMs();
      await store.transaction((sql) => new SequenceExports(sql).renew(id, clock.nowMs()));
    };
    try {
      const archive = sequenceArchive(store, files, datasetId, moved);
      await keepFile(store, files, archive, ZIP_BYTES_MAX, (file) => {
        return store.transaction((sql) => new SequenceExports(sql).end(id, file, clock.nowMs()));
      });
    } catch (error) {
      if (signal.aborted) return;
      const isPassing = SvcError.from(error).code === "unavailable" && attempts < ATTEMPTS_MAX;
      // When its lease ends, another control plane claims the job.
      if (isPassing) return;
      await store.transaction((sql) => new SequenceExports(sql).end(id, messageOf(error), clock.nowMs()));
    }
  }
}
