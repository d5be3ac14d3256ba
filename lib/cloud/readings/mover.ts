/**
 * Moves readings whose hour is over into files.
 *
 * A file is written, synced and read again before one transaction takes its readings out of the table and notes the
 * file, so a crash leaves either the readings, and a content that nothing refers to, or the file. The organizations
 * have their turns one after the other; one control plane on a database moves an organization's readings at a time. If
 * two do, the second transaction finds other readings than it has in its file, and does nothing.
 */

import { PeriodicWork } from "../../base/async/periodic_work.ts";
import type { Clock } from "../../base/clock.ts";
import { assert, SvcError } from "../../base/error.ts";
import { collectBytes, onePiece } from "../../base/files/byte_reader.ts";
import type { Logger } from "../../base/log/log.ts";
import { isDue } from "../store/due.ts";
import { keepFile } from "../store/file_refs.ts";
import { checkedPieces, type FileStore } from "../store/files.ts";
import { placeholders, queryOne, type Sql, type SqlValue, type Store } from "../store/store.ts";
import { OWN_PACKING, type Packing, READING_FILE_BYTES_MAX, type ReadingPacker } from "./packer.ts";
import type { FileCursor, FileReading, FileSummary } from "./reading_file.ts";
import { ReadingFiles } from "./reading_files.ts";

export interface MoverParts {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly packer: ReadingPacker;
}

export interface MoverLimits {
  /** Fewer readings stay in the table. */
  readonly readingsMin: number;
  /** Limits of one file: of its readings, and of their contents. */
  readonly readingsMax: number;
  readonly bytesMax: number;
}

/** Fewer readings of a source stay in the table. */
export const READINGS_OF_FILE_MIN = 1_000;
const LIMITS: MoverLimits = {
  readingsMin: READINGS_OF_FILE_MIN,
  readingsMax: 10_000,
  bytesMax: 4 * 1024 ** 2,
};
const HOUR_MS = 3_600_000;
const LOOK_MS = 60_000;
/** Interval of the looks at one organization without readings to move. */
const EVERY_MS = 10 * 60_000;
/** Nobody else moves an organization's readings meanwhile. */
const LEASE_MS = 5 * 60_000;
/** Limits of one turn: its files, and the time after which it begins no other one. */
const FILES_AT_ONCE = 10;
const TURN_MS = 15_000;
/** The pause after each file, and the sources of one look. */
const PAUSE_MS = 50;
const SOURCES_AT_ONCE = 100;
/** The oldest readings of a source among which the most common list of tags is looked for. */
const LOOKED_AT = 20_000;
const READ_AT_ONCE = 500;

/** Readings of one source with the same tags, stored and captured until then. */
interface Group {
  readonly originId: string;
  readonly tags: string;
  readonly tagList: string | null;
  readonly untilMs: number;
}

/** One look at all sources of an organization: the last one so far, and the files that were made. */
interface Pass {
  after: string;
  moved: number;
}

type Key = FileCursor & { readonly bytes: number };

/** Moves readings as long as there are some. */
export class ReadingMover {
  readonly #work: PeriodicWork;

  constructor(parts: MoverParts) {
    const moves = new ReadingMoves(parts);
    const every = { everyMs: LOOK_MS, problem: "cannot move readings into files" };
    this.#work = new PeriodicWork({ ...parts, ...every }, [(signal) => moves.run(signal)]);
  }

  async close(): Promise<void> {
    await this.#work.close();
  }
}

export class ReadingMoves {
  readonly #passes = new Map<string, Pass>();

  constructor(private readonly parts: MoverParts, private readonly limits = LIMITS) {}

  /** Moves what can move now, of the organizations that are due. */
  async run(signal: AbortSignal): Promise<void> {
    const { store, clock } = this.parts;
    await store.transaction(noteOrganizations);
    while (!signal.aborted) {
      const nowMs = clock.nowMs();
      const organizationId = await store.transaction((sql) => take(sql, nowMs));
      if (organizationId === undefined) return;
      const isDone = await this.#moveSome(organizationId, signal);
      // With more to move it has its next turn when the others have had theirs.
      const nextMs = clock.nowMs() + (isDone ? EVERY_MS : 0);
      await store.transaction((sql) => giveBack(sql, organizationId, nextMs));
    }
  }

