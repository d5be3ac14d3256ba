/**
 * The numbered files of a spool: which there are, their order, and the bytes that they may have together.
 *
 * Owns the folder. If new data has no room, the oldest files are removed; refused files go first, and files in upload
 * stay. Files that a user removes meanwhile are forgotten.
 */

import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { LogFiles, ReadFiles, WriteFiles } from "../../lib/base/files/files.ts";
import type { Logger } from "../../lib/base/log/log.ts";

export type SpoolHost = ReadFiles & WriteFiles & LogFiles;

export interface SpoolLimits {
  /** Size limit of all files together. */
  readonly bytes: number;
  /** Size limit of the readings collected for one upload. */
  readonly collectedBytes: number;
  /** When there is no room, every Nth file is removed, starting with the oldest. */
  readonly removeEvery: number;
}

export interface SpooledSource {
  readonly number: number;
  /** Files of the same line arrive in their order. */
  readonly line: number;
}

export interface SpooledFile {
  readonly number: number;
  readonly bytes: number;
  /** Which of the sources it is from; unknown for files of an earlier process. */
  readonly source?: SpooledSource;
  /** Ready for the upload, still collecting, or refused. */
  readonly state: "ready" | "collecting" | "refused";
}

const SUFFIXES = { ready: "data", collecting: "part", refused: "refused" } as const;
const NAME = /^(\d{16})\.(data|part|refused)$/;
/** Share of the limit that is freed in addition, so that not every new file has to make room. */
const SPARE = 0.01;

/** How often the upload of a file has failed, and of files of a source since the last one of it that arrived. */
class Failures {
  readonly #ofFile = new Map<number, number>();
  readonly #ofSource = new Map<number | undefined, number>();

  /** The numbers of the files that have failed. */
  get files(): Iterable<number> {
    return this.#ofFile.keys();
  }

  has({ number, source }: SpooledFile): boolean {
    return this.#ofFile.has(number) || this.#ofSource.has(source?.number);
  }

  /** Above 0 if the first one has failed more: first its source, then the file. */
  compare(one: SpooledFile, other: SpooledFile): number {
    const ofSource = ({ source }: SpooledFile) => this.#ofSource.get(source?.number) ?? 0;
    const ofFile = ({ number }: SpooledFile) => this.#ofFile.get(number) ?? 0;
    return ofSource(one) - ofSource(other) || ofFile(one) - ofFile(other);
  }

  add({ number, source }: SpooledFile): void {
    this.#ofFile.set(number, (this.#ofFile.get(number) ?? 0) + 1);
    this.#ofSource.set(source?.number, (this.#ofSource.get(source?.number) ?? 0) + 1);
  }

  /** A file has arrived. */
  endOf({ source }: SpooledFile): void {
    this.#ofSource.delete(source?.number);
  }

  forget({ number }: SpooledFile): void {
    this.#ofFile.delete(number);
  }
}

export class SpoolFiles {
  /** By number, which is their order except for refused files. */
  readonly #stored = new Map<number, SpooledFile>();
  #next = 1;
  #bytes = 0;
  /** The files in upload, which must not be removed. */
  readonly #held = new Map<number, SpooledFile>();
  readonly #failures = new Failures();
  #removed = 0;
  #reported = false;
  #goneLogged = false;

  constructor(
    private readonly host: SpoolHost,
    private readonly folder: string,
    private readonly limits: SpoolLimits,
    private readonly logger: Logger,
  ) {}

  /**
   * Takes over the files of an earlier process. `complete` gives the text of a file whose collection had not ended, or
   * nothing if it is of no use.
   */
  async takeOver(complete: (content: Uint8Array) => string | undefined): Promise<void> {
    const found = (await this.host.readFolder(this.folder).catch(() => [])).flatMap((name) => {
      const [, number, suffix] = NAME.exec(name) ?? [];
      const state = (Object.keys(SUFFIXES) as SpooledFile["state"][]).find((one) => SUFFIXES[one] === suffix);
      return state ? [{ number: Number(number), state }] : [];
    });
    this.#next = found.reduce((next, { number }) => Math.max(next, number + 1), 1);

    for (const { number, state } of found) {
      const path = this.pathOf({ number, state });
      if (state !== "collecting") {
        this.#store({ number, state, bytes: await this.host.fileSize(path) ?? 0 });
        continue;
      }

      const content = await this.host.readFile(path);
      // If the process ended between the two steps, the data already exists under its final name.
      const sealed = found.some((one) => one.number === number && one.state !== "collecting");
      const text = sealed ? undefined : complete(content);
      if (text !== undefined) {
        await this.host.writeFile(this.pathOf({ number, state: "ready" }), text);
        this.#store({ number, state: "ready", bytes: new TextEncoder().encode(text).length });
      }
      this.host.removeFile(path);
    }
  }

