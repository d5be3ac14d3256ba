/**
 * An encoder with one wire, on a digital interrupt of any board. It cannot tell the direction, so it counts
 * only while its motor reports which way it turns.
 */

import { type Board, BoardApi } from "../../lib/api/actuators/board.ts";
import { type DrivenEncoder, EncoderApi } from "../../lib/api/sensors/encoder.ts";
import type { Clock } from "../../lib/base/clock.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { TickListener } from "./tick_listener.ts";
import { TicksEncoder } from "./ticks_encoder.ts";

export const SingleEncoder = model({
  api: EncoderApi,
  name: "rdk:builtin:single",
  doc:
    "An encoder with one wire, on a digital interrupt of a board; the motor that uses it gives the direction.",
  attributes: object({
    board: text("name of the board").required().names("board"),
    pins: object({
      i: text("name of the interrupt").required(),
    }, "digital interrupts of the board").required(),
  }).required(),
  construct: async ({ name, attributes, dependencies, clock, logger }) => {
    const board = dependencies.get(BoardApi, attributes.board);
    const encoder = new Single(name, board, attributes.pins.i, clock, logger);
    await encoder.start();
    return encoder;
  },
});

class Single extends TicksEncoder implements DrivenEncoder {
  readonly #listener: TickListener;
  #direction = 0;
  #ticks = 0;

  constructor(name: ResourceName, board: Board, interrupt: string, clock: Clock, logger: Logger) {
    super(name);
    this.#listener = new TickListener(
      board,
      [interrupt],
      clock,
      logger,
      () => this.#ticks += this.#direction,
    );
  }

  start(): Promise<void> {
    return this.#listener.start();
  }

  setSpeed(ticksPerMinute: number): void {
    this.#direction = Math.sign(ticksPerMinute);
  }

  setPosition(ticks: number): void {
    this.#ticks = Math.round(ticks);
  }

  resetPosition(): Promise<void> {
    this.#ticks = 0;
    return Promise.resolve();
  }

  override close(): Promise<void> {
    return this.#listener.close();
  }

  protected ticks(): number {
    this.#listener.requireTicks();
    return this.#ticks;
  }
}
