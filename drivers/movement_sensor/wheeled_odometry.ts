/**
 * Wheel odometry: where a wheeled base is by the turns of its motors, counted from where it began.
 *
 * The sensor reads both motors at an interval and adds the arc that the base drove since the last reading. Forwards is
 * the y axis (north), a left turn is positive. Errors of the wheels add up; nothing corrects them. A motor that is given
 * another zero position has not moved: what the base drove since the reading before is lost.
 */

import { BaseApi, type BaseProperties } from "../../lib/api/actuators/base.ts";
import { MotorApi } from "../../lib/api/actuators/motor.ts";
import {
  BaseMovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
} from "../../lib/api/sensors/movement_sensor.ts";
import type { GeoPoint, Readings } from "../../lib/api/shared/readings.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type JsonObject, list, number, object, text } from "../../lib/base/schema/schema.ts";
import { geoPointAt } from "../../lib/geometry/geo.ts";
import { type OrientationVector, ORIGIN, type Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import type { Call } from "../../lib/resource/resource.ts";
import { WheelCounts, type WheelPositions } from "./wheel_counts.ts";

const DEG_PER_RAD = 180 / Math.PI;
const INTERVAL_MS = 500;
const SLOW_INTERVAL_MS = 1_000;

const motors = (side: string) =>
  list(text(), `the motor on the ${side}; it must report its position`).required().names("motor")
    .with((names, at) => {
      const [name, ...more] = names;
      if (name !== undefined && more.length === 0) return name;
      return at.wanted(`one motor on the ${side}`, names);
    });

export const WheeledOdometry = model({
  api: MovementSensorApi,
  name: "rdk:builtin:wheeled-odometry",
  doc: "Where a wheeled base is by the turns of its motors: position, orientation and velocity.",
  attributes: object({
    base: text("the base that the motors drive; gives the width and the wheels' circumference").required()
      .names("base"),
    leftMotors: motors("left"),
    rightMotors: motors("right"),
    timeIntervalMsecs: number("milliseconds between two readings of the motors; 0 means the default", {
      min: 0,
    })
      .default(INTERVAL_MS).with((ms) => ms || INTERVAL_MS),
  }).required(),
  construct: async ({ name, attributes, dependencies, clock, logger, signal }) => {
    const { leftMotors: left, rightMotors: right } = attributes;
    const pair = [dependencies.get(MotorApi, left), dependencies.get(MotorApi, right)] as const;
    for (const motor of pair) {
      if ((await motor.getProperties({ signal })).positionReporting) continue;
      throw new SvcError("failed_precondition", `${name} needs ${motor.name} to report its position`);
    }

    const base = dependencies.get(BaseApi, attributes.base);
    const sizes = await base.getProperties({ signal });
    if (!(sizes.widthMeters > 0 && sizes.wheelCircumferenceMeters > 0)) {
      const found = `width ${sizes.widthMeters} m, wheels' circumference ${sizes.wheelCircumferenceMeters} m`;
      throw new SvcError(
        "failed_precondition",
        `${name}: found ${found} of ${base.name}, wanted both above 0`,
      );
    }

    const intervalMs = attributes.timeIntervalMsecs;
    if (intervalMs > SLOW_INTERVAL_MS) {
      logger.warn(`time_interval_msecs is ${intervalMs}: move the base slowly, or its position is inexact`);
    }
    const odometer = new Odometer(sizes);
    const counts = new WheelCounts(pair, { clock, logger });
    const first = await counts.read(signal);
    if (first) odometer.start(first.positions);

    return new Odometry(name, odometer, counts, intervalMs, { clock, logger });
  },
});

/** The path of a base by the turns of its wheels. */
export class Odometer {
  #left = 0;
  #right = 0;
  yawRad = 0;
  eastM = 0;
  northM = 0;

  constructor(private readonly sizes: BaseProperties) {}

  /** Begins at these positions of the motors. */
  start([left, right]: WheelPositions): void {
    [this.#left, this.#right] = [left, right];
  }

  /** Adds the way since the last positions; gives the distance and the left turn. */
  moved([left, right]: WheelPositions): { distanceM: number; angleRad: number } {
    const { widthMeters, wheelCircumferenceMeters } = this.sizes;
    const leftM = (left - this.#left) * wheelCircumferenceMeters;
    const rightM = (right - this.#right) * wheelCircumferenceMeters;
    this.start([left, right]);
    const distanceM = (leftM + rightM) / 2, angleRad = (rightM - leftM) / widthMeters;
    // The chord of the arc has the direction halfway through the turn.
    const halfway = this.yawRad + angleRad / 2;
    const chordM = Math.abs(angleRad) < 1e-9
      ? distanceM
      : distanceM * Math.sin(angleRad / 2) / (angleRad / 2);
    this.eastM -= chordM * Math.sin(halfway);
    this.northM += chordM * Math.cos(halfway);
    this.yawRad = ((this.yawRad + angleRad) % (2 * Math.PI) + 2 * Math.PI) % (2 * Math.PI);
    return { distanceM, angleRad };
  }

  reset(): void {
    [this.yawRad, this.eastM, this.northM] = [0, 0, 0];
  }
}

class Odometry extends BaseMovementSensor {
  readonly #closing = new AbortController();
  readonly #following: Promise<void>;
  #origin: GeoPoint = { latitude: 0, longitude: 0 };
  #usesCompass = false;
  #speedMps = 0;
  #turnDegsPerSec = 0;
  #failure?: unknown;

  constructor(
    name: ResourceName,
    private readonly odometer: Odometer,
    private readonly counts: WheelCounts,
    private readonly intervalMs: number,
    private readonly tools: { readonly clock: Clock; readonly logger: Logger },
  ) {
    super(name, {
      positionSupported: true,
      linearVelocitySupported: true,
      angularVelocitySupported: true,
      orientationSupported: true,
    });
    this.#following = this.#follow();
  }

  /** The extra argument `return_relative_pos_m` gives metres to the north and to the east instead of degrees. */
  override getPosition(call?: Call): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    return this.#now(() => {
      const { eastM, northM } = this.odometer;
      const relative = call?.extra?.return_relative_pos_m === true;
      const coordinate = relative
        ? { latitude: northM, longitude: eastM }
        : geoPointAt({ eastM, northM }, this.#origin);
      return { coordinate, altitudeM: 0 };
    });
  }

  override getLinearVelocity(): Promise<Vec3> {
    return this.#now(() => ({ ...ORIGIN, y: this.#speedMps }));
  }

  override getAngularVelocity(): Promise<Vec3> {
    return this.#now(() => ({ ...ORIGIN, z: this.#turnDegsPerSec }));
  }

  override getOrientation(): Promise<OrientationVector> {
    return this.#now(() => ({ oX: 0, oY: 0, oZ: 1, theta: this.odometer.yawRad * DEG_PER_RAD }));
  }

  /** Supported after the command `use_compass`: the base began with its front to the north. */
  override getCompassHeading(call?: Call): Promise<number> {
    if (!this.#usesCompass) return super.getCompassHeading(call);
    return this.#now(() => (360 - this.odometer.yawRad * DEG_PER_RAD) % 360);
  }

  override async getProperties(): Promise<MovementSensorProperties> {
    return { ...await super.getProperties(), compassHeadingSupported: this.#usesCompass };
  }

  override async getReadings(call?: Call): Promise<Readings> {
    const readings = await super.getReadings(call);
    const { eastM, northM } = this.odometer;
    return { ...readings, position_meters_X: eastM, position_meters_Y: northM };
  }

  /**
   * `use_compass: true` gives a compass heading; `reset` begins anew; `setLat` with `setLong` puts the origin to a place
   * on the Earth; `moveX` and `moveY` shift the position by metres.
   */
  override doCommand(command: JsonObject): Promise<JsonObject> {
    return Promise.try(() => this.#changed(command));
  }

  #changed(command: JsonObject): JsonObject {
    const done: JsonObject = {};
    const { use_compass: compass, reset, setLat: latitude, setLong: longitude } = command;
    if (typeof compass === "boolean") {
      this.#usesCompass = compass;
      done.use_compass = `using orientation as compass heading set to ${compass}`;
    }

    if (typeof reset === "boolean") {
      this.odometer.reset();
      this.#origin = { latitude: 0, longitude: 0 };
      done.reset = `resetting position and setting shift to ${reset}`;
    }

    if (typeof latitude === "number" && typeof longitude === "number") {
      if (!(Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180)) {
        const found = `found latitude ${latitude} and longitude ${longitude}`;
        throw new SvcError("invalid_argument", `${this.name}: ${found}, wanted a place on the Earth`);
      }
      this.#origin = { latitude, longitude };
      done.setLat = `lat shifted to ${latitude.toFixed(8)}`;
      done.setLong = `lng shifted to ${longitude.toFixed(8)}`;
    } else if (typeof latitude === "number" || typeof longitude === "number") {
      done["bad shift"] = "need both lat and long shifts";
    }

    if (typeof command.moveX === "number") {
      this.odometer.eastM += command.moveX;
      done.moveX = `x position moved to ${this.odometer.eastM.toFixed(8)}`;
    }

    if (typeof command.moveY === "number") {
      this.odometer.northM += command.moveY;
      done.moveY = `y position shifted to ${this.odometer.northM.toFixed(8)}`;
    }

    return done;
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the sensor is closed"));
    await this.#following;
  }

  /** Fails while the motors do not tell their positions. */
  #now<T>(read: () => T): Promise<T> {
    return Promise.try(() => {
      if (this.#failure === undefined) return read();
      throw new SvcError("unavailable", `${this.name} cannot read its motors: ${chainOf(this.#failure)}`);
    });
  }

  async #follow(): Promise<void> {
    const { clock, logger } = this.tools;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        await clock.sleep(this.intervalMs, signal);
        const reading = await this.counts.read(signal);
        if (!reading) continue;
        const { positions, seconds, isAnew } = reading;
        if (isAnew) this.odometer.start(positions);
        const { distanceM, angleRad } = this.odometer.moved(positions);
        this.#speedMps = distanceM / seconds;
        this.#turnDegsPerSec = angleRad * DEG_PER_RAD / seconds;
        this.#failure = undefined;
      } catch (error) {
        if (signal.aborted) return;
        if (this.#failure === undefined) logger.warn(`cannot read its motors: ${chainOf(error)}`);
        this.#failure = error;
      }
    }
  }
}
