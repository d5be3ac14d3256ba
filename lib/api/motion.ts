/**
 * Motion: moves components to requested places, together with their carriers and around obstacles. Places are
 * frames of the machine's frame system, on a map or on the globe; lengths are in millimetres and angles in
 * degrees unless their names say otherwise.
 */

import type {
  GeoGeometry as GeoGeometryMessage,
  WorldState as WorldStateMessage,
} from "../../proto/gen/common_pb.ts";
import {
  type Constraints as ConstraintsMessage,
  type MotionConfiguration as MotionConfigurationMessage,
  MotionService,
  type Plan as PlanMessage,
  PlanState as PlanStateWord,
  type PlanStatus as PlanStatusMessage,
  type PlanWithStatus as PlanWithStatusMessage,
} from "../../proto/gen/motion_pb.ts";
import { SvcError } from "../base/error.ts";
import type { FramePart, PoseInFrame } from "../geometry/frame_system.ts";
import type { Geometry } from "../geometry/geometry.ts";
import type { Pose } from "../geometry/pose.ts";
import type { ResourceName } from "../resource/name.ts";
import type { Api } from "../resource/registry.ts";
import type { Call, Resource } from "../resource/resource.ts";
import type { Channel } from "../wire/rpc/channel.ts";
import { service } from "../wire/rpc/service.ts";
import { callOf, ResourceClient, resourceHandlers } from "./shared/resource.ts";
import {
  fromGeometryMessage,
  fromPoseInFrameMessage,
  fromPoseMessage,
  fromTransformMessage,
  toGeometryMessage,
  toTransformMessage,
} from "./shared/geometry.ts";
import type { GeoPoint } from "./shared/readings.ts";
import { toMs, toTimestamp } from "./shared/time.ts";

/** Plans motions of components through the machine's frames, and carries them out. */
export interface Motion extends Resource {
  /**
   * Moves a component's frame to a pose. Resolves to whether it arrived.
   *
   * @throws unknown (the published code) for a missing frame, failed_precondition if no way was found
   */
  move(movement: Movement, call?: Call): Promise<boolean>;
  /** Starts to move a base to a place on a map; resolves to the id of the execution. */
  moveOnMap(movement: MapMovement, call?: Call): Promise<string>;
  /** Starts to move a base to a place on the globe; resolves to the id of the execution. */
  moveOnGlobe(movement: GlobeMovement, call?: Call): Promise<string>;
  /** The pose of a component in a given frame. */
  getPose(
    componentName: string,
    destinationFrame: string,
    supplemental: readonly FramePart[],
    call?: Call,
  ): Promise<PoseInFrame>;
  /** Ends a component's movement on a map or the globe. */
  stopPlan(componentName: string, call?: Call): Promise<void>;
  /** The plans of movements on a map or the globe, the newest first. */
  listPlanStatuses(onlyActive: boolean, call?: Call): Promise<readonly PlanStatusOf[]>;
  /** A plan with its states, and the plans that it replaced. */
  getPlan(which: PlanQuery, call?: Call): Promise<PlanHistory>;
}

export interface Movement {
  readonly componentName: string;
  readonly destination: PoseInFrame;
  readonly worldState: WorldState;
  readonly constraints: Constraints;
}

export interface WorldState {
  readonly obstacles: readonly {
    readonly referenceFrame: string;
    readonly geometries: readonly Geometry[];
  }[];
  /** Frames that exist for this one movement only; frames with a shape are obstacles or are carried along. */
  readonly transforms: readonly FramePart[];
}

/** Conditions on the way; the service chooses absent parts of a constraint. */
export interface Constraints {
  readonly linear: readonly {
    readonly lineToleranceMm?: number;
    readonly orientationToleranceDegs?: number;
  }[];
  readonly pseudolinear: readonly {
    readonly lineToleranceFactor?: number;
    readonly orientationToleranceFactor?: number;
  }[];
  readonly orientation: readonly {
    readonly orientationToleranceDegs?: number;
    readonly ignoreTheta?: boolean;
  }[];
  /** Pairs of frames that may touch each other. */
  readonly allowedCollisions: readonly { readonly frame1: string; readonly frame2: string }[];
}

export interface MapMovement {
  readonly componentName: string;
  readonly slamServiceName: string;
  readonly destination: Pose;
  readonly obstacles: readonly Geometry[];
  readonly configuration?: MotionConfiguration;
}

