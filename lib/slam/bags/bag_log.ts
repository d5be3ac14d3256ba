/**
 * Builds a recording for the mapper from the messages of a bag: the scans of one lidar, odometry at their times,
 * and the lidar's pose on the robot.
 */

import { firstIndex } from "../../base/collections/first_index.ts";
import type { CarmenLog, CarmenOdometry, CarmenScan } from "../evaluation/carmen.ts";
import type { SensorFacts } from "../evaluation/sensor.ts";
import { compose2d, IDENTITY_2D, interpolate2d, type Pose2d } from "../pose2d.ts";
import { byClock, type Stamped, usualLag } from "./clocks.ts";
import {
  type BagMessage,
  type LaserScanMessage,
  MessageDecoder,
  type MultiEchoLaserScanMessage,
  type OdometryMessage,
  type TransformMessage,
} from "./messages.ts";
import { frameName, odometryPoseOf, secondsIn, type StampedPose2d, Transforms } from "./transforms.ts";

export interface BagRecording {
  readonly log: CarmenLog;
  readonly hasOdometry: boolean;
  /** What the reader chose, assumed or left out, as sentences for people. */
  readonly notes: readonly string[];
}

/** The topics to use; if undefined, the topics with the most messages. */
export interface BagTopics {
  readonly scan?: string;
  readonly odometry?: string;
}

interface BagScan extends Stamped {
  readonly ranges: Float32Array;
  readonly firstBeamRad: number;
  readonly stepRad: number;
  readonly sweepS?: number;
  readonly frame: string;
}

/** Limits of a recording in memory: a gigabyte of ranges, and poses. */
const RANGES_MAX = 250_000_000;
const POSES_MAX = 5_000_000;
const SCANS_MAX = 5_000_000;
const TOPICS_MAX = 10_000;
const SWEEP_MAX_S = 2;
/** Damaged messages are left out; with more than this share of them the recording is refused. */
const DAMAGED_SHARE_MAX = 0.1;
const SCAN_TYPES = "sensor_msgs/LaserScan or sensor_msgs/MultiEchoLaserScan";
/** The usual names of the robot's frame, if odometry names none. */
const BASES = ["base_footprint", "base_link"];

export class BagLog {
  readonly #decoder = new MessageDecoder();
  readonly #scans = new Map<string, BagScan[]>();
  readonly #odometry = new Map<string, { frame: string; poses: StampedPose2d[] }>();
  readonly #transforms = new Transforms(POSES_MAX);
  readonly #notes: string[] = [];
  #count = { scans: 0, ranges: 0, poses: 0, messages: 0, damaged: 0 };
  #damage = "";

  constructor(private readonly topics: BagTopics) {}

  note(text: string): void {
    this.#notes.push(text);
  }

  /** Throws a `RangeError` beyond the limits. */
  add(message: BagMessage): void {
    const { type, topic } = message;
    const hasEchoes = type === "sensor_msgs/MultiEchoLaserScan",
      isScan = hasEchoes || type === "sensor_msgs/LaserScan";
    if (isScan && (this.topics.scan ?? topic) !== topic) return;
    if (type === "nav_msgs/Odometry" && (this.topics.odometry ?? topic) !== topic) return;
    this.#count.messages++;
    let decoded: unknown;
    try {
      decoded = this.#decoder.decode(message);
    } catch (error) {
      this.#count.damaged++;
      this.#damage ||= `a ${type} of the topic ${topic}: ${(error as Error).message}`;
      return;
    }
    if (hasEchoes) this.#addScan(message, withFirstEchoes(decoded as MultiEchoLaserScanMessage));
    else if (isScan) this.#addScan(message, decoded as LaserScanMessage);
    else if (type === "nav_msgs/Odometry") this.#addOdometry(message, decoded as OdometryMessage);
    else this.#addTransforms(message, decoded as TransformMessage);
  }

