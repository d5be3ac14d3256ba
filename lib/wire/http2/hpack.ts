/**
 * HPACK (RFC 7541): the compression of HTTP/2 header fields, one encoder and one decoder per connection.
 *
 * The decoder accepts everything that the standard allows and bounds what it keeps and unpacks. The encoder is plain:
 * static table, a dynamic table that fills up once with fields worth repeating, no Huffman code.
 */

import type { HeaderFields } from "../rpc/metadata.ts";
import { huffmanText, latin1, once } from "./huffman.ts";

export class HpackError extends Error {}

/** A valid block that unpacks to a hostile size. */
export class HpackBomb extends HpackError {}

const TABLE_BYTES = 4096;
/**
 * The decoder unpacks blocks of up to this many times the accepted bytes, so that the tables of both sides stay
 * equal.
 */
const MAX_EXCESS = 64;

/** Cost of an entry besides its text (RFC 7541 §4.1). */
const ENTRY_BYTES = 32;

/** Names of fields that repeat from call to call on a connection. Other fields would only displace them. */
const REPEATED = new Set([
  ":authority",
  ":path",
  "accept-encoding",
  "content-type",
  "grpc-accept-encoding",
  "grpc-status",
  "te",
  "user-agent",
  "viam_client",
]);

/** RFC 7541 appendix A; entry 1 first. */
const STATIC: HeaderFields = [
  [":authority", ""],
  [":method", "GET"],
  [":method", "POST"],
  [":path", "/"],
  [":path", "/index.html"],
  [":scheme", "http"],
  [":scheme", "https"],
  [":status", "200"],
  [":status", "204"],
  [":status", "206"],
  [":status", "304"],
  [":status", "400"],
  [":status", "404"],
  [":status", "500"],
  ["accept-charset", ""],
  ["accept-encoding", "gzip, deflate"],
  ["accept-language", ""],
  ["accept-ranges", ""],
  ["accept", ""],
  ["access-control-allow-origin", ""],
  ["age", ""],
  ["allow", ""],
  ["authorization", ""],
  ["cache-control", ""],
  ["content-disposition", ""],
  ["content-encoding", ""],
  ["content-language", ""],
  ["content-length", ""],
  ["content-location", ""],
  ["content-range", ""],
  ["content-type", ""],
  ["cookie", ""],
  ["date", ""],
  ["etag", ""],
  ["expect", ""],
  ["expires", ""],
  ["from", ""],
  ["host", ""],
  ["if-match", ""],
  ["if-modified-since", ""],
  ["if-none-match", ""],
  ["if-range", ""],
  ["if-unmodified-since", ""],
  ["last-modified", ""],
  ["link", ""],
  ["location", ""],
  ["max-forwards", ""],
  ["proxy-authenticate", ""],
  ["proxy-authorization", ""],
  ["range", ""],
  ["referer", ""],
  ["refresh", ""],
  ["retry-after", ""],
  ["server", ""],
  ["set-cookie", ""],
  ["strict-transport-security", ""],
  ["transfer-encoding", ""],
  ["user-agent", ""],
  ["vary", ""],
  ["via", ""],
  ["www-authenticate", ""],
];

/** The decoder's dynamic table: a ring, so that an insertion costs the same at any size. */
class DynamicTable {
  readonly #ring: ([string, string] | undefined)[] = Array(TABLE_BYTES / ENTRY_BYTES);
  /** Index of the newest. */
  #newest = 0;
  #length = 0;
  #bytes = 0;
  #maxBytes = TABLE_BYTES;

  /** The newest is 0. */
  get(index: number): [string, string] | undefined {
    return index < this.#length ? this.#ring[(this.#newest + index) % this.#ring.length] : undefined;
  }

