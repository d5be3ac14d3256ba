/**
 * Captured data on disk until its upload: a folder of numbered files, each of which is one upload.
 *
 * A file under its final name is complete and survives a power loss. Readings first collect in a file of
 * their source under another name; its content survives the end of the process. The spool is bounded: if new
 * data has no room, the oldest data is removed. Data that was refused for good is set aside and is the first
 * to be removed. Files that a user removes meanwhile are forgotten.
 */

import { LineFile } from "../../lib/base/files/line_file.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type {
  Captured,
  CapturedFile,
  CapturedReading,
  CapturedSequence,
  CaptureSource,
} from "../../lib/resource/uploader.ts";
import { decodeCaptured, encodeLine } from "./spool_content.ts";
import { type SpooledSource, SpoolFiles, type SpoolHost, type SpoolLimits } from "./spool_files.ts";

/** Readings of one source that will become a file. */
interface Collecting {
  readonly number: number;
  readonly header: string;
  readonly lines: string[];
  readonly file: LineFile;
}

/** Most readings in one upload. */
const READINGS_MAX = 5_000;
const PICTURE = /^image\//;
const ENCODER = new TextEncoder();

export class Spool {
  readonly #files: SpoolFiles;
  /** A number for each source, from 1 on. */
  readonly #sources = new Map<string, number>();
  /** By source. */
  readonly #collecting = new Map<string, Collecting>();
  /** Collections that are full or due but not yet under their final names. */
  readonly #unsealed = new Set<Collecting>();
  #sealing = Promise.resolve();

  private constructor(
    private readonly host: SpoolHost,
    folder: string,
    private readonly limits: SpoolLimits,
    private readonly logger: Logger,
  ) {
    this.#files = new SpoolFiles(host, folder, limits, logger);
  }

  /** Takes over the files of an earlier process. The folder is made when there is data to keep. */
  static async open(host: SpoolHost, folder: string, limits: SpoolLimits, logger: Logger): Promise<Spool> {
    const spool = new Spool(host, folder, limits, logger);
    await spool.#files.takeOver(completed);
    return spool;
  }

  /** Files that wait or collect, their bytes, and how many files were refused or removed for lack of room. */
  get counts(): SpoolFiles["counts"] {
    return this.#files.counts;
  }

  /**
   * Keeps a reading. Once this returns, the reading survives the end of the process. Throws if it cannot keep
   * it.
   */
  async addReading(source: CaptureSource, reading: CapturedReading, collectedBytes?: number): Promise<void> {
    const header = `${encodeLine({ kind: "readings", source })}\n`;
    const line = `${encodeLine(reading)}\n`;
    const lineBytes = ENCODER.encode(line).length;
    let open = this.#collecting.get(header);
    const bytesMax = Math.min(collectedBytes ?? Infinity, this.limits.collectedBytes);
    const bytes = open ? this.#files.bytesOf(open.number) : 0;
    const isFull = bytes + lineBytes > bytesMax;
    const full = open && (isFull || open.lines.length >= READINGS_MAX) ? open : undefined;
    if (full) {
      this.#endCollecting(full);
      open = undefined;
    }
    this.#files.makeRoom(lineBytes + (open ? 0 : header.length));
    try {
      open ??= this.#collect(header, source);
      open.file.append(line);
    } catch (error) {
      this.#files.freeDisk(error, lineBytes);
      open ??= this.#collect(header, source);
      open.file.append(line);
    }
    open.lines.push(line);
    this.#files.grow(open.number, lineBytes);
    // If sealing fails, the next attempt reports it.
    if (full) await this.#sealAll().catch(() => {});
  }

  /** Keeps a file. Once this resolves, the file survives a power loss. Throws if it cannot keep it. */
  async addFile({ content, ...rest }: CapturedFile): Promise<void> {
    const header = ENCODER.encode(`${encodeLine({ ...rest, bytes: content.length })}\n`);
    const whole = new Uint8Array(header.length + content.length);
    whole.set(header);
    whole.set(content, header.length);
    await this.#addWhole(whole, (number) => this.#sourceOfFile(number, rest));
  }

