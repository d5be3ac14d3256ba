import { assert, assertEquals } from "@std/assert";
import { Clusterer, type LinkLimits } from "./cluster.ts";
import { raysOf } from "../image/lens.ts";
import { randomFrom } from "../random.ts";

/** At a depth of 100 mm the pixels are 1 mm apart. */
const LINKS: LinkLimits = { windowPx: 2, distanceMm: 3, distancePerMm: 0 };

/** Along the axis: no surface is seen at a low angle. */
const UP = { x: 0, y: 0, z: -1 };

/** A frame from rows of characters: the depth is the digit in cm (`.` for no reading). */
function frame(rows: readonly string[]) {
  const [widthPx, heightPx] = [rows[0].length, rows.length];
  const lens = { widthPx, heightPx, focalXPx: 100, focalYPx: 100, centerXPx: 0, centerYPx: 0 };
  const depth = Uint16Array.from(rows.join(""), (mark) => mark === "." ? 0 : Number(mark) * 10);
  return { widthPx, heightPx, depth, rays: raysOf(lens) };
}

function seen(depth: Uint16Array) {
  const pixels = Uint32Array.from(depth.keys()).filter((pixel) => depth[pixel] > 0);
  return { pixels, count: pixels.length };
}

/** The clusters drawn with letters. */
function picture(rows: readonly string[], links = LINKS): string[] {
  const { widthPx, heightPx, depth, rays } = frame(rows);
  const list = seen(depth);
  const clusters = new Int32Array(list.count);
  new Clusterer(widthPx, heightPx, links).cluster({ depth, rays, up: UP }, list, clusters);
  const drawn = Array(depth.length).fill(".");
  list.pixels.forEach((pixel, n) => drawn[pixel] = String.fromCharCode(97 + clusters[n]));
  return rows.map((_, row) => drawn.slice(row * widthPx, (row + 1) * widthPx).join(""));
}

Deno.test("Clusterer: joins pixels through others, across holes and around corners", () => {
  assertEquals(picture(["9.9...9", "....99.", "9......"]), ["a.a...a", "....aa.", "a......"]);
  assertEquals(picture(["9...9", "9...9", "99999"]), ["a...a", "a...a", "aaaaa"]);
  assertEquals(picture(["9...9", "9...9", "9...9"]), ["a...b", "a...b", "a...b"]);
});

Deno.test("Clusterer: does not join pixels across the picture's edge", () => {
  assertEquals(picture(["......9", "9......"]), ["......a", "b......"]);
  assertEquals(picture(["9.....9", "9.....9"]), ["a.....b", "a.....b"]);
});

Deno.test("Clusterer: separates pixels that are near in the picture but far in space", () => {
  assertEquals(picture(["9988", "9988"]), ["aabb", "aabb"]);
  const farther = { ...LINKS, distanceMm: 12 };
  assertEquals(picture(["9988", "9988"], farther), ["aaaa", "aaaa"]);
});

Deno.test("Clusterer: joins rows of a level surface at a low angle, but not walls", () => {
  const up = { x: 0, y: -1, z: 0 };
  const lens = { widthPx: 4, heightPx: 40, focalXPx: 100, focalYPx: 100, centerXPx: 2, centerYPx: 0 };
  const rays = raysOf(lens);
  const count = (depthOf: (row: number) => number) => {
    const depth = Uint16Array.from(
      { length: 4 * 40 },
      (_, pixel) => Math.round(depthOf(Math.floor(pixel / 4))),
    );
    const list = seen(depth);
    return new Clusterer(4, 40, { ...LINKS, distanceMm: 12 }).cluster(
      { depth, rays, up },
      list,
      new Int32Array(160),
    );
  };
  // A table 100 mm under the camera: rows 8 to 30 are 11 to 140 mm apart.
  assertEquals(count((row) => row < 8 || row > 30 ? 0 : 10_000 / row), 1);
  // The same number of steps, but on a surface that rises away from the camera.
  assertEquals(count((row) => row < 8 || row > 30 ? 0 : 1500 - 40 * row) > 10, true);
  // A wall, and another one 200 mm behind it, at the camera's own height.
  assertEquals(count((row) => row < 1 ? 800 : 1000), 2);
});

Deno.test("Clusterer: wider windows and longer distances never add clusters", () => {
  const random = randomFrom(7);
  const rows = Array.from(
    { length: 24 },
    () =>
      Array.from({ length: 32 }, () => random() < 0.4 ? "." : String(3 + Math.floor(random() * 3))).join(""),
  );
  const { widthPx, heightPx, depth, rays } = frame(rows);
  const list = seen(depth);
  const count = (links: Partial<LinkLimits>) =>
    new Clusterer(widthPx, heightPx, { ...LINKS, ...links })
      .cluster({ depth, rays, up: UP }, list, new Int32Array(list.count));
  const windows = [1, 2, 3, 5, 8].map((windowPx) => count({ windowPx }));
  const distances = [0.5, 1, 2, 9, 11, 30].map((distanceMm) => count({ distanceMm }));
  const growing = [0, 0.01, 0.1, 0.5].map((distancePerMm) => count({ distanceMm: 0, distancePerMm }));
  for (const counts of [windows, distances, growing]) {
    assertEquals(counts, counts.toSorted((a, b) => b - a));
    assert(counts[0] > counts.at(-1)!);
  }
});

Deno.test("Clusterer: reused buffers do not change the result", () => {
  const clusterer = new Clusterer(4, 2, LINKS);
  const answer = (rows: string[]) => {
    const { depth, rays } = frame(rows);
    const list = seen(depth);
    const clusters = new Int32Array(list.count);
    return [clusterer.cluster({ depth, rays, up: UP }, list, clusters), ...clusters];
  };
  const first = answer(["9..9", "9..9"]);
  answer(["9999", "9999"]);
  assertEquals(answer(["9..9", "9..9"]), first);
});

Deno.test("Clusterer: a sliver is thin and beside something nearer", () => {
  const sliver = (rows: string[], at: number) => {
    const { widthPx, heightPx, depth, rays } = frame(rows);
    const list = seen(depth);
    const clusters = new Int32Array(list.count);
    const clusterer = new Clusterer(widthPx, heightPx, LINKS);
    clusterer.cluster({ depth, rays, up: UP }, list, clusters);
    const own = clusters[list.pixels.indexOf(at)];
    const pixels = list.pixels.filter((_, n) => clusters[n] === own);
    return clusterer.isThin(pixels) && clusterer.besideNearer(pixels) > pixels.length / 2;
  };
  const rows = (row: string) => Array(6).fill(row);
  assert(sliver(rows("555599"), 4));
  assert(!sliver(rows("555599"), 0), "what is in front is no sliver");
  assert(!sliver(rows("555...99"), 6), "nor what stands free");
  assert(!sliver(rows("5559999"), 3), "nor what is thick");
});
