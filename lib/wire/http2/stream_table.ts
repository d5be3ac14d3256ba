/**
 * The streams of a connection: the open ones by number, and the most recently ended ones, to distinguish late frames
 * from wrong ones.
 */

import { BriefMap } from "../../base/collections/brief_map.ts";
import { H2, MAX_WINDOW_BYTES, ProtocolError } from "./frame.ts";
import type { Stream } from "./stream.ts";

/** Number of remembered streams; older ones count as never opened. */
const CLOSED_STREAMS_MAX = 1024;

class ClosedStreams {
  /** Numbers of streams; negative if the peer may still send frames of the stream. */
  #ids = new Int32Array();
  #next = 0;

  add(id: number, peerIsDone: boolean): void {
    if (this.#ids.length === 0) this.#ids = new Int32Array(CLOSED_STREAMS_MAX);
    this.#ids[this.#next] = peerIsDone ? id : -id;
    this.#next = (this.#next + 1) % CLOSED_STREAMS_MAX;
  }

  /** The peer has announced that it sends no more frames of the stream. */
  peerHasReset(id: number): void {
    const at = this.#ids.indexOf(-id);
    if (at >= 0) this.#ids[at] = id;
  }

  has(id: number): boolean {
    return this.#ids.includes(id) || this.#ids.includes(-id);
  }

  /** Whether frames of the stream may still be under way. */
  mayReceive(id: number): boolean {
    return this.#ids.includes(-id);
  }
}

export class StreamTable {
  readonly #open = new BriefMap<number, Stream>();
  readonly #closed = new ClosedStreams();
  #nextId = 1;
  /** The highest number of a stream that the peer has opened. */
  lastPeerId = 0;

  constructor(private readonly isServer: boolean) {}

  get size(): number {
    return this.#open.size;
  }

  /** Client: whether there are numbers left for new streams. */
  get hasIds(): boolean {
    return this.#nextId < MAX_WINDOW_BYTES;
  }

  values(): Stream[] {
    return this.#open.values();
  }

  get(id: number): Stream | undefined {
    return this.#open.get(id);
  }

  add(stream: Stream): void {
    this.#open.set(stream.id, stream);
  }

  /** Client: the number of the next stream. */
  takeId(): number {
    const id = this.#nextId;
    this.#nextId += 2;
    return id;
  }

  remove(stream: Stream): void {
    this.#open.delete(stream.id);
    this.addClosed(stream.id, stream.peerIsDone);
  }

  /** Removes and returns all open streams. */
  clear(): Stream[] {
    const streams = this.#open.values();
    this.#open.clear();
    return streams;
  }

  addClosed(id: number, peerIsDone: boolean): void {
    this.#closed.add(id, peerIsDone);
  }

  /** The peer has announced that it sends no more frames of a closed stream. */
  peerHasReset(id: number): void {
    this.#closed.peerHasReset(id);
  }

  /** Whether frames of a closed stream may still be under way. */
  mayReceive(id: number): boolean {
    return this.#closed.mayReceive(id);
  }

  /** Whether the peer opens a stream of this number now. */
  isOpenedBy(id: number): boolean {
    return this.isServer && id % 2 === 1 && id > this.lastPeerId;
  }

  /** The stream of a frame; `undefined` if it has been closed already. */
  known(id: number, frame: string): Stream | undefined {
    const stream = this.#open.get(id);
    if (!stream) this.requireOpened(id, frame);
    return stream;
  }

  /** Throws if the stream has never been open. */
  requireOpened(id: number, frame: string): void {
    const isIdle = id % 2 === 0 || (this.isServer ? id > this.lastPeerId : id >= this.#nextId);
    if (isIdle) throw new ProtocolError(H2.protocol, `${frame} on stream ${id}, which nobody opened`);
  }

  /** The error of HEADERS on a stream that the peer has closed. */
  lateHeadersError(id: number): ProtocolError {
    return this.#closed.has(id)
      ? new ProtocolError(H2.streamClosed, `HEADERS on stream ${id}, which has ended`)
      : new ProtocolError(H2.protocol, `HEADERS on stream ${id} after stream ${this.lastPeerId}`);
  }
}
