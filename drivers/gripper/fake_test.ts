import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeGripper } from "./fake.ts";

const FILE = { "model-path": "tests/data/kinematics/two_fingers.json" };

Deno.test("fake gripper: without a model it has no joints and no geometries, and grabs nothing", async () => {
  const gripper = await construct(FakeGripper);
  await gripper.open();
  assertEquals(await gripper.grab(), false);
  assertEquals(await gripper.isHoldingSomething(), { isHoldingSomething: false });
  assertEquals([await gripper.getCurrentInputs(), await gripper.getGeometries()], [[], []]);
});

Deno.test("fake gripper: with a model open() moves to the maxima and grab() to the minima", async () => {
  const gripper = await construct(FakeGripper, FILE);
  assertEquals(await gripper.getCurrentInputs(), [0, 0]);
  await gripper.open();
  assertEquals(await gripper.getCurrentInputs(), [50, 50]);
  await gripper.grab();
  assertEquals(await gripper.getCurrentInputs(), [0, 0]);
});

Deno.test("fake gripper: goToInputs moves the fingers within their limits", async () => {
  const gripper = await construct(FakeGripper, FILE);
  await gripper.goToInputs([25, 30]);
  const shapes = await gripper.getGeometries();
  assertEquals(shapes.map(({ center: { x, y, z } }) => [x, y, z]), [[25, 0, 100], [-30, 0, 100]]);
  await assertRejects(() => gripper.goToInputs([51, 0]), SvcError, "joint 0 (left_joint)");
  assertEquals(await gripper.getCurrentInputs(), [25, 30]);
});
