import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { boundingBox, createCloud, pick, transformCloud, withoutMissing } from "./point_cloud.ts";
import { fromPose, invert, poseAt } from "../pose.ts";

const cloud = createCloud({
  x: Float32Array.of(0, 1, NaN, 2),
  y: Float32Array.of(0, 0, 5, -1),
  z: Float32Array.of(1, 0, 9, 0),
  rgb: Uint32Array.of(1, 2, 3, 4),
  label: Uint32Array.of(10, 20, 30, 40),
  width: 2,
  height: 2,
});

Deno.test("transformCloud: moves points by millimetres and keeps grid, colours and missing points", () => {
  const pose = fromPose({ ...poseAt(1000, 0, 500), theta: 90 });
  const moved = transformCloud(cloud, pose);
  assertEquals([moved.width, moved.height, moved.rgb], [2, 2, cloud.rgb]);
  assertAlmostEquals(moved.x[3], 2, 1e-6);
  assertAlmostEquals(moved.y[3], 2, 1e-6);
  assertAlmostEquals(moved.z[0], 1.5, 1e-6);
  assertEquals(Number.isNaN(moved.x[2]), true);
  const back = transformCloud(moved, invert(pose));
  for (const n of [0, 1, 3]) assertAlmostEquals(back.x[n], cloud.x[n], 1e-6);
});

Deno.test("boundingBox: encloses the present points", () => {
  assertEquals(boundingBox(cloud), { min: { x: 0, y: -1, z: 0 }, max: { x: 2, y: 0, z: 1 }, points: 3 });
  assertEquals(boundingBox(pick(cloud, Uint32Array.of(2))), undefined);
});

Deno.test("withoutMissing: turns a cloud into a single row without missing points", () => {
  const dense = withoutMissing(cloud);
  assertEquals([dense.width, dense.height], [3, 1]);
  assertEquals([[...dense.x], [...dense.rgb!], [...dense.label!]], [[0, 1, 2], [1, 2, 4], [10, 20, 40]]);
  assertEquals(withoutMissing(dense), dense);
});

Deno.test("createCloud: columns of different lengths throw a Bug error", () => {
  const [x, y, z] = [new Float32Array(2), new Float32Array(2), new Float32Array(3)];
  assertThrows(() => createCloud({ x, y, z }), Error, "Bug: a cloud of 2 x 1");
});
