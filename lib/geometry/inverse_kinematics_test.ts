import { assert, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { ARM_MODEL_NAMES, armModel, gripperModel } from "./arm_models.ts";
import { inverseKinematics } from "./inverse_kinematics.ts";
import { checkJoints, forwardKinematics } from "./kinematics.ts";
import { poseAt, posesAlmostEqual } from "./pose.ts";
import { randomFrom } from "./random.ts";

const SEED = 7;
const TOLERANCE = { mm: 0.0101, deg: 0.0101 };

Deno.test("inverseKinematics: every arm reaches random reachable poses within its limits", () => {
  for (const name of ARM_MODEL_NAMES) {
    const arm = armModel(name);
    const random = randomFrom(SEED);
    const anywhere = () => arm.joints.map(({ min, max }) => (min + random() * (max - min)) / 2);
    for (let i = 0; i < 25; i++) {
      const goal = forwardKinematics(arm, anywhere());
      const found = inverseKinematics(arm, goal, anywhere());
      checkJoints(arm, found);
      assert(
        posesAlmostEqual(forwardKinematics(arm, found), goal, TOLERANCE),
        `${name}, seed ${SEED}, goal ${i}`,
      );
    }
  }
});

Deno.test("inverseKinematics: a small change of pose moves joints little, and is repeatable", () => {
  const arm = armModel("xarm6");
  const start = [10, -20, -40, 5, 60, 170];
  const here = forwardKinematics(arm, start);
  const goal = { ...here, x: here.x + 20, z: here.z - 10 };
  const found = inverseKinematics(arm, goal, start);
  for (const [index, position] of found.entries()) {
    assert(Math.abs(position - start[index]) < 25, `joint ${index}`);
  }
  assertEquals(inverseKinematics(arm, goal, start), found);
});

Deno.test("inverseKinematics: an unreachable pose is an error with the smallest distance found", () => {
  const far = assertThrows(
    () => inverseKinematics(armModel("ur5e", "left"), poseAt(5000, 0, 0), [0, 0, 0, 0, 0, 0]),
    SvcError,
    "moving left to (5000.0, 0.0, 0.0) mm: out of reach, the closest found is",
  );
  assertEquals(far.code, "failed_precondition");
  assertThrows(() => inverseKinematics(armModel(), poseAt(501, 0, 300), [0]), SvcError, "1.00 mm");
  assertThrows(
    () => inverseKinematics(gripperModel(), poseAt(0, 0, 201), []),
    SvcError,
    "1.00 mm and 0.00 degrees",
  );
  assertEquals(inverseKinematics(gripperModel(), poseAt(0, 0, 200), []), []);
});

Deno.test("inverseKinematics: refuses a wrong number of joints and non-finite poses", () => {
  const arm = armModel("lite6");
  assertThrows(
    () => inverseKinematics(arm, poseAt(0, 0, 0), [0]),
    SvcError,
    "1 joint positions for lite6, wanted 6",
  );
  assertThrows(() => inverseKinematics(arm, poseAt(NaN, 0, 0), [0, 0, 0, 0, 0, 0]), SvcError, "not finite");
});
