/**
 * A base with feedback: a movement sensor tells how another base moves, so that it drives at the wanted velocity and
 * ends movements at the wanted place.
 *
 * Each quantity comes from the first sensor that supports it. With `control_parameters`, two PID controllers set the
 * power of the base; without them, the base's own velocity serves, and only the heading is watched.
 */

import { type Base, BaseApi, type BaseProperties } from "../../lib/api/actuators/base.ts";
import {
  type MovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
} from "../../lib/api/sensors/movement_sensor.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { choice, type JsonObject, list, number, object, text } from "../../lib/base/schema/schema.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { planePointOf } from "../../lib/geometry/geo.ts";
import { eulerFromQuaternion, ORIGIN, quaternionFromVector, type Vec3 } from "../../lib/geometry/pose.ts";
import { feedback } from "../../lib/resource/feedback.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import {
  AT_REST,
  isUntuned,
  measured,
  measuredGains,
  VelocityControl,
  type VelocityGains,
} from "./velocity_control.ts";

const CONTROL_HZ = 10;
const FREQUENCY_MAX_HZ = 1_000;
/** Consecutive steps of the control that may fail before the base stops, and the longest time that they may take. */
const FAILURES_MAX = 10;
const FAILING_MS_MAX = 1_000;
/** A movement may take so many times as long as it should, and at least `MOVEMENT_MS_MIN`. */
const PATIENCE = 5;
const MOVEMENT_MS_MIN = 10_000;
/** The last part of a movement is slower, in proportion to what is left, down to a share of the speed. */
const SLOW_SHARE = 0.1, SLOW_MM_MAX = 100;
const SLOW_DEG_MAX = 30;
const SLOWEST = 0.1;
/** A turn ends this close to its goal. */
const NEAR_DEG = 1;

const NO_GAINS: VelocityGains = { p: 0, i: 0, d: 0 };
const DIRECTIONS = { linear: "linear_velocity", angular: "angular_velocity" } as const;
type Direction = keyof typeof DIRECTIONS;

const attributes = object({
  base: text("the base that moves").required().names("base"),
  movementSensor: list(text(), "names of movement sensors, in order of preference").required()
    .names("movement_sensor")
    .with((names, at) => names.length > 0 ? names : at.wanted("at least one movement sensor", names)),
  controlParameters: list(
    object({
      type: choice("the velocity", Object.values(DIRECTIONS)).required(),
      p: number("proportional gain").default(0),
      i: number("integral gain").default(0),
      d: number("derivative gain").default(0),
    }),
    "gains of the controllers; gains that are all 0 are measured, for which the base moves by itself",
  ).default([]),
  controlFrequencyHz: number("steps of the control a second; 0 means the default", {
    min: 0,
    max: FREQUENCY_MAX_HZ,
  })
    .default(CONTROL_HZ).with((hz) => hz || CONTROL_HZ),
}).required();

/** Degrees to the left of the heading at the beginning; the origin is the sensor's. */
type Heading = (signal: AbortSignal) => Promise<number>;

interface Parts {
  readonly base: Base;
  readonly velocities?: MovementSensor;
  readonly position?: MovementSensor;
  readonly heading?: Heading;
}

export const SensorControlledBase = model({
  api: BaseApi,
  name: "rdk:builtin:sensor-controlled",
  doc: "Another base with feedback from movement sensors: holds its velocity and heading.",
  attributes,
  construct: async ({ name, attributes, dependencies, clock, logger, signal }) => {
    const sensors = attributes.movementSensor.map((one) => dependencies.get(MovementSensorApi, one));
    const known = await Promise.all(sensors.map(async (sensor) => {
      const properties = await sensor.getProperties({ signal }).catch((error) => {
        logger.warn(`${sensor.name} did not give its properties: ${chainOf(error)}`);
        return undefined;
      });
      return { sensor, properties };
    }));
    const first = (...wanted: (keyof MovementSensorProperties)[]) =>
      known.find(({ properties }) => properties && wanted.every((one) => properties[one]))?.sensor;
    const velocities = first("linearVelocitySupported", "angularVelocitySupported");
    const orientation = first("orientationSupported");
    if (!velocities && !orientation) {
      const wanted = "wanted one for the orientation, or for the linear and the angular velocity";
      throw new SvcError("failed_precondition", `${name} has no suitable movement sensor: ${wanted}`);
    }

    const base = dependencies.get(BaseApi, attributes.base);
    const heading = headingOf(clock, orientation, first("compassHeadingSupported"));
    const controlled = new SensorControlled(
      name,
      { base, velocities, heading, position: first("positionSupported") },
      1000 / attributes.controlFrequencyHz,
      { clock, logger },
    );
    if (velocities && attributes.controlParameters.length > 0) {
      const gains = (type: string) =>
        attributes.controlParameters.findLast((one) => one.type === type) ?? NO_GAINS;
      controlled.useGains({ linear: gains(DIRECTIONS.linear), angular: gains(DIRECTIONS.angular) });
    }

    return controlled;
  },
});

