/**
 * Files: one port, from which each caller declares the part that it needs.
 *
 * Promises:
 * - `writeFile`, `writePieces`, `copyFile`, `moveDurably`, `turnLink` and `removeDurably` are durable: after they
 *   resolve, a power loss undoes nothing; before, it leaves the old or the new state and never a mixture.
 * - Data written to an open file is durable once its `sync` resolves. Until then a power loss may take any part of it;
 *   a killed process takes nothing.
 * - `createFile`, `moveFile`, `emptyFile`, `removeFile`, `remove` and `removeTree` promise nothing about a power loss.
 * - Errors are `FileError`s whose message names the operation and the path: `not_found`, `already_exists`,
 *   `permission_denied`, `resource_exhausted` for a full disk, or `unknown`.
 *
 * `SystemFiles` has the files of this computer. Tests use files in memory, with power cuts, full disks and errors.
 *
 * The room owns every access to the file system, and the formats of archives and line files.
 */

import { type Code, SvcError } from "../error.ts";
import { bytesUpTo } from "./byte_reader.ts";

/** The failure of a file operation. */
export class FileError extends SvcError {
  constructor(code: Code, message: string, readonly path: string, options?: { cause?: unknown }) {
    super(code, message, options);
  }
}

export type FileKind = "file" | "folder" | "link" | "other";

export interface FileFacts {
  readonly kind: FileKind;
  readonly sizeBytes: number;
  /** Size on the disk. */
  readonly diskBytes: number;
  readonly modifiedMs: number;
  /** The permissions, as in 0o640; 0 on Windows. */
  readonly mode: number;
  /** The numbers of its owner and group; absent on Windows. */
  readonly uid?: number;
  readonly gid?: number;
}

