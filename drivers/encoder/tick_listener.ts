/**
 * Listens to a board's interrupts for as long as an encoder lives. If the ticks end early (because the
 * board's machine went away, for example), it listens again, without a limit of attempts, and says so meanwhile: a
 * count that stands still would let a motor seek its goal at full power.
 */

import type { Board, Tick } from "../../lib/api/actuators/board.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";

const RETRY_MS = 1000;

export class TickListener {
  readonly #closing = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #failure?: SvcError;

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

  /** Throws `unavailable` while the board gives no ticks. */
  requireTicks(): void {
    if (this.#failure) throw this.#failure;
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
        this.#failure = undefined;
        for await (const tick of ticks) this.heard(tick);
        this.#lost("ended, listening again");
      } catch (error) {
        this.#lost(`are lost: ${chainOf(error)}`);
      }
      ticks = undefined;
      await this.clock.sleep(RETRY_MS, signal).catch(() => {});
    }
  }

  /** The first of several failures is logged. */
  #lost(how: string): void {
    if (this.#closing.signal.aborted) return;
    const message = `the ticks of ${this.interrupts.join(", ")} ${how}`;
    if (!this.#failure) this.logger.warn(message);
    this.#failure = new SvcError("unavailable", message);
  }
}
