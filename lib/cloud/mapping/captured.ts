/**
 * A machine's captured data for its map, in the order of capture: scans of its lidar, and measurements of its movement
 * sensor.
 *
 * Data arrives in files, sensor by sensor, so a scan may arrive before the movements that led to it. Therefore a value
 * is returned only when every sensor has a later value, or after a time limit, in case a sensor has stopped.
 */

import type { GeoPoint } from "../../api/shared/readings.ts";
import { imuReading, OdometryPlane } from "../../../drivers/slam/mapper/sensors.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import type { OrientationVector, Vec3 } from "../../geometry/pose.ts";
import type { ImuReading, OdometryReading } from "../../slam/mapping.ts";
import { BinaryData, itemCursor } from "../data/binary_data.ts";
import { Conditions, onlyType } from "../capture/filter.ts";
import { TabularData } from "../data/tabular_data.ts";
import type { FileStore } from "../store/files.ts";
import type { Sql } from "../store/store.ts";
import type { MappingSession } from "./sessions.ts";

/** How long a scan waits for movements at its time, and movements for scans. */
const LATE_US = 60_000_000;
/** Largest difference between the times of the two quantities of a reading. */
const PAIR_US = 50_000;
const PAGE = 200;
/** Limit of values of one sensor at one time, which are sorted by content. */
const SAME_TIME_MAX = 10_000;

/** Published names of the captured methods. */
const SCANS = ["NextPointCloud", "GetPointCloud"];
const MOVEMENTS = ["LinearAcceleration", "AngularVelocity", "Position", "Orientation"] as const;
type Quantity = typeof MOVEMENTS[number];

export type MapInput =
  | { readonly kind: "scan"; readonly capturedUs: number; readonly sha256: string; readonly bytes: number }
  | { readonly kind: "imu"; readonly capturedUs: number; readonly imu: ImuReading }
  | { readonly kind: "odometry"; readonly capturedUs: number; readonly odometry: OdometryReading }
  /** An unusable value, and the reason. */
  | { readonly kind: "unusable"; readonly capturedUs: number; readonly why: string };

interface Item {
  readonly capturedUs: number;
  readonly id: string;
  readonly sha256?: string;
  readonly bytes: number;
  readonly payload?: JsonObject;
}

type Source = Pick<MappingSession, "organizationId" | "machineId" | "camera" | "movementSensor" | "fromUs">;

/**
 * One method of one sensor, read page by page. Values of the same time come in the order of their contents: their ids
 * are new at every upload.
 */
class Stream {
  readonly #waiting: Item[] = [];
  #last = "";
  #isPageFull = false;
  taken = 0;

  constructor(
    private readonly sql: Sql,
    private readonly files: FileStore,
    private readonly source: Source,
    readonly method: Quantity | "scan",
  ) {}

  /** The next item until that time. */
  async peek(untilUs: number): Promise<Item | undefined> {
    if (this.#waiting.length === 0) await this.#read(untilUs);
    while (this.#isPageFull && this.#isOneTime && this.#waiting.length < SAME_TIME_MAX) {
      await this.#read(untilUs);
    }
    const [next] = this.#waiting;
    return next && next.capturedUs <= untilUs ? next : undefined;
  }

  /** Whether all waiting values have the same time, so that the next page may have more of that time. */
  get #isOneTime(): boolean {
    return this.#waiting[0]?.capturedUs === this.#waiting.at(-1)?.capturedUs;
  }

  async #read(untilUs: number): Promise<void> {
    const page = await this.#page("oldest first", PAGE, untilUs);
    this.#isPageFull = page.length === PAGE;
    const last = page.at(-1);
    if (!last) return;
    this.#last = itemCursor(last);
    this.#waiting.push(...page);
    this.#waiting.sort((a, b) => a.capturedUs - b.capturedUs || compared(contentOf(a), contentOf(b)));
  }

  take(): Item {
    this.taken++;
    return this.#waiting.shift()!;
  }

  async latestUs(): Promise<number | undefined> {
    const [latest] = await this.#page("newest first", 1);
    return latest?.capturedUs;
  }

  /** The number of values until that time. */
  async count(untilUs: number): Promise<number> {
    const data = this.method === "scan" ? new BinaryData(this.sql) : new TabularData(this.sql, this.files);
    return (await data.count(this.#conditions(untilUs))).count;
  }

  async #page(order: "oldest first" | "newest first", limit: number, untilUs?: number): Promise<Item[]> {
    const page = { limit, order, last: order === "oldest first" ? this.#last : "" };
    const found = this.#conditions(untilUs);
    if (this.method === "scan") return await new BinaryData(this.sql).page(found, page);
    return [...(await new TabularData(this.sql, this.files).page(found, page)).readings];
  }

  #conditions(untilUs?: number): Conditions {
    const { organizationId, machineId, camera, movementSensor, fromUs } = this.source;
    const isScan = this.method === "scan";
    return onlyType(new Conditions(), isScan ? "camera" : "movement_sensor")
      .only("o.organization_id = ?", organizationId)
      .only("o.machine_id = ?", machineId)
      .only("o.component_name = ?", isScan ? camera : movementSensor)
      .is("o.method_name", isScan ? SCANS : [this.method])
      .within("captured", { fromUs, untilUs });
  }
}

