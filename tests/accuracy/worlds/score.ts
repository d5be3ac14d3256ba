/** How far from the truth a mapper, odometry and scans alone end in a world. */

import { Mapper } from "../../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS, type OdometryReading, type RangeScan } from "../../../lib/slam/mapping.ts";
import { between2d, compose2d, type Pose2d } from "../../../lib/slam/pose2d.ts";
import type { World } from "./matrix.ts";
import { Ride } from "./ride.ts";

/** The rule: ours is at most this much worse than the better of the two, or nearer than that to the truth. */
const FACTOR_MAX = 1.1;
const NEAR_M = 0.05;
/** Never lost by more than a metre where one of the two is nearer than this. */
const LOST_M = 1;
const EASY_M = 0.3;

export interface WorldScore {
  readonly seed: number;
  readonly what: string;
  readonly oursM: number;
  readonly odometryM: number | undefined;
  readonly scansM: number;
  readonly holds: boolean;
  readonly isLost: boolean;
  readonly scans: number;
  readonly wayM: number;
  readonly wallMs: number;
}

export interface WorldPaths {
  readonly truth: readonly Pose2d[];
  readonly ours: readonly Pose2d[];
  readonly odometry: readonly Pose2d[];
  readonly scans: readonly Pose2d[];
}

export function scoreWorld(world: World): { readonly score: WorldScore; readonly paths: WorldPaths } {
  const ride = new Ride(world), readings = ride.odometry(), scans = [...ride.scans()];
  const began = performance.now();
  const ours = readings.length > 0 ? mapped(scans, readings, ride) : undefined;
  const wallMs = performance.now() - began;
  const alone = mapped(scans, [], ride);
  const truth = scans.map(({ timeS }) => ride.truthAt(timeS));
  const paths = {
    truth,
    ours: ours ?? alone,
    odometry: fromFirst(readings.map(({ pose }) => pose), ride.truthAt(readings[0]?.timeS ?? 0)),
    scans: alone,
  };
  const oursM = missed(paths.ours, ride), scansM = missed(paths.scans, ride);
  const odometryM = readings.length > 0 ? missed(paths.odometry, ride) : undefined;
  const bestM = Math.min(scansM, odometryM ?? Infinity);
  const score = {
    seed: world.seed,
    what: whatOf(world),
    oursM,
    odometryM,
    scansM,
    holds: oursM <= Math.max(NEAR_M, FACTOR_MAX * bestM),
    isLost: oursM > LOST_M && bestM < EASY_M,
    scans: scans.length,
    wayM: truth.reduce((sum, pose, k) => k === 0 ? 0 : sum + away(truth[k - 1], pose), 0),
    wallMs,
  };
  return { score, paths };
}

/**
 * The pose of each scan when the map is finished, as if the first were right. A scan that was left out has that of the
 * one before; those before the first that shows anything have none.
 */
function mapped(scans: readonly RangeScan[], odometry: readonly OdometryReading[], ride: Ride): Pose2d[] {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  mapper.keepScans();
  let next = 0;
  for (const scan of scans) {
    while (next < odometry.length && odometry[next].timeS <= scan.timeS) mapper.addOdometry(odometry[next++]);
    mapper.addScan(scan);
    while (mapper.work());
  }
  mapper.finish();
  const poses: Pose2d[] = [];
  let firstS = ride.endS, last: Pose2d | undefined;
  for (const { timeS } of scans) {
    last = mapper.scanPose(timeS) ?? last;
    if (!last) continue;
    firstS = Math.min(firstS, timeS);
    poses.push(last);
  }
  return fromFirst(poses, ride.truthAt(firstS));
}

/** The poses as if the first were this one. */
function fromFirst(poses: readonly Pose2d[], first: Pose2d): Pose2d[] {
  return poses.map((pose) => compose2d(first, between2d(poses[0], pose)));
}

function missed(path: readonly Pose2d[], ride: Ride): number {
  const last = path.at(-1);
  return last ? away(last, ride.truthAt(ride.endS)) : Infinity;
}

function away(a: Pose2d, b: Pose2d): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

function whatOf({ place, fault, isOther, speedMps, turnRps, walkers, lidar }: World): string {
  const { beams, stepRad, driftShare, scanHz, noiseM, sweepS, maxRangeM } = lidar;
  const step = (stepRad * 180 / Math.PI).toFixed(2);
  return [
    place,
    `${fault}${isOther ? " (b)" : ""}`,
    `${speedMps.toFixed(2)} m/s, ${turnRps.toFixed(1)} rad/s`,
    `${beams} beams ${step}°${driftShare > 0 ? " drifting" : ""} to ${maxRangeM} m, ${scanHz} Hz`,
    `noise ${(1000 * noiseM).toFixed(0)} mm, sweep ${sweepS.toFixed(2)} s, ${walkers.length} people`,
  ].join(" | ");
}
