import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { readPcd } from "../geometry/cloud/pcd.ts";
import { mapCloud, paintMap } from "./map_picture.ts";
import type { SubmapState } from "./map_state.ts";

const OCCUPIED = 1;
const FREE = 32_767;
const NEUTRAL = 16_384;
const ORIGIN = { x: 0, y: 0, yaw: 0 };

/** A submap of 4 by 4 cells around its origin, whose cells have one value. */
function submap(index: number, cell: number, globalPose = ORIGIN): SubmapState {
  const known = { minI: 0, minJ: 0, maxI: 3, maxJ: 3 };
  const grid = {
    resolution: 0.05,
    maxX: 0.125,
    maxY: 0.125,
    cellsX: 4,
    cellsY: 4,
    cells: cells(cell),
    known,
  };
  return { trajectory: 0, index, localPose: ORIGIN, globalPose, scanCount: 1, finished: true, grid };
}

function cells(cell: number): Uint16Array {
  return new Uint16Array(16).fill(cell);
}

/** The probabilities of a map's points. */
function probabilities(...submaps: readonly SubmapState[]): number[] {
  const { rgb } = readPcd(mapCloud(paintMap(submaps)));
  return [...new Set(rgb)].sort((a, b) => b - a);
}

Deno.test("paintMap: an occupied cell has probability 74, two overlaid cells 87, free cells are omitted", () => {
  assertEquals(probabilities(submap(0, OCCUPIED))[0], 74);
  assertEquals(probabilities(submap(0, OCCUPIED), submap(1, OCCUPIED))[0], 87);
  assertEquals(probabilities(submap(0, NEUTRAL))[0], 50);
  assertEquals(probabilities(submap(0, FREE)).includes(74), false);
  assertEquals(readPcd(mapCloud(paintMap([]))).x.length, 0);
});

Deno.test("mapCloud: places points in metres, with cells along -y and -x", () => {
  const values = new Uint16Array(16).fill(FREE);
  // i = 0, j = 3: the greatest y and the smallest x.
  values[4 * 3] = OCCUPIED;
  const one = submap(0, FREE);
  const cloud = readPcd(mapCloud(paintMap([{ ...one, grid: { ...one.grid, cells: values } }])));
  const at = cloud.rgb!.indexOf(74);
  assertAlmostEquals(cloud.x[at], -0.05, 1e-6);
  assertAlmostEquals(cloud.y[at], 0.1, 1e-6);
});

Deno.test("paintMap: paints a submap at its global pose", () => {
  const moved = submap(0, OCCUPIED, { x: 10, y: -5, yaw: Math.PI / 2 });
  const { x, y, rgb } = readPcd(mapCloud(paintMap([moved])));
  const sure = Array.from(x, (_, n) => n).filter((n) => rgb![n] === 74);
  const mean = (all: Float32Array) => sure.reduce((sum, n) => sum + all[n], 0) / sure.length;
  assertAlmostEquals(mean(x), 10, 0.06);
  assertAlmostEquals(mean(y), -5, 0.06);
});

Deno.test("paintMap: a cell between two pixels counts half in each of them", () => {
  const values = new Uint16Array(16);
  values[4 + 1] = OCCUPIED;
  const found = (x: number, y: number) => {
    const one = submap(0, FREE, { x, y, yaw: 0 });
    const cloud = readPcd(mapCloud(paintMap([{ ...one, grid: { ...one.grid, cells: values } }])));
    const rounded = (metres: number) => Math.round(metres * 100) / 100;
    return Array.from(cloud.x, (x, n) => [rounded(x), rounded(cloud.y[n]), cloud.rgb![n]]);
  };
  assertEquals(found(0, 0), [[0.05, 0.05, 74]]);
  assertEquals(found(0.025, 0), [[0.05, 0.05, 62], [0.1, 0.05, 62]]);
  assertEquals(found(0, 0.025), [[0.05, 0.1, 62], [0.05, 0.05, 62]]);
});

Deno.test("paintMap: a map has the same margin on all sides", () => {
  const { width, height, originX, originY } = paintMap([submap(0, OCCUPIED)]);
  assertEquals([width, height, originX, originY], [16, 16, 7, 8]);
  const { width: wide, height: high } = paintMap([
    submap(0, OCCUPIED),
    submap(1, OCCUPIED, { x: 1, y: 0, yaw: 0 }),
  ]);
  assertEquals([wide, high], [width + 20, height]);
});

Deno.test("paintMap: a submap between the pixels is as dark inside, and fades at its sides", () => {
  for (const [x, y] of [[0.0125, 0], [0, 0.0125], [0.02, 0.03]] as const) {
    const found = probabilities(submap(0, OCCUPIED, { x, y, yaw: 0 }));
    assertEquals(found[0], 74, `${x} ${y}`);
    assertEquals(found.length > 1, true, `${x} ${y}`);
  }
});

Deno.test("paintMap: refuses a map with too many pixels", () => {
  const far = submap(1, OCCUPIED, { x: 1e6, y: 1e6, yaw: 0 });
  assertThrows(() => paintMap([submap(0, OCCUPIED), far]), SvcError, "too large to be painted");
});
