/**
 * Serial lines: opened at a rate, and read line by line.
 *
 * Numbers and layouts are those of <asm-generic/termbits.h> on 64-bit Linux. Owns the device it opened.
 */

import { SvcError } from "../base/error.ts";
import type { Device, Devices } from "../base/host.ts";
import { opened } from "./access.ts";
import { StructFields } from "./fields.ts";

const SET_TERMINAL = 0x402c542b;
/** Eight bits, no parity, no modem lines; the rate has its own fields. */
const CONTROL = 0x30 | 0x80 | 0x800 | 0x1000;
const CHUNK_BYTES = 4096;
/** Consecutive times that a line may say that it has bytes, and give none: another reader took them. */
const EMPTY_READS_MAX = 2;

/**
 * Opens a serial device at a rate in bits per second, without translation of its bytes. Throws `resource_exhausted` if
 * another component, or a program that locks devices, has it.
 */
export function openSerial(host: Devices, path: string, baud: number): Device {
  const device = opened(host, path);
  try {
    // Of two readers each gets a part of the bytes.
    if (!device.lock()) {
      throw new SvcError(
        "resource_exhausted",
        `another component or program uses ${path}: \`fuser -v ${path}\` shows which program`,
      );
    }
    new StructFields(SET_TERMINAL).set(8, CONTROL).set(36, baud).set(40, baud).sendTo(device);
    return device;
  } catch (cause) {
    device.close();
    throw cause;
  }
}

export class SerialLine {
  #rest = "";
  #emptyReads = 0;

  private constructor(private readonly device: Device, private readonly lineBytesMax: number) {}

  static open(host: Devices, path: string, baud: number, lineBytesMax: number): SerialLine {
    return new SerialLine(openSerial(host, path, baud), lineBytesMax);
  }

  /**
   * The lines that end within this time, without their line ends; none if nothing arrives. A line that is too long
   * loses its beginning. Throws when the device is gone: a line whose adapter was unplugged gives no error, but is
   * readable for ever, without bytes.
   */
  async lines(withinMs: number): Promise<string[]> {
    if (!await this.device.readable(withinMs)) return [];
    const bytes = this.device.read(CHUNK_BYTES);
    if (bytes.length === 0) {
      if (++this.#emptyReads < EMPTY_READS_MAX) return [];
      throw new SvcError("unavailable", `${this.device.path} is gone`);
    }
    this.#emptyReads = 0;
    const parts = (this.#rest + String.fromCharCode(...bytes)).split(/\r?\n|\r/);
    this.#rest = parts.pop()!.slice(-this.lineBytesMax);
    return parts.filter((line) => line !== "").map((line) => line.slice(-this.lineBytesMax));
  }

  close(): void {
    this.device.close();
  }
}
