/**
 * What a data folder holds: a control plane, nothing yet, or the rest of a control plane without its database.
 *
 * The rest is kept: a new database in its place would refer to none of the contents, which svc-cloud then removes as
 * left behind, and every key of people and machines would be unknown.
 */

import { join } from "node:path";
import { SvcError } from "../../lib/base/error.ts";
import { fileSystemOf } from "../../lib/base/mounts.ts";
import type { ReadFiles, ReadFolders, WriteFiles } from "../../lib/base/files/files.ts";

/** The SQLite database of a control plane. */
export const DATABASE_FILE = "cloud.db";
/** File systems of other computers, as proc(5) `mounts` names them: locks and shared memory do not reach all users. */
const FAR =
  /^(nfs\d?|cifs|smb\d|smbfs|9p|afs|ceph|glusterfs|lustre|vboxsf|fuse\.(sshfs|rclone|s3fs|\w*glusterfs|ceph.*))$/;
/** The database while `restore` still works on it. */
export const UNFINISHED_FILE = "restore.db.unfinished";
/** Files that SQLite keeps beside a database; it takes the transactions in them into any database of their name. */
export const SQLITE_ENDS = ["-wal", "-shm", "-journal"] as const;

/** A file with a key of the control plane. */
export const KEY_FILE = /^[\w-]+\.json$/;

/** Says where the database went that is still in the folder. */
const MOVED_FILE = "moved.txt";

/** A folder, and the PostgreSQL database that control planes use instead of one in it. */
interface DataAddress {
  readonly data: string;
  readonly database: string;
}

/**
 * Only `init` and `serve` create a folder; otherwise a command in the wrong place would show an empty control plane.
 */
export async function requireFolder(place: DataAddress, host: ReadFiles): Promise<void> {
  await requireNoRest(place, host);
  const { data, database } = place;
  const isFolder = await isReadable(data, host);
  if (database === "" ? await hasDatabase(data, host) : isFolder) return;
  throw new SvcError(
    "not_found",
    `found no control plane in ${data}: give its folder with --data (or SVC_CLOUD_DATA), run this where ` +
      "svc-cloud serves, or make a new one with svc-cloud init",
  );
}

/**
 * Throws `failed_precondition` where a new database would begin beside what belongs to another one, and where the
 * database has moved: the old one would take changes that the new one misses.
 */
export async function requireNoRest({ data, database }: DataAddress, host: ReadFiles): Promise<void> {
  if (database !== "") return;
  await requireUnmoved(data, host);
  if (await hasDatabase(data, host)) return;
  const rest = await restIn(data, host);
  // Another process may have begun the database meanwhile.
  if (rest === undefined || await hasDatabase(data, host)) return;
  const state = await host.fileSize(join(data, DATABASE_FILE)) === undefined ? "no" : "an empty";
  const remedy = rest === UNFINISHED_FILE
    ? "a restore was interrupted: run svc-cloud restore again"
    : "bring the database back, name the one in PostgreSQL (--database), or use a new folder, for a backup " +
      "(svc-cloud restore) or a new control plane";
  throw new SvcError(
    "failed_precondition",
    `found ${state} ${DATABASE_FILE} in ${data}, but the ${rest} of a control plane: ${remedy}`,
  );
}

/** What endangers a database in a folder that a control plane serves from, in words. */
export async function folderDangers(
  { data, database }: DataAddress,
  host: ReadFiles & ReadFolders,
): Promise<string[]> {
  if (database !== "") return [];
  const mounts = await host.readTextFile("/proc/mounts").catch(() => "");
  const type = fileSystemOf(await host.realPath(data).catch(() => data), mounts);
  if (type === "overlay") {
    return [`${data} is in this container itself, and is lost with it: mount a volume there`];
  }
  if (!FAR.test(type)) return [];
  return [
    `${data} is on another computer (${type}), where SQLite may lose data or damage its file: take a folder of a disk ` +
    "here (--data; for its contents --files may name the other one), or PostgreSQL (--database)",
  ];
}

/** Notes that the database of a folder is at another place from now on; `to` has no password. */
export async function noteMoved(data: string, to: string, atMs: number, host: WriteFiles): Promise<void> {
  const note = `to ${to} at ${new Date(atMs).toISOString()}`;
  await host.writeFile(join(data, MOVED_FILE), `${note}\n`);
}

async function requireUnmoved(data: string, host: ReadFiles): Promise<void> {
  const path = join(data, MOVED_FILE);
  if (await host.fileSize(path) === undefined) return;
  const text = await host.readTextFile(path);
  throw new SvcError(
    "failed_precondition",
    `the database of ${data} has moved ${text.trim()}: give the new one with --database (or SVC_CLOUD_DATABASE); ` +
      `to go on with the old one, without what has changed since, remove ${path}`,
  );
}

/** Throws where a folder is that this user may not read: what is in it is unknown. */
async function isReadable(data: string, host: ReadFolders): Promise<boolean> {
  try {
    await host.readFolder(data);
    return true;
  } catch (error) {
    if (SvcError.from(error).code === "permission_denied") throw error;
    return false;
  }
}

/** SQLite writes the first page of a new database before anything else of a control plane is made. */
async function hasDatabase(data: string, host: ReadFiles): Promise<boolean> {
  return (await host.fileSize(join(data, DATABASE_FILE)) ?? 0) > 0;
}

/** What of a control plane is in the folder, besides its database. */
export async function restIn(data: string, host: ReadFolders): Promise<string | undefined> {
  const namesIn = (folder: string) => host.readFolder(join(data, folder)).catch((): string[] => []);
  const names = await namesIn("");
  // The newest transactions; other files of SQLite are there while a new database begins, too.
  const transactions = `${DATABASE_FILE}-wal`;
  if (names.includes(transactions)) return transactions;
  if (names.includes(UNFINISHED_FILE)) return UNFINISHED_FILE;
  if ((await namesIn("keys")).some((name) => KEY_FILE.test(name))) return "keys";
  return (await namesIn("files")).length > 0 ? "files" : undefined;
}
