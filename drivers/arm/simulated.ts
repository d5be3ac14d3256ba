/**
 * An arm without hardware whose joints take their time: all of them arrive together, the one with the farthest way at
 * the configured speed. A movement that is stopped fails, so that its caller knows that the arm is elsewhere.
 */

import { ArmApi } from "../../lib/api/actuators/arm.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { bool, number, object } from "../../lib/base/schema/schema.ts";
import type { KinematicModel } from "../../lib/geometry/kinematics.ts";
import { degrees } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { model } from "../../lib/resource/registry.ts";
import type { Call } from "../../lib/resource/resource.ts";
import { checkJointSettings, JOINT_ATTRIBUTES, JointArm, jointModel, reachableJoints } from "./joint_arm.ts";

const SPEED = 1;

export const SimulatedArm = model({
  api: ArmApi,
  name: "rdk:builtin:simulated",
  doc: "An arm without hardware whose joints take their time to move.",
  attributes: object({
    ...JOINT_ATTRIBUTES,
    speed: number("radians (of a sliding joint: millimetres) a second; 0 or less means the default").default(
      SPEED,
    )
      .with((speed) => speed > 0 ? speed : SPEED),
    simulateTime: bool("without effect: time always passes").key("simulate-time").aka("simulate_time")
      .default(true),
  }).required().with(checkJointSettings),
  construct: async ({ name, attributes, host, clock }) => {
    const kinematics = await jointModel(host, attributes, name, "simulated arm");
    return new Simulated(name, kinematics, attributes.speed, clock);
  },
});

/** A way from one place to another, at a time. */
interface Movement {
  readonly from: readonly number[];
  readonly to: readonly number[];
  readonly startMs: number;
  readonly durationMs: number;
}

class Simulated extends JointArm {
  readonly #operation = new Operation(() => Promise.resolve(this.#hold()));
  #movement: Movement;

  constructor(
    name: ResourceName,
    kinematics: KinematicModel,
    private readonly speed: number,
    private readonly clock: Clock,
  ) {
    super(name, kinematics);
    const zero = kinematics.joints.map(() => 0);
    this.#movement = { from: zero, to: zero, startMs: 0, durationMs: 0 };
  }

  getJointPositions(): Promise<readonly number[]> {
    return Promise.resolve(this.#joints());
  }

  async moveToJointPositions(positions: readonly number[], call?: Call): Promise<void> {
    const goal = reachableJoints(this.kinematics, this.#joints(), positions);
    const arrived = await this.#operation.run(async (signal) => {
      const from = this.#joints();
      const durationMs = 1000 *
        Math.max(0, ...goal.map((to, index) => this.#seconds(index, Math.abs(to - (from[index] ?? to)))));
      this.#movement = { from, to: goal, startMs: this.clock.monotonicMs(), durationMs };
      await this.clock.sleep(durationMs, signal);
      // A timer may be a little early.
      this.#movement = { from: goal, to: goal, startMs: 0, durationMs: 0 };
    }, call?.signal);
    if (!arrived) throw new SvcError("aborted", `${this.name} stopped before reaching its target`);
  }

  stop(): Promise<void> {
    return this.#operation.stop();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(this.#operation.running);
  }

  override close(): Promise<void> {
    return this.stop();
  }

  #seconds(joint: number, distance: number): number {
    const turns = this.kinematics.joints[joint]?.type === "revolute";
    return distance / (turns ? degrees(this.speed) : this.speed);
  }

  #joints(): readonly number[] {
    const { from, to, startMs, durationMs } = this.#movement;
    const share = durationMs === 0 ? 1 : Math.min((this.clock.monotonicMs() - startMs) / durationMs, 1);
    if (share === 1) return to;
    return to.map((end, index) => {
      const start = from[index] ?? end;
      return start + share * (end - start);
    });
  }

  #hold(): void {
    const here = this.#joints();
    this.#movement = { from: here, to: here, startMs: 0, durationMs: 0 };
  }
}
