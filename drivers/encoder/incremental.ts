/**
 * A quadrature encoder on two digital interrupts of any board. Two of the four edges of a cycle make one
 * tick; turning forwards, B leads A.
 */

import { type Board, BoardApi, type Tick } from "../../lib/api/actuators/board.ts";
import { EncoderApi } from "../../lib/api/sensors/encoder.ts";
import type { Clock } from "../../lib/base/clock.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { TickListener } from "./tick_listener.ts";
import { TicksEncoder } from "./ticks_encoder.ts";

interface Pins {
  readonly a: string;
  readonly b: string;
}

export const IncrementalEncoder = model({
  api: EncoderApi,
  name: "rdk:builtin:incremental",
  doc: "A quadrature encoder on two digital interrupts of a board.",
  attributes: object({
    board: text("name of the board").required().names("board"),
    pins: object({
      a: text("name of the interrupt of phase A").required(),
      b: text("name of the interrupt of phase B").required(),
    }, "digital interrupts of the board").required(),
  }).required(),
  construct: async ({ name, attributes, dependencies, clock, logger }) => {
    const board = dependencies.get(BoardApi, attributes.board);
    const encoder = new Incremental(name, board, attributes.pins, clock, logger);
    await encoder.start();
    return encoder;
  },
});

/**
 * Half-ticks from one state to the next, indexed by `before << 2 | after`; a state is A's level plus twice
 * B's. If both levels changed at once, an edge was missed and the direction is unknown: 0.
 */
const HALF_TICKS = [0, -1, 1, 0, 1, 0, 0, -1, -1, 0, 0, 1, 0, 1, -1, 0];

/** How far the shaft turned between two states of the lines, each a number from 0 to 3. */
export function halfTicks(before: number, after: number): number {
  return HALF_TICKS[before << 2 | after] ?? 0;
}

class Incremental extends TicksEncoder {
  readonly #listener: TickListener;
  /** Both lines count as low until their first edge. */
  #state = 0;
  #halfTicks = 0;

  constructor(name: ResourceName, board: Board, private readonly pins: Pins, clock: Clock, logger: Logger) {
    super(name);
    this.#listener = new TickListener(board, [pins.a, pins.b], clock, logger, (tick) => this.#hear(tick));
  }

  start(): Promise<void> {
    return this.#listener.start();
  }

  /** Keeps the half tick by which the shaft may be past a whole tick. */
  resetPosition(): Promise<void> {
    this.#halfTicks &= 1;
    return Promise.resolve();
  }

  override close(): Promise<void> {
    return this.#listener.close();
  }

  protected ticks(): number {
    this.#listener.requireTicks();
    return Math.floor(this.#halfTicks / 2);
  }

  #hear({ pinName, high }: Tick): void {
    const line = pinName === this.pins.a ? 0b01 : 0b10;
    const state = high ? this.#state | line : this.#state & ~line;
    this.#halfTicks += halfTicks(this.#state, state);
    this.#state = state;
  }
}