  #addScan({ topic, loggedS }: BagMessage, message: LaserScanMessage): void {
    const { angle_min: firstBeamRad, angle_increment: stepRad, ranges } = message;
    if (!Number.isFinite(firstBeamRad) || !(Math.abs(stepRad) > 0 && Math.abs(stepRad) < Math.PI)) return;
    if (ranges.length === 0) return;
    this.#count.scans++;
    this.#count.ranges += ranges.length;
    if (this.#count.ranges > RANGES_MAX || this.#count.scans > SCANS_MAX) {
      throw new RangeError(
        `more than ${SCANS_MAX} scans or ${RANGES_MAX} beams; name one lidar with --topic, or split the recording`,
      );
    }
    const whole = (ranges.length - 1) * message.time_increment;
    const sweepS = whole > 0 && whole <= SWEEP_MAX_S ? whole : undefined;
    const stampS = secondsIn(message.header.stamp);
    // The stamp is that of the first beam.
    const timeS = (stampS > 0 ? stampS : loggedS) + (sweepS ?? 0);
    const scans = inMap(this.#scans, topic, () => []);
    scans.push({
      timeS,
      loggedS,
      ranges: usableRanges(message),
      firstBeamRad,
      stepRad,
      sweepS,
      frame: message.header.frame_id,
    });
  }

  #addOdometry({ topic, loggedS }: BagMessage, message: OdometryMessage): void {
    const pose = odometryPoseOf(message);
    if (!pose) return;
    if (++this.#count.poses > POSES_MAX) throw new RangeError(`more than ${POSES_MAX} poses of odometry`);
    const stampS = secondsIn(message.header.stamp);
    const found = inMap(this.#odometry, topic, () => ({ frame: message.child_frame_id, poses: [] }));
    found.poses.push({ timeS: stampS > 0 ? stampS : loggedS, loggedS, pose });
  }

  #addTransforms({ loggedS }: BagMessage, { transforms }: TransformMessage): void {
    for (const one of transforms) this.#transforms.add(one, loggedS);
  }

  /** The recording. Throws a `RangeError` whose message continues the recording's name. */
  finish(): BagRecording {
    const { messages, damaged } = this.#count;
    if (damaged > 0) {
      if (damaged > DAMAGED_SHARE_MAX * messages) {
        throw new RangeError(`has ${damaged} damaged messages of ${messages}; the first is ${this.#damage}`);
      }
      this.note(`${damaged} damaged messages are left out; the first is ${this.#damage}`);
    }
    const chosen = this.#chosen("scans", this.#scans, ([, scans]) => scans.length);
    if (!chosen) {
      const wanted = this.topics.scan === undefined ? "" : ` on the topic ${this.topics.scan}`;
      throw new RangeError(`has no scans${wanted}: wanted messages of the type ${SCAN_TYPES}`);
    }
    const odometry = this.#chosenOdometry();
    const lagS = usualLag(odometry?.poses ?? chosen[1]);
    const scans = inOrder(this.#byClock(lagS, "the scans", chosen[1]));
    const poses = inOrder(this.#byClock(lagS, "odometry", odometry?.poses ?? []))
      .map(({ timeS, pose }) => ({ timeS, pose }));
    const facts = this.#factsOf(scans[0]?.frame ?? "", odometry?.frame);
    return {
      log: {
        scans: scans.map((scan): CarmenScan => {
          const pose = poseAt(poses, scan.timeS);
          const { firstBeamRad, stepRad, sweepS } = scan;
          const sensor: SensorFacts = { ...facts, firstBeamRad, stepRad, sweepS };
          const laser = compose2d(pose, facts.lidar ?? IDENTITY_2D);
          return { timeS: scan.timeS, ranges: scan.ranges, laser, odometry: pose, sensor };
        }),
        odometry: poses,
      },
      hasOdometry: poses.length > 0,
      notes: this.#notes,
    };
  }

  #byClock<T extends Stamped>(lagS: number, what: string, given: readonly T[]): readonly T[] {
    const { messages, movedS } = byClock(lagS, given);
    const offS = Math.abs(movedS).toFixed(1);
    if (movedS !== 0) {
      this.note(`the clock of ${what} is off by ${offS} s: the times of recording correct it`);
    }
    return messages;
  }

  #chosenOdometry(): { readonly frame: string; readonly poses: readonly StampedPose2d[] } | undefined {
    const chosen = this.#chosen("odometry", this.#odometry, ([, { poses }]) => poses.length);
    if (chosen) return chosen[1];
    const found = this.topics.odometry === undefined ? this.#transforms.odometry() : undefined;
    if (found) this.note(`odometry is that of the transforms from odom to ${found.frame}`);
    else {this.note(
        "there is no odometry (nav_msgs/Odometry, or transforms from odom): the map is made of scans alone",
      );}
    return found;
  }

