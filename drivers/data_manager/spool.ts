/**
 * Captured data on disk until its upload: a folder of numbered files, each of which is one upload.
 *
 * A file under its final name is complete and survives a power loss. Readings first collect in a file of
 * their source under another name; its content survives the end of the process. The spool is bounded: if new
 * data has no room, the oldest data is removed. Data that was refused for good is set aside and is the first
 * to be removed. Files that a user removes meanwhile are forgotten.
 */

import type { LogFiles, ReadFiles, WriteFiles } from "../../lib/base/files/files.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import { LineFile } from "../../lib/base/files/line_file.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type { Captured, CapturedFile, CapturedReading, CaptureSource } from "../../lib/resource/uploader.ts";

export type SpoolHost = ReadFiles & WriteFiles & LogFiles;

export interface SpoolLimits {
  /** Size limit of all files together. */
  readonly bytes: number;
  /** Size limit of the readings collected for one upload. */
  readonly collectedBytes: number;
  /** When there is no room, every Nth file is removed, starting with the oldest. */
  readonly removeEvery: number;
}

interface Stored {
  readonly number: number;
  readonly bytes: number;
  /** Which of the sources it is from; unknown for files of an earlier process. */
  readonly source?: number;
  /** Ready for the upload, still collecting, or refused. */
  readonly state: "ready" | "collecting" | "refused";
}

/** Readings of one source that will become a file. */
interface Collecting {
  readonly number: number;
  readonly header: string;
  readonly lines: string[];
  readonly file: LineFile;
}

const SUFFIXES = { ready: "data", collecting: "part", refused: "refused" } as const;
const NAME = /^(\d{16})\.(data|part|refused)$/;
/** Most readings in one upload. */
const READINGS_MAX = 5_000;
/** Share of the limit that is freed in addition, so that not every new file has to make room. */
const SPARE = 0.01;
const PICTURE = /^image\//;
const ENCODER = new TextEncoder();
const NEWLINE = 10;

export class Spool {
  /** By number, which is their order except for refused files. */
  readonly #stored = new Map<number, Stored>();
  /** By source. */
  readonly #collecting = new Map<string, Collecting>();
  /** Collections that are full or due but not yet under their final names. */
  readonly #unsealed = new Set<Collecting>();
  #sealing = Promise.resolve();
  #next = 1;
  #bytes = 0;
  /** The files in upload, which must not be removed. */
  readonly #held = new Map<number, Stored>();
  /** A number for each source, from 0 on. */
  readonly #sources = new Map<string, number>();
  #removed = 0;
  #reported = false;
  #goneLogged = false;

  private constructor(
    private readonly host: SpoolHost,
    private readonly folder: string,
    private readonly limits: SpoolLimits,
    private readonly logger: Logger,
  ) {}

  /** Takes over the files of an earlier process. The folder is made when there is data to keep. */
  static async open(host: SpoolHost, folder: string, limits: SpoolLimits, logger: Logger): Promise<Spool> {
    const spool = new Spool(host, folder, limits, logger);
    await spool.#recover();
    return spool;
  }

