/**
 * The few things that updates do with a disk, one by one, and how they are put together to survive a power loss.
 *
 * A `Disk` promises nothing but what a file system does: what is written is there for certain only when its file
 * is synced, a name only when its folder is. `writeDurably` and `linkDurably` make a whole of them: the old or the
 * new, never a part. `systemDisk` is the real one; the simulation has its own, which loses what is not synced.
 */

import { createReadStream } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Code, messageOf, SvcError } from "../../base/error.ts";

export interface DiskFile {
  write(bytes: Uint8Array): Promise<void>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Errors are `SvcError`s that name the path: `not_found`, `resource_exhausted` for a full disk, or others. */
export interface Disk {
  read(path: string): Promise<Uint8Array>;
  chunks(path: string): AsyncIterable<Uint8Array>;
  /** Opens a file to write it anew, or to add to it. */
  open(path: string, how: "new" | "append", mode: number): Promise<DiskFile>;
  /** The text of a link; `undefined` where there is none. */
  readLink(path: string): Promise<string | undefined>;
  makeLink(path: string, text: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Does nothing where there is nothing. */
  remove(path: string): Promise<void>;
  /** Sorted; empty where there is no such folder. */
  list(folder: string): Promise<string[]>;
  /** Of a regular file; `undefined` where there is none. */
  stat(path: string): Promise<{ sizeBytes: number; modifiedMs: number } | undefined>;
  makeExecutable(path: string): Promise<void>;
  /** Makes a folder and those above it. */
  makeFolder(path: string): Promise<void>;
  syncFolder(path: string): Promise<void>;
  freeBytes(folder: string): Promise<number>;
}

/** What a write that did not end leaves behind ends so. */
export const TEMPORARY = ".tmp";

/** Replaces a file: after a power loss it is the old or the new. */
export async function writeDurably(disk: Disk, path: string, bytes: Uint8Array, mode = 0o644): Promise<void> {
  await replaceDurably(disk, path, mode, (file) => file.write(bytes));
}

/** Copies a program: after a power loss it is whole, or what was there before. */
export async function copyDurably(disk: Disk, from: string, to: string): Promise<void> {
  await replaceDurably(disk, to, 0o755, async (file) => {
    for await (const chunk of disk.chunks(from)) await file.write(chunk);
  });
}

async function replaceDurably(
  disk: Disk,
  path: string,
  mode: number,
  write: (file: DiskFile) => Promise<void>,
): Promise<void> {
  const temporary = `${path}${TEMPORARY}`;
  try {
    const file = await disk.open(temporary, "new", mode);
    try {
      await write(file);
      await file.sync();
    } finally {
      await file.close();
    }
    await disk.rename(temporary, path);
  } catch (error) {
    // A full disk needs the space.
    await disk.remove(temporary).catch(() => {});
    throw error;
  }
  await disk.syncFolder(dirname(path));
}

/** Turns a link: at every moment, and after a power loss, it is the old or the new. */
export async function linkDurably(disk: Disk, path: string, text: string): Promise<void> {
  const temporary = `${path}${TEMPORARY}`;
  await disk.remove(temporary);
  await disk.makeLink(temporary, text);
  try {
    await disk.rename(temporary, path);
  } catch (error) {
    await disk.remove(temporary).catch(() => {});
    throw error;
  }
  await disk.syncFolder(dirname(path));
}

export async function removeDurably(disk: Disk, path: string): Promise<void> {
  await disk.remove(path);
  await disk.syncFolder(dirname(path));
}

/** The disk of this machine. On Windows, where links are for the privileged, a link is a small file with the text. */
export function systemDisk(os: string): Disk {
  const windows = os === "windows";
  return {
    read: (path) => attempt("read", path, () => fs.readFile(path)),
    chunks: async function* (path) {
      try {
        yield* createReadStream(path, { highWaterMark: 1 << 20 });
      } catch (error) {
        throw failure("read", path, error);
      }
    },
    open: (path, how, mode) =>
      attempt("write", path, async () => {
        const handle = await fs.open(path, how === "new" ? "w" : "a", mode);
        return {
          write: (bytes) => attempt("write", path, () => writeAll(handle, bytes)),
          sync: () => attempt("write", path, () => handle.sync()),
          close: () => handle.close(),
        };
      }),
    readLink: (path) =>
      attempt("read", path, () => windows ? fs.readFile(path, "utf8") : fs.readlink(path))
        .catch((error) => {
          if (SvcError.from(error).code === "not_found") return undefined;
          throw error;
        }),
    makeLink: (path, text) =>
      attempt("make the link", path, () => windows ? fs.writeFile(path, text) : fs.symlink(text, path)),
    rename: (from, to) => attempt("rename", from, () => fs.rename(from, to)),
    remove: (path) => attempt("remove", path, () => fs.rm(path, { force: true })),
    list: (folder) => fs.readdir(folder).then((names) => names.sort(), () => []),
    stat: (path) =>
      fs.stat(path).then(
        (found) => found.isFile() ? { sizeBytes: found.size, modifiedMs: found.mtimeMs } : undefined,
        () => undefined,
      ),
    makeExecutable: (path) =>
      windows ? Promise.resolve() : attempt("make executable", path, () => fs.chmod(path, 0o755)),
    makeFolder: (path) => attempt("make", path, async () => void await fs.mkdir(path, { recursive: true })),
    syncFolder: (path) => windows ? Promise.resolve() : attempt("sync", path, () => syncFolder(path)),
    freeBytes: (folder) =>
      attempt("look for space in", folder, async () => {
        const { bavail, bsize } = await fs.statfs(folder);
        return bavail * bsize;
      }),
  };
}

async function writeAll(handle: fs.FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += (await handle.write(bytes, at)).bytesWritten;
}

async function syncFolder(path: string): Promise<void> {
  const handle = await fs.open(join(path, "."), "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function attempt<T>(verb: string, path: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw failure(verb, path, error);
  }
}

const CODES: { readonly [errno: string]: Code } = {
  ENOENT: "not_found",
  EACCES: "permission_denied",
  EPERM: "permission_denied",
  EROFS: "permission_denied",
  ENOSPC: "resource_exhausted",
  EDQUOT: "resource_exhausted",
  EEXIST: "already_exists",
};

function failure(verb: string, path: string, error: unknown): SvcError {
  const code = CODES[(error as { code?: string }).code ?? ""] ?? "unknown";
  const why = code === "resource_exhausted" ? "the disk is full" : messageOf(error);
  return new SvcError(code, `cannot ${verb} "${path}": ${why}`, { cause: error });
}
