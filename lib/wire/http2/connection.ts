/**
 * HTTP/2 (RFC 9113) over a socket: one `Connection` per socket, one `Stream` per exchange, both roles.
 *
 * Owns framing, header compression, flow control in both directions and the bounds on the memory that a peer can
 * occupy. A peer that breaks the rules loses its connection, never the program. Bytes leave in as few writes as
 * possible: the next write takes what accumulates during the current one, in turns from all streams.
 * The room owns HTTP/2, and nothing above it.
 */

import { Buffer } from "node:buffer";
import { nextTick } from "node:process";
import type { Duplex } from "node:stream";
import { BriefMap } from "../../base/brief_map.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { giveBack } from "../flow/given_back.ts";
import { Flow } from "../flow/round_robin.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { HpackBomb, HpackDecoder, HpackEncoder, HpackError } from "./hpack.ts";
import { type AbuseKind, AbuseLimits } from "./abuse_limits.ts";
import { fitting, listBytes, problemOf } from "./fields.ts";
import {
  checkPriority,
  FLAG,
  H2,
  lost,
  MAX_FRAME_BYTES,
  MAX_WINDOW_BYTES,
  OutgoingBytes,
  PREFACE,
  ProtocolError,
  readUint32,
  SETTING,
  TYPE,
  uint32,
  unpadded,
} from "./frame.ts";
import { FrameReader, HeaderBlock } from "./input.ts";
import { ClosedStreams } from "./closed_streams.ts";
import type { ConnectionOptions } from "./options.ts";
import { readSettings, settingsIn, settingsPayload } from "./settings.ts";
import { Stream, STREAM_WINDOW_BYTES, type StreamListener, type Unread } from "./stream.ts";
import { StallWatch } from "./stall_watch.ts";

export { WITH_TLS } from "./input.ts";

/** Streams that a peer may have open at once on one connection, and a client if the server sets no limit. */
export const MAX_STREAMS = 1000;
/** Streams that a client opens before it knows the server's limit, which is seldom lower (RFC 9113, 6.5.2). */
const EARLY_STREAMS = 100;
/** Limit of header fields in one block, in either direction. */
const MAX_HEADER_BYTES = 64 * 1024;
/** Usual size of a call's header fields; only the excess counts against the limit of header bytes. */
const USUAL_HEADER_BYTES = 4 * 1024;
/** Additional cost of a field that enters the table: well-behaved peers add a few, once. */
const ADDED_FIELD_BYTES = 1024;
const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;
const INITIAL_WINDOW_BYTES = 65_535;
/** Data collected for one write to the socket. */
const WRITE_BYTES = 256 * 1024;
/** Limit of unread answers to control frames; the connection ends beyond it. */
const MAX_UNSENT_BYTES = 4 * 1024 * 1024;
/** How long a rejected peer has to read the reason in GOAWAY. */
const DRAIN_MS = 1_000;
/** Limit of the input that is drained after GOAWAY, so that a rejected peer can still read the reason. */
const DRAIN_BYTES = 1024 * 1024;
/** Cost of a frame in its connection's quantum besides its bytes; of one that begins or ends a call, or a setting. */
const FRAME_COST = 64, CALL_COST = 1024;
/** Size of a sent DATA frame for which the peer may send an acknowledgement; pieces cut smaller by its window do not count. */
const ANSWERED_BYTES = 1024;

export class Connection {
  readonly #streams = new BriefMap<number, Stream>();
  readonly #decoder = new HpackDecoder(MAX_HEADER_BYTES);
  readonly #encoder = new HpackEncoder();
  readonly #out = new OutgoingBytes();
  readonly #ready: Stream[] = [];
  readonly #pings: (() => void)[] = [];
  readonly #input: FrameReader;
  readonly flow: Flow;
  readonly #abuse: AbuseLimits;
  readonly #watch: StallWatch | undefined;
  readonly #closedStreams = new ClosedStreams();
  /** Streams with buffered data that is not delivered yet. */
  readonly #bufferedStreams: Stream[] = [];
  #block: HeaderBlock | undefined;
  #lastPeerStream = 0;
  #nextStream = 1;
  #sendWindow = INITIAL_WINDOW_BYTES;
  #receiveWindow = CONNECTION_WINDOW_BYTES;
  #peerWindow = INITIAL_WINDOW_BYTES;
  #peerFrameBytes = MAX_FRAME_BYTES;
  #peerStreams: number | undefined;
  #peerHeaderBytes = MAX_HEADER_BYTES;
  #drainedBytes = 0;
  #scheduled = false;
  #writing: Uint8Array | undefined;
  #draining = false;
  #over: SvcError | undefined;

