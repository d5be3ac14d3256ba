/** Reads the messages of a caller one after the other, and can peek at the next one. */

import type { RunRequest } from "../../../proto/gen/commands_pb.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";

type Part = RunRequest["part"];

/** Longest pause within the contents of files. */
const PAUSE_MS = 60_000;

export class RequestReader {
  readonly #messages: AsyncIterator<RunRequest>;
  #next: Promise<IteratorResult<RunRequest>> | undefined;

  constructor(
    messages: AsyncIterable<RunRequest>,
    private readonly clock: Clock,
    private readonly signal: AbortSignal,
  ) {
    this.#messages = messages[Symbol.asyncIterator]();
  }

  /**
   * Returns the next message without taking it; `undefined` at the end. Throws `deadline_exceeded` if it is late.
   */
  async peek(): Promise<Part | undefined> {
    const late = () =>
      new SvcError("deadline_exceeded", `no part of the command came for ${PAUSE_MS / 1000} s`);
    const limit = deadline(this.clock, PAUSE_MS, late, this.signal);
    try {
      return partOf(await race(this.#pending(), limit.signal));
    } finally {
      limit.done();
    }
  }

  /** Takes the next message, within the same time limit. */
  async take(): Promise<Part | undefined> {
    const part = await this.peek();
    this.#next = undefined;
    return part;
  }

  /** Takes the next message, without a time limit. */
  async wait(): Promise<Part | undefined> {
    const part = partOf(await race(this.#pending(), this.signal));
    this.#next = undefined;
    return part;
  }

  #pending(): Promise<IteratorResult<RunRequest>> {
    if (!this.#next) {
      this.#next = this.#messages.next();
      // The waiting caller handles the error.
      this.#next.catch(() => {});
    }
    return this.#next;
  }
}

function partOf(result: IteratorResult<RunRequest>): Part | undefined {
  return result.done ? undefined : result.value.part;
}