export interface GlobeMovement {
  readonly componentName: string;
  readonly movementSensorName: string;
  readonly destination: GeoPoint;
  readonly headingDeg?: number;
  readonly obstacles: readonly GeoGeometry[];
  readonly boundingRegions: readonly GeoGeometry[];
  readonly configuration?: MotionConfiguration;
}

export interface GeoGeometry {
  readonly location: GeoPoint;
  readonly geometries: readonly Geometry[];
}

export interface MotionConfiguration {
  readonly obstacleDetectors: readonly { readonly visionService: string; readonly camera: string }[];
  readonly positionPollingFrequencyHz?: number;
  readonly obstaclePollingFrequencyHz?: number;
  readonly planDeviationM?: number;
  readonly linearMPerSec?: number;
  readonly angularDegsPerSec?: number;
}

export type PlanState = "unspecified" | "in_progress" | "stopped" | "succeeded" | "failed";

export interface PlanStatus {
  readonly state: PlanState;
  readonly timeMs: number;
  readonly reason?: string;
}

export interface PlanStatusOf {
  readonly planId: string;
  readonly executionId: string;
  readonly componentName: string;
  readonly status: PlanStatus;
}

export interface PlanQuery {
  readonly componentName: string;
  readonly lastPlanOnly: boolean;
  /** Absent means the newest execution. */
  readonly executionId?: string;
}

export interface PlanHistory {
  readonly current: PlanWithStatus;
  /** The plans that this plan replaced. */
  readonly replaced: readonly PlanWithStatus[];
}

export interface PlanWithStatus {
  readonly id: string;
  readonly executionId: string;
  readonly componentName: string;
  /** The pose of each component after each step. */
  readonly steps: readonly { readonly [componentName: string]: Pose }[];
  readonly status: PlanStatus;
  readonly history: readonly PlanStatus[];
}

class MotionClient extends ResourceClient<typeof MotionService> implements Motion {
  async move({ worldState, constraints, ...movement }: Movement, call?: Call): Promise<boolean> {
    const request = {
      ...this.request(call),
      ...movement,
      worldState: toWorldStateMessage(worldState),
      constraints: toConstraintsMessage(constraints),
    };
    return (await this.rpc.move(request, call)).success;
  }

  async moveOnMap({ obstacles, configuration, ...movement }: MapMovement, call?: Call): Promise<string> {
    const request = {
      ...this.request(call),
      ...movement,
      obstacles: obstacles.map(toGeometryMessage),
      motionConfiguration: toConfigurationMessage(configuration),
    };
    return (await this.rpc.moveOnMap(request, call)).executionId;
  }

  async moveOnGlobe(movement: GlobeMovement, call?: Call): Promise<string> {
    const { componentName, movementSensorName, destination, headingDeg: heading, configuration } = movement;
    const request = {
      ...this.request(call),
      ...{ componentName, movementSensorName, destination, heading },
      obstacles: movement.obstacles.map(toGeoMessage),
      boundingRegions: movement.boundingRegions.map(toGeoMessage),
      motionConfiguration: toConfigurationMessage(configuration),
    };
    return (await this.rpc.moveOnGlobe(request, call)).executionId;
  }

  async getPose(
    componentName: string,
    destinationFrame: string,
    supplemental: readonly FramePart[],
    call?: Call,
  ): Promise<PoseInFrame> {
    const supplementalTransforms = supplemental.map(toTransformMessage);
    const request = { ...this.request(call), componentName, destinationFrame, supplementalTransforms };
    return fromPoseInFrameMessage((await this.rpc.getPose(request, call)).pose);
  }

  async stopPlan(componentName: string, call?: Call): Promise<void> {
    await this.rpc.stopPlan({ ...this.request(call), componentName }, call);
  }

  async listPlanStatuses(onlyActivePlans: boolean, call?: Call): Promise<PlanStatusOf[]> {
    const answer = await this.rpc.listPlanStatuses({ ...this.request(call), onlyActivePlans }, call);
    return answer.planStatusesWithIds.map(({ planId, executionId, componentName, status }) => ({
      planId,
      executionId,
      componentName,
      status: fromStatusMessage(status),
    }));
  }

