/**
 * A machine's frame system as models see it: a model needs it if it moves the carrier of a requested part.
 */

import { type FramePart, type FrameSystem, type PoseInFrame, WORLD } from "../geometry/frame_system.ts";
import { fromPose, IDENTITY_POSE, type RigidTransform } from "../geometry/pose.ts";
import type { ResourceName } from "./name.ts";
import type { Call } from "./resource.ts";

/** Everything with a place, at one moment. */
export interface Scene {
  /** The frames. */
  readonly system: FrameSystem;
  /** Joint positions (degrees, millimetres) of every part that has joints, by part. */
  readonly inputs: ReadonlyMap<string, readonly number[]>;
  /** The resource that owns the joints, by part. */
  readonly movers: ReadonlyMap<string, ResourceName>;
}

/** The frame system of a machine. */
export interface FrameView {
  /** The frame of a resource: it has a name of its own, or the resource's. `undefined` if the resource has none. */
  frameOf(name: ResourceName): string | undefined;
  /**
   * The scene, with further frames that exist for this one question.
   *
   * @throws invalid_argument for frames that cannot be placed; the error of any part that does not report its
   * joints
   */
  scene(supplemental: readonly FramePart[], call: Call): Promise<Scene>;
  /**
   * The pose as seen from the frame `destination`.
   *
   * @throws unknown naming the existing frames; invalid_argument for supplemental frames without a place
   */
  transformPose(
    source: PoseInFrame,
    destination: string,
    supplemental: readonly FramePart[],
    call: Call,
  ): Promise<PoseInFrame>;
}

/** Where a resource is on the machine, in millimetres; `undefined` if it has no frame. Throws as `transformPose` does. */
export async function placeInWorld(
  frames: FrameView,
  name: ResourceName,
  call: Call,
): Promise<RigidTransform | undefined> {
  const referenceFrame = frames.frameOf(name);
  if (referenceFrame === undefined) return undefined;
  const own = { referenceFrame, pose: IDENTITY_POSE };
  return fromPose((await frames.transformPose(own, WORLD, [], call)).pose);
}
