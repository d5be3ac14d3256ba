/**
 * Devices on an I2C bus, register by register, through the kernel's i2c-dev (<linux/i2c-dev.h>).
 *
 * Uses the SMBus calls, which every adapter supports; owns the bus file that it opened for its device.
 */

import { SvcError } from "../base/error.ts";
import type { Device, Devices } from "../base/host.ts";
import { opened } from "./access.ts";

const SET_TIMEOUT = 0x0702;
const SET_ADDRESS = 0x0703;
const SMBUS = 0x0720;
const [WRITE, READ] = [0, 1];
const [BYTE_DATA, WORD_DATA, BLOCK_DATA] = [2, 3, 8];
/**
 * The kernel's usual second is too long where a call holds this thread, and with it every stop: a wire that is stuck
 * costs as much each time. The SMBus allows a device 25 ms.
 */
const TIMEOUT_10_MS = 5;
/** Longest block of the SMBus. */
const BLOCK_BYTES_MAX = 32;

export class I2cDevice {
  private constructor(private readonly device: Device, readonly address: number) {}

  /** `bus`: `1` for /dev/i2c-1, or a path. Throws `resource_exhausted` if a kernel driver holds the device. */
  static open(host: Devices, bus: string, address: number): I2cDevice {
    const path = bus.includes("/") ? bus : `/dev/i2c-${bus}`;
    const device = opened(host, path);
    try {
      device.tell(SET_ADDRESS, address);
      limitWaits(device);
      return new I2cDevice(device, address);
    } catch (cause) {
      device.close();
      const { code, message } = SvcError.from(cause);
      const hint = code === "resource_exhausted" ? "; a driver of the kernel uses it" : "";
      throw new SvcError(code, `${message} (I2C address 0x${address.toString(16)})${hint}`, { cause });
    }
  }

  readByte(register: number): number {
    const [byte = 0] = this.#call(READ, register, BYTE_DATA, new Uint8Array(2));
    return byte;
  }

  writeByte(register: number, value: number): void {
    this.#call(WRITE, register, BYTE_DATA, Uint8Array.of(value, 0));
  }

  /** A word with its higher byte first, as most sensors send it. */
  readWord(register: number): number {
    const [high = 0, low = 0] = this.#call(READ, register, WORD_DATA, new Uint8Array(2));
    return high << 8 | low;
  }

  writeWord(register: number, value: number): void {
    this.#call(WRITE, register, WORD_DATA, Uint8Array.of(value >> 8, value & 0xff));
  }

  /** Reads `bytes` bytes from `register` on in one transfer. */
  readBlock(register: number, bytes: number): Uint8Array {
    const data = new Uint8Array(BLOCK_BYTES_MAX + 2);
    data[0] = bytes;
    this.#call(READ, register, BLOCK_DATA, data);
    if (data[0] !== bytes) {
      throw new SvcError("data_loss", `${this.#name} gave ${data[0]} bytes, wanted ${bytes}`);
    }
    return data.slice(1, 1 + bytes);
  }

  close(): void {
    this.device.close();
  }

  get #name(): string {
    return `I2C device 0x${this.address.toString(16)} on "${this.device.path}"`;
  }

  #call(direction: number, register: number, kind: number, data: Uint8Array<ArrayBuffer>) {
    const message = new Uint8Array(16);
    message[0] = direction;
    message[1] = register;
    message[4] = kind;
    try {
      this.device.control(SMBUS, message, [{ at: 8, bytes: data }]);
    } catch (cause) {
      const { code } = SvcError.from(cause);
      const verb = direction === READ ? "read" : "write";
      const attempt = `cannot ${verb} register 0x${register.toString(16)} of ${this.#name}`;
      const hint = code === "unavailable" ? ": nothing answers; check its wires, power and address" : "";
      throw new SvcError(code, attempt + hint, { cause });
    }
    return data;
  }
}

/** The limit is the bus's, of all its devices; a bus that takes none keeps its own. */
function limitWaits(device: Device): void {
  try {
    device.tell(SET_TIMEOUT, TIMEOUT_10_MS);
  } catch (cause) {
    if (!["invalid_argument", "unimplemented"].includes(SvcError.from(cause).code)) throw cause;
  }
}
