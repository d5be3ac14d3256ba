/**
 * The receiving side of a connection: passes each frame to the stream or the setting that it concerns.
 *
 * Owns header decompression, the connection's receive window and the pings under way. It throws for what a peer
 * must never do, and charges for what a peer may do only rarely.
 */

import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import type { AbuseKind } from "./abuse_limits.ts";
import { problemOf } from "./fields.ts";
import {
  checkPriority,
  FLAG,
  H2,
  MAX_FRAME_BYTES,
  MAX_WINDOW_BYTES,
  ProtocolError,
  readUint32,
  SETTING,
  TYPE,
  unpadded,
} from "./frame.ts";
import { HpackDecoder } from "./hpack.ts";
import { type FrameReader, HeaderBlock } from "./input.ts";
import type { ConnectionOptions } from "./options.ts";
import type { SendScheduler } from "./send_scheduler.ts";
import { MAX_HEADER_BYTES, type PeerSettings, readSettings, settingsIn } from "./settings.ts";
import type { Shutdown } from "./shutdown.ts";
import type { Flow } from "../flow/round_robin.ts";
import { Stream, type StreamCarrier } from "./stream.ts";
import type { StreamTable } from "./stream_table.ts";

/** Usual size of a call's header fields; only the excess counts against the limit of header bytes. */
const USUAL_HEADER_BYTES = 4 * 1024;
/** Additional cost of a field that enters the table: well-behaved peers add a few fields, once. */
const ADDED_FIELD_BYTES = 1024;
export const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;
/** Cost in its connection's quantum of a frame that begins or ends a call, or of a setting. */
const CALL_COST = 1024;

/** The connection as its dispatcher sees it. */
interface DispatchedConnection extends StreamCarrier {
  readonly options: ConnectionOptions;
  readonly maxStreams: number;
  readonly table: StreamTable;
  readonly out: SendScheduler;
  readonly peer: PeerSettings;
  readonly shutdown: Shutdown;
  readonly flow: Flow;
  /** Charges the peer for a costly or useless frame; beyond the limit ends the connection and returns false. */
  charge(name: AbuseKind, amount: number): boolean;
  /** Closes the connection if it is draining and nothing is left to do. */
  finishDraining(): void;
}

export class FrameDispatch {
  /** The header block that is incomplete. */
  block: HeaderBlock | undefined;
  readonly #decoder = new HpackDecoder(MAX_HEADER_BYTES);
  readonly #streams: StreamTable;
  readonly #out: SendScheduler;
  readonly #peer: PeerSettings;
  readonly #pings: (() => void)[] = [];
  /** Streams with buffered data that is not delivered yet. */
  readonly #bufferedStreams: Stream[] = [];
  #receiveWindow = CONNECTION_WINDOW_BYTES;

  constructor(private readonly connection: DispatchedConnection, private readonly input: FrameReader) {
    this.#streams = connection.table;
    this.#out = connection.out;
    this.#peer = connection.peer;
  }