  add(field: [string, string]): void {
    const bytes = sizeOf(field);
    this.#evict(this.#maxBytes - bytes);
    // A field larger than the table empties it (RFC 7541, 4.4).
    if (bytes > this.#maxBytes) return;
    this.#newest = (this.#newest + this.#ring.length - 1) % this.#ring.length;
    this.#ring[this.#newest] = field;
    this.#length++;
    this.#bytes += bytes;
  }

  resize(maxBytes: number): void {
    this.#maxBytes = maxBytes;
    this.#evict(maxBytes);
  }

  /** Drops the oldest until the others take at most `bytes`. */
  #evict(bytes: number): void {
    while (this.#length > 0 && this.#bytes > bytes) {
      const oldest = (this.#newest + --this.#length) % this.#ring.length;
      this.#bytes -= sizeOf(this.#ring[oldest]!);
      this.#ring[oldest] = undefined;
    }
  }
}

/** Decodes the header blocks of one connection in the order of their arrival. */
export class HpackDecoder {
  readonly #dynamic = new DynamicTable();
  #added = 0;
  #block: Uint8Array = new Uint8Array();
  #at = 0;
  #listBytes = 0;

  /** @param maxListBytes fields of a block beyond this many bytes are read, to keep in step, and thrown away */
  constructor(private readonly maxListBytes: number) {}

  /** The size of the last block's fields, as the standard counts it: their text and 32 bytes for each. */
  get listBytes(): number {
    return this.#listBytes;
  }

  /** The number of fields of the last block that entered the table. */
  get added(): number {
    return this.#added;
  }

  /** The fields of a block; `undefined` when there are too many of them. Broken blocks throw `HpackError`. */
  decode(block: Uint8Array): HeaderFields | undefined {
    this.#block = block;
    this.#at = 0;
    this.#listBytes = 0;
    this.#added = 0;
    this.#resize();

    const fields: [string, string][] = [];
    while (this.#at < block.length) {
      const field = this.#field();
      this.#listBytes += sizeOf(field);
      if (this.#listBytes <= this.maxListBytes) fields.push(field);
      else if (this.#listBytes > MAX_EXCESS * this.maxListBytes) {
        throw new HpackBomb(`header fields of more than ${MAX_EXCESS * this.maxListBytes} bytes`);
      }
    }

    return this.#listBytes <= this.maxListBytes ? fields : undefined;
  }

  /** Changes of the table's size come before all fields, two at most (RFC 7541, 4.2). */
  #resize(): void {
    for (let times = 0; (this.#next & 0xe0) === 0x20; times++) {
      if (times === 2) throw new HpackError("more than two changes of the table's size");
      const bytes = this.#integer(5);
      if (bytes > TABLE_BYTES) throw new HpackError(`table size ${bytes}, at most ${TABLE_BYTES} was agreed`);
      this.#dynamic.resize(bytes);
    }
  }

  #field(): [string, string] {
    const byte = this.#next;
    if (byte & 0x80) return this.#entry(this.#integer(7));
    if (byte & 0x40) {
      const field = this.#literal(6);
      this.#dynamic.add(field);
      this.#added++;
      return field;
    }
    if (byte & 0x20) throw new HpackError("a change of the table's size after a field");
    return this.#literal(4);
  }

  #literal(prefixBits: number): [string, string] {
    const index = this.#integer(prefixBits);
    const name = index === 0 ? this.#string() : this.#entry(index)[0];
    return [name, this.#string()];
  }

  #entry(index: number): [string, string] {
    const field = index <= STATIC.length ? STATIC[index - 1] : this.#dynamic.get(index - STATIC.length - 1);
    if (!field) throw new HpackError(`no entry ${index} in the table`);
    return field as [string, string];
  }

