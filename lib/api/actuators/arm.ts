/**
 * Arm: a chain of joints that moves an end effector. Poses are poses of the end in the arm's own frame, in
 * millimetres and degrees. Joint positions run from the base outwards, in degrees, or in millimetres for
 * sliding joints.
 *
 * A movement resolves when the arm has arrived or when another command interrupts it.
 */

import {
  ArmService,
  type MoveOptions as MoveOptionsMessage,
  type MoveThroughJointPositionsStreamedRequest,
  type TrajectoryPoint as TrajectoryPointMessage,
} from "../../../proto/gen/arm_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { type CallContext, service } from "../../wire/rpc/service.ts";
import type { Pose } from "../../geometry/pose.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Actuator, Call } from "../../resource/resource.ts";
import { refusingNaN } from "../shared/numbers.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";
import { fromPoseMessage } from "../shared/geometry.ts";
import {
  fromKinematicsMessage,
  fromMeshMessages,
  type Kinematics,
  kinematicsHandlers,
  type Mesh,
} from "../shared/kinematics.ts";
import { toDuration, toMs } from "../shared/time.ts";
import { capturedPose } from "../shared/capture.ts";

/** A chain of joints that places its end. */
export interface Arm extends Actuator {
  /** The pose of the end in the frame of the arm's base: mm and degrees. */
  getEndPosition(call?: Call): Promise<Pose>;
  /** @throws failed_precondition when the arm cannot reach the pose */
  /** Moves the end to a pose in the frame of the arm's base. Resolves when it is there. */
  moveToPosition(to: Pose, call?: Call): Promise<void>;
  /** Degrees of revolving joints, mm of sliding ones, from the base on. */
  getJointPositions(call?: Call): Promise<readonly number[]>;
  /** @throws invalid_argument when a joint cannot reach its position */
  /** Moves each joint: degrees or mm, from the base on. Resolves when they are there. */
  moveToJointPositions(positions: readonly number[], call?: Call): Promise<void>;
  /** Moves to each of the positions in turn. */
  moveThroughJointPositions(
    positions: readonly (readonly number[])[],
    options?: MoveOptions,
    call?: Call,
  ): Promise<void>;
  /**
   * Follows a trajectory while its caller still extends it; yields once for each batch that the arm has
   * accepted.
   */
  moveThroughJointPositionsStreamed(
    batches: AsyncIterable<readonly TrajectoryPoint[]>,
    call?: Call,
  ): AsyncIterable<void>;
  /** The model of the chain, as SVA (JSON) or URDF, with meshes by their paths. */
  getKinematics(call?: Call): Promise<Kinematics>;
  /** Meshes of the links, by name; empty if the model has none. */
  get3dModels(call?: Call): Promise<{ readonly [name: string]: Mesh }>;
  /** What this arm can do. */
  getProperties(call?: Call): Promise<ArmProperties>;
  /** Lets people move the arm by hand for `enabledForS` seconds; 0 means until the next call. */
  setManualMode(manualMode: boolean, enabledForS: number, call?: Call): Promise<void>;
  /** Whether people move the arm by hand. */
  getManualMode(call?: Call): Promise<boolean>;
}

/** Upper limits of a movement; the arm chooses the absent and empty ones. */
export interface MoveOptions {
  /** Speed limit of every joint, in degrees per second. */
  readonly maxVelDegsPerSec?: number;
  /** Acceleration limit of every joint, in degrees per second squared. */
  readonly maxAccDegsPerSec2?: number;
  /** By joint; used instead of the common limit. */
  readonly maxVelDegsPerSecJoints?: readonly number[];
  /** By joint; used instead of the common limit. */
  readonly maxAccDegsPerSec2Joints?: readonly number[];
  /** Speed limit of the arm's end, in millimetres per second. */
  readonly maxTcpSpeed?: number;
}

/** The joints at one moment of a trajectory. */
export interface TrajectoryPoint {
  /** Time since the start of the movement. */
  readonly timeMs: number;
  /** By joint, from the base outwards: degrees, or millimetres for sliding joints. */
  readonly positions: readonly number[];
  /** By joint: degrees or mm per second, and per second squared. Absent if the arm chooses. */
  readonly constraints?: {
    readonly velocities: readonly number[];
    readonly accelerations?: readonly number[];
  };
}