  /** Keeps a sequence, as `addFile` does a file. */
  async addSequence(sequence: CapturedSequence): Promise<void> {
    const whole = ENCODER.encode(`${encodeLine(sequence)}\n`);
    await this.#addWhole(whole, () => this.#sourceOf(sequence.source));
  }

  async #addWhole(whole: Uint8Array, sourceOf: (number: number) => SpooledSource): Promise<void> {
    this.#files.makeRoom(whole.length);
    const number = this.#files.takeNumber();
    const source = sourceOf(number);
    this.#files.add({ number, bytes: whole.length, source });
    try {
      await this.#files.makeFolder();
      const write = () => this.host.writeFile(this.#files.pathOf({ number, state: "ready" }), whole);
      await write().catch((error) => {
        this.#files.freeDisk(error, whole.length);
        return write();
      });
      this.#files.setReady(number);
    } catch (error) {
      this.#files.drop(number);
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
    for (let held; (held = this.#files.hold(bytesMax));) {
      const content = await this.#files.read(held);
      if (!content) continue;
      const { number, bytes } = held;
      const data = decodeCaptured(content);
      if (data && held.source === undefined) {
        const source = data.kind === "file" ? this.#sourceOfFile(number, data) : this.#sourceOf(data.source);
        if (!this.#files.setSource(number, source)) continue;
      }
      if (data) return { number, bytes, data };
      const path = this.#files.pathOf(held);
      this.logger.error(`${path} differs from the data that was written to it; setting it aside`);
      this.#files.refuse(number);
    }
    return undefined;
  }

  /** The file is ready again; one whose upload has failed for a reason of its own comes after the others. */
  release(number: number, { hasFailed = false } = {}): void {
    this.#files.release(number, { hasFailed });
  }

  /** The file has been uploaded. */
  done(number: number): void {
    this.#files.done(number);
  }

  /** The file will never be accepted: keeps it aside while there is room. */
  refuse(number: number): void {
    this.#files.refuse(number);
  }

  #collect(header: string, source: CaptureSource): Collecting {
    const number = this.#files.takeNumber();
    const file = new LineFile(this.host, this.#files.pathOf({ number, state: "collecting" }));
    file.append(header);
    const open = { number, header, lines: [], file };
    this.#collecting.set(header, open);
    this.#files.add({ number, bytes: header.length, source: this.#sourceOf(source) });
    return open;
  }

  /** Nobody needs the order of pictures and of files from folders: each has a line of its own. */
  #sourceOfFile(number: number, { mimeType, source }: Pick<CapturedFile, "mimeType" | "source">) {
    const own = this.#sourceOf(source);
    const isAlone = PICTURE.test(mimeType) || source.componentName === "";
    return isAlone ? { ...own, line: -number } : own;
  }

  /** Parameters and tags do not count: callers choose them, and there would be no end of sources. */
  #sourceOf({ componentType, componentName, methodName }: CaptureSource): SpooledSource {
    const name = `${componentType} ${componentName} ${methodName}`;
    const number = this.#sources.getOrInsert(name, this.#sources.size + 1);
    return { number, line: number };
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
        await this.#files.makeFolder();
        await this.host.writeFile(
          this.#files.pathOf({ number, state: "ready" }),
          [header, ...lines].join(""),
        );
        this.#files.removeFile({ number, state: "collecting" });
        this.#unsealed.delete(open);
        this.#files.setReady(number);
      }
    });
    this.#sealing = sealing.catch(() => {});
    return sealing;
  }
}

/** The text of a file whose collection ended with its process; nothing if it has no complete reading. */
function completed(content: Uint8Array): string | undefined {
  const data = decodeCaptured(content);
  if (data?.kind !== "readings" || data.readings.length === 0) return undefined;
  const lines = data.readings.map((one) => `${encodeLine(one)}\n`);
  return [`${encodeLine({ kind: "readings", source: data.source })}\n`, ...lines].join("");
}
