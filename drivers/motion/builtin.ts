/**
 * `builtin`: moves arms, and parts attached to their ends, to places in the frame system.
 *
 * It makes one movement at a time; a newer movement takes over. The joints go straight to their goal if the
 * way is free, else around the obstacles. With a constraint on the way, the end goes straight or not at all.
 * Only the one arm moves. Bases do not move, so there are no plans to list or to stop.
 */

import { type Arm, ArmApi } from "../../lib/api/actuators/arm.ts";
import {
  type GlobeMovement,
  type MapMovement,
  type Motion,
  MotionApi,
  type Movement,
  type PlanHistory,
  type PlanQuery,
  type PlanStatusOf,
} from "../../lib/api/services/motion.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type Infer, number, object, unserved } from "../../lib/base/schema/schema.ts";
import { type FramePart, type PoseInFrame, WORLD } from "../../lib/geometry/frame_system.ts";
import { IDENTITY_POSE } from "../../lib/geometry/pose.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { type Construction, model } from "../../lib/resource/registry.ts";
import { BaseResource, type Call, unsupported } from "../../lib/resource/resource.ts";
import { jointRangesField } from "./joint_ranges.ts";

const NO_PLAN_FILES = "plans are not written to files; an error of a plan is the answer of its call";
const NO_TELEOP = "there are no commands for teleoperation";

const attributes = object({
  collisionBufferMm: number("distance in millimetres that an arm keeps from obstacles", { min: 0 }).default(
    0,
  ),
  inputRangeOverride: jointRangesField.default({}),
  logFilePath: unserved("its lines are in the machine's log, which the option -log-file writes to a file"),
  numThreads: unserved("a plan is made in one thread"),
  planFilePath: unserved(NO_PLAN_FILES),
  planDirectoryIncludeTraceId: unserved(NO_PLAN_FILES).key("plan_directory_include_trace_id"),
  logPlannerErrors: unserved(NO_PLAN_FILES),
  logSlowPlanThresholdMs: unserved(NO_PLAN_FILES),
  teleopInterpolateOverride: unserved(NO_TELEOP),
  teleopSmoothAlpha: unserved(NO_TELEOP),
}).required();

type Attributes = Infer<typeof attributes>;

export const BuiltinMotion = model({
  api: MotionApi,
  name: "rdk:builtin:builtin",
  doc: "Moves arms, and parts attached to them, to poses in the frame system, around obstacles.",
  attributes,
  construct: (from) => new Builtin(from),
});

/** How long planning may occupy the thread before other work gets a turn. */
const TURN_MS = 10;

const NO_BASES = "it moves arms, and parts attached to their ends; it has no planner for bases";

class Builtin extends BaseResource implements Motion {
  /** The arm that is moving. */
  #arm?: Arm;
  readonly #operation = new Operation(async () => await this.#arm?.stop());

  constructor(private readonly from: Construction<Attributes>) {
    super(from.name);
  }

  /** False if a newer movement took over. */
  move(movement: Movement, call: Call = {}): Promise<boolean> {
    const { dependencies, attributes, clock } = this.from;
    return this.#operation.run(async (signal) => {
      this.#arm = undefined;
      const scene = await dependencies.frames.scene(movement.worldState.transforms, { signal });
      // Every machine has this service, and few move an arm with it.
      const { planWay } = await import("./planning.ts");
      const { arm, way, requireStart } = await planWay(scene, movement, attributes, pauses(clock, signal));
      signal.throwIfAborted();
      const moving = dependencies.lookUp(ArmApi, arm.short);
      requireStart(await moving.getJointPositions({ signal }));
      this.#arm = moving;
      await this.#arm.moveThroughJointPositions(way, undefined, { signal });
    }, call.signal);
  }

  moveOnMap(_movement: MapMovement): Promise<string> {
    return Promise.reject(unsupported(this.name, "MoveOnMap", NO_BASES));
  }

  moveOnGlobe(_movement: GlobeMovement): Promise<string> {
    return Promise.reject(unsupported(this.name, "MoveOnGlobe", NO_BASES));
  }

  getPose(
    componentName: string,
    destinationFrame: string,
    supplemental: readonly FramePart[],
    call: Call = {},
  ): Promise<PoseInFrame> {
    const own = { referenceFrame: componentName, pose: IDENTITY_POSE };
    const { frames } = this.from.dependencies;
    return frames.transformPose(own, destinationFrame || WORLD, supplemental, call);
  }

  stopPlan(componentName: string): Promise<void> {
    return Promise.reject(noPlan(componentName));
  }

  listPlanStatuses(): Promise<readonly PlanStatusOf[]> {
    return Promise.resolve([]);
  }

  getPlan({ componentName }: PlanQuery): Promise<PlanHistory> {
    return Promise.reject(noPlan(componentName));
  }

  override async close(): Promise<void> {
    if (this.#operation.running) await this.#operation.stop();
  }
}

/** Gives the rest of the machine a turn, at intervals long enough to cost little. */
function pauses(clock: Clock, signal: AbortSignal): () => Promise<void> {
  let sinceMs = clock.monotonicMs();
  return async () => {
    signal.throwIfAborted();
    if (clock.monotonicMs() - sinceMs < TURN_MS) return;
    await clock.sleep(0, signal);
    sinceMs = clock.monotonicMs();
  };
}

function noPlan(componentName: string): SvcError {
  const why = "only movements of bases on a map or the globe have plans, and no base moves";
  return new SvcError("unknown", `there is no plan of ${componentName}: ${why}`);
}
