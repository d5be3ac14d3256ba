/**
 * Logs of robots in the text format of CARMEN: laser scans (`FLASER`) and wheel odometry (`ODOM`).
 *
 * The room owns what scores a mapper against recordings: their readers, the relations between poses, the measure.
 */

import type { Pose2d } from "../pose2d.ts";

export interface CarmenScan {
  readonly timeS: number;
  readonly ranges: Float32Array;
  /** The laser's pose in the log's frame: odometry, or the result of another program. */
  readonly laser: Pose2d;
  /** Odometry at the time of the scan. */
  readonly odometry: Pose2d;
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
const FLASER_FIELDS_AFTER = 9;

/** Reads a log; lines of other kinds are left out. */
export function readCarmenLog(text: string): CarmenLog {
  const scans: CarmenScan[] = [];
  const odometry: CarmenOdometry[] = [];
  let lineNumber = 0;
  for (const line of logLines(text)) {
    lineNumber++;
    const where = `line ${lineNumber}`;
    if (line.startsWith("FLASER ")) scans.push(scanOf(fieldsOf(line, where), where));
    if (line.startsWith("ODOM ")) odometry.push(odometryOf(fieldsOf(line, where), where));
  }
  return { scans, odometry };
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

function scanOf(fields: readonly string[], where: string): CarmenScan {
  const count = Number(fields[1]);
  if (!Number.isInteger(count) || count < 1 || count > BEAMS_MAX) {
    throw new RangeError(`${where}: FLASER of "${fields[1]}" ranges; want 1 to ${BEAMS_MAX}`);
  }
  if (fields.length < 2 + count + FLASER_FIELDS_AFTER - 2) {
    throw new RangeError(`${where}: FLASER of ${count} ranges has ${fields.length} fields only`);
  }
  const ranges = new Float32Array(count);
  for (let beam = 0; beam < count; beam++) ranges[beam] = numberOf(fields[2 + beam], where);
  const after = fields.slice(2 + count, 2 + count + 7).map((one) => numberOf(one, where));
  return { timeS: after[6], ranges, laser: poseOf(after, 0), odometry: poseOf(after, 3) };
}

function odometryOf(fields: readonly string[], where: string): CarmenOdometry {
  const values = fields.slice(1, 8).map((one) => numberOf(one, where));
  if (values.length < 7) throw new RangeError(`${where}: ODOM has ${fields.length} fields; want at least 8`);
  return { timeS: values[6], pose: poseOf(values, 0) };
}

function poseOf(values: readonly number[], at: number): Pose2d {
  return { x: values[at], y: values[at + 1], yaw: values[at + 2] };
}

function numberOf(field: string | undefined, where: string): number {
  const value = Number(field);
  if (field === undefined || field === "" || !Number.isFinite(value)) {
    throw new RangeError(`${where}: "${field}" is no number`);
  }
  return value;
}

/**
 * The end points of a scan in the robot's frame. Beams go counter-clockwise from 90 degrees to the right; 180 or 181
 * of them are a degree apart, 360 or 361 half a degree, others share 180 degrees. A beam without a return has a very
 * great range, which the mapper's greatest range sorts out. `offset` is the laser on the robot.
 */
export function pointsOf(ranges: Float32Array, offset: Pose2d): Float32Array {
  const step = beamStep(ranges.length);
  const points = new Float32Array(3 * ranges.length);
  for (let beam = 0; beam < ranges.length; beam++) {
    const angle = offset.yaw - Math.PI / 2 + beam * step;
    points[3 * beam] = offset.x + ranges[beam] * Math.cos(angle);
    points[3 * beam + 1] = offset.y + ranges[beam] * Math.sin(angle);
  }
  return points;
}

function beamStep(beams: number): number {
  if (beams === 180 || beams === 181) return Math.PI / 180;
  if (beams === 360 || beams === 361) return Math.PI / 360;
  return Math.PI / Math.max(1, beams - 1);
}
