import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import type { DepthMap } from "../image/depth.ts";
import { raysOf } from "../image/lens.ts";
import { type SegmentationLimits, Segmenter } from "./segmentation.ts";

const [WIDTH, HEIGHT] = [160, 120];
const LENS = {
  widthPx: WIDTH,
  heightPx: HEIGHT,
  focalXPx: 140,
  focalYPx: 140,
  centerXPx: 79.5,
  centerYPx: 59.5,
};
/** The documented defaults. */
const LIMITS: SegmentationLimits = {
  minPointsInPlane: 500,
  minPointsInSegment: 10,
  maxDistFromPlaneMm: 100,
  groundAngleToleranceDeg: 30,
  clusteringRadius: 1,
  clusteringStrictness: 5,
};
const FLOOR_MM = 500;

/** A card that faces the camera: its upper left pixel, the pixel after its lower right one, and its depth. */
type Card = readonly [left: number, top: number, right: number, bottom: number, depthMm: number];

/** A level floor under the camera, up to 5 m away, with cards in front of it. */
function frame(cards: readonly Card[], floorMm = FLOOR_MM): DepthMap {
  const data = new Uint16Array(WIDTH * HEIGHT);
  for (let pixel = 0; pixel < data.length; pixel++) {
    const [u, v] = [pixel % WIDTH, Math.floor(pixel / WIDTH)];
    const depth = floorMm * LENS.focalYPx / (v - LENS.centerYPx);
    if (depth > 0 && depth < 5000) data[pixel] = Math.round(depth);
    for (const [left, top, right, bottom, depthMm] of cards) {
      if (u >= left && u < right && v >= top && v < bottom) data[pixel] = depthMm;
    }
  }
  return { width: WIDTH, height: HEIGHT, data };
}

const segment = (map: DepthMap, limits: Partial<SegmentationLimits> = {}) =>
  new Segmenter(LENS, { ...LIMITS, ...limits }).segment(map);
const sizes = (map: DepthMap, limits: Partial<SegmentationLimits> = {}) =>
  segment(map, limits).segments.map(({ pixels }) => pixels.length);

const NEAR: Card = [30, 20, 60, 50, 1000];
const FAR: Card = [90, 20, 110, 60, 1400];

Deno.test("finds objects above the floor, nearest first, in the right places", () => {
  const { ground, segments } = segment(frame([FAR, NEAR]));
  assertAlmostEquals(ground!.offsetMm, FLOOR_MM, 0.5);
  assertEquals(segments.map(({ pixels }) => pixels.length), [30 * 30, 20 * 40]);
  const [{ pixels, cloud, box }] = segments;
  assertEquals([pixels[0], pixels.at(-1)], [20 * WIDTH + 30, 49 * WIDTH + 59]);
  assertEquals([cloud.width, cloud.height, cloud.x.length], [900, 1, 900]);
  assertAlmostEquals(cloud.x[0], (30 - 79.5) / 140, 1e-6);
  assertAlmostEquals(cloud.y[0], (20 - 59.5) / 140, 1e-6);
  assertAlmostEquals(box.min.z, 1, 1e-6);
  assertAlmostEquals(box.max.x, (59 - 79.5) / 140, 1e-6);
});

Deno.test("Segmenter: a floor alone or an empty frame gives no objects", () => {
  assertEquals(segment(frame([])).segments, []);
  const dark = { width: WIDTH, height: HEIGHT, data: new Uint16Array(WIDTH * HEIGHT) };
  assertEquals(segment(dark), { ground: undefined, segments: [] });
  assertEquals(sizes({ ...dark, data: dark.data.with(700, 900) }, { minPointsInSegment: 1 }), [1]);
  assertEquals(sizes({ ...dark, data: dark.data.with(700, 900) }), []);
  assertEquals(sizes({ ...dark, data: new Uint16Array(WIDTH * HEIGHT).fill(65535) }), [WIDTH * HEIGHT]);
});

Deno.test("points near the floor, above and below, belong to the floor", () => {
  // Flat cards at 90 and 110 mm above and below: rows with the depth of a floor at that height.
  const lying = (aboveMm: number) => {
    const { data } = frame([], FLOOR_MM - aboveMm);
    const whole = frame([]);
    const kept = whole.data.map((depth, pixel) => {
      const [u, v] = [pixel % WIDTH, Math.floor(pixel / WIDTH)];
      return u >= 60 && u < 100 && v >= 95 && v < 105 ? data[pixel] : depth;
    });
    return sizes({ ...whole, data: kept });
  };
  assertEquals([lying(90), lying(-90)], [[], []]);
  assertEquals([lying(115), lying(-115)], [[400], [400]]);
});

Deno.test("an object has at least the configured number of points", () => {
  const map = frame([NEAR, [100, 30, 103, 33, 1500]]);
  assertEquals(sizes(map, { minPointsInSegment: 9 }), [900, 9]);
  assertEquals(sizes(map, { minPointsInSegment: 10 }), [900]);
  assertEquals(sizes(map, { minPointsInSegment: 901 }), []);
});

