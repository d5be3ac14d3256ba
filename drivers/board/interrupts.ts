/**
 * The digital interrupts of a Linux board: counts their edges and reports them to listeners.
 *
 * Owns one request for lines per chip. Promises: the count includes every edge that the kernel saw, even if its tick
 * was lost, because the kernel numbers the edges; lost ticks are logged.
 */

import type { Tick } from "../../lib/api/actuators/board.ts";
import { type Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type { EdgeWatch, GpioBackEnd, LineAddress } from "../../lib/device/gpio_back_end.ts";
import type { Bias, Edge } from "../../lib/device/gpio.ts";
import { TickQueue } from "./tick_queue.ts";

/** Losses within this time are one line of the log. */
const TELL_MS = 10_000;

export interface InterruptSettings {
  readonly name: string;
  readonly line: LineAddress;
  readonly bias?: Bias;
  readonly debounceUs?: number;
}

interface Interrupt extends InterruptSettings {
  count: number;
  /** The kernel's number of the last edge. */
  lineNumber: number;
}

interface WatchedChip {
  readonly watch: EdgeWatch;
  /** The kernel's number of the last edge of any line. */
  number: number;
}

export class Interrupts {
  readonly #byName = new Map<string, Interrupt>();
  readonly #byLine = new Map<string, Interrupt>();
  readonly #chips = new Map<string, WatchedChip>();
  readonly #listeners = new Set<TickQueue>();
  #lost = 0;
  #cancelTelling?: () => void;
  #failure?: SvcError;

  private constructor(
    private readonly backEnd: GpioBackEnd,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  static async open(
    settings: readonly InterruptSettings[],
    backEnd: GpioBackEnd,
    clock: Clock,
    logger: Logger,
  ): Promise<Interrupts> {
    const interrupts = new Interrupts(backEnd, clock, logger);
    try {
      for (const [chip, lines] of Map.groupBy(settings, ({ line }) => line.chip)) {
        await interrupts.#watch(chip, lines);
      }
    } catch (cause) {
      await interrupts.close();
      throw cause;
    }
    return interrupts;
  }

  /** The level of the line, if the line has an interrupt. */
  level({ chip, offset }: LineAddress): boolean | undefined {
    if (!this.#byLine.has(`${chip}/${offset}`)) return undefined;
    return this.#chips.get(chip)!.watch.get(offset);
  }

  count(name: string): number {
    return this.#find(name).count;
  }

  listen(names: readonly string[], signal?: AbortSignal): AsyncIterable<Tick> {
    for (const name of names) this.#find(name);
    if (this.#failure) throw this.#failure;
    const queue = new TickQueue(names, (left) => this.#listeners.delete(left), signal);
    if (!queue.ended) this.#listeners.add(queue);
    return queue;
  }

  async close(): Promise<void> {
    for (const queue of [...this.#listeners]) queue.end();
    const chips = [...this.#chips.values()];
    this.#chips.clear();
    await Promise.all(chips.map(({ watch }) => watch.close()));
    this.#cancelTelling?.();
  }

  async #watch(chip: string, lines: readonly InterruptSettings[]): Promise<void> {
    for (const settings of lines) {
      const interrupt: Interrupt = { ...settings, count: 0, lineNumber: 0 };
      this.#byName.set(settings.name, interrupt);
      this.#byLine.set(`${chip}/${settings.line.offset}`, interrupt);
    }
    const watched = lines.map(({ line, bias, debounceUs }) => ({ offset: line.offset, bias, debounceUs }));
    const watch = await this.backEnd.watch(chip, watched, {
      heard: (edges) => this.#hear(chip, edges),
      failed: (error) => this.#fail(chip, error),
    });
    this.#chips.set(chip, { watch, number: 0 });
  }

  #hear(name: string, edges: readonly Edge[]): void {
    const chip = this.#chips.get(name);
    if (!chip) return;
    for (const { offset, high, timeNs, number, lineNumber } of edges) {
      // The kernel's numbers have 32 bits.
      this.#lose((number - chip.number >>> 0) - 1);
      chip.number = number;
      const interrupt = this.#byLine.get(`${name}/${offset}`);
      if (!interrupt) continue;
      interrupt.count += lineNumber - interrupt.lineNumber >>> 0;
      interrupt.lineNumber = lineNumber;
      const tick = { pinName: interrupt.name, timeNs, high };
      for (const queue of this.#listeners) if (queue.interrupts.has(tick.pinName)) queue.push(tick);
    }
  }

  #lose(edges: number): void {
    if (edges === 0) return;
    this.#lost += edges;
    this.#cancelTelling ??= this.clock.after(TELL_MS, () => {
      this.logger.warn(
        `${this.#lost} ticks came faster than they could be read and were lost; the counts have them`,
      );
      this.#lost = 0;
      this.#cancelTelling = undefined;
    });
  }

  #fail(chip: string, error: SvcError): void {
    this.#failure = new SvcError(error.code, `the interrupts on ${chip} have ended`, { cause: error });
    this.logger.error(chainOf(this.#failure));
    for (const queue of [...this.#listeners]) queue.end();
  }

  #find(name: string): Interrupt {
    const interrupt = this.#byName.get(name);
    if (!interrupt) throw new SvcError("unknown", `cant find DigitalInterrupt (${name})`);
    return interrupt;
  }
}
