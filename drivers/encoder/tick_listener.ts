/**
 * Listens to a board's interrupts for as long as an encoder lives. If the ticks end early (because the
 * board's machine went away, for example), it listens again, without a limit of attempts.
 */

import type { Board, Tick } from "../../lib/api/actuators/board.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";

const RETRY_MS = 1000;

export class TickListener {
  readonly #closing = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(
    private readonly board: Board,
    private readonly interrupts: readonly string[],
    private readonly clock: Clock,
    private readonly logger: Logger,
    private readonly heard: (tick: Tick) => void,
  ) {}

  /** Resolves once the board streams ticks; rejects if the board does not have the interrupts. */
  async start(): Promise<void> {
    const ticks = await this.#listen().catch((cause) => {
      const names = this.interrupts.join(", ");
      throw new SvcError(
        SvcError.from(cause).code,
        `cannot find pin (${names}) for Encoder on board ${this.board.name.short}: ${chainOf(cause)}`,
        { cause },
      );
    });
    this.#running = this.#follow(ticks);
  }

  async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the encoder is closed"));
    await this.#running;
  }

  #listen(): Promise<AsyncIterable<Tick>> {
    return this.board.streamTicks(this.interrupts, { signal: this.#closing.signal });
  }

  async #follow(first: AsyncIterable<Tick>): Promise<void> {
    const { signal } = this.#closing;
    let ticks: AsyncIterable<Tick> | undefined = first;
    while (!signal.aborted) {
      try {
        ticks ??= await this.#listen();
        for await (const tick of ticks) this.heard(tick);
        if (!signal.aborted) {
          this.logger.warn(`the ticks of ${this.interrupts.join(", ")} ended, listening again`);
        }
      } catch (error) {
        if (!signal.aborted) {
          this.logger.warn(`lost the ticks of ${this.interrupts.join(", ")}: ${chainOf(error)}`);
        }
      }
      ticks = undefined;
      await this.clock.sleep(RETRY_MS, signal).catch(() => {});
    }
  }
}