export interface FoundFile {
  readonly path: string;
  /** The path below the requested folder, parts separated by "/". */
  readonly name: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/**
 * A file to which lines are appended. Its methods are synchronous: when `append` returns, the system has the bytes and
 * a killed process cannot take them back. Its methods throw on errors.
 */
export interface AppendFile {
  /** The size when the file was opened. */
  readonly sizeBytes: number;
  /** Whether the file was empty or ended with a newline when it was opened. */
  readonly endsLine: boolean;
  /** Whether the file is neither a device nor a pipe, so that it has a size and can be renamed and replaced. */
  readonly regular: boolean;
  /** Appends all of `text`. If it throws, a part may have been written. */
  append(bytes: Uint8Array): void;
  /** Its present size; `undefined` if its path leads to another file by now, or to none. */
  look(): number | undefined;
  close(): void;
}

/** A regular file that is open for reading, whatever happens to its path. */
export interface HeldFile {
  /**
   * A path of the file until `close`. On Linux it begins at the open folder, so a rename or removal by it affects no
   * other folder.
   */
  readonly path: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  /** The content, in pieces of at most 64 kB. */
  pieces(): AsyncIterable<Uint8Array<ArrayBuffer>>;
  close(): Promise<void>;
}

/** A file that is written piece by piece. */
export interface OpenFile {
  /** Writes all of the bytes. If it throws, a part may have been written. */
  write(bytes: Uint8Array): Promise<void>;
  sync(): Promise<void>;
  close(): void;
}

/**
 * `new`: empties an existing file. `append`: writes at its end. `exclusive`: nothing may be at the path, not even a
 * link.
 */
export type OpenHow = "new" | "append" | "exclusive";

export interface ReadFolders {
  /** Names of a folder's entries, sorted. */
  readFolder(path: string): Promise<string[]>;
  /** The path with every link resolved. */
  realPath(path: string): Promise<string>;
}

export interface ReadFiles extends ReadFolders {
  readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
  /** The text of a UTF-8 file, without the byte order mark that some editors begin it with. */
  readTextFile(path: string): Promise<string>;
  /** The content of a file of any size, from byte `from` on, in pieces of at most 64 kB. */
  readPieces(path: string, from?: number): AsyncIterable<Uint8Array<ArrayBuffer>>;
  /** Size in bytes, or `undefined` if there is no file. */
  fileSize(path: string): Promise<number | undefined>;
  /**
   * Facts of the file, folder or device at a path, or `undefined`; with `links`, of a link itself instead of its
   * target.
   */
  stat(path: string, options?: { readonly links?: boolean }): Promise<FileFacts | undefined>;
  /** Facts of a regular file; `undefined` for everything else. */
  findFile(path: string): Promise<FileFacts | undefined>;
  /** A folder's entries, sorted by name; links are not followed. */
  entries(path: string): Promise<{ readonly name: string; readonly kind: FileKind }[]>;
  /** The regular file at `path`, or all those below the folder there, sorted; links below it are not followed. */
  filesAt(path: string): Promise<readonly FoundFile[]>;
  /**
   * Opens the regular file at an absolute path without any link: for paths that others may replace after a check of
   * their `realPath`. Throws `permission_denied` for a link on the way, another kind of file, or a file with more
   * than one name.
   */
  openUnlinked(path: string): Promise<HeldFile>;
  /** Free space of the disk with this folder. */
  freeBytes(folder: string): Promise<number>;
  /** The size of the disk with this folder. */
  totalBytes(folder: string): Promise<number>;
}

/** Synchronous operations, for callers that cannot wait: logs, and the files beside them. */
export interface LogFiles extends ReadFolders {
  /** Opens a file to append to it; creates the file and its folder if they are missing. */
  openAppend(path: string): AppendFile;
  /** Renames a file; replaces a file that has the new name. */
  moveFile(from: string, to: string): void;
  /** Empties a file that others append to. */
  emptyFile(path: string): void;
  removeFile(path: string): void;
}

export interface WriteFiles {
  /**
   * Replaces a file durably. Keeps nothing of the old file, nor of a link at the path. Writes into a device
   * (`/dev/null`, `/dev/stdout`) instead of replacing it.
   */
  writeFile(path: string, content: string | Uint8Array, options?: { readonly mode?: number }): Promise<void>;
  /** The same with a content of any size. */
  writePieces(
    path: string,
    pieces: AsyncIterable<Uint8Array>,
    options?: { readonly mode?: number },
  ): Promise<void>;
  /** Replaces a file by a copy of another one, durably. */
  copyFile(from: string, to: string, options?: { readonly mode?: number }): Promise<void>;
  /** Creates a file that may be lost in a power loss. Throws `already_exists` if something is at the path. */
  createFile(
    path: string,
    content: string | Uint8Array | AsyncIterable<Uint8Array>,
    options?: { readonly mode?: number },
  ): Promise<void>;
  open(path: string, how: OpenHow, mode?: number): Promise<OpenFile>;
  /** Creates a folder and its missing parents. */
  makeFolder(path: string, options?: { readonly mode?: number }): Promise<void>;
  /**
   * Creates a folder with a new name among the system's temporary files, accessible to the current user alone. For
   * sockets, whose paths are limited and taken for addresses, the folder is in /tmp if the path of the system's
   * (`TMPDIR`) is long, or could be another kind of address.
   */
  temporaryFolder(prefix: string, use?: "sockets"): Promise<string>;
  /** Renames a file or folder on the same disk, durably. */
  moveDurably(from: string, to: string): Promise<void>;
  /** Gives a file a second name. Throws `already_exists` if something has that name. */
  addName(path: string, name: string): Promise<void>;
  /** Removes a file; does nothing if there is none. */
  remove(path: string): Promise<void>;
  removeDurably(path: string): Promise<void>;
  /** Removes a file, or a folder with everything in it; does nothing if there is nothing. Follows no links. */
  removeTree(path: string): Promise<void>;
  /** Sets permissions; does nothing on Windows. */
  setMode(path: string, mode: number): Promise<void>;
  /** Sets when a file or folder was last modified. */
  setModified(path: string, modifiedMs: number): Promise<void>;
  /** Changes the owner of a file, a folder or a link itself. */
  setOwner(path: string, uid: number, gid: number): Promise<void>;
  /** Makes the content of a file that another program has written durable. */
  syncFile(path: string): Promise<void>;
  /** Makes the names in a folder durable. */
  syncFolder(path: string): Promise<void>;
}

/** Links by their text. On Windows, where only privileged users make links, a small file holds the text. */
export interface LinkFiles {
  /** The text of a link; `undefined` if there is none. */
  readLink(path: string): Promise<string | undefined>;
  /** Creates or changes a link, durably. The caller makes sure that no other part changes the same link meanwhile. */
  turnLink(path: string, text: string): Promise<void>;
  /**
   * Creates a link that every program follows; a power loss may take it. On Windows it is a second name of the file that
   * it leads to. Throws `already_exists` if something is at the path.
   */
  createLink(path: string, text: string): Promise<void>;
}

export interface LockFiles {
  /**
   * Takes the lock of a file and returns the function that gives it back; the end of the process does so, too. Creates
   * a missing file. `undefined` if the lock is taken.
   */
  lock(path: string): Promise<(() => void) | undefined>;
}

export interface WatchFiles {
  /**
   * Calls `changed` when `path` may read differently: its file was written, replaced, removed or created, or a link on
   * the way to it changed. May call more often than that, and misses a change that leaves size and times as they are:
   * callers that rely on it also poll. The returned function stops it.
   *
   * Unless somebody waits for the effect of a change, as a person does who saves a configuration, let `promptly` be
   * false: each look takes a fifth of a millisecond.
   */
  watchFile(path: string, changed: () => void, options?: { readonly promptly?: boolean }): () => void;
}

export interface Files extends ReadFiles, LogFiles, WriteFiles, LinkFiles, LockFiles, WatchFiles {}

/** Ending of the temporary file that an interrupted write leaves behind. */
export const TEMPORARY = ".tmp";

/** The content of an open file. Throws `resource_exhausted` if it has more bytes, or grows beyond them. */
export async function heldBytes(file: HeldFile, bytesMax: number): Promise<Uint8Array> {
  const found = await bytesUpTo(file.pieces(), bytesMax);
  if (found) return found;
  throw new SvcError("resource_exhausted", `it has more than ${bytesMax} bytes`);
}
