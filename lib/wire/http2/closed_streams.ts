/**
 * The most recently ended streams of a connection, to distinguish late frames from wrong ones.
 */

/** Number of remembered streams; older ones count as never opened. */
const CLOSED_STREAMS_MAX = 1024;

export class ClosedStreams {
  /** Numbers of streams; negative if the peer had not sent its last frame. */
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
