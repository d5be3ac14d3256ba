/** Writes the wire format of protocol buffers into one buffer. Promises the same bytes for the same calls. */

import { varint64Bytes, VARINT_BYTES_MAX, varintBytes } from "./wire_type.ts";

const FIRST_BUFFER_BYTES = 1024;

const ENCODER = new TextEncoder();

/** Writes one message. */
export class ProtoWriter {
  #at = 0;
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;

  /** `bytes` is the expected size: a writer of exactly that size copies nothing. */
  constructor(bytes = FIRST_BUFFER_BYTES) {
    this.#bytes = new Uint8Array(bytes);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** The bytes so far. Nothing is written afterwards. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#at === this.#bytes.length ? this.#bytes : this.#bytes.slice(0, this.#at);
  }

  tag(number: number, wire: number): void {
    this.#varint(number << 3 | wire);
  }

  int32(value: number): void {
    if (value < 0) this.int64(BigInt(value));
    else this.#varint(value);
  }

  int64(value: bigint): void {
    let rest = BigInt.asUintN(64, value);
    this.#reserve(varint64Bytes(rest));
    for (; rest >= 0x80n; rest >>= 7n) this.#bytes[this.#at++] = Number(rest & 0x7fn) | 0x80;
    this.#bytes[this.#at++] = Number(rest);
  }

  double(value: number): void {
    this.#reserve(8);
    this.#view.setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  float(value: number): void {
    this.#reserve(4);
    this.#view.setFloat32(this.#at, value, true);
    this.#at += 4;
  }

  text(value: string): void {
    this.content(ENCODER.encode(value));
  }

  content(value: Uint8Array): void {
    this.#varint(value.length);
    this.raw(value);
  }

  /** Writes the length of what `write` writes before it. */
  within(write: () => void): void {
    this.#reserve(1);
    const start = ++this.#at;
    write();
    const length = this.#at - start;
    const more = varintBytes(length) - 1;
    if (more > 0) {
      this.#reserve(more);
      this.#bytes.copyWithin(start + more, start, this.#at);
    }
    this.#at = start - 1;
    this.#varint(length);
    this.#at += length;
  }

  packedInt32(values: Int32Array): void {
    let length = 0;
    for (const value of values) length += value < 0 ? VARINT_BYTES_MAX : varintBytes(value);
    this.#varint(length);
    this.#reserve(length);
    for (const value of values) this.int32(value);
  }

  /** The length of a message or of bytes whose content is written next. */
  length(bytes: number): void {
    this.#varint(bytes);
  }

  /** Bytes as they are, such as fields from another writer. */
  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  #varint(value: number): void {
    let rest = value >>> 0;
    this.#reserve(varintBytes(rest));
    for (; rest >= 0x80; rest >>>= 7) this.#bytes[this.#at++] = rest & 0x7f | 0x80;
    this.#bytes[this.#at++] = rest;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#at + bytes));
    grown.set(this.#bytes);
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}
