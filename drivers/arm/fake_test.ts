import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Arm, TrajectoryPoint } from "../../lib/api/actuators/arm.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type Pose, poseAt, posesAlmostEqual } from "../../lib/geometry/pose.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeArm } from "./fake.ts";

const UR5E = { "arm-model": "ur5e" };
const FILE = { "model-path": "tests/data/kinematics/two_axes.urdf" };

async function assertEnd(arm: Arm, wanted: Pose): Promise<void> {
  const found = await arm.getEndPosition();
  assert(posesAlmostEqual(found, wanted, { mm: 0.02, deg: 0.02 }), JSON.stringify(found));
}

Deno.test("fake arm: without a model it has one joint and ends at 500, 0, 300", async () => {
  const arm = await construct(FakeArm);
  assertEquals(await arm.getJointPositions(), [0]);
  await assertEnd(arm, poseAt(500, 0, 300));
  await arm.moveToJointPositions([90]);
  await assertEnd(arm, { ...poseAt(500, 0, 300), theta: 90 });
});

Deno.test("fake arm: a known model reaches joint positions and poses at once", async () => {
  const arm = await construct(FakeArm, UR5E);
  assertEquals(await arm.getJointPositions(), [0, 0, 0, 0, 0, 0]);
  await arm.moveToJointPositions([0, -45, 90, -45, -90, 0]);
  assertEquals([await arm.getJointPositions(), await arm.isMoving()], [[0, -45, 90, -45, -90, 0], false]);
  const start = await arm.getEndPosition();
  const goal = { ...start, x: start.x + 30, z: start.z - 40 };
  await arm.moveToPosition(goal);
  await assertEnd(arm, goal);
});

Deno.test("fake arm: a joint position beyond its limits is refused and moves nothing", async () => {
  const arm = await construct(FakeArm, UR5E);
  const text = "joint 2 needs to be within range [-180, 180] and cannot be moved to 181";
  await assertRejects(() => arm.moveToJointPositions([1, 2, 181, 4, 5, 6]), SvcError, text);
  await assertRejects(() => arm.moveToJointPositions([NaN, 0, 0, 0, 0, 0]), SvcError, "moved to NaN");
  await assertRejects(() => arm.moveToJointPositions([0]), SvcError, "1 joint positions, wanted 6");
  assertEquals(await arm.getJointPositions(), [0, 0, 0, 0, 0, 0]);
});

Deno.test("fake arm: a pose out of reach is refused and moves nothing", async () => {
  const arm = await construct(FakeArm, UR5E);
  const error = await assertRejects(() => arm.moveToPosition(poseAt(5000, 0, 0)), SvcError);
  assertEquals([error.code, await arm.getJointPositions()], ["failed_precondition", [0, 0, 0, 0, 0, 0]]);
});

Deno.test("fake arm: moveThroughJointPositions stops before the first unreachable position", async () => {
  const arm = await construct(FakeArm);
  await arm.moveThroughJointPositions([[10], [20]]);
  assertEquals(await arm.getJointPositions(), [20]);
  await assertRejects(() => arm.moveThroughJointPositions([[30], [400], [40]]), SvcError, "[-360, 360]");
  assertEquals(await arm.getJointPositions(), [30]);
});

Deno.test("fake arm: a streamed trajectory is followed batch by batch", async () => {
  const arm = await construct(FakeArm);
  const seen: (readonly number[])[] = [];
  const batches = async function* () {
    const point = (timeMs: number, position: number): TrajectoryPoint => ({ timeMs, positions: [position] });
    yield [point(0, 10), point(100, 20)];
    seen.push(await arm.getJointPositions());
    yield [point(200, 30)];
  };
  for await (const _ of arm.moveThroughJointPositionsStreamed(batches())) {
    seen.push(await arm.getJointPositions());
  }
  assertEquals(seen, [[20], [20], [30]]);
});

Deno.test("fake arm: a model from a URDF file has its joints, limits and shapes", async () => {
  const arm = await construct(FakeArm, FILE, { name: "boom" });
  await arm.moveToJointPositions([90, 100]);
  await assertEnd(arm, { ...poseAt(0, 100, 500), theta: 90 });
  const shapes = await arm.getGeometries();
  assertEquals(shapes.map(({ label, shape }) => [label, shape.type]), [
    ["boom:column", "box"],
    ["boom:boom", "sphere"],
  ]);
  assert(posesAlmostEqual(shapes[1].center, { ...poseAt(0, 300, 500), theta: 90 }));
  await assertRejects(() => arm.moveToJointPositions([0, 301]), SvcError, "joint 1");
  assertEquals((await arm.getKinematics()).format, "urdf");
});

Deno.test("fake arm: manual mode lasts until it is turned off or its time is over", async () => {
  const clock = new FakeClock();
  const arm = await construct(FakeArm, {}, { clock });
  assertEquals(await arm.getManualMode(), false);
  await arm.setManualMode(true, 0);
  await clock.advance(1e9);
  assertEquals(await arm.getManualMode(), true);
  await arm.setManualMode(true, 30);
  await clock.advance(29_999);
  assertEquals(await arm.getManualMode(), true);
  await clock.advance(1);
  assertEquals(await arm.getManualMode(), false);
});

Deno.test("fake arm: attributes accept both spellings and refuse two models or an unknown arm-model", async () => {
  assertEquals((await (await construct(FakeArm, { arm_model: "xarm7" })).getJointPositions()).length, 7);
  assertEquals(problemsOf(FakeArm, { ...UR5E, ...FILE }), [
    ": found both arm-model and model-path, wanted one of them",
  ]);
  const [problem] = problemsOf(FakeArm, { "arm-model": "ur5" });
  assert(problem.startsWith('arm-model: found "ur5", wanted one of'), problem);
  assert(problem.endsWith('did you mean "ur5e"?'), problem);
});

Deno.test("fake arm: a missing, unsupported or rigid model file fails the construction", async () => {
  const built = (path: string) => construct(FakeArm, { "model-path": path }, { name: "a" });
  await assertRejects(() => built("missing.json"), SvcError, "missing.json");
  await assertRejects(
    () => built("arm.txt"),
    SvcError,
    "only files with .json and .urdf extensions are supported",
  );
  const rigid = "tests/data/kinematics/rigid.json";
  await assertRejects(() => built(rigid), SvcError, `zero degrees-of-freedom from ${rigid}`);
});
