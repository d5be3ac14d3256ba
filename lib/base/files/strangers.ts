/**
 * Reads a folder that an untrusted program has written, and that it may still change.
 *
 * Only regular files in the folder itself are ever read. Links, hard links included, are left out, because they may
 * lead anywhere; so are pipes and devices, and opening one never blocks. On Linux every folder and file is opened
 * relative to the descriptor of its parent folder, so that nobody can swap it meanwhile.
 */

import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import type { ArchiveFile, ArchiveLimits } from "./archive.ts";
import { SvcError } from "../error.ts";

/** Limits for nested folders, and for the length of a name. */
const DEPTH_MAX = 32;
const NAMES_MAX = 100_000;
const PIECE_BYTES = 64 * 1024;

/** Follows no link and waits for nothing. */
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * The regular files below a folder, sorted, without the folder's own entry `except`. Reports everything else to
 * `leftOut`. Throws `resource_exhausted` past the limits.
 */
export async function* strangersFiles(
  folder: string,
  { filesMax, bytesMax, except }: ArchiveLimits & { readonly except?: string },
  leftOut: (path: string, why: string) => void,
): AsyncGenerator<ArchiveFile> {
  let [files, bytes] = [0, 0];
  for await (const { path, handle } of handlesIn(folder, "", except, 0, leftOut)) {
    const { size, mode } = await handle.stat();
    if (++files > filesMax) throw tooMuch(`more than ${filesMax} files`);
    if ((bytes += size) > bytesMax) throw tooMuch(`files of more than ${bytesMax} bytes`);
    yield { path, bytes: size, executable: (mode & 0o100) !== 0, content: contentOf(handle, size) };
  }
}

/** Closes each file when the caller requests the next one. */
async function* handlesIn(
  folder: string,
  below: string,
  except: string | undefined,
  depth: number,
  leftOut: (path: string, why: string) => void,
): AsyncGenerator<{ path: string; handle: FileHandle }> {
  if (depth > DEPTH_MAX) throw tooMuch(`folders ${depth} deep`);
  const held = await opened(folder);
  if (!held) return leftOut(below, "is a link or is gone");

  try {
    const place = descriptorPath(held, folder);
    const names = (await readdir(place)).sort();
    if (names.length > NAMES_MAX) throw tooMuch(`${names.length} names in one folder`);

    for (const name of names) {
      if (depth === 0 && name === except) continue;
      const path = below ? `${below}/${name}` : name;
      const handle = await opened(join(place, name));
      if (!handle) {
        leftOut(path, "is a link, or cannot be opened");
        continue;
      }

      let inner = false;
      try {
        const found = await handle.stat();
        inner = found.isDirectory();
        if (found.isFile() && found.nlink === 1) yield { path, handle };
        else if (!inner) leftOut(path, found.isFile() ? "has more names than this" : "is no file");
      } finally {
        await handle.close();
      }

      if (inner) yield* handlesIn(join(place, name), path, except, depth + 1, leftOut);
    }
  } finally {
    await held.close();
  }
}

/** A folder that is held open by its descriptor, whatever its path leads to now. */
function descriptorPath(handle: FileHandle, path: string): string {
  return process.platform === "linux" ? `/proc/self/fd/${handle.fd}` : path;
}

async function opened(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, FLAGS);
  } catch {
    return undefined;
  }
}

/** As many bytes as the file had at first; a file that has shrunk ends early, which the archive reports. */
async function* contentOf(handle: FileHandle, bytes: number): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(PIECE_BYTES);
  for (let at = 0; at < bytes;) {
    const { bytesRead } = await handle.read(buffer, 0, Math.min(PIECE_BYTES, bytes - at), at);
    if (bytesRead === 0) return;
    yield buffer.slice(0, bytesRead);
    at += bytesRead;
  }
}

function tooMuch(found: string): SvcError {
  return new SvcError("resource_exhausted", `the folder has ${found}`);
}
