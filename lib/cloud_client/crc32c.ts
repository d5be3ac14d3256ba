/**
 * CRC-32C (Castagnoli), by which published machines check a downloaded package.
 */

import { Buffer } from "node:buffer";

const POLYNOMIAL = 0x82f63b78;

export class Crc32c {
  readonly #table = Int32Array.from({ length: 256 }, (_, byte) => {
    for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ POLYNOMIAL : byte >>> 1;
    return byte;
  });
  #value = -1;

  update(bytes: Uint8Array): void {
    const table = this.#table;
    let value = this.#value;
    for (const byte of bytes) value = (table[(value ^ byte) & 0xff] ?? 0) ^ (value >>> 8);
    this.#value = value;
  }

  /** The checksum of all bytes so far: four bytes, highest first, in base64. */
  base64(): string {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32BE(~this.#value);
    return bytes.toString("base64");
  }
}
