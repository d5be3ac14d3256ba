/**
 * A servo on a PWM pin of any board: the length of a pulse is its angle.
 *
 * Hobby servos take a pulse of 0.5 to 2.5 ms every 20 ms; the data sheet of each says which lengths are its ends.
 */

import { type Board, BoardApi } from "../../lib/api/actuators/board.ts";
import { type Servo, ServoApi } from "../../lib/api/actuators/servo.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type Infer, integer, number, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";

const US_PER_SECOND = 1e6;
/** Even one pulse a second leaves room for it. */
const WIDEST_US = US_PER_SECOND / 2;

const attributes = object({
  board: text("name of the board").required().names("board"),
  pin: text("PWM pin that is wired to the servo's signal").required(),
  minAngleDeg: number("smallest angle", { min: 0 }).default(0),
  maxAngleDeg: number("largest angle", { above: 0, max: 360 }).default(180),
  startingPositionDeg: number("angle to go to at start; without it the servo stays as it is", { min: 0 })
    .aka("starting_position_degs"),
  pwmResolution: integer(
    "steps in a period that the board's PWM has: the pulse is rounded to one; absent, it is not rounded",
    { min: 0 },
  ),
  frequencyHz: integer("pulses a second", { min: 1, max: 450 }).default(50),
  minWidthUs: integer("length of the pulse at min_angle_deg, in microseconds", { min: 1 }).default(500),
  maxWidthUs: integer("length of the pulse at max_angle_deg, in microseconds", { min: 1, max: WIDEST_US })
    .default(2500),
}).required().with((settings, at) => {
  const { minAngleDeg, maxAngleDeg, startingPositionDeg, frequencyHz, minWidthUs, maxWidthUs } = settings;
  if (minAngleDeg >= maxAngleDeg) {
    return at.at("min_angle_deg").wanted("less than max_angle_deg", minAngleDeg);
  }
  if (minWidthUs >= maxWidthUs) return at.at("min_width_us").wanted("less than max_width_us", minWidthUs);

  const start = startingPositionDeg ?? minAngleDeg;
  if (start < minAngleDeg || start > maxAngleDeg) {
    return at.at("starting_position_deg").wanted(`${minAngleDeg} to ${maxAngleDeg}`, start);
  }

  // As published: as many pulses a second as leave room for the longest one, and a gap as long as the shortest.
  const mostHz = Math.floor(US_PER_SECOND / (maxWidthUs + minWidthUs));
  return { ...settings, frequencyHz: Math.min(frequencyHz, mostHz), askedHz: frequencyHz };
});

type Settings = NonNullable<Infer<typeof attributes>>;

export const GpioServo = model({
  api: ServoApi,
  name: "rdk:builtin:gpio",
  doc: "A servo on a PWM pin of a board.",
  attributes,
  pwm: ({ pin, frequencyHz }) => [{ pin, frequencyHz }],
  construct: async ({ name, attributes, dependencies, logger }) => {
    const { frequencyHz, askedHz, maxWidthUs } = attributes;
    if (frequencyHz < askedHz) {
      logger.warn(
        `frequency_hz ${askedHz} leaves no room for pulses of ${maxWidthUs} µs; it is lowered to ${frequencyHz}`,
      );
    }
    const servo = new Gpio(name, dependencies.get(BoardApi, attributes.board), attributes);
    const { startingPositionDeg } = attributes;
    if (startingPositionDeg !== undefined) await servo.move(startingPositionDeg);
    return servo;
  },
});

class Gpio extends BaseComponent implements Servo {
  #angleDeg: number;
  /** The number of the last command: an older one that waits for its board sets no pulses any more. */
  #command = 0;

  constructor(name: ResourceName, private readonly board: Board, private readonly settings: Settings) {
    super(name);
    this.#angleDeg = settings.minAngleDeg;
  }

  /** Moves to the end of the range if the angle is beyond it, as published. */
  async move(angleDeg: number, call?: Call): Promise<void> {
    const { pin, minAngleDeg, maxAngleDeg, frequencyHz, minWidthUs, maxWidthUs, pwmResolution } =
      this.settings;
    if (!Number.isFinite(angleDeg)) {
      const wanted = `wanted ${minAngleDeg} to ${maxAngleDeg} degrees`;
      throw new SvcError("invalid_argument", `${this.name} cannot move to ${angleDeg}: ${wanted}`);
    }
    const nearestDeg = Math.max(minAngleDeg, Math.min(angleDeg, maxAngleDeg));
    const share = (nearestDeg - minAngleDeg) / (maxAngleDeg - minAngleDeg);
    const widthUs = minWidthUs + share * (maxWidthUs - minWidthUs);
    const command = ++this.#command;
    await this.board.setPwmFrequency(pin, frequencyHz, call);
    if (command !== this.#command) return;

    const duty = widthUs * frequencyHz / US_PER_SECOND;
    const rounded = pwmResolution ? Math.round(duty * pwmResolution) / pwmResolution : duty;
    await this.board.setPwm(pin, rounded, call);
    this.#angleDeg = nearestDeg;
  }

  /** The last commanded angle; a servo does not report its position. */
  getPosition(): Promise<number> {
    return Promise.resolve(Math.round(this.#angleDeg));
  }

  /** Ends the pulses, so that the servo no longer holds its angle by force. */
  async stop(call?: Call): Promise<void> {
    this.#command++;
    await this.board.setPwm(this.settings.pin, 0, call);
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }

  override async close(): Promise<void> {
    await this.stop();
  }
}