Deno.test("a thin cluster counts only its own points, or all its points if any size is enough", () => {
  // A post two pixels wide, behind a card that hides all but its upper part.
  const map = (top: number) =>
    frame([[60, top, 62, 50, 1400], [20, 30, 60, 50, 1000], [62, 30, 100, 50, 1000]]);
  assertEquals(sizes(map(10), { minPointsInSegment: 0 }), [800, 760, 80]);
  assertEquals(sizes(map(10), { minPointsInSegment: 30 }), [800, 760, 80], "40 points are free of the cards");
  assertEquals(sizes(map(10), { minPointsInSegment: 45 }), [800, 760]);
  assertEquals(sizes(map(30), { minPointsInSegment: 10 }), [800, 760], "none is: it may be an edge");
});

Deno.test("Segmenter: without a ground plane the floor is an object too", () => {
  const touching = frame([[30, 20, 60, 119, 1000]]);
  const all = touching.data.filter((depth) => depth > 0).length;
  const none = segment(touching, { minPointsInPlane: 100_000 });
  assertEquals(none.ground, undefined);
  const found = none.segments.reduce((sum, { pixels }) => sum + pixels.length, 0);
  assert(found > 0.95 * all, `${found} of ${all}`);
  const wall: DepthMap = { width: WIDTH, height: HEIGHT, data: new Uint16Array(WIDTH * HEIGHT).fill(2000) };
  assertEquals(segment(wall).ground, undefined);
  assertEquals(sizes(wall), [WIDTH * HEIGHT]);
});

Deno.test("Segmenter: a larger clusteringRadius merges, a larger clusteringStrictness divides", () => {
  // A staircase of cards, each 12 mm behind the previous one.
  const stairs = Array.from({ length: 8 }, (_, n): Card => [20 + n * 12, 20, 32 + n * 12, 50, 900 + n * 12]);
  const count = (limits: Partial<SegmentationLimits>) => sizes(frame(stairs), limits).length;
  assertEquals(count({ clusteringStrictness: 1 }), 1);
  assertEquals(count({ clusteringRadius: 3 }), 1);
  assertEquals(count({ clusteringStrictness: 15 }), 8);
  const strict = [0.001, 1, 3, 5, 8, 15].map((clusteringStrictness) => count({ clusteringStrictness }));
  assertEquals(strict, strict.toSorted((a, b) => a - b));
  const wide = [1, 2, 4, 9, 50].map((clusteringRadius) =>
    count({ clusteringRadius, clusteringStrictness: 20 })
  );
  assertEquals(wide, wide.toSorted((a, b) => b - a));
});

Deno.test("Segmenter: a mirrored frame gives mirrored objects", () => {
  const map = frame([NEAR, FAR]);
  const mirrored = map.data.map((_, pixel) =>
    map.data[(Math.floor(pixel / WIDTH) + 1) * WIDTH - 1 - pixel % WIDTH]
  );
  const [right, left] = [segment(map), segment({ ...map, data: mirrored })];
  assertEquals(left.segments.length, 2);
  for (const [n, { box }] of right.segments.entries()) {
    assertAlmostEquals(left.segments[n].box.min.x, -box.max.x, 1e-6);
    assertAlmostEquals(left.segments[n].box.max.z, box.max.z, 1e-6);
  }
});

Deno.test("Segmenter: the same frame gives the same objects, whatever came before", () => {
  const segmenter = new Segmenter(LENS, LIMITS);
  const first = segmenter.segment(frame([NEAR, FAR]));
  segmenter.segment(frame([[10, 10, 150, 110, 700]]));
  assertEquals(segmenter.segment(frame([NEAR, FAR])), first);
});

Deno.test("Segmenter: pixels without a ray count as missing readings", () => {
  const folded = { model: "brown_conrady", parameters: [-1, 0, 0, 0, 0] };
  const { ground, segments } = new Segmenter(LENS, LIMITS, folded).segment(frame([NEAR, FAR]));
  assert(ground);
  for (const { cloud } of segments) assert(cloud.x.every(Number.isFinite));
  const rays = raysOf(LENS, folded);
  const { data } = frame([]);
  const seen = data.filter((depth, pixel) => depth > 0 && Number.isFinite(rays.x[pixel])).length;
  assert(seen < data.filter((depth) => depth > 0).length);
  const withLeast = (minPointsInPlane: number) => {
    return new Segmenter(LENS, { ...LIMITS, minPointsInPlane }, folded).segment(frame([])).ground;
  };
  assert(withLeast(500) && !withLeast(seen + 1), `${seen} points of the floor have a ray`);
});

Deno.test("Segmenter: refuses invalid intrinsics, and a frame of another size throws a Bug error", () => {
  assertThrows(() => new Segmenter({ ...LENS, focalXPx: 0 }, LIMITS), SvcError, "focalXPx is 0");
  const huge = { ...LENS, widthPx: 100_000, heightPx: 1000 };
  assertThrows(() => new Segmenter(huge, LIMITS), SvcError, "wanted at most 10000000 pixels");
  assertThrows(() => segment({ width: 2, height: 2, data: new Uint16Array(4) }), Error, "Bug: ");
});
