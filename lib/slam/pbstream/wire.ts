/**
 * The wire format of protocol buffers over one buffer: numbers, lengths and packed lists.
 *
 * Every length is checked against the remaining bytes before anything is allocated. Packed lists become typed arrays,
 * because a map has tens of millions of cells.
 */

import { SvcError } from "../../base/error.ts";

/** Wire types (source: encoding of protocol buffers). */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

const VARINT_BYTES_MAX = 10;
const FIRST_BUFFER_BYTES = 1024;

const DECODER = new TextDecoder("utf-8", { fatal: true });
const ENCODER = new TextEncoder();

/** Reads one message. Every error contains the path of field names. */
export class WireReader {
  readonly path: string[] = [];
  #at = 0;
  #end: number;
  readonly #view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.#end = bytes.length;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get ended(): boolean {
    return this.#at >= this.#end;
  }

  tag(): { readonly number: number; readonly wire: number } {
    const tag = this.int32() >>> 0;
    const number = tag >>> 3;
    if (number === 0) throw this.wrong("a field with the number 0");
    return { number, wire: tag & 7 };
  }

  /** The low 32 bits of a varint, as a signed number: negative values take ten bytes. */
  int32(): number {
    let value = 0;
    for (let count = 0; count < VARINT_BYTES_MAX; count++) {
      const byte = this.#byte();
      if (count < 5) value |= (byte & 0x7f) << (7 * count);
      if (byte < 0x80) return value;
    }
    throw this.wrong(`a number of more than ${VARINT_BYTES_MAX} bytes`);
  }

  int64(): bigint {
    let value = 0n;
    for (let count = 0; count < VARINT_BYTES_MAX; count++) {
      const byte = this.#byte();
      value |= BigInt(byte & 0x7f) << BigInt(7 * count);
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw this.wrong(`a number of more than ${VARINT_BYTES_MAX} bytes`);
  }

  double(): number {
    return this.#view.getFloat64(this.#skip(8), true);
  }

  float(): number {
    return this.#view.getFloat32(this.#skip(4), true);
  }

  text(): string {
    const bytes = this.content();
    try {
      return DECODER.decode(bytes);
    } catch {
      throw this.wrong("a text that is not UTF-8");
    }
  }

  /** The bytes of a field with a length; a view, not a copy. */
  content(): Uint8Array {
    const length = this.#length();
    const at = this.#skip(length);
    return this.bytes.subarray(at, at + length);
  }

  /** Runs `read` over the bytes of a field with a length, named `name` in errors. */
  within<T>(name: string, read: () => T): T {
    this.path.push(name);
    const length = this.#length();
    const [outer, end] = [this.#end, this.#at + length];
    this.#end = end;
    const result = read();
    this.#end = outer;
    this.path.pop();
    return result;
  }

  /** Adds the numbers of a packed list. */
  packedInt32(into: IntList): void {
    const length = this.#length();
    const end = this.#at + length;
    let count = 0;
    for (let at = this.#at; at < end; at++) if (this.bytes[at] < 0x80) count++;
    into.reserve(count, this);
    while (this.#at < end) into.add(this.int32());
    if (this.#at !== end) throw this.wrong("a packed list that ends within a number");
  }

  /** Skips an unknown field. */
  skip(wire: number): void {
    if (wire === WIRE.varint) this.int64();
    else if (wire === WIRE.fixed64) this.#skip(8);
    else if (wire === WIRE.fixed32) this.#skip(4);
    else if (wire === WIRE.bytes) this.#skip(this.#length());
    else throw this.wrong(`a field of the wire type ${wire}`);
  }

  expect(wire: number, wanted: number): void {
    if (wire !== wanted) throw this.wrong(`a field of the wire type ${wire}, wanted ${wanted}`);
  }

  wrong(found: string): SvcError {
    const where = this.path.length === 0 ? "" : `${this.path.join(".")}: `;
    return new SvcError("invalid_argument", `${where}found ${found}`);
  }

  #byte(): number {
    if (this.#at >= this.#end) throw this.wrong("too few bytes");
    return this.bytes[this.#at++];
  }

  #length(): number {
    const length = this.int32();
    if (length < 0 || length > this.#end - this.#at) {
      throw this.wrong(`a field of ${length >>> 0} bytes where ${this.#end - this.#at} are left`);
    }
    return length;
  }

  #skip(bytes: number): number {
    if (bytes > this.#end - this.#at) throw this.wrong("too few bytes");
    const at = this.#at;
    this.#at += bytes;
    return at;
  }
}

/** Numbers that are added one by one or in lists, at most `max` of them. */
export class IntList {
  #length = 0;
  #array = new Int32Array(0);

  constructor(private readonly max: number) {}

  add(value: number): void {
    if (this.#length === this.#array.length) this.#grow(this.#length * 2 + 1);
    this.#array[this.#length++] = value;
  }

  reserve(more: number, { wrong }: Pick<WireReader, "wrong">): void {
    const wanted = this.#length + more;
    if (wanted > this.max) throw wrong(`a list of ${wanted} numbers, wanted at most ${this.max}`);
    if (wanted > this.#array.length) this.#grow(Math.max(wanted, Math.min(this.max, this.#length * 2)));
  }

  finish(): Int32Array {
    return this.#length === this.#array.length ? this.#array : this.#array.slice(0, this.#length);
  }

  #grow(length: number): void {
    const grown = new Int32Array(length);
    grown.set(this.#array);
    this.#array = grown;
  }
}

/** Writes one message. */
export class WireWriter {
  #at = 0;
  #bytes = new Uint8Array(FIRST_BUFFER_BYTES);
  #view = new DataView(this.#bytes.buffer);

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#at);
  }

  tag(number: number, wire: number): void {
    this.#varint(number << 3 | wire);
  }

  int32(value: number): void {
    if (value < 0) this.int64(BigInt(value));
    else this.#varint(value);
  }

  int64(value: bigint): void {
    this.#room(VARINT_BYTES_MAX);
    let rest = BigInt.asUintN(64, value);
    for (; rest >= 0x80n; rest >>= 7n) this.#bytes[this.#at++] = Number(rest & 0x7fn) | 0x80;
    this.#bytes[this.#at++] = Number(rest);
  }

  double(value: number): void {
    this.#room(8);
    this.#view.setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  float(value: number): void {
    this.#room(4);
    this.#view.setFloat32(this.#at, value, true);
    this.#at += 4;
  }

  text(value: string): void {
    this.content(ENCODER.encode(value));
  }

  content(value: Uint8Array): void {
    this.#varint(value.length);
    this.#room(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }

  /** Writes the length of what `write` writes before it. */
  within(write: () => void): void {
    this.#room(1);
    const start = ++this.#at;
    write();
    const length = this.#at - start;
    const more = sizeOf(length) - 1;
    if (more > 0) {
      this.#room(more);
      this.#bytes.copyWithin(start + more, start, this.#at);
    }
    this.#at = start - 1;
    this.#varint(length);
    this.#at += length;
  }

  packedInt32(values: Int32Array): void {
    let length = 0;
    for (let n = 0; n < values.length; n++) length += values[n] < 0 ? VARINT_BYTES_MAX : sizeOf(values[n]);
    this.#varint(length);
    this.#room(length);
    for (let n = 0; n < values.length; n++) this.int32(values[n]);
  }

  #varint(value: number): void {
    this.#room(5);
    let rest = value >>> 0;
    for (; rest >= 0x80; rest >>>= 7) this.#bytes[this.#at++] = rest & 0x7f | 0x80;
    this.#bytes[this.#at++] = rest;
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#at + bytes));
    grown.set(this.#bytes);
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

/** Bytes of a varint. */
function sizeOf(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  return value < 0x10000000 ? 4 : 5;
}
