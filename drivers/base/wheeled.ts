/**
 * A base with a row of wheels on each side, steered by turning the sides at different speeds.
 */

import { type Base, BaseApi, type BaseProperties } from "../../lib/api/actuators/base.ts";
import { type Motor, MotorApi } from "../../lib/api/actuators/motor.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, joined, type SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type Infer, list, number, object, text } from "../../lib/base/schema/schema.ts";
import type { Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import { WheelWatch } from "./wheel_watch.ts";

/** Speeds (mm/s, degrees/s) and angles up to this count as zero. */
const NO_SPEED = 0.0001;
/** Motors refuse speeds below this, so a wheel that would turn more slowly stands still. */
const STANDING_RPM = 0.1;

const motors = (side: string) =>
  list(text(), `names of the motors on the ${side}`).required().names("motor")
    .with((names, at) => names.length > 0 ? names : at.wanted("at least one motor", names));

const attributes = object({
  left: motors("left"),
  right: motors("right"),
  widthMm: number("distance between the middles of the left and right wheels", { above: 0 }).required(),
  wheelCircumferenceMm: number("distance that one rotation of a wheel covers", { above: 0 }).required(),
  spinSlipFactor: number(
    "factor by which the wheels turn farther in a spin, to make up for slip; 0 means the default",
    { min: 0 },
  ).default(1).with((factor) => factor || 1),
}).required().with((settings, at) => {
  const { left, right } = settings;
  if (!left || !right || left.length === right.length) return settings;
  return at.error(
    `left and right need to have the same number of motors, not ${left.length} vs ${right.length}`,
  );
});

export type WheelSettings = Pick<
  NonNullable<Infer<typeof attributes>>,
  "widthMm" | "wheelCircumferenceMm" | "spinSlipFactor"
>;

export const WheeledBase = model({
  api: BaseApi,
  name: "rdk:builtin:wheeled",
  doc: "A base with motors on the left and right, steered by their difference in speed.",
  attributes: attributes.required(),
  construct: ({ name, attributes, dependencies, clock, logger }) => {
    const side = (names: readonly string[]) => names.map((one) => dependencies.get(MotorApi, one));
    const motors = { left: side(attributes.left), right: side(attributes.right) };
    return new Wheeled(name, motors, attributes, clock, logger);
  },
});

/** Commands for the motors of the two sides. */
export interface Sides {
  readonly left: number;
  readonly right: number;
}

/** Rotations and speed of the wheels for a straight distance. */
export function straight(distanceMm: number, speedMmPerSec: number, { wheelCircumferenceMm }: WheelSettings) {
  return { rpm: 60 * speedMmPerSec / wheelCircumferenceMm, rotations: distanceMm / wheelCircumferenceMm };
}

/** Rotations and speed of the right wheels for a left turn on the spot; the left wheels turn backwards. */
export function spinning(angleDeg: number, speedDegPerSec: number, settings: WheelSettings) {
  const { widthMm, wheelCircumferenceMm, spinSlipFactor } = settings;
  const rotationsPerDegree = spinSlipFactor * widthMm * Math.PI / 360 / wheelCircumferenceMm;
  return {
    rpm: rotationsPerDegree * speedDegPerSec * 60 * Math.sign(angleDeg),
    rotations: rotationsPerDegree * Math.abs(angleDeg),
  };
}

/** Wheel speeds (rpm) for a velocity of the base. */
export function wheelSpeeds(mmPerSec: number, degPerSec: number, settings: WheelSettings): Sides {
  const { widthMm, wheelCircumferenceMm } = settings;
  const turnMmPerSec = degPerSec * Math.PI / 180 * widthMm / 2;
  const rpm = (wheelMmPerSec: number) => wheelMmPerSec / wheelCircumferenceMm * 60;
  return { left: rpm(mmPerSec - turnMmPerSec), right: rpm(mmPerSec + turnMmPerSec) };
}

/**
 * Powers of the two sides for a forward power and a left-turn power. Driving straight gives both sides equal
 * power, turning on the spot opposite power; halfway between, only the outer side turns.
 */
export function wheelPowers(forward: number, left: number): Sides {
  if (forward < 0) {
    const mirrored = wheelPowers(-forward, left);
    return { left: 0 - mirrored.left, right: 0 - mirrored.right };
  }
  // Rotates the pair by 45 degrees and scales it by the square root of 2.
  const limited = (power: number) => Math.max(-1, Math.min(power, 1));
  return { left: limited(forward - left), right: limited(forward + left) };
}

type WheelCommand = (motor: Motor, isLeft: boolean, call: Call) => Promise<void>;

class Wheeled extends BaseComponent implements Base {
  readonly #operation = new Operation(() => this.#halt());
  readonly #motors: readonly Motor[];
  readonly #watch: WheelWatch;

  constructor(
    name: ResourceName,
    private readonly sides: { readonly left: readonly Motor[]; readonly right: readonly Motor[] },
    private readonly settings: WheelSettings,
    clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name);
    this.#motors = [...sides.left, ...sides.right];
    this.#watch = new WheelWatch(clock, (why) => void this.#failed(why));
  }

  moveStraight(distanceMm: number, speedMmPerSec: number, call?: Call): Promise<void> {
    if (Math.abs(speedMmPerSec) < NO_SPEED || distanceMm === 0) return this.stop();
    const { rpm, rotations } = straight(distanceMm, speedMmPerSec, this.settings);
    return this.#turn((motor, _isLeft, call) => motor.goFor(rpm, rotations, call), call);
  }

  spin(angleDeg: number, speedDegPerSec: number, call?: Call): Promise<void> {
    if (Math.abs(speedDegPerSec) < NO_SPEED || Math.abs(angleDeg) < NO_SPEED) return this.stop();
    const { rpm, rotations } = spinning(angleDeg, speedDegPerSec, this.settings);
    return this.#turn((motor, isLeft, call) => motor.goFor(isLeft ? -rpm : rpm, rotations, call), call);
  }

  setPower(linear: Vec3, angular: Vec3, call?: Call): Promise<void> {
    if (isNone(linear) && isNone(angular)) return this.stop();
    const powers = wheelPowers(linear.y, angular.z);
    return this.#drive(
      powers,
      (motor, isLeft, call) => motor.setPower(isLeft ? powers.left : powers.right, call),
      call,
    );
  }

  setVelocity(linearMmPerSec: Vec3, angularDegPerSec: Vec3, call?: Call): Promise<void> {
    if (isNone(linearMmPerSec) && isNone(angularDegPerSec)) return this.stop();
    const speeds = wheelSpeeds(linearMmPerSec.y, angularDegPerSec.z, this.settings);
    const possible = (rpm: number) => Math.abs(rpm) < STANDING_RPM ? 0 : rpm;
    const wanted = { left: possible(speeds.left), right: possible(speeds.right) };
    return this.#drive(wanted, (motor, isLeft, call) => {
      const rpm = isLeft ? wanted.left : wanted.right;
      return rpm === 0 ? motor.stop(call) : motor.setRpm(rpm, call);
    }, call);
  }

  getProperties(): Promise<BaseProperties> {
    return Promise.resolve({
      widthMeters: this.settings.widthMm / 1000,
      turningRadiusMeters: 0,
      wheelCircumferenceMeters: this.settings.wheelCircumferenceMm / 1000,
    });
  }

  stop(): Promise<void> {
    this.#watch.forgive();
    return this.#stopAll();
  }

  async isMoving(call?: Call): Promise<boolean> {
    const powered = await Promise.all(this.#motors.map((motor) => motor.isPowered(call)));
    return powered.some(({ isOn }) => isOn);
  }

  override close(): Promise<void> {
    return this.stop();
  }

  /** Gives each motor its command, and ends with the last of them. */
  #turn(command: WheelCommand, caller?: Call): Promise<void> {
    this.#watch.end();
    this.#watch.forgive();
    return this.#command(command, caller, () => {});
  }

  /** The same for commands whose motion goes on after them, at these powers or speeds. */
  async #drive(wanted: { left: number; right: number }, command: WheelCommand, caller?: Call): Promise<void> {
    const motionsOf = (motors: readonly Motor[], speed: number) =>
      motors.map((motor) => ({ motor, direction: Math.sign(speed) }));
    const motions = [
      ...motionsOf(this.sides.left, wanted.left),
      ...motionsOf(this.sides.right, wanted.right),
    ];
    this.#watch.keep(motions);
    await this.#command(command, caller, () => this.#watch.begin(motions));
  }

  async #command(command: WheelCommand, caller: Call | undefined, done: () => void): Promise<void> {
    await this.#operation.run(async (signal) => {
      const commands = (side: readonly Motor[], isLeft: boolean) =>
        side.map((motor) => command(motor, isLeft, { signal }));
      await Promise.all([...commands(this.sides.left, true), ...commands(this.sides.right, false)]);
      signal.throwIfAborted();
      done();
    }, caller?.signal);
  }

  async #failed(why: SvcError): Promise<void> {
    this.logger.warn(`base ${this.name.short} was stopped with all of its wheels: ${chainOf(why)}`);
    await this.#stopAll().catch((error) => this.logger.error(chainOf(error)));
  }

  #stopAll(): Promise<void> {
    this.#watch.end();
    return this.#operation.stop();
  }

  /** Stops every motor, even if stopping another one fails. */
  async #halt(): Promise<void> {
    this.#watch.end();
    const results = await Promise.allSettled(this.#motors.map((motor) => motor.stop()));
    const failures = results.flatMap((result) => result.status === "rejected" ? [result.reason] : []);
    const failure = joined(`cannot stop every motor of ${this.name}`, failures);
    if (failure) throw failure;
  }
}

function isNone({ x, y, z }: Vec3): boolean {
  return x === 0 && y === 0 && z === 0;
}
