/**
 * What arms share that are moved by their joints: poses by the kinematics, paths from point to point, and the limits of
 * the joints.
 */

import type { Arm, ArmProperties, MoveOptions, TrajectoryPoint } from "../../lib/api/actuators/arm.ts";
import { type Kinematics, type Mesh, readModel } from "../../lib/api/shared/kinematics.ts";
import type { ReadFiles } from "../../lib/base/files/files.ts";
import { SvcError } from "../../lib/base/error.ts";
import { choice, type DecodeContext, text } from "../../lib/base/schema/schema.ts";
import { ARM_MODEL_NAMES, armModel } from "../../lib/geometry/arm_models.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { inverseKinematics } from "../../lib/geometry/inverse_kinematics.ts";
import { forwardKinematics, type KinematicModel, modelGeometries } from "../../lib/geometry/kinematics.ts";
import type { Pose } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";

/** The attributes by which a model without hardware has its joints. */
export const JOINT_ATTRIBUTES = {
  armModel: choice("name of a known arm to imitate; absent means an arm with a single joint", ARM_MODEL_NAMES)
    .key("arm-model").aka("arm_model"),
  modelPath: text("path of a kinematics file, .json or .urdf, used instead of a known arm")
    .key("model-path").aka("model_path"),
};

interface JointSettings {
  readonly armModel?: string;
  readonly modelPath?: string;
}

export function checkJointSettings<T extends JointSettings>(settings: T, at: DecodeContext): T | undefined {
  if (!settings.armModel || !settings.modelPath) return settings;
  return at.error("found both arm-model and model-path, wanted one of them");
}

/** @throws invalid_argument for kinematics without joints; `what` is the arm in the error: `fake arm` */
export async function jointModel(
  files: ReadFiles,
  { armModel: like, modelPath }: JointSettings,
  name: ResourceName,
  what: string,
): Promise<KinematicModel> {
  const kinematics = modelPath ? await readModel(files, modelPath, name.short) : armModel(like, name.short);
  if (kinematics.joints.length > 0) return kinematics;
  const found = `${what} built with zero degrees-of-freedom from ${modelPath}`;
  throw new SvcError("invalid_argument", `${found}, wanted kinematics with at least one joint`);
}

export abstract class JointArm extends BaseComponent implements Arm {
  constructor(name: ResourceName, protected readonly kinematics: KinematicModel) {
    super(name);
  }

  abstract getJointPositions(call?: Call): Promise<readonly number[]>;
  abstract moveToJointPositions(positions: readonly number[], call?: Call): Promise<void>;
  abstract stop(call?: Call): Promise<void>;
  abstract isMoving(call?: Call): Promise<boolean>;

  async getEndPosition(call?: Call): Promise<Pose> {
    return forwardKinematics(this.kinematics, await this.getJointPositions(call));
  }

  async moveToPosition(to: Pose, call?: Call): Promise<void> {
    const goal = inverseKinematics(this.kinematics, to, await this.getJointPositions(call));
    await this.moveToJointPositions(goal, call);
  }

  async moveThroughJointPositions(
    positions: readonly (readonly number[])[],
    _options?: MoveOptions,
    call?: Call,
  ): Promise<void> {
    for (const goal of positions) {
      call?.signal?.throwIfAborted();
      await this.moveToJointPositions(goal, call);
    }
  }

  async *moveThroughJointPositionsStreamed(
    batches: AsyncIterable<readonly TrajectoryPoint[]>,
    call?: Call,
  ): AsyncGenerator<void> {
    for await (const batch of batches) {
      for (const { positions } of batch) await this.moveToJointPositions(positions, call);
      yield;
    }
  }

  getKinematics(_call?: Call): Promise<Kinematics> {
    return Promise.resolve(this.kinematics.source);
  }

  override async getGeometries(call?: Call): Promise<Geometry[]> {
    return modelGeometries(this.kinematics, await this.getJointPositions(call));
  }

  get3dModels(_call?: Call): Promise<{ readonly [name: string]: Mesh }> {
    return Promise.resolve({});
  }

  getProperties(_call?: Call): Promise<ArmProperties> {
    return Promise.resolve({ supportManualMode: false, supportCartesianCommands: true });
  }

  setManualMode(_manualMode: boolean, _enabledForS: number, _call?: Call): Promise<void> {
    return Promise.reject(unsupported(this.name, "SetManualMode"));
  }

  getManualMode(_call?: Call): Promise<boolean> {
    return Promise.reject(unsupported(this.name, "GetManualMode"));
  }
}

/**
 * The goal, if every joint may move there: within its limits or, for a joint that is already outside them, no
 * further out.
 */
export function reachableJoints(
  { joints, name }: KinematicModel,
  from: readonly number[],
  goal: readonly number[],
): readonly number[] {
  if (goal.length !== joints.length) {
    const found = `moving ${name} to ${goal.length} joint positions`;
    throw new SvcError("invalid_argument", `${found}, wanted ${joints.length}`);
  }
  for (const [index, joint] of joints.entries()) {
    const now = from[index] ?? 0, wanted = goal[index] ?? 0;
    const [min, max] = [Math.min(joint.min, now), Math.max(joint.max, now)];
    if (wanted >= min && wanted <= max) continue;
    const limits = `joint ${index} needs to be within range [${min}, ${max}]`;
    throw new SvcError("invalid_argument", `${limits} and cannot be moved to ${wanted}`);
  }
  return [...goal];
}