  #integer(prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = this.#byte() & mask;
    if (value < mask) return value;
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.#byte();
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new HpackError("integer too long");
  }

  #byte(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw new HpackError("block ends in the middle of a field");
    this.#at++;
    return byte;
  }

  /** The byte that is read next; 0 at the end. */
  get #next(): number {
    return this.#block[this.#at] ?? 0;
  }

  #string(): string {
    const huffman = (this.#next & 0x80) !== 0;
    const length = this.#integer(7);
    const end = this.#at + length;
    if (end > this.#block.length) throw new HpackError("string runs past the end of its block");
    const start = this.#at;
    this.#at = end;
    if (!huffman) return latin1(this.#block, start, end);
    const text = huffmanText(this.#block.subarray(start, end));
    if (text === undefined) throw new HpackError("a Huffman string with a wrong code or wrong padding");
    return text;
  }
}

/** Encodes the header blocks of one connection in the order of their departure. */
export class HpackEncoder {
  /** Position of each field, counted from the oldest; the table only grows until it is full. */
  readonly #dynamic = new Map<string, Map<string, number>>();
  #dynamicFields = 0;
  #dynamicBytes = 0;
  #tableBytes = TABLE_BYTES;
  #resized = false;
  #bytes = new Uint8Array(512);
  #length = 0;

  /** Applies the peer's limit for the table: the next block restarts the table. */
  resize(tableBytes: number): void {
    this.#tableBytes = Math.min(TABLE_BYTES, tableBytes);
    this.#dynamic.clear();
    this.#dynamicFields = this.#dynamicBytes = 0;
    this.#resized = true;
  }

  /** A header block; valid until the next call. */
  encode(fields: HeaderFields): Uint8Array {
    this.#length = 0;
    if (this.#resized) {
      this.#integer(0x20, 5, 0);
      if (this.#tableBytes > 0) this.#integer(0x20, 5, this.#tableBytes);
      this.#resized = false;
    }
    for (const [name, value] of fields) this.#field(name, value);
    return this.#bytes.subarray(0, this.#length);
  }

  #field(name: string, value: string): void {
    const known = staticIndex(name, value);
    if (known > 0) return this.#integer(0x80, 7, known);

    const nameIndex = -known;
    if (!REPEATED.has(name)) {
      this.#integer(name === "authorization" ? 0x10 : 0x00, 4, nameIndex);
      if (nameIndex === 0) this.#string(name);
      return this.#string(value);
    }

    const position = this.#dynamic.get(name)?.get(value);
    if (position !== undefined) {
      return this.#integer(0x80, 7, STATIC.length + this.#dynamicFields - position);
    }

    const size = sizeOf([name, value]);
    const keep = this.#dynamicBytes + size <= this.#tableBytes;
    this.#integer(keep ? 0x40 : 0x00, keep ? 6 : 4, nameIndex);
    if (nameIndex === 0) this.#string(name);
    this.#string(value);
    if (!keep) return;

    const values = this.#dynamic.get(name) ?? new Map<string, number>();
    this.#dynamic.set(name, values.set(value, this.#dynamicFields++));
    this.#dynamicBytes += size;
  }

  #integer(flags: number, prefixBits: number, value: number): void {
    this.#reserve(8);
    const mask = (1 << prefixBits) - 1;
    if (value < mask) {
      this.#bytes[this.#length++] = flags | value;
      return;
    }
    this.#bytes[this.#length++] = flags | mask;
    for (value -= mask; value >= 0x80; value >>>= 7) this.#bytes[this.#length++] = 0x80 | (value & 0x7f);
    this.#bytes[this.#length++] = value;
  }

  #string(text: string): void {
    this.#integer(0, 7, text.length);
    this.#reserve(text.length);
    for (let i = 0; i < text.length; i++) this.#bytes[this.#length++] = text.charCodeAt(i);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return;
    const grown = new Uint8Array(2 * (this.#length + bytes));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

/** The static entry of a field; minus that of its name alone, or 0. */
function staticIndex(name: string, value: string): number {
  const known = staticNames().get(name);
  if (!known) return 0;
  return known.values.get(value) ?? -known.first;
}

interface StaticName {
  /** The first entry with this name. */
  readonly first: number;
  /** The entries that have a value. */
  readonly values: Map<string, number>;
}

/** Shared by all connections; created on first use. */
const staticNames = once(() => {
  const names = new Map<string, StaticName>();
  for (const [index, [name, value]] of STATIC.entries()) {
    const known = names.get(name) ?? { first: index + 1, values: new Map() };
    if (value !== "") known.values.set(value, index + 1);
    names.set(name, known);
  }
  return names;
});

/** The size of a field in tables and lists. */
export function sizeOf([name, value]: readonly [string, string]): number {
  return name.length + value.length + ENTRY_BYTES;
}
