import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { type Arm, ArmApi, type TrajectoryPoint } from "../../lib/api/actuators/arm.ts";
import { SvcError } from "../../lib/base/error.ts";
import { forwardKinematics, type KinematicModel, modelGeometries } from "../../lib/geometry/kinematics.ts";
import { type Pose, posesAlmostEqual } from "../../lib/geometry/pose.ts";
import type { Contract } from "./contract.ts";
import { modelOf } from "./kinematics.ts";

export const contract: Contract<Arm> = {
  api: ArmApi,
  cases: {
    "getJointPositions returns a position for each joint of the kinematics": async (arm) => {
      assertEquals((await arm.getJointPositions()).length, (await modelOf(arm)).joints.length);
    },
    "moveToJointPositions moves the joints, and the end follows the kinematics": async (arm) => {
      const kinematics = await modelOf(arm);
      for (const part of [0.5, 0.4]) {
        const goal = within(kinematics, part);
        await arm.moveToJointPositions(goal);
        assertSame(await arm.getJointPositions(), goal);
        assertPose(await arm.getEndPosition(), forwardKinematics(kinematics, goal));
      }
    },
    "moveToPosition moves the end to a reachable pose": async (arm) => {
      const kinematics = await modelOf(arm);
      const goal = forwardKinematics(kinematics, within(kinematics, 0.45));
      await arm.moveToJointPositions(within(kinematics, 0.5));
      await arm.moveToPosition(goal);
      assertPose(await arm.getEndPosition(), goal);
    },
    "a joint position beyond its limit is refused and moves nothing": async (arm) => {
      const before = await arm.getJointPositions();
      const [{ max }] = (await modelOf(arm)).joints;
      const error = await assertRejects(
        () => arm.moveToJointPositions([max + 1, ...before.slice(1)]),
        SvcError,
      );
      assertEquals([error.code, await arm.getJointPositions()], ["invalid_argument", before]);
    },
    "moveToJointPositions refuses too few or too many positions": async (arm) => {
      const before = await arm.getJointPositions();
      for (const positions of [[], [...before, 0]]) {
        const error = await assertRejects(() => arm.moveToJointPositions(positions), SvcError);
        assertEquals(error.code, "invalid_argument");
      }
    },
    "moveToPosition refuses an unreachable pose and moves nothing": async (arm) => {
      const before = await arm.getJointPositions();
      const far = { x: 1e6, y: 0, z: 0, oX: 0, oY: 0, oZ: 1, theta: 0 };
      await assertRejects(() => arm.moveToPosition(far), SvcError);
      assertEquals(await arm.getJointPositions(), before);
    },
    "moveThroughJointPositions ends at the last position": async (arm) => {
      const kinematics = await modelOf(arm);
      const goals = [0.4, 0.5, 0.45].map((part) => within(kinematics, part));
      await arm.moveThroughJointPositions(goals, { maxVelDegsPerSec: 1000 });
      assertSame(await arm.getJointPositions(), goals[2]);
      await arm.moveThroughJointPositions([]);
      assertSame(await arm.getJointPositions(), goals[2]);
    },
    "a streamed trajectory is followed and acknowledged once for each batch": async (arm) => {
      const kinematics = await modelOf(arm);
      const goals = [0.45, 0.475, 0.5].map((part) => within(kinematics, part));
      const points = goals.map((positions, index): TrajectoryPoint => ({ timeMs: index * 10, positions }));
      let taken = 0;
      const batches = stream([points.slice(0, 2), points.slice(2)]);
      for await (const _ of arm.moveThroughJointPositionsStreamed(batches)) taken++;
      assertEquals(taken, 2);
      assertSame(await arm.getJointPositions(), goals[2]);
    },
    "a bad point ends a streamed trajectory with its error": async (arm) => {
      const batches = stream([[{ timeMs: 0, positions: [] }]]);
      const follow = async () => {
        for await (const _ of arm.moveThroughJointPositionsStreamed(batches));
      };
      assertEquals((await assertRejects(follow, SvcError)).code, "invalid_argument");
    },
    "getGeometries returns the shapes of the kinematics' links": async (arm) => {
      const shapes = modelGeometries(await modelOf(arm), await arm.getJointPositions());
      assertEquals((await arm.getGeometries()).length, shapes.length);
    },
    "getManualMode returns the mode that was set": {
      capability: "manual mode",
      has: async (arm) => (await arm.getProperties()).supportManualMode,
      check: async (arm) => {
        await arm.setManualMode(true, 0);
        assertEquals(await arm.getManualMode(), true);
        await arm.setManualMode(false, 0);
        assertEquals(await arm.getManualMode(), false);
      },
    },
    "get3dModels returns a mesh for each name": async (arm) => {
      for (const { mesh } of Object.values(await arm.get3dModels())) assert(mesh.length > 0);
    },
    "isMoving returns false after stop": async (arm) => {
      await arm.stop();
      assertEquals(await arm.isMoving(), false);
    },
  },
};

/** Every joint at a part of its way from min to max. */
function within({ joints }: KinematicModel, part: number): number[] {
  return joints.map(({ min, max }) => min + (max - min) * part);
}

async function* stream<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values;
}

function assertSame(found: readonly number[], wanted: readonly number[]): void {
  assertEquals(found.length, wanted.length);
  for (const [index, value] of found.entries()) assertAlmostEquals(value, wanted[index], 1e-6);
}

function assertPose(found: Pose, wanted: Pose): void {
  assert(
    posesAlmostEqual(found, wanted, { mm: 0.1, deg: 0.1 }),
    `${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`,
  );
}