  /** Handles the frame that was read last. */
  handle(): void {
    const { type, flags, stream: id, payload, frames } = this.input;
    if (frames === 1) this.connection.options.ready?.();
    if (this.block && (type !== TYPE.continuation || id !== this.block.stream)) {
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

    this.connection.charge("idle", 1);
  }

  buffered(stream: Stream): void {
    this.#bufferedStreams.push(stream);
  }

  /** Removes and returns the streams whose buffered data is due. */
  takeBuffered(): Stream[] {
    return this.#bufferedStreams.splice(0);
  }

  /** Resolves when the peer answers a ping; never, if the connection ends first. */
  ping(): Promise<void> {
    return new Promise((resolve) => {
      this.#pings.push(resolve);
      this.#out.control(TYPE.ping, 0, 0, new Uint8Array(8));
    });
  }

  #data(flags: number, id: number, payload: Uint8Array): void {
    const stream = this.#streams.known(id, "DATA");
    this.#receiveWindow -= payload.length;
    if (this.#receiveWindow < 0) {
      throw new ProtocolError(H2.flowControl, "more data than the connection allows");
    }
    // The connection as a whole never waits for a slow reader: each stream's own window bounds its data.
    if (this.#receiveWindow < CONNECTION_WINDOW_BYTES / 2) {
      this.#out.sendWindowUpdate(0, CONNECTION_WINDOW_BYTES - this.#receiveWindow);
      this.#receiveWindow = CONNECTION_WINDOW_BYTES;
    }
    const data = unpadded(flags, payload), ended = (flags & FLAG.endStream) !== 0;
    if (data.length === 0 && !ended && !this.connection.charge("idle", 1)) return;
    if (stream) return stream.receiveData(data, payload.length, ended);
    if (this.connection.isServer && !this.#streams.mayReceive(id)) this.#refuse(id, H2.streamClosed);
  }

  /** Answers a frame that is wrong for a stream that has ended. */
  #refuse(id: number, code: number): void {
    this.#out.sendReset(id, code);
    this.connection.countAbuse();
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
    this.block = new HeaderBlock(id, ended);
    this.block.append(part);
  }

