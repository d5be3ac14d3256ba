/**
 * Motion: moves components to requested places, together with their carriers and around obstacles. Places are
 * frames of the machine's frame system, on a map or on the globe; lengths are in millimetres and angles in
 * degrees unless their names say otherwise.
 */

import type {
  GeoGeometry as GeoGeometryMessage,
  WorldState as WorldStateMessage,
} from "../../../proto/gen/common_pb.ts";
import {
  type Constraints as ConstraintsMessage,
  type MotionConfiguration as MotionConfigurationMessage,
  MotionService,
  type Plan as PlanMessage,
  PlanState as PlanStateWord,
  type PlanStatus as PlanStatusMessage,
  type PlanWithStatus as PlanWithStatusMessage,
} from "../../../proto/gen/motion_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { FramePart, PoseInFrame } from "../../geometry/frame_system.ts";
import type { Geometry } from "../../geometry/geometry.ts";
import type { Pose } from "../../geometry/pose.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import { farFrame, nearPose } from "../shared/far_names.ts";
import { callOf, ResourceClient, resourceHandlers } from "../shared/resource.ts";
import {
  fromGeometryMessage,
  fromPoseInFrameMessage,
  fromPoseMessage,
  fromTransformMessage,
  toGeometryMessage,
  toTransformMessage,
} from "../shared/geometry.ts";
import type { GeoPoint } from "../shared/readings.ts";
import { toMs, toTimestamp } from "../shared/time.ts";

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

/** A request to move a component. */
export interface Movement {
  /** The component whose frame moves. */
  readonly componentName: string;
  /** The pose that the component's frame shall have. */
  readonly destination: PoseInFrame;
  /** Obstacles, and further frames. */
  readonly worldState: WorldState;
  /** Conditions on the way; may be empty. */
  readonly constraints: Constraints;
}

/** The surroundings of a movement besides the machine itself. */
export interface WorldState {
  /** Shapes, each group in a frame of its own. */
  readonly obstacles: readonly {
    readonly referenceFrame: string;
    readonly geometries: readonly Geometry[];
  }[];
  /** Frames that exist for this one movement only; frames with a shape are obstacles or are carried along. */
  readonly transforms: readonly FramePart[];
}

/** Conditions on the way; the service chooses absent parts of a constraint. */
export interface Constraints {
  /**
   * Each keeps the component near the straight line from start to end, and its orientation near the shortest turn.
   */
  readonly linear: readonly {
    readonly lineToleranceMm?: number;
    readonly orientationToleranceDegs?: number;
  }[];
  /** The same, with tolerances as fractions of the movement's length and angle. */
  readonly pseudolinear: readonly {
    readonly lineToleranceFactor?: number;
    readonly orientationToleranceFactor?: number;
  }[];
  /** Each keeps the orientation near the shortest turn; `ignoreTheta` leaves the turn about the axis free. */
  readonly orientation: readonly {
    readonly orientationToleranceDegs?: number;
    readonly ignoreTheta?: boolean;
  }[];
  /** Pairs of frames that may touch each other. */
  readonly allowedCollisions: readonly { readonly frame1: string; readonly frame2: string }[];
}

/** A request to move a base to a place on a map. */
export interface MapMovement {
  /** The base. */
  readonly componentName: string;
  /** The SLAM service with the map, which also says where the base is. */
  readonly slamServiceName: string;
  /** A pose on the map. */
  readonly destination: Pose;
  /** Relative to the origin of the map. */
  readonly obstacles: readonly Geometry[];
  /** Absent means the defaults of the service. */
  readonly configuration?: MotionConfiguration;
}

/** A request to move a base to a place on the globe. */
export interface GlobeMovement {
  /** The base. */
  readonly componentName: string;
  /** The movement sensor that says where the base is. */
  readonly movementSensorName: string;
  /** Latitude and longitude. */
  readonly destination: GeoPoint;
  /** Compass heading at the destination, from 0 (north) to 360, clockwise. Absent means any. */
  readonly headingDeg?: number;
  /** Places that the base avoids. */
  readonly obstacles: readonly GeoGeometry[];
  /** Regions that the base does not leave; empty means no limit. */
  readonly boundingRegions: readonly GeoGeometry[];
  /** Absent means the defaults of the service. */
  readonly configuration?: MotionConfiguration;
}

