/** The plan of a movement: which arm has to move, and the way of its joints. Loaded with the first movement. */

import type { Movement } from "../../lib/api/services/motion.ts";
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

/**
 * The arm and its joint positions on the way, in degrees or millimetres. `pause` gives other work a turn; if it
 * rejects, the planning ends.
 */
export async function planWay(
  scene: Scene,
  movement: Movement,
  { collisionBufferMm, inputRangeOverride }: PlanSettings,
  pause: () => Promise<void>,
): Promise<{ readonly arm: ResourceName; readonly way: readonly (readonly number[])[] }> {
  const models = rangedModels(scene.system, inputRangeOverride);
  const { arm, part, reach, line } = taskOf(scene, movement, collisionBufferMm);
  const planned = { ...reach, model: models.get(part) ?? reach.model, pause };
  return { arm, way: line ? await straightWay(planned, line) : await freeWay(planned) };
}
