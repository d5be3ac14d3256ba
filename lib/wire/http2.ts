/**
 * HTTP/2 (RFC 9113) over a socket: one `Connection` per socket, one `Stream` per exchange, both roles.
 *
 * Owns framing, header compression, flow control in both directions and the bounds on what a peer can make us
 * keep. A peer that breaks the rules loses its connection, never the program. Bytes go out in as few writes as
 * possible: what piles up while a write is under way leaves in the next one, taken in turns from all streams.
 */

import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import { messageOf, SvcError } from "../base/error.ts";
import { type Fields, HpackDecoder, HpackEncoder, HpackError } from "./hpack.ts";
import {
  FLAG,
  FRAME_HEADER_BYTES,
  H2,
  MAX_FRAME_BYTES,
  MAX_WINDOW_BYTES,
  Outbox,
  PREFACE,
  ProtocolError,
  readUint32,
  SETTING,
  TYPE,
  uint32,
  unpadded,
} from "./http2_frame.ts";
import { Stream, STREAM_WINDOW_BYTES, type StreamListener } from "./http2_stream.ts";

/** Streams a peer may have open at once on one connection, and a client where the server sets no limit. */
export const MAX_STREAMS = 1000;
/** Streams that a client opens before it knows the server's limit, which is seldom lower (RFC 9113, 6.5.2). */
const EARLY_STREAMS = 100;
/** Bytes of header fields that one block may hold. */
const MAX_HEADER_BYTES = 64 * 1024;
/** Bytes of one header block as it travels, over all its frames. */
const MAX_BLOCK_BYTES = 256 * 1024;
const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;
const INITIAL_WINDOW_BYTES = 65_535;
/** Data that one write to the socket gathers. */
const WRITE_BYTES = 256 * 1024;
/** A peer that does not read what it makes us answer is cut off at this. */
const MAX_UNSENT_BYTES = 4 * 1024 * 1024;

export interface ConnectionOptions {
  readonly role: "server" | "client";
  /** A server's: takes a new stream; without fields when there were more than are taken. */
  readonly accept?: (stream: Stream, fields: Fields | undefined) => StreamListener;
  /** A server's: how many streams the client may have open at once; `MAX_STREAMS` unless it is told. */
  readonly maxStreams?: number;
  /** A client's: `open` or `hasRoom` may have changed. */
  readonly changed?: () => void;
  /** The peer has shown that it speaks HTTP/2. */
  readonly ready?: () => void;
  /** Runs `destroy` in a while, unless the returned function is called: how long a peer has to read a farewell. */
  readonly linger?: (destroy: () => void) => () => void;
  /** The connection is over; once. */
  readonly closed?: (error: SvcError) => void;
}

/** Part of the error of a client whose server answers in another language, that of TLS as it seems. */
export const WITH_TLS = "does the server want TLS?";

/** Whether a server's first bytes are an alert of TLS, or the answer of HTTP/1.1 that servers have for such clients. */
function wantsTls(bytes: Uint8Array): boolean {
  const beginning = String.fromCharCode(...bytes.subarray(0, 5));
  return beginning === "HTTP/" || beginning.startsWith("\x15\x03");
}

export class Connection {
  readonly #streams = new Map<number, Stream>();
  readonly #decoder = new HpackDecoder(MAX_HEADER_BYTES);
  readonly #encoder = new HpackEncoder();
  readonly #out = new Outbox();
  readonly #ready: Stream[] = [];
  readonly #pings: (() => void)[] = [];
  #input: Uint8Array | undefined;
  #prefaceLeft: number;
  #settled = false;
  #block?: { stream: number; flags: number; parts: Uint8Array[]; bytes: number };
  #lastPeerStream = 0;
  #nextStream = 1;
  #sendWindow = INITIAL_WINDOW_BYTES;
  #receiveWindow = CONNECTION_WINDOW_BYTES;
  #peerWindow = INITIAL_WINDOW_BYTES;
  #peerFrameBytes = MAX_FRAME_BYTES;
  #peerStreams: number | undefined;
  #scheduled = false;
  #writing = false;
  #draining = false;
  #over: SvcError | undefined;

