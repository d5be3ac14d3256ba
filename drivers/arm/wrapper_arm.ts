/**
 * `wrapper_arm`: another arm with kinematics from a file. Its joints are those of the other arm; poses, limits and shapes
 * come from the file.
 *
 * A stop ends a movement wherever it is: while the joints are read or a way to a pose is computed, and between two
 * positions of a row.
 */

import { type Arm, ArmApi, type ArmProperties, type MoveOptions } from "../../lib/api/actuators/arm.ts";
import { type Mesh, readModel } from "../../lib/api/shared/kinematics.ts";
import { race } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type JsonObject, object, text } from "../../lib/base/schema/schema.ts";
import type { KinematicModel } from "../../lib/geometry/kinematics.ts";
import { inverseKinematics } from "../../lib/geometry/inverse_kinematics.ts";
import type { Pose } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
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

type Joints = readonly number[];

class Wrapper extends JointArm {
  readonly #operation = new Operation(() => this.actual.stop());

  constructor(name: ResourceName, kinematics: KinematicModel, private readonly actual: Arm) {
    super(name, kinematics);
  }

  getJointPositions(call?: Call): Promise<readonly number[]> {
    return this.actual.getJointPositions(call);
  }

  override moveToPosition(to: Pose, call?: Call): Promise<void> {
    return this.#move((from) => [inverseKinematics(this.kinematics, to, from)], this.#step, call);
  }

  moveToJointPositions(positions: Joints, call?: Call): Promise<void> {
    return this.#move(() => [positions], this.#step, call);
  }

  override async moveThroughJointPositions(
    positions: readonly Joints[],
    options?: MoveOptions,
    call?: Call,
  ): Promise<void> {
    if (positions.length === 0) return;
    await this.#move(
      () => positions,
      (goals, within) =>
        this.actual.moveThroughJointPositions(goals, options, within).catch((error) => {
          if (SvcError.from(error).code !== "unimplemented") throw error;
          return this.#step(goals, within);
        }),
      call,
    );
  }

  /** One position after the other. */
  readonly #step = async (goals: readonly Joints[], within: Call): Promise<void> => {
    for (const goal of goals) {
      within.signal?.throwIfAborted();
      await this.actual.moveToJointPositions(goal, within);
    }
  };

  async #move(
    goalsOf: (from: Joints) => readonly Joints[],
    command: (goals: readonly Joints[], within: Call) => Promise<void>,
    call?: Call,
  ): Promise<void> {
    const arrived = await this.#operation.run(async (signal) => {
      const within = { ...call, signal };
      let from = await race(this.getJointPositions(within), signal);
      const goals = goalsOf(from);
      for (const goal of goals) from = reachableJoints(this.kinematics, from, goal);
      signal.throwIfAborted();
      await race(command(goals, within), signal);
    }, call?.signal);
    if (!arrived) throw new SvcError("aborted", `${this.name} stopped before reaching its target`);
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

  async stop(call?: Call): Promise<void> {
    await this.#operation.run(() => this.actual.stop(call));
  }

  isMoving(call?: Call): Promise<boolean> {
    return this.actual.isMoving(call);
  }
}
