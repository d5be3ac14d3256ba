/**
 * A GPS receiver that speaks NMEA 0183 on a serial line.
 *
 * Owns the line, and opens it again if it goes away. Promises: a position is never older than `OLD_MS`.
 */

import {
  type Accuracy,
  BaseMovementSensor,
  MovementSensorApi,
} from "../../lib/api/sensors/movement_sensor.ts";
import {
  type GeoPoint,
  geoPointReading,
  type Readings,
  vectorReading,
} from "../../lib/api/shared/readings.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { choice, integer, object, text } from "../../lib/base/schema/schema.ts";
import { SerialLine } from "../../lib/device/serial.ts";
import type { Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { type Fix, type Quantity, readSentence } from "./nmea.ts";

/** A receiver sends all its sentences once a second. */
const OLD_MS = 5_000;
const WAIT_MS = 200;
const PAUSE_MS = 20;
const RETRY_MS = 1_000;
/** The standard allows 82 characters; some receivers send more, or bytes of another protocol before them. */
const SENTENCE_MAX = 256;

export const GpsNmeaMovementSensor = model({
  api: MovementSensorApi,
  name: "rdk:builtin:gps-nmea",
  doc: "A GPS receiver on a serial line (NMEA 0183): position, velocity and heading.",
  attributes: object({
    connectionType: choice("kind of connection", ["serial"]).default("serial"),
    serialAttributes: object({
      serialPath: text("the line: /dev/ttyAMA0, /dev/serial/by-id/…").required(),
      serialBaudRate: integer("bits a second; 0 means the default", { min: 300, max: 4_000_000 })
        .zeroIsAbsent().default(9600),
    }, "the serial line").required(),
  }).required(),
  construct: ({ name, attributes, host, clock, logger }) => {
    const { serialPath, serialBaudRate } = attributes.serialAttributes;
    const open = () => SerialLine.open(host, serialPath, serialBaudRate, SENTENCE_MAX);
    return new GpsNmea(name, open, clock, logger);
  },
});

class GpsNmea extends BaseMovementSensor {
  readonly #closing = new AbortController();
  readonly #fix: Fix = { quality: 0 };
  /** When a sentence came last, and when only bytes that are none. */
  #heardMs?: number;
  #strangeMs = -Infinity;
  readonly #following: Promise<void>;
  #failure?: unknown;

  /** Throws if the line does not open now; later the sensor reopens it as often as needed. */
  constructor(
    name: ResourceName,
    private readonly open: () => SerialLine,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name, { positionSupported: true, linearVelocitySupported: true, compassHeadingSupported: true });
    this.#following = this.#follow(open());
  }

  override getPosition(): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    return Promise.try(() => {
      const { coordinate, altitudeM = 0 } = this.#heard();
      if (coordinate && this.#isFresh("position")) return { coordinate, altitudeM };
      throw this.#lacks("it has no fix yet; it needs a view of the sky");
    });
  }

  /** East is x, north is y. */
  override getLinearVelocity(): Promise<Vec3> {
    return Promise.try(() => {
      const { speedMetresPerSecond: speed, courseDeg, headingDeg } = this.#heard();
      if (speed === undefined || !this.#isFresh("speed")) throw this.#lacks("it has no valid speed yet");
      const heading = this.#isFresh("heading") ? headingDeg : undefined;
      const course = (courseDeg ?? heading ?? 0) * Math.PI / 180;
      return { x: speed * Math.sin(course), y: speed * Math.cos(course), z: 0 };
    });
  }

  /**
   * The direction of the receiver, if it has two antennas or a compass; otherwise the course over ground, which is
   * the direction of movement. A receiver that stands has its last course.
   */
  override getCompassHeading(): Promise<number> {
    return Promise.try(() => {
      const { headingDeg, courseDeg } = this.#heard();
      if (headingDeg !== undefined && this.#isFresh("heading")) return headingDeg;
      if (courseDeg !== undefined && this.#isFresh("speed")) return courseDeg;
      throw this.#lacks("it has no course: it tells one only while it moves");
    });
  }

  /** Leaves out a quantity that the receiver does not know now. */
  override async getReadings(): Promise<Readings> {
    const { satellites, inView } = this.#heard();
    const [position, velocity, heading] = await Promise.all([
      this.getPosition().catch(() => undefined),
      this.getLinearVelocity().catch(() => undefined),
      this.getCompassHeading().catch(() => undefined),
    ]);
    return {
      ...(position && { position: geoPointReading(position.coordinate), altitude: position.altitudeM }),
      ...(velocity && { linear_velocity: vectorReading(velocity) }),
      ...(heading !== undefined && { compass: heading }),
      fix: this.#quality(),
      satellites_in_use: satellites ?? 0,
      satellites_in_view: [...inView?.values() ?? []].reduce((sum, one) => sum + one, 0),
    };
  }

  /** Of the position: none, once the position is too old to be given. */
  override getAccuracy(): Promise<Accuracy> {
    const { hdop: positionHdop, vdop: positionVdop }: Partial<Fix> = this.#isFresh("position")
      ? this.#fix
      : {};
    return Promise.resolve({
      accuracy: {},
      positionHdop,
      positionVdop,
      positionNmeaGgaFix: this.#quality(),
    });
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the sensor is closed"));
    await this.#following;
  }

  /** Throws if the receiver is silent. */
  #heard(): Fix {
    const ageMs = this.#heardMs === undefined ? Infinity : this.clock.monotonicMs() - this.#heardMs;
    if (ageMs <= OLD_MS) return this.#fix;
    const isStrange = this.clock.monotonicMs() - this.#strangeMs <= OLD_MS;
    const strange = isStrange ? "; it sends bytes without a known sentence: check serial_baud_rate" : "";
    const why = this.#failure === undefined ? strange : `: ${chainOf(this.#failure)}`;
    const since = ageMs === Infinity
      ? "has said nothing yet"
      : `has been silent for ${(ageMs / 1000).toFixed(0)} s`;
    throw this.#lacks(`the receiver ${since}${why}`);
  }

  /** No fix, once the position is too old to be given. */
  #quality(): number {
    return this.#isFresh("position") ? this.#fix.quality : 0;
  }

  #isFresh(quantity: Quantity): boolean {
    const atMs = this.#fix.origins?.get(quantity)?.atMs ?? -Infinity;
    return this.clock.monotonicMs() - atMs <= OLD_MS;
  }

  #lacks(what: string): SvcError {
    return new SvcError("unavailable", `${this.name}: ${what}`);
  }

  async #follow(first: SerialLine): Promise<void> {
    const { signal } = this.#closing;
    let line: SerialLine | undefined = first;
    while (!signal.aborted) {
      try {
        line ??= this.open();
        const sentences = await line.lines(WAIT_MS);
        if (this.#failure !== undefined) this.logger.info("the receiver is back");
        this.#failure = undefined;
        const nowMs = this.clock.monotonicMs();
        for (const sentence of sentences) {
          if (readSentence(sentence, this.#fix, nowMs)) this.#heardMs = nowMs;
          else this.#strangeMs = nowMs;
        }
        // A line that always has something must not keep everybody else waiting.
        await this.clock.sleep(PAUSE_MS, signal);
      } catch (error) {
        line?.close();
        line = undefined;
        if (signal.aborted) break;
        if (this.#failure === undefined) this.logger.warn(`lost the receiver: ${chainOf(error)}`);
        this.#failure = error;
        await this.clock.sleep(RETRY_MS, signal).catch(() => {});
      }
    }

    line?.close();
  }
}