/** The abilities that not every arm has. */
export interface ArmProperties {
  /** Whether people can move the arm by hand, after `setManualMode`. */
  readonly supportManualMode: boolean;
  /** Whether it takes poses as commands, besides joint positions. */
  readonly supportCartesianCommands: boolean;
}

class ArmClient extends ComponentClient<typeof ArmService> implements Arm {
  async getEndPosition(call?: Call): Promise<Pose> {
    return fromPoseMessage((await this.rpc.getEndPosition(this.request(call), call)).pose);
  }

  async moveToPosition(to: Pose, call?: Call): Promise<void> {
    await this.rpc.moveToPosition({ ...this.request(call), to }, call);
  }

  async getJointPositions(call?: Call): Promise<readonly number[]> {
    return (await this.rpc.getJointPositions(this.request(call), call)).positions?.values ?? [];
  }

  async moveToJointPositions(positions: readonly number[], call?: Call): Promise<void> {
    const request = { ...this.request(call), positions: { values: [...positions] } };
    await this.rpc.moveToJointPositions(request, call);
  }

  async moveThroughJointPositions(
    positions: readonly (readonly number[])[],
    options?: MoveOptions,
    call?: Call,
  ): Promise<void> {
    await this.rpc.moveThroughJointPositions({
      ...this.request(call),
      positions: positions.map((values) => ({ values: [...values] })),
      options: options && {
        ...options,
        maxVelDegsPerSecJoints: [...options.maxVelDegsPerSecJoints ?? []],
        maxAccDegsPerSec2Joints: [...options.maxAccDegsPerSec2Joints ?? []],
      },
    }, call);
  }

  async *moveThroughJointPositionsStreamed(
    batches: AsyncIterable<readonly TrajectoryPoint[]>,
    call?: Call,
  ): AsyncGenerator<void> {
    const { name, extra } = this.request(call);
    const requests = async function* () {
      yield { name, message: { case: "init", value: { extra } } } as const;
      for await (const batch of batches) {
        yield { message: { case: "batch", value: { points: batch.map(toPointMessage) } } } as const;
      }
    };
    for await (const _ of this.rpc.moveThroughJointPositionsStreamed(requests(), call)) yield;
  }

  async getKinematics(call?: Call): Promise<Kinematics> {
    return fromKinematicsMessage(await this.rpc.getKinematics(this.request(call), call));
  }

  async get3dModels(call?: Call): Promise<{ readonly [name: string]: Mesh }> {
    return fromMeshMessages((await this.rpc.get3DModels(this.request(call), call)).models);
  }

  async getProperties(call?: Call): Promise<ArmProperties> {
    const properties = await this.rpc.getProperties(this.request(call), call);
    const { supportManualMode, supportCartesianCommands } = properties;
    return { supportManualMode, supportCartesianCommands };
  }

  async setManualMode(manualMode: boolean, enabledForS: number, call?: Call): Promise<void> {
    await this.rpc.setManualMode({ ...this.request(call), manualMode, enabledFor: enabledForS }, call);
  }

  async getManualMode(call?: Call): Promise<boolean> {
    return (await this.rpc.getManualMode(this.request(call), call)).manualMode;
  }

  async stop(call?: Call): Promise<void> {
    await this.rpc.stop(this.request(call), call);
  }

  async isMoving(call?: Call): Promise<boolean> {
    return (await this.rpc.isMoving({ name: this.name.far }, call)).isMoving;
  }
}

