/**
 * Decodes messages, for both sides of every transport.
 *
 * A message is weighed first, so that its decoded size is refused or charged before it is allocated. Both block the
 * program, so large and heavy messages take turns: one at a time, each followed by an equally long pause for other work.
 */

import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { NESTING_MAX, Scales, type Weight } from "./message_weight.ts";
import { type DescMessage, fromBinary, type MessageShape } from "./proto.ts";

/** A message of this weight takes a turn: some milliseconds of work. */
const HEAVY_BYTES = 512 * 1024;
/** Weighing a message of this size takes a turn: up to some milliseconds of work. */
const LARGE_BYTES = 64 * 1024;
/** Shorter work needs no pause. */
const LONG_MS = 1;
/** Longest pause, however busy the computer was. */
const PAUSE_MS_MAX = 1000;

/** Decodes the messages that arrive on one side of a transport. */
export class Decoder {
  readonly #scales = new Scales();

  /** The decoded size of `bytes`; throws if it is too large, or if they are no `desc`. */
  weigh(desc: DescMessage, bytes: Uint8Array): Weight {
    return this.#scales.weigh(desc, bytes);
  }

  /** Throws `internal` if `bytes` are no `desc`; `weigh` has checked their size. */
  decodeWeighed<Desc extends DescMessage>(desc: Desc, bytes: Uint8Array): MessageShape<Desc> {
    try {
      return fromBinary(desc, bytes, { recursionLimit: NESTING_MAX });
    } catch (cause) {
      throw new SvcError("internal", `cannot decode a ${desc.typeName}: ${messageOf(cause)}`, { cause });
    }
  }

  /** Both at once. */
  decode<Desc extends DescMessage>(desc: Desc, bytes: Uint8Array): MessageShape<Desc> {
    this.weigh(desc, bytes);
    return this.decodeWeighed(desc, bytes);
  }
}

/** The turns of large and heavy messages. */
export class HeavyTurns {
  #last: Promise<void> = Promise.resolve();
  #pauseEndsMs = 0;

  constructor(private readonly clock: Clock) {}

  /** Whether weighing a message takes a turn. */
  isLarge(bytes: Uint8Array): boolean {
    return bytes.length > LARGE_BYTES;
  }

  /** Whether decoding a message of this weight takes a turn. */
  isHeavy({ objectBytes, textBytes }: Weight): boolean {
    return objectBytes + textBytes > HEAVY_BYTES;
  }

  /** Runs `work` in its turn. Rejects with the signal's reason when it aborts first. */
  async take<T>(work: () => T, signal: AbortSignal): Promise<T> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;

    try {
      await before;
      const waitMs = this.#pauseEndsMs - this.clock.monotonicMs();
      if (waitMs > 0 && !signal.aborted) await this.clock.sleep(waitMs, signal);
      signal.throwIfAborted();
      const begunMs = this.clock.monotonicMs();
      try {
        return work();
      } finally {
        const endedMs = this.clock.monotonicMs();
        const tookMs = endedMs - begunMs;
        if (tookMs >= LONG_MS) this.#pauseEndsMs = endedMs + Math.min(tookMs, PAUSE_MS_MAX);
      }
    } finally {
      resolve();
    }
  }
}
