/**
 * Removes captured data that is older than its retention allows, or exceeds its size, oldest first.
 *
 * Works in small transactions with pauses between them, so that nobody else waits for it. The same transaction
 * records a removal in the audit log. At most one control plane on a database handles a retention at a time. Images
 * in datasets stay.
 *
 * The room owns the removal of data that is no longer kept, and the note of the last backup.
 */

import { chainOf, SvcError } from "../../base/error.ts";
import { PeriodicWork } from "../../base/async/periodic_work.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Audit } from "../access/audit.ts";
import { BinaryData } from "../data/binary_data.ts";
import { Conditions } from "../capture/filter.ts";
import { TabularData } from "../data/tabular_data.ts";
import { OWN_PACKING, type ReadingPacker } from "../readings/packer.ts";
import type { FileTimes } from "../readings/reading_file.ts";
import { type IndexedFile, ReadingFiles } from "../readings/reading_files.ts";
import { ReadingRemoval } from "../readings/removal.ts";
import type { ClockCheck } from "../store/clock_check.ts";
import { releaseFile } from "../store/file_refs.ts";
import type { FileStore } from "../store/files.ts";
import { placeholders, queryOne, type Sql, type Store } from "../store/store.ts";
import {
  collectorWords,
  type DueRetention,
  hurry,
  noteRemoved,
  takeDue,
} from "../capture/retention_policies.ts";
import { counted } from "../../base/log/counted.ts";

interface RetentionParts {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly clockCheck: ClockCheck;
  readonly logger: Logger;
  readonly audit: Audit;
  readonly packer: ReadingPacker;
}

const LOOK_MS = 30_000;
/** Interval of the checks of one retention. */
const EVERY_MS = 10 * 60_000;
/** Rows of one transaction, the pause after it, and the transactions of one check of a retention. */
const READINGS_AT_ONCE = 2_000;
const FILES_AT_ONCE = 200;
const PAUSE_MS = 100;
const STEPS_MAX = 50;
const DAY_MS = 24 * 3600 * 1000;
/**
 * A file with readings past their retention and others is written anew at most once in this time, and in this share of
 * the retention.
 */
const REWRITE_MS = DAY_MS;
const REWRITE_SHARE = 0.1;

/** A retention, and the time by which it removes. */
interface TimedRetention extends DueRetention {
  readonly nowMs: number;
}

interface OldReading {
  readonly originId: string;
  readonly capturedUs: number;
  readonly entryId: string;
  readonly bytes: number;
}

interface OldFile {
  readonly id: string;
  readonly capturedUs: number;
  readonly bytes: number;
}

export class RetentionRunner {
  readonly #work: PeriodicWork;

  constructor(private readonly parts: RetentionParts) {
    const problem = "cannot remove captured data past its retention";
    this.#work = new PeriodicWork({ ...parts, everyMs: LOOK_MS, problem }, [(signal) => this.#apply(signal)]);
  }

  async close(): Promise<void> {
    await this.#work.close();
  }

