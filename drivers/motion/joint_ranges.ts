/**
 * Narrower or wider ranges for joints, for planning alone: `input_range_override`.
 *
 * People set them so that an arm does not wind up its cables. The arm itself keeps its own limits.
 */

import { SvcError } from "../../lib/base/error.ts";
import { type Infer, mapOf, number, object } from "../../lib/base/schema/schema.ts";
import type { FrameSystem } from "../../lib/geometry/frame_system.ts";
import type { Joint, KinematicModel } from "../../lib/geometry/kinematics.ts";
import { degrees } from "../../lib/geometry/pose.ts";

const rangeField = object({
  min: number("radians or mm").default(0),
  max: number("radians or mm").default(0),
}).with((range, at) =>
  range.min <= range.max
    ? range
    : at.error(`found a min of ${range.min} above the max of ${range.max}, wanted the smaller number first`)
);

export const jointRangesField = mapOf(
  mapOf(rangeField, "ranges by the joint's name or number, from 0"),
  "ranges of joints in which plans stay, by the name of the arm",
);

export type JointRanges = NonNullable<Infer<typeof jointRangesField>>;

/**
 * The models of the parts with ranges, by part.
 *
 * @throws unknown (the published code) for an arm or a joint that does not exist
 */
export function rangedModels({ parts }: FrameSystem, ranges: JointRanges): Map<string, KinematicModel> {
  const models = new Map<string, KinematicModel>();
  for (const [name, joints] of Object.entries(ranges)) {
    const part = parts.find((one) => one.name === name);
    if (!part) throw refusal(`there is no frame "${name}"`);
    if (!part.kinematics) throw refusal(`${name} has no joints`);
    models.set(name, ranged(name, part.kinematics, joints));
  }
  return models;
}

function ranged(name: string, model: KinematicModel, ranges: JointRanges[string]): KinematicModel {
  const joints = [...model.joints];
  for (const [key, { min, max }] of Object.entries(ranges)) {
    const byName = joints.findIndex(({ id }) => id === key);
    const index = byName >= 0 ? byName : joints.findIndex((_, at) => key === String(at));
    const joint = joints[index];
    if (!joint) {
      const known = joints.map(({ id }) => id).join(", ");
      throw refusal(
        `${name} has no joint "${key}", wanted a number from 0 to ${joints.length - 1} or one of ${known}`,
      );
    }
    joints[index] = { ...joint, min: inUnit(joint, min), max: inUnit(joint, max) };
  }
  return { ...model, joints };
}

function inUnit({ type }: Joint, value: number): number {
  return type === "revolute" ? degrees(value) : value;
}

function refusal(problem: string): SvcError {
  return new SvcError("unknown", `input_range_override: ${problem}`);
}
