/**
 * Full-time data capture: metrics of the program, every second, in files for the time after a failure.
 *
 * Owns the folder of captures. No failure of it, a full disk included, reaches the rest of the program. After a kill
 * the files are intact except for the last seconds.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import type { LogFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { CaptureFiles } from "./capture_files.ts";
import { encodeBlock, type MetricSample } from "./ftdc_format.ts";
import { PublishedCapture } from "./published_ftdc.ts";

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
/** The same samples for the published command line. */
const PUBLISHED_SUFFIX = ".ftdc";

export interface FtdcParts {
  readonly folder: string;
  readonly sources: readonly MetricSource[];
  readonly host: LogFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with each sample. */
  readonly sampled?: (sample: MetricSample) => void;
  readonly limits?: Partial<FtdcLimits>;
}

export class Ftdc {
  readonly #parts: FtdcParts;
  readonly #limits: FtdcLimits;
  readonly #files: CaptureFiles;
  readonly #publishedFiles: CaptureFiles;
  readonly #published = new PublishedCapture();
  readonly #problems = new LogOnChange();
  #samples: MetricSample[] = [];
  #lagMs = 0;
  #sampleDueMs: number;
  #callOff = () => {};

  private constructor(parts: FtdcParts, names: readonly string[]) {
    this.#parts = parts;
    this.#limits = { ...FTDC_LIMITS, ...parts.limits };
    const files = { ...parts, ...this.#limits };
    this.#files = new CaptureFiles({ ...files, suffix: CAPTURE_SUFFIX }, names);
    this.#publishedFiles = new CaptureFiles({ ...files, logger: undefined, suffix: PUBLISHED_SUFFIX }, names);
    this.#sampleDueMs = parts.clock.monotonicMs() + this.#limits.sampleMs;
    this.#probe();
  }

  /** Starts capturing. Never rejects. */
  static async start(parts: FtdcParts): Promise<Ftdc> {
    const names = await parts.host.readFolder(parts.folder).catch(() => []);
    return new Ftdc(parts, names);
  }

  /** Writes the open block, and ends. Idempotent. */
  close(): void {
    this.#callOff();
    this.#flush();
    this.#files.close();
    this.#publishedFiles.close();
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
        this.#warnOnce(`cannot take a sample: ${messageOf(error)}`);
      }
    }
    const sample = { timeMs: this.#parts.clock.nowMs(), values };
    this.#samples.push(sample);
    this.#parts.sampled?.(sample);
    if (this.#samples.length >= this.#limits.blockSamples) this.#flush();
  }

  #flush(): void {
    if (this.#samples.length === 0) return;
    const samples = this.#samples;
    this.#samples = [];
    this.#files.write(encodeBlock(samples));
    for (const sample of samples) this.#publish(sample);
  }

  /** The same for the published command line. A reading relies on those before it in its file. */
  #publish(sample: MetricSample): void {
    const files = this.#publishedFiles;
    const startFile = () => {
      files.close();
      this.#published.startFile();
    };
    if (!files.isOpen || this.#published.needsFile(sample)) startFile();
    let document = this.#published.encode(sample);
    if (!files.fits(document)) {
      startFile();
      document = this.#published.encode(sample);
    }
    files.write(document);
  }

  #warnOnce(problem: string): void {
    if (this.#problems.isNew(problem, problem)) this.#parts.logger.warn(problem);
  }
}
