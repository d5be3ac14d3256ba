/**
 * The frames of HTTP/2 (RFC 9113): their numbers, writing them, and the errors of broken ones.
 */

import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";
import { giveBack, giveBackAll } from "../flow/given_back.ts";

export const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/** Largest payload that we accept; the least that the standard lets us announce. */
export const MAX_FRAME_BYTES = 16_384;
export const MAX_WINDOW_BYTES = 2 ** 31 - 1;
export const FRAME_HEADER_BYTES = 9;

/** Allocation unit of the outbox. */
const BLOCK_BYTES = 64 * 1024;
/**
 * Size of the first block: enough for the start of a connection and a first answer. Short connections must cost
 * little, because their blocks pile up until the runtime collects them (measured: 67 MB).
 */
const FIRST_BLOCK_BYTES = 1024;

export const TYPE = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
} as const;

export const FLAG = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const;
export const SETTING = {
  tableSize: 1,
  push: 2,
  streams: 3,
  window: 4,
  frameSize: 5,
  headerBytes: 6,
} as const;

/** The HTTP/2 error codes used here. */
export const H2 = {
  noError: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refused: 7,
  cancel: 8,
  compression: 9,
  calm: 11,
} as const;

/** The peer broke the rules: the connection ends with this code. */
export class ProtocolError extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

/** The error of a connection that ends. */
export function lost(problem: string): SvcError {
  return new SvcError("unavailable", problem);
}

/** Outgoing bytes, in one growing block. */
export class OutgoingBytes {
  #block = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  /** The bytes being written, which may be part of the block. */
  #taken: Uint8Array | undefined;

  get bytes(): number {
    return this.#end - this.#start;
  }

  frame(type: number, flags: number, stream: number, payload: Uint8Array): void {
    this.frameHeader(type, flags, stream, payload.length);
    this.append(payload);
  }

  frameHeader(type: number, flags: number, stream: number, length: number): void {
    this.#reserve(FRAME_HEADER_BYTES);
    const at = this.#end, block = this.#block;
    block[at] = length >> 16;
    block[at + 1] = length >> 8;
    block[at + 2] = length;
    block[at + 3] = type;
    block[at + 4] = flags;
    block[at + 5] = stream >> 24;
    block[at + 6] = stream >> 16;
    block[at + 7] = stream >> 8;
    block[at + 8] = stream;
    this.#end += FRAME_HEADER_BYTES;
  }

  append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#block.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** The collected bytes, for writing; they stay untouched until `written`. */
  take(): Uint8Array | undefined {
    if (this.bytes === 0) return undefined;
    const bytes = this.#block.subarray(this.#start, this.#end);
    this.#start = this.#end;
    return this.#taken = bytes;
  }

  /** The taken bytes have been written: their memory is reused. */
  written(): void {
    const bytes = this.#taken;
    this.#taken = undefined;
    if (bytes && bytes.buffer !== this.#block.buffer) giveBackAll(bytes);
    else if (this.bytes === 0) this.#start = this.#end = 0;
  }

  #reserve(bytes: number): void {
    if (this.#end + bytes <= this.#block.length) return;
    const kept = this.#block.subarray(this.#start, this.#end);
    const least = this.#block.length === 0 ? FIRST_BLOCK_BYTES : BLOCK_BYTES;
    const block = Buffer.allocUnsafeSlow(Math.max(least, 2 * (kept.length + bytes)));
    block.set(kept);
    this.#end = kept.length;
    this.#start = 0;
    if (this.#taken?.buffer !== kept.buffer) giveBack(this.#block);
    this.#block = block;
  }
}

/** The payload without its padding. */
export function unpadded(flags: number, payload: Uint8Array): Uint8Array {
  if (!(flags & FLAG.padded)) return payload;
  const [padding = 0] = payload;
  if (payload.length === 0 || padding >= payload.length) {
    throw new ProtocolError(H2.protocol, "wrong padding");
  }
  return payload.subarray(1, payload.length - padding);
}

/** Refuses a stream that depends on itself. Priorities have no other effect. */
export function checkPriority(id: number, priority: Uint8Array): void {
  if ((readUint32(priority, 0) & 0x7fffffff) !== id) return;
  throw new ProtocolError(H2.protocol, `stream ${id} depends on itself`);
}

/** A byte of a frame that has arrived; 0 beyond its end. */
export function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0;
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return (byteAt(bytes, at) << 24 | byteAt(bytes, at + 1) << 16 | byteAt(bytes, at + 2) << 8 |
    byteAt(bytes, at + 3)) >>> 0;
}

export function uint32(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
}
