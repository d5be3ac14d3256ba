/**
 * Which contents of the file store are still referred to, and from where.
 *
 * The same content may belong to several rows of several tables. Promises: what a row refers to is there, whoever
 * uploads and removes the same content at the same time, in this process or in another one; what nobody refers to
 * does not stay.
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
];

/** Removes a content if nobody refers to it. To be called after the transaction that let go of it. */
export async function releaseFile(sql: Sql, files: FileStore, sha256: string): Promise<void> {
  if (await isNeeded(sql, sha256)) return;
  await files.removeUnless(sha256, () => isNeeded(sql, sha256));
}

/**
 * Takes in a content and refers to it: `refer` runs the transaction that does. Where any of it fails, nothing stays
 * behind. Throws `resource_exhausted` where the content has more than `bytesMax` bytes.
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

/** Removes contents that a process which was killed in the middle of an upload has left behind. */
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

async function isNeeded(sql: Sql, sha256: string): Promise<boolean> {
  const each = CONTENT_TABLES.map((table) => `SELECT 1 AS one FROM ${table} WHERE sha256 = ?`);
  const rows = await sql.query(`${each.join(" UNION ALL ")} LIMIT 1`, ...CONTENT_TABLES.map(() => sha256));
  return rows.length > 0;
}
