/**
 * What gRPC and gRPC-web share: messages with their five-byte prefix, time limits, status texts, metadata.
 */

import { Buffer } from "node:buffer";
import { gunzip, inflate, type InputType } from "node:zlib";
import { messageOf, SvcError } from "../base/error.ts";
import type { Fields } from "./hpack.ts";
import { Metadata } from "./metadata.ts";

/** Largest message, either way (the published limit). */
export const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;

/** What gRPC over HTTP/2 calls itself. */
export const GRPC_CONTENT_TYPE = "application/grpc";

export function isGrpc(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/grpc(?:$|[+;])/.test(contentType);
}

const PREFIX_BYTES = 5;
const COMPRESSED = 1;

/** A message with its prefix, as it travels. */
export function framed(message: Uint8Array, flags = 0): Uint8Array {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = flags;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

/** Refuses to send what the other side would refuse to take. */
export function checkSize(message: Uint8Array, path: string): void {
  if (message.length <= MAX_MESSAGE_BYTES) return;
  const problem =
    `${path} has a message of ${message.length} bytes to send, at most ${MAX_MESSAGE_BYTES} may be`;
  throw new SvcError("resource_exhausted", problem);
}

export interface MessageReaderOptions {
  /** How messages marked as compressed are compressed. */
  readonly encoding?: string;
  /** Hears of bytes that the reader needs no more room for. */
  readonly taken?: (bytes: number) => void;
}

/** Cuts a stream of bytes into messages. Has one reader; room is given back as fast as it reads. */
export class MessageReader implements AsyncIterableIterator<Uint8Array> {
  readonly #chunks: Uint8Array[] = [];
  #buffered = 0;
  #untaken = 0;
  /** Flag and length of the message that is coming in. */
  #prefix: { compressed: boolean; length: number } | undefined;
  #waiting: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined;
  #ended = false;
  #error: SvcError | undefined;

  constructor(private readonly options: MessageReaderOptions = {}) {}

  push(bytes: Uint8Array): void {
    if (this.#error || this.#ended) return this.options.taken?.(bytes.length);
    this.#chunks.push(bytes);
    this.#buffered += bytes.length;
    this.#untaken += bytes.length;
    this.#advance();
  }

  /** No more bytes; what is complete can still be read, then comes the error, if there is one. */
  end(error?: SvcError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#advance();
  }

  /** Fails the reader at once. */
  abort(error: SvcError): void {
    this.#chunks.length = 0;
    this.#buffered = 0;
    this.#prefix = undefined;
    this.#ended = true;
    this.#error ??= error;
    this.#advance();
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    this.#waiting ??= Promise.withResolvers();
    const { promise } = this.#waiting;
    this.#advance();
    return promise;
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #advance(): void {
    const waiting = this.#waiting;
    if (!waiting) return;
    try {
      const message = this.#message();
      if (message) waiting.resolve(message);
      else if (!this.#ended) return;
      else if (this.#error) waiting.reject(this.#error);
      else if (this.#buffered > 0 || this.#prefix) throw cut();
      else waiting.resolve({ done: true, value: undefined });
    } catch (error) {
      waiting.reject(error);
    }
    this.#waiting = undefined;
  }

  /** The next message, if all of it is here. */
  #message(): Promise<IteratorResult<Uint8Array>> | IteratorResult<Uint8Array> | undefined {
    if (!this.#prefix && this.#buffered >= PREFIX_BYTES) this.#prefix = this.#readPrefix();
    const prefix = this.#prefix;
    if (!prefix || this.#buffered < prefix.length) {
      this.#give(this.#untaken);
      return undefined;
    }
    const bytes = this.#cut(prefix.length);
    this.#prefix = undefined;
    this.#give(Math.min(this.#untaken, PREFIX_BYTES + prefix.length));
    if (!prefix.compressed) return { done: false, value: plain(bytes) };
    return decompressed(bytes, this.options.encoding).then((value) => ({ done: false, value: plain(value) }));
  }

  #readPrefix() {
    const prefix = this.#cut(PREFIX_BYTES);
    const length = new DataView(prefix.buffer, prefix.byteOffset).getUint32(1);
    if (prefix[0] > COMPRESSED) {
      throw new SvcError("internal", `a message begins with byte ${prefix[0]}, wanted 0 or 1`);
    }
    if (length > MAX_MESSAGE_BYTES) {
      const problem = `a message of ${length} bytes was sent, at most ${MAX_MESSAGE_BYTES} are taken`;
      throw new SvcError("resource_exhausted", problem);
    }
    return { compressed: prefix[0] === COMPRESSED, length };
  }

  /** The first `length` of the buffered bytes in one piece. */
  #cut(length: number): Uint8Array {
    this.#buffered -= length;
    const first = this.#chunks[0];
    if (first && first.length > length) {
      this.#chunks[0] = first.subarray(length);
      return first.subarray(0, length);
    }
    if (first && first.length === length) return this.#chunks.shift()!;
    const bytes = Buffer.allocUnsafeSlow(length);
    let chunk = 0;
    for (let at = 0; at < length; chunk++) {
      const part = this.#chunks[chunk];
      bytes.set(part.subarray(0, length - at), at);
      if (at + part.length > length) {
        this.#chunks[chunk] = part.subarray(length - at);
        break;
      }
      at += part.length;
    }
    this.#chunks.splice(0, chunk);
    return bytes;
  }

  #give(bytes: number): void {
    if (bytes === 0) return;
    this.#untaken -= bytes;
    this.options.taken?.(bytes);
  }
}

/** Not a `Buffer`: byte fields of a message are parts of these bytes, and a Buffer's `slice` does not copy. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function cut(): SvcError {
  return new SvcError("internal", "the stream ended in the middle of a message");
}

function decompressed(bytes: Uint8Array, encoding: string | undefined): Promise<Uint8Array> {
  if (encoding === "identity") return Promise.resolve(bytes);
  const decompress: typeof gunzip | undefined = { gzip: gunzip, deflate: inflate as typeof gunzip }[
    encoding ?? ""
  ];
  if (!decompress) {
    const problem = `a message is compressed with "${encoding ?? "nothing named"}", wanted gzip or deflate`;
    return Promise.reject(new SvcError(encoding ? "unimplemented" : "internal", problem));
  }
  return new Promise((resolve, reject) => {
    decompress(bytes as InputType, { maxOutputLength: MAX_MESSAGE_BYTES }, (error, result) => {
      if (!error) return resolve(result);
      const tooLarge = (error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE";
      const problem = `cannot decompress a message: ${messageOf(error)}`;
      reject(new SvcError(tooLarge ? "resource_exhausted" : "internal", problem, { cause: error }));
    });
  });
}

/** Milliseconds of a `grpc-timeout`; a wrong one is `internal`, as other servers say. */
export function parseTimeoutMs(text: string): number {
  const unitsMs: Record<string, number> = { H: 36e5, M: 6e4, S: 1e3, m: 1, u: 1e-3, n: 1e-6 };
  const match = /^(\d{1,8})([HMSmun])$/.exec(text);
  if (!match) throw new SvcError("internal", `grpc-timeout is "${text}", wanted digits and one of HMSmun`);
  return Number(match[1]) * unitsMs[match[2]];
}

export function formatTimeout(ms: number): string {
  const rounded = Math.max(0, Math.ceil(ms));
  if (rounded < 1e8) return `${rounded}m`;
  return `${Math.min(99_999_999, Math.ceil(ms / 1000))}S`;
}

/** A status text as it travels: UTF-8, percent-encoded but for printable ASCII. */
export function encodeStatusText(text: string): string {
  if (/^[ -$&-~]*$/.test(text)) return text;
  let encoded = "";
  for (const byte of Buffer.from(text)) {
    const plain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}

/** Reads a status text; what is not encoded well stays as it is. */
export function decodeStatusText(text: string): string {
  if (!text.includes("%")) return text;
  const bytes = text.replace(/%([0-9a-fA-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString("utf8");
}

/** Header fields that belong to the transport, not to the call. */
const TRANSPORT_FIELDS = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "content-type",
  "grpc-accept-encoding",
  "grpc-encoding",
  "grpc-message",
  "grpc-status",
  "grpc-timeout",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** The metadata among header fields. */
export function metadataOf(fields: Fields): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of fields) {
    if (name.startsWith(":") || TRANSPORT_FIELDS.has(name)) continue;
    if (name.endsWith("-bin") && value.includes(",")) {
      for (const part of value.split(",")) metadata.append(name, part.trim());
    } else metadata.append(name, value);
  }
  return metadata;
}

/** Metadata as header fields. What cannot travel is left out (names) or replaced by `?` (characters). */
export function fieldsOf(metadata: Metadata): [string, string][] {
  const fields: [string, string][] = [];
  for (const [name, value] of metadata) {
    if (TRANSPORT_FIELDS.has(name) || !/^[0-9a-z_.-]+$/.test(name)) continue;
    fields.push([name, value.replace(/[^\x20-\x7e]/g, "?")]);
  }
  return fields;
}
