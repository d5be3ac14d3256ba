/**
 * Opens a regular file by a path that leads there without any link.
 *
 * A path that was judged by its real path may be replaced by a link before it is opened. On Linux each folder on the way
 * is therefore opened relative to the one before and without following links, so that the opened file is the one that
 * was judged. Elsewhere the path is resolved again once the file is open, and must still be the same file.
 *
 * A file with a second name (hard link) is refused: its other name may be in a folder that the caller may not read.
 */

import type { FileHandle } from "node:fs/promises";
import { resolve } from "node:path";
import process from "node:process";
import { SvcError } from "../error.ts";
import { nodeFs } from "../native/environment.ts";
import type { HeldFile } from "./files.ts";

/** Opens only the place in the tree (Linux); needs no permission to list a folder. */
const O_PATH = 0x200000;
const PIECE_BYTES = 64 * 1024;

/** `path` is absolute. Throws `permission_denied` for a link on the way, another kind of file or a second name. */
export async function openUnlinked(path: string): Promise<HeldFile> {
  const { handle, at, close } = process.platform === "linux"
    ? await openStepwise(path)
    : await openAndCompare(path);
  try {
    const facts = await handle.stat();
    if (!facts.isFile()) throw denied("it is not a regular file");
    if (facts.nlink > 1) throw denied("the file has another name, too (hard link)");
    const { size: sizeBytes, mtimeMs: modifiedMs } = facts;
    return { path: at, sizeBytes, modifiedMs, pieces: () => piecesOf(handle), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** How folders and files are opened. */
function openFlags(): { readonly folder: number; readonly file: number } {
  const { O_DIRECTORY = 0, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY } = nodeFs().constants;
  return {
    folder: O_PATH | O_DIRECTORY | O_NOFOLLOW,
    // Follows no link, and waits for nothing: the path may have become a pipe.
    file: O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
  };
}

interface Opened {
  readonly handle: FileHandle;
  /** A path of the file. */
  readonly at: string;
  close(): Promise<void>;
}

async function openStepwise(path: string): Promise<Opened> {
  const parts = path.split("/").filter((part) => part !== "");
  const name = parts.pop();
  if (!path.startsWith("/") || name === undefined) throw denied("it is not an absolute path of a file");

  const flags = openFlags();
  let folder = await nodeFs().promises.open("/", flags.folder);
  try {
    for (const part of parts) {
      const next = await openIn(folder, part, flags.folder);
      await folder.close();
      folder = next;
    }
    const [held, handle] = [folder, await openIn(folder, name, flags.file)];
    const close = async () => {
      await handle.close();
      await held.close();
    };
    return { handle, at: entryPath(folder, name), close };
  } catch (error) {
    await folder.close();
    throw error;
  }
}

/** The path of an entry of an open folder, whatever the folder's own path leads to now. */
function entryPath({ fd }: FileHandle, name: string): string {
  return `/proc/self/fd/${fd}/${name}`;
}

async function openIn(folder: FileHandle, name: string, flags: number): Promise<FileHandle> {
  if (name === "..") throw denied('its path has ".."');
  try {
    return await nodeFs().promises.open(entryPath(folder, name), flags);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ELOOP" || code === "ENOTDIR") throw denied(`"${name}" on its path is a link`, error);
    throw error;
  }
}

async function openAndCompare(path: string): Promise<Opened> {
  const { open, realpath, stat } = nodeFs().promises;
  const handle = await open(path, openFlags().file);
  try {
    const [held, there] = [await handle.stat(), await stat(path)];
    const isSame = held.ino === there.ino && held.dev === there.dev;
    if (isSame && await realpath(path) === resolve(path)) {
      return { handle, at: path, close: () => handle.close() };
    }
    throw denied("its path leads through a link");
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function* piecesOf(handle: FileHandle): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const buffer = new Uint8Array(PIECE_BYTES);
  for (let at = 0;;) {
    const { bytesRead } = await handle.read(buffer, 0, PIECE_BYTES, at);
    if (bytesRead === 0) return;
    yield buffer.slice(0, bytesRead);
    at += bytesRead;
  }
}

function denied(why: string, cause?: unknown): SvcError {
  return new SvcError("permission_denied", why, { cause });
}