export class CapturedData {
  readonly #streams: readonly Stream[];
  readonly #pairs = new Map<Quantity, Item>();
  readonly #plane = new OdometryPlane();
  #latest: Ranked | undefined;
  /** Whether a value arrived after a later one had been taken. */
  #isDisordered = false;

  constructor(sql: Sql, files: FileStore, source: Source) {
    const methods = source.movementSensor === "" ? [] : MOVEMENTS;
    this.#streams = ["scan" as const, ...methods].map((one) => new Stream(sql, files, source, one));
  }

  /** The time until which all values have presumably arrived. */
  async completeUs(nowMs: number): Promise<number> {
    const latest = await Promise.all(this.#streams.map((stream) => stream.latestUs()));
    const [scans, ...movements] = latest;
    const moving = movements.filter((one) => one !== undefined);
    return Math.max(nowMs * 1000 - LATE_US, Math.min(scans ?? -Infinity, ...moving));
  }

  /** Whether the last scan is so much older than that time that no more data will come. */
  async isSilent(atUs: number): Promise<boolean> {
    const [scans] = this.#streams;
    return (await scans?.latestUs() ?? -Infinity) < atUs - LATE_US;
  }

  /** The next one until that time. */
  async next(untilUs: number): Promise<MapInput | undefined> {
    for (;;) {
      let first: Ranked & { readonly stream: Stream } | undefined;
      // At equal times the movement comes first, because the scan's prediction uses it.
      for (const [rank, stream] of this.#streams.toReversed().entries()) {
        const item = await stream.peek(untilUs);
        if (item && (!first || item.capturedUs < first.item.capturedUs)) first = { stream, rank, item };
      }
      if (!first) return undefined;
      const { method } = first.stream;
      const item = first.stream.take();
      if (this.#latest && !isBehind(first, this.#latest)) this.#isDisordered = true;
      this.#latest = first;
      const captured = method === "scan" ? scanOf(item) : this.#paired(method, item);
      if (captured) return captured;
    }
  }

  /** Whether values until that time arrived too late to be in order. */
  async cameOutOfOrder(untilUs: number): Promise<boolean> {
    if (this.#isDisordered) return true;
    const missed = await Promise.all(this.#streams.map(async (one) => await one.count(untilUs) > one.taken));
    return missed.includes(true);
  }

  /** The reading from this quantity and the other one of its kind; `undefined` while the other is missing. */
  #paired(method: Quantity, item: Item): MapInput | undefined {
    const isImu = method === "LinearAcceleration" || method === "AngularVelocity";
    const [first, second]: readonly [Quantity, Quantity] = isImu
      ? ["LinearAcceleration", "AngularVelocity"]
      : ["Position", "Orientation"];
    const other = this.#pairs.get(method === first ? second : first);
    if (!other || item.capturedUs - other.capturedUs >= PAIR_US) {
      this.#pairs.set(method, item);
      return undefined;
    }
    this.#pairs.delete(first);
    this.#pairs.delete(second);
    const [one, two] = method === first ? [item, other] : [other, item];
    const { capturedUs } = item;
    const timeS = (one.capturedUs + two.capturedUs) / 2e6;
    try {
      if (isImu) {
        const imu = imuReading(
          timeS,
          vectorIn(one, "linear_acceleration"),
          vectorIn(two, "angular_velocity"),
        );
        return { kind: "imu", capturedUs, imu };
      }
      const odometry = this.#plane.reading(timeS, coordinateIn(one), orientationIn(two));
      return { kind: "odometry", capturedUs, odometry };
    } catch (error) {
      return { kind: "unusable", capturedUs, why: (error as Error).message };
    }
  }
}

interface Ranked {
  readonly rank: number;
  readonly item: Item;
}

/** Whether `a` belongs after `b`, or is equal to it. */
function isBehind(a: Ranked, b: Ranked): boolean {
  if (a.item.capturedUs !== b.item.capturedUs) return a.item.capturedUs > b.item.capturedUs;
  if (a.rank !== b.rank) return a.rank > b.rank;
  return contentOf(a.item) >= contentOf(b.item);
}

function contentOf({ sha256, payload }: Item): string {
  return sha256 ?? JSON.stringify(payload ?? null);
}

function compared(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function scanOf({ capturedUs, sha256, bytes }: Item): MapInput {
  return { kind: "scan", capturedUs, sha256: sha256!, bytes };
}

function vectorIn({ payload }: Item, name: string): Vec3 {
  const { x, y, z } = objectIn(payload, name);
  return { x: Number(x), y: Number(y), z: Number(z) };
}

function coordinateIn({ payload }: Item): GeoPoint {
  const { latitude, longitude } = objectIn(payload, "coordinate");
  return { latitude: Number(latitude), longitude: Number(longitude) };
}

function orientationIn({ payload }: Item): OrientationVector {
  const { o_x, o_y, o_z, theta } = objectIn(payload, "orientation");
  return { oX: Number(o_x), oY: Number(o_y), oZ: Number(o_z), theta: Number(theta) };
}

/** A missing value is NaN, which the check of the reading reports. */
function objectIn(
  payload: JsonObject | undefined,
  name: string,
): { readonly [name: string]: Json | undefined } {
  const found = payload?.[name];
  return isObject(found) ? found : {};
}