  async getPlan(which: PlanQuery, call?: Call): Promise<PlanHistory> {
    const answer = await this.rpc.getPlan({ ...this.request(call), ...which }, call);
    return {
      current: fromPlanMessage(answer.currentPlanWithStatus),
      replaced: answer.replanHistory.map(fromPlanMessage),
    };
  }
}

/** The API `rdk:service:motion`. */
export const MotionApi: Api<Motion> = {
  name: "rdk:service:motion",
  desc: MotionService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new MotionClient(name, channel, MotionService),
  serve: (find) =>
    service(MotionService, {
      ...resourceHandlers(find),
      move: async (request, ctx) => {
        const movement = {
          componentName: componentOf(request),
          destination: fromPoseInFrameMessage(request.destination),
          worldState: fromWorldStateMessage(request.worldState),
          constraints: fromConstraintsMessage(request.constraints),
        };
        return { success: await find(request.name).move(movement, callOf(request, ctx)) };
      },
      moveOnMap: async (request, ctx) => {
        const movement = {
          componentName: componentOf(request),
          slamServiceName: request.slamServiceName || (request.slamServiceNameDeprecated?.name ?? ""),
          destination: fromPoseMessage(request.destination),
          obstacles: request.obstacles.map(fromGeometryMessage),
          configuration: fromConfigurationMessage(request.motionConfiguration),
        };
        return { executionId: await find(request.name).moveOnMap(movement, callOf(request, ctx)) };
      },
      moveOnGlobe: async (request, ctx) => {
        const { movementSensorName, movementSensorNameDeprecated } = request;
        const movement = {
          componentName: componentOf(request),
          movementSensorName: movementSensorName || (movementSensorNameDeprecated?.name ?? ""),
          destination: fromPointMessage(request.destination),
          headingDeg: request.heading,
          obstacles: request.obstacles.map(fromGeoMessage),
          boundingRegions: request.boundingRegions.map(fromGeoMessage),
          configuration: fromConfigurationMessage(request.motionConfiguration),
        };
        return { executionId: await find(request.name).moveOnGlobe(movement, callOf(request, ctx)) };
      },
      getPose: async (request, ctx) => {
        const supplemental = request.supplementalTransforms.map(fromTransformMessage);
        const { name, destinationFrame } = request;
        const call = callOf(request, ctx);
        return { pose: await find(name).getPose(componentOf(request), destinationFrame, supplemental, call) };
      },
      stopPlan: async (request, ctx) => {
        await find(request.name).stopPlan(componentOf(request), callOf(request, ctx));
        return {};
      },
      listPlanStatuses: async (request, ctx) => {
        const all = await find(request.name).listPlanStatuses(request.onlyActivePlans, callOf(request, ctx));
        return { planStatusesWithIds: all.map((one) => ({ ...one, status: toStatusMessage(one.status) })) };
      },
      getPlan: async (request, ctx) => {
        const { lastPlanOnly, executionId } = request;
        const which = { componentName: componentOf(request), lastPlanOnly, executionId };
        const { current, replaced } = await find(request.name).getPlan(which, callOf(request, ctx));
        return {
          currentPlanWithStatus: toPlanMessage(current),
          replanHistory: replaced.map(toPlanMessage),
        };
      },
    }),
};

type Named = { readonly componentName: string; readonly componentNameDeprecated?: { readonly name: string } };

/** Older clients send a whole resource name. */
function componentOf({ componentName, componentNameDeprecated }: Named): string {
  const name = componentName || componentNameDeprecated?.name;
  if (name) return name;
  throw new SvcError("invalid_argument", "must provide component name");
}

function toWorldStateMessage({ obstacles, transforms }: WorldState) {
  return {
    obstacles: obstacles.map(({ referenceFrame, geometries }) => ({
      referenceFrame,
      geometries: geometries.map(toGeometryMessage),
    })),
    transforms: transforms.map(toTransformMessage),
  };
}

function fromWorldStateMessage(message: WorldStateMessage | undefined): WorldState {
  return {
    obstacles: (message?.obstacles ?? []).map(({ referenceFrame, geometries }) => ({
      referenceFrame,
      geometries: geometries.map(fromGeometryMessage),
    })),
    transforms: (message?.transforms ?? []).map(fromTransformMessage),
  };
}

