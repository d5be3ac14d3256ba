/** A gripper without hardware: opens and closes at once, and never holds anything. */

import { type Gripper, GripperApi, type HoldingStatus } from "../../lib/api/actuators/gripper.ts";
import { type Kinematics, readModel } from "../../lib/api/shared/kinematics.ts";
import { object, text } from "../../lib/base/schema/schema.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import {
  checkJoints,
  decodeSva,
  type KinematicModel,
  modelGeometries,
} from "../../lib/geometry/kinematics.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakeGripper = model({
  api: GripperApi,
  name: "rdk:builtin:fake",
  doc: "A gripper without hardware: opens and closes at once, and never holds anything.",
  attributes: object({
    modelPath: text("path of a kinematics file, .json or .urdf; absent means no joints and no body")
      .key("model-path").aka("model_path"),
  }).required(),
  construct: async ({ name, attributes: { modelPath }, host }) =>
    new Fake(name, modelPath ? await readModel(host, modelPath, name.short) : rigid(name.short)),
});

/** A single link without size. */
function rigid(name: string): KinematicModel {
  const links = [{ id: "base_link", parent: "world" }];
  return decodeSva({ name, kinematic_param_type: "SVA", links, joints: [] });
}

class Fake extends BaseComponent implements Gripper {
  #inputs: readonly number[];

  constructor(name: ResourceName, private readonly kinematics: KinematicModel) {
    super(name);
    this.#inputs = kinematics.joints.map(() => 0);
  }

  open(): Promise<void> {
    this.#inputs = this.kinematics.joints.map(({ max }) => max);
    return Promise.resolve();
  }

  grab(): Promise<boolean> {
    this.#inputs = this.kinematics.joints.map(({ min }) => min);
    return Promise.resolve(false);
  }

  isHoldingSomething(): Promise<HoldingStatus> {
    return Promise.resolve({ isHoldingSomething: false });
  }

  getCurrentInputs(): Promise<readonly number[]> {
    return Promise.resolve(this.#inputs);
  }

  goToInputs(values: readonly number[]): Promise<void> {
    return Promise.try(() => {
      checkJoints(this.kinematics, values);
      this.#inputs = [...values];
    });
  }

  getKinematics(): Promise<Kinematics> {
    return Promise.resolve(this.kinematics.source);
  }

  override getGeometries(): Promise<Geometry[]> {
    return Promise.try(() => modelGeometries(this.kinematics, this.#inputs));
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }
}
