/**
 * HC-SR04: distance by ultrasound, with a trigger pin and an echo on a digital interrupt of a board.
 *
 * Times are those of its data sheet: a trigger of at least 10 µs, an echo as long as the sound travels, 38 ms without a
 * return, 60 ms between two measurements. The echo is measured by the board's own time stamps.
 */

import { type Board, BoardApi, type Tick } from "../../lib/api/actuators/board.ts";
import { type Sensor, SensorApi } from "../../lib/api/sensors/sensor.ts";
import type { Readings } from "../../lib/api/shared/readings.ts";
import { type Clock, deadline, race } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { integer, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";

/** Speed of sound in the data sheet's formula. */
const METRES_PER_SECOND = 340;
const CYCLE_MS = 60;
const NOTHING_NS = 36_000_000n;
const TRIGGER_MS = 1;

export const HcSr04Sensor = model({
  api: SensorApi,
  name: "rdk:builtin:hc-sr04",
  doc: "An HC-SR04 ultrasonic sensor on a board: distance in metres, from 2 cm to 4 m.",
  attributes: object({
    board: text("name of the board").required().names("board"),
    triggerPin: text("pin of the board that is wired to Trig").required(),
    echoInterruptPin: text("name of the digital interrupt that is wired to Echo").required(),
    timeoutMs: integer("how long a measurement waits for the echo", { min: 40, max: 60_000 }).zeroIsAbsent()
      .default(1000),
  }).required(),
  construct: ({ name, attributes, dependencies, clock }) => {
    const { board, triggerPin, echoInterruptPin, timeoutMs } = attributes;
    return new HcSr04(
      name,
      dependencies.get(BoardApi, board),
      triggerPin,
      echoInterruptPin,
      timeoutMs,
      clock,
    );
  },
});

class HcSr04 extends BaseComponent implements Sensor {
  readonly #closing = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  #measuredMs = -Infinity;

  constructor(
    name: ResourceName,
    private readonly board: Board,
    private readonly trigger: string,
    private readonly echo: string,
    private readonly timeoutMs: number,
    private readonly clock: Clock,
  ) {
    super(name);
  }

  /** Measurements follow one another, as the echo of one would be heard by the next. */
  getReadings(call?: Call): Promise<Readings> {
    const measure = async () => ({ distance: await this.#measure(call?.signal) });
    const done = this.#last.then(measure, measure);
    this.#last = done.catch(() => {});
    return done;
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the sensor is closed"));
    await this.#last;
  }

  async #measure(caller?: AbortSignal): Promise<number> {
    const parent = caller ? AbortSignal.any([caller, this.#closing.signal]) : this.#closing.signal;
    await this.clock.sleep(this.#measuredMs + CYCLE_MS - this.clock.monotonicMs(), parent);

    const silent = () => {
      const wires = `check its power and the wires of trigger_pin ${this.trigger} and ${this.echo}`;
      return new SvcError(
        "deadline_exceeded",
        `${this.name} heard no echo within ${this.timeoutMs} ms; ${wires}`,
      );
    };
    const { signal, done } = deadline(this.clock, this.timeoutMs, silent, parent);
    const over = new AbortController();
    try {
      // A trigger that fails ends the ticks, too.
      const ticks = await this.board.streamTicks([this.echo], {
        signal: AbortSignal.any([signal, over.signal]),
      });
      const [lastedNs] = await race(Promise.all([echoNs(ticks), this.#sound(signal)]), signal);
      if (lastedNs === undefined) {
        throw new SvcError("unavailable", `${this.name}: the board's ticks have ended`);
      }
      if (lastedNs >= NOTHING_NS) {
        throw new SvcError("out_of_range", `${this.name}: nothing returned the sound; it reaches 4 m`);
      }
      return Number(lastedNs) / 1e9 * METRES_PER_SECOND / 2;
    } finally {
      this.#measuredMs = this.clock.monotonicMs();
      over.abort();
      done();
    }
  }

  /** Has the sensor send its sound. */
  async #sound(signal: AbortSignal): Promise<void> {
    await this.board.setGpio(this.trigger, true, { signal });
    await this.clock.sleep(TRIGGER_MS, signal);
    await this.board.setGpio(this.trigger, false, { signal });
  }
}

/** How long the echo was high, from the next rise on. */
async function echoNs(ticks: AsyncIterable<Tick>): Promise<bigint | undefined> {
  let roseNs: bigint | undefined;
  for await (const { high, timeNs } of ticks) {
    if (high) roseNs = timeNs;
    else if (roseNs !== undefined) return timeNs - roseNs;
  }
  return undefined;
}
