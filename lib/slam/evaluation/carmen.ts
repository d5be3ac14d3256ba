/**
 * Logs of robots in the text format of CARMEN: laser scans (`FLASER`, `RLASER`, `ROBOTLASER1`), wheel odometry (`ODOM`)
 * and facts about the laser (`PARAM`).
 *
 * The room owns the evaluation of a mapper by recordings: their readers, the relations between poses, the measure.
 */

import { between2d, IDENTITY_2D, type Pose2d, wrapAngle } from "../pose2d.ts";
import type { SensorFacts } from "./sensor.ts";

export interface CarmenScan {
  readonly timeS: number;
  /** Infinite without a return; 0 for a beam that measured nothing. */
  readonly ranges: Float32Array;
  /** The laser's pose in the log's frame: odometry, or the result of another program. */
  readonly laser: Pose2d;
  /** Odometry at the time of the scan. */
  readonly odometry: Pose2d;
  /** The laser's pose on the robot and the angles of its beams, if the log contains them. */
  readonly sensor?: SensorFacts;
}

export interface CarmenOdometry {
  readonly timeS: number;
  readonly pose: Pose2d;
}

export interface CarmenLog {
  readonly scans: readonly CarmenScan[];
  readonly odometry: readonly CarmenOdometry[];
}

const BEAMS_MAX = 10_000;
const LINE_CHARS_MAX = 200_000;
/** Fields of `FLASER` after the ranges; the last two, a host and a time, may be missing. */
const FLASER_FIELDS_AFTER = 7;
const DEGREE = Math.PI / 180;
/** If the laser's pose relative to the robot varies by no more than this, it is the laser's place on the robot. */
const SAME_M = 0.003;
const SAME_RAD = 0.003;
/** Largest distance of a laser from the robot's origin. */
const OFFSET_MAX_M = 3;
/** The robot must have turned by this much, because otherwise a pose from another program would look the same. */
const TURNED_RAD = 0.5;

/** Reads a log; lines of other kinds are left out. */
export function readCarmenLog(text: string): CarmenLog {
  const scans: CarmenScan[] = [];
  const odometry: CarmenOdometry[] = [];
  const params = new Map<string, string>();
  let lineNumber = 0;
  for (const line of logLines(text)) {
    lineNumber++;
    const where = `line ${lineNumber}`;
    const isRear = line.startsWith("RLASER ");
    if (line.startsWith("FLASER ") || isRear) {
      scans.push(plainScan(fieldsOf(line, where), where, sensorBy(params, isRear)));
    }
    if (line.startsWith("ROBOTLASER1 ") || line.startsWith("ROBOTLASER2 ")) {
      scans.push(robotScan(fieldsOf(line, where), where));
    }
    if (line.startsWith("ODOM ")) odometry.push(odometryOf(fieldsOf(line, where), where));
    if (line.startsWith("PARAM ")) {
      const [, key, value] = fieldsOf(line, where);
      if (key !== undefined && value !== undefined) params.set(key, value);
    }
  }
  return { scans: withLidarPose(scans), odometry };
}

/** Lines one by one: a log has megabytes, and an array of its lines would double them. */
export function* logLines(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    const found = text.indexOf("\n", at);
    const end = found < 0 ? text.length : found;
    yield text.slice(at, end).trimEnd();
    at = end + 1;
  }
}

function fieldsOf(line: string, where: string): string[] {
  if (line.length > LINE_CHARS_MAX) throw new RangeError(`${where}: more than ${LINE_CHARS_MAX} characters`);
  return line.split(/\s+/);
}

