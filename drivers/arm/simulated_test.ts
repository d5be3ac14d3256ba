import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { posesAlmostEqual } from "../../lib/geometry/pose.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock, passing } from "../../tests/support/fake_clock.ts";
import { SimulatedArm } from "./simulated.ts";

const UR5E = { "arm-model": "ur5e" };

async function bench(attributes: JsonObject = UR5E) {
  const clock = new FakeClock();
  return { clock, arm: await construct(SimulatedArm, attributes, { clock }) };
}

Deno.test("simulated arm: its joints arrive together, the farthest at 1 radian a second", async () => {
  const { clock, arm } = await bench();
  const moving = arm.moveToJointPositions([0, -90, 45, 0, 0, 0]);
  await clock.advance(Math.PI / 4 * 1000);
  const halfway = await arm.getJointPositions();
  assertAlmostEquals(halfway[1], -45, 0.2);
  assertAlmostEquals(halfway[2], 22.5, 0.2);
  assertEquals(await arm.isMoving(), true);
  await clock.advance(Math.PI / 4 * 1000 + 1);
  await moving;
  assertEquals([await arm.getJointPositions(), await arm.isMoving()], [[0, -90, 45, 0, 0, 0], false]);
  const fast = await bench({ ...UR5E, speed: 10 });
  const soon = fast.arm.moveToJointPositions([180, 0, 0, 0, 0, 0]);
  await fast.clock.advance(315);
  await soon;
});

Deno.test("simulated arm: a movement that is stopped fails, and the arm stays where it is", async () => {
  const { clock, arm } = await bench();
  const stopped = assertRejects(
    () => arm.moveToJointPositions([90, 0, 0, 0, 0, 0]),
    SvcError,
    "stopped before reaching",
  );
  await clock.advance(500);
  await arm.stop();
  await stopped;
  const [joint] = await arm.getJointPositions();
  assertAlmostEquals(joint, 0.5 * 180 / Math.PI, 0.1);
  await clock.advance(5000);
  assertEquals((await arm.getJointPositions())[0], joint);
  const caller = new AbortController();
  const left = assertRejects(() => arm.moveToJointPositions([90, 0, 0, 0, 0, 0], { signal: caller.signal }));
  await clock.advance(100);
  caller.abort(new Error("left"));
  await left;
  assert(!await arm.isMoving());
  assertEquals(clock.pending, 0);
});

Deno.test("simulated arm: it reaches poses and follows paths, and refuses positions beyond its limits", async () => {
  const { clock, arm } = await bench();
  await passing(
    clock,
    10_000,
    arm.moveThroughJointPositions([[0, -45, 90, 0, 0, 0], [0, -45, 90, -45, -90, 0]]),
  );
  const start = await arm.getEndPosition();
  const goal = { ...start, z: start.z - 40 };
  await passing(clock, 10_000, arm.moveToPosition(goal));
  assert(posesAlmostEqual(await arm.getEndPosition(), goal, { mm: 0.1, deg: 0.1 }));
  await assertRejects(
    () => arm.moveToJointPositions([400, 0, 0, 0, 0, 0]),
    SvcError,
    "needs to be within range",
  );
  assertEquals(problemsOf(SimulatedArm, { ...UR5E, "model-path": "x.urdf" }).length, 1);
});
