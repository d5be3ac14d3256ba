/**
 * The files of a folder that strangers have made.
 *
 * A program of theirs may still be at work there. Promises: nothing but regular files that are in the folder itself is
 * ever read. Links are left out, hard ones too, for they may lead
 * anywhere; so are pipes and devices; none of them is waited for. On Linux every folder and file is opened from the
 * folder above it, which is held open, so that nothing can be put in its place meanwhile.
 */

import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import type { ArchiveFile, ArchiveLimits } from "./archive.ts";
import { SvcError } from "../error.ts";

/** Folders in each other, and names in one. */
const DEPTH_MAX = 32;
const NAMES_MAX = 100_000;
const PIECE_BYTES = 64 * 1024;

/** Nothing is followed, and nothing waited for. */
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * The regular files below a folder, in a settled order, but for the entry `except` of the folder itself; `leftOut` hears
 * of what is something else. Throws
 * `resource_exhausted` past the limits.
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

/** Each file is closed when the next one is asked for. */
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
    const place = placeOf(held, folder);
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

/** A folder that is held open, by its descriptor: whatever stands at its path now. */
function placeOf(handle: FileHandle, path: string): string {
  return process.platform === "linux" ? `/proc/self/fd/${handle.fd}` : path;
}

async function opened(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, FLAGS);
  } catch {
    return undefined;
  }
}

/** As many bytes as were there; a file that has become shorter ends early, which the archive tells of. */
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
