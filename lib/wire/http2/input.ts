/**
 * Cuts the bytes of a socket into HTTP/2 frames, and joins frames to header blocks.
 *
 * Owns the received part of an incomplete frame or block. Its bytes are copied once, however small the pieces are in
 * which they arrive, and nothing keeps those pieces alive.
 */

import { Buffer } from "node:buffer";
import { giveBack } from "../flow/given_back.ts";
import { escapedLine } from "../../base/escape.ts";
import {
  byteAt,
  FLAG,
  FRAME_HEADER_BYTES,
  H2,
  MAX_FRAME_BYTES,
  PREFACE,
  ProtocolError,
  readUint32,
  TYPE,
} from "./frame.ts";

/** Limit of one header block as it travels, over all its frames. */
const MAX_BLOCK_BYTES = 256 * 1024;
/** First allocation for an incomplete frame or block; it grows with the received bytes. */
const FIRST_BYTES = 256;

const NOTHING: Uint8Array = new Uint8Array();

/** The hint in a client's error if the server seems to speak TLS. */
export const WITH_TLS = "does the server want TLS?";
/** The hint if it speaks HTTP/1.1 alone. */
export const WITHOUT_HTTP2 =
  "it speaks no HTTP/2, which gRPC needs: turn HTTP/2 on at the server, or at the proxy before it";
/** Bytes of an answer in which such words are looked for. */
const HINT_BYTES = 1024;
/** Shown letters of another protocol's greeting. */
const GREETING_CHARS = 60;
/** Words of servers that want TLS, in their answers in the clear. */
const TLS_WORDS = /TLS|SSL|HTTPS/;

/** A buffer that grows with the received bytes; its owner enforces a limit. */
class GrowingBuffer {
  #bytes = NOTHING;
  length = 0;

  /** The bytes received so far. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.length);
  }

  /** @param wanted how many bytes there will be in the end, at most */
  append(bytes: Uint8Array, wanted: number): void {
    const length = this.length + bytes.length;
    if (length > this.#bytes.length) {
      // Memory follows the received bytes, never a peer's announcement.
      const grown = Buffer.allocUnsafeSlow(Math.max(length, Math.min(wanted, FIRST_BYTES + 2 * length)));
      grown.set(this.bytes);
      giveBack(this.#bytes);
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.length);
    this.length = length;
  }

  /** Removes and returns all bytes. */
  clear(): Uint8Array {
    const bytes = this.#bytes;
    this.#bytes = NOTHING;
    this.length = 0;
    return bytes;
  }
}

/** Cuts the bytes of a socket into frames. */
export class FrameReader {
  type = 0;
  flags = 0;
  stream = 0;
  /** Valid until the next `push` or `release`; copy it to keep it longer. */
  payload = NOTHING;
  /** Frames read so far: none before the first one, which is always SETTINGS. */
  frames = 0;
  #chunk = NOTHING;
  #at = 0;
  readonly #begun = new GrowingBuffer();
  /** The size of all frames read. */
  readonly #spent: Uint8Array[] = [];
  #prefaceLeft: number;

  constructor(private readonly role: "server" | "client") {
    this.#prefaceLeft = role === "server" ? PREFACE.length : 0;
  }

  /** Whether a frame is incomplete. */
  get inFrame(): boolean {
    return this.#begun.length > 0;
  }

  /** Takes received bytes. */
  push(bytes: Uint8Array): void {
    // A part of a Buffer is a Buffer, which takes the runtime several times as long to create.
    bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
    const unread = this.#chunk.subarray(this.#at);
    if (unread.length > 0) {
      this.#spent.push(this.#chunk, bytes);
      this.#chunk = Buffer.concat([unread, bytes]);
    } else this.#chunk = bytes;

    this.#at = 0;
    if (this.role === "client" && this.frames === 0 && !this.inFrame) {
      const hint = hintOf(bytes);
      if (hint !== undefined) throw new ProtocolError(H2.protocol, hint);
    }

    for (; this.#prefaceLeft > 0 && this.#at < bytes.length; this.#at++, this.#prefaceLeft--) {
      if (this.#chunk[this.#at] !== PREFACE.charCodeAt(PREFACE.length - this.#prefaceLeft)) {
        throw new ProtocolError(H2.protocol, "the connection does not begin as HTTP/2 does");
      }
    }
  }