/** Shapes at a place on the globe. */
export interface GeoGeometry {
  /** The origin of the shapes. */
  readonly location: GeoPoint;
  /** Relative to `location`. */
  readonly geometries: readonly Geometry[];
}

/** How a base drives and looks out on its way; the service chooses absent numbers. */
export interface MotionConfiguration {
  /** Vision services that look for obstacles on the way, each with its camera. */
  readonly obstacleDetectors: readonly { readonly visionService: string; readonly camera: string }[];
  /** How often the service asks for the position of the base. */
  readonly positionPollingFrequencyHz?: number;
  /** How often the service asks the obstacle detectors. */
  readonly obstaclePollingFrequencyHz?: number;
  /** Distance from the planned way, in metres, at which the service makes a new plan. */
  readonly planDeviationM?: number;
  /** Speed of the base in metres per second. */
  readonly linearMPerSec?: number;
  /** Speed of its turns in degrees per second. */
  readonly angularDegsPerSec?: number;
}

/** The progress of a plan; `stopped`, `succeeded` and `failed` are final. */
export type PlanState = "unspecified" | "in_progress" | "stopped" | "succeeded" | "failed";

/** A state of a plan, and when the plan got into it. */
export interface PlanStatus {
  /** The state from `timeMs` on. */
  readonly state: PlanState;
  /** Since the Unix epoch. */
  readonly timeMs: number;
  /** Why the plan stopped, failed or was replaced, if it did. */
  readonly reason?: string;
}

/** The present state of a plan. */
export interface PlanStatusOf {
  /** Unique among all plans. */
  readonly planId: string;
  /** Common to all plans of one request. */
  readonly executionId: string;
  /** The base that moves. */
  readonly componentName: string;
  /** Its newest state. */
  readonly status: PlanStatus;
}

/** Selects an execution. */
export interface PlanQuery {
  /** The base that moves. */
  readonly componentName: string;
  /** Leaves out the plans that the newest one replaced. */
  readonly lastPlanOnly: boolean;
  /** Absent means the newest execution. */
  readonly executionId?: string;
}

/** The plans of one execution. */
export interface PlanHistory {
  /** The newest plan. */
  readonly current: PlanWithStatus;
  /** The plans that this plan replaced. */
  readonly replaced: readonly PlanWithStatus[];
}

/** A plan with all of its states. */
export interface PlanWithStatus {
  /** Unique among all plans. */
  readonly id: string;
  /** Common to all plans of one request. */
  readonly executionId: string;
  /** The base that moves. */
  readonly componentName: string;
  /** The pose of each component after each step. */
  readonly steps: readonly { readonly [componentName: string]: Pose }[];
  /** The newest state. */
  readonly status: PlanStatus;
  /** The states before `status`. */
  readonly history: readonly PlanStatus[];
}

/** Components, services and frames have their names of this machine, also if the service is on another one. */
class MotionClient extends ResourceClient<typeof MotionService> implements Motion {
  async move(movement: Movement, call?: Call): Promise<boolean> {
    const { worldState, constraints, ...rest } = farMovement(this.name, movement);
    const request = {
      ...this.request(call),
      ...rest,
      worldState: toWorldStateMessage(worldState),
      constraints: toConstraintsMessage(constraints),
    };
    return (await this.rpc.move(request, call)).success;
  }

  async moveOnMap({ destination, obstacles, ...movement }: MapMovement, call?: Call): Promise<string> {
    const request = {
      ...this.request(call),
      destination,
      componentName: this.name.farOf(movement.componentName),
      slamServiceName: this.name.farOf(movement.slamServiceName),
      obstacles: obstacles.map(toGeometryMessage),
      motionConfiguration: this.#configuration(movement),
    };
    return (await this.rpc.moveOnMap(request, call)).executionId;
  }

  async moveOnGlobe(movement: GlobeMovement, call?: Call): Promise<string> {
    const { destination, headingDeg: heading } = movement;
    const request = {
      ...this.request(call),
      ...{ destination, heading },
      componentName: this.name.farOf(movement.componentName),
      movementSensorName: this.name.farOf(movement.movementSensorName),
      obstacles: movement.obstacles.map(toGeoMessage),
      boundingRegions: movement.boundingRegions.map(toGeoMessage),
      motionConfiguration: this.#configuration(movement),
    };
    return (await this.rpc.moveOnGlobe(request, call)).executionId;
  }

