/**
 * Reads the wire format of protocol buffers from one buffer: numbers, lengths and packed lists.
 *
 * For bytes of strangers. Every length is checked against the remaining bytes before anything is allocated. A tag has
 * to be in its shortest form, and tags and lengths have at most five bytes, so that no other reader takes them for
 * something else. Packed lists become typed arrays, because a map has tens of millions of cells.
 *
 * The room owns the wire format of protocol buffers for messages that generated code would read too slowly, or without
 * limits.
 */

import { SvcError } from "../error.ts";
import { VARINT_BYTES_MAX, WIRE_TYPE } from "./wire_type.ts";

/** Bytes of a varint of 32 bits, which tags and lengths are. */
const SHORT_BYTES_MAX = 5;

const DECODER = new TextDecoder("utf-8", { fatal: true });

/** Makes the error for what was found at a path of field names. */
export type ReadError = (found: string, path: readonly string[]) => SvcError;

/** Reads one message. Every error contains the path of field names. */
export class ProtoReader {
  readonly path: string[] = [];
  #at = 0;
  #end: number;
  readonly #view: DataView;

  constructor(private readonly bytes: Uint8Array, private readonly errorOf: ReadError = invalidMessage) {
    this.#end = bytes.length;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get ended(): boolean {
    return this.#at >= this.#end;
  }

  tag(): { readonly number: number; readonly wire: number } {
    const start = this.#at;
    const tag = this.#short();
    if (this.#at - start > 1 && this.bytes[this.#at - 1] === 0) throw this.wrong("a tag with needless bytes");
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

  /** A 64-bit number; inexact beyond 53 bits, but zero only for zero. */
  number(): number {
    let value = 0;
    let factor = 1;
    for (let count = 0; count < VARINT_BYTES_MAX; count++, factor *= 128) {
      const byte = this.#byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
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
    for (const byte of this.bytes.subarray(this.#at, end)) if (byte < 0x80) count++;
    into.reserve(count, this);
    while (this.#at < end) into.add(this.int32());
    if (this.#at !== end) throw this.wrong("a packed list that ends within a number");
  }

  /** Skips an unknown field. */
  skip(wire: number): void {
    if (wire === WIRE_TYPE.varint) this.int64();
    else if (wire === WIRE_TYPE.fixed64) this.#skip(8);
    else if (wire === WIRE_TYPE.fixed32) this.#skip(4);
    else if (wire === WIRE_TYPE.bytes) this.#skip(this.#length());
    else throw this.wrong(`a field of the wire type ${wire}`);
  }

  expect(wire: number, wanted: number): void {
    if (wire !== wanted) throw this.wrong(`a field of the wire type ${wire}, wanted ${wanted}`);
  }

  wrong(found: string): SvcError {
    return this.errorOf(found, this.path);
  }

  #byte(): number {
    const byte = this.#at < this.#end ? this.bytes[this.#at++] : undefined;
    if (byte === undefined) throw this.wrong("too few bytes");
    return byte;
  }

  #length(): number {
    const length = this.#short();
    if (length > this.#end - this.#at) {
      throw this.wrong(`a field of ${length} bytes where ${this.#end - this.#at} are left`);
    }
    return length;
  }

  /** A number of 31 bits. */
  #short(): number {
    let value = 0;
    for (let count = 0; count < SHORT_BYTES_MAX; count++) {
      const byte = this.#byte();
      value += (byte & 0x7f) * 2 ** (7 * count);
      if (byte >= 0x80) continue;
      if (value < 2 ** 31) return value;
      break;
    }
    throw this.wrong("a tag or a length of more than 31 bits");
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

  reserve(more: number, reader: Pick<ProtoReader, "wrong">): void {
    const wanted = this.#length + more;
    if (wanted > this.max) throw reader.wrong(`a list of ${wanted} numbers, wanted at most ${this.max}`);
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

function invalidMessage(found: string, path: readonly string[]): SvcError {
  const where = path.length === 0 ? "" : `${path.join(".")}: `;
  return new SvcError("invalid_argument", `${where}found ${found}`);
}
