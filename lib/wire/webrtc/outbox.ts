/**
 * The outgoing frames of one peer, none larger than it has announced to take.
 *
 * The calls of a peer share one channel, so they take turns, one frame each: a small answer does not wait for a large
 * one. A full channel gets no more; a budget is charged with the waiting bytes.
 */

import { SvcError } from "../../base/error.ts";
import type { ByteBudget } from "../flow/byte_budget.ts";
import { CALL_FULL_BYTES, CHANNEL_FULL_BYTES, PACKET_BYTES, PACKET_OVERHEAD_BYTES } from "./limits.ts";
import type { DataChannel } from "./addon.ts";

/** Encodes the frame of a part of a message. */
type Packet = (data: Uint8Array, eom: boolean) => Uint8Array;

/** Limit of waiting calls of a peer that reads what it gets. */
const CROWD = 64;

export class Outbox {
  /** The calls with something to send; the first one is next. */
  readonly #turns: Outflow[] = [];
  #closed = false;
  #frameBytesMax: number | undefined;

  /** `failed` is called when the channel accepts nothing any more. */
  constructor(
    private readonly channel: DataChannel,
    private readonly budget: Pick<ByteBudget, "take" | "give"> | undefined,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** The outgoing frames of one call. */
  flow(): Outflow {
    return new Outflow(this.budget, (flow) => this.#enter(flow));
  }

  /** Whether many calls wait to send. A peer that reads nothing then gets only what it has asked for. */
  get isCrowded(): boolean {
    return this.#turns.length >= CROWD;
  }

  /** The largest frame that the peer takes. */
  get frameBytesMax(): number {
    return this.#frameBytesMax ??= this.channel.messageBytesMax;
  }

  /** Sends as much as the channel has room for. */
  advance(): void {
    try {
      while (!this.#closed && this.#turns.length > 0 && this.channel.bufferedBytes < CHANNEL_FULL_BYTES) {
        const flow = this.#turns.shift()!;
        const frame = flow.next(this.frameBytesMax - PACKET_OVERHEAD_BYTES);
        if (!frame) continue;
        this.#checkSize(frame);
        this.channel.send(frame);
        if (flow.hasMore) this.#turns.push(flow);
      }
    } catch (error) {
      this.close();
      this.failed(error);
    }
  }

  /** Drops everything. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const flow of this.#turns.splice(0)) flow.clear();
  }

  /** Packets always fit; the metadata of a call may not. */
  #checkSize({ length }: Uint8Array): void {
    if (length <= this.frameBytesMax) return;
    const limit = `it takes messages of at most ${this.frameBytesMax}`;
    throw new SvcError("resource_exhausted", `the peer gets a frame of ${length} bytes, but ${limit}`);
  }

  #enter(flow: Outflow): void {
    if (this.#closed) return flow.clear();
    this.#turns.push(flow);
    if (this.#turns.length === 1) this.advance();
  }
}

/** Either a complete frame, or a message that is cut into packets on sending. */
interface Item {
  readonly bytes: Uint8Array;
  readonly packet?: Packet;
  at: number;
}

/** The outgoing frames of one call, in order. */
export class Outflow {
  #items: Item[] = [];
  #waitingBytes = 0;
  #cleared = false;
  #hasSent = false;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(
    private readonly budget: Pick<ByteBudget, "take" | "give"> | undefined,
    private readonly enter: (flow: Outflow) => void,
  ) {}

  get hasMore(): boolean {
    return this.#items.length > 0;
  }

  get hasSent(): boolean {
    return this.#hasSent;
  }

  /** Sends a frame of the transport: these are few and small. */
  frame(bytes: Uint8Array): void {
    this.#add({ bytes, at: 0 });
  }

  /** Sends a message; resolves when more may come. Throws `resource_exhausted` if too much is unsent already. */
  message(bytes: Uint8Array, packet: Packet): Promise<void> | undefined {
    if (this.#cleared) return;
    this.budget?.take(bytes.length);
    this.#waitingBytes += bytes.length;
    this.#add({ bytes, packet, at: 0 });
    if (this.#waitingBytes <= CALL_FULL_BYTES) return;
    return (this.#room ??= Promise.withResolvers()).promise;
  }

  /** The next frame to send, with at most `dataBytesMax` of a message. */
  next(dataBytesMax: number): Uint8Array | undefined {
    const item = this.#items[0];
    if (!item) return undefined;

    const { bytes, packet, at } = item;
    this.#hasSent = true;
    if (!packet) {
      this.#items.shift();
      return bytes;
    }

    const end = Math.min(bytes.length, at + Math.max(1, Math.min(PACKET_BYTES, dataBytesMax)));
    const isLast = end === bytes.length;
    item.at = end;

    const frame = packet(bytes.subarray(at, end), isLast);
    if (isLast) {
      this.#items.shift();
      this.#left(bytes.length);
    }

    return frame;
  }

  /** Drops unsent frames: the call is over. */
  clear(): void {
    this.#cleared = true;
    this.#items = [];
    this.#left(this.#waitingBytes);
  }

  #add(item: Item): void {
    if (this.#cleared) return;
    const wasEmpty = this.#items.length === 0;
    this.#items.push(item);
    if (wasEmpty) this.enter(this);
  }

  #left(bytes: number): void {
    this.budget?.give(bytes);
    this.#waitingBytes -= bytes;
    if (this.#waitingBytes > CALL_FULL_BYTES) return;
    this.#room?.resolve();
    this.#room = undefined;
  }
}