  async getPose(
    componentName: string,
    destinationFrame: string,
    supplemental: readonly FramePart[],
    call?: Call,
  ): Promise<PoseInFrame> {
    const brought = supplemental.map(({ name }) => name);
    const far = farNames(this.name, brought);
    const request = {
      ...this.request(call),
      componentName: far.component(componentName),
      destinationFrame: far.frame(destinationFrame),
      supplementalTransforms: supplemental.map((part) =>
        toTransformMessage({ ...part, parent: far.frame(part.parent) })
      ),
    };
    const pose = fromPoseInFrameMessage((await this.rpc.getPose(request, call)).pose);
    return brought.includes(pose.referenceFrame) ? pose : nearPose(this.name, pose);
  }

  async stopPlan(componentName: string, call?: Call): Promise<void> {
    await this.rpc.stopPlan({ ...this.request(call), componentName: this.name.farOf(componentName) }, call);
  }

  async listPlanStatuses(onlyActivePlans: boolean, call?: Call): Promise<PlanStatusOf[]> {
    const answer = await this.rpc.listPlanStatuses({ ...this.request(call), onlyActivePlans }, call);
    return answer.planStatusesWithIds.map(({ planId, executionId, componentName, status }) => ({
      planId,
      executionId,
      componentName: this.name.nearOf(componentName),
      status: fromStatusMessage(status),
    }));
  }

  async getPlan({ componentName, ...which }: PlanQuery, call?: Call): Promise<PlanHistory> {
    const request = { ...this.request(call), ...which, componentName: this.name.farOf(componentName) };
    const answer = await this.rpc.getPlan(request, call);
    const near = (far: string) => this.name.nearOf(far);
    return {
      current: fromPlanMessage(answer.currentPlanWithStatus, near),
      replaced: answer.replanHistory.map((plan) => fromPlanMessage(plan, near)),
    };
  }

  #configuration({ configuration }: Pick<MapMovement, "configuration">) {
    return configuration && {
      ...configuration,
      obstacleDetectors: configuration.obstacleDetectors.map(({ visionService, camera }) => ({
        visionService: this.name.farOf(visionService),
        camera: this.name.farOf(camera),
      })),
    };
  }
}

/** The names on the machine where `name` lives, except of frames and shapes that the request itself brings. */
function farNames(name: ResourceName, brought: readonly string[]) {
  const own = new Set(brought);
  return {
    component: (near: string) => own.has(near) ? near : name.farOf(near),
    frame: (near: string) => own.has(near) ? near : farFrame(name, near),
  };
}

/** A movement with the names on the machine where `name` lives. */
function farMovement(name: ResourceName, movement: Movement): Movement {
  const { destination, worldState: { obstacles, transforms }, constraints } = movement;
  const labels = obstacles.flatMap(({ geometries }) => geometries.map(({ label }) => label));
  const far = farNames(name, [...labels, ...transforms.map(({ name }) => name)]);
  return {
    componentName: far.component(movement.componentName),
    destination: { ...destination, referenceFrame: far.frame(destination.referenceFrame) },
    worldState: {
      obstacles: obstacles.map((group) => ({ ...group, referenceFrame: far.frame(group.referenceFrame) })),
      transforms: transforms.map((part) => ({ ...part, parent: far.frame(part.parent) })),
    },
    constraints: {
      ...constraints,
      allowedCollisions: constraints.allowedCollisions.map(({ frame1, frame2 }) => ({
        frame1: far.frame(frame1),
        frame2: far.frame(frame2),
      })),
    },
  };
}

/** The API `rdk:service:motion`. */
export const MotionApi: Api<Motion> = {
  name: "rdk:service:motion",
  desc: MotionService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  byDefault: "rdk:builtin:builtin",
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

function fromPlanMessage(
  message: PlanWithStatusMessage | undefined,
  near: (far: string) => string,
): PlanWithStatus {
  const { id = "", executionId = "", componentName = "", steps = [] }: Partial<PlanMessage> = message?.plan ??
    {};
  return {
    id,
    executionId,
    componentName: near(componentName),
    steps: steps.map(({ step }) =>
      Object.fromEntries(Object.entries(step).map(([name, { pose }]) => [near(name), fromPoseMessage(pose)]))
    ),
    status: fromStatusMessage(message?.status),
    history: (message?.statusHistory ?? []).map(fromStatusMessage),
  };
}
