/**
 * `builtin`: moves arms, and what is attached to their ends, to places in the frame system.
 *
 * One movement at a time: a newer one takes over. The joints go straight to their places where nothing is in
 * between, else around it; with a constraint on the way, the end goes straight or not at all. Everything but the one
 * arm stays where it is. Bases are not moved, so there are no plans to ask for or to stop.
 */

import { type Arm, ArmApi } from "../../lib/api/arm.ts";
import {
  type GlobeMovement,
  type MapMovement,
  type Motion,
  MotionApi,
  type Movement,
  type PlanHistory,
  type PlanQuery,
  type PlanStatusOf,
} from "../../lib/api/motion.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type Infer, number, object } from "../../lib/base/schema/schema.ts";
import { type FramePart, type PoseInFrame, WORLD } from "../../lib/geometry/frame_system.ts";
import { freeWay, straightWay } from "../../lib/geometry/joint_path.ts";
import { IDENTITY_POSE } from "../../lib/geometry/pose.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { type Construction, model } from "../../lib/resource/registry.ts";
import { BaseResource, type Call, unsupported } from "../../lib/resource/resource.ts";
import { taskOf } from "./task.ts";

const attributes = object({
  collisionBufferMm: number("millimetres that an arm keeps from what is in its way", { min: 0 }).default(0),
}).required();

type Attributes = Infer<typeof attributes>;

export const BuiltinMotion = model({
  api: MotionApi,
  name: "rdk:builtin:builtin",
  doc: "Moves arms, and what is attached to them, to poses in the frame system, around obstacles.",
  attributes,
  byDefault: true,
  construct: (from) => new Builtin(from),
});

/** How long planning may keep everything else waiting. */
const TURN_MS = 10;

const NO_BASES = "it moves arms, and what is attached to their ends; it has no planner for bases";

class Builtin extends BaseResource implements Motion {
  /** The one that moves. */
  #arm?: Arm;
  readonly #operation = new Operation(async () => await this.#arm?.stop());

  constructor(private readonly from: Construction<Attributes>) {
    super(from.name);
  }

  /** False where a newer movement took over. */
  move(movement: Movement, call: Call = {}): Promise<boolean> {
    const { dependencies, attributes: { collisionBufferMm }, clock } = this.from;
    return this.#operation.run(async (signal) => {
      this.#arm = undefined;
      const scene = await dependencies.frames.scene(movement.worldState.transforms, { signal });
      const { arm, reach, line } = taskOf(scene, movement, collisionBufferMm);
      const planned = { ...reach, pause: pauses(clock, signal) };
      const way = line ? await straightWay(planned, line) : await freeWay(planned);
      signal.throwIfAborted();
      this.#arm = dependencies.lookUp(ArmApi, arm.short);
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

/** Lets everything else of the machine have its turn, but not so often that it costs. */
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
  const why = "only movements of bases on maps or the globe have plans, and there are none";
  return new SvcError("unknown", `there is no plan of ${componentName}: ${why}`);
}
