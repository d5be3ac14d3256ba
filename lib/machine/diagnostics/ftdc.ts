/**
 * Full-time data capture: metrics of the program, every second, in files for the time after a failure.
 *
 * Owns the folder of captures. No failure of it, a full disk included, reaches the rest of the program. After a kill
 * the files are intact except for the last seconds.
 */

import type { AppendFile, LogFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { encodeBlock, type MetricSample } from "./ftdc_format.ts";

/** The present metrics of a part of the program: whole numbers by name, such as `process.cpu_total_us`. */
export type MetricSource = () => { readonly [metric: string]: number };

export interface FtdcLimits {
  readonly sampleMs: number;
  /** Samples per block: a kill may lose one block. */
  readonly blockSamples: number;
  readonly fileBytes: number;
  readonly files: number;
}

const FTDC_LIMITS: FtdcLimits = {
  sampleMs: 1_000,
  blockSamples: 10,
  fileBytes: 10_000_000,
  files: 20,
};

/** Interval of measuring how late a timer fires, that is, how long the program was busy. Each wake-up costs CPU. */
const LAG_PROBE_MS = 500;

const CAPTURE_SUFFIX = ".jsonl.gz";

export interface FtdcParts {
  readonly folder: string;
  readonly sources: readonly MetricSource[];
  readonly host: LogFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits?: Partial<FtdcLimits>;
}

export class Ftdc {
  readonly #parts: FtdcParts;
  readonly #limits: FtdcLimits;
  readonly #files: CaptureFiles;
  readonly #told = new Set<string>();
  #samples: MetricSample[] = [];
  #lagMs = 0;
  #sampleDueMs: number;
  #callOff = () => {};

  private constructor(parts: FtdcParts, names: readonly string[]) {
    this.#parts = parts;
    this.#limits = { ...FTDC_LIMITS, ...parts.limits };
    this.#files = new CaptureFiles(parts, this.#limits, names);
    this.#sampleDueMs = parts.clock.monotonicMs() + this.#limits.sampleMs;
    this.#probe();
  }

  /** Starts capturing. Never rejects. */
  static async start(parts: FtdcParts): Promise<Ftdc> {
    const names = await parts.host.readFolder(parts.folder).catch(() => []);
    return new Ftdc(parts, names.filter((name) => name.endsWith(CAPTURE_SUFFIX)));
  }

  /** Writes the open block, and ends. Idempotent. */
  close(): void {
    this.#callOff();
    this.#flush();
    this.#files.close();
  }

  #probe(): void {
    const { clock } = this.#parts;
    const dueMs = clock.monotonicMs() + LAG_PROBE_MS;
    this.#callOff = clock.after(LAG_PROBE_MS, () => {
      const nowMs = clock.monotonicMs();
      this.#lagMs = Math.max(this.#lagMs, nowMs - dueMs);
      const overdueMs = nowMs - this.#sampleDueMs;
      if (overdueMs >= 0) {
        this.#sample();
        // Skips the seconds in which the program was held up.
        const { sampleMs } = this.#limits;
        this.#sampleDueMs += (Math.floor(overdueMs / sampleMs) + 1) * sampleMs;
      }
      this.#probe();
    });
  }

  #sample(): void {
    const values: { [metric: string]: number } = { "loop.lag_max_us": this.#lagMs * 1_000 };
    this.#lagMs = 0;
    for (const source of this.#parts.sources) {
      try {
        Object.assign(values, source());
      } catch (error) {
        this.#tellOnce(`cannot take a sample: ${messageOf(error)}`);
      }
    }
    this.#samples.push({ timeMs: this.#parts.clock.nowMs(), values });
    if (this.#samples.length >= this.#limits.blockSamples) this.#flush();
  }

  #flush(): void {
    if (this.#samples.length === 0) return;
    const samples = this.#samples;
    this.#samples = [];
    this.#files.write(encodeBlock(samples));
  }

  #tellOnce(problem: string): void {
    if (this.#told.has(problem)) return;
    this.#told.add(problem);
    this.#parts.logger.warn(problem);
  }
}

/** The files of a folder: the newest one grows until it is full, the oldest ones are removed. */
class CaptureFiles {
  #file: AppendFile | undefined;
  #fileBytes = 0;
  #failing = false;
  readonly #names: string[];

  /** `names`: the files of the folder, oldest first. */
  constructor(
    private readonly parts: FtdcParts,
    private readonly limits: FtdcLimits,
    names: readonly string[],
  ) {
    this.#names = [...names];
  }

  /** Appends a block, or reports once why it cannot; never throws. */
  write(block: Uint8Array): void {
    const { logger, folder } = this.parts;
    if (this.#fileBytes + block.length > this.limits.fileBytes) this.close();
    const fresh = this.#file === undefined ? this.#nextName() : undefined;
    try {
      this.#file ??= this.parts.host.openAppend(`${folder}/${fresh}`);
      this.#file.append(block);
    } catch (error) {
      // A partial write is a torn block, so the next block starts a new file.
      this.close();
      // A disk that stays full for days must not push out the good files.
      if (fresh !== undefined) this.#remove(fresh);
      if (!this.#failing) logger.error(`diagnostics are not captured: ${messageOf(error)}`);
      this.#failing = true;
      return;
    }
    if (this.#failing) logger.info(`diagnostics are captured again in "${folder}"`);
    this.#failing = false;
    this.#fileBytes += block.length;
    if (fresh !== undefined) this.#names.push(fresh);
    while (this.#names.length > this.limits.files) this.#remove(this.#names.shift()!);
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
    this.#fileBytes = 0;
  }

  /** Names start with a number, because the system's time may jump. */
  #nextName(): string {
    const last = Number.parseInt(this.#names.at(-1) ?? "0");
    const time = new Date(this.parts.clock.nowMs()).toISOString().replaceAll(":", "-");
    return `${String((last || 0) + 1).padStart(6, "0")}-${time}${CAPTURE_SUFFIX}`;
  }

  /** A file that cannot be removed stays. */
  #remove(name: string): void {
    try {
      this.parts.host.removeFile(`${this.parts.folder}/${name}`);
    } catch (error) {
      this.parts.logger.debug(`cannot remove an old capture: ${messageOf(error)}`);
    }
  }
}
