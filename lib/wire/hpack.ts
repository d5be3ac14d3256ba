/**
 * HPACK (RFC 7541): the compression of HTTP/2 header fields, one encoder and one decoder per connection.
 *
 * The decoder reads everything the standard allows and bounds what it keeps. The encoder is plain: static table,
 * a dynamic table that fills up once with fields worth repeating, no Huffman code.
 */

/** Header fields in order; names in lower case. Values hold one character per byte. */
export type Fields = readonly (readonly [name: string, value: string])[];

export class HpackError extends Error {}

const TABLE_BYTES = 4096;

/** What an entry costs on top of its text (RFC 7541 §4.1). */
const ENTRY_BYTES = 32;

/** Names whose fields repeat from call to call on a connection; all others would only push these out. */
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
const STATIC: Fields = [
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

/** Bits of each symbol's Huffman code (RFC 7541 appendix B); the code is canonical, so lengths say it all. */
// deno-fmt-ignore
const CODE_BITS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28,
  28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15,
  6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20,
  20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23,
  24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22,
  22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27,
  24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26,
  26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const LONGEST_CODE_BITS = 30;
const END_OF_STRING = 256;

/** Decodes header blocks in the order in which they arrive on one connection. */
export class HpackDecoder {
  /** Newest first. */
  readonly #dynamic: [string, string][] = [];
  #dynamicBytes = 0;
  #tableBytes = TABLE_BYTES;
  #huffman?: Huffman;
  #block: Uint8Array = new Uint8Array();
  #at = 0;

  /** @param listBytes fields of a block beyond this many bytes are read, to keep in step, and thrown away */
  constructor(private readonly listBytes: number) {}

  /** The fields of a block; `undefined` when there are too many of them. Broken blocks throw `HpackError`. */
  decode(block: Uint8Array): Fields | undefined {
    this.#block = block;
    this.#at = 0;
    const fields: [string, string][] = [];
    let bytes = 0;
    while (this.#at < block.length) {
      const field = this.#field();
      if (!field) continue;
      bytes += sizeOf(field);
      if (bytes <= this.listBytes) fields.push(field);
    }
    return bytes <= this.listBytes ? fields : undefined;
  }

  #field(): [string, string] | undefined {
    const byte = this.#block[this.#at];
    if (byte & 0x80) return this.#entry(this.#integer(7));
    if (byte & 0x40) {
      const field = this.#literal(6);
      this.#add(field);
      return field;
    }
    if (byte & 0x20) {
      const bytes = this.#integer(5);
      if (bytes > TABLE_BYTES) throw new HpackError(`table size ${bytes}, at most ${TABLE_BYTES} was agreed`);
      this.#tableBytes = bytes;
      this.#evict();
      return undefined;
    }
    return this.#literal(4);
  }

  #literal(prefixBits: number): [string, string] {
    const index = this.#integer(prefixBits);
    const name = index === 0 ? this.#string() : this.#entry(index)[0];
    return [name, this.#string()];
  }

  #entry(index: number): [string, string] {
    const field = index <= STATIC.length ? STATIC[index - 1] : this.#dynamic[index - STATIC.length - 1];
    if (!field) throw new HpackError(`no entry ${index} in the table`);
    return field as [string, string];
  }

  #add(field: [string, string]): void {
    this.#dynamic.unshift(field);
    this.#dynamicBytes += sizeOf(field);
    this.#evict();
  }

  #evict(): void {
    while (this.#dynamicBytes > this.#tableBytes) this.#dynamicBytes -= sizeOf(this.#dynamic.pop()!);
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
    if (this.#at >= this.#block.length) throw new HpackError("block ends in the middle of a field");
    return this.#block[this.#at++];
  }

  #string(): string {
    const huffman = (this.#block[this.#at] & 0x80) !== 0;
    const length = this.#integer(7);
    const end = this.#at + length;
    if (end > this.#block.length) throw new HpackError("string runs past the end of its block");
    const bytes = this.#block.subarray(this.#at, end);
    this.#at = end;
    return huffman ? (this.#huffman ??= new Huffman()).decode(bytes) : latin1(bytes);
  }
}

/** The canonical code: for each length the first code, where its symbols start, and how many there are. */
class Huffman {
  readonly #symbols: number[];
  readonly #firstCode = new Int32Array(LONGEST_CODE_BITS + 1);
  readonly #firstIndex = new Int32Array(LONGEST_CODE_BITS + 1);
  readonly #count = new Int32Array(LONGEST_CODE_BITS + 1);

  constructor() {
    this.#symbols = CODE_BITS.map((_, symbol) => symbol).sort((a, b) => CODE_BITS[a] - CODE_BITS[b] || a - b);
    for (const bits of CODE_BITS) this.#count[bits]++;
    for (let bits = 1; bits <= LONGEST_CODE_BITS; bits++) {
      this.#firstCode[bits] = (this.#firstCode[bits - 1] + this.#count[bits - 1]) << 1;
      this.#firstIndex[bits] = this.#firstIndex[bits - 1] + this.#count[bits - 1];
    }
  }

  decode(bytes: Uint8Array): string {
    const decoded = new Uint8Array(Math.floor(bytes.length * 8 / 5));
    let length = 0, code = 0, bits = 0;
    for (const byte of bytes) {
      for (let bit = 7; bit >= 0; bit--) {
        code = (code << 1) | ((byte >> bit) & 1);
        bits++;
        const offset = code - this.#firstCode[bits];
        if (offset >= 0 && offset < this.#count[bits]) {
          const symbol = this.#symbols[this.#firstIndex[bits] + offset];
          if (symbol === END_OF_STRING) throw new HpackError("end of string within a string");
          decoded[length++] = symbol;
          code = 0;
          bits = 0;
        } else if (bits === LONGEST_CODE_BITS) throw new HpackError("no such Huffman code");
      }
    }
    if (bits > 7 || code !== (1 << bits) - 1) throw new HpackError("wrong padding after a Huffman string");
    return latin1(decoded.subarray(0, length));
  }
}

/** Encodes header blocks in the order in which they leave on one connection. */
export class HpackEncoder {
  /** Position of each field, counted from the oldest; the table only grows until it is full. */
  readonly #dynamic = new Map<string, number>();
  #dynamicBytes = 0;
  #tableBytes = TABLE_BYTES;
  #resized = false;
  #bytes = new Uint8Array(512);
  #length = 0;

  /** Takes the peer's limit for the table: the next block starts it anew. */
  resize(tableBytes: number): void {
    this.#tableBytes = Math.min(TABLE_BYTES, tableBytes);
    this.#dynamic.clear();
    this.#dynamicBytes = 0;
    this.#resized = true;
  }

  /** A header block; valid until the next call. */
  encode(fields: Fields): Uint8Array {
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
    const key = `${name} ${value}`;
    const position = this.#dynamic.get(key);
    if (position !== undefined) {
      return this.#integer(0x80, 7, STATIC.length + this.#dynamic.size - position);
    }
    const size = sizeOf([name, value]);
    const keep = this.#dynamicBytes + size <= this.#tableBytes;
    this.#integer(keep ? 0x40 : 0x00, keep ? 6 : 4, nameIndex);
    if (nameIndex === 0) this.#string(name);
    this.#string(value);
    if (!keep) return;
    this.#dynamic.set(key, this.#dynamic.size);
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
  switch (name) {
    case ":status":
      return value === "200" ? 8 : scan(name, value);
    case ":method":
      return value === "POST" ? 3 : scan(name, value);
    case "content-type":
      return -31;
    default:
      return scan(name, value);
  }
}

function scan(name: string, value: string): number {
  let named = 0;
  for (let index = 0; index < STATIC.length; index++) {
    if (STATIC[index][0] !== name) continue;
    if (STATIC[index][1] === value && value !== "") return index + 1;
    named ||= index + 1;
  }
  return named === 0 ? 0 : -named;
}

function sizeOf([name, value]: readonly [string, string]): number {
  return name.length + value.length + ENTRY_BYTES;
}

function latin1(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4096) {
    text += String.fromCharCode(...bytes.subarray(at, at + 4096));
  }
  return text;
}