/** FLASER or RLASER: count, ranges, the laser's pose, odometry, time. */
function plainScan(fields: readonly string[], where: string, sensor: SensorFacts | undefined): CarmenScan {
  const [kind = ""] = fields, count = countOf(fields[1], where, kind);
  if (fields.length < 2 + count + FLASER_FIELDS_AFTER) {
    throw new RangeError(`${where}: ${kind} of ${count} ranges has ${fields.length} fields only`);
  }
  const ranges = rangesIn(fields, 2, count, where);
  const after = fields.slice(2 + count, 2 + count + 7).map((one) => numberOf(one, where));
  return { timeS: after[6] ?? NaN, ranges, laser: poseOf(after, 0), odometry: poseOf(after, 3), sensor };
}

/** The facts about the front or rear laser in the parameters before a scan; undefined if there are none. */
function sensorBy(params: ReadonlyMap<string, string>, isRear: boolean): SensorFacts | undefined {
  const side = isRear ? "rear" : "front";
  const given = (key: string) => {
    const value = Number(params.get(key) ?? NaN);
    return Number.isFinite(value) ? value : undefined;
  };
  const x = given(`robot_${side}laser_offset`), y = given(`robot_${side}laser_side_offset`);
  const yaw = given(`robot_${side}laser_angular_offset`);
  const stepDeg = given(`laser_${side}_laser_resolution`), viewDeg = given(`laser_${side}_laser_fov`);
  const hasPlace = isRear || x !== undefined || y !== undefined || yaw !== undefined;
  const ahead = (isRear ? -1 : 1) * (x ?? 0);
  const lidar = hasPlace ? { x: ahead, y: y ?? 0, yaw: yaw ?? (isRear ? Math.PI : 0) } : undefined;
  if (!lidar && stepDeg === undefined && viewDeg === undefined) return undefined;
  return {
    lidar,
    stepRad: stepDeg === undefined || !(stepDeg > 0) ? undefined : stepDeg * DEGREE,
    firstBeamRad: viewDeg === undefined ? undefined : -viewDeg / 2 * DEGREE,
  };
}

/**
 * ROBOTLASER1: type, first angle, view, step, greatest range, accuracy, mode, count, ranges, count of remissions,
 * remissions, poses of laser and robot, velocities and distances, time.
 */
function robotScan(fields: readonly string[], where: string): CarmenScan {
  const [kind = ""] = fields;
  const [firstBeamRad = NaN, , stepRad = NaN, maxRangeM = NaN] = [2, 3, 4, 5]
    .map((at) => numberOf(fields[at], where));
  const count = countOf(fields[8], where, kind), remissionsAt = 9 + count;
  const remissions = Number(fields[remissionsAt]);
  const posesAt = remissionsAt + 1 + remissions;
  if (!Number.isInteger(remissions) || remissions < 0 || fields.length < posesAt + 12) {
    throw new RangeError(`${where}: ${kind} of ${count} ranges has ${fields.length} fields only`);
  }
  const ranges = rangesIn(fields, 9, count, where)
    .map((range) => maxRangeM > 0 && range >= maxRangeM ? Infinity : range);
  const after = fields.slice(posesAt, posesAt + 12).map((one) => numberOf(one, where));
  const laser = poseOf(after, 0), odometry = poseOf(after, 3);
  const sensor = { firstBeamRad, stepRad: stepRad === 0 ? undefined : stepRad };
  return { timeS: after[11] ?? NaN, ranges, laser, odometry, sensor };
}

function countOf(field: string | undefined, where: string, kind: string): number {
  const count = Number(field);
  if (Number.isInteger(count) && count >= 1 && count <= BEAMS_MAX) return count;
  throw new RangeError(`${where}: ${kind} of "${field}" ranges; want 1 to ${BEAMS_MAX}`);
}

/** `inf` and `nan` mean no return. */
function rangesIn(fields: readonly string[], from: number, count: number, where: string): Float32Array {
  const ranges = new Float32Array(count);
  for (let beam = 0; beam < count; beam++) {
    const field = fields[from + beam];
    ranges[beam] = /^[+-]?(?:inf|infinity|nan)$/i.test(field ?? "") ? Infinity : numberOf(field, where);
  }
  return ranges;
}

