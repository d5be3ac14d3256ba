/**
 * A GPS receiver that speaks NMEA 0183 on a serial line.
 *
 * Owns the line, and opens it again if it goes away. Promises: a position is never older than `OLD_MS`.
 */

import { type Accuracy, BaseMovementSensor, MovementSensorApi } from "../../lib/api/movement_sensor.ts";
import type { GeoPoint, Readings } from "../../lib/api/shared/readings.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { choice, integer, object, text } from "../../lib/base/schema/schema.ts";
import { SerialLine } from "../../lib/device/serial.ts";
import type { Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import type { Call } from "../../lib/resource/resource.ts";
import { type Fix, readSentence } from "./nmea.ts";

/** A receiver sends all its sentences once a second. */
const OLD_MS = 5_000;
const WAIT_MS = 200;
const PAUSE_MS = 20;
const RETRY_MS = 1_000;
/** The standard allows 82 characters; some receivers send more. */
const SENTENCE_MAX = 256;

export const GpsNmeaMovementSensor = model({
  api: MovementSensorApi,
  name: "rdk:builtin:gps-nmea",
  doc: "A GPS receiver on a serial line (NMEA 0183): position, velocity and course over ground.",
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
  /** When a sentence of this type came last. */
  readonly #cameMs = new Map<string, number>();
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
      const { coordinate, altitudeM = 0 } = this.#fresh("GGA");
      if (!coordinate) throw this.#lacks("it has no fix yet; it needs a view of the sky");
      return { coordinate, altitudeM };
    });
  }

  /** East is x, north is y. */
  override getLinearVelocity(): Promise<Vec3> {
    return Promise.try(() => {
      const { speedMetresPerSecond: speed, courseDeg = 0 } = this.#fresh("RMC");
      if (speed === undefined) throw this.#lacks("it has no valid speed yet");
      const course = courseDeg * Math.PI / 180;
      return { x: speed * Math.sin(course), y: speed * Math.cos(course), z: 0 };
    });
  }

  /** The course over ground: the direction of movement, not of the receiver. */
  override getCompassHeading(): Promise<number> {
    return Promise.try(() => {
      const { courseDeg } = this.#fresh("RMC");
      if (courseDeg === undefined) throw this.#lacks("it has no course: it tells one only while it moves");
      return courseDeg;
    });
  }

  override async getReadings(call?: Call): Promise<Readings> {
    const { quality, satellites } = this.#fresh("GGA");
    return { ...await super.getReadings(call), fix: quality, satellites_in_use: satellites ?? 0 };
  }

  override getAccuracy(): Promise<Accuracy> {
    const { hdop: positionHdop, vdop: positionVdop, quality: positionNmeaGgaFix } = this.#fix;
    return Promise.resolve({ accuracy: {}, positionHdop, positionVdop, positionNmeaGgaFix });
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the sensor is closed"));
    await this.#following;
  }

  #fresh(type: string): Fix {
    const cameMs = this.#cameMs.get(type);
    const ageMs = cameMs === undefined ? Infinity : this.clock.monotonicMs() - cameMs;
    if (ageMs <= OLD_MS) return this.#fix;
    const why = this.#failure === undefined ? "" : `: ${chainOf(this.#failure)}`;
    const since = ageMs === Infinity
      ? "has said nothing yet"
      : `has been silent for ${(ageMs / 1000).toFixed(0)} s`;
    throw this.#lacks(`the receiver ${since} (${type})${why}`);
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
        this.#failure = undefined;
        for (const sentence of sentences) {
          const type = readSentence(sentence, this.#fix);
          if (type) this.#cameMs.set(type, this.clock.monotonicMs());
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
