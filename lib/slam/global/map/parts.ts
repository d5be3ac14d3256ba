/**
 * The parts of a map as global SLAM holds them: submaps and nodes with their places in the pose graph.
 *
 * The room owns these parts, and their conversion from and to the state of a map, which is saved and loaded.
 */

import type { QuaternionTuple } from "../../local/gravity.ts";
import type { OdometryVerdicts } from "../../local/odometry/proof.ts";
import type { Submap } from "../../local/submaps.ts";
import type { Pose2d } from "../../pose2d.ts";
import type { DegenerateDirection } from "../pose_graph.ts";

export interface MapSubmap {
  readonly trajectory: number;
  readonly index: number;
  readonly submap: Submap;
  /** Its pose in the pose graph. */
  readonly variable: number;
  /** How far the robot had driven when the submap began. */
  readonly pathM: number;
  /** The nodes whose scans it holds. */
  readonly nodes: MapNode[];
}

export interface MapNode {
  readonly trajectory: number;
  readonly index: number;
  readonly ticks: bigint;
  readonly localPose: Pose2d;
  readonly gravityAlignment: QuaternionTuple;
  /** x, y, … */
  readonly points: Float64Array;
  readonly variable: number;
  readonly pathM: number;
  /** The average score of scans on the latest scans at this time; undefined if unknown. */
  readonly usualScore?: number;
  /**
   * The direction, relative to the robot, in which the scan constrained its movement little; undefined if there is none
   * or it is unknown.
   */
  readonly degenerate?: DegenerateDirection;
  /** The verdicts on odometry for the motion from the node before; undefined if unknown. */
  readonly verdicts?: OdometryVerdicts;
  /** The submaps that hold its scan, the older first. */
  readonly submaps: readonly MapSubmap[];
}

/** A loop closure: the pose of a node in a submap that does not contain its scan. */
export interface Closure {
  readonly submap: MapSubmap;
  readonly node: MapNode;
  readonly pose: Pose2d;
  readonly score: number;
  /** The direction that it constrains least, in the frame of the node; undefined if there is none or it is unknown. */
  readonly degenerate?: DegenerateDirection;
}