/** The API `rdk:component:arm`. */
export const ArmApi: Api<Arm> = {
  name: "rdk:component:arm",
  desc: ArmService,
  namedBy: ["name"],
  monitored: [
    "MoveToPosition",
    "MoveToJointPositions",
    "MoveThroughJointPositions",
    "MoveThroughJointPositionsStreamed",
  ],
  joints: (arm, call) => arm.getJointPositions(call),
  captured: {
    EndPosition: async (arm, _, call) => ({
      reading: { pose: capturedPose(await arm.getEndPosition(call)) },
    }),
    JointPositions: async (arm, _, call) => ({
      reading: { positions: { values: [...await arm.getJointPositions(call)] } },
    }),
  },
  client: (name: ResourceName, channel: Channel) => new ArmClient(name, channel, ArmService),
  serve: (find) =>
    refusingNaN(service(ArmService, {
      ...componentHandlers(find),
      ...kinematicsHandlers(find),
      getEndPosition: async (request, ctx) => ({
        pose: await find(request.name).getEndPosition(callOf(request, ctx)),
      }),
      moveToPosition: async (request, ctx) => {
        await find(request.name).moveToPosition(fromPoseMessage(request.to), callOf(request, ctx));
        return {};
      },
      getJointPositions: async (request, ctx) => ({
        positions: { values: [...await find(request.name).getJointPositions(callOf(request, ctx))] },
      }),
      moveToJointPositions: async (request, ctx) => {
        const positions = request.positions?.values ?? [];
        await find(request.name).moveToJointPositions(positions, callOf(request, ctx));
        return {};
      },
      moveThroughJointPositions: async (request, ctx) => {
        const positions = request.positions.map(({ values }) => values);
        const options = fromOptionsMessage(request.options);
        await find(request.name).moveThroughJointPositions(positions, options, callOf(request, ctx));
        return {};
      },
      moveThroughJointPositionsStreamed: (requests, ctx) => follow(find, requests, ctx),
      get3DModels: async (request, ctx) => ({
        models: { ...await find(request.name).get3dModels(callOf(request, ctx)) },
      }),
      getProperties: (request, ctx) => find(request.name).getProperties(callOf(request, ctx)),
      setManualMode: async (request, ctx) => {
        const { name, manualMode, enabledFor } = request;
        await find(name).setManualMode(manualMode, enabledFor, callOf(request, ctx));
        return {};
      },
      getManualMode: async (request, ctx) => ({
        manualMode: await find(request.name).getManualMode(callOf(request, ctx)),
      }),
      stop: async (request, ctx) => {
        await find(request.name).stop(callOf(request, ctx));
        return {};
      },
      isMoving: async (request, ctx) => ({
        isMoving: await find(request.name).isMoving({ signal: ctx.signal }),
      }),
    })),
};

type StreamedRequests = AsyncIterable<MoveThroughJointPositionsStreamedRequest>;

/**
 * The first message names the arm. Every further message is a batch of points, acknowledged by an empty
 * answer.
 */
async function* follow(find: (name: string) => Arm, requests: StreamedRequests, ctx: CallContext) {
  const messages = requests[Symbol.asyncIterator]();
  const { value: first } = await messages.next();
  if (first?.message.case !== "init") {
    throw new SvcError("invalid_argument", "streaming a trajectory: first message must be Init");
  }

  const batches = async function* () {
    for await (const { message } of { [Symbol.asyncIterator]: () => messages }) {
      if (message.case !== "batch") {
        const found = message.case ?? "nothing";
        throw new SvcError(
          "invalid_argument",
          `streaming a trajectory: expected TrajectoryBatch, got ${found}`,
        );
      }
      yield message.value.points.map(fromPointMessage);
    }
  };
  const call = callOf(first.message.value, ctx);
  for await (const _ of find(first.name).moveThroughJointPositionsStreamed(batches(), call)) yield {};
}

function fromOptionsMessage(message: MoveOptionsMessage | undefined): MoveOptions | undefined {
  if (!message) return undefined;
  const { $typeName: _, $unknown: __, ...options } = message;
  return options;
}

function toPointMessage({ timeMs, positions, constraints }: TrajectoryPoint) {
  const { velocities, accelerations } = constraints ?? {};
  return {
    time: toDuration(timeMs),
    positions: { values: [...positions] },
    constraints: velocities && {
      velocities: { values: [...velocities] },
      accelerations: accelerations && { values: [...accelerations] },
    },
  };
}

function fromPointMessage({ time, positions, constraints }: TrajectoryPointMessage): TrajectoryPoint {
  return {
    timeMs: toMs(time),
    positions: positions?.values ?? [],
    constraints: constraints && {
      velocities: constraints.velocities?.values ?? [],
      accelerations: constraints.accelerations?.values,
    },
  };
}
