/**
 * One stream of an HTTP/2 connection: a header and data in each direction, and perhaps trailers.
 *
 * Owns the stream's two windows, its unsent data and its end. The connection decides when data goes out.
 */

import { SvcError } from "../../base/error.ts";
import type { ByteBudget } from "../flow/byte_budget.ts";
import type { Flow } from "../flow/round_robin.ts";
import { joinedBytes } from "../../base/files/byte_reader.ts";
import { giveBackAll } from "../flow/given_back.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { contentLength, problemOf } from "./fields.ts";
import { STALL_MS, StallTimer } from "./stall_watch.ts";
import { FLAG, H2, MAX_WINDOW_BYTES, type OutgoingBytes, TYPE } from "./frame.ts";

/** What a peer may send on one stream before we have read it. */
export const STREAM_WINDOW_BYTES = 1024 * 1024;
/** Queued data at which a stream's writer should wait. */
const HIGH_WATER_BYTES = 64 * 1024;
/** Smaller pieces of data are joined before they are delivered. */
const SMALL_BYTES = 1024;

/**
 * The owner's view of a stream. `closed` comes last and once; with an error unless both sides ended well, and
 * `untouched` if the peer states that it has not processed the stream, so that it can be retried.
 */
export interface StreamListener {
  /** The answer's header, then perhaps trailers. A server gets the request's header when it accepts. */
  headers(fields: HeaderFields, ended: boolean): void;
  /** Bytes of the body, on loan for the call: copy them to keep them. Call `stream.consumed` once they are read. */
  data(bytes: Uint8Array): void;
  ended(): void;
  /** Whether the peer owes a reader the rest of a message. */
  readonly owed?: boolean;
  closed(error: SvcError | undefined, untouched?: boolean): void;
}

/** A budget for unread answers. */
export type Unread = Pick<ByteBudget, "take" | "give" | "check" | "roomBytes">;

/** The connection as its streams see it. */
interface StreamCarrier {
  readonly isServer: boolean;
  /** False if the peer accepts no fields of that size. */
  sendHeaders(stream: number, fields: HeaderFields, ended: boolean): boolean;
  sendReset(stream: number, code: number): void;
  sendWindowUpdate(stream: number, bytes: number): void;
  /** Charged with unsent data. */
  readonly unread?: Unread;
  /** Its flow pays for the answers. */
  readonly flow: Pick<Flow, "sent">;
  /** Schedules the stream for sending. */
  enqueue(stream: Stream): void;
  /** Delivers the stream's buffered data after the current read. */
  buffered(stream: Stream): void;
  remove(stream: Stream): void;
  /** Counts a reset that the peer has caused against its limit. */
  countAbuse(): void;
}

export class Stream {
  /** Set by the opener or accepter of the stream. */
  listener: StreamListener | undefined;
  closed = false;
  /** Whether the connection has this stream in its queue. */
  queued = false;
  /** Timers for lack of progress: of data that the peer does not take, and of a message that it does not finish. */
  #unreadTimer: StallTimer | undefined;
  #owedTimer: StallTimer | undefined;
  #sentBytes = 0;
  readonly #unsent: Uint8Array[] = [];
  #unsentBytes = 0;
  /** The memory among it that is returned after sending. */
  #given: Set<ArrayBufferLike> | undefined;
  #trailers: HeaderFields | undefined;
  #endWanted = false;
  #sentEnd = false;
  #receivedEnd = false;
  #wasReset = false;
  /** Whether the peer's header has arrived; later fields are trailers. */
  #opened: boolean;
  /** The announced size of the data, and the received size. */
  #announcedBytes: number | undefined;
  #receivedBytes = 0;
  /** Small pieces of data that are delivered together. */
  #buffered: Uint8Array[] | undefined;
  #receiveWindow = STREAM_WINDOW_BYTES;
  #consumedBytes = 0;
  #drained: { promise: Promise<void>; resolve: () => void } | undefined;

