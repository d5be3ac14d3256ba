/**
 * An arm without hardware. It has the joints of a known arm or of a kinematics file and reaches each goal at
 * once.
 */

import {
  type Arm,
  ArmApi,
  type ArmProperties,
  type MoveOptions,
  type TrajectoryPoint,
} from "../../lib/api/arm.ts";
import { type Kinematics, type Mesh, readModel } from "../../lib/api/shared/kinematics.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { choice, object, text } from "../../lib/base/schema/schema.ts";
import { ARM_MODEL_NAMES, armModel } from "../../lib/geometry/arm_models.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { inverseKinematics } from "../../lib/geometry/inverse_kinematics.ts";
import { forwardKinematics, type KinematicModel, modelGeometries } from "../../lib/geometry/kinematics.ts";
import type { Pose } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";

export const FakeArm = model({
  api: ArmApi,
  name: "rdk:builtin:fake",
  doc: "An arm without hardware: has the joints of a known arm, and reaches each goal at once.",
  attributes: object({
    armModel: choice(
      "name of a known arm to imitate; absent means an arm with a single joint",
      ARM_MODEL_NAMES,
    )
      .key("arm-model").aka("arm_model"),
    modelPath: text("path of a kinematics file, .json or .urdf, used instead of a known arm")
      .key("model-path").aka("model_path"),
  }).required().with((settings, at) => {
    if (!settings.armModel || !settings.modelPath) return settings;
    return at.error("found both arm-model and model-path, wanted one of them");
  }),
  construct: async ({ name, attributes: { armModel: like, modelPath }, host, clock }) => {
    const kinematics = modelPath ? await readModel(host, modelPath, name.short) : armModel(like, name.short);
    if (kinematics.joints.length > 0) return new Fake(name, kinematics, clock);
    const found = `fake arm built with zero degrees-of-freedom from ${modelPath}`;
    throw new SvcError("invalid_argument", `${found}, wanted kinematics with at least one joint`);
  },
});

class Fake extends BaseComponent implements Arm {
  #joints: readonly number[];
  /** The monotonic time at which manual movement ends; not set while the arm is not moved by hand. */
  #manualUntilMs?: number;

  constructor(
    name: ResourceName,
    private readonly kinematics: KinematicModel,
    private readonly clock: Clock,
  ) {
    super(name);
    this.#joints = kinematics.joints.map(() => 0);
  }

  getEndPosition(): Promise<Pose> {
    return Promise.try(() => forwardKinematics(this.kinematics, this.#joints));
  }

  moveToPosition(to: Pose): Promise<void> {
    return Promise.try(() => {
      this.#joints = inverseKinematics(this.kinematics, to, this.#joints);
    });
  }

  getJointPositions(): Promise<readonly number[]> {
    return Promise.resolve(this.#joints);
  }

  moveToJointPositions(positions: readonly number[]): Promise<void> {
    return Promise.try(() => {
      this.#joints = reachable(this.kinematics, this.#joints, positions);
    });
  }

  async moveThroughJointPositions(
    positions: readonly (readonly number[])[],
    _options?: MoveOptions,
    call?: Call,
  ): Promise<void> {
    for (const goal of positions) {
      call?.signal?.throwIfAborted();
      await this.moveToJointPositions(goal);
    }
  }

  async *moveThroughJointPositionsStreamed(
    batches: AsyncIterable<readonly TrajectoryPoint[]>,
  ): AsyncGenerator<void> {
    for await (const batch of batches) {
      for (const { positions } of batch) await this.moveToJointPositions(positions);
      yield;
    }
  }

  getKinematics(): Promise<Kinematics> {
    return Promise.resolve(this.kinematics.source);
  }

  override getGeometries(): Promise<Geometry[]> {
    return Promise.try(() => modelGeometries(this.kinematics, this.#joints));
  }

  get3dModels(): Promise<{ readonly [name: string]: Mesh }> {
    return Promise.resolve({});
  }

  getProperties(): Promise<ArmProperties> {
    return Promise.resolve({ supportManualMode: true, supportCartesianCommands: true });
  }

  setManualMode(manualMode: boolean, enabledForS: number): Promise<void> {
    const untilMs = enabledForS > 0 ? this.clock.monotonicMs() + enabledForS * 1000 : Infinity;
    this.#manualUntilMs = manualMode ? untilMs : undefined;
    return Promise.resolve();
  }

  getManualMode(): Promise<boolean> {
    return Promise.resolve(this.clock.monotonicMs() < (this.#manualUntilMs ?? -Infinity));
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }
}

/**
 * The goal, if every joint may move there: within its limits or, for a joint that is already outside them, no
 * further out.
 */
function reachable(
  { joints, name }: KinematicModel,
  from: readonly number[],
  goal: readonly number[],
): readonly number[] {
  if (goal.length !== joints.length) {
    const found = `moving ${name} to ${goal.length} joint positions`;
    throw new SvcError("invalid_argument", `${found}, wanted ${joints.length}`);
  }
  for (const [index, joint] of joints.entries()) {
    const [min, max] = [Math.min(joint.min, from[index]), Math.max(joint.max, from[index])];
    if (goal[index] >= min && goal[index] <= max) continue;
    const wanted = `joint ${index} needs to be within range [${min}, ${max}]`;
    throw new SvcError("invalid_argument", `${wanted} and cannot be moved to ${goal[index]}`);
  }
  return [...goal];
}
