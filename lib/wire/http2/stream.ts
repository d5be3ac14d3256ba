/**
 * One stream of an HTTP/2 connection: a header and data in each direction, and perhaps trailers.
 *
 * Owns the stream's send window and its end; `stream_data.ts` has the data of each direction. The connection decides
 * when data goes out.
 */

import { type Code, SvcError } from "../../base/error.ts";
import type { Flow } from "../flow/round_robin.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { STALL_MS, StallTimer } from "./stall_watch.ts";
import { IncomingData, OutgoingData, type Unread } from "./stream_data.ts";
import { FLAG, H2, MAX_WINDOW_BYTES, type OutgoingBytes, TYPE } from "./frame.ts";

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

/** Sends the frames of streams. */
interface StreamSender {
  /** False if the peer accepts no fields of that size. */
  sendHeaders(stream: number, fields: HeaderFields, ended: boolean): boolean;
  sendReset(stream: number, code: number): void;
  sendWindowUpdate(stream: number, bytes: number): void;
  /** Schedules the stream for sending. */
  enqueue(stream: Stream): void;
}

/** The connection as its streams see it. */
export interface StreamCarrier {
  readonly isServer: boolean;
  readonly out: StreamSender;
  /** Charged with unsent data. */
  readonly unread?: Unread;
  /** Its flow pays for the answers. */
  readonly flow: Pick<Flow, "sent">;
  /** Delivers the stream's buffered data after the current read. */
  readonly dispatch: { buffered(stream: Stream): void };
  remove(stream: Stream): void;
  /** Counts a reset that the peer has caused against its limit. */
  countAbuse(): void;
}

/** Timers for lack of progress. */
class StreamStalls {
  /** Data that the peer does not take. */
  readonly unread = new StallTimer();
  /** A message that the peer does not finish. */
  readonly owed = new StallTimer();
}

export class Stream {
  /** Set by the opener or accepter of the stream. */
  listener: StreamListener | undefined;
  closed = false;
  /** Whether the connection has this stream in its queue. */
  queued = false;
  #stalls: StreamStalls | undefined;
  readonly #outgoing: OutgoingData;
  readonly #incoming: IncomingData;

  constructor(
    private readonly connection: StreamCarrier,
    readonly id: number,
    public sendWindow: number,
    header?: HeaderFields,
  ) {
    this.#outgoing = new OutgoingData(connection);
    this.#incoming = new IncomingData(header);
  }

  /** Whether the peer sends nothing more. */
  get peerIsDone(): boolean {
    return this.#incoming.isEnded || this.#incoming.isReset;
  }

  /** Whether there is something to send. */
  get waiting(): boolean {
    return !this.closed && this.#outgoing.isWaiting;
  }

