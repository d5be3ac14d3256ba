import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { decodeDepth, depthToCloud, encodeDepth, medianDepth } from "./depth.ts";
import { checkIntrinsics, projectPoint } from "./lens.ts";
import { boundingBox } from "../cloud/point_cloud.ts";

const map = { width: 3, height: 2, data: Uint16Array.of(0, 1000, 2000, 65535, 0, 258) };
const lens = { widthPx: 3, heightPx: 2, focalXPx: 2, focalYPx: 4, centerXPx: 1, centerYPx: 0.5 };

Deno.test("encodeDepth: matches the published depth format byte for byte", () => {
  const bytes = encodeDepth(map);
  assertEquals(new TextDecoder().decode(bytes.subarray(0, 8)), "DEPTHMAP");
  assertEquals([...bytes.subarray(8, 24)], [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2]);
  assertEquals([...bytes.subarray(24)], [0, 0, 3, 232, 7, 208, 255, 255, 0, 0, 1, 2]);
  assertEquals(decodeDepth(bytes), map);
  const inner = new Uint8Array(bytes.length + 3);
  inner.set(bytes, 3);
  assertEquals(decodeDepth(inner.subarray(3)), map);
  assertEquals(encodeDepth({ width: 640, height: 480, data: new Uint16Array(640 * 480) }).length, 614_424);
});

Deno.test("decodeDepth: refuses bytes that do not match their header", () => {
  const bytes = encodeDepth(map);
  const refused = (file: Uint8Array, message: string) =>
    assertThrows(() => decodeDepth(file), SvcError, message);
  refused(new Uint8Array(0), '0 bytes starting ""');
  refused(bytes.subarray(0, 20), "20 bytes starting");
  refused(new TextEncoder().encode("DEPTHMAQ................"), '"DEPTHMAQ"');
  refused(bytes.subarray(0, 35), "35 bytes for 3 x 2 pixels, wanted 36");
  const huge = bytes.slice();
  huge.fill(255, 8, 24);
  refused(huge, "36 bytes for 18446744073709551615 x 18446744073709551615");
});

Deno.test("depthToCloud: converts pixels to points in metres", () => {
  const rgb = Uint32Array.of(1, 2, 3, 4, 5, 6);
  const cloud = depthToCloud(map, lens, { rgb });
  assertEquals([cloud.width, cloud.height, [...cloud.rgb!]], [4, 1, [2, 3, 4, 6]]);
  // Pixel (2, 0) at 2 m: X = (2 - 1) / 2 * 2, Y = (0 - 0.5) / 4 * 2.
  assertEquals([cloud.x[1], cloud.y[1], cloud.z[1]], [1, -0.25, 2]);
  assertEquals(boundingBox(cloud)?.points, 4);
  const grid = depthToCloud(map, lens, { organised: true });
  assertEquals([grid.width, grid.height, Number.isNaN(grid.z[0]), grid.z[1]], [3, 2, true, 1]);
  const pixel = projectPoint(lens, { x: cloud.x[3], y: cloud.y[3], z: cloud.z[3] });
  assertAlmostEquals(pixel!.u, 2, 1e-6);
  assertAlmostEquals(pixel!.v, 1, 1e-6);
  assertEquals(projectPoint(lens, { x: 0, y: 0, z: -1 }), undefined);
  assertEquals(projectPoint(lens, { x: 9, y: 0, z: 1 }), undefined);
});

Deno.test("depthToCloud: refuses invalid intrinsics and intrinsics of another size", () => {
  assertThrows(
    () => checkIntrinsics({ ...lens, focalXPx: 0 }),
    SvcError,
    "focalXPx is 0, wanted more than 0",
  );
  assertThrows(() => checkIntrinsics({ ...lens, centerXPx: NaN }), SvcError, "centerXPx is NaN");
  assertThrows(() => depthToCloud(map, { ...lens, widthPx: 4 }), SvcError, "3 x 2 with intrinsics for 4 x 2");
  assertThrows(() => encodeDepth({ ...map, width: 4 }), Error, "Bug: ");
});

Deno.test("medianDepth: returns the middle reading without missing values", () => {
  const median = (...data: number[]) =>
    medianDepth({ width: data.length, height: 1, data: Uint16Array.from(data) });
  assertEquals(median(0, 0, 0, 5, 7, 9), 7);
  assertEquals(median(7, 5), 7);
  assertEquals(median(65535), 65535);
  assertEquals(median(0, 0), undefined);
});

Deno.test("depthToCloud: corrects lens distortion", () => {
  const bent = { model: "brown_conrady", parameters: [0.1, 0, 0, 0, 0] };
  const cloud = depthToCloud(map, lens, { distortion: bent, organised: true });
  const straight = depthToCloud(map, lens, { organised: true });
  // A pixel with a longer ray appears farther out.
  const [x, y] = [cloud.x[1] / cloud.z[1], cloud.y[1] / cloud.z[1]];
  const longer = 1 + 0.1 * (x * x + y * y);
  assertAlmostEquals(y * longer, straight.y[1] / straight.z[1], 1e-6);
  assertEquals(cloud.z, straight.z);
});