  #continuation(flags: number, part: Uint8Array): void {
    const block = this.block;
    if (!block) throw new ProtocolError(H2.protocol, "CONTINUATION of nothing");
    if (part.length === 0 && !this.connection.charge("idle", 1)) return;
    block.append(part);
    if (!(flags & FLAG.endHeaders)) return;
    this.block = undefined;
    this.#fields(block.stream, block.bytes, block.ended);
    block.release();
  }

  #fields(id: number, block: Uint8Array, ended: boolean): void {
    const fields = this.#decoder.decode(block);
    const { listBytes, added } = this.#decoder;
    this.connection.flow.spend(CALL_COST + listBytes);

    const cost = listBytes + ADDED_FIELD_BYTES * added;
    if (!this.connection.charge("headerBytes", Math.max(0, cost - USUAL_HEADER_BYTES))) return;

    const stream = this.#streams.get(id);
    if (stream) {
      if (!fields) return stream.fail(H2.calm, "more header fields than allowed");
      return stream.receiveHeaders(fields, ended);
    }
    if (this.#streams.isOpenedBy(id)) return this.#opened(id, fields, ended);
    this.#streams.requireOpened(id, "HEADERS");
    if (!this.connection.isServer || this.#streams.mayReceive(id)) {
      return void this.connection.charge("idle", 1);
    }

    throw this.#streams.lateHeadersError(id);
  }

  /** A client has opened a stream. */
  #opened(id: number, fields: HeaderFields | undefined, ended: boolean): void {
    this.#streams.lastPeerId = id;
    const crowded = this.#streams.size >= this.connection.maxStreams;
    if (this.connection.shutdown.isDraining || crowded) {
      this.#streams.addClosed(id, ended);
      this.#out.sendReset(id, H2.refused);
      if (crowded) this.connection.countAbuse();
      return;
    }
    const stream = new Stream(this.connection, id, this.#peer.windowBytes, fields ?? []);
    this.#streams.add(stream);
    const problem = fields && problemOf(fields, "request");
    if (problem) return stream.fail(H2.protocol, `malformed request: ${problem}`);
    stream.listener = this.connection.options.accept!(stream, fields);
    if (ended && !stream.closed) stream.receiveEnd();
  }

  #priority(id: number, payload: Uint8Array): void {
    if (id === 0) throw new ProtocolError(H2.protocol, "PRIORITY on stream 0");
    if (payload.length !== 5) throw new ProtocolError(H2.frameSize, "PRIORITY of a wrong size");
    checkPriority(id, payload);
    this.connection.charge("idle", 1);
  }

  #reset(id: number, payload: Uint8Array): void {
    if (payload.length !== 4) throw new ProtocolError(H2.frameSize, "RST_STREAM of a wrong size");
    const stream = this.#streams.known(id, "RST_STREAM");
    this.connection.flow.spend(stream ? CALL_COST : 0);
    // A client's own streams can only be reset as often as it opens them.
    if (!this.connection.charge(stream && this.connection.isServer ? "resets" : "idle", 1)) return;
    if (stream) stream.receiveReset(readUint32(payload, 0));
    else this.#streams.peerHasReset(id);
  }

  #peerSettings(flags: number, id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "SETTINGS on a stream");
    if (flags & FLAG.ack) {
      if (payload.length > 0) throw new ProtocolError(H2.frameSize, "SETTINGS acknowledged with a payload");
      this.connection.charge("idle", 1);
      return;
    }
    if (!this.connection.charge("settings", 1 + settingsIn(payload))) return;
    this.connection.flow.spend(CALL_COST);
    for (const [setting, value] of readSettings(payload, !this.connection.isServer)) {
      this.#setting(setting, value);
    }
    this.#out.control(TYPE.settings, FLAG.ack, 0, new Uint8Array());
    this.connection.options.changed?.();
  }

  #setting(id: number, value: number): void {
    switch (id) {
      case SETTING.tableSize:
        return this.#out.resizeHeaderTable(value);
      case SETTING.streams:
        this.#peer.streams = value;
        return;
      case SETTING.window:
        return this.#resizeWindows(value);
      case SETTING.headerBytes:
        this.#peer.headerBytes = value;
        return;
      case SETTING.frameSize:
        this.#peer.frameBytes = Math.min(value, 4 * MAX_FRAME_BYTES);
    }
  }

  #resizeWindows(window: number): void {
    const change = window - this.#peer.windowBytes;
    this.#peer.windowBytes = window;
    for (const stream of this.#streams.values()) {
      if (stream.sendWindow + change > MAX_WINDOW_BYTES) {
        throw new ProtocolError(H2.flowControl, "window of a stream too large");
      }
      stream.widenWindow(change);
    }
  }

  #ping(flags: number, id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "PING on a stream");
    if (payload.length !== 8) throw new ProtocolError(H2.frameSize, "PING of a wrong size");
    const pinged = flags & FLAG.ack ? this.#pings.shift() : undefined;
    if (pinged) return pinged();
    if (!this.connection.charge("pings", 1) || flags & FLAG.ack) return;
    this.#out.control(TYPE.ping, FLAG.ack, 0, payload);
  }

  #peerGoaway(id: number, payload: Uint8Array): void {
    if (id !== 0) throw new ProtocolError(H2.protocol, "GOAWAY on a stream");
    if (!this.connection.charge("idle", 1)) return;
    if (payload.length < 8) throw new ProtocolError(H2.frameSize, "GOAWAY of a wrong size");
    if (this.connection.isServer) return;
    this.connection.shutdown.isDraining = true;
    const last = readUint32(payload, 0) & 0x7fffffff;
    const debug = Buffer.from(payload.subarray(8)).toString();
    const reason = `the server is closing the connection${debug && `: ${debug}`}`;
    for (const stream of this.#streams.values()) {
      if (stream.id > last) stream.finish(new SvcError("unavailable", reason), true);
    }
    this.connection.options.changed?.();
    this.connection.finishDraining();
  }

  #window(id: number, payload: Uint8Array): void {
    if (payload.length !== 4) throw new ProtocolError(H2.frameSize, "WINDOW_UPDATE of a wrong size");
    const bytes = readUint32(payload, 0) & 0x7fffffff;
    if (!this.connection.charge("windowUpdates", 1)) return;
    if (id !== 0) {
      const stream = this.#streams.known(id, "WINDOW_UPDATE");
      if (bytes > 0) return stream?.widenWindow(bytes);
      return stream ? stream.fail(H2.protocol, "WINDOW_UPDATE by nothing") : this.#refuse(id, H2.protocol);
    }
    if (bytes === 0) throw new ProtocolError(H2.protocol, "WINDOW_UPDATE by nothing");
    this.#out.widenWindow(bytes);
  }
}