  headers(fields: HeaderFields, ended: boolean): void {
    if (this.closed || this.#outgoing.isEnded) return;
    if (this.#sendHeaders(fields, ended) && ended) this.#localEnd();
  }

  /**
   * Sends data; a returned promise asks the caller to wait, and also resolves when the stream closes. Throws
   * `resource_exhausted` if the peer has left too much unread.
   */
  send(bytes: Uint8Array): Promise<void> | undefined {
    return this.#add(undefined, bytes, false);
  }

  /** Sends `head`, then bytes that the stream owns from now on: it returns their memory. */
  give(head: Uint8Array, bytes: Uint8Array): Promise<void> | undefined {
    return this.#add(head, bytes, true);
  }

  /** The budget of unsent data. */
  get unread(): Unread | undefined {
    return this.connection.unread;
  }

  #add(head: Uint8Array | undefined, bytes: Uint8Array, isGiven: boolean): Promise<void> | undefined {
    if (this.closed || this.#outgoing.isEnding) return undefined;
    this.#outgoing.add(head, bytes, isGiven);
    this.#enqueue();
    return this.#outgoing.whenDrained();
  }

  /** Ends our side after the data, with trailers if there are any. */
  end(trailers?: HeaderFields): void {
    if (this.closed || this.#outgoing.isEnding) return;
    this.#outgoing.isEnding = true;
    this.#outgoing.trailers = trailers;
    this.#enqueue();
  }

  /** Ends both sides at once. */
  reset(code: number, error: SvcError): void {
    if (this.closed) return;
    this.connection.out.sendReset(this.id, code);
    this.finish(error);
  }

  fail(code: number, message: string): void {
    if (this.closed) return;
    this.reset(code, new SvcError("internal", message));
    this.connection.countAbuse();
  }

  /** Resets the stream if it has made no progress for too long. */
  endStalled(nowMs: number): void {
    const { unread, owed } = this.#stalls ??= new StreamStalls();
    const unreadMs = unread.ms(this.waiting ? this.#outgoing.sentBytes : undefined, nowMs);
    const owedMs = owed.ms(this.listener?.owed ? this.#incoming.bytes : undefined, nowMs);
    if (unreadMs < STALL_MS && owedMs < STALL_MS) return;

    const what = unreadMs >= STALL_MS ? "reads nothing of the answer" : "sends nothing more of a message";
    const problem = `the peer ${what} for ${STALL_MS / 1000} s`;
    this.reset(H2.cancel, new SvcError("canceled", problem));
  }

  /** The reader has consumed this many bytes: widens the peer's window when enough are due. */
  consumed(bytes: number): void {
    if (this.closed) return;
    const due = this.#incoming.consume(bytes);
    if (due > 0) this.connection.out.sendWindowUpdate(this.id, due);
  }

  /** Ends the stream here without notice to the peer. */
  finish(error: SvcError | undefined, untouched = false): void {
    if (this.closed) return;
    this.closed = true;
    this.#outgoing.clear();
    this.#incoming.dropBuffered();
    this.connection.remove(this);
    this.listener?.closed(error, untouched);
  }

  // The interface for the connection.

  /** Sends up to `room` bytes of data, and the end if it is due; returns the number of data bytes. */
  pump(room: number, out: OutgoingBytes): number {
    const outgoing = this.#outgoing, { trailers } = outgoing;
    const bytes = Math.max(0, Math.min(room, this.sendWindow, outgoing.unsentBytes));
    const last = bytes === outgoing.unsentBytes && outgoing.isEnding;
    if (bytes > 0 || (last && !trailers)) {
      out.frameHeader(TYPE.data, last && !trailers ? FLAG.endStream : 0, this.id, bytes);
      outgoing.move(bytes, out);
    }

    this.sendWindow -= bytes;
    if (outgoing.unsentBytes === 0) this.queued = false;
    if (last && (!trailers || this.#sendHeaders(trailers, true))) this.#localEnd();
    return bytes;
  }

  widenWindow(bytes: number): void {
    this.sendWindow += bytes;
    if (this.sendWindow > MAX_WINDOW_BYTES) return this.fail(H2.flowControl, "window too large");
    if (this.waiting) this.#enqueue();
  }

  receiveHeaders(fields: HeaderFields, ended: boolean): void {
    if (this.#incoming.isEnded) return this.fail(H2.streamClosed, "header fields after the end");
    const problem = this.#incoming.receiveHeaders(fields, ended);
    if (problem) return this.fail(H2.protocol, `malformed message: ${problem}`);
    this.deliver();
    if (this.closed) return;
    this.listener?.headers(fields, ended);
    if (ended) this.receiveEnd();
  }

  receiveData(bytes: Uint8Array, frameBytes: number, ended: boolean): void {
    const incoming = this.#incoming;
    if (incoming.isEnded) return this.fail(H2.streamClosed, "data after the end");
    if (!incoming.isOpened) return this.fail(H2.protocol, "malformed message: data before the header");
    if (!incoming.takeWindow(frameBytes)) {
      return this.fail(H2.flowControl, "more data than the stream allows");
    }
    if (frameBytes > bytes.length) this.consumed(frameBytes - bytes.length);
    if (!incoming.count(bytes.length)) return this.#wrongLength();

    if (incoming.isDeliveredAlone(bytes, ended)) {
      this.deliver();
      if (bytes.length > 0 && !this.closed) this.listener?.data(bytes);
    } else if (bytes.length > 0 && incoming.buffer(bytes)) this.connection.dispatch.buffered(this);
    if (ended) this.receiveEnd();
  }

  receiveEnd(): void {
    if (this.#incoming.isEnded || this.closed) return;
    this.deliver();
    if (!this.#incoming.isWhole(this.connection.isServer)) return this.#wrongLength();
    this.#incoming.isEnded = true;
    this.listener?.ended();
    if (this.#outgoing.isEnded) this.finish(undefined);
  }

  #wrongLength(): void {
    this.fail(H2.protocol, "malformed message: its data is not as long as content-length says");
  }

  /** Delivers the buffered data as one piece. */
  deliver(): void {
    const bytes = this.#incoming.takeBuffered();
    if (bytes) this.listener?.data(bytes);
  }

  receiveReset(code: number): void {
    this.#incoming.isReset = true;
    // After its answer a server may tell the client to stop sending; this is not a failure. A client that resets its
    // stream has given up.
    const answered = this.#incoming.isEnded && !this.connection.isServer;
    if (code === H2.noError && answered) return this.finish(undefined);
    const error = new SvcError(resetCode(code), `the peer reset the stream (HTTP/2 error ${code})`);
    this.finish(error, code === H2.refused);
  }

  #sendHeaders(fields: HeaderFields, ended: boolean): boolean {
    const sent = this.connection.out.sendHeaders(this.id, fields, ended);
    if (!sent) {
      const problem = "the peer takes no header fields of the size that there are to send";
      this.reset(H2.internal, new SvcError("resource_exhausted", problem));
    }
    return sent;
  }

  #enqueue(): void {
    if (this.queued) return;
    this.queued = true;
    this.connection.out.enqueue(this);
  }

  #localEnd(): void {
    if (this.closed) return;
    this.#outgoing.isEnded = true;
    this.#outgoing.isEnding = true;
    if (this.#incoming.isEnded) return this.finish(undefined);
    // A server that has answered does not want the rest of the request.
    if (this.connection.isServer) this.reset(H2.noError, new SvcError("canceled", "answered early"));
  }
}

/** The code of the error of a stream that was reset. */
function resetCode(code: number): Code {
  if (code === H2.cancel || code === H2.noError) return "canceled";
  return code === H2.refused ? "unavailable" : "internal";
}
