/**
 * The sending side of a connection: collects frames and header blocks, and sends them in as few writes as possible.
 *
 * Owns the outbox, the connection's send window and the turns of the streams that have data: one frame from each. The
 * next write takes what accumulates during the current one.
 */

import { Buffer } from "node:buffer";
import { nextTick } from "node:process";
import type { Duplex } from "node:stream";
import type { HeaderFields } from "../rpc/metadata.ts";
import { fitting } from "./fields.ts";
import { FLAG, H2, MAX_WINDOW_BYTES, OutgoingBytes, ProtocolError, TYPE, uint32 } from "./frame.ts";
import { HpackEncoder } from "./hpack.ts";
import { INITIAL_WINDOW_BYTES, type PeerSettings } from "./settings.ts";
import type { Stream } from "./stream.ts";

/** Data collected for one write to the socket. */
const WRITE_BYTES = 256 * 1024;
/** Limit of unread answers to control frames; the connection ends beyond it. */
const MAX_UNSENT_BYTES = 4 * 1024 * 1024;
/** A sent DATA frame of at least this size entitles the peer to an answer. Its window may cut frames smaller. */
const ANSWERED_BYTES = 1024;

interface SendHooks {
  /** The peer may answer what was sent. */
  allowAnswers(): void;
  /** This many bytes have been taken by the peer's system. */
  written(bytes: number): void;
  /** Nothing is left to send. */
  idle(): void;
  /** The peer leaves too much unread. */
  overflowed(): void;
}

export class SendScheduler {
  /** The write under way. */
  writing: Uint8Array | undefined;
  readonly #out = new OutgoingBytes();
  readonly #encoder = new HpackEncoder();
  /** Streams that have something to send. */
  readonly #ready: Stream[] = [];
  #window = INITIAL_WINDOW_BYTES;
  #isScheduled = false;
  #isStopped = false;

  constructor(
    private readonly socket: Duplex,
    private readonly peer: PeerSettings,
    private readonly hooks: SendHooks,
  ) {}

  /** Whether nothing waits, and nothing is being written. */
  get isIdle(): boolean {
    return this.#out.bytes === 0 && !this.writing;
  }

  /** Whether the header of one more stream fits. */
  get hasRoom(): boolean {
    return this.#out.bytes < MAX_UNSENT_BYTES / 2;
  }

  /** Bytes outside of any frame. */
  append(bytes: Uint8Array): void {
    this.#out.append(bytes);
  }

  /** Sends a control frame. */
  control(type: number, flags: number, stream: number, payload: Uint8Array): void {
    if (this.#isStopped) return;
    this.#out.frame(type, flags, stream, payload);
    this.#limitUnsent();
  }

  /** Leaves out the largest fields if the peer does not accept all of them; returns false if it accepts none. */
  sendHeaders(stream: number, fields: HeaderFields, ended: boolean): boolean {
    const sent = fitting(fields, this.peer.headerBytes);
    if (!sent) return false;

    const block = this.#encoder.encode(sent);
    const size = this.peer.frameBytes;
    for (let at = 0; at === 0 || at < block.length; at += size) {
      const last = at + size >= block.length;
      const flags = (last ? FLAG.endHeaders : 0) | (ended && at === 0 ? FLAG.endStream : 0);
      this.#out.frame(
        at === 0 ? TYPE.headers : TYPE.continuation,
        flags,
        stream,
        block.length <= size ? block : block.subarray(at, at + size),
      );
    }

    if (ended) this.hooks.allowAnswers();
    this.#limitUnsent();
    return true;
  }

  sendReset(stream: number, code: number): void {
    this.control(TYPE.reset, 0, stream, uint32(code));
  }

  sendWindowUpdate(stream: number, bytes: number): void {
    this.control(TYPE.window, 0, stream, uint32(bytes));
  }

  goaway(lastStream: number, code: number, message: string): void {
    const text = Buffer.from(message);
    this.control(TYPE.goaway, 0, 0, Buffer.concat([uint32(lastStream), uint32(code), text]));
  }

  /** Adds a stream that has something to send. */
  enqueue(stream: Stream): void {
    this.#ready.push(stream);
    this.schedule();
  }

  widenWindow(bytes: number): void {
    this.#window += bytes;
    if (this.#window > MAX_WINDOW_BYTES) throw new ProtocolError(H2.flowControl, "window too large");
    this.schedule();
  }

  resizeHeaderTable(bytes: number): void {
    this.#encoder.resize(bytes);
  }

  /** Removes and returns the collected bytes. */
  take(): Uint8Array | undefined {
    return this.#out.take();
  }

  /** Sends nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#ready.length = 0;
  }

  schedule(): void {
    if (this.#isScheduled || this.writing || this.#isStopped) return;
    this.#isScheduled = true;
    // Waits for the microtasks: by then all concurrent calls have queued their frames.
    nextTick(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.writing || this.#isStopped) return;
    this.#pump();

    const bytes = this.#out.take();
    if (!bytes) return this.hooks.idle();

    this.writing = bytes;
    this.socket.write(bytes, () => {
      this.writing = undefined;
      if (!this.#isStopped) this.#out.written();
      this.hooks.written(bytes.length);
      this.#flush();
    });
  }

  /** Moves data of the waiting streams into the outbox, one frame from each in turn. */
  #pump(): void {
    const blocked: Stream[] = [];
    while (this.#ready.length > 0 && this.#out.bytes < WRITE_BYTES) {
      const stream = this.#ready.shift()!;
      if (stream.closed) continue;
      const room = Math.min(this.#window, this.peer.frameBytes);
      const sent = stream.pump(room, this.#out);
      this.#window -= sent;
      if (sent >= ANSWERED_BYTES || (sent > 0 && !stream.waiting)) this.hooks.allowAnswers();
      if (!stream.waiting) continue;
      if (this.#window <= 0) blocked.push(stream);
      else if (stream.sendWindow > 0) this.#ready.push(stream);
      else stream.queued = false;
    }
    this.#ready.push(...blocked);
  }

  #limitUnsent(): void {
    if (this.#out.bytes > MAX_UNSENT_BYTES) this.hooks.overflowed();
    this.schedule();
  }
}
