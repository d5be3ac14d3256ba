/**
 * The digital interrupts of a Linux board: counts their edges and reports them to listeners.
 *
 * Owns its requests for lines, one per chip at first and for each addition. Promises: the count includes every edge that
 * the kernel saw, even if its tick was lost, because the kernel numbers the edges; lost ticks are logged. A chip that was
 * unplugged is watched again once it is back.
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
  readonly lines: WatchedLines;
  count: number;
  /** The kernel's number of the last edge. */
  lineNumber: number;
}

/** Lines of one chip that were requested together. */
interface WatchedLines {
  readonly chip: string;
  watch?: EdgeWatch;
  readonly byOffset: Map<number, Interrupt>;
  /** The kernel's number of the last edge of any line. */
  number: number;
  /** Why no more edges can come. */
  failure?: SvcError;
}

export class Interrupts {
  readonly #byName = new Map<string, Interrupt>();
  readonly #watched = new Set<WatchedLines>();
  readonly #listeners = new Set<TickQueue>();
  #isClosed = false;
  #lost = 0;
  #cancelTelling?: () => void;
  /** Additions follow one another. */
  #adding: Promise<void> = Promise.resolve();

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
      await interrupts.#watchAll(settings);
    } catch (cause) {
      await interrupts.close();
      throw cause;
    }
    return interrupts;
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** Watches further lines; those that are there meanwhile stay as they are. */
  add(settings: readonly InterruptSettings[]): Promise<void> {
    const watch = async () => {
      if (this.#isClosed) throw new SvcError("unavailable", "the board is closed");
      await this.#watchAll(settings.filter(({ name }) => !this.has(name)));
    };
    const added = this.#adding.then(watch);
    this.#adding = added.catch(() => {});
    return added;
  }

  /** The name of the line's interrupt, if it has one. */
  nameOf(line: LineAddress): string | undefined {
    return this.#of(line)?.name;
  }

  /** The level of an interrupt's line. */
  level(name: string): boolean {
    const { line, lines } = this.#seen(name);
    return lines.watch!.get(line.offset);
  }

  /**
   * Watches the lines of these interrupts again if their chip was unplugged. The counts go on, without the edges since.
   * Does nothing while the chip is away.
   */
  revive(names: readonly string[]): Promise<void> {
    const failed = () => {
      const lines = names.flatMap((name) => this.#byName.get(name)?.lines ?? []);
      return new Set(lines.filter(({ failure }) => failure !== undefined));
    };
    if (failed().size === 0) return Promise.resolve();
    const revived = this.#adding.then(async () => {
      for (const lines of failed()) if (!this.#isClosed) await this.#watchAgain(lines);
    });
    this.#adding = revived;
    return revived;
  }

  /** Throws if its edges can no longer be seen: the count would stand still for ever. */
  count(name: string): number {
    return this.#seen(name).count;
  }

  listen(names: readonly string[], signal?: AbortSignal): AsyncIterable<Tick> {
    for (const name of names) this.#seen(name);
    const queue = new TickQueue(names, (left) => this.#listeners.delete(left), signal);
    if (!queue.ended) this.#listeners.add(queue);
    return queue;
  }

  async close(): Promise<void> {
    for (const queue of [...this.#listeners]) queue.end();
    this.#isClosed = true;
    await this.#adding;
    const watched = [...this.#watched];
    this.#watched.clear();
    await Promise.all(watched.map(({ watch }) => watch?.close()));
    this.#cancelTelling?.();
  }

  async #watchAll(settings: readonly InterruptSettings[]): Promise<void> {
    for (const [chip, lines] of Map.groupBy(settings, ({ line }) => line.chip)) {
      await this.#watch(chip, lines);
    }
  }

  async #watch(chip: string, settings: readonly InterruptSettings[]): Promise<void> {
    const lines: WatchedLines = { chip, byOffset: new Map(), number: 0 };
    for (const one of settings) {
      lines.byOffset.set(one.line.offset, { ...one, lines, count: 0, lineNumber: 0 });
    }
    lines.watch = await this.#edgesOf(lines);
    this.#watched.add(lines);
    for (const interrupt of lines.byOffset.values()) this.#byName.set(interrupt.name, interrupt);
  }

  #edgesOf(lines: WatchedLines): Promise<EdgeWatch> {
    const watched = [...lines.byOffset.values()].map(({ line, bias, debounceUs }) => {
      return { offset: line.offset, bias, debounceUs };
    });
    return this.backEnd.watch(lines.chip, watched, {
      heard: (edges) => this.#hear(lines, edges),
      failed: (error) => this.#fail(lines, error),
    });
  }

  async #watchAgain(lines: WatchedLines): Promise<void> {
    const { watch } = lines;
    lines.watch = undefined;
    try {
      await watch?.close();
      lines.watch = await this.#edgesOf(lines);
    } catch {
      // It has told its failure; the next call tries again.
      return;
    }

    lines.failure = undefined;
    lines.number = 0;
    for (const interrupt of lines.byOffset.values()) interrupt.lineNumber = 0;
    this.logger.warn(`the interrupts on ${lines.chip} are back; the edges meanwhile are not in their counts`);
  }

  #of({ chip, offset }: LineAddress): Interrupt | undefined {
    for (const lines of this.#watched) {
      const interrupt = lines.chip === chip ? lines.byOffset.get(offset) : undefined;
      if (interrupt) return interrupt;
    }
    return undefined;
  }

  #hear(lines: WatchedLines, edges: readonly Edge[]): void {
    for (const { offset, high, timeNs, number, lineNumber } of edges) {
      // The kernel's numbers have 32 bits.
      this.#lose((number - lines.number >>> 0) - 1);
      lines.number = number;
      const interrupt = lines.byOffset.get(offset);
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

  #fail(lines: WatchedLines, error: SvcError): void {
    const reason = `the interrupts on ${lines.chip} have ended`;
    lines.failure = new SvcError(error.code, reason, { cause: error });
    this.logger.error(chainOf(lines.failure));
    for (const queue of [...this.#listeners]) queue.end();
  }

  #seen(name: string): Interrupt {
    const interrupt = this.#byName.get(name);
    if (!interrupt) throw new SvcError("unknown", `cant find DigitalInterrupt (${name})`);
    if (interrupt.lines.failure) throw interrupt.lines.failure;
    return interrupt;
  }
}