function toConstraintsMessage({ linear, pseudolinear, orientation, allowedCollisions }: Constraints) {
  return {
    linearConstraint: linear.map((one) => ({ ...one })),
    pseudolinearConstraint: pseudolinear.map((one) => ({ ...one })),
    orientationConstraint: orientation.map((one) => ({ ...one })),
    collisionSpecification: allowedCollisions.length === 0
      ? []
      : [{ allows: allowedCollisions.map((one) => ({ ...one })) }],
  };
}

function fromConstraintsMessage(message: ConstraintsMessage | undefined): Constraints {
  return {
    linear: (message?.linearConstraint ?? []).map(({ lineToleranceMm, orientationToleranceDegs }) => {
      return { lineToleranceMm, orientationToleranceDegs };
    }),
    pseudolinear: (message?.pseudolinearConstraint ?? []).map((one) => {
      const { lineToleranceFactor, orientationToleranceFactor } = one;
      return { lineToleranceFactor, orientationToleranceFactor };
    }),
    orientation: (message?.orientationConstraint ?? []).map(({ orientationToleranceDegs, ignoreTheta }) => {
      return { orientationToleranceDegs, ignoreTheta };
    }),
    allowedCollisions: (message?.collisionSpecification ?? []).flatMap(({ allows }) =>
      allows.map(({ frame1, frame2 }) => ({ frame1, frame2 }))
    ),
  };
}

function toConfigurationMessage(configuration: MotionConfiguration | undefined) {
  return configuration && {
    ...configuration,
    obstacleDetectors: configuration.obstacleDetectors.map((one) => ({ ...one })),
  };
}

function fromConfigurationMessage(
  message: MotionConfigurationMessage | undefined,
): MotionConfiguration | undefined {
  if (!message) return undefined;
  const { $typeName: _, $unknown: __, obstacleDetectors, ...rest } = message;
  return {
    ...rest,
    obstacleDetectors: obstacleDetectors.map((one) => ({
      visionService: one.visionService || (one.visionServiceDeprecated?.name ?? ""),
      camera: one.camera || (one.cameraDeprecated?.name ?? ""),
    })),
  };
}

function fromPointMessage(message: GeoPoint | undefined): GeoPoint {
  if (message) return { latitude: message.latitude, longitude: message.longitude };
  throw new SvcError("invalid_argument", "must provide a destination, wanted a latitude and a longitude");
}

function toGeoMessage({ location, geometries }: GeoGeometry) {
  return { location, geometries: geometries.map(toGeometryMessage) };
}

function fromGeoMessage({ location, geometries }: GeoGeometryMessage): GeoGeometry {
  return { location: fromPointMessage(location), geometries: geometries.map(fromGeometryMessage) };
}

const STATES: { readonly [S in PlanState]: PlanStateWord } = {
  unspecified: PlanStateWord.UNSPECIFIED,
  in_progress: PlanStateWord.IN_PROGRESS,
  stopped: PlanStateWord.STOPPED,
  succeeded: PlanStateWord.SUCCEEDED,
  failed: PlanStateWord.FAILED,
};

function toStatusMessage({ state, timeMs, reason }: PlanStatus) {
  return { state: STATES[state], timestamp: toTimestamp(timeMs), reason };
}

function fromStatusMessage(message: PlanStatusMessage | undefined): PlanStatus {
  const states = Object.keys(STATES) as PlanState[];
  const state = states.find((one) => STATES[one] === message?.state) ?? "unspecified";
  return { state, timeMs: toMs(message?.timestamp), reason: message?.reason };
}

function toPlanMessage({ id, executionId, componentName, steps, status, history }: PlanWithStatus) {
  return {
    plan: {
      id,
      executionId,
      componentName,
      steps: steps.map((step) => ({
        step: Object.fromEntries(Object.entries(step).map(([name, pose]) => [name, { pose }])),
      })),
    },
    status: toStatusMessage(status),
    statusHistory: history.map(toStatusMessage),
  };
}

function fromPlanMessage(message: PlanWithStatusMessage | undefined): PlanWithStatus {
  const { id = "", executionId = "", componentName = "", steps = [] }: Partial<PlanMessage> = message?.plan ??
    {};
  return {
    id,
    executionId,
    componentName,
    steps: steps.map(({ step }) =>
      Object.fromEntries(Object.entries(step).map(([name, { pose }]) => [name, fromPoseMessage(pose)]))
    ),
    status: fromStatusMessage(message?.status),
    history: (message?.statusHistory ?? []).map(fromStatusMessage),
  };
}
