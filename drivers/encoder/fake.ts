/** An encoder without hardware: turns at the speed that its motor reports. */

import { type DrivenEncoder, EncoderApi } from "../../lib/api/sensors/encoder.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { integer, object } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { TicksEncoder } from "./ticks_encoder.ts";

const UPDATE_MS = 100;
const MS_PER_MINUTE = 60_000;

export const FakeEncoder = model({
  api: EncoderApi,
  name: "rdk:builtin:fake",
  doc: "An encoder without hardware, turned by the motor that uses it.",
  attributes: object({
    updateRateMsec: integer("milliseconds between two changes of the position; 0 means the default", {
      min: 0,
    })
      .default(UPDATE_MS),
  }).required(),
  construct: ({ name, attributes, clock }) => new Fake(name, attributes.updateRateMsec || UPDATE_MS, clock),
});

/** The position is computed from the time of the question, so nothing runs in the background. */
class Fake extends TicksEncoder implements DrivenEncoder {
  #ticks = 0;
  #ticksPerMinute = 0;
  /** The time at which `#ticks` is exact. */
  #atMs: number;

  constructor(name: ResourceName, private readonly updateMs: number, private readonly clock: Clock) {
    super(name);
    this.#atMs = clock.monotonicMs();
  }

  setSpeed(ticksPerMinute: number): void {
    this.#turn(this.clock.monotonicMs() - this.#atMs);
    this.#ticksPerMinute = ticksPerMinute;
  }

  setPosition(ticks: number): void {
    this.#atMs = this.clock.monotonicMs();
    this.#ticks = ticks;
  }

  resetPosition(): Promise<void> {
    this.setPosition(0);
    return Promise.resolve();
  }

  protected ticks(): number {
    const elapsedMs = this.clock.monotonicMs() - this.#atMs;
    this.#turn(elapsedMs - elapsedMs % this.updateMs);
    return Math.trunc(this.#ticks);
  }

  #turn(ms: number): void {
    this.#ticks += this.#ticksPerMinute * ms / MS_PER_MINUTE;
    this.#atMs += ms;
  }
}
