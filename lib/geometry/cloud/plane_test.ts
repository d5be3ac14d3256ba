import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { raysOf } from "../image/lens.ts";
import { GroundFinder, type Plane } from "./plane.ts";
import { degrees, radians } from "../pose.ts";
import { randomFrom } from "../random.ts";

const [WIDTH, HEIGHT] = [160, 120];
const rays = raysOf({
  widthPx: WIDTH,
  heightPx: HEIGHT,
  focalXPx: 140,
  focalYPx: 140,
  centerXPx: 79.5,
  centerYPx: 59.5,
});
const LIMITS = { maxDistMm: 100, toleranceDeg: 30 };

/** A floor under a camera that is pitched down and rolled. */
function floor(heightMm: number, pitchDeg: number, rollDeg = 0): Plane {
  const [pitch, roll] = [radians(pitchDeg), radians(rollDeg)];
  const across = -Math.cos(pitch);
  const normal = { x: across * Math.sin(roll), y: across * Math.cos(roll), z: -Math.sin(pitch) };
  return { normal, offsetMm: heightMm };
}

/** The depth image of some planes: at each pixel the nearest one, up to 10 m. */
function look(planes: readonly Plane[], { noise = 0, seed = 1 } = {}): Uint16Array {
  const random = randomFrom(seed);
  return Uint16Array.from({ length: WIDTH * HEIGHT }, (_, pixel) => {
    const depths = planes.map(({ normal, offsetMm }) =>
      -offsetMm / (normal.x * rays.x[pixel] + normal.y * rays.y[pixel] + normal.z)
    );
    const nearest = Math.min(...depths.filter((depth) => depth > 0));
    if (!(nearest < 10_000)) return 0;
    const error = (random() + random() + random() - 1.5) * 2 * noise * (0.5 + 1.5e-6 * nearest ** 2);
    return Math.round(nearest + error);
  });
}

const find = (depth: Uint16Array, limits = {}) =>
  new GroundFinder(rays, WIDTH, HEIGHT).find(depth, { ...LIMITS, ...limits });

function angleDeg({ normal: a }: Plane, { normal: b }: Plane): number {
  return degrees(2 * Math.asin(Math.hypot(a.x - b.x, a.y - b.y, a.z - b.z) / 2));
}

Deno.test("GroundFinder: finds a floor from any height, pitch and roll, with noise", () => {
  let seed = 0;
  for (const heightMm of [200, 600, 1500]) {
    for (const [pitchDeg, rollDeg] of [[5, 0], [15, -20], [29, 0], [20, 20]]) {
      const right = floor(heightMm, pitchDeg, rollDeg);
      const found = find(look([right], { noise: 1, seed: ++seed }));
      assert(found, `${heightMm} mm, ${pitchDeg} deg`);
      assert(
        angleDeg(found, right) < 0.2,
        `${heightMm} ${pitchDeg} ${rollDeg}: ${angleDeg(found, right)} deg`,
      );
      assertAlmostEquals(found.offsetMm, heightMm, 2);
    }
  }
});

Deno.test("GroundFinder: toleranceDeg is the largest accepted angle", () => {
  const tilted = look([floor(600, 40)]);
  assertEquals(find(tilted, { toleranceDeg: 39.5 }), undefined);
  assert(find(tilted, { toleranceDeg: 40.5 }));
  assert(find(look([floor(600, 90)]), { toleranceDeg: 90.1 }));
  assert(find(look([floor(600, 29.9)])));
  assertEquals(find(look([floor(600, 30.2)])), undefined);
});

Deno.test("GroundFinder: does not fit a skew plane across a surface that is too steep", () => {
  for (const pitchDeg of [31, 33, 36, 43, 60]) {
    for (const maxDistMm of [5, 10, 30, 100]) {
      const tilted = look([floor(600, pitchDeg)], { noise: 1 });
      assertEquals(find(tilted, { maxDistMm }), undefined, `${pitchDeg} deg, ${maxDistMm} mm`);
    }
  }
});

Deno.test("GroundFinder: finds the floor although walls are larger", () => {
  const right = floor(400, 5);
  const wall: Plane = { normal: { x: 0, y: 0, z: -1 }, offsetMm: 1500 };
  const side: Plane = { normal: { x: -Math.SQRT1_2, y: 0, z: -Math.SQRT1_2 }, offsetMm: 1200 };
  const depth = look([right, wall, side], { noise: 1 });
  const found = find(depth, { maxDistMm: 20 });
  assert(found && angleDeg(found, right) < 0.5, `${found && angleDeg(found, right)} deg`);
  assertEquals(find(look([wall, side])), undefined);
});

Deno.test("GroundFinder: does not accept a ceiling as the ground", () => {
  const ceiling: Plane = { normal: { x: 0, y: 1, z: 0 }, offsetMm: 800 };
  assertEquals(find(look([ceiling])), undefined);
  const found = find(look([ceiling, floor(600, 0)]));
  assertAlmostEquals(found!.normal.y, -1, 1e-4);
  assertAlmostEquals(found!.offsetMm, 600, 1);
});

Deno.test("GroundFinder: an empty frame, a point or a line gives no plane and no error", () => {
  const empty = new Uint16Array(WIDTH * HEIGHT);
  assertEquals(find(empty), undefined);
  assertEquals(find(empty.with(5, 700)), undefined);
  assertEquals(find(Uint16Array.from(empty, (_, pixel) => pixel % WIDTH === 80 ? 1000 : 0)), undefined);
  find(empty.fill(65535));
  const tiny = raysOf({ widthPx: 1, heightPx: 1, focalXPx: 1, focalYPx: 1, centerXPx: 0, centerYPx: 0 });
  assertEquals(new GroundFinder(tiny, 1, 1).find(Uint16Array.of(9), LIMITS), undefined);
});

Deno.test("GroundFinder: the same frame gives the same plane, whatever came before", () => {
  const frame = look([floor(600, 20)], { noise: 2 });
  const finder = new GroundFinder(rays, WIDTH, HEIGHT);
  const first = finder.find(frame, LIMITS);
  finder.find(look([floor(300, 5)]), LIMITS);
  assertEquals(finder.find(frame, LIMITS), first);
  assertEquals(find(frame), first);
});
