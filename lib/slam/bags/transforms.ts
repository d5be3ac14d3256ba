/**
 * Poses of frames on a robot, from its transforms (`tf`). Lengths are in metres; the latest transform of a frame
 * counts.
 */

import type { OdometryMessage, TransformMessage } from "./messages.ts";
import { type Pose2d, wrapAngle } from "../pose2d.ts";
import type { Stamped } from "./clocks.ts";
import {
  compose,
  eulerFromQuaternion,
  invert,
  normalized,
  type Quaternion,
  type RigidTransform,
  rotate,
} from "../../geometry/pose.ts";

type Transformed = TransformMessage["transforms"][number];

interface Edge {
  readonly parent: string;
  readonly pose: RigidTransform;
}

export interface StampedPose2d extends Stamped {
  readonly pose: Pose2d;
}

/** The lidar in the plane of the robot. */
export interface LidarMounting {
  readonly pose: Pose2d;
  readonly isUpsideDown: boolean;
}

const FRAMES_MAX = 10_000;
/** A longer chain of frames is a cycle. */
const DEPTH_MAX = 64;
/** The usual name of the odometry frame. */
const ODOMETRY_FRAME = /(?:^|\/)odom(?:_\w+)?$/;

export class Transforms {
  readonly #edges = new Map<string, Edge>();
  readonly #odometry = new Map<string, StampedPose2d[]>();

  /** `posesMax`: the limit of the poses that odometry in transforms may have. */
  constructor(private readonly posesMax: number) {}

  add({ header, child_frame_id, transform: { translation, rotation } }: Transformed, loggedS: number): void {
    const parent = frameName(header.frame_id), child = frameName(child_frame_id);
    const pose = rigidOf(translation, rotation);
    if (!pose || parent === child) return;
    if (!this.#edges.has(child) && this.#edges.size >= FRAMES_MAX) {
      throw new RangeError(`more than ${FRAMES_MAX} frames in the transforms`);
    }
    this.#edges.set(child, { parent, pose });
    if (!ODOMETRY_FRAME.test(parent)) return;
    const poses = this.#odometry.get(child) ?? [];
    this.#odometry.set(child, poses);
    poses.push({ timeS: secondsIn(header.stamp), loggedS, pose: flatOf(pose) });
    if (poses.length > this.posesMax) throw new RangeError(`more than ${this.posesMax} odometry transforms`);
  }

  /** The odometry in the transforms, and the frame that it moves: the frame with the most poses. */
  odometry(): { readonly frame: string; readonly poses: readonly StampedPose2d[] } | undefined {
    const [found] = [...this.#odometry].sort(([, a], [, b]) => b.length - a.length);
    return found && found[1].length > 1 ? { frame: found[0], poses: found[1] } : undefined;
  }

  /** A frame in another; undefined if no chain of transforms links the two. */
  between(frame: string, base: string): LidarMounting | undefined {
    const own = this.#chain(frameName(frame)), others = this.#chain(frameName(base));
    const common = own.find(([name]) => others.some(([other]) => other === name));
    if (!common) return undefined;
    const [, other] = others.find(([name]) => name === common[0])!;
    const pose = compose(invert(other), common[1]);
    const up = rotate(pose.rotation, { x: 0, y: 0, z: 1 }),
      ahead = rotate(pose.rotation, { x: 1, y: 0, z: 0 });
    const { x, y } = pose.translation;
    return { pose: { x, y, yaw: Math.atan2(ahead.y, ahead.x) }, isUpsideDown: up.z < 0 };
  }

  /** The frame itself and its ancestors, each with the frame's pose in it. */
  #chain(frame: string): [name: string, pose: RigidTransform][] {
    const rotation = { w: 1, x: 0, y: 0, z: 0 }, translation = { x: 0, y: 0, z: 0 };
    const chain: [string, RigidTransform][] = [[frame, { translation, rotation }]];
    for (let edge; (edge = this.#edges.get(chain.at(-1)![0])) && chain.length < DEPTH_MAX;) {
      chain.push([edge.parent, compose(edge.pose, chain.at(-1)![1])]);
    }
    return chain;
  }
}

/** Names of ROS 1 may begin with a slash. */
export function frameName(written: string): string {
  return written.replace(/^\/+/, "");
}

export function secondsIn({ sec, nsec }: { readonly sec: number; readonly nsec: number }): number {
  return sec + nsec / 1e9;
}

/** The pose of an odometry message in the plane; undefined if it has no numbers. */
export function odometryPoseOf({ pose: { pose: { position, orientation } } }: OdometryMessage) {
  const pose = rigidOf(position, orientation);
  return pose && flatOf(pose);
}

function rigidOf({ x, y, z }: RigidTransform["translation"], by: Quaternion): RigidTransform | undefined {
  const size = Math.hypot(by.x, by.y, by.z, by.w);
  if (!Number.isFinite(x + y + z) || !(size > 0.5 && size < 2)) return undefined;
  return { translation: { x, y, z }, rotation: normalized(by) };
}

function flatOf({ translation: { x, y }, rotation }: RigidTransform): Pose2d {
  return { x, y, yaw: wrapAngle(eulerFromQuaternion(rotation).yaw) };
}
