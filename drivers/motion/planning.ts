/** The plan of a movement: which arm has to move, and the way of its joints. Loaded with the first movement. */

import type { Movement } from "../../lib/api/services/motion.ts";
import { SvcError } from "../../lib/base/error.ts";
import { freeWay, straightWay } from "../../lib/geometry/joint_path.ts";
import type { Scene } from "../../lib/resource/frame_view.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { type JointRanges, rangedModels } from "./joint_ranges.ts";
import { taskOf } from "./task.ts";

export interface PlanSettings {
  /** Distance in millimetres that the arm keeps from obstacles. */
  readonly collisionBufferMm: number;
  readonly inputRangeOverride: JointRanges;
}

/** A way was looked over from where the joints stood. Largest difference of a joint, in degrees or millimetres. */
const START_TOLERANCE = 1;

/** What the planned movement does. */
export interface PlannedWay {
  readonly arm: ResourceName;
  /** The joint positions on the way, in degrees or millimetres. */
  readonly way: readonly (readonly number[])[];
  /** Throws `failed_precondition` if the joints are elsewhere than at the beginning of the way. */
  requireStart(joints: readonly number[]): void;
}

/**
 * The arm and its joint positions on the way. `pause` gives other work a turn; if it
 * rejects, the planning ends.
 */
export async function planWay(
  scene: Scene,
  movement: Movement,
  { collisionBufferMm, inputRangeOverride }: PlanSettings,
  pause: () => Promise<void>,
): Promise<PlannedWay> {
  const models = rangedModels(scene.system, inputRangeOverride);
  const { arm, part, reach, line } = taskOf(scene, movement, collisionBufferMm);
  const planned = { ...reach, model: models.get(part) ?? reach.model, pause };
  const way = line ? await straightWay(planned, line) : await freeWay(planned);
  const requireStart = (joints: readonly number[]) => {
    const off = reach.start.findIndex((start, index) =>
      !(Math.abs((joints[index] ?? NaN) - start) <= START_TOLERANCE)
    );
    if (off < 0) return;
    const found = `joint ${off} of ${arm.short} went from ${reach.start[off]} to ${
      joints[off]
    } while the way was planned`;
    throw new SvcError("failed_precondition", `moving ${movement.componentName}: ${found}; try again`);
  };
  return { arm, way, requireStart };
}