  async #apply(signal: AbortSignal): Promise<void> {
    const { store, clock, clockCheck } = this.parts;
    while (!signal.aborted) {
      const rightMs = await clockCheck.rightMs();
      const nowMs = rightMs ?? clock.nowMs();
      const due = await store.transaction((sql) => takeDue(sql, nowMs, nowMs + EVERY_MS));
      if (!due) return;
      // Sizes count without a right clock, too.
      const days = rightMs === undefined ? undefined : due.days;
      const isDone = await this.#removeSome({ ...due, days, nowMs }, signal);
      if (isDone || signal.aborted) continue;
      await store.transaction((sql) => hurry(sql, due));
      // Others have their turn first.
      return;
    }
  }

  /** Returns whether nothing is left to remove. */
  async #removeSome(due: TimedRetention, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.parts;
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      const removed = await this.#removeOnce(due, signal);
      if (removed === 0) return true;
      if (signal.aborted) return false;
      await clock.sleep(PAUSE_MS, signal).catch(() => {});
    }
    return false;
  }

  /** Images and files go also where readings cannot. */
  async #removeOnce(due: TimedRetention, signal: AbortSignal): Promise<number> {
    const ended = await Promise.allSettled([this.#removeReadings(due, signal), this.#removeFiles(due)]);
    const removed = ended.reduce((sum, one) => sum + (one.status === "fulfilled" ? one.value : 0), 0);
    const failed = ended.find((one) => one.status === "rejected");
    if (failed && removed === 0) throw failed.reason;
    return removed;
  }

  async #removeReadings(due: TimedRetention, signal: AbortSignal): Promise<number> {
    const { store } = this.parts;
    const sum = `SELECT CAST(COALESCE(SUM(s.bytes), 0) AS BIGINT) AS bytes FROM stored_bytes s
      JOIN data_origins o ON o.id = s.owner_id WHERE s.kind = 'readings' AND`;
    const over = due.tabularBytes === undefined ? 0 : await sumBytes(store, sum, due) - due.tabularBytes;
    const untilUs = cutoffUs(due);
    if (untilUs === undefined && over <= 0) return 0;
    const found = ofSubject(due);
    const ahead = ofClockAhead(due);
    const stray = ahead ? await this.#oldestReadings(ahead) : [];
    // Pipelines have not computed their windows, which are yet to come.
    if (stray.length > 0) return await this.#removeFromTable(due, stray, 0);

    const oldest = await this.#oldestReadings(found);
    const file = await this.#oldestFile(due, untilUs);
    const oldestUs = oldest[0]?.capturedUs ?? Infinity;
    if (file && oldestUs >= file.fromUs) {
      const removed = await this.#removeFromFile(due, file, over, signal).catch((error) => {
        this.#tellOfDamage(file, error);
        return 0;
      });
      if (removed > 0) return removed;
    }
    // Beyond the size go only those that are older than all in files.
    const first = oldest.filter(({ capturedUs }) => {
      return !file || capturedUs < file.fromUs || (untilUs !== undefined && capturedUs < untilUs);
    });
    const gone = excess(first, over, untilUs);
    return await this.#removeFromTable(due, gone, gone.at(-1)?.capturedUs ?? 0);
  }

  async #oldestReadings(found: Conditions): Promise<OldReading[]> {
    return await this.parts.store.query<OldReading>(
      `SELECT d.origin_id AS "originId", d.captured_us AS "capturedUs", d.entry_id AS "entryId",
         LENGTH(d.payload) AS bytes
       FROM tabular_data d JOIN data_origins o ON o.id = d.origin_id WHERE ${found.text}
       ORDER BY d.captured_us LIMIT ?`,
      ...found.values,
      READINGS_AT_ONCE,
    );
  }

  /** @param lastUs the last time of capture of those that pipelines may have worked on */
  async #removeFromTable(due: DueRetention, gone: readonly OldReading[], lastUs: number): Promise<number> {
    if (gone.length === 0) return 0;
    const only = new Conditions().only(
      `(d.origin_id, d.captured_us, d.entry_id) IN (VALUES ${
        gone.map(() => "(?, CAST(? AS BIGINT), ?)").join(", ")
      })`,
      ...gone.flatMap(({ originId, capturedUs, entryId }) => [originId, capturedUs, entryId]),
    );
    await this.#noted(
      due,
      counted(gone.length, "reading"),
      async (sql) => {
        await new TabularData(sql).remove(only, gone.length);
        await noteRemoved(sql, due.organizationId, lastUs);
      },
    );
    return gone.length;
  }

  /** A file whose readings are all past their retention, or the one with the oldest reading. */
  async #oldestFile(due: DueRetention, untilUs: number | undefined): Promise<IndexedFile | undefined> {
    const index = new ReadingFiles(this.parts.store, this.parts.files);
    const past = untilUs === undefined
      ? undefined
      : await index.first(ofSubject(due).only("d.until_us < ?", untilUs));
    return past ?? await index.first(ofSubject(due));
  }

  /** Removes the readings of a file that are too old, or exceed the size. Returns how many. */
  async #removeFromFile(
    due: TimedRetention,
    file: IndexedFile,
    overBytes: number,
    signal: AbortSignal,
  ): Promise<number> {
    const { store, files } = this.parts;
    const untilUs = cutoffUs(due);
    let times: FileTimes = { captured: {}, received: {} };
    let oldest = Number.MAX_SAFE_INTEGER;
    const patienceMs = Math.min(REWRITE_MS, (due.days ?? 0) * DAY_MS * REWRITE_SHARE);
    if (overBytes > 0) {
      if (file.bytes > overBytes) {
        oldest = await countOldest(new ReadingFiles(store, files), file, overBytes).catch((error) => {
          // Nobody can read it any more: it goes as a whole.
          this.#tellOfDamage(file, error);
          return oldest;
        });
      }
    } else {
      if (untilUs === undefined || file.fromUs >= untilUs) return 0;
      if (file.untilUs >= untilUs && file.fromUs >= untilUs - patienceMs * 1000) return 0;
      times = { captured: { untilUs: untilUs - 1 }, received: {} };
    }
    const selection = { times, oldest };
    const lastUs = Math.min(file.untilUs, times.captured.untilUs ?? Infinity);
    return await new ReadingRemoval(this.parts).removeFrom(
      file,
      selection,
      OWN_PACKING,
      signal,
      (work, count) => {
        return this.#noted(due, counted(count, "reading"), async (sql) => {
          await work(sql);
          await noteRemoved(sql, due.organizationId, lastUs);
        });
      },
    );
  }

  /** Rethrows every error but that of a damaged content. */
  #tellOfDamage({ sha256 }: IndexedFile, error: unknown): void {
    if (SvcError.from(error).code !== "data_loss") throw error;
    this.parts.logger.warn(
      `the file of readings ${sha256} is damaged and hinders retention: ${chainOf(error)}`,
    );
  }

  async #removeFiles(due: TimedRetention): Promise<number> {
    const { store, files } = this.parts;
    const sum = `SELECT CAST(COALESCE(SUM(d.bytes), 0) AS BIGINT) AS bytes FROM binary_data d
      JOIN data_origins o ON o.id = d.origin_id WHERE`;
    const over = due.binaryBytes === undefined ? 0 : await sumBytes(store, sum, due) - due.binaryBytes;
    const untilUs = cutoffUs(due);
    if (untilUs === undefined && over <= 0) return 0;
    const ahead = ofClockAhead(due);
    const stray = ahead ? await this.#oldestFiles(ahead) : [];
    const gone = stray.length > 0 ? stray : excess(await this.#oldestFiles(ofSubject(due)), over, untilUs);
    const ids = gone.map(({ id }) => id);
    if (ids.length === 0) return 0;
    // Somebody may have just put one into a dataset.
    const only = new Conditions().only(`d.id IN (${placeholders(ids)})`, ...ids)
      .only("NOT EXISTS (SELECT 1 FROM dataset_data s WHERE s.data_id = d.id)");
    const contents = await this.#noted(
      due,
      counted(ids.length, "image or file", "images and files"),
      (sql) => {
        return new BinaryData(sql).remove(only, ids.length);
      },
    );
    for (const sha256 of new Set(contents)) await releaseFile(store, files, sha256);
    return ids.length;
  }

  /** Images and files that are in no dataset. */
  async #oldestFiles(all: Conditions): Promise<OldFile[]> {
    const found = all.only("NOT EXISTS (SELECT 1 FROM dataset_data s WHERE s.data_id = d.id)");
    return await this.parts.store.query<OldFile>(
      `SELECT d.id, d.captured_us AS "capturedUs", d.bytes FROM binary_data d
       JOIN data_origins o ON o.id = d.origin_id WHERE ${found.text} ORDER BY d.captured_us, d.id LIMIT ?`,
      ...found.values,
      FILES_AT_ONCE,
    );
  }

  async #noted<T>(
    { organizationId, collector }: DueRetention,
    what: string,
    remove: (sql: Sql) => Promise<T>,
  ) {
    const of = collector ? `, ${collectorWords(collector)} of part ${collector.partId}` : "";
    const on = { kind: "data", id: `of organization ${organizationId}${of}` } as const;
    return await this.parts.audit.change(
      { who: "svc-cloud", action: `retention: removed ${what}` },
      on,
      remove,
    );
  }
}

