/** The first readings of a map, in the order of their arrival, to build it again. */

import type { MapBuilder } from "./map_builder.ts";
import type { ImuReading, OdometryReading, RangeScan } from "./mapping.ts";

/** Limits: two minutes of five scans a second, 20 MB of points, and as many readings of quick sensors. */
const SCANS_MAX = 600;
const POINTS_MAX = 1_200_000;
const READINGS_MAX = 100_000;

/** One reading of odometry after the delay is enough, but two readings may arrive at once. */
const LATER_S = 0.1;

type FirstReading =
  | { readonly kind: "odometry"; readonly reading: OdometryReading }
  | { readonly kind: "imu"; readonly reading: ImuReading }
  /** `isNode`: the scan has become a node. */
  | { readonly kind: "scan"; readonly scan: RangeScan; readonly isNode: boolean };

export class Beginning {
  readonly #readings: FirstReading[] = [];
  #scans = 0;
  #points = 0;

  /** Whether it should be used now or dropped. It still takes readings. */
  get isFull(): boolean {
    return this.#scans >= SCANS_MAX || this.#points >= POINTS_MAX || this.#readings.length >= READINGS_MAX;
  }

  addOdometry(reading: OdometryReading): void {
    this.#readings.push({ kind: "odometry", reading });
  }

  addImu(reading: ImuReading): void {
    this.#readings.push({ kind: "imu", reading });
  }

  addScan(scan: RangeScan, isNode: boolean): void {
    this.#readings.push({ kind: "scan", scan, isNode });
    this.#scans++;
    this.#points += scan.points.length / 3;
  }

  /**
   * Gives a builder all readings, also those that are added meanwhile. The same scans become nodes, and others where
   * odometry was frozen. Odometry that is late by `delayS` comes before the scans of its time.
   */
  *replay(builder: MapBuilder, delayS = 0): Generator<void, void> {
    let early = 0;
    const addOdometryUntil = (untilS: number, before: number) => {
      for (let next = this.#readings[early]; next; next = this.#readings[++early]) {
        if (next.kind !== "odometry") continue;
        if (early > before && next.reading.timeS > untilS) return;
        builder.addOdometry(next.reading);
      }
    };

    for (const [k, one] of this.#readings.entries()) {
      if (one.kind === "odometry") continue;
      addOdometryUntil(delayS > 0 ? timeOf(one) + delayS + LATER_S : -Infinity, k);
      if (one.kind === "imu") builder.addImu(one.reading);
      else {
        builder.addScan(one.scan, one.isNode);
        do yield; while (builder.work());
      }
    }
    addOdometryUntil(Infinity, this.#readings.length);
  }
}

function timeOf(one: Exclude<FirstReading, { readonly kind: "odometry" }>): number {
  return one.kind === "imu" ? one.reading.timeS : one.scan.timeS;
}