  /** Files that wait or collect, their bytes, and how many files were refused or removed for lack of room. */
  get counts(): { waiting: number; bytes: number; refused: number; removed: number } {
    const refused = [...this.#stored.values()].filter(({ state }) => state === "refused").length;
    return { waiting: this.#stored.size - refused, bytes: this.#bytes, refused, removed: this.#removed };
  }

  /**
   * Keeps a reading. Once this returns, the reading survives the end of the process. Throws if it cannot keep
   * it.
   */
  async addReading(source: CaptureSource, reading: CapturedReading, collectedBytes?: number): Promise<void> {
    const header = `${encode({ kind: "readings", source })}\n`;
    const line = `${encode(reading)}\n`;
    const lineBytes = ENCODER.encode(line).length;
    let open = this.#collecting.get(header);
    const bytesMax = Math.min(collectedBytes ?? Infinity, this.limits.collectedBytes);
    const { bytes } = open ? this.#stored.get(open.number)! : { bytes: 0 };
    const full = open !== undefined && (bytes + lineBytes > bytesMax || open.lines.length >= READINGS_MAX);
    if (full) {
      this.#endCollecting(open!);
      open = undefined;
    }
    this.#makeRoom(lineBytes + (open ? 0 : header.length));
    try {
      open ??= this.#collect(header, source);
      open.file.append(line);
    } catch (error) {
      this.#freeDisk(error, lineBytes);
      open ??= this.#collect(header, source);
      open.file.append(line);
    }
    open.lines.push(line);
    this.#grow(open.number, lineBytes);
    // If sealing fails, the next attempt reports it.
    if (full) await this.#sealAll().catch(() => {});
  }

  /** Keeps a file. Once this resolves, the file survives a power loss. Throws if it cannot keep it. */
  async addFile({ content, ...rest }: CapturedFile): Promise<void> {
    const header = ENCODER.encode(`${encode({ ...rest, bytes: content.length })}\n`);
    const whole = new Uint8Array(header.length + content.length);
    whole.set(header);
    whole.set(content, header.length);
    this.#makeRoom(whole.length);
    const number = this.#next++;
    // Nobody needs the order of pictures: each counts as a source of its own.
    const source = PICTURE.test(rest.mimeType) ? -number : this.#sourceOf(rest.source);
    this.#store({ number, bytes: whole.length, source, state: "collecting" });
    try {
      await this.host.makeFolder(this.folder);
      const write = () => this.host.writeFile(this.#path({ number, state: "ready" }), whole);
      await write().catch((error) => {
        this.#freeDisk(error, whole.length);
        return write();
      });
      this.#ready(number);
    } catch (error) {
      this.#forget(this.#stored.get(number)!);
      throw error;
    }
  }

  /** Makes all collected readings ready. */
  async seal(): Promise<void> {
    for (const open of [...this.#collecting.values()]) this.#endCollecting(open);
    await this.#sealAll();
  }

  /**
   * The oldest ready file of a source of which none is held, if it has at most `bytesMax`; held until `done`, `refuse`
   * or `release`.
   */
  async next(bytesMax = Infinity): Promise<{ number: number; bytes: number; data: Captured } | undefined> {
    for (;;) {
      const oldest = this.#oldest();
      if (!oldest || oldest.bytes > bytesMax) return undefined;
      const { number, bytes } = oldest;
      this.#held.set(number, oldest);
      const path = this.#path(oldest);
      const content = await this.#read(oldest);
      if (!content) {
        this.#forgetGone(oldest);
        continue;
      }
      const data = decode(content);
      if (data) return { number, bytes, data };
      this.logger.error(`${path} differs from the data that was written to it; setting it aside`);
      this.refuse(number);
    }
  }

  /** The upload failed: the file is ready again. */
  release(number: number): void {
    this.#held.delete(number);
  }

  /** The file has been uploaded. */
  done(number: number): void {
    this.#held.delete(number);
    const stored = this.#stored.get(number);
    if (stored) this.#remove(stored);
    if (this.#bytes <= this.limits.bytes / 2) this.#reported = false;
  }

  /** The file will never be accepted: keeps it aside while there is room. */
  refuse(number: number): void {
    this.#held.delete(number);
    const stored = this.#stored.get(number)!;
    const refused = { ...stored, state: "refused" } as const;
    try {
      this.host.moveFile(this.#path(stored), this.#path(refused));
    } catch (error) {
      unlessGone(error);
      return this.#forgetGone(stored);
    }
    this.#stored.delete(number);
    this.#stored.set(number, refused);
  }

  async #recover(): Promise<void> {
    const found = (await this.host.readFolder(this.folder).catch(() => [])).flatMap((name) => {
      const [, number, suffix] = NAME.exec(name) ?? [];
      const state = (Object.keys(SUFFIXES) as Stored["state"][]).find((one) => SUFFIXES[one] === suffix);
      return state ? [{ number: Number(number), state }] : [];
    });
    this.#next = found.reduce((next, { number }) => Math.max(next, number + 1), 1);
    for (const { number, state } of found) {
      const path = this.#path({ number, state });
      if (state !== "collecting") {
        this.#store({ number, state, bytes: await this.host.fileSize(path) ?? 0 });
        continue;
      }
      const data = decode(await this.host.readFile(path));
      // If the process ended between the two steps, the data already exists under its final name.
      const sealed = found.some((one) => one.number === number && one.state !== "collecting");
      if (!sealed && data?.kind === "readings" && data.readings.length > 0) {
        const lines = data.readings.map((one) => `${encode(one)}\n`);
        const text = [`${encode({ kind: "readings", source: data.source })}\n`, ...lines].join("");
        await this.host.writeFile(this.#path({ number, state: "ready" }), text);
        this.#store({ number, state: "ready", bytes: ENCODER.encode(text).length });
      }
      this.host.removeFile(path);
    }
  }

  #collect(header: string, source: CaptureSource): Collecting {
    const number = this.#next++;
    const file = new LineFile(this.host, this.#path({ number, state: "collecting" }));
    file.append(header);
    const open = { number, header, lines: [], file };
    this.#collecting.set(header, open);
    this.#store({ number, bytes: header.length, source: this.#sourceOf(source), state: "collecting" });
    return open;
  }

  #endCollecting(open: Collecting): void {
    this.#collecting.delete(open.header);
    this.#unsealed.add(open);
    open.file.close();
  }

  /** Seals one collection after the other. A collection whose seal fails stays as it is, for a later attempt. */
  #sealAll(): Promise<void> {
    const sealing = this.#sealing.then(async () => {
      for (const open of this.#unsealed) {
        const { number, header, lines } = open;
        await this.host.makeFolder(this.folder);
        await this.host.writeFile(this.#path({ number, state: "ready" }), [header, ...lines].join(""));
        this.#removeFile({ number, state: "collecting" });
        this.#unsealed.delete(open);
        this.#ready(number);
      }
    });
    this.#sealing = sealing.catch(() => {});
    return sealing;
  }

  /** Files of an earlier process go alone: any other file might be of the same source. */
  #oldest(): Stored | undefined {
    const busy = new Set([...this.#held.values()].map(({ source }) => source));
    if (busy.has(undefined)) return undefined;
    for (const stored of this.#stored.values()) {
      if (stored.state !== "ready" || busy.has(stored.source)) continue;
      return stored.source !== undefined || busy.size === 0 ? stored : undefined;
    }
    return undefined;
  }

  /** The content of a file that is held; it is no longer if it cannot be read. */
  async #read(stored: Stored): Promise<Uint8Array | undefined> {
    try {
      return await this.host.readFile(this.#path(stored)).catch(unlessGone);
    } catch (error) {
      this.release(stored.number);
      throw error;
    }
  }

  /** Its parameters and tags do not count: callers choose them, and there would be no end of sources. */
  #sourceOf({ componentType, componentName, methodName }: CaptureSource): number {
    return this.#sources.getOrInsert(`${componentType} ${componentName} ${methodName}`, this.#sources.size);
  }

  #ready(number: number): void {
    this.#stored.set(number, { ...this.#stored.get(number)!, state: "ready" });
  }

  /** Removes files until this many more bytes have room: refused files first, then the oldest. */
  #makeRoom(bytes: number): void {
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
  #freeDisk(error: unknown, bytes: number): void {
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

  #remove(stored: Stored): void {
    this.#forget(stored);
    try {
      this.#removeFile(stored);
    } catch (error) {
      this.logger.error(`captured data stays behind: ${messageOf(error)}`);
    }
  }

  #forget({ number, bytes }: Stored): void {
    this.#held.delete(number);
    this.#stored.delete(number);
    this.#bytes -= bytes;
  }

  /** Somebody else has removed the file. */
  #forgetGone(stored: Stored): void {
    this.#forget(stored);
    if (this.#goneLogged) return;
    this.#goneLogged = true;
    this.logger.warn(
      `${this.#path(stored)} was removed before it was sent; other removed files are not told of`,
    );
  }

  #removeFile(stored: Pick<Stored, "number" | "state">): void {
    try {
      this.host.removeFile(this.#path(stored));
    } catch (error) {
      unlessGone(error);
    }
  }

  #store(stored: Stored): void {
    this.#stored.set(stored.number, stored);
    this.#bytes += stored.bytes;
  }