  /** Moves some of an organization's readings. Returns whether there are no more to move. */
  async #moveSome(organizationId: string, signal: AbortSignal): Promise<boolean> {
    const { packer, clock } = this.parts;
    const untilMs = hoursUntil(clock.nowMs());
    const pass = this.#passes.get(organizationId) ?? { after: "", moved: 0 };
    this.#passes.set(organizationId, pass);
    let originId = await this.#next(organizationId, pass, untilMs);
    if (originId !== undefined) {
      await packer.run(OWN_PACKING, signal, async (packing, signal) => {
        const untilMonotonicMs = clock.monotonicMs() + TURN_MS;
        for (let files = 1; originId !== undefined; files++) {
          if (await this.#moveOne(organizationId, { originId, untilMs }, packing)) pass.moved++;
          const isOver = files === FILES_AT_ONCE || clock.monotonicMs() >= untilMonotonicMs;
          if (isOver || signal.aborted) return;
          await clock.sleep(PAUSE_MS, signal).catch(() => {});
          originId = await this.#next(organizationId, pass, untilMs);
        }
      });
    }
    if (originId !== undefined) return false;
    this.#passes.delete(organizationId);
    return pass.moved === 0;
  }

  /** The next source with enough readings; `undefined` once all have been looked at. */
  async #next(organizationId: string, pass: Pass, untilMs: number): Promise<string | undefined> {
    for (;;) {
      const sources = await this.parts.store.query<{ id: string; isFull: number }>(
        `SELECT o.id, CASE WHEN EXISTS (SELECT 1 FROM tabular_data d WHERE d.origin_id = o.id AND d.captured_us <= ?
             LIMIT 1 OFFSET ?) THEN 1 ELSE 0 END AS "isFull"
         FROM data_origins o WHERE o.organization_id = ? AND o.id > ? ORDER BY o.id LIMIT ?`,
        untilMs * 1000,
        this.limits.readingsMin - 1,
        organizationId,
        pass.after,
        SOURCES_AT_ONCE,
      );
      const found = sources.find(({ isFull }) => isFull === 1)?.id;
      const last = found ?? sources.at(-1)?.id;
      if (last === undefined) return undefined;
      pass.after = last;
      if (found !== undefined) return found;
    }
  }

  /** Moves readings of a source into one file, if there are enough with the same tags. Returns whether it did. */
  async #moveOne(
    organizationId: string,
    { originId, untilMs }: Pick<Group, "originId" | "untilMs">,
    packing: Packing,
  ): Promise<boolean> {
    const { store, files, logger } = this.parts;
    const common = await commonTags(store, originId, untilMs, this.limits.readingsMin);
    if (!common) return false;
    const group = { originId, untilMs, ...common };
    const keys = await this.#keys(group);
    const { content, ...made } = await packing.pack(await selectReadings(store, group, keys));
    if (made.readings === 0) return false;
    try {
      await keepFile(store, files, onePiece(content), READING_FILE_BYTES_MAX, async (file) => {
        await requireWhole(files, file.sha256, file.bytes);
        await store.transaction((sql) => swap(sql, organizationId, group, keys, made, file));
      });
    } catch (error) {
      if (SvcError.from(error).code !== "aborted") throw error;
      logger.debug("readings were removed while they moved into a file; they are tried again later");
      return false;
    }
    return true;
  }

  /** The oldest readings of a group that fit into one file. */
  async #keys({ originId, tags, untilMs }: Group): Promise<readonly Key[]> {
    const { readingsMax, bytesMax } = this.limits;
    const keys = await this.parts.store.query<Key>(
      `SELECT captured_us AS "capturedUs", entry_id AS "entryId", LENGTH(payload) AS bytes FROM tabular_data
       WHERE ${OF_GROUP} ORDER BY captured_us, entry_id LIMIT ?`,
      ...groupValues(originId, tags, untilMs),
      readingsMax,
    );
    let bytes = 0;
    const over = keys.findIndex((key, at) => (bytes += key.bytes) > bytesMax && at > 0);
    return over < 0 ? keys : keys.slice(0, over);
  }
}

/** The end of the last whole hour that is over for at least one. */
function hoursUntil(nowMs: number): number {
  return Math.floor(nowMs / HOUR_MS - 1) * HOUR_MS - 1;
}

const OF_GROUP = "origin_id = ? AND captured_us <= ? AND tags = ? AND stored_ms <= ?";

function groupValues(originId: string, tags: string, untilMs: number): SqlValue[] {
  return [originId, untilMs * 1000, tags, untilMs];
}

/** Every organization with data has its turns. */
async function noteOrganizations(sql: Sql): Promise<void> {
  await sql.query(
    `INSERT INTO reading_moves (organization_id, next_ms, last_number)
     SELECT DISTINCT o.organization_id, 0, 0 FROM data_origins o
     WHERE NOT EXISTS (SELECT 1 FROM reading_moves m WHERE m.organization_id = o.organization_id)
     ON CONFLICT DO NOTHING`,
  );
}

