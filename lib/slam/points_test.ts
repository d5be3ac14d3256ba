import { assertAlmostEquals, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { byAngle, doubleAt, indexAt, medianOf, pointsAt, singleAt, thinned, xOf, yOf } from "./points.ts";

const POINTS = Float64Array.of(2, 0, 0, 3, -1, 0.5);

Deno.test("points: a number that a list does not have is a bug, not NaN", () => {
  assertEquals([xOf(POINTS, 1), yOf(POINTS, 1), doubleAt(POINTS, 5)], [0, 3, 0.5]);
  for (const k of [-1, 3, 0.25, NaN]) {
    assertThrows(() => xOf(POINTS, k), Error, "Bug: number or point");
    assertThrows(() => yOf(POINTS, k), Error, "Bug: number or point");
  }
  assertThrows(() => doubleAt(POINTS, 6), Error, "6 of a list of 6 numbers");
  assertThrows(() => singleAt(new Float32Array(2), 2), Error, "2 of a list of 2 numbers");
  assertThrows(() => indexAt(new Int32Array(0), 0), Error, "0 of a list of 0 numbers");
});

Deno.test("points: by angle they are in order, seen from the lidar; in order already, they are not copied", () => {
  const { points, angles, stepRad } = byAngle(Float64Array.of(1, 2, 1, -1, 2, 0), { x: 1, y: 0 });
  assertEquals([...points], [1, -1, 2, 0, 1, 2]);
  assertEquals([...angles], [-Math.PI / 2, 0, Math.PI / 2]);
  assertEquals(stepRad, Math.PI / 2);
  assertStrictEquals(byAngle(POINTS).points, POINTS);
  assertEquals(byAngle(new Float64Array(0)).stepRad, 0);
});

Deno.test("points: a pose moves them, few of many are evenly spread, and a median is one of the numbers", () => {
  const [x = NaN, y = NaN] = pointsAt(POINTS, { x: 1, y: -1, yaw: Math.PI / 2 });
  assertAlmostEquals(x, 1);
  assertAlmostEquals(y, 1);
  assertEquals([...thinned(Float64Array.from({ length: 12 }, (_, k) => k), 3)], [0, 1, 4, 5, 8, 9]);
  assertEquals([medianOf(Float64Array.of(3, 1, 2, 0)), medianOf(new Float64Array(0))], [2, 0]);
});