function headingOf(
  clock: Clock,
  orientation?: MovementSensor,
  compass?: MovementSensor,
): Heading | undefined {
  if (orientation) {
    return async (moving) => {
      const read = (signal: AbortSignal) => orientation.getOrientation({ signal });
      const vector = await feedback(orientation.name, clock, moving, read);
      return finite(eulerFromQuaternion(quaternionFromVector(vector)).yaw * 180 / Math.PI, orientation);
    };
  }
  if (!compass) return undefined;
  return async (moving) => {
    const read = (signal: AbortSignal) => compass.getCompassHeading({ signal });
    return 360 - finite(await feedback(compass.name, clock, moving, read), compass);
  };
}

function finite(headingDeg: number, sensor: MovementSensor): number {
  if (Number.isFinite(headingDeg)) return headingDeg;
  throw new SvcError("unavailable", `${sensor.name} gives the heading ${headingDeg}`);
}

/** Whether the gains of the control are there, and if not, why not. */
interface Tuning {
  state: "running" | "stopped" | "done";
  readonly found: { [D in Direction]?: VelocityGains };
}

class SensorControlled extends BaseComponent implements Base {
  readonly #operation = new Operation(() => this.#halt());
  #control?: VelocityControl;
  #tuning?: Tuning;
  /** The control that runs on after SetVelocity. */
  #loop?: { readonly stop: AbortController; readonly ended: Promise<void> };

  constructor(
    name: ResourceName,
    private readonly parts: Parts,
    private readonly periodMs: number,
    private readonly tools: { readonly clock: Clock; readonly logger: Logger },
  ) {
    super(name);
  }

