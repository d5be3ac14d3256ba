/** Facts about a lidar that a recording may lack: its pose on the robot, and the angles of its beams. */

import type { Pose2d } from "../pose2d.ts";

export interface SensorFacts {
  /** The lidar on the robot. */
  readonly lidar?: Pose2d;
  /** The angle of the first beam, counter-clockwise from straight ahead. */
  readonly firstBeamRad?: number;
  /** From one beam to the next; negative if they go clockwise, as those of a lidar that hangs upside down. */
  readonly stepRad?: number;
  /** How long the lidar takes from its first to its last beam; the time of a scan is that of its last beam. */
  readonly sweepS?: number;
  /**
   * Whether the lidar hangs upside down, so that its beams go clockwise although the log counts them
   * counter-clockwise.
   */
  readonly isUpsideDown?: boolean;
}

const DEGREE = Math.PI / 180;
const OFFSET_MAX_M = 100;
const ANGLE_MAX_DEG = 360;
const SWEEP_MAX_S = 2;

/**
 * Reads `{"lidar": {"x": 0.22, "y": 0, "yaw_deg": 0}, "first_beam_deg": -90, "step_deg": 0.25, "sweep_s": 0.18,
 * "upside_down": true}`, each key optional. Throws a `RangeError` that names the key.
 */
export function readSensorFacts(text: string): SensorFacts {
  const all = fieldsOf(parsed(text), "", ["lidar", "first_beam_deg", "step_deg", "sweep_s", "upside_down"]);
  const lidar = all.lidar === undefined ? undefined : fieldsOf(all.lidar, "lidar", ["x", "y", "yaw_deg"]);
  const stepDeg = numberAt(all.step_deg, "step_deg", ANGLE_MAX_DEG);
  if (stepDeg === 0) throw new RangeError("step_deg: found 0, wanted another angle");
  const { upside_down: isUpsideDown } = all;
  if (isUpsideDown !== undefined && typeof isUpsideDown !== "boolean") {
    throw new RangeError(`upside_down: found ${JSON.stringify(isUpsideDown)}, wanted true or false`);
  }
  const firstDeg = numberAt(all.first_beam_deg, "first_beam_deg", ANGLE_MAX_DEG);
  return {
    lidar: lidar && {
      x: numberAt(lidar.x, "lidar.x", OFFSET_MAX_M) ?? 0,
      y: numberAt(lidar.y, "lidar.y", OFFSET_MAX_M) ?? 0,
      yaw: (numberAt(lidar.yaw_deg, "lidar.yaw_deg", ANGLE_MAX_DEG) ?? 0) * DEGREE,
    },
    firstBeamRad: firstDeg === undefined ? undefined : firstDeg * DEGREE,
    stepRad: stepDeg === undefined ? undefined : stepDeg * DEGREE,
    sweepS: numberAt(all.sweep_s, "sweep_s", SWEEP_MAX_S, 0),
    isUpsideDown,
  };
}

/** Reads `X,Y,YAW_DEG`, in metres and degrees; undefined for any other text. */
export function lidarPoseOf(text: string): Pose2d | undefined {
  const parts = text.split(",").map((part) => part.trim() === "" ? NaN : Number(part));
  const [x = NaN, y = NaN, yawDeg = NaN] = parts;
  const isPose = parts.length === 3 && parts.every(Number.isFinite) && Math.abs(x) <= OFFSET_MAX_M &&
    Math.abs(y) <= OFFSET_MAX_M && Math.abs(yawDeg) <= ANGLE_MAX_DEG;
  return isPose ? { x, y, yaw: yawDeg * DEGREE } : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new RangeError("the text is no JSON");
  }
}

function fieldsOf(
  value: unknown,
  path: string,
  known: readonly string[],
): { readonly [key: string]: unknown } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RangeError(`${path === "" ? "the file" : path}: wanted an object`);
  }
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown !== undefined) {
    throw new RangeError(
      `${path === "" ? "" : `${path}.`}${unknown}: an unknown key, wanted ${known.join(", ")}`,
    );
  }
  return value as { readonly [key: string]: unknown };
}

function numberAt(value: unknown, path: string, most: number, least = -most): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && value >= least && value <= most) return value;
  throw new RangeError(`${path}: found ${JSON.stringify(value)}, wanted a number from ${least} to ${most}`);
}
