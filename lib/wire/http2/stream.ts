/**
 * One stream of an HTTP/2 connection: a header and data each way, and perhaps trailers.
 *
 * Owns the stream's two windows, its unsent data and its end. The connection decides when data goes out.
 */

import { SvcError } from "../../base/error.ts";
import type { ByteBudget } from "../port/byte_budget.ts";
import { giveBackAll } from "../given_back.ts";
import type { Fields } from "./hpack.ts";
import { contentLength, problemOf } from "./fields.ts";
import { STALL_MS, Stay } from "./watch.ts";
import { FLAG, H2, MAX_WINDOW_BYTES, type Outbox, TYPE } from "./frame.ts";

/** What a peer may send on one stream before we have read it. */
export const STREAM_WINDOW_BYTES = 1024 * 1024;
/** The writer of a stream is asked to wait while this much of its data is queued. */
const HIGH_WATER_BYTES = 64 * 1024;
/** Pieces of data below this size are put together before anybody hears of them. */
const SMALL_BYTES = 1024;

/**
 * What the owner of a stream hears. `closed` comes last and once; with an error unless both sides ended well, and
 * `untouched` where the peer says that it has done nothing about the stream, so that it can be tried again.
 */
export interface StreamListener {
  /** The answer's header, then perhaps trailers. A server gets the request's header on accepting. */
  headers(fields: Fields, ended: boolean): void;
  /** Bytes of the body, lent for the call: whoever keeps them copies them. Give `stream.credit` back once they are read. */
  data(bytes: Uint8Array): void;
  ended(): void;
  /** Whether the peer has begun a message and owes the rest of it to a reader. */
  readonly owed?: boolean;
  closed(error: SvcError | undefined, untouched?: boolean): void;
}

/** A budget for answers that wait. */
export type Unread = Pick<ByteBudget, "take" | "give" | "check" | "roomBytes">;

/** What a stream needs of its connection. */
interface Carrier {
  readonly isServer: boolean;
  /** False if the peer takes no fields of that size. */
  sendHeaders(stream: number, fields: Fields, ended: boolean): boolean;
  sendReset(stream: number, code: number): void;
  sendCredit(stream: number, bytes: number): void;
  /** Charged with data that waits to be sent. */
  readonly unread?: Unread;
  /** Says that a stream has something to send. */
  enqueue(stream: Stream): void;
  /** Says that a stream has gathered data, to be handed on once what has come is read. */
  gathers(stream: Stream): void;
  remove(stream: Stream): void;
  /** Notes that the peer has made us reset a stream. */
  blame(): void;
}

export class Stream {
  /** Set by whoever opens or accepts the stream. */
  listener: StreamListener | undefined;
  closed = false;
  /** Whether the connection has this stream in its queue. */
  queued = false;
  /** Of data that waits for the peer, and of messages that the peer has begun. */
  #unread: Stay | undefined;
  #owed: Stay | undefined;
  #sentBytes = 0;
  readonly #unsent: Uint8Array[] = [];
  #unsentBytes = 0;
  /** The memory among it that is given back when it is out. */
  #given: Set<ArrayBufferLike> | undefined;
  #trailers: Fields | undefined;
  #endWanted = false;
  #sentEnd = false;
  #receivedEnd = false;
  #wasReset = false;
  /** Whether the peer's header has come; what follows are trailers. */
  #opened: boolean;
  /** What the peer's header says how much data there is, and how much has come. */
  #announcedBytes: number | undefined;
  #receivedBytes = 0;
  /** Small pieces of data that nobody has heard of yet. */
  #gathered: Uint8Array[] | undefined;
  #receiveWindow = STREAM_WINDOW_BYTES;
  #owedBytes = 0;
  #drained: { promise: Promise<void>; resolve: () => void } | undefined;

  constructor(
    private readonly connection: Carrier,
    readonly id: number,
    public sendWindow: number,
    header?: Fields,
  ) {
    this.#opened = header !== undefined;
    if (header) this.#announcedBytes = contentLength(header);
  }

  /** Whether the peer has said that it sends nothing more. */
  get peerIsDone(): boolean {
    return this.#receivedEnd || this.#wasReset;
  }

