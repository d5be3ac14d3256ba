import { assert, assertEquals } from "@std/assert";
import { type Motion, MotionApi, type Movement } from "../../lib/api/services/motion.ts";
import { type Pose, poseAt, posesAlmostEqual } from "../../lib/geometry/pose.ts";
import type { Contract } from "./contract.ts";
import { awaitOutcome } from "../support/outcome.ts";

/** Bodies at the end of an arm that stands 1 m along X, and bodies that the machine cannot move. */
const TOOL = "tool_moved";
const GANTRY = "gantry_placed";

/** Pointing down, in front of the arm. */
const THERE: Pose = { ...poseAt(1500, 100, 200), oZ: -1 };

function movement(pose: Pose, more: Partial<Movement> = {}): Movement {
  return {
    componentName: TOOL,
    destination: { referenceFrame: "world", pose },
    worldState: { obstacles: [], transforms: [] },
    constraints: { linear: [], pseudolinear: [], orientation: [], allowedCollisions: [] },
    ...more,
  };
}

async function checkAt(motion: Motion, wanted: Pose): Promise<void> {
  const { referenceFrame, pose } = await motion.getPose(TOOL, "", []);
  assertEquals(referenceFrame, "world");
  assert(posesAlmostEqual(pose, wanted, { mm: 0.1, deg: 0.1 }), `it is at ${JSON.stringify(pose)}`);
}

export const contract: Contract<Motion> = {
  api: MotionApi,
  cases: {
    "move brings the tool on an arm to a pose": async (motion) => {
      assertEquals(await motion.move(movement(THERE)), true);
      await checkAt(motion, THERE);
    },
    "move takes a destination in the frame of the moved tool": async (motion) => {
      await motion.move(movement(THERE));
      const forward = { referenceFrame: TOOL, pose: poseAt(0, 0, 50) };
      await motion.move(movement(THERE, { destination: forward }));
      await checkAt(motion, { ...THERE, z: THERE.z - 50 });
      const seen = { name: "corner", parent: "world", pose: poseAt(1000, 0, 100) };
      const { pose } = await motion.getPose(TOOL, "corner", [seen]);
      assert(posesAlmostEqual(pose, { ...THERE, x: 500, z: 50 }, { mm: 0.1, deg: 0.1 }));
    },
    "move follows a linear constraint to its goal": async (motion) => {
      await motion.move(movement(THERE));
      const goal = { ...THERE, y: 0, z: 150 };
      const none = movement(goal).constraints;
      await motion.move(movement(goal, { constraints: { ...none, linear: [{ lineToleranceMm: 1 }] } }));
      await checkAt(motion, goal);
    },
    "move refuses a blocked path and moves nothing": async (motion) => {
      await motion.move(movement(THERE));
      const shape = { type: "sphere", radiusMm: 60 } as const;
      const ball = { center: poseAt(0, 0, 0), label: "ball", shape };
      const over = { name: "over", parent: "world", pose: poseAt(1500, -300, 200) };
      const obstacles = [{ referenceFrame: "over", geometries: [ball] }];
      const goal = { ...THERE, y: -300 };
      const blocked = movement(goal, { worldState: { obstacles, transforms: [over] } });
      assertEquals(await awaitOutcome(motion.move(blocked)), "failed_precondition");
      await checkAt(motion, THERE);
    },
    "move refuses immovable and unknown components and unreachable poses": async (motion) => {
      assertEquals(
        await awaitOutcome(motion.move(movement(THERE, { componentName: GANTRY }))),
        "failed_precondition",
      );
      assertEquals(await awaitOutcome(motion.move(movement(THERE, { componentName: "nobody" }))), "unknown");
      assertEquals(await awaitOutcome(motion.move(movement(poseAt(9000, 0, 0)))), "failed_precondition");
    },
    "getPlan returns each listed plan, and unknown plans are refused": async (motion) => {
      for (const { componentName, executionId } of await motion.listPlanStatuses(false)) {
        const which = { componentName, executionId, lastPlanOnly: true };
        assertEquals((await motion.getPlan(which)).current.executionId, executionId);
      }
      assertEquals(
        await awaitOutcome(motion.getPlan({ componentName: "nobody", lastPlanOnly: false })),
        "unknown",
      );
      assertEquals(await awaitOutcome(motion.stopPlan("nobody")), "unknown");
    },
  },
};
