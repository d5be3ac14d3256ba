/**
 * An arm without hardware. It has the joints of a known arm or of a kinematics file and reaches each goal at
 * once.
 */

import { ArmApi, type ArmProperties } from "../../lib/api/actuators/arm.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { object } from "../../lib/base/schema/schema.ts";
import type { KinematicModel } from "../../lib/geometry/kinematics.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { checkJointSettings, JOINT_ATTRIBUTES, JointArm, jointModel, reachableJoints } from "./joint_arm.ts";

export const FakeArm = model({
  api: ArmApi,
  name: "rdk:builtin:fake",
  doc: "An arm without hardware: has the joints of a known arm, and reaches each goal at once.",
  attributes: object(JOINT_ATTRIBUTES).required().with(checkJointSettings),
  construct: async ({ name, attributes, host, clock }) =>
    new Fake(name, await jointModel(host, attributes, name, "fake arm"), clock),
});

class Fake extends JointArm {
  #joints: readonly number[];
  /** The monotonic time at which manual movement ends; not set while the arm is not moved by hand. */
  #manualUntilMs?: number;

  constructor(name: ResourceName, kinematics: KinematicModel, private readonly clock: Clock) {
    super(name, kinematics);
    this.#joints = kinematics.joints.map(() => 0);
  }

  getJointPositions(): Promise<readonly number[]> {
    return Promise.resolve(this.#joints);
  }

  moveToJointPositions(positions: readonly number[]): Promise<void> {
    return Promise.try(() => {
      this.#joints = reachableJoints(this.kinematics, this.#joints, positions);
    });
  }

  override getProperties(): Promise<ArmProperties> {
    return Promise.resolve({ supportManualMode: true, supportCartesianCommands: true });
  }

  override setManualMode(manualMode: boolean, enabledForS: number): Promise<void> {
    const untilMs = enabledForS > 0 ? this.clock.monotonicMs() + enabledForS * 1000 : Infinity;
    this.#manualUntilMs = manualMode ? untilMs : undefined;
    return Promise.resolve();
  }

  override getManualMode(): Promise<boolean> {
    return Promise.resolve(this.clock.monotonicMs() < (this.#manualUntilMs ?? -Infinity));
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }
}
