/**
 * The bytes of attackers: frames of HTTP/2, header blocks, messages of gRPC. Written for the attacks alone, because
 * they send what the project's own client never would.
 */

export const PREFACE = text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
  unknown: 0x77,
} as const;

export const END_STREAM = 1;
export const ACK = 1;
export const END_HEADERS = 4;
export const PADDED = 8;

export const SETTING = { tableSize: 1, window: 4 } as const;

/** The largest window that the standard allows. */
export const WIDEST = 2 ** 31 - 1;
/** Payload of a frame that every server takes. */
export const FRAME_BYTES = 16_384;

export function text(value: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(value);
}

export function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** `count` copies of `part`, one after another. */
export function repeated(part: Uint8Array, count: number): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(part.length * count);
  for (let at = 0; at < all.length; at += part.length) all.set(part, at);
  return all;
}

/** Bytes that follow from `seed` alone and look like chance. */
export function noise(bytes: number, seed: number): Uint8Array<ArrayBuffer> {
  let state = seed | 1;
  return Uint8Array.from({ length: bytes }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state & 0xff;
  });
}

export function uint32(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
}

export function frame(type: number, flags: number, stream: number, payload: Uint8Array = new Uint8Array()) {
  const { length } = payload;
  return join([Uint8Array.of(length >> 16, length >> 8, length, type, flags), uint32(stream), payload]);
}

/** A SETTINGS frame of identifier and value each. */
export function settings(...entries: readonly (readonly [id: number, value: number])[]) {
  const payload = join(entries.map(([id, value]) => join([Uint8Array.of(id >> 8, id), uint32(value)])));
  return frame(FRAME.settings, 0, 0, payload);
}

export function widen(stream: number, bytes: number) {
  return frame(FRAME.window, 0, stream, uint32(bytes));
}

// Header blocks (RFC 7541): literals that no table keeps, but where an attack says otherwise.

/** An integer with a prefix of `bits`, the rest of whose first byte is `flags`. */
export function integer(flags: number, bits: number, value: number): Uint8Array {
  const mask = (1 << bits) - 1;
  if (value < mask) return Uint8Array.of(flags | value);
  const bytes = [flags | mask];
  for (value -= mask; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push(0x80 | (value % 0x80));
  return Uint8Array.from([...bytes, value]);
}

export function literal(name: string, value: string): Uint8Array {
  return join([Uint8Array.of(0), string(name), string(value)]);
}

/** A literal that the server's table keeps. */
export function indexed(name: string, value: string): Uint8Array {
  return join([Uint8Array.of(0x40), string(name), string(value)]);
}

/** A literal whose value comes as `bytes` of Huffman code. */
export function huffman(name: string, bytes: Uint8Array): Uint8Array {
  return join([Uint8Array.of(0), string(name), integer(0x80, 7, bytes.length), bytes]);
}

function string(value: string): Uint8Array {
  const bytes = text(value);
  return join([integer(0, 7, bytes.length), bytes]);
}

export interface RequestHead {
  readonly secure?: boolean;
  readonly contentType?: string;
  readonly token?: string;
  /** Further fields, encoded. */
  readonly more?: Uint8Array;
}

/** The header block of a POST to `path`. */
export function head(path: string, { secure, contentType, token, more }: RequestHead = {}) {
  return join([
    Uint8Array.of(0x83, secure ? 0x87 : 0x86),
    literal(":path", path),
    literal(":authority", "localhost"),
    literal("content-type", contentType ?? "application/grpc"),
    literal("te", "trailers"),
    token === undefined ? new Uint8Array() : literal("authorization", `Bearer ${token}`),
    more ?? new Uint8Array(),
  ]);
}

/** A block in one HEADERS frame and as many of CONTINUATION as it needs. */
export function headers(stream: number, block: Uint8Array, flags = 0) {
  const frames: Uint8Array[] = [];
  for (let at = 0; at === 0 || at < block.length; at += FRAME_BYTES) {
    const last = at + FRAME_BYTES >= block.length ? END_HEADERS : 0;
    const type = at === 0 ? FRAME.headers : FRAME.continuation;
    frames.push(frame(type, last | (at === 0 ? flags : 0), stream, block.subarray(at, at + FRAME_BYTES)));
  }
  return join(frames);
}

// Messages.

/** A gRPC message, its prefix saying `declared` bytes. */
export function message(body: Uint8Array, { compressed = false, declared = body.length } = {}) {
  return join([Uint8Array.of(compressed ? 1 : 0), uint32(declared), body]);
}

/** A field of bytes or text in a protobuf message. */
export function field(number: number, value: string | Uint8Array): Uint8Array {
  const bytes = typeof value === "string" ? text(value) : value;
  return join([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push(0x80 | (value % 0x80));
  return Uint8Array.from([...bytes, value]);
}
