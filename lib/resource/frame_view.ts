/**
 * The frame system of a machine, as models see it: for one that a request asks to move what rides on others.
 */

import type { FramePart, FrameSystem, PoseInFrame } from "../geometry/frame_system.ts";
import type { ResourceName } from "./name.ts";
import type { Call } from "./resource.ts";

/** Everything that has a place, as it is at one moment. */
export interface Scene {
  readonly system: FrameSystem;
  /** Joint positions by part, of every part that has joints (degrees, millimetres). */
  readonly inputs: ReadonlyMap<string, readonly number[]>;
  /** By part: the resource that has these joints. */
  readonly movers: ReadonlyMap<string, ResourceName>;
}

export interface FrameView {
  /**
   * With frames that are known for this one question.
   *
   * @throws invalid_argument for those that cannot be placed; what a part throws that does not tell its joints
   */
  scene(supplemental: readonly FramePart[], call: Call): Promise<Scene>;
  /** @throws unknown naming the frames there are; invalid_argument for supplemental frames without a place */
  transformPose(
    source: PoseInFrame,
    destination: string,
    supplemental: readonly FramePart[],
    call: Call,
  ): Promise<PoseInFrame>;
}
