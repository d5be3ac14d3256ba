/**
 * The files of this computer: how they are written, named, locked and removed, beside how they are read.
 *
 * Opening exclusively and removing a tree follow no links. Syncing a folder does nothing on Windows, which neither can
 * nor needs to do it.
 */

import { Buffer } from "node:buffer";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { SystemClock } from "../clock.ts";
import { SvcError } from "../error.ts";
import type { AppendFile, OpenFile, OpenHow } from "./files.ts";
import { windowsProblem } from "./names.ts";
import { giveFile, giveFolders, heirOf, isRoot, missingFolders } from "./owner.ts";
import { attempt, attemptNow, whileHeld } from "./refusal.ts";
import { onWindows, SystemReads } from "./system_reads.ts";

/** Permissions of a folder: only its owner changes it, whatever the umask, because programs are started from some. */
const FOLDER_MODE = 0o755;
/** Permissions of a log file: administrators may read it, too. */
const APPEND_MODE = 0o640;
/** Bytes of the path of a folder in which sockets have room for a name: Linux allows 107 in all, macOS 103. */
const SOCKET_FOLDER_MAX = 70;
/** Others take the path for an address: it must not look like a host with a port, nor need escapes in a URL. */
const SOCKET_FOLDER = /^[^:%?#\s]+$/;

const OPENING: { readonly [how in OpenHow]: Deno.OpenOptions } = {
  new: { write: true, create: true, truncate: true },
  append: { append: true, create: true },
  exclusive: { write: true, createNew: true },
};

function isForSockets(folder: string): boolean {
  return Buffer.byteLength(folder) <= SOCKET_FOLDER_MAX && SOCKET_FOLDER.test(folder);
}

export class SystemFiles extends SystemReads {
  openAppend(path: string): AppendFile {
    return attemptNow("append to", path, () => {
      checkName(path);
      const missing = isRoot() ? missingFolders(dirname(path)) : [];
      Deno.mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
      giveFolders(missing);
      return new SystemAppendFile(path);
    });
  }

  moveFile(from: string, to: string): void {
    attemptNow("rename", from, () => {
      checkName(to);
      Deno.renameSync(from, to);
    });
  }

  emptyFile(path: string): void {
    attemptNow("empty", path, () => Deno.truncateSync(path));
  }

  removeFile(path: string): void {
    attemptNow("remove", path, () => Deno.removeSync(path));
  }

  open(path: string, how: OpenHow, mode = 0o644): Promise<OpenFile> {
    return this.#open(path, how, mode, path);
  }

  protected override openTemporary(temporary: string, path: string, mode: number): Promise<OpenFile> {
    return this.#open(temporary, "exclusive", mode, path);
  }

  /** If the file is new, it gets the owner that `like` has, or would have. */
  #open(path: string, how: OpenHow, mode: number, like: string): Promise<OpenFile> {
    return attempt("write", path, async () => {
      checkName(path);
      const heir = isRoot() ? heirOf(like) : undefined;
      const file = await Deno.open(path, { ...OPENING[how], mode });
      if (heir) giveFile(path, file.statSync(), heir);
      return {
        write: (bytes) =>
          attempt("write", path, async () => {
            for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
          }),
        sync: () => attempt("write", path, () => file.sync()),
        close: () => file.close(),
      };
    });
  }

  makeFolder(path: string, { mode = FOLDER_MODE } = {}): Promise<void> {
    return attempt("make", path, async () => {
      checkName(path);
      const missing = isRoot() ? missingFolders(path) : [];
      await Deno.mkdir(path, { recursive: true, mode });
      giveFolders(missing);
    });
  }

  async temporaryFolder(prefix: string, use?: "sockets"): Promise<string> {
    const make = (place: string, dir?: string) =>
      attempt("make a temporary folder in", place, () => Deno.makeTempDir({ prefix, dir }));
    const folder = await make(tmpdir());
    if (!use || onWindows() || isForSockets(folder)) return folder;
    await this.removeTree(folder);
    return await make("/tmp", "/tmp");
  }

  addName(path: string, name: string): Promise<void> {
    return attempt("give the name", name, () => Deno.link(path, name));
  }

  remove(path: string): Promise<void> {
    return attempt("remove", path, () => patiently(() => unlessMissing(Deno.remove(path))));
  }

  removeTree(path: string): Promise<void> {
    const all = () => unlessMissing(Deno.remove(path, { recursive: true }));
    return attempt("remove", path, () => patiently(all));
  }

  setMode(path: string, mode: number): Promise<void> {
    if (onWindows()) return Promise.resolve();
    return attempt("change the permissions of", path, () => Deno.chmod(path, mode));
  }

  setModified(path: string, modifiedMs: number): Promise<void> {
    const modified = new Date(modifiedMs);
    return attempt("change the time of", path, () => Deno.utime(path, modified, modified));
  }

  setOwner(path: string, uid: number, gid: number): Promise<void> {
    return attempt("change the owner of", path, async () => {
      const { lchown } = await import("node:fs/promises");
      await lchown(path, uid, gid);
    });
  }

  lock(path: string): Promise<(() => void) | undefined> {
    return attempt("lock", path, async () => {
      checkName(path);
      const heir = isRoot() ? heirOf(path) : undefined;
      const file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
      if (heir) giveFile(path, file.statSync(), heir);
      const taken = await file.tryLock(true).catch((error) => {
        file.close();
        throw error;
      });
      if (taken) return () => file.close();
      file.close();
    });
  }

  syncFile(path: string): Promise<void> {
    return attempt("sync", path, async () => {
      using file = await Deno.open(path, { read: true, write: onWindows() });
      await file.sync();
    });
  }

  syncFolder(path: string): Promise<void> {
    return onWindows() ? Promise.resolve() : this.syncFile(path);
  }

  protected rename(from: string, to: string): Promise<void> {
    return attempt("rename", from, async () => {
      checkName(to);
      await patiently(() => Deno.rename(from, to));
    });
  }

  override createLink(path: string, text: string): Promise<void> {
    return onWindows() ? this.addName(join(dirname(path), text), path) : super.createLink(path, text);
  }

  protected makeLink(path: string, text: string): Promise<void> {
    if (onWindows()) return this.createFile(path, text);
    return attempt("make the link", path, () => Deno.symlink(text, path));
  }

  protected temporaryName(): string {
    return crypto.randomUUID().slice(0, 8);
  }
}

