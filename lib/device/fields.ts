/**
 * The message of a control call, field by field, laid out as in the kernel's headers on 64-bit Linux.
 *
 * The room owns the formats of the system's device files: cameras, terminals, pins, buses and serial lines.
 */

import type { Device, Pointed } from "../base/host.ts";

export class StructFields {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;

  /** A message of the size that is encoded in the request's number. */
  constructor(readonly request: number) {
    this.bytes = new Uint8Array(request >>> 16 & 0x3fff);
    this.#view = new DataView(this.bytes.buffer);
  }

  get(at: number): number {
    return this.#view.getUint32(at, true);
  }

  set(at: number, value: number): this {
    this.#view.setUint32(at, value, true);
    return this;
  }

  get64(at: number): bigint {
    return this.#view.getBigUint64(at, true);
  }

  set64(at: number, value: bigint): this {
    this.#view.setBigUint64(at, value, true);
    return this;
  }

  text(at: number, length: number): string {
    const bytes = this.bytes.subarray(at, at + length);
    const end = bytes.indexOf(0);
    return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end)).trim();
  }

  /** Writes a zero-terminated text, cut to `length` bytes with its zero. */
  setText(at: number, length: number, text: string): this {
    this.bytes.set(new TextEncoder().encode(text).subarray(0, length - 1), at);
    return this;
  }

  sendTo(device: Device, pointed?: readonly Pointed[]): this {
    device.control(this.request, this.bytes, pointed);
    return this;
  }
}