  #grow(number: number, bytes: number): void {
    const stored = this.#stored.get(number)!;
    this.#stored.set(number, { ...stored, bytes: stored.bytes + bytes });
    this.#bytes += bytes;
  }

  #path({ number, state }: Pick<Stored, "number" | "state">): string {
    return `${this.folder}/${String(number).padStart(16, "0")}.${SUFFIXES[state]}`;
  }
}

/**
 * The files to remove to free this many bytes. Never includes files that are still collecting or held.
 */
export function toRemove(
  stored: readonly Stored[],
  excessBytes: number,
  every: number,
  held: Pick<ReadonlyMap<number, unknown>, "has"> = new Map(),
): readonly Stored[] {
  const going: Stored[] = [];
  let left = excessBytes;
  const take = (one: Stored) => {
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

/** JSON text with a spelling of its own for numbers that JSON lacks, such as NaN. */
function encode(value: unknown): string {
  return JSON.stringify(
    value,
    (_name, one) => typeof one === "number" && !Number.isFinite(one) ? { $number: String(one) } : one,
  );
}

function decode(bytes: Uint8Array): Captured | undefined {
  const [line, at] = lineAt(bytes, 0);
  const header = parsed(line) as Captured & { bytes?: number } | undefined;
  if (header?.kind === "file") {
    const { bytes: length, ...file } = header as CapturedFile & { bytes: number };
    return bytes.length - at === length ? { ...file, content: bytes.subarray(at) } : undefined;
  }
  if (header?.kind !== "readings") return undefined;
  const readings: CapturedReading[] = [];
  for (let from = at; from < bytes.length;) {
    const [text, next] = lineAt(bytes, from);
    const reading = parsed(text) as CapturedReading | undefined;
    // A line that was cut short counts as missing.
    if (reading) readings.push(reading);
    from = next;
  }
  return { ...header, readings };
}

/** The complete line that begins at a byte (empty if it is cut short), and where the next line begins. */
function lineAt(bytes: Uint8Array, from: number): [string, number] {
  const end = bytes.indexOf(NEWLINE, from);
  return end < 0 ? ["", bytes.length] : [new TextDecoder().decode(bytes.subarray(from, end)), end + 1];
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line, (_name, one) => typeof one?.$number === "string" ? Number(one.$number) : one);
  } catch {
    return undefined;
  }
}