  /** Uses the gains, or measures those that are missing; until then the base refuses controlled movements. */
  useGains(gains: { readonly [D in Direction]: VelocityGains }): void {
    const { base, velocities } = this.parts;
    if (!velocities) return;
    const untuned = (Object.keys(DIRECTIONS) as Direction[]).filter((one) => isUntuned(gains[one]));
    if (untuned.length === 0) {
      this.#control = new VelocityControl(base, velocities, gains, this.tools.clock);
      return;
    }
    const tuning: Tuning = this.#tuning = { state: "running", found: {} };
    this.#tune(untuned, velocities, tuning).catch((error) => {
      tuning.state = "stopped";
      this.tools.logger.error(`cannot measure the gains of its control: ${chainOf(error)}`);
    });
  }

  async moveStraight(distanceMm: number, speedMmPerSec: number, call?: Call): Promise<void> {
    this.#requireTuned();
    if (distanceMm === 0 || speedMmPerSec === 0) return await this.stop();

    const control = this.#control;
    if (!control) {
      this.tools.logger.debug(`has no control parameters: ${this.parts.base.name} moves without feedback`);
      return void await this.#run(
        (signal) => this.parts.base.moveStraight(distanceMm, speedMmPerSec, { signal }),
        call,
      );
    }

    await this.#run(async (signal) => {
      const speed = Math.abs(speedMmPerSec), direction = Math.sign(distanceMm * speedMmPerSec);
      const goalMm = Math.abs(distanceMm), slowMm = Math.min(goalMm * SLOW_SHARE, SLOW_MM_MAX);
      const travelledMm = await this.#odometer(direction, signal);
      const straight = await this.parts.heading?.(signal);
      control.reset();
      await this.#until(1000 * goalMm / speed, "MoveStraight", signal, async () => {
        const leftMm = goalMm - await travelledMm();
        if (leftMm <= 0) return true;
        const turned = straight === undefined ? 0 : wrapped(await this.parts.heading!(signal) - straight);
        const linear = direction * speed * Math.max(Math.min(leftMm / slowMm, 1), SLOWEST) / 1000;
        control.wanted = { linear, angular: -turned };
        await control.step(signal);
        return false;
      });
    }, call);
  }

  async spin(angleDeg: number, speedDegPerSec: number, call?: Call): Promise<void> {
    this.#requireTuned();
    if (angleDeg === 0 || speedDegPerSec === 0) return await this.stop();

    const { base, heading } = this.parts;
    if (!heading && !this.#control) {
      this.tools.logger.debug(`has no sensor of its heading: ${base.name} turns without feedback`);
      return void await this.#run((signal) => base.spin(angleDeg, speedDegPerSec, { signal }), call);
    }

    await this.#run(async (signal) => {
      const speed = Math.abs(speedDegPerSec), direction = Math.sign(angleDeg * speedDegPerSec);
      const goalDeg = Math.abs(angleDeg), slowDeg = Math.min(goalDeg * SLOW_SHARE, SLOW_DEG_MAX);
      const turned = await this.#turnMeter(signal);
      this.#control?.reset();
      await this.#until(1000 * goalDeg / speed, "Spin", signal, async () => {
        const leftDeg = goalDeg - direction * await turned();
        if (leftDeg <= Math.min(NEAR_DEG, goalDeg * SLOWEST)) return true;
        const angular = direction * speed * Math.max(Math.min(leftDeg / slowDeg, 1), SLOWEST);
        await this.#turn(angular, signal);
        return false;
      });
    }, call);
  }

  async setPower(linear: Vec3, angular: Vec3, call?: Call): Promise<void> {
    await this.#run((signal) => this.parts.base.setPower(linear, angular, { signal }), call, false);
  }

  async setVelocity(linearMmPerSec: Vec3, angularDegPerSec: Vec3, call?: Call): Promise<void> {
    this.#requireTuned();
    const control = this.#control, linear = linearMmPerSec.y / 1000, angular = angularDegPerSec.z;
    if (!control) {
      await this.#run(
        (signal) => this.parts.base.setVelocity(linearMmPerSec, angularDegPerSec, { signal }),
        call,
        false,
      );
    } else if (linear === 0 && angular === 0) {
      await this.stop();
    } else {
      await this.#operation.run(() => {
        control.wanted = { linear, angular };
        this.#loop ??= this.#startLoop(control);
        return Promise.resolve();
      }, call?.signal);
    }
  }

  getProperties(call?: Call): Promise<BaseProperties> {
    return this.parts.base.getProperties(call);
  }

  override getGeometries(call?: Call): Promise<Geometry[]> {
    return this.parts.base.getGeometries(call);
  }

  stop(): Promise<void> {
    return this.#operation.stop();
  }

  isMoving(call?: Call): Promise<boolean> {
    return this.parts.base.isMoving(call);
  }

  /** `get_tuned_pid: true` gives the gains that were measured, as text. */
  override doCommand(command: JsonObject): Promise<JsonObject> {
    if (command.get_tuned_pid !== true) return Promise.resolve({});
    return Promise.resolve({ get_tuned_pid: gainsText(this.#tuning?.found ?? {}) });
  }

  override close(): Promise<void> {
    return this.stop();
  }

  #requireTuned(): void {
    const tuning = this.#tuning;
    if (!tuning) return;
    const reported = {
      running: "the gains of its control are being measured",
      stopped: "the measurement of its gains was stopped or failed: build the base anew to repeat it",
      done: `its gains have been measured: write them into control_parameters: ${gainsText(tuning.found)}`,
    };
    throw new SvcError("failed_precondition", `${this.name} does not move: ${reported[tuning.state]}`);
  }

  async #tune(untuned: readonly Direction[], sensor: MovementSensor, tuning: Tuning): Promise<void> {
    const { clock, logger } = this.tools, { base } = this.parts;
    const finished = await this.#operation.run(async (signal) => {
      for (const direction of untuned) {
        logger.info(`the base moves by itself: it measures the gains for ${DIRECTIONS[direction]}`);
        const gains = await measuredGains(
          direction,
          { base, sensor, clock, periodMs: this.periodMs },
          signal,
        );
        if (gains) tuning.found[direction] = gains;
        else throw new SvcError("failed_precondition", `${sensor.name} saw no ${DIRECTIONS[direction]}`);
      }
    });
    tuning.state = finished ? "done" : "stopped";
    if (finished) logger.info(`write these gains into control_parameters: ${gainsText(tuning.found)}`);
  }

  /** The distance since now, in the direction of the movement, by the position or, without one, by the velocity. */
  async #odometer(direction: number, signal: AbortSignal): Promise<() => Promise<number>> {
    const { position, velocities } = this.parts;
    if (position) {
      const look = () =>
        feedback(position.name, this.tools.clock, signal, (signal) => position.getPosition({ signal }));
      const { coordinate: start } = await look();
      return async () => {
        const { eastM, northM } = planePointOf((await look()).coordinate, start);
        return 1000 * Math.hypot(eastM, northM);
      };
    }

    let travelledMm = 0, beforeMs = this.tools.clock.monotonicMs();
    return async () => {
      const { linear } = await measured(velocities!, this.tools.clock, signal);
      const nowMs = this.tools.clock.monotonicMs();
      travelledMm += direction * linear * (nowMs - beforeMs);
      beforeMs = nowMs;
      return travelledMm;
    };
  }

  /** Degrees to the left since now, by the heading or, without one, by the velocity. */
  async #turnMeter(signal: AbortSignal): Promise<() => Promise<number>> {
    const { heading, velocities } = this.parts;
    let turnedDeg = 0;
    if (heading) {
      let before = await heading(signal);
      return async () => {
        const now = await heading(signal);
        turnedDeg += wrapped(now - before);
        before = now;
        return turnedDeg;
      };
    }

    let beforeMs = this.tools.clock.monotonicMs();
    return async () => {
      const { angular } = await measured(velocities!, this.tools.clock, signal);
      const nowMs = this.tools.clock.monotonicMs();
      turnedDeg += angular * (nowMs - beforeMs) / 1000;
      beforeMs = nowMs;
      return turnedDeg;
    };
  }

  async #turn(angular: number, signal: AbortSignal): Promise<void> {
    if (!this.#control) {
      return await this.parts.base.setVelocity(ORIGIN, { ...ORIGIN, z: angular }, { signal });
    }
    this.#control.wanted = { ...AT_REST, angular };
    await this.#control.step(signal);
  }

  /** Does the steps of a movement until one is the last; a movement that takes too long ends with a warning. */
  async #until(
    estimatedMs: number,
    method: string,
    signal: AbortSignal,
    step: () => Promise<boolean>,
  ): Promise<void> {
    const { clock, logger } = this.tools;
    const endMs = clock.monotonicMs() + Math.max(PATIENCE * estimatedMs, MOVEMENT_MS_MIN);
    for (;;) {
      if (await step()) return;
      if (clock.monotonicMs() > endMs) {
        return logger.warn(`${method} takes too long, the base stops before its goal`);
      }
      await clock.sleep(this.periodMs, signal);
    }
  }

  /** A command of the caller; `halts`: the base rests when it is done. */
  async #run(work: (signal: AbortSignal) => Promise<unknown>, call?: Call, halts = true): Promise<void> {
    await this.#operation.run(async (signal) => {
      await this.#endLoop();
      await work(signal);
      if (halts) await this.parts.base.stop();
    }, call?.signal);
  }

  #startLoop(control: VelocityControl) {
    const stop = new AbortController();
    control.reset();
    return { stop, ended: this.#keepVelocity(control, stop.signal) };
  }

  async #keepVelocity(control: VelocityControl, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.tools;
    let failures = 0, goodMs = clock.monotonicMs();
    while (!signal.aborted) {
      try {
        await control.step(signal);
        failures = 0;
        goodMs = clock.monotonicMs();
        await clock.sleep(this.periodMs, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (++failures === 1) logger.warn(`cannot control the base: ${chainOf(error)}`);
        // A sensor that hangs has taken its time already. The next step is a period later.
        const inTime = clock.monotonicMs() + this.periodMs - goodMs <=
          Math.max(FAILING_MS_MAX, 2 * this.periodMs);
        if (failures < FAILURES_MAX && inTime && SvcError.from(error).code !== "deadline_exceeded") {
          await clock.sleep(this.periodMs, signal).catch(() => {});
          continue;
        }
        logger.error(`cannot control the base, which stops: ${chainOf(error)}`);
        this.#loop = undefined;
        await this.parts.base.stop().catch((failure) =>
          logger.error(`cannot stop the base: ${chainOf(failure)}`)
        );
        return;
      }
    }
  }

  async #endLoop(): Promise<void> {
    const loop = this.#loop;
    this.#loop = undefined;
    loop?.stop.abort(new SvcError("canceled", "another command took over"));
    await loop?.ended;
  }

  async #halt(): Promise<void> {
    await this.#endLoop();
    await this.parts.base.stop();
  }
}

/** Degrees from -180 to 180. */
function wrapped(degrees: number): number {
  return degrees - 360 * Math.round(degrees / 360);
}

function gainsText(found: { readonly [D in Direction]?: VelocityGains }): string {
  const reported = (Object.entries(found) as [Direction, VelocityGains][]).map(([direction, { p, i, d }]) =>
    `{p: ${p.toFixed(6)}, i: ${i.toFixed(6)}, d: ${d.toFixed(6)}, type: ${DIRECTIONS[direction]}} `
  );
  return reported.join("");
}
