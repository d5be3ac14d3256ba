/**
 * Joins the packets of a call to messages.
 *
 * A budget is charged with everything kept: packets of an incomplete message, unread messages, and the message being
 * read until the next one is requested. A channel cannot hold back a single call, so a caller that sends more than
 * there is room for loses that call only.
 */

import { SvcError } from "../../base/error.ts";
import { MAX_MESSAGE_BYTES } from "../rpc/message.ts";
import { ByteQueue } from "../rpc/message_reader.ts";
import type { ByteBudget } from "../flow/byte_budget.ts";

type Result = IteratorResult<Uint8Array, undefined>;

/** Unread messages of one call, whatever their size. */
const MESSAGES_MAX = 4096;
/** Cost of a message besides its bytes. */
const MESSAGE_BYTES = 64;

/** Has one reader. */
export class PacketReader implements AsyncIterableIterator<Uint8Array, undefined> {
  #budget: ByteBudget | undefined;
  #chargedBytes = 0;
  #maxBytes = MAX_MESSAGE_BYTES;
  readonly #partial: ByteQueue;
  #messages: Uint8Array[] = [];
  /** The charge of the message being read. */
  #readBytes = 0;
  #waiting: PromiseWithResolvers<Result> | undefined;
  #ended = false;
  #error: SvcError | undefined;

  constructor(budget?: ByteBudget) {
    this.#budget = budget;
    this.#partial = new ByteQueue({
      take: (bytes) => this.#take(bytes),
      give: (bytes) => this.#give(bytes),
    });
  }

  /** Takes a packet, and owns its bytes. */
  push(data: Uint8Array, eom: boolean): void {
    if (this.#ended) return;
    try {
      const length = this.#partial.length + data.length;
      if (length > this.#maxBytes) {
        const found = `a message of ${length} bytes or more was sent`;
        throw new SvcError("resource_exhausted", `${found}, wanted at most ${this.#maxBytes}`);
      }
      if (!eom) return this.#partial.append(data);
      this.#add(this.#whole(data));
    } catch (error) {
      this.abort(SvcError.from(error));
    }
  }

  /** Ends the input: complete messages can still be read, then comes the error, if there is one. */
  end(error?: SvcError): void {
    if (this.#ended) return;
    this.#ended = true;
    const cut = this.#partial.length > 0
      ? new SvcError("internal", "the stream ended in the middle of a message")
      : undefined;
    this.#error = error ?? cut;
    this.#partial.clear();
    if (this.#messages.length === 0) this.#settle();
  }

  /** Fails the reader at once. */
  abort(error: SvcError): void {
    this.#error ??= error;
    this.#ended = true;
    this.#forget();
    this.#settle();
  }

  /** Charges another budget from now on, and accepts messages of at most `maxBytes`. */
  admit(budget: ByteBudget | undefined, maxBytes: number): void {
    this.#maxBytes = maxBytes;
    try {
      budget?.take(this.#chargedBytes);
      this.#budget?.give(this.#chargedBytes);
      this.#budget = budget;
      const largest = Math.max(this.#partial.length, ...this.#messages.map(({ length }) => length));
      if (largest > maxBytes) {
        const found = `a message of ${largest} bytes was sent`;
        throw new SvcError("resource_exhausted", `${found}, wanted at most ${maxBytes}`);
      }
    } catch (error) {
      this.abort(SvcError.from(error));
    }
  }

  /** Charges the decoded size of the message just read, for as long as the message counts. */
  decoding(bytes: number): void {
    this.#take(bytes);
    this.#readBytes += bytes;
  }

  /** The call has ended: frees everything. */
  release(): void {
    this.abort(new SvcError("canceled", "the call has ended"));
    this.#give(this.#chargedBytes);
    this.#readBytes = 0;
  }

  next(): Promise<Result> {
    this.#give(this.#readBytes);
    this.#readBytes = 0;
    const message = this.#messages.shift();
    if (message) {
      this.#readBytes = message.length + MESSAGE_BYTES;
      return Promise.resolve({ done: false, value: message });
    }
    this.#waiting ??= Promise.withResolvers();
    const { promise } = this.#waiting;
    if (this.#ended) this.#settle();
    return promise;
  }

  return(): Promise<Result> {
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The message that ends with `data`. */
  #whole(data: Uint8Array): Uint8Array {
    if (this.#partial.length === 0) return data;
    this.#partial.append(data, this.#partial.length + data.length);
    return this.#partial.take(this.#partial.length);
  }

  #add(message: Uint8Array): void {
    if (this.#messages.length >= MESSAGES_MAX) {
      const limit = `at most ${MESSAGES_MAX} messages of one call wait for their reader`;
      throw new SvcError("resource_exhausted", `too many messages were sent at once: ${limit}`);
    }
    this.#take(message.length + MESSAGE_BYTES);
    const waiting = this.#waiting;
    if (!waiting) return void this.#messages.push(message);
    this.#waiting = undefined;
    this.#readBytes = message.length + MESSAGE_BYTES;
    waiting.resolve({ done: false, value: message });
  }

  /** Ends a waiting reader. */
  #settle(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (this.#error) waiting?.reject(this.#error);
    else waiting?.resolve({ done: true, value: undefined });
  }

  #forget(): void {
    this.#partial.clear();
    for (const { length } of this.#messages) this.#give(length + MESSAGE_BYTES);
    this.#messages = [];
  }

  #take(bytes: number): void {
    this.#budget?.take(bytes);
    this.#chargedBytes += bytes;
  }

  #give(bytes: number): void {
    this.#budget?.give(bytes);
    this.#chargedBytes -= bytes;
  }
}