  /** Files that wait or collect, their bytes, and how many files were refused or removed for lack of room. */
  get counts(): { waiting: number; bytes: number; refused: number; removed: number } {
    const refused = [...this.#stored.values()].filter(({ state }) => state === "refused").length;
    return { waiting: this.#stored.size - refused, bytes: this.#bytes, refused, removed: this.#removed };
  }

  pathOf({ number, state }: Pick<SpooledFile, "number" | "state">): string {
    return `${this.folder}/${String(number).padStart(16, "0")}.${SUFFIXES[state]}`;
  }

  /** Makes the folder, which exists only once there is data to keep. */
  async makeFolder(): Promise<void> {
    await this.host.makeFolder(this.folder);
  }

  /** The number of a new file. */
  takeNumber(): number {
    return this.#next++;
  }

  /** Adds a file that is still being written. */
  add(file: Omit<SpooledFile, "state">): void {
    this.#store({ ...file, state: "collecting" });
  }

  bytesOf(number: number): number {
    return this.#stored.get(number)?.bytes ?? 0;
  }

  /** A file that is still being written has grown. */
  grow(number: number, bytes: number): void {
    if (this.#change(number, { bytes: this.bytesOf(number) + bytes })) this.#bytes += bytes;
  }

  /** The file is complete under its final name. */
  setReady(number: number): void {
    this.#change(number, { state: "ready" });
  }

  /** The file could not be written. */
  drop(number: number): void {
    const stored = this.#stored.get(number);
    if (stored) this.#forget(stored);
  }

  /**
   * Holds the oldest ready file, of the lines without a held file, until `done`, `refuse` or `release`; `undefined` if
   * there is none, or it is larger than `bytesMax`. Sources whose last uploads have failed come after the others, and in
   * them the files that have failed themselves.
   */
  hold(bytesMax: number): SpooledFile | undefined {
    const oldest = nextOf(this.#stored.values(), this.#held, this.#failures);
    if (!oldest || oldest.bytes > bytesMax) return undefined;
    this.#held.set(oldest.number, oldest);
    return oldest;
  }

  /**
   * Gives a held file of an earlier process its source, once its content has told it. Returns false, and no longer holds
   * the file, if it has to wait for another one of its line.
   */
  setSource(number: number, source: SpooledSource): boolean {
    const first = [...this.#held.keys(), ...this.#failures.files];
    const isFree = first.every((one) =>
      one === number || this.#stored.get(one)?.source?.line !== source.line
    );
    this.#change(number, { source });
    const stored = this.#stored.get(number);
    if (isFree && stored) this.#held.set(number, stored);
    else this.release(number);
    return isFree;
  }

  /** The content of a file that is held, or nothing if a user has removed the file. It is no longer held on an error. */
  async read(stored: SpooledFile): Promise<Uint8Array | undefined> {
    try {
      const content = await this.host.readFile(this.pathOf(stored)).catch(unlessGone);
      if (!content) this.#forgetGone(stored);
      return content;
    } catch (error) {
      this.release(stored.number);
      throw error;
    }
  }

  /** The file is ready again. */
  release(number: number, { hasFailed = false } = {}): void {
    this.#held.delete(number);
    const stored = this.#stored.get(number);
    if (hasFailed && stored) this.#failures.add(stored);
  }

  /** The file has been uploaded. */
  done(number: number): void {
    this.#held.delete(number);
    const stored = this.#stored.get(number);
    if (stored) {
      this.#failures.endOf(stored);
      this.#remove(stored);
    }
    if (this.#bytes <= this.limits.bytes / 2) this.#reported = false;
  }

  /** The file will never be accepted: keeps it aside while there is room. */
  refuse(number: number): void {
    this.#held.delete(number);
    const stored = this.#stored.get(number);
    if (!stored) return;
    const refused = { ...stored, state: "refused" } as const;
    try {
      this.host.moveFile(this.pathOf(stored), this.pathOf(refused));
    } catch (error) {
      unlessGone(error);
      return this.#forgetGone(stored);
    }
    this.#stored.delete(number);
    this.#failures.forget(stored);
    this.#stored.set(number, refused);
  }

  /** Removes a file from the disk, if it is still there. */
  removeFile(stored: Pick<SpooledFile, "number" | "state">): void {
    try {
      this.host.removeFile(this.pathOf(stored));
    } catch (error) {
      unlessGone(error);
    }
  }

  /** Removes files until this many more bytes have room: refused files first, then the oldest. */
  makeRoom(bytes: number): void {
    if (bytes > this.limits.bytes) {
      throw new SvcError(
        "resource_exhausted",
        `the data has ${bytes} bytes, wanted at most the ${this.limits.bytes} of ${this.folder}`,
      );
    }
    const excess = this.#bytes + bytes - this.limits.bytes;
    if (excess > 0) this.#free(excess);
  }

  /** Makes room on a disk that is full before the spool is; rethrows every other error. */
  freeDisk(error: unknown, bytes: number): void {
    if (SvcError.from(error).code !== "resource_exhausted" || this.#free(bytes) === 0) throw error;
  }

  #free(bytes: number): number {
    // Frees slightly more, so that not every file has to make room.
    const wanted = bytes + Math.floor(this.limits.bytes * SPARE);
    const going = toRemove([...this.#stored.values()], wanted, this.limits.removeEvery, this.#held);
    for (const stored of going) {
      this.#remove(stored);
      this.#removed++;
    }
    if (going.length > 0 && !this.#reported) {
      this.#reported = true;
      this.logger.warn(`${this.folder} is full: removing the oldest captured data`, { bytes: this.#bytes });
    }
    return going.length;
  }

  #remove(stored: SpooledFile): void {
    this.#forget(stored);
    try {
      this.removeFile(stored);
    } catch (error) {
      this.logger.error(`captured data stays behind: ${messageOf(error)}`);
    }
  }

  #forget(stored: SpooledFile): void {
    const { number, bytes } = stored;
    this.#failures.forget(stored);
    this.#held.delete(number);
    this.#stored.delete(number);
    this.#bytes -= bytes;
  }

  /** Somebody else has removed the file. */
  #forgetGone(stored: SpooledFile): void {
    this.#forget(stored);
    if (this.#goneLogged) return;
    this.#goneLogged = true;
    this.logger.warn(
      `${this.pathOf(stored)} was removed before it was sent; other removed files are not told of`,
    );
  }

  #store(stored: SpooledFile): void {
    this.#stored.set(stored.number, stored);
    this.#bytes += stored.bytes;
  }

  #change(number: number, change: Partial<SpooledFile>): boolean {
    const stored = this.#stored.get(number);
    if (stored) this.#stored.set(number, { ...stored, ...change });
    return stored !== undefined;
  }
}

/** The next file to send. */
function nextOf(
  all: Iterable<SpooledFile>,
  held: ReadonlyMap<number, SpooledFile>,
  failures: Failures,
): SpooledFile | undefined {
  const busy = new Set([...held.values()].map(({ source }) => source?.line));
  let best: SpooledFile | undefined;
  for (const stored of all) {
    const { number, state, source } = stored;
    // The line of a file of an earlier process is unknown: whoever holds it looks.
    const isBusy = held.has(number) || source !== undefined && busy.has(source.line);
    if (state !== "ready" || isBusy) continue;
    if (!failures.has(stored)) return stored;
    // Nothing of its line goes before it.
    busy.add(source?.line);
    if (!best || failures.compare(stored, best) < 0) best = stored;
  }
  return best;
}

/**
 * The files to remove to free this many bytes. Never includes files that are still collecting or held.
 */
export function toRemove(
  stored: readonly SpooledFile[],
  excessBytes: number,
  every: number,
  held: Pick<ReadonlyMap<number, unknown>, "has"> = new Map(),
): readonly SpooledFile[] {
  const going: SpooledFile[] = [];
  let left = excessBytes;
  const take = (one: SpooledFile) => {
    if (left <= 0) return false;
    going.push(one);
    left -= one.bytes;
    return true;
  };
  const removable = stored.filter(({ state, number }) => state !== "collecting" && !held.has(number))
    .sort((one, other) => one.number - other.number);
  removable.filter(({ state }) => state === "refused").forEach(take);
  let rest = removable.filter(({ state }) => state === "ready");
  while (left > 0 && rest.length > 0) {
    rest = rest.filter((one, index) => index % every !== 0 || !take(one));
  }
  return going;
}

/** Rethrows every error but that of a missing file. */
function unlessGone(error: unknown): undefined {
  if (SvcError.from(error).code !== "not_found") throw error;
}