  constructor(
    private readonly connection: StreamCarrier,
    readonly id: number,
    public sendWindow: number,
    header?: HeaderFields,
  ) {
    this.#opened = header !== undefined;
    if (header) this.#announcedBytes = contentLength(header);
  }

  /** Whether the peer sends nothing more. */
  get peerIsDone(): boolean {
    return this.#receivedEnd || this.#wasReset;
  }

  /** Whether there is something to send. */
  get waiting(): boolean {
    return !this.closed && (this.#unsentBytes > 0 || (this.#endWanted && !this.#sentEnd));
  }

  headers(fields: HeaderFields, ended: boolean): void {
    if (this.closed || this.#sentEnd) return;
    if (this.#sendHeaders(fields, ended) && ended) this.#localEnd();
  }

  /**
   * Sends data; a returned promise asks the caller to wait, and also resolves when the stream closes. Throws
   * `resource_exhausted` if the peer has left too much unread.
   */
  send(bytes: Uint8Array): Promise<void> | undefined {
    if (this.closed || this.#endWanted) return undefined;
    this.connection.unread?.take(bytes.length);
    this.#unsent.push(bytes);
    return this.#added(bytes.length);
  }

  /** The same with `head` before it, and with bytes that the stream owns from now on: it returns their memory. */
  give(head: Uint8Array, bytes: Uint8Array): Promise<void> | undefined {
    if (this.closed || this.#endWanted) return undefined;
    this.connection.unread?.take(head.length + bytes.length);
    this.#unsent.push(head, bytes);
    this.#given ??= new Set();
    this.#given.add(bytes.buffer);
    return this.#added(head.length + bytes.length);
  }

  /** The budget of unsent data. */
  get unread(): Unread | undefined {
    return this.connection.unread;
  }

  #added(bytes: number): Promise<void> | undefined {
    this.#unsentBytes += bytes;
    this.connection.flow.sent(bytes);
    this.#enqueue();
    if (this.#unsentBytes < HIGH_WATER_BYTES) return undefined;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  /** Ends our side after the data, with trailers if there are any. */
  end(trailers?: HeaderFields): void {
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
    this.connection.countAbuse();
  }

  /** Resets the stream if it has made no progress for too long. */
  endStalled(nowMs: number): void {
    this.#unreadTimer ??= new StallTimer();
    this.#owedTimer ??= new StallTimer();
    const unread = this.#unreadTimer.ms(this.waiting ? this.#sentBytes : undefined, nowMs) >= STALL_MS;
    const owed = this.#owedTimer.ms(this.listener?.owed ? this.#receivedBytes : undefined, nowMs) >= STALL_MS;
    if (!unread && !owed) return;
    const what = unread ? "reads nothing of the answer" : "sends nothing more of a message";
    const problem = `the peer ${what} for ${STALL_MS / 1000} s`;
    this.reset(H2.cancel, new SvcError("canceled", problem));
  }

  /** The reader has consumed this many bytes: widens the peer's window when enough are due. */
  consumed(bytes: number): void {
    this.#consumedBytes += bytes;
    if (this.#consumedBytes < STREAM_WINDOW_BYTES / 4 || this.#receivedEnd || this.closed) return;
    this.#receiveWindow += this.#consumedBytes;
    this.connection.sendWindowUpdate(this.id, this.#consumedBytes);
    this.#consumedBytes = 0;
  }

  /** Ends the stream here without notice to the peer. */
  finish(error: SvcError | undefined, untouched = false): void {
    if (this.closed) return;
    this.closed = true;
    this.connection.unread?.give(this.#unsentBytes);
    for (const bytes of this.#unsent.splice(0)) this.#out(bytes);
    this.#unsentBytes = 0;
    this.#buffered = undefined;
    this.#drained?.resolve();
    this.connection.remove(this);
    this.listener?.closed(error, untouched);
  }

  // The interface for the connection.

  /** Sends up to `room` bytes of data, and the end if it is due; returns the number of data bytes. */
  pump(room: number, out: OutgoingBytes): number {
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

  widenWindow(bytes: number): void {
    this.sendWindow += bytes;
    if (this.sendWindow > MAX_WINDOW_BYTES) return this.fail(H2.flowControl, "window too large");
    if (this.waiting) this.#enqueue();
  }

  receiveHeaders(fields: HeaderFields, ended: boolean): void {
    if (this.#receivedEnd) return this.fail(H2.streamClosed, "header fields after the end");
    const problem = this.#problemOf(fields, ended);
    if (problem) return this.fail(H2.protocol, `malformed message: ${problem}`);
    if (!this.#opened && !interim(fields)) {
      this.#opened = true;
      this.#announcedBytes = contentLength(fields);
    }
    this.deliver();
    if (this.closed) return;
    this.listener?.headers(fields, ended);
    if (ended) this.receiveEnd();
  }

  #problemOf(fields: HeaderFields, ended: boolean): string | undefined {
    const trailers = this.#opened;
    if (trailers && !ended) return "a second header, or trailers without an end";
    return problemOf(fields, trailers ? "trailers" : "response") ??
      (ended && !trailers && interim(fields) ? "an end after an interim header" : undefined);
  }

  receiveData(bytes: Uint8Array, frameBytes: number, ended: boolean): void {
    if (this.#receivedEnd) return this.fail(H2.streamClosed, "data after the end");
    if (!this.#opened) return this.fail(H2.protocol, "malformed message: data before the header");
    this.#receiveWindow -= frameBytes;
    if (this.#receiveWindow < 0) return this.fail(H2.flowControl, "more data than the stream allows");
    if (frameBytes > bytes.length) this.consumed(frameBytes - bytes.length);
    this.#receivedBytes += bytes.length;
    const announced = this.#announcedBytes;
    if (announced !== undefined && this.#receivedBytes > announced) return this.#wrongLength();
    if (bytes.length >= SMALL_BYTES || (ended && !this.#buffered)) {
      this.deliver();
      if (bytes.length > 0 && !this.closed) this.listener?.data(bytes);
    } else if (bytes.length > 0) this.#buffer(bytes);
    if (ended) this.receiveEnd();
  }

  receiveEnd(): void {
    if (this.#receivedEnd || this.closed) return;
    this.deliver();
    const announced = this.#announcedBytes;
    // An answer without data may announce the size that it would have (to HEAD, or with status 304).
    const empty = this.#receivedBytes === 0 && !this.connection.isServer;
    if (announced !== undefined && announced !== this.#receivedBytes && !empty) return this.#wrongLength();
    this.#receivedEnd = true;
    this.listener?.ended();
    if (this.#sentEnd) this.finish(undefined);
  }

  #wrongLength(): void {
    this.fail(H2.protocol, "malformed message: its data is not as long as content-length says");
  }

  #buffer(bytes: Uint8Array): void {
    if (this.#buffered) return void this.#buffered.push(bytes);
    this.#buffered = [bytes];
    this.connection.buffered(this);
  }

  /** Delivers the buffered data as one piece. */
  deliver(): void {
    const pieces = this.#buffered;
    if (!pieces) return;
    this.#buffered = undefined;
    this.listener?.data(pieces.length === 1 ? pieces[0] : joinedBytes(pieces));
  }

  receiveReset(code: number): void {
    this.#wasReset = true;
    // After its answer a server may tell a client to stop sending, which is no failure. A client that resets gives up.
    const answered = this.#receivedEnd && !this.connection.isServer;
    if (code === H2.noError && answered) return this.finish(undefined);
    const canceled = code === H2.cancel || code === H2.noError;
    const kind = canceled ? "canceled" : code === H2.refused ? "unavailable" : "internal";
    const error = new SvcError(kind, `the peer reset the stream (HTTP/2 error ${code})`);
    this.finish(error, code === H2.refused);
  }

  #sendHeaders(fields: HeaderFields, ended: boolean): boolean {
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

  #take(bytes: number, out: OutgoingBytes): void {
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

  /** The bytes have been sent, or never will be. */
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

/** Whether the header is an interim one (1xx). */
function interim(fields: HeaderFields): boolean {
  return fields.some(([name, value]) => name === ":status" && value.startsWith("1"));
}
