/**
 * Files, as the program asks for them: one port, of which each caller takes the part that it needs.
 *
 * Promises:
 * - `writeFile`, `writePieces`, `copyFile`, `moveDurably`, `turnLink` and `removeDurably` are durable: when they
 *   resolve, a power loss takes nothing back; before, it leaves the old or the new and never a part.
 * - What has been written to an open file is durable once its `sync` resolves; until then a power loss may take any
 *   part of it, while a process that is killed takes nothing back.
 * - `createFile`, `moveFile`, `emptyFile`, `removeFile`, `remove` and `removeTree` promise nothing about a power loss.
 * - Errors are `FileError`s whose message says what was tried on which path: `not_found`, `already_exists`,
 *   `permission_denied`, `resource_exhausted` for a full disk, or `unknown`.
 *
 * `SystemFiles` has the files of this computer. Tests have theirs in memory, with power cuts, full disks and errors.
 *
 * The room owns every access to the file system, and the forms of archives and files of lines.
 */

import { type Code, SvcError } from "../error.ts";

/** What went wrong with a file. */
export class FileError extends SvcError {
  constructor(code: Code, message: string, readonly path: string, options?: { cause?: unknown }) {
    super(code, message, options);
  }
}

export type FileKind = "file" | "folder" | "link" | "other";

export interface FileFacts {
  readonly kind: FileKind;
  readonly sizeBytes: number;
  /** What it takes on the disk. */
  readonly diskBytes: number;
  readonly modifiedMs: number;
  /** The permissions, as in 0o640; 0 on Windows. */
  readonly mode: number;
}

export interface FoundFile {
  readonly path: string;
  /** Without the path of the folder that was asked for, parts separated by "/". */
  readonly name: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/**
 * A file that is only added to. Nothing here waits: when `append` returns, the bytes are with the system and a killed
 * process cannot take them back. Errors are thrown.
 */
export interface AppendFile {
  /** When it was opened. */
  readonly sizeBytes: number;
  /** When it was opened: it was empty or its last byte was a newline. */
  readonly endsLine: boolean;
  /** It is neither a device nor a pipe, so it has a size and can be renamed and replaced. */
  readonly regular: boolean;
  /** Adds all of it; where it throws, part of it may be there. */
  append(bytes: Uint8Array): void;
  close(): void;
}

/** A file that is written piece by piece. */
export interface OpenFile {
  /** Writes all of it; where it throws, part of it may be there. */
  write(bytes: Uint8Array): Promise<void>;
  sync(): Promise<void>;
  close(): void;
}

/** `new`: emptied if it is there. `append`: written at its end. `exclusive`: must not be there, not even as a link. */
export type OpenHow = "new" | "append" | "exclusive";

export interface ReadFolders {
  /** Names of a folder's entries, sorted. */
  readFolder(path: string): Promise<string[]>;
  /** The path without links. */
  realPath(path: string): Promise<string>;
}

export interface ReadFiles extends ReadFolders {
  readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
  readTextFile(path: string): Promise<string>;
  /** The content of a file of any size from byte `from` on, in its order, in pieces of at most 64 kB. */
  readPieces(path: string, from?: number): AsyncIterable<Uint8Array<ArrayBuffer>>;
  /** Size in bytes, or `undefined` where there is no file. */
  fileSize(path: string): Promise<number | undefined>;
  /** Facts of whatever is there, or `undefined`; with `links` of a link itself instead of where it leads. */
  stat(path: string, options?: { readonly links?: boolean }): Promise<FileFacts | undefined>;
  /** Facts of a regular file; `undefined` for everything else. */
  findFile(path: string): Promise<FileFacts | undefined>;
  /** A folder's entries, sorted by name; links are not followed. */
  entries(path: string): Promise<{ readonly name: string; readonly kind: FileKind }[]>;
  /** The regular file at `path`, or all those below the folder there, sorted; links below it are not followed. */
  filesAt(path: string): Promise<readonly FoundFile[]>;
  /** Room on the disk of a folder. */
  freeBytes(folder: string): Promise<number>;
}

/** What is done at once, for those who cannot wait: logs, and what lies beside them. */
export interface LogFiles extends ReadFolders {
  /** Opens a file to add to it, and makes it, and its folder, where there is none. */
  openAppend(path: string): AppendFile;
  /** Renames; a file that has the new name already is replaced. */
  moveFile(from: string, to: string): void;
  /** Empties a file that others add to. */
  emptyFile(path: string): void;
  removeFile(path: string): void;
}

export interface WriteFiles {
  /** Replaces a file, durably. It keeps nothing of the old one, nor of a link that stood in its place. */
  writeFile(path: string, content: string | Uint8Array, options?: { readonly mode?: number }): Promise<void>;
  /** The same with a content of any size. */
  writePieces(
    path: string,
    pieces: AsyncIterable<Uint8Array>,
    options?: { readonly mode?: number },
  ): Promise<void>;
  /** Replaces a file by a copy of another one, durably. */
  copyFile(from: string, to: string, options?: { readonly mode?: number }): Promise<void>;
  /** Makes a file that need not outlive a power loss. Throws `already_exists` where there is something. */
  createFile(
    path: string,
    content: string | Uint8Array | AsyncIterable<Uint8Array>,
    options?: { readonly mode?: number },
  ): Promise<void>;
  open(path: string, how: OpenHow, mode?: number): Promise<OpenFile>;
  /** Makes a folder and those above it, where they are missing. */
  makeFolder(path: string, options?: { readonly mode?: number }): Promise<void>;
  /** Makes a folder of a new name among the system's temporary files, for our user alone. */
  temporaryFolder(prefix: string): Promise<string>;
  /** Renames a file or folder on the same disk, durably. */
  moveDurably(from: string, to: string): Promise<void>;
  /** Gives a file a second name. Throws `already_exists` where there is something. */
  addName(path: string, name: string): Promise<void>;
  /** Removes a file; does nothing where there is none. */
  remove(path: string): Promise<void>;
  removeDurably(path: string): Promise<void>;
  /** Removes a file, or a folder with all that is in it; does nothing where there is nothing. Follows no links. */
  removeTree(path: string): Promise<void>;
  /** Sets permissions; does nothing on Windows. */
  setMode(path: string, mode: number): Promise<void>;
  /** Sets when a file or folder was last modified. */
  setModified(path: string, modifiedMs: number): Promise<void>;
  /** Makes a file, a folder or a link itself somebody else's. */
  setOwner(path: string, uid: number, gid: number): Promise<void>;
  /** Makes the content of a file that others have written durable. */
  syncFile(path: string): Promise<void>;
  /** Makes the names in a folder durable. */
  syncFolder(path: string): Promise<void>;
}

/** Links by their text. On Windows, where links are for the privileged, a small file with the text. */
export interface LinkFiles {
  /** The text of a link; `undefined` where there is none. */
  readLink(path: string): Promise<string | undefined>;
  /** Makes or turns a link, durably. Nobody else may turn the same one meanwhile. */
  turnLink(path: string, text: string): Promise<void>;
}

export interface WatchFiles {
  /**
   * Calls `changed` when `path` may read differently: its file was written, replaced, removed or made, or a link on
   * the way to it was turned. May call more often than that, and not at all where the system cannot watch: whoever
   * relies on it looks again now and then. The returned function stops it.
   */
  watchFile(path: string, changed: () => void): () => void;
}

export interface Files extends ReadFiles, LogFiles, WriteFiles, LinkFiles, WatchFiles {}

/** What a write that did not end leaves behind ends so. */
export const TEMPORARY = ".tmp";