class SystemAppendFile implements AppendFile {
  readonly sizeBytes: number;
  readonly endsLine: boolean;
  readonly regular: boolean;
  readonly #file: Deno.FsFile;

  constructor(private readonly path: string) {
    const heir = isRoot() ? heirOf(path) : undefined;
    this.#file = Deno.openSync(path, { read: true, append: true, create: true, mode: APPEND_MODE });
    const { size, isFile, dev, ino } = this.#file.statSync();
    if (heir) giveFile(path, { dev, ino }, heir);
    this.sizeBytes = size;
    this.regular = isFile;
    const last = new Uint8Array(1);
    if (size > 0) {
      this.#file.seekSync(-1, Deno.SeekMode.End);
      this.#file.readSync(last);
    }
    this.endsLine = size === 0 || last[0] === 10;
  }

  append(bytes: Uint8Array): void {
    attemptNow("append to", this.path, () => {
      for (let at = 0; at < bytes.length;) at += this.#file.writeSync(bytes.subarray(at));
    });
  }

  look(): number | undefined {
    const { size, dev, ino } = this.#file.statSync();
    // Windows does not let others move or remove the file, and tells no number.
    if (ino === null) return size;
    try {
      const there = Deno.statSync(this.path);
      return there.dev === dev && there.ino === ino ? size : undefined;
    } catch {
      return undefined;
    }
  }

  close(): void {
    this.#file.close();
  }
}

/** Refuses a name that means something else than a file on this system. */
function checkName(path: string): void {
  const problem = onWindows() ? windowsProblem(path) : undefined;
  if (problem !== undefined) throw new SvcError("invalid_argument", problem);
}

/** On Windows, runs an operation on a name again while others have the file open. */
function patiently(run: () => Promise<void>): Promise<void> {
  return onWindows() ? whileHeld(run, new SystemClock()) : run();
}

async function unlessMissing(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
