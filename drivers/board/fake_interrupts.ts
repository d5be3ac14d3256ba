/**
 * The digital interrupts of a fake board: their counts, and the listeners to their ticks.
 *
 * A simulated motor drives some of them. While somebody listens to the others, they tick at random.
 */

import type { Tick } from "../../lib/api/actuators/board.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { TickQueue } from "./tick_queue.ts";

/** The interval at which an undriven interrupt ticks for its listeners. */
const RANDOM_TICK_MS = 700;

interface Interrupt {
  readonly name: string;
  readonly pin: string;
  /** True if a simulated motor drives this interrupt. */
  driven: boolean;
  count: number;
}

export class FakeInterrupts {
  readonly #interrupts: Map<string, Interrupt>;
  readonly #listeners = new Set<TickQueue>();
  /** Offset from the monotonic clock to the epoch. */
  readonly #epochMs: number;
  #cancelRandomTick?: () => void;
  #closed = false;

  constructor(
    settings: readonly { readonly name: string; readonly pin: string }[],
    private readonly clock: Clock,
  ) {
    this.#interrupts = new Map(
      settings.map(({ name, pin }) => [name, { name, pin, driven: false, count: 0 }]),
    );
    this.#epochMs = clock.nowMs() - clock.monotonicMs();
  }

  /** From now on this interrupt ticks only when `tick` says so. */
  drive(name: string): void {
    this.#interrupt(name).driven = true;
  }

  /** Reading an undriven interrupt triggers it, so that its value goes up as documented. */
  read(name: string): number {
    const interrupt = this.#interrupt(name);
    if (!interrupt.driven) interrupt.count++;
    return interrupt.count;
  }

  /** Counts an edge and gives it to the listeners; returns the interrupt's pin. */
  tick(name: string, high: boolean, timeMs: number): string {
    const interrupt = this.#interrupt(name);
    this.#tick(interrupt, high, timeMs);
    return interrupt.pin;
  }

  listen(names: readonly string[], board: string, signal: AbortSignal | undefined): AsyncIterable<Tick> {
    if (this.#closed) {
      throw new SvcError("unavailable", `${board} is closed, its interrupts do not tick`);
    }
    for (const name of names) this.#interrupt(name);
    const queue = new TickQueue(names, (left) => this.#listeners.delete(left), signal);
    if (!queue.ended) this.#listeners.add(queue);
    this.#cancelRandomTick ??= this.clock.after(RANDOM_TICK_MS, this.#randomTick);
    return queue;
  }

  close(): void {
    this.#closed = true;
    this.#cancelRandomTick?.();
    for (const queue of this.#listeners) queue.end();
  }

  readonly #randomTick = () => {
    this.#cancelRandomTick = undefined;
    if (this.#listeners.size === 0) return;
    for (const interrupt of this.#interrupts.values()) {
      const listened = [...this.#listeners].some((queue) => queue.interrupts.has(interrupt.name));
      if (listened && !interrupt.driven) {
        this.#tick(interrupt, Math.random() < 0.5, this.clock.monotonicMs());
      }
    }
    this.#cancelRandomTick = this.clock.after(RANDOM_TICK_MS, this.#randomTick);
  };

  #tick(interrupt: Interrupt, high: boolean, timeMs: number): void {
    interrupt.count++;
    if (this.#listeners.size === 0) return;
    const timeNs = BigInt(Math.round((this.#epochMs + timeMs) * 1e6));
    const tick = { pinName: interrupt.name, timeNs, high };
    for (const queue of this.#listeners) if (queue.interrupts.has(interrupt.name)) queue.push(tick);
  }

  #interrupt(name: string): Interrupt {
    const interrupt = this.#interrupts.get(name);
    if (!interrupt) throw new SvcError("unknown", `cant find DigitalInterrupt (${name})`);
    return interrupt;
  }
}
