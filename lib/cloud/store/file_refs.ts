/**
 * Counts references to the contents of the file store.
 *
 * The same content may belong to several rows of several tables. A content exists as long as a row refers to it, even
 * if others upload and remove the same content at the same time, in this process or another. An unreferenced content
 * is removed.
 */

import type { FileStore, StoredFile } from "./files.ts";
import type { Sql } from "./store.ts";

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

async function isNeeded(sql: Sql, sha256: string): Promise<boolean> {
  const each = CONTENT_TABLES.map((table) => `SELECT 1 AS one FROM ${table} WHERE sha256 = ?`);
  const rows = await sql.query(`${each.join(" UNION ALL ")} LIMIT 1`, ...CONTENT_TABLES.map(() => sha256));
  return rows.length > 0;
}
