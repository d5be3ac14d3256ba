/**
 * `wrapper_arm`: another arm with kinematics from a file. Its joints are those of the other arm; poses, limits and shapes
 * come from the file.
 */

import { type Arm, ArmApi, type ArmProperties } from "../../lib/api/actuators/arm.ts";
import { type Mesh, readModel } from "../../lib/api/shared/kinematics.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type JsonObject, object, text } from "../../lib/base/schema/schema.ts";
import type { KinematicModel } from "../../lib/geometry/kinematics.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import type { Call } from "../../lib/resource/resource.ts";
import { JointArm, reachableJoints } from "./joint_arm.ts";

export const WrapperArm = model({
  api: ArmApi,
  name: "rdk:builtin:wrapper_arm",
  doc: "Another arm with the kinematics of a file: poses, limits and shapes come from the file.",
  attributes: object({
    armName: text("name of the other arm").key("arm-name").aka("arm_name").required().names("arm"),
    modelPath: text("path of the kinematics file, .json or .urdf").key("model-path").aka("model_path")
      .required(),
  }).required(),
  construct: async ({ name, attributes: { armName, modelPath }, dependencies, host, signal }) => {
    const kinematics = await readModel(host, modelPath, name.short);
    const actual = dependencies.get(ArmApi, armName);
    const joints = (await actual.getJointPositions({ signal })).length;
    if (joints === kinematics.joints.length) return new Wrapper(name, kinematics, actual);
    const found = `${modelPath} has ${kinematics.joints.length} joints and ${actual.name} ${joints}`;
    throw new SvcError("failed_precondition", `${name}: ${found}, wanted as many`);
  },
});

class Wrapper extends JointArm {
  constructor(name: ResourceName, kinematics: KinematicModel, private readonly actual: Arm) {
    super(name, kinematics);
  }

  getJointPositions(call?: Call): Promise<readonly number[]> {
    return this.actual.getJointPositions(call);
  }

  async moveToJointPositions(positions: readonly number[], call?: Call): Promise<void> {
    const goal = reachableJoints(this.kinematics, await this.getJointPositions(call), positions);
    await this.actual.moveToJointPositions(goal, call);
  }

  override get3dModels(call?: Call): Promise<{ readonly [name: string]: Mesh }> {
    return this.actual.get3dModels(call);
  }

  override getProperties(call?: Call): Promise<ArmProperties> {
    return this.actual.getProperties(call);
  }

  override setManualMode(manualMode: boolean, enabledForS: number, call?: Call): Promise<void> {
    return this.actual.setManualMode(manualMode, enabledForS, call);
  }

  override getManualMode(call?: Call): Promise<boolean> {
    return this.actual.getManualMode(call);
  }

  override doCommand(command: JsonObject, call?: Call): Promise<JsonObject> {
    return this.actual.doCommand(command, call);
  }

  stop(call?: Call): Promise<void> {
    return this.actual.stop(call);
  }

  isMoving(call?: Call): Promise<boolean> {
    return this.actual.isMoving(call);
  }
}