/**
 * Adds the laser's place on the robot if the log does not state it: on a path with turns, the poses of laser and robot
 * always have the same difference.
 */
function withLidarPose(scans: CarmenScan[]): CarmenScan[] {
  const open = scans.filter(({ sensor }) => !sensor?.lidar);
  const [first] = open;
  if (!first || open.length < 2) return scans;
  const place = between2d(first.odometry, first.laser);
  const isNowhere = Math.hypot(place.x, place.y) < SAME_M && Math.abs(place.yaw) < SAME_RAD;
  if (isNowhere || Math.hypot(place.x, place.y) > OFFSET_MAX_M) return scans;
  const isSame = open.every(({ odometry, laser }) => {
    const off = between2d(place, between2d(odometry, laser));
    return Math.hypot(off.x, off.y) < SAME_M && Math.abs(off.yaw) < SAME_RAD;
  });
  const turned = open.some(({ odometry }) =>
    Math.abs(wrapAngle(odometry.yaw - first.odometry.yaw)) > TURNED_RAD
  );
  if (!isSame || !turned) return scans;
  return scans.map((scan) =>
    scan.sensor?.lidar ? scan : { ...scan, sensor: { ...scan.sensor, lidar: place } }
  );
}

function odometryOf(fields: readonly string[], where: string): CarmenOdometry {
  const values = fields.slice(1, 8).map((one) => numberOf(one, where));
  if (values.length < 7) throw new RangeError(`${where}: ODOM has ${fields.length} fields; want at least 8`);
  return { timeS: values[6] ?? NaN, pose: poseOf(values, 0) };
}

function poseOf(values: readonly number[], at: number): Pose2d {
  return { x: values[at] ?? NaN, y: values[at + 1] ?? NaN, yaw: values[at + 2] ?? NaN };
}

function numberOf(field: string | undefined, where: string): number {
  const value = Number(field);
  if (field === undefined || field === "" || !Number.isFinite(value)) {
    throw new RangeError(`${where}: "${field}" is no number`);
  }
  return value;
}

/**
 * The end points of a scan in the robot's frame. Unless `sensor` says otherwise, the laser is where the robot is, and
 * beams go counter-clockwise: 541 or 1081 of them share 270 degrees; 180 or 181 are a degree apart, 360 or 361 half a
 * degree, from 90 degrees to the right; others share 180 degrees. A beam with a range of 0 or without a return gives no
 * numbers.
 */
export function pointsOf(
  ranges: Float32Array,
  { lidar = IDENTITY_2D, firstBeamRad, stepRad, isUpsideDown = false }: SensorFacts = {},
): Float32Array {
  const step = stepRad ?? beamStep(ranges.length);
  const first = firstBeamRad ?? firstBeam(ranges.length, step);
  const points = new Float32Array(3 * ranges.length);
  for (let beam = 0; beam < ranges.length; beam++) {
    const seen = first + beam * step, angle = lidar.yaw + (isUpsideDown ? -seen : seen);
    const given = ranges[beam] ?? NaN, range = given > 0 ? given : NaN;
    points[3 * beam] = lidar.x + range * Math.cos(angle);
    points[3 * beam + 1] = lidar.y + range * Math.sin(angle);
    if (!Number.isFinite(range)) points.fill(NaN, 3 * beam, 3 * beam + 3);
  }
  return points;
}

function beamStep(beams: number): number {
  if (beams === 180 || beams === 181) return Math.PI / 180;
  if (beams === 360 || beams === 361) return Math.PI / 360;
  if (beams === 541 || beams === 1081) return 1.5 * Math.PI / (beams - 1);
  return Math.PI / Math.max(1, beams - 1);
}

/** The middle of a scan of more than 180 degrees points ahead. */
function firstBeam(beams: number, step: number): number {
  const view = Math.abs(step) * (beams - 1);
  return view <= Math.PI + Math.abs(step) / 2 ? -Math.sign(step) * Math.PI / 2 : -step * (beams - 1) / 2;
}
