/**
 * The space of the disk with the control plane's files and database.
 *
 * Uploads, logs and readings leave a reserve free, so that the database can always write: a full disk would keep people
 * from revoking a key, from deleting what fills it, and from logging in. An upload under way holds the space of its next
 * pieces, so that uploads do not take the reserve together.
 */

import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";

export interface DiskSpaceParts {
  readonly disk: Pick<ReadFiles, "freeBytes" | "totalBytes">;
  /** A folder on the disk. */
  readonly folder: string;
  /** Stays free of uploads; at most a quarter of the disk. */
  readonly reserveBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The space that one upload holds. */
export interface DiskHold {
  /** Call it before `bytes` more are written. Throws `resource_exhausted` if there is no space for them. */
  grow(bytes: number): Promise<void>;
  /** Ends the upload. */
  release(): void;
}

export interface DiskState {
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly reserveBytes: number;
  /** Held by uploads and not yet written. */
  readonly heldBytes: number;
}

/**
 * The part of the reserve that stays free, by what is written. A change of a configuration may use a part of the
 * reserve, so that people can fix what fills the disk.
 */
const PARTS_KEPT = { content: 1, entries: 1 / 2, configuration: 1 / 4 } as const;
export type DiskUse = keyof typeof PARTS_KEPT;

/** Data in the database occupies space in the table, in its search index, and in the write-ahead log of both. */
const DATABASE_COPIES = 4;
/** An upload holds this much ahead. */
const STEP_BYTES = 4 * 1024 ** 2;
/** How long a measurement of the free space is valid. */
const LOOK_MS = 1_000;
/** How long a measurement of the disk's size is valid. */
const SIZE_MS = 60_000;
/**
 * A disk that is full to more than the first share causes a warning, and another one only after it was below the
 * second.
 */
const WARN_SHARE = 0.8;
const CALM_SHARE = 0.75;

interface Look {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly atMs: number;
}

export class DiskSpace {
  #look: Look | undefined;
  /** When the size of the disk was measured. */
  #sizeMs = -Infinity;
  /** Bytes written since the last measurement. */
  #writtenBytes = 0;
  #heldBytes = 0;
  #isWarned = false;
  #looking: Promise<Look> | undefined;

  constructor(private readonly parts: DiskSpaceParts) {}

  /** Call it before `bytes` are stored in the database. Throws `resource_exhausted` if they would use its reserve. */
  async require(use: DiskUse, bytes = 0): Promise<void> {
    const takenBytes = bytes * DATABASE_COPIES;
    await this.#requireFree(use, takenBytes);
    this.#writtenBytes += takenBytes;
  }

  /** Holds space for an upload. Throws `resource_exhausted` if not even its first piece fits. */
  async hold(): Promise<DiskHold> {
    let aheadBytes = 0;
    /** The last piece may not be on the disk yet, so its space is held until the next one comes. */
    let lastBytes = 0;
    let isOver = false;
    const extend = async (bytes: number) => {
      await this.#requireFree("content", bytes);
      if (isOver) return;
      aheadBytes += bytes;
      this.#heldBytes += bytes;
    };
    await extend(STEP_BYTES);
    return {
      grow: async (bytes) => {
        this.#heldBytes -= lastBytes;
        this.#writtenBytes += lastBytes;
        lastBytes = 0;
        // If a whole step does not fit, the last pieces may still fit exactly.
        if (aheadBytes < bytes) {
          const missing = bytes - aheadBytes;
          await extend(Math.max(STEP_BYTES, missing)).catch(() => extend(missing));
        }
        aheadBytes -= bytes;
        lastBytes = bytes;
      },
      release: () => {
        isOver = true;
        this.#heldBytes -= aheadBytes + lastBytes;
        this.#writtenBytes += lastBytes;
        aheadBytes = lastBytes = 0;
      },
    };
  }

  async state(): Promise<DiskState> {
    const { freeBytes, totalBytes } = await this.#at(0);
    const reserveBytes = this.#reserveOf(totalBytes);
    return { totalBytes, freeBytes, reserveBytes, heldBytes: this.#heldBytes };
  }

  async #requireFree(use: DiskUse, moreBytes: number): Promise<void> {
    const left = (look: Look) => {
      const keptBytes = PARTS_KEPT[use] * this.#reserveOf(look.totalBytes);
      return look.freeBytes - this.#writtenBytes - this.#heldBytes - moreBytes - keptBytes;
    };
    if (left(await this.#at(LOOK_MS)) >= 0) return;
    // Something may have been removed, or another program may have freed space.
    const look = await this.#at(0);
    if (left(look) >= 0) return;
    const reserve = mib(this.#reserveOf(look.totalBytes));
    throw new SvcError(
      "resource_exhausted",
      `the disk of the control plane is full: ${
        mib(look.freeBytes)
      } are free, ${reserve} of them are kept for its ` +
        "database (limit disk_reserve_bytes); delete data or packages, or ask whoever runs it for more space",
    );
  }

  #reserveOf(totalBytes: number): number {
    return Math.min(this.parts.reserveBytes, totalBytes / 4);
  }

  /** A measurement of the disk that is at most this old. */
  async #at(oldMs: number): Promise<Look> {
    const { clock } = this.parts;
    if (this.#look && clock.monotonicMs() - this.#look.atMs < oldMs) return this.#look;
    return await (this.#looking ??= this.#lookNow().finally(() => this.#looking = undefined));
  }

  async #lookNow(): Promise<Look> {
    const { disk, folder, clock } = this.parts;
    try {
      const freeBytes = await disk.freeBytes(folder);
      // A disk rarely grows, and each measurement takes a system call.
      const isOld = clock.monotonicMs() - this.#sizeMs >= SIZE_MS;
      const totalBytes = this.#look && !isOld ? this.#look.totalBytes : await disk.totalBytes(folder);
      if (isOld) this.#sizeMs = clock.monotonicMs();
      this.#look = { freeBytes, totalBytes, atMs: clock.monotonicMs() };
      this.#writtenBytes = 0;
      this.#warn(this.#look);
      return this.#look;
    } catch (cause) {
      const problem = `cannot look for space on the disk of the control plane: ${messageOf(cause)}`;
      throw new SvcError("unavailable", problem, { cause });
    }
  }

  #warn({ freeBytes, totalBytes }: Look): void {
    const { folder, logger } = this.parts;
    const share = 1 - freeBytes / totalBytes;
    if (share >= WARN_SHARE && !this.#isWarned) {
      this.#isWarned = true;
      const reserve = mib(this.#reserveOf(totalBytes));
      logger.warn(
        `the disk with ${folder} is ${Math.floor(100 * share)} % full: ${
          mib(freeBytes)
        } are free, and uploads ` +
          `are refused when less than ${reserve} are; delete data or packages, or add space`,
      );
    } else if (share < CALM_SHARE) this.#isWarned = false;
  }
}

function mib(bytes: number): string {
  return `${Math.floor(bytes / 1024 ** 2)} MiB`;
}
