/**
 * Pseudo-terminals: this end is a device, and a program opens the other end by its path.
 *
 * Numbers and layouts are those of <asm-generic/ioctls.h> on Linux. Owns the device it opened.
 */

import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { Device, Devices } from "../base/host.ts";

const REQUEST = { unlock: 0x40045431, number: 0x80045430, setSize: 0x5414 } as const;

/** Limit of output per read, and the longest time that one wait blocks a thread. */
const READ_BYTES = 16 * 1024;
const READ_WAIT_MS = 100;

/** A program that does not read fills the terminal; a write then retries at this interval, up to a limit. */
const WRITE_RETRY_MS = 10;
const WRITE_MAX_MS = 30_000;

const SIDE_MAX = 0xffff;

export class SerialTerminal {
  #reading: Promise<unknown> = Promise.resolve();
  #closed = false;
  #closing?: Promise<void>;

  private constructor(
    private readonly device: Device,
    /** Path of the programs' end. */
    readonly path: string,
  ) {}

  /** Opens a new terminal. Throws `unimplemented` except on Linux. */
  static open(host: Devices): SerialTerminal {
    const device = host.openDevice("/dev/ptmx");
    try {
      const number = new Uint8Array(4);
      device.control(REQUEST.unlock, new Uint8Array(4));
      device.control(REQUEST.number, number);
      return new SerialTerminal(device, `/dev/pts/${new DataView(number.buffer).getUint32(0, true)}`);
    } catch (error) {
      device.close();
      throw error;
    }
  }

  /** Tells the programs the window's new size, in characters. */
  resize(columns: number, rows: number): void {
    if (this.#closed) return;
    const size = new DataView(new ArrayBuffer(8));
    const side = (length: number) => Math.max(1, Math.min(Math.trunc(length), SIDE_MAX));
    size.setUint16(0, side(rows), true);
    size.setUint16(2, side(columns), true);
    this.device.control(REQUEST.setSize, new Uint8Array(size.buffer));
  }

  /**
   * The programs' output, until the last one has closed its end, the terminal is closed, or it is drained and `isOver`.
   */
  async *output(isOver: () => boolean): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    while (!this.#closed) {
      const over = isOver();
      const readable = this.device.readable(over ? 0 : READ_WAIT_MS);
      this.#reading = readable;
      if (await readable) {
        const bytes = this.#closed ? undefined : this.#read();
        if (!bytes) return;
        yield bytes;
      } else if (over) return;
    }
  }

  /**
   * Writes like a keyboard. Resolves when the terminal has accepted it; throws `unavailable` if no program reads it.
   */
  async write(bytes: Uint8Array<ArrayBuffer>, clock: Clock, signal?: AbortSignal): Promise<void> {
    const endMs = clock.monotonicMs() + WRITE_MAX_MS;
    for (let rest = bytes; rest.length > 0 && !this.#closed;) {
      const taken = this.#write(rest);
      rest = rest.subarray(taken);
      if (taken > 0) continue;
      if (clock.monotonicMs() > endMs) {
        throw new SvcError("unavailable", `no program read its input within ${WRITE_MAX_MS / 1000} s`);
      }
      await clock.sleep(WRITE_RETRY_MS, signal);
    }
  }

  /** Hangs up: the programs get SIGHUP. Idempotent. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#closing ??= this.#reading.then(() => this.device.close());
  }

  /** `undefined` at the end, which Linux reports as an error. */
  #read(): Uint8Array<ArrayBuffer> | undefined {
    try {
      const bytes = this.device.read(READ_BYTES);
      return bytes.length === 0 ? undefined : bytes;
    } catch (error) {
      if (error instanceof SvcError && error.code === "unavailable") return undefined;
      throw error;
    }
  }

  #write(bytes: Uint8Array<ArrayBuffer>): number {
    try {
      return this.device.write(bytes);
    } catch (error) {
      if (error instanceof SvcError && error.code === "aborted") return 0;
      throw error;
    }
  }
}
