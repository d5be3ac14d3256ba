import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { forwardKinematics, parseKinematics } from "../../lib/geometry/kinematics.ts";
import { construct, namedBy } from "../../tests/support/construct.ts";
import { FakeArm } from "./fake.ts";
import { WrapperArm } from "./wrapper_arm.ts";

const FILE = "tests/data/kinematics/two_axes.urdf";
const ATTRIBUTES = { "arm-name": "actual", "model-path": FILE };

Deno.test("wrapper_arm: the joints are those of the other arm, poses and limits those of the file", async () => {
  const actual = await construct(FakeArm, { "model-path": FILE }, { name: "actual" });
  const arm = await construct(WrapperArm, ATTRIBUTES, { dependencies: [actual] });
  const model = await parseKinematics(await Deno.readFile(FILE), "urdf", "test");
  const goal = model.joints.map(({ min, max }) => min + (max - min) / 4);
  await arm.moveToJointPositions(goal);
  assertEquals(await actual.getJointPositions(), goal);
  assertEquals(await arm.getEndPosition(), forwardKinematics(model, goal));
  assertEquals((await arm.getKinematics()).format, "urdf");
  const far = model.joints.map(({ max }) => max + 1);
  await assertRejects(() => arm.moveToJointPositions(far), SvcError, "needs to be within range");
  assertEquals(namedBy(WrapperArm, ATTRIBUTES), ["actual"]);
});

Deno.test("wrapper_arm: a file with another number of joints, or none, is refused", async () => {
  const actual = await construct(FakeArm, { "arm-model": "ur5e" }, { name: "actual" });
  await assertRejects(
    () => construct(WrapperArm, ATTRIBUTES, { dependencies: [actual] }),
    SvcError,
    "wanted as many",
  );
  const missing = { ...ATTRIBUTES, "model-path": "none.json" };
  await assertRejects(() => construct(WrapperArm, missing, { dependencies: [actual] }), Error, "none.json");
});