/** How many of the oldest readings of a file have so many bytes. */
async function countOldest(index: ReadingFiles, file: IndexedFile, bytes: number): Promise<number> {
  let [count, left] = [0, bytes];
  for await (const group of index.readings(file, { captured: {}, received: {} })) {
    for (const { payload } of group) {
      if (left <= 0) return count;
      left -= payload.length;
      count++;
    }
  }
  return count;
}

/** The entries that are older than the time, and the oldest ones that exceed the size. */
function excess<T extends { readonly capturedUs: number; readonly bytes: number }>(
  oldest: readonly T[],
  overBytes: number,
  untilUs: number | undefined,
): T[] {
  let left = overBytes;
  return oldest.filter(({ capturedUs, bytes }) => {
    const goes = left > 0 || (untilUs !== undefined && capturedUs < untilUs);
    left -= bytes;
    return goes;
  });
}

function cutoffUs({ days, nowMs }: TimedRetention): number | undefined {
  return days === undefined ? undefined : (nowMs - days * DAY_MS) * 1000;
}

/**
 * What a machine captured whose clock was ahead, and still is: it counts from when it was stored, or it would stay until
 * that time has come. It is never in files, which have the readings of hours that are over.
 */
function ofClockAhead(due: TimedRetention): Conditions | undefined {
  const untilUs = cutoffUs(due);
  if (untilUs === undefined) return undefined;
  return ofSubject(due).only("d.captured_us > ?", due.nowMs * 1000).only("d.stored_ms < ?", untilUs / 1000);
}

function ofSubject({ organizationId, collector }: DueRetention): Conditions {
  const found = new Conditions().only("o.organization_id = ?", organizationId);
  if (!collector) return found;
  return found.only("o.part_id = ?", collector.partId).is("o.component_name", collector.componentName)
    .is("o.method_name", collector.methodName);
}

async function sumBytes(sql: Sql, text: string, due: DueRetention): Promise<number> {
  const found = ofSubject(due);
  const { bytes } = await queryOne<{ bytes: number }>(sql, `${text} ${found.text}`, ...found.values);
  return bytes;
}