  constructor(private readonly socket: Duplex, private readonly options: ConnectionOptions) {
    const { role, clock } = options;
    this.#input = new FrameReader(role);
    this.flow = new Flow(socket, clock, options.scheduler);
    this.#abuse = new AbuseLimits(clock, options.abuse);
    if (role === "client") this.#out.append(Buffer.from(PREFACE, "latin1"));
    this.#settings();
    this.#out.frame(TYPE.window, 0, 0, uint32(CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES));
    if (role === "server") this.#watch = this.#watchOver(clock);

    socket.on("data", (bytes: Uint8Array) => this.#receive(bytes));
    socket.on("end", () => this.flow.whenServed(() => this.#lost("the peer closed the connection")));
    socket.on("close", () => !socket.readableEnded && this.#lost("the connection was closed"));
    socket.on("error", (error: Error) => this.#lost(error.message));
    this.#schedule();
  }

  /** Whether new streams can be opened, now or when others have ended. */
  get open(): boolean {
    return !this.#over && !this.#draining && this.#nextStream < MAX_WINDOW_BYTES;
  }

  get isServer(): boolean {
    return this.options.role === "server";
  }

  get #maxStreams(): number {
    return this.options.maxStreams ?? MAX_STREAMS;
  }

  get unread(): Unread | undefined {
    return this.options.unread;
  }

  get streams(): number {
    return this.#streams.size;
  }

  get framesReceived(): number {
    return this.#input.frames;
  }

  /** Whether the peer's limit leaves room for one more stream, and the unsent bytes for its header. */
  get hasRoom(): boolean {
    if (this.#out.bytes >= MAX_UNSENT_BYTES / 2) return false;
    return this.#streams.size <
      (this.#peerStreams ?? (this.framesReceived > 0 ? MAX_STREAMS : EARLY_STREAMS));
  }

  /** Client: opens a stream with its header. */
  request(fields: HeaderFields, ended: boolean, listener: StreamListener): Stream {
    if (this.#over) throw this.#over;
    const bytes = listBytes(fields);
    if (bytes > this.#maxSentHeaderBytes) {
      const problem = `the call has ${bytes} bytes of header fields to send, the server takes`;
      throw new SvcError("resource_exhausted", `${problem} ${this.#maxSentHeaderBytes}`);
    }
    const stream = new Stream(this, this.#nextStream, this.#peerWindow);
    this.#nextStream += 2;
    stream.listener = listener;
    this.#streams.set(stream.id, stream);
    stream.headers(fields, ended);
    return stream;
  }

  /** Resolves when the peer answers a ping; never, if the connection ends first. */
  ping(): Promise<void> {
    return new Promise((resolve) => {
      this.#pings.push(resolve);
      this.#out.frame(TYPE.ping, 0, 0, new Uint8Array(8));
      this.#schedule();
    });
  }

  /** Accepts no more streams, and closes when the last one has ended. */
  drain(): void {
    if (this.#over || this.#draining) return;
    this.#draining = true;
    this.#goaway(H2.noError, "");
    this.#finishDraining();
  }

  /** Ends the connection at once, with a GOAWAY if the system takes it without waiting. */
  evict(reason: string): void {
    if (this.#over) return;
    this.#goaway(H2.noError, reason);
    const goaway = this.#writing ? undefined : this.#out.take();
    if (goaway) this.socket.write(goaway);
    this.destroy(new SvcError("unavailable", reason));
  }

  /** Ends the connection and every stream on it; `goaway` are the last bytes for the peer. */
  destroy(error: SvcError, goaway?: Uint8Array): void {
    if (this.#over) return;
    this.#over = error;
    const streams = this.#streams.values();
    this.#streams.clear();
    this.#ready.length = 0;
    this.#watch?.stop();
    this.flow.stop();
    if (goaway) this.#drainInput(goaway);
    else this.socket.destroy();
    for (const stream of streams) stream.finish(error);
    this.options.closed?.(error);
  }

  /**
   * If a socket closes before everything received has been read, the system discards what was just sent. So it keeps
   * reading for a while, until the peer has seen the reason.
   */
  #drainInput(goaway: Uint8Array): void {
    this.socket.once("close", this.options.clock.after(DRAIN_MS, () => void this.socket.destroy()));
    this.socket.end(goaway);
    this.socket.resume();
  }

  // The interface for streams.

  /** Leaves out the largest fields if the peer does not accept all of them; false if it does not accept any. */
  sendHeaders(stream: number, fields: HeaderFields, ended: boolean): boolean {
    const sent = fitting(fields, this.#maxSentHeaderBytes);
    if (!sent) return false;

    const block = this.#encoder.encode(sent);
    const size = this.#peerFrameBytes;
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

    if (ended) this.#allowAnswers();
    this.#limitUnsent();
    return true;
  }

  sendReset(stream: number, code: number): void {
    this.#control(TYPE.reset, 0, stream, uint32(code));
  }

  sendWindowUpdate(stream: number, bytes: number): void {
    this.#control(TYPE.window, 0, stream, uint32(bytes));
  }

  /** Says that a stream has something to send. */
  enqueue(stream: Stream): void {
    this.#ready.push(stream);
    this.#schedule();
  }

  buffered(stream: Stream): void {
    this.#bufferedStreams.push(stream);
  }

  countAbuse(): void {
    this.#charge("resets", 1);
  }

  remove(stream: Stream): void {
    this.#streams.delete(stream.id);
    this.#closedStreams.add(stream.id, stream.peerIsDone);
    this.options.changed?.();
    this.#finishDraining();
  }

  // Sending.

  #schedule(): void {
    if (this.#scheduled || this.#writing || this.#over) return;
    this.#scheduled = true;
    // After microtasks: by then all simultaneous calls have queued what they send.
    nextTick(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#writing || this.#over) return;
    this.#pump();

    const bytes = this.#out.take();
    if (!bytes) {
      this.#finishDraining();
      return;
    }

    this.#writing = bytes;
    this.socket.write(bytes, () => {
      this.#writing = undefined;
      if (!this.#over) this.#out.written();
      this.options.transferred?.(bytes.length);
      this.options.changed?.();
      this.#flush();
    });
  }

  /** Moves data of the waiting streams into the outbox, one frame from each in turn. */
  #pump(): void {
    const blocked: Stream[] = [];
    while (this.#ready.length > 0 && this.#out.bytes < WRITE_BYTES) {
      const stream = this.#ready.shift()!;
      if (stream.closed) continue;
      const room = Math.min(this.#sendWindow, this.#peerFrameBytes);
      const sent = stream.pump(room, this.#out);
      this.#sendWindow -= sent;
      if (sent >= ANSWERED_BYTES || (sent > 0 && !stream.waiting)) this.#allowAnswers();
      if (!stream.waiting) continue;
      if (this.#sendWindow <= 0) blocked.push(stream);
      else if (stream.sendWindow > 0) this.#ready.push(stream);
      else stream.queued = false;
    }
    this.#ready.push(...blocked);
  }

  #control(type: number, flags: number, stream: number, payload: Uint8Array): void {
    if (this.#over) return;
    this.#out.frame(type, flags, stream, payload);
    this.#limitUnsent();
  }

  #limitUnsent(): void {
    if (this.#out.bytes > MAX_UNSENT_BYTES) {
      this.destroy(new SvcError("unavailable", "the peer does not read its data"));
    }
    this.#schedule();
  }

  #settings(): void {
    const values: [number, number][] = [
      [SETTING.streams, this.#maxStreams],
      [SETTING.window, STREAM_WINDOW_BYTES],
      [SETTING.headerBytes, MAX_HEADER_BYTES],
    ];
    if (this.options.role === "client") values.push([SETTING.push, 0]);
    this.#out.frame(TYPE.settings, 0, 0, settingsPayload(values));
  }

  #goaway(code: number, message: string): void {
    const text = Buffer.from(message);
    this.#control(TYPE.goaway, 0, 0, Buffer.concat([uint32(this.#lastPeerStream), uint32(code), text]));
  }

  #finishDraining(): void {
    if (!this.#draining || this.#streams.size + this.#out.bytes > 0 || this.#writing || this.#over) return;
    const answers = this.options.role === "server" ? new Uint8Array() : undefined; // The last ones are under way.
    this.destroy(new SvcError("unavailable", "the connection was drained"), answers);
  }

  // What the peer may cost.

  #watchOver(clock: Clock): StallWatch {
    return new StallWatch(clock, {
      state: () => ({
        frames: this.#input.frames,
        inFrame: this.#input.inFrame,
        block: this.#block,
        write: this.#writing,
      }),
      endStalled: (nowMs) => {
        for (const stream of this.#streams.values()) stream.endStalled(nowMs);
      },
      ping: () => void this.ping(),
      end: (reason) => {
        // A peer that does not read gets no GOAWAY.
        if (this.#writing) this.#lost(reason);
        else this.#endWithGoaway(H2.calm, lost(`the connection is given up: ${reason}`));
      },
    });
  }

  /** Charges the peer for a costly or useless frame; beyond the limit ends the connection and returns false. */
  #charge(name: AbuseKind, amount: number): boolean {
    const problem = this.#abuse.charge(name, amount);
    if (problem) this.#fail(H2.calm, problem);
    return problem === undefined;
  }

  /** Allows the peer to answer what it was sent. */
  #allowAnswers(): void {
    this.#abuse.refund("windowUpdates", 2);
    this.#abuse.refund("pings", 1);
    this.#abuse.refund("idle", 1);
  }

  // Receiving.

  #receive(bytes: Uint8Array): void {
    if (this.#over) {
      // Remaining input is drained only so that the peer receives GOAWAY, and not at the expense of other connections.
      this.#drainedBytes += bytes.length;
      if (this.#drainedBytes > DRAIN_BYTES) this.socket.pause();
      else if (!this.flow.spend(bytes.length) && !this.flow.waiting) this.flow.yieldTurn(() => {});
      return giveBack(bytes);
    }
    this.flow.received();
    this.options.transferred?.(bytes.length);
    this.#guarded(() => this.#input.push(bytes));
    if (!this.flow.waiting) this.#work();
  }

  /** Reads frames until there are no more, or the connection has used its quantum of this turn. */
  #work(): void {
    this.#guarded(() => {
      while (!this.#over && this.#input.next()) {
        this.#frame();
        if (this.flow.spend(FRAME_COST + this.#input.payload.length)) continue;
        if (!this.#over) this.flow.yieldTurn(() => this.#work());
        break;
      }
    });
    for (const stream of this.#bufferedStreams.splice(0)) this.#guarded(() => stream.deliver());
    this.#input.release();
  }

  #guarded(work: () => void): void {
    if (this.#over) return;
    try {
      work();
    } catch (error) {
      if (error instanceof HpackBomb) this.#fail(H2.calm, error.message);
      else if (error instanceof HpackError) this.#fail(H2.compression, error.message);
      else if (error instanceof ProtocolError) this.#fail(error.code, error.message);
      else this.#fail(H2.internal, messageOf(error));
    }
  }

  /** Reports the violation to the peer, then ends the connection. */
  #fail(code: number, message: string): void {
    this.#endWithGoaway(code, lost(`the peer broke the rules of HTTP/2: ${message}`), message);
  }

  #endWithGoaway(code: number, error: SvcError, message = error.message): void {
    if (this.#over) return;
    this.#goaway(code, message);
    this.destroy(error, this.#out.take());
  }

  #lost(reason: string): void {
    this.destroy(lost(`connection lost: ${reason}`));
  }

  #frame(): void {
    const { type, flags, stream: id, payload, frames } = this.#input;
    if (frames === 1) this.options.ready?.();
    if (this.#block && (type !== TYPE.continuation || id !== this.#block.stream)) {
      throw new ProtocolError(H2.protocol, "a header block is interrupted");
    }

    switch (type) {
      case TYPE.data:
        return this.#data(flags, id, payload);
      case TYPE.headers:
        return this.#headers(flags, id, payload);
      case TYPE.continuation:
        return this.#continuation(flags, payload);
      case TYPE.priority:
        return this.#priority(id, payload);
      case TYPE.reset:
        return this.#reset(id, payload);
      case TYPE.settings:
        return this.#peerSettings(flags, id, payload);
      case TYPE.ping:
        return this.#ping(flags, id, payload);
      case TYPE.goaway:
        return this.#peerGoaway(id, payload);
      case TYPE.window:
        return this.#window(id, payload);
      case TYPE.push:
        throw new ProtocolError(H2.protocol, "a push, which was not allowed");
    }

    this.#charge("idle", 1);
  }

  #data(flags: number, id: number, payload: Uint8Array): void {
    const stream = this.#known(id, "DATA");
    this.#receiveWindow -= payload.length;
    if (this.#receiveWindow < 0) {
      throw new ProtocolError(H2.flowControl, "more data than the connection allows");
    }
    // The connection as a whole never waits for a slow reader: each stream's own window bounds its data.
    if (this.#receiveWindow < CONNECTION_WINDOW_BYTES / 2) {
      this.sendWindowUpdate(0, CONNECTION_WINDOW_BYTES - this.#receiveWindow);
      this.#receiveWindow = CONNECTION_WINDOW_BYTES;
    }
    const data = unpadded(flags, payload), ended = (flags & FLAG.endStream) !== 0;
    if (data.length === 0 && !ended && !this.#charge("idle", 1)) return;
    if (stream) return stream.receiveData(data, payload.length, ended);
    if (this.isServer && !this.#closedStreams.mayReceive(id)) this.#refuse(id, H2.streamClosed);
  }

  /** Answers a frame that is wrong for a stream that has ended. */
  #refuse(id: number, code: number): void {
    this.sendReset(id, code);
    this.countAbuse();
  }

  #headers(flags: number, id: number, payload: Uint8Array): void {
    if (id === 0) throw new ProtocolError(H2.protocol, "HEADERS on stream 0");
    let part = unpadded(flags, payload);
    if (flags & FLAG.priority) {
      if (part.length < 5) throw new ProtocolError(H2.frameSize, "HEADERS too short");
      checkPriority(id, part);
      part = part.subarray(5);
    }
    const ended = (flags & FLAG.endStream) !== 0;
    if (flags & FLAG.endHeaders) return this.#fields(id, part, ended);
    this.#block = new HeaderBlock(id, ended);
    this.#block.append(part);
  }

  #continuation(flags: number, part: Uint8Array): void {
    const block = this.#block;
    if (!block) throw new ProtocolError(H2.protocol, "CONTINUATION of nothing");
    if (part.length === 0 && !this.#charge("idle", 1)) return;
    block.append(part);
    if (!(flags & FLAG.endHeaders)) return;
    this.#block = undefined;
    this.#fields(block.stream, block.bytes, block.ended);
    block.release();
  }

  #fields(id: number, block: Uint8Array, ended: boolean): void {
    const fields = this.#decoder.decode(block);
    const { listBytes, added } = this.#decoder;
    this.flow.spend(CALL_COST + listBytes);

    const cost = listBytes + ADDED_FIELD_BYTES * added;
    if (!this.#charge("headerBytes", Math.max(0, cost - USUAL_HEADER_BYTES))) return;

    const stream = this.#streams.get(id);
    if (stream) {
      if (!fields) return stream.fail(H2.calm, "more header fields than allowed");
      return stream.receiveHeaders(fields, ended);
    }
    if (this.isServer && id % 2 === 1 && id > this.#lastPeerStream) return this.#opened(id, fields, ended);
    if (this.#isIdle(id)) {
      throw new ProtocolError(H2.protocol, `HEADERS on stream ${id}, which nobody opened`);
    }
    if (!this.isServer || this.#closedStreams.mayReceive(id)) return void this.#charge("idle", 1);

    throw this.#closedStreams.has(id)
      ? new ProtocolError(H2.streamClosed, `HEADERS on stream ${id}, which has ended`)
      : new ProtocolError(H2.protocol, `HEADERS on stream ${id} after stream ${this.#lastPeerStream}`);
  }

  /** A client has opened a stream. */
  #opened(id: number, fields: HeaderFields | undefined, ended: boolean): void {
    this.#lastPeerStream = id;
    const crowded = this.#streams.size >= this.#maxStreams;
    if (this.#draining || crowded) {
      this.#closedStreams.add(id, ended);
      this.sendReset(id, H2.refused);
      if (crowded) this.countAbuse();
      return;
    }
    const stream = new Stream(this, id, this.#peerWindow, fields ?? []);
    this.#streams.set(stream.id, stream);
    const problem = fields && problemOf(fields, "request");
    if (problem) return stream.fail(H2.protocol, `malformed request: ${problem}`);
    stream.listener = this.options.accept!(stream, fields);
    if (ended && !stream.closed) stream.receiveEnd();
  }

  #priority(id: number, payload: Uint8Array): void {
    if (id === 0) throw new ProtocolError(H2.protocol, "PRIORITY on stream 0");
    if (payload.length !== 5) throw new ProtocolError(H2.frameSize, "PRIORITY of a wrong size");
    checkPriority(id, payload);
    this.#charge("idle", 1);
  }

  #reset(id: number, payload: Uint8Array): void {
    if (payload.length !== 4) throw new ProtocolError(H2.frameSize, "RST_STREAM of a wrong size");
    const stream = this.#known(id, "RST_STREAM");
    this.flow.spend(stream ? CALL_COST : 0);
    // A client's own streams can only be reset as often as it opens them.
    if (!this.#charge(stream && this.isServer ? "resets" : "idle", 1)) return;
    if (stream) stream.receiveReset(readUint32(payload, 0));
    else this.#closedStreams.peerHasReset(id);
  }

  #peerSettings(flags: number, id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "SETTINGS on a stream");
    if (flags & FLAG.ack) {
      if (payload.length > 0) throw new ProtocolError(H2.frameSize, "SETTINGS acknowledged with a payload");
      this.#charge("idle", 1);
      return;
    }
    if (!this.#charge("settings", 1 + settingsIn(payload))) return;
    this.flow.spend(CALL_COST);
    for (const [setting, value] of readSettings(payload, !this.isServer)) this.#setting(setting, value);
    this.#control(TYPE.settings, FLAG.ack, 0, new Uint8Array());
    this.options.changed?.();
  }

  #setting(id: number, value: number): void {
    switch (id) {
      case SETTING.tableSize:
        return this.#encoder.resize(value);
      case SETTING.streams:
        this.#peerStreams = value;
        return;
      case SETTING.window:
        return this.#resizeWindows(value);
      case SETTING.headerBytes:
        this.#peerHeaderBytes = value;
        return;
      case SETTING.frameSize:
        this.#peerFrameBytes = Math.min(value, 4 * MAX_FRAME_BYTES);
    }
  }

  #resizeWindows(window: number): void {
    const change = window - this.#peerWindow;
    this.#peerWindow = window;
    for (const stream of this.#streams.values()) {
      if (stream.sendWindow + change > MAX_WINDOW_BYTES) {
        throw new ProtocolError(H2.flowControl, "window of a stream too large");
      }
      stream.widenWindow(change);
    }
  }

  /** The peer's limit, and never more than our own. */
  get #maxSentHeaderBytes(): number {
    return Math.min(this.#peerHeaderBytes, MAX_HEADER_BYTES);
  }

  #ping(flags: number, id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "PING on a stream");
    if (payload.length !== 8) throw new ProtocolError(H2.frameSize, "PING of a wrong size");
    const pinged = flags & FLAG.ack ? this.#pings.shift() : undefined;
    if (pinged) return pinged();
    if (!this.#charge("pings", 1) || flags & FLAG.ack) return;
    this.#control(TYPE.ping, FLAG.ack, 0, payload);
  }

  #peerGoaway(id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "GOAWAY on a stream");
    if (!this.#charge("idle", 1)) return;
    if (payload.length < 8) throw new ProtocolError(H2.frameSize, "GOAWAY of a wrong size");
    if (this.options.role === "server") return;
    this.#draining = true;
    const last = readUint32(payload, 0) & 0x7fffffff;
    const debug = Buffer.from(payload.subarray(8)).toString();
    const reason = `the server is closing the connection${debug && `: ${debug}`}`;
    for (const stream of this.#streams.values()) {
      if (stream.id > last) stream.finish(new SvcError("unavailable", reason), true);
    }
    this.options.changed?.();
    this.#finishDraining();
  }

  #window(id: number, payload: Uint8Array): void {
    if (payload.length !== 4) throw new ProtocolError(H2.frameSize, "WINDOW_UPDATE of a wrong size");
    const bytes = readUint32(payload, 0) & 0x7fffffff;
    if (!this.#charge("windowUpdates", 1)) return;
    if (id !== 0) {
      const stream = this.#known(id, "WINDOW_UPDATE");
      if (bytes > 0) return stream?.widenWindow(bytes);
      return stream ? stream.fail(H2.protocol, "WINDOW_UPDATE by nothing") : this.#refuse(id, H2.protocol);
    }
    if (bytes === 0) throw new ProtocolError(H2.protocol, "WINDOW_UPDATE by nothing");
    this.#sendWindow += bytes;
    if (this.#sendWindow > MAX_WINDOW_BYTES) throw new ProtocolError(H2.flowControl, "window too large");
    this.#schedule();
  }

  /** The stream of a frame; `undefined` if it has been closed already. */
  #known(id: number, frame: string): Stream | undefined {
    const stream = this.#streams.get(id);
    if (!stream && this.#isIdle(id)) {
      throw new ProtocolError(H2.protocol, `${frame} on stream ${id}, which nobody opened`);
    }
    return stream;
  }

  #isIdle(id: number): boolean {
    return id % 2 === 0 || (this.isServer ? id > this.#lastPeerStream : id >= this.#nextStream);
  }
}