async function take(sql: Sql, nowMs: number): Promise<string | undefined> {
  const due = isDue("next_ms", nowMs, EVERY_MS);
  const [row] = await sql.query<{ organizationId: string }>(
    `UPDATE reading_moves SET next_ms = ? WHERE organization_id = (
       SELECT organization_id FROM reading_moves WHERE ${due.text} ORDER BY next_ms, organization_id LIMIT 1)
     RETURNING organization_id AS "organizationId"`,
    nowMs + LEASE_MS,
    ...due.values,
  );
  return row?.organizationId;
}

async function giveBack(sql: Sql, organizationId: string, nextMs: number): Promise<void> {
  await sql.query("UPDATE reading_moves SET next_ms = ? WHERE organization_id = ?", nextMs, organizationId);
}

/** The most common tags among a source's oldest readings, if enough have them. */
async function commonTags(
  sql: Sql,
  originId: string,
  untilMs: number,
  readingsMin: number,
): Promise<(Pick<Group, "tags" | "tagList"> & { readonly count: number }) | undefined> {
  const [found] = await sql.query<Pick<Group, "tags" | "tagList"> & { count: number }>(
    `SELECT tags, tag_list AS "tagList", COUNT(*) AS count FROM (
       SELECT tags, tag_list FROM tabular_data WHERE origin_id = ? AND captured_us <= ? AND stored_ms <= ?
       ORDER BY captured_us LIMIT ?) AS oldest
     GROUP BY tags, tag_list HAVING COUNT(*) >= ? ORDER BY count DESC, tags LIMIT 1`,
    originId,
    untilMs * 1000,
    untilMs,
    LOOKED_AT,
    readingsMin,
  );
  return found;
}

async function selectReadings(sql: Sql, { originId }: Group, keys: readonly Key[]): Promise<FileReading[]> {
  const readings: FileReading[] = [];
  for (let at = 0; at < keys.length; at += READ_AT_ONCE) {
    const some = keys.slice(at, at + READ_AT_ONCE);
    const times = some.map(({ capturedUs }) => capturedUs);
    const entries = some.map(({ entryId }) => entryId);
    const rows = await sql.query<FileReading>(
      `SELECT captured_us AS "capturedUs", entry_id AS "entryId", received_us AS "receivedUs", stored_ms AS "storedMs",
         payload FROM tabular_data WHERE origin_id = ? AND captured_us >= ? AND captured_us <= ?
         AND entry_id IN (${placeholders(entries)}) ORDER BY captured_us, entry_id`,
      originId,
      Math.min(...times),
      Math.max(...times),
      ...entries,
    );
    const wanted = new Set(some.map(({ capturedUs, entryId }) => `${capturedUs} ${entryId}`));
    readings.push(...rows.filter(({ capturedUs, entryId }) => wanted.has(`${capturedUs} ${entryId}`)));
  }
  return readings;
}

/** What was written is there. */
async function requireWhole(files: FileStore, sha256: string, bytes: number): Promise<void> {
  await collectBytes(checkedPieces(files.read(sha256), sha256), bytes);
}

/** Takes the readings out of the table, and notes their file. Throws `aborted` if they are others by now. */
async function swap(
  sql: Sql,
  organizationId: string,
  { originId, tags, tagList, untilMs }: Group,
  keys: readonly Key[],
  made: FileSummary,
  file: { readonly sha256: string; readonly bytes: number },
): Promise<void> {
  const [first, last] = [keys[0], keys.at(-1)];
  assert(first && last, "a file of no readings was written");
  const range =
    `${OF_GROUP} AND captured_us >= ? AND (captured_us, entry_id) >= (?, ?) AND (captured_us, entry_id) <= (?, ?)`;
  const values = [
    ...groupValues(originId, tags, untilMs),
    ...[first.capturedUs, first.capturedUs, first.entryId, last.capturedUs, last.entryId],
  ];
  const now = await queryOne<{ count: number; bytes: number }>(
    sql,
    `SELECT COUNT(*) AS count, CAST(COALESCE(SUM(LENGTH(payload)), 0) AS BIGINT) AS bytes
     FROM tabular_data WHERE ${range}`,
    ...values,
  );
  if (now.count !== made.readings || now.bytes !== made.bytes) {
    throw new SvcError("aborted", `found ${now.count} readings to move, wanted ${made.readings}`);
  }
  await sql.query(`DELETE FROM tabular_data WHERE ${range}`, ...values);
  await new ReadingFiles(sql, undefined).add(organizationId, { originId, tags, tagList }, made, file);
}