  /** The entry with the most messages. */
  #chosen<T>(
    what: string,
    found: ReadonlyMap<string, T>,
    sizeOf: (entry: [string, T]) => number,
  ): [string, T] | undefined {
    const [most, ...others] = [...found].sort((a, b) => sizeOf(b) - sizeOf(a) || (a[0] < b[0] ? -1 : 1));
    if (most && others.length > 0) {
      const shown = others.slice(0, 9).map((entry) => `${entry[0]} (${sizeOf(entry)})`).join(", ");
      this.note(`${what} are those of ${most[0]} (${sizeOf(most)}); there are others: ${shown}`);
    }
    return most;
  }

  /** The place of the frame of the scans on the robot. */
  #factsOf(
    frame: string,
    moved: string | undefined,
  ): { readonly lidar?: Pose2d; readonly isUpsideDown: boolean } {
    for (const base of [...(moved ? [moved] : []), ...BASES]) {
      const place = this.#transforms.between(frame, base);
      if (!place) continue;
      if (place.isUpsideDown) {
        this.note(`the lidar ${frameName(frame)} hangs upside down, as its transform says`);
      }
      return { lidar: place.pose, isUpsideDown: place.isUpsideDown };
    }
    if (frameName(frame) !== frameName(moved ?? frame)) {
      this.note(
        `no transform says where ${frameName(frame)} is on ${
          frameName(moved!)
        }: it counts as the robot's place, unless ` +
          "--lidar-pose says otherwise",
      );
    }
    return { isUpsideDown: false };
  }
}

/** A beam without an echo has no return. */
function withFirstEchoes({ ranges, ...scan }: MultiEchoLaserScanMessage): LaserScanMessage {
  return { ...scan, ranges: Float32Array.from(ranges, ({ echoes }) => echoes[0] ?? NaN) };
}

/**
 * A range below the minimum means that the beam measured nothing (0). A range above the maximum, infinity and NaN
 * mean no return.
 */
function usableRanges({ ranges, range_min, range_max }: LaserScanMessage): Float32Array {
  return ranges.map((range) => {
    if (range < range_min || range === -Infinity) return 0;
    return range >= 0 && (range <= range_max || !(range_max > 0)) ? range : Infinity;
  });
}

/** Sorted by time, without duplicate times. */
function inOrder<T extends { readonly timeS: number }>(values: readonly T[]): T[] {
  const sorted = values.toSorted((a, b) => a.timeS - b.timeS);
  return sorted.filter(({ timeS }, n) => n === 0 || timeS > (sorted[n - 1]?.timeS ?? NaN));
}

/** The pose at a time: between those before and after it. */
function poseAt(poses: readonly CarmenOdometry[], timeS: number): Pose2d {
  const at = firstIndex(poses.length, (index) => !((poses[index]?.timeS ?? Infinity) < timeS));
  const before = poses[at - 1], after = poses[at];
  if (!before || !after) return (before ?? after)?.pose ?? IDENTITY_2D;
  return interpolate2d(before.pose, after.pose, (timeS - before.timeS) / (after.timeS - before.timeS));
}

function inMap<V>(map: Map<string, V>, key: string, make: () => V): V {
  const found = map.get(key);
  if (found) return found;
  if (map.size >= TOPICS_MAX) throw new RangeError(`more than ${TOPICS_MAX} topics`);
  const made = make();
  map.set(key, made);
  return made;
}
