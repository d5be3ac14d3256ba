/**
 * What the program needs of the machine it runs on. `host_deno.ts` is the real one; tests give their own.
 *
 * Errors are `SvcError`s that name the path: `not_found`, `permission_denied`, or `unknown` for the rest.
 */

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

export interface FoundFile {
  readonly path: string;
  /** Without the path of the folder that was asked for, parts separated by "/". */
  readonly name: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/** Memory that a device shares. */
export interface DeviceMemory {
  /** A copy of its first bytes. */
  read(bytes: number): Uint8Array<ArrayBuffer>;
}

/**
 * A character device. Errors are `unavailable` for one that is gone, `invalid_argument` for what it does not take,
 * `resource_exhausted` where somebody else uses it, `aborted` where there is nothing yet.
 */
export interface Device {
  readonly path: string;
  /** A control call by its number; `data` goes in, and comes out as the device has changed it. */
  control(request: number, data: Uint8Array<ArrayBuffer>): void;
  map(offset: number, bytes: number): DeviceMemory;
  /** Whether there is something to fetch, or to fail at, within that time. Not to be closed meanwhile. */
  readable(withinMs: number): Promise<boolean>;
  /** Idempotent. */
  close(): void;
}

export interface Host {
  /** The value of an environment variable. */
  env(name: string): string | undefined;
  /** Everything in the environment. */
  environment(): Record<string, string>;
  hostname(): string;
  /** `linux`, `windows`, `darwin` and `x64`, `arm64`. */
  platform(): { os: string; arch: string };
  cwd(): string;
  readFile(path: string): Promise<Uint8Array>;
  readTextFile(path: string): Promise<string>;
  /** Opens a character device. */
  openDevice(path: string): Device;
  /** The path without links. */
  realPath(path: string): Promise<string>;
  /** The regular file at `path`, or all those below the folder there, sorted; links below it are not followed. */
  filesAt(path: string): Promise<readonly FoundFile[]>;
  /** The content of a file of any size, in its order, in pieces of at most 64 kB. */
  readPieces(path: string): AsyncIterable<Uint8Array>;
  /** Names of a folder's entries, sorted. */
  readFolder(path: string): Promise<string[]>;
  /** Replaces a file so that after a power loss it is whole: the old or the new. */
  writeFile(path: string, content: string | Uint8Array, options?: { mode?: number }): Promise<void>;
  /** Size in bytes, or `undefined` where there is no file. */
  fileSize(path: string): Promise<number | undefined>;
  /** Makes a folder and those above it, where they are missing. */
  makeFolder(path: string): Promise<void>;
  /** Opens a file to add to it, and makes it, and its folder, where there is none. */
  openAppend(path: string): AppendFile;
  /** Renames a file, at once; one that has the new name already is replaced. */
  moveFile(from: string, to: string): void;
  /** Empties a file that others add to, at once. */
  emptyFile(path: string): void;
  /** Removes a file, at once. */
  removeFile(path: string): void;
  /**
   * Writes to standard output / standard error, for what is data rather than log. Control characters are written out
   * (`escape.ts`), as much of it comes from elsewhere; JSON stays the same value.
   */
  write(text: string): void;
  writeError(text: string): void;
  /** Writes to standard error as it is: what moves the cursor or has a colour. Nothing that comes from elsewhere. */
  draw(text: string): void;
  /** Whether standard output is a terminal that shows colours, and nobody asked for none (`NO_COLOR`). */
  coloured(): boolean;
  /**
   * Calls `changed` when `path` may read differently: its file was written, replaced, removed or made, or a link on
   * the way to it was turned. May call more often than that, and not at all where the system cannot watch: whoever
   * relies on it looks again now and then. The returned function stops it.
   */
  watchFile(path: string, changed: () => void): () => void;
  /** Calls `run` when the process is asked to end; the returned function stops listening. */
  onTermination(run: (signal: string) => void): () => void;
  /** Memory of this process, and the CPU time it has used since its start. */
  usage(): { readonly residentBytes: number; readonly heapUsedBytes: number; readonly cpuUs: number };
}