  /** Reads the next frame into the fields; false if it is incomplete. */
  next(): boolean {
    if (this.inFrame) return this.#resume();
    const left = this.#chunk.length - this.#at;
    if (left >= FRAME_HEADER_BYTES) {
      const end = FRAME_HEADER_BYTES + this.#lengthOf(this.#chunk, this.#at);
      if (left >= end) {
        this.#take(this.#chunk, this.#at, this.#at + end);
        this.#at += end;
        return true;
      }
    }
    if (left > 0) this.#resume();
    return false;
  }

  /** Releases everything read, the payload included. */
  release(): void {
    if (this.#at >= this.#chunk.length && this.#at > 0) {
      this.#spent.push(this.#chunk);
      this.#chunk = NOTHING;
      this.#at = 0;
    }
    while (this.#spent.length > 0) giveBack(this.#spent.pop()!);
  }

  /** Continues an incomplete frame. */
  #resume(): boolean {
    if (!this.#buffer(FRAME_HEADER_BYTES)) return false;
    if (!this.#buffer(FRAME_HEADER_BYTES + this.#lengthOf(this.#begun.bytes, 0))) return false;
    this.#take(this.#begun.bytes, 0, this.#begun.length);
    this.#spent.push(this.#begun.clear());
    return true;
  }

  /** Whether the frame has `wanted` bytes now. */
  #buffer(wanted: number): boolean {
    const missing = wanted - this.#begun.length;
    if (missing > 0) {
      const part = this.#chunk.subarray(this.#at, this.#at + missing);
      this.#at += part.length;
      this.#begun.append(part, wanted);
    }
    return this.#begun.length >= wanted;
  }

  /** The length of a payload, known from the frame's header before the rest arrives. */
  #lengthOf(bytes: Uint8Array, at: number): number {
    const length = readUint32(bytes, at) >>> 8;
    if (length > MAX_FRAME_BYTES) throw new ProtocolError(H2.frameSize, `frame of ${length} bytes`);
    if (this.frames === 0 && (bytes[at + 3] !== TYPE.settings || byteAt(bytes, at + 4) & FLAG.ack)) {
      throw new ProtocolError(H2.protocol, "the first frame is not SETTINGS");
    }
    return length;
  }

  /** Takes the frame between `at` and `end`. */
  #take(bytes: Uint8Array, at: number, end: number): void {
    this.type = byteAt(bytes, at + 3);
    this.flags = byteAt(bytes, at + 4);
    this.stream = readUint32(bytes, at + 5) & 0x7fffffff;
    this.payload = bytes.subarray(at + FRAME_HEADER_BYTES, end);
    this.frames++;
  }
}

/** What the first bytes of a server tell that does not speak HTTP/2; `undefined` if it may. */
function hintOf(bytes: Uint8Array): string | undefined {
  const beginning = String.fromCharCode(...bytes.subarray(0, HINT_BYTES));
  if (beginning.startsWith("\x15\x03")) return WITH_TLS;
  // No frame begins with a letter: its length would be beyond every limit. Some servers answer with a page alone.
  if (!/^[\x20-\x7e]/.test(beginning)) return undefined;
  if (TLS_WORDS.test(beginning)) return WITH_TLS;
  if (/^(?:HTTP\/|\s*<)/.test(beginning)) return WITHOUT_HTTP2;
  const [line = ""] = beginning.slice(0, GREETING_CHARS).split(/[\r\n]/);
  return `it speaks another protocol than HTTP/2 (${escapedLine(line)}): is it the right port?`;
}

/** A header block of more than one frame. */
export class HeaderBlock {
  readonly #parts = new GrowingBuffer();
  #frameBytes = 0;

  constructor(readonly stream: number, readonly ended: boolean) {}

  get bytes(): Uint8Array {
    return this.#parts.bytes;
  }

  append(part: Uint8Array): void {
    // The frame headers count, too; otherwise a peer could send empty frames forever.
    this.#frameBytes += part.length + FRAME_HEADER_BYTES;
    if (this.#frameBytes > MAX_BLOCK_BYTES) throw new ProtocolError(H2.calm, "header block too large");
    this.#parts.append(part, MAX_BLOCK_BYTES);
  }

  /** The fields have been read: frees the bytes. */
  release(): void {
    giveBack(this.#parts.clear());
  }
}
