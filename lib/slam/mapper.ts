/**
 * The mapper: builds a map from readings, and builds its beginning again if the scans show that odometry is not what it
 * was taken for. Until then late odometry counted for other times, and wheels that slip counted more than the scans.
 */

import { Beginning } from "./beginning.ts";
import { type HeldReading, LateOdometry } from "./late_odometry.ts";
import { isWrongUnder, NO_BELIEFS, type OdometryBeliefs } from "./local/odometry/beliefs.ts";
import { isSameScale } from "./local/odometry/scale.ts";
import { MapBuilder, type ScanPlace } from "./map_builder.ts";
import type { MapState } from "./map_state.ts";
import type {
  ImuReading,
  Localization,
  MapperStart,
  Mapping,
  OdometryReading,
  RangeScan,
} from "./mapping.ts";
import { compose2d, type Pose2d } from "./pose2d.ts";

/** The beliefs must stay the same for this many scans. At the end they count at once. */
const SETTLED_SCANS = 40;
/** Limit of new beginnings. */
const AGAIN_MAX = 3;

export class Mapper implements Mapping {
  #builder: MapBuilder;
  readonly #late = new LateOdometry();
  /** All readings so far; undefined once they are too many. */
  #beginning: Beginning | undefined;
  /** The beliefs with which the map began, the present ones, and the number of scans since they changed. */
  #assumed = NO_BELIEFS;
  #beliefs = NO_BELIEFS;
  #settledScans = 0;
  #againCount = 0;
  /** A new beginning under way, scan by scan. */
  #again: Generator<void, void> | undefined;
  #isFinishing = false;
  /** By the times of the scans. */
  #places: Map<number, ScanPlace> | undefined;

  constructor(private readonly start: MapperStart) {
    this.#builder = new MapBuilder(start);
    // On a finished map, odometry hardly matters.
    if (start.mode !== "localize") this.#beginning = new Beginning();
  }

  addOdometry(reading: OdometryReading): boolean {
    this.#beginning?.addOdometry(reading);
    const isTaken = this.#builder.addOdometry(reading);
    if (isTaken) this.#late.noteOdometry(reading.timeS);
    this.#takeHeld();
    return isTaken;
  }

  addImu(reading: ImuReading): boolean {
    return this.#holds({ kind: "imu", reading }) || this.#takeImu(reading);
  }

  addScan(scan: RangeScan): boolean {
    if (!this.#holds({ kind: "scan", reading: scan })) return this.#takeScan(scan);
    this.#takeHeld();
    return true;
  }

  /** On a finished map, odometry hardly matters, so nothing waits for it. */
  #holds(reading: HeldReading): boolean {
    return this.start.mode !== "localize" &&
      this.#late.holds(reading, this.#builder.odometryBeliefs.delayS);
  }

  #takeHeld(next = () => this.#late.next(this.#builder.odometryBeliefs.delayS)): void {
    for (let held = next(); held; held = next()) {
      if (held.kind === "imu") this.#takeImu(held.reading);
      else this.#takeScan(held.reading);
    }
  }

  #takeImu(reading: ImuReading): boolean {
    this.#beginning?.addImu(reading);
    return this.#builder.addImu(reading);
  }

  #takeScan(scan: RangeScan): boolean {
    const { nodeCount } = this.#builder, isTaken = this.#builder.addScan(scan);
    if (this.#places) notePlace(this.#places, this.#builder);
    if (!this.#beginning) return isTaken;
    this.#beginning.addScan(scan, this.#builder.nodeCount > nodeCount);
    const beliefs = this.#builder.odometryBeliefs;
    this.#settledScans = isSame(beliefs, this.#beliefs) ? this.#settledScans + 1 : 0;
    this.#beliefs = beliefs;
    if (this.#again) return isTaken;
    if (this.#settledScans >= SETTLED_SCANS || this.#beginning.isFull) this.#beginAgain();
    if (this.#beginning.isFull && !this.#again) this.#beginning = undefined;
    return isTaken;
  }

  /** Schedules a new beginning, if the present one is wrong. */
  #beginAgain(): void {
    if (!this.#beginning || this.#again || this.#againCount === AGAIN_MAX) return;
    if (!isWrongUnder(this.#assumed, this.#beliefs)) return;
    this.#againCount++;
    this.#again = this.#beginningAgain(this.#beginning, this.#beliefs);
  }

  /** Replays all readings, also those that arrive meanwhile; then the new map replaces the old one. */
  *#beginningAgain(beginning: Beginning, beliefs: OdometryBeliefs): Generator<void, void> {
    const builder = new MapBuilder(this.start, beliefs), places = new Map<number, ScanPlace>();
    const replay = beginning.replay(builder, beliefs.delayS);
    while (!replay.next().done) {
      if (this.#places) notePlace(places, builder);
      yield;
    }
    // Scans of a time in which odometry was frozen may be nodes in addition, but none may be missing.
    if (builder.nodeCount < this.#builder.nodeCount) {
      this.#beginning = undefined;
      return;
    }
    this.#builder = builder;
    for (const [timeS, place] of places) this.#places?.set(timeS, place);
    this.#assumed = beliefs;
    this.#beliefs = builder.odometryBeliefs;
    this.#settledScans = 0;
  }

  work(): boolean {
    if (this.#again) {
      if (this.#again.next().done) this.#again = undefined;
      return true;
    }
    if (this.#builder.work()) return true;
    if (!this.#isFinishing) return false;
    this.#beginAgain();
    if (this.#again) return true;
    this.#isFinishing = false;
    this.#builder.finishLater();
    return true;
  }

  finish(): void {
    this.finishLater();
    while (this.work());
  }

  finishLater(): void {
    this.#takeHeld(() => this.#late.nextNow());
    this.#isFinishing = true;
  }

  pose(): Pose2d | undefined {
    return this.#builder.pose(this.#late.newestScan?.timeS);
  }

  localization(): Localization {
    return this.#builder.localization();
  }

  odometryDoubt(): string | undefined {
    return this.#builder.odometryDoubt();
  }

  odometryCorrection(): string | undefined {
    return this.#builder.odometryCorrection();
  }

  /** Keeps where each scan lies from now on. */
  keepScans(): void {
    this.#places ??= new Map();
  }

  /** The pose of the scan of a time in the present map; undefined if it was left out, or scans are not kept. */
  scanPose(timeS: number): Pose2d | undefined {
    const place = this.#places?.get(timeS);
    return place && compose2d(this.#builder.nodePose(place.node), place.offset);
  }

  state(): MapState {
    return this.#builder.state();
  }
}

function notePlace(places: Map<number, ScanPlace>, builder: MapBuilder): void {
  const last = builder.lastScan();
  if (last) places.set(last.timeS, last);
}

function isSame(a: OdometryBeliefs, b: OdometryBeliefs): boolean {
  return a.delayS === b.delayS && isSameScale(a.scale, b.scale) &&
    a.verdicts.translation === b.verdicts.translation &&
    a.verdicts.rotation === b.verdicts.rotation && a.frozenAtS === b.frozenAtS;
}