  /** Whether something is left to send. */
  get waiting(): boolean {
    return !this.closed && (this.#unsentBytes > 0 || (this.#endWanted && !this.#sentEnd));
  }

  headers(fields: Fields, ended: boolean): void {
    if (this.closed || this.#sentEnd) return;
    if (this.#sendHeaders(fields, ended) && ended) this.#localEnd();
  }

  /**
   * Sends data; a returned promise asks the caller to wait. Resolves when the stream closes, too. Throws
   * `resource_exhausted` where the peer has left too much unread.
   */
  send(bytes: Uint8Array): Promise<void> | undefined {
    if (this.closed || this.#endWanted) return undefined;
    this.connection.unread?.take(bytes.length);
    this.#unsent.push(bytes);
    return this.#added(bytes.length);
  }

  /** The same with `head` before it, and with bytes that are the stream's from now on: it gives back their memory. */
  give(head: Uint8Array, bytes: Uint8Array): Promise<void> | undefined {
    if (this.closed || this.#endWanted) return undefined;
    this.connection.unread?.take(head.length + bytes.length);
    this.#unsent.push(head, bytes);
    this.#given ??= new Set();
    this.#given.add(bytes.buffer);
    return this.#added(head.length + bytes.length);
  }

  /** What may wait to be sent. */
  get unread(): Unread | undefined {
    return this.connection.unread;
  }

  #added(bytes: number): Promise<void> | undefined {
    this.#unsentBytes += bytes;
    this.#enqueue();
    if (this.#unsentBytes < HIGH_WATER_BYTES) return undefined;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  /** Ends our side once the data is out, with trailers if there are any. */
  end(trailers?: Fields): void {
    if (this.closed || this.#endWanted) return;
    this.#endWanted = true;
    this.#trailers = trailers;
    this.#enqueue();
  }

  /** Ends both sides at once. */
  reset(code: number, error: SvcError): void {
    if (this.closed) return;
    this.connection.sendReset(this.id, code);
    this.finish(error);
  }

  fail(code: number, message: string): void {
    if (this.closed) return;
    this.reset(code, new SvcError("internal", message));
    this.connection.blame();
  }

  /** Resets the stream if nothing has moved on it for too long. */
  endStalled(nowMs: number): void {
    this.#unread ??= new Stay();
    this.#owed ??= new Stay();
    const unread = this.#unread.ms(this.waiting ? this.#sentBytes : undefined, nowMs) >= STALL_MS;
    const owed = this.#owed.ms(this.listener?.owed ? this.#receivedBytes : undefined, nowMs) >= STALL_MS;
    if (!unread && !owed) return;
    const what = unread ? "reads nothing of the answer" : "sends nothing more of a message";
    const problem = `the peer ${what} for ${STALL_MS / 1000} s`;
    this.reset(H2.cancel, new SvcError("canceled", problem));
  }

  /** Lets the peer send this many bytes more: the reader has taken them. */
  credit(bytes: number): void {
    this.#owedBytes += bytes;
    if (this.#owedBytes < STREAM_WINDOW_BYTES / 4 || this.#receivedEnd || this.closed) return;
    this.#receiveWindow += this.#owedBytes;
    this.connection.sendCredit(this.id, this.#owedBytes);
    this.#owedBytes = 0;
  }

  /** Ends the stream here without a word to the peer. */
  finish(error: SvcError | undefined, untouched = false): void {
    if (this.closed) return;
    this.closed = true;
    this.connection.unread?.give(this.#unsentBytes);
    for (const bytes of this.#unsent.splice(0)) this.#out(bytes);
    this.#unsentBytes = 0;
    this.#gathered = undefined;
    this.#drained?.resolve();
    this.connection.remove(this);
    this.listener?.closed(error, untouched);
  }

  // What the connection does to its streams.

  /** Sends up to `room` bytes of data and the end, if it is due; returns how many bytes of data. */
  pump(room: number, out: Outbox): number {
    const bytes = Math.max(0, Math.min(room, this.sendWindow, this.#unsentBytes));
    const last = bytes === this.#unsentBytes && this.#endWanted;
    if (bytes > 0 || (last && !this.#trailers)) {
      out.frameHeader(TYPE.data, last && !this.#trailers ? FLAG.endStream : 0, this.id, bytes);
      this.#take(bytes, out);
    }
    this.sendWindow -= bytes;
    this.#sentBytes += bytes;
    if (this.#drained && this.#unsentBytes < HIGH_WATER_BYTES) {
      this.#drained.resolve();
      this.#drained = undefined;
    }
    if (this.#unsentBytes === 0) this.queued = false;
    if (last) {
      if (!this.#trailers || this.#sendHeaders(this.#trailers, true)) this.#localEnd();
    }
    return bytes;
  }

  widen(bytes: number): void {
    this.sendWindow += bytes;
    if (this.sendWindow > MAX_WINDOW_BYTES) return this.fail(H2.flowControl, "window too large");
    if (this.waiting) this.#enqueue();
  }

  receiveHeaders(fields: Fields, ended: boolean): void {
    if (this.#receivedEnd) return this.fail(H2.streamClosed, "header fields after the end");
    const problem = this.#problemOf(fields, ended);
    if (problem) return this.fail(H2.protocol, `malformed message: ${problem}`);
    if (!this.#opened && !interim(fields)) {
      this.#opened = true;
      this.#announcedBytes = contentLength(fields);
    }
    this.handOn();
    if (this.closed) return;
    this.listener?.headers(fields, ended);
    if (ended) this.receiveEnd();
  }

  #problemOf(fields: Fields, ended: boolean): string | undefined {
    const trailers = this.#opened;
    if (trailers && !ended) return "a second header, or trailers without an end";
    return problemOf(fields, trailers ? "trailers" : "response") ??
      (ended && !trailers && interim(fields) ? "an end after an interim header" : undefined);
  }

  receiveData(bytes: Uint8Array, frameBytes: number, ended: boolean): void {
    if (this.#receivedEnd) return this.fail(H2.streamClosed, "data after the end");
    if (!this.#opened) return this.fail(H2.protocol, "malformed message: data before the header");
    this.#receiveWindow -= frameBytes;
    if (this.#receiveWindow < 0) return this.fail(H2.flowControl, "more data than the stream takes");
    if (frameBytes > bytes.length) this.credit(frameBytes - bytes.length);
    this.#receivedBytes += bytes.length;
    const announced = this.#announcedBytes;
    if (announced !== undefined && this.#receivedBytes > announced) return this.#wrongLength();
    if (bytes.length >= SMALL_BYTES || (ended && !this.#gathered)) {
      this.handOn();
      if (bytes.length > 0 && !this.closed) this.listener?.data(bytes);
    } else if (bytes.length > 0) this.#gather(bytes);
    if (ended) this.receiveEnd();
  }

  receiveEnd(): void {
    if (this.#receivedEnd || this.closed) return;
    this.handOn();
    const announced = this.#announcedBytes;
    // An answer without data may tell of the data that there would be (to HEAD, or with status 304).
    const empty = this.#receivedBytes === 0 && !this.connection.isServer;
    if (announced !== undefined && announced !== this.#receivedBytes && !empty) return this.#wrongLength();
    this.#receivedEnd = true;
    this.listener?.ended();
    if (this.#sentEnd) this.finish(undefined);
  }

  #wrongLength(): void {
    this.fail(H2.protocol, "malformed message: its data is not as long as content-length says");
  }

  #gather(bytes: Uint8Array): void {
    if (this.#gathered) return void this.#gathered.push(bytes);
    this.#gathered = [bytes];
    this.connection.gathers(this);
  }

  /** Hands on the pieces of data that have been gathered, as one. */
  handOn(): void {
    const pieces = this.#gathered;
    if (!pieces) return;
    this.#gathered = undefined;
    this.listener?.data(pieces.length === 1 ? pieces[0] : joined(pieces));
  }

  receiveReset(code: number): void {
    this.#wasReset = true;
    // After its answer a server may tell a client to stop sending: no failure. A client that resets gives up.
    const answered = this.#receivedEnd && !this.connection.isServer;
    if (code === H2.noError && answered) return this.finish(undefined);
    const canceled = code === H2.cancel || code === H2.noError;
    const kind = canceled ? "canceled" : code === H2.refused ? "unavailable" : "internal";
    const error = new SvcError(kind, `the peer reset the stream (HTTP/2 error ${code})`);
    this.finish(error, code === H2.refused);
  }

  #sendHeaders(fields: Fields, ended: boolean): boolean {
    const sent = this.connection.sendHeaders(this.id, fields, ended);
    if (!sent) {
      const problem = "the peer takes no header fields of the size that there are to send";
      this.reset(H2.internal, new SvcError("resource_exhausted", problem));
    }
    return sent;
  }

  #enqueue(): void {
    if (this.queued) return;
    this.queued = true;
    this.connection.enqueue(this);
  }

  #take(bytes: number, out: Outbox): void {
    this.#unsentBytes -= bytes;
    this.connection.unread?.give(bytes);
    while (bytes > 0) {
      const first = this.#unsent[0];
      const part = first.length <= bytes ? first : first.subarray(0, bytes);
      out.append(part);
      bytes -= part.length;
      if (part !== first) this.#unsent[0] = first.subarray(part.length);
      else this.#out(this.#unsent.shift()!);
    }
  }

  /** Some bytes are out, or never will be. */
  #out(bytes: Uint8Array): void {
    if (this.#given?.delete(bytes.buffer)) giveBackAll(bytes);
  }

  #localEnd(): void {
    if (this.closed) return;
    this.#sentEnd = true;
    this.#endWanted = true;
    if (this.#receivedEnd) return this.finish(undefined);
    // A server that has answered does not want the rest of the request.
    if (this.connection.isServer) this.reset(H2.noError, new SvcError("canceled", "answered early"));
  }
}

/** Whether a header comes before the one that counts. */
function interim(fields: Fields): boolean {
  return fields.some(([name, value]) => name === ":status" && value.startsWith("1"));
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
