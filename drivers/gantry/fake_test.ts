import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeGantry } from "./fake.ts";

Deno.test("fake gantry: by default it is 100 mm long with its carriage in the middle", async () => {
  const gantry = await construct(FakeGantry);
  assertEquals([await gantry.getLengths(), await gantry.getPosition()], [[100], [50]]);
  const longer = await construct(FakeGantry, { length_mm: 1000 });
  assertEquals([await longer.getLengths(), await longer.getPosition()], [[1000], [500]]);
});

Deno.test("fake gantry: moveToPosition moves position and geometry at once", async () => {
  const gantry = await construct(FakeGantry);
  const before = (await gantry.getGeometries())[0].center.x;
  await gantry.moveToPosition([80], [50]);
  assertEquals([await gantry.getPosition(), await gantry.isMoving()], [[80], false]);
  assertEquals((await gantry.getGeometries())[0].center.x - before, 30);
});

Deno.test("fake gantry: a position beyond its ends is refused with the published error", async () => {
  const gantry = await construct(FakeGantry);
  await assertRejects(() => gantry.moveToPosition([101], []), SvcError, "position 101 out of range [0, 100]");
  await assertRejects(() => gantry.moveToPosition([NaN], []), SvcError, "position NaN out of range");
  await assertRejects(() => gantry.moveToPosition([1, 2], []), SvcError, "to 2 positions, wanted 1");
});

Deno.test("fake gantry: home() returns true and leaves the carriage in place", async () => {
  const gantry = await construct(FakeGantry);
  assertEquals([await gantry.home(), await gantry.getPosition()], [true, [50]]);
});

Deno.test("fake gantry: attributes are a length or a file with exactly one joint", async () => {
  const path = "tests/data/kinematics/two_fingers.json";
  assertEquals(problemsOf(FakeGantry, { length_mm: -1 }).length, 1);
  assertEquals(problemsOf(FakeGantry, { length_mm: 1, model_path: path }), [
    ": found both model_path and length_mm, wanted one of them",
  ]);
  await assertRejects(() => construct(FakeGantry, { model_path: path }), SvcError, "wanted exactly one");
});
