import { assert } from "@std/assert";
import type { Kinematics } from "../../lib/api/shared/kinematics.ts";
import { type KinematicModel, parseKinematics } from "../../lib/geometry/kinematics.ts";

/** The model that a component describes; every description can be read. */
export async function modelOf(
  component: { getKinematics(): Promise<Kinematics> },
): Promise<KinematicModel> {
  const { format, bytes } = await component.getKinematics();
  assert(format !== "unspecified", "the component does not describe itself");
  return await parseKinematics(bytes, format);
}