  constructor(private readonly socket: Duplex, private readonly options: ConnectionOptions) {
    this.#prefaceLeft = options.role === "server" ? PREFACE.length : 0;
    if (options.role === "client") this.#out.append(Buffer.from(PREFACE, "latin1"));
    this.#settings();
    this.#out.frame(TYPE.window, 0, 0, uint32(CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES));
    socket.on("data", (bytes: Uint8Array) => this.#receive(bytes));
    socket.on("end", () => this.#lost("the peer closed the connection"));
    socket.on("close", () => this.#lost("the connection was closed"));
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

  get streams(): number {
    return this.#streams.size;
  }

  /** Whether the peer's limit leaves room for one more stream. */
  get hasRoom(): boolean {
    return this.#streams.size < (this.#peerStreams ?? (this.#settled ? MAX_STREAMS : EARLY_STREAMS));
  }

  /** A client's: opens a stream with its header. */
  request(fields: Fields, ended: boolean, listener: StreamListener): Stream {
    if (this.#over) throw this.#over;
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

  /** Takes no more streams, and closes when the last one has ended. */
  drain(): void {
    if (this.#over || this.#draining) return;
    this.#draining = true;
    this.#goaway(H2.noError, "");
    this.#finishDraining();
  }

  /** Ends the connection and every stream on it; `farewell` are last bytes for the peer. */
  destroy(error: SvcError, farewell?: Uint8Array): void {
    if (this.#over) return;
    this.#over = error;
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    this.#ready.length = 0;
    if (farewell) this.#part(farewell);
    else this.socket.destroy();
    for (const stream of streams) stream.finish(error);
    this.options.closed?.(error);
  }

  /**
   * Of a socket that closes before all that came has been read the system takes back what was just sent. So what still
   * comes is read, for a while, until the peer has seen why it is left.
   */
  #part(farewell: Uint8Array): void {
    const destroy = () => void this.socket.destroy();
    const { linger } = this.options;
    if (linger) this.socket.once("close", linger(destroy));
    this.socket.end(farewell, linger ? undefined : destroy);
  }

  // What streams do to their connection.

  sendHeaders(stream: number, fields: Fields, ended: boolean): void {
    const block = this.#encoder.encode(fields);
    const size = this.#peerFrameBytes;
    for (let at = 0; at === 0 || at < block.length; at += size) {
      const last = at + size >= block.length;
      const flags = (last ? FLAG.endHeaders : 0) | (ended && at === 0 ? FLAG.endStream : 0);
      this.#out.frame(
        at === 0 ? TYPE.headers : TYPE.continuation,
        flags,
        stream,
        block.subarray(at, at + size),
      );
    }
    this.#bound();
  }

  sendReset(stream: number, code: number): void {
    this.#control(TYPE.reset, 0, stream, uint32(code));
  }

  sendCredit(stream: number, bytes: number): void {
    this.#control(TYPE.window, 0, stream, uint32(bytes));
  }

  /** Says that a stream has something to send. */
  enqueue(stream: Stream): void {
    this.#ready.push(stream);
    this.#schedule();
  }

  remove(stream: Stream): void {
    this.#streams.delete(stream.id);
    this.options.changed?.();
    this.#finishDraining();
  }

  // Sending.

  #schedule(): void {
    if (this.#scheduled || this.#writing || this.#over) return;
    this.#scheduled = true;
    queueMicrotask(() => {
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
    this.#writing = true;
    this.socket.write(bytes, () => {
      this.#writing = false;
      this.#flush();
    });
  }

  /** Moves data of the waiting streams into the outbox, a frame from each in turn. */
  #pump(): void {
    const blocked: Stream[] = [];
    while (this.#ready.length > 0 && this.#out.bytes < WRITE_BYTES) {
      const stream = this.#ready.shift()!;
      if (stream.closed) continue;
      const room = Math.min(this.#sendWindow, this.#peerFrameBytes);
      const sent = stream.pump(room, this.#out);
      this.#sendWindow -= sent;
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
    this.#bound();
  }

  #bound(): void {
    if (this.#out.bytes > MAX_UNSENT_BYTES) {
      this.destroy(new SvcError("unavailable", "the peer does not read what is sent to it"));
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
    const payload = Buffer.alloc(6 * values.length);
    values.forEach(([id, value], i) => payload.writeUInt32BE(value, payload.writeUInt16BE(id, 6 * i)));
    this.#out.frame(TYPE.settings, 0, 0, payload);
  }

  #goaway(code: number, message: string): void {
    const text = Buffer.from(message);
    this.#control(TYPE.goaway, 0, 0, Buffer.concat([uint32(this.#lastPeerStream), uint32(code), text]));
  }

  #finishDraining(): void {
    if (!this.#draining || this.#streams.size > 0 || this.#out.bytes > 0 || this.#writing) return;
    if (this.#over) return;
    this.destroy(new SvcError("unavailable", "the connection was drained"));
  }

  // Receiving.

  #receive(bytes: Uint8Array): void {
    if (this.#over) return;
    try {
      this.#parse(this.#input ? Buffer.concat([this.#input, bytes]) : bytes);
    } catch (error) {
      if (error instanceof HpackError) this.#fail(H2.compression, error.message);
      else if (error instanceof ProtocolError) this.#fail(error.code, error.message);
      else this.#fail(H2.internal, messageOf(error));
    }
  }

  /** Tells the peer what it did wrong, then ends the connection. */
  #fail(code: number, message: string): void {
    if (this.#over) return;
    this.#goaway(code, message);
    const error = new SvcError("unavailable", `the peer broke the rules of HTTP/2: ${message}`);
    this.destroy(error, this.#out.take());
  }

  #lost(reason: string): void {
    this.destroy(new SvcError("unavailable", `connection lost: ${reason}`));
  }

  #parse(bytes: Uint8Array): void {
    let at = 0;
    this.#input = undefined;
    for (; this.#prefaceLeft > 0 && at < bytes.length; at++, this.#prefaceLeft--) {
      if (bytes[at] !== PREFACE.charCodeAt(PREFACE.length - this.#prefaceLeft)) {
        throw new ProtocolError(H2.protocol, "the connection does not begin as HTTP/2 does");
      }
    }
    if (!this.#settled && !this.isServer && wantsTls(bytes)) throw new ProtocolError(H2.protocol, WITH_TLS);
    while (bytes.length - at >= FRAME_HEADER_BYTES) {
      const length = (bytes[at] << 16) | (bytes[at + 1] << 8) | bytes[at + 2];
      if (length > MAX_FRAME_BYTES) throw new ProtocolError(H2.frameSize, `frame of ${length} bytes`);
      // Known from its first bytes, whether or not the others ever come.
      if (!this.#settled && bytes[at + 3] !== TYPE.settings) {
        throw new ProtocolError(H2.protocol, "the first frame is not SETTINGS");
      }
      const end = at + FRAME_HEADER_BYTES + length;
      if (end > bytes.length) break;
      const stream = readUint32(bytes, at + 5) & 0x7fffffff;
      this.#frame(bytes[at + 3], bytes[at + 4], stream, bytes.subarray(at + FRAME_HEADER_BYTES, end));
      if (this.#over) return;
      at = end;
    }
    if (at < bytes.length) this.#input = bytes.subarray(at);
  }

  #frame(type: number, flags: number, id: number, payload: Uint8Array): void {
    if (!this.#settled) {
      this.#settled = true;
      this.options.ready?.();
    }
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
      case TYPE.reset:
        return this.#reset(id, payload);
      case TYPE.settings:
        return this.#peerSettings(flags, id, payload);
      case TYPE.ping:
        return this.#ping(flags, id, payload);
      case TYPE.goaway:
        return this.#peerGoaway(payload);
      case TYPE.window:
        return this.#window(id, payload);
      case TYPE.push:
        throw new ProtocolError(H2.protocol, "a push, which was not allowed");
    }
  }

  #data(flags: number, id: number, payload: Uint8Array): void {
    const stream = this.#known(id, "DATA");
    this.#receiveWindow -= payload.length;
    if (this.#receiveWindow < 0) {
      throw new ProtocolError(H2.flowControl, "more data than the connection takes");
    }
    // The connection as a whole never waits for a slow reader: each stream's own window bounds what it keeps.
    if (this.#receiveWindow < CONNECTION_WINDOW_BYTES / 2) {
      this.sendCredit(0, CONNECTION_WINDOW_BYTES - this.#receiveWindow);
      this.#receiveWindow = CONNECTION_WINDOW_BYTES;
    }
    stream?.receiveData(unpadded(flags, payload), payload.length, (flags & FLAG.endStream) !== 0);
  }

  #headers(flags: number, id: number, payload: Uint8Array): void {
    if (id === 0) throw new ProtocolError(H2.protocol, "HEADERS on stream 0");
    let block = unpadded(flags, payload);
    if (flags & FLAG.priority) {
      if (block.length < 5) throw new ProtocolError(H2.frameSize, "HEADERS too short");
      block = block.subarray(5);
    }
    this.#block = { stream: id, flags, parts: [], bytes: 0 };
    this.#continuation(flags, block);
  }

  #continuation(flags: number, part: Uint8Array): void {
    const block = this.#block;
    if (!block) throw new ProtocolError(H2.protocol, "CONTINUATION of nothing");
    // Empty parts count too, or a peer could send them forever.
    block.bytes += part.length + FRAME_HEADER_BYTES;
    block.parts.push(part);
    if (block.bytes > MAX_BLOCK_BYTES) throw new ProtocolError(H2.calm, "header block too large");
    if (!(flags & FLAG.endHeaders)) return;
    this.#block = undefined;
    const bytes = block.parts.length === 1 ? part : Buffer.concat(block.parts);
    this.#fields(block.stream, this.#decoder.decode(bytes), (block.flags & FLAG.endStream) !== 0);
  }

  #fields(id: number, fields: Fields | undefined, ended: boolean): void {
    const stream = this.#streams.get(id);
    if (stream) {
      if (!fields) return stream.fail(H2.calm, "more header fields than are taken");
      return stream.receiveHeaders(fields, ended);
    }
    const opens = this.options.role === "server" && id % 2 === 1 && id > this.#lastPeerStream;
    if (!opens) {
      if (this.#isIdle(id)) {
        throw new ProtocolError(H2.protocol, `HEADERS on stream ${id}, which nobody opened`);
      }
      return;
    }
    this.#lastPeerStream = id;
    if (this.#draining || this.#streams.size >= this.#maxStreams) return this.sendReset(id, H2.refused);
    const opened = new Stream(this, id, this.#peerWindow);
    this.#streams.set(id, opened);
    opened.listener = this.options.accept!(opened, fields);
    if (ended && !opened.closed) opened.receiveEnd();
  }

  #reset(id: number, payload: Uint8Array): void {
    if (payload.length !== 4) throw new ProtocolError(H2.frameSize, "RST_STREAM of a wrong size");
    const code = readUint32(payload, 0);
    this.#known(id, "RST_STREAM")?.receiveReset(code);
  }

  #peerSettings(flags: number, id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "SETTINGS on a stream");
    if (flags & FLAG.ack) return;
    if (payload.length % 6 !== 0) throw new ProtocolError(H2.frameSize, "SETTINGS of a wrong size");
    for (let at = 0; at < payload.length; at += 6) {
      this.#setting((payload[at] << 8) | payload[at + 1], readUint32(payload, at + 2));
    }
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
      case SETTING.window: {
        if (value > MAX_WINDOW_BYTES) throw new ProtocolError(H2.flowControl, "window too large");
        const change = value - this.#peerWindow;
        this.#peerWindow = value;
        for (const stream of this.#streams.values()) stream.widen(change);
        return;
      }
      case SETTING.frameSize:
        if (value < MAX_FRAME_BYTES || value > 2 ** 24 - 1) {
          throw new ProtocolError(H2.protocol, `frame size ${value}`);
        }
        this.#peerFrameBytes = Math.min(value, 4 * MAX_FRAME_BYTES);
    }
  }

  #ping(flags: number, id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "PING on a stream");
    if (payload.length !== 8) throw new ProtocolError(H2.frameSize, "PING of a wrong size");
    if (flags & FLAG.ack) this.#pings.shift()?.();
    else this.#control(TYPE.ping, FLAG.ack, 0, payload);
  }

  #peerGoaway(payload: Uint8Array): void {
    if (payload.length < 8) throw new ProtocolError(H2.frameSize, "GOAWAY of a wrong size");
    if (this.options.role === "server") return;
    this.#draining = true;
    const last = readUint32(payload, 0) & 0x7fffffff;
    const debug = Buffer.from(payload.subarray(8)).toString();
    const reason = `the server is closing the connection${debug && `: ${debug}`}`;
    for (const stream of [...this.#streams.values()]) {
      if (stream.id > last) stream.finish(new SvcError("unavailable", reason), true);
    }
    this.options.changed?.();
    this.#finishDraining();
  }

  #window(id: number, payload: Uint8Array): void {
    if (payload.length !== 4) throw new ProtocolError(H2.frameSize, "WINDOW_UPDATE of a wrong size");
    const bytes = readUint32(payload, 0) & 0x7fffffff;
    if (bytes === 0) throw new ProtocolError(H2.protocol, "WINDOW_UPDATE by nothing");
    if (id !== 0) {
      this.#known(id, "WINDOW_UPDATE")?.widen(bytes);
      return;
    }
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
    if (id === 0) return true;
    return this.options.role === "server"
      ? id % 2 === 0 || id > this.#lastPeerStream
      : id % 2 === 0 || id >= this.#nextStream;
  }
}
