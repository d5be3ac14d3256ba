/**
 * The data of a stream: what it has still to send, and what it has received.
 *
 * Owns the unsent data and its budget, the receive window, and the announced length of a body.
 */

import { assert } from "../../base/error.ts";
import type { ByteBudget } from "../flow/byte_budget.ts";
import type { Flow } from "../flow/round_robin.ts";
import { joinedBytes } from "../../base/files/byte_reader.ts";
import { giveBackAll } from "../flow/given_back.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { contentLength, problemOf } from "./fields.ts";
import type { OutgoingBytes } from "./frame.ts";

/** What a peer may send on one stream before we have read it. */
export const STREAM_WINDOW_BYTES = 1024 * 1024;
/** Queued data at which a stream's writer should wait. */
const HIGH_WATER_BYTES = 64 * 1024;
/** Smaller pieces of data are joined before they are delivered. */
const SMALL_BYTES = 1024;

/** A budget for unread answers. */
export type Unread = Pick<ByteBudget, "take" | "give" | "check" | "roomBytes">;

/** The budgets that a stream charges for its data. */
interface DataCosts {
  /** Charged with unsent data. */
  readonly unread?: Unread;
  /** Its flow pays for the answers. */
  readonly flow: Pick<Flow, "sent">;
}

/** The direction to the peer. */
export class OutgoingData {
  trailers: HeaderFields | undefined;
  /** Whether the stream adds no more data. */
  isEnding = false;
  /** Whether the end has been sent. */
  isEnded = false;
  sentBytes = 0;
  unsentBytes = 0;
  readonly #unsent: Uint8Array[] = [];
  /** The memory that is returned after its data has been sent. */
  #given: Set<ArrayBufferLike> | undefined;
  #drained: { promise: Promise<void>; resolve: () => void } | undefined;

  constructor(private readonly costs: DataCosts) {}

  /** Whether there is something to send. */
  get isWaiting(): boolean {
    return this.unsentBytes > 0 || (this.isEnding && !this.isEnded);
  }

  /** Queues data after `head`; returned memory is given back after sending. Throws if too much is unread. */
  add(head: Uint8Array | undefined, bytes: Uint8Array, isGiven: boolean): void {
    const length = bytes.length + (head?.length ?? 0);
    this.costs.unread?.take(length);
    if (head) this.#unsent.push(head);
    this.#unsent.push(bytes);
    if (isGiven) {
      this.#given ??= new Set();
      this.#given.add(bytes.buffer);
    }

    this.unsentBytes += length;
    this.costs.flow.sent(length);
  }

  /** Asks the writer to wait, if it should. */
  whenDrained(): Promise<void> | undefined {
    if (this.unsentBytes < HIGH_WATER_BYTES) return undefined;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  /** Moves data to the outbox. */
  move(bytes: number, out: OutgoingBytes): void {
    this.unsentBytes -= bytes;
    this.sentBytes += bytes;
    this.costs.unread?.give(bytes);
    while (bytes > 0) {
      const [first] = this.#unsent;
      assert(first, "more bytes are sent than a stream has");
      const part = first.length <= bytes ? first : first.subarray(0, bytes);
      out.append(part);
      bytes -= part.length;
      if (part !== first) this.#unsent[0] = first.subarray(part.length);
      else this.#release(this.#unsent.shift()!);
    }

    if (this.#drained && this.unsentBytes < HIGH_WATER_BYTES) {
      this.#drained.resolve();
      this.#drained = undefined;
    }
  }

  /** Drops what has not been sent. */
  clear(): void {
    this.costs.unread?.give(this.unsentBytes);
    for (const bytes of this.#unsent.splice(0)) this.#release(bytes);
    this.unsentBytes = 0;
    this.#drained?.resolve();
  }

  /** The bytes have been sent, or never will be. */
  #release(bytes: Uint8Array): void {
    if (this.#given?.delete(bytes.buffer)) giveBackAll(bytes);
  }
}

/** The direction from the peer. */
export class IncomingData {
  isEnded = false;
  isReset = false;
  bytes = 0;
  /** Whether the peer's header has arrived; later fields are trailers. */
  isOpened = false;
  /** The announced size of the data. */
  #announcedBytes: number | undefined;
  /** Small pieces of data that are delivered together. */
  #buffered: Uint8Array[] | undefined;
  #windowBytes = STREAM_WINDOW_BYTES;
  #consumedBytes = 0;

  constructor(header: HeaderFields | undefined) {
    if (header) this.#open(header);
  }

  /** Takes the header or trailers; returns the problem if there is one. */
  receiveHeaders(fields: HeaderFields, ended: boolean): string | undefined {
    const trailers = this.isOpened;
    if (trailers && !ended) return "a second header, or trailers without an end";
    const isInterim = !trailers && interim(fields);
    const problem = problemOf(fields, trailers ? "trailers" : "response");
    if (problem) return problem;
    if (isInterim && ended) return "an end after an interim header";
    if (!trailers && !isInterim) this.#open(fields);
    return undefined;
  }

  /** Takes a frame's bytes from the window; false if it was too small. */
  takeWindow(frameBytes: number): boolean {
    this.#windowBytes -= frameBytes;
    return this.#windowBytes >= 0;
  }

  /** Counts the bytes of the body; false if there are more than announced. */
  count(bytes: number): boolean {
    this.bytes += bytes;
    return this.#announcedBytes === undefined || this.bytes <= this.#announcedBytes;
  }

  /** Whether the body is as long as announced. */
  isWhole(isServer: boolean): boolean {
    // An answer without data may announce the size that it would have (to HEAD, or with status 304).
    const isEmptyAnswer = this.bytes === 0 && !isServer;
    return this.#announcedBytes === undefined || this.#announcedBytes === this.bytes || isEmptyAnswer;
  }

  /** Whether a piece is delivered at once, and not joined with others. */
  isDeliveredAlone(bytes: Uint8Array, ended: boolean): boolean {
    return bytes.length >= SMALL_BYTES || (ended && !this.#buffered);
  }

  /** Keeps a small piece; true if it is the first one. */
  buffer(bytes: Uint8Array): boolean {
    if (this.#buffered) {
      this.#buffered.push(bytes);
      return false;
    }
    this.#buffered = [bytes];
    return true;
  }

  /** The buffered data as one piece. */
  takeBuffered(): Uint8Array | undefined {
    const pieces = this.#buffered;
    if (!pieces) return undefined;
    this.#buffered = undefined;
    return pieces.length === 1 ? pieces[0] : joinedBytes(pieces);
  }

  dropBuffered(): void {
    this.#buffered = undefined;
  }

  /** The reader has consumed this many bytes: returns by how much the peer's window widens now. */
  consume(bytes: number): number {
    this.#consumedBytes += bytes;
    if (this.#consumedBytes < STREAM_WINDOW_BYTES / 4 || this.isEnded) return 0;
    const due = this.#consumedBytes;
    this.#windowBytes += due;
    this.#consumedBytes = 0;
    return due;
  }

  #open(header: HeaderFields): void {
    this.isOpened = true;
    this.#announcedBytes = contentLength(header);
  }
}

/** Whether the header is an interim one (1xx). */
function interim(fields: HeaderFields): boolean {
  return fields.some(([name, value]) => name === ":status" && value.startsWith("1"));
}
