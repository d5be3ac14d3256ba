import { assert, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { armModel, gantryModel, gripperModel } from "./arm_models.ts";
import { inverseKinematics } from "./inverse_kinematics.ts";
import { checkJoints, forwardKinematics, modelGeometries } from "./kinematics.ts";
import { poseAt, posesAlmostEqual } from "./pose.ts";

Deno.test("armModel: each arm's end at zero joints matches its manufacturer", () => {
  const at = (name: string) => {
    const arm = armModel(name);
    const { x, y, z } = forwardKinematics(arm, arm.joints.map(() => 0));
    return [x, y, z].map((mm) => Math.round(mm * 10) / 10);
  };
  assertEquals(at("ur5e"), [-817.2, -232.9, 62.8]);
  assertEquals(at("ur20"), [-1590.7, -355.3, 77]);
  assertEquals(at("xarm6"), [207, 0, 112]);
  assertEquals(at("xarm7"), [206, 0, 120.5]);
  assertEquals(at("lite6"), [87, 0, 154.2]);
  assertEquals(at("yahboom-dofbot"), [248.6, 0, 115]);
  assertEquals(at("fake"), [500, 0, 300]);
  assertEquals(armModel().joints.length, 1);
  assertEquals(armModel("xArm6", "a").name, "a");
  assertThrows(() => armModel("ur5"), SvcError, "unsupported arm model ur5, wanted one of fake, ur5e");
});

Deno.test("armModel: the joints turn as far as their manufacturers say", () => {
  const round = [-360, 360], nearly = [-359, 359];
  const wanted: Record<string, number[][]> = {
    ur5e: [round, round, [-180, 180], round, round, round],
    xarm6: [nearly, [-118, 120], [-225, 10], nearly, [-97, 179], nearly],
    xarm7: [nearly, [-117.5, 120], nearly, [-11, 225], nearly, [-97, 179], nearly],
    lite6: [nearly, [-149, 149], [-3, 299], nearly, [-124, 124], nearly],
  };
  for (const [name, limits] of Object.entries(wanted)) {
    assertEquals(armModel(name).joints.map(({ min, max }) => [min, max]), limits, name);
  }
});

Deno.test("armModel: links have bodies along them", () => {
  const bodies = modelGeometries(armModel("ur5e"), [0, 0, 0, 0, 0, 0]);
  assertEquals(bodies.map(({ label }) => label), [
    "ur5e:base",
    "ur5e:upper_arm_link",
    "ur5e:forearm_link",
    "ur5e:wrist_1_link",
    "ur5e:wrist_2_link",
    "ur5e:ee_link",
  ]);
  const { center, shape } = bodies[1];
  assert(Math.hypot(center.x + 212.5, center.y, center.z - 162.5) < 1e-9);
  assertEquals(shape, { type: "capsule", radiusMm: 50, lengthMm: 525 });
});

Deno.test("gantryModel and gripperModel: a gantry moves along its axes, a gripper reaches 200 mm", () => {
  const gantry = gantryModel("g", [100, 200, 300]);
  assert(posesAlmostEqual(forwardKinematics(gantry, [10, 20, 30]), poseAt(10, 20, 30)));
  const found = inverseKinematics(gantry, poseAt(90, 150, 290), [0, 0, 0]);
  assert(posesAlmostEqual(forwardKinematics(gantry, found), poseAt(90, 150, 290), { mm: 0.0101 }));
  assertThrows(() => checkJoints(gantry, [101, 0, 0]), SvcError, "wanted from 0 to 100");
  assertThrows(() => gantryModel("g", []), SvcError, "a gantry of 0 axes, wanted 1 to 3");
  assert(posesAlmostEqual(forwardKinematics(gripperModel(), []), poseAt(0, 0, 200)));
});
