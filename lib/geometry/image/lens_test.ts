import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { checkIntrinsics, type Distortion, projectPoint, raysOf, scaleIntrinsics } from "./lens.ts";

const lens = { widthPx: 64, heightPx: 48, focalXPx: 60, focalYPx: 50, centerXPx: 31, centerYPx: 24 };

/** The point at which brown_conrady shows the ray (x, y), written out. */
function shown([k1, k2, k3, p1, p2]: readonly number[], x: number, y: number): [number, number] {
  const r2 = x * x + y * y;
  const radial = 1 + k1 * r2 + k2 * r2 ** 2 + k3 * r2 ** 3;
  return [
    x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
    y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
  ];
}

Deno.test("raysOf and projectPoint: agree for a pinhole lens", () => {
  const { x, y } = raysOf(lens);
  assertEquals([x[24 * 64 + 31], y[24 * 64 + 31]], [0, 0]);
  assertAlmostEquals(x[63], 32 / 60, 1e-7);
  assertAlmostEquals(y[63], -24 / 50, 1e-7);
  const pixel = projectPoint(lens, { x: x[63] * 7, y: y[63] * 7, z: 7 })!;
  assertAlmostEquals(pixel.u, 63, 1e-4);
  assertAlmostEquals(pixel.v, 0, 1e-4);
  assertEquals(projectPoint(lens, { x: 0, y: 0, z: -1 }), undefined);
  assertEquals(projectPoint(lens, { x: 9, y: 0, z: 1 }), undefined);
});

Deno.test("raysOf: inverts brown_conrady distortion at each pixel", () => {
  const parameters = [0.11297234, -0.21375332, -0.01584774, -0.00302002, 0.01];
  const { x, y } = raysOf(lens, { model: "brown_conrady", parameters });
  for (let pixel = 0; pixel < x.length; pixel++) {
    const [right, down] = shown(parameters, x[pixel], y[pixel]);
    assertAlmostEquals(right * 60 + 31, pixel % 64, 1e-4);
    assertAlmostEquals(down * 50 + 24, Math.floor(pixel / 64), 1e-4);
  }
  const back = raysOf(lens, { model: "inverse_brown_conrady", parameters });
  assertAlmostEquals(back.x[63], shown(parameters, 32 / 60, -24 / 50)[0], 1e-6);
});

Deno.test("raysOf: follows the kannala_brandt polynomial", () => {
  const parameters = [0.1, -0.02, 0.003, -0.0004];
  const { x, y } = raysOf(lens, { model: "kannala_brandt", parameters });
  for (let pixel = 0; pixel < x.length; pixel++) {
    const angle = Math.atan(Math.hypot(x[pixel], y[pixel]));
    const seen = parameters.reduce((sum, k, n) => sum + k * angle ** (2 * n + 3), angle);
    assertAlmostEquals(
      seen,
      Math.hypot((pixel % 64 - 31) / 60, (Math.floor(pixel / 64) - 24) / 50),
      1e-6,
    );
  }
});

Deno.test("raysOf: pixels where the lens folds the picture have no ray", () => {
  const { x, y } = raysOf(lens, { model: "brown_conrady", parameters: [-1.5, 0, 0, 0, 0] });
  assert(Number.isNaN(x[0]) && Number.isNaN(y[0]));
  const endless = raysOf(lens, { model: "inverse_brown_conrady", parameters: [1e308, 1e308] });
  for (const ray of [endless.x, endless.y]) {
    assert(ray.every((one) => Number.isNaN(one) || Math.abs(one) < 1));
  }
  assertEquals(x[24 * 64 + 31], 0);
});

Deno.test("raysOf: zero distortion gives pinhole rays, whatever the model name", () => {
  const straight = raysOf(lens);
  assertEquals(raysOf(lens, { model: "no_distortion", parameters: [1] }), straight);
  assertEquals(raysOf(lens, { model: "", parameters: [] }), straight);
  assertEquals(raysOf(lens, { model: "some_lens", parameters: [0, 0] }), straight);
});

Deno.test("checkIntrinsics: refuses an invalid lens and names the number", () => {
  const refused = (change: Record<string, number>, message: string) =>
    assertThrows(() => checkIntrinsics({ ...lens, ...change }), SvcError, message);
  refused({ focalXPx: 0 }, "intrinsics: focalXPx is 0, wanted more than 0");
  refused({ focalYPx: Infinity }, "focalYPx is Infinity");
  refused({ widthPx: -1 }, "widthPx is -1");
  refused({ centerXPx: NaN }, "centerXPx is NaN, wanted a number");
  const bent = (distortion: Distortion) => () => raysOf(lens, distortion);
  assertThrows(
    bent({ model: "fishy", parameters: [1] }),
    SvcError,
    'found the model "fishy", wanted one of brown_conrady',
  );
  assertThrows(bent({ model: "brown_conrady", parameters: [NaN] }), SvcError, "found the parameter NaN");
});

Deno.test("scaleIntrinsics: a scaled lens projects to the same place", () => {
  const half = scaleIntrinsics(lens, 32, 24);
  assertEquals(half, {
    widthPx: 32,
    heightPx: 24,
    focalXPx: 30,
    focalYPx: 25,
    centerXPx: 15.25,
    centerYPx: 11.75,
  });
  const point = { x: 0.3, y: -0.2, z: 1 };
  const [large, small] = [projectPoint(lens, point)!, projectPoint(half, point)!];
  assertAlmostEquals(small.u + 0.5, (large.u + 0.5) / 2, 1e-9);
  assertAlmostEquals(small.v + 0.5, (large.v + 0.5) / 2, 1e-9);
});
