/**
 * Counts references to the contents of the file store.
 *
 * The same content may belong to several rows of several tables. A content exists as long as a row refers to it, even
 * if others upload and remove the same content at the same time, in this process or another. An unreferenced content
 * is removed.
 */

import { SvcError } from "../../base/error.ts";
import type { FileStore, StoredFile } from "./files.ts";
import { notedSetting, noteSetting } from "./settings.ts";
import type { Sql, Store } from "./store.ts";

/** The tables with a column `sha256`. */
export const CONTENT_TABLES: readonly string[] = [
  "packages",
  "releases",
  "binary_data",
  "training_jobs",
  "training_images",
  "mapping_sessions",
  "sequence_exports",
  "reading_files",
];

/** Removes a content without references. Call it after the transaction that dropped the last one. */
export async function releaseFile(sql: Sql, files: FileStore, sha256: string): Promise<void> {
  if (await isNeeded(sql, sha256)) return;
  await files.removeUnless(sha256, () => isNeeded(sql, sha256));
}

/**
 * Stores a content and refers to it: `refer` runs the transaction for that. If any of it fails, nothing stays behind.
 * Throws `resource_exhausted` for a content of more than `bytesMax` bytes.
 */
export async function keepFile<T>(
  sql: Sql,
  files: FileStore,
  content: AsyncIterable<Uint8Array>,
  bytesMax: number,
  refer: (file: StoredFile) => Promise<T>,
): Promise<T> {
  const upload = await files.receive(content, bytesMax);
  try {
    const value = await refer(upload.file);
    await upload.keep();
    return value;
  } catch (error) {
    await upload.abandon();
    await releaseFile(sql, files, upload.file.sha256);
    throw error;
  }
}

/** Removes contents left behind by a process that was killed during an upload. */
export async function releaseOrphans(
  sql: Sql,
  files: FileStore,
  olderThanMs: number,
  signal: AbortSignal,
): Promise<void> {
  for await (const sha256 of files.list({ olderThanMs })) {
    if (signal.aborted) return;
    await releaseFile(sql, files, sha256);
  }
}

/** The hashes of all contents that the rows refer to. */
export async function neededFiles(sql: Sql): Promise<string[]> {
  const each = CONTENT_TABLES.map((table) => `SELECT sha256 FROM ${table} WHERE sha256 <> ''`);
  const rows = await sql.query<{ sha256: string | null }>(each.join(" UNION "));
  return rows.map(({ sha256 }) => sha256).filter((sha256) => sha256 !== null);
}

/** The place that has none of the contents, and is used nevertheless, because an operator said so. */
const LOST_SETTING = "contents_lost_in";

export interface LookedFor {
  readonly place: string;
  /** The operator says that what is not there is lost for good. */
  readonly isLost: boolean;
}

/**
 * A disk may not be mounted, or a command may name another place than the one before: what arrives there would be out of
 * sight when the disk is back. `missing` if the rows refer to contents, and none of a few of these is in the place; `lost` if an operator has said
 * so of this place.
 */
export async function findLack(
  store: Store,
  files: FileStore,
  { place, isLost }: LookedFor,
): Promise<"missing" | "lost" | undefined> {
  const referred = await referredFiles(store);
  if (referred.length === 0 || await hasAny(files, referred)) return undefined;
  if (isLost) await store.transaction((sql) => noteSetting(sql, LOST_SETTING, place));
  return await notedSetting(store, LOST_SETTING) === place ? "lost" : "missing";
}

async function hasAny(files: FileStore, hashes: readonly string[]): Promise<boolean> {
  for (const sha256 of hashes) {
    try {
      await files.size(sha256);
      return true;
    } catch (error) {
      if (SvcError.from(error).code !== "not_found") throw error;
    }
  }
  return false;
}

/** Contents of a table that `referredFiles` names. */
const SAMPLE_OF_TABLE = 3;

/** The hashes of a few contents that the rows refer to, of every table that has any. */
async function referredFiles(sql: Sql): Promise<string[]> {
  const found: string[] = [];
  for (const table of CONTENT_TABLES) {
    const text = `SELECT sha256 FROM ${table} WHERE sha256 <> '' LIMIT ${SAMPLE_OF_TABLE}`;
    for (const { sha256 } of await sql.query<{ sha256: string }>(text)) found.push(sha256);
  }
  return found;
}

async function isNeeded(sql: Sql, sha256: string): Promise<boolean> {
  const each = CONTENT_TABLES.map((table) => `SELECT 1 AS one FROM ${table} WHERE sha256 = ?`);
  const rows = await sql.query(`${each.join(" UNION ALL ")} LIMIT 1`, ...CONTENT_TABLES.map(() => sha256));
  return rows.length > 0;
}
