import { assert, assertAlmostEquals, assertEquals, assertLess } from "@std/assert";
import { randomFrom } from "../../geometry/random.ts";
import { RING, viewFrom } from "../../../tests/support/floor_plan.ts";
import { GridInserter, ProbabilityGrid } from "../local/probability_grid.ts";
import { pointsAt } from "../points.ts";
import { Submap } from "../local/submaps.ts";
import { between2d, compose2d, type Pose2d } from "../pose2d.ts";
import { BlockCholesky, withoutPause } from "./block_cholesky.ts";
import { SearchGrid } from "./branch_and_bound.ts";
import { eliminating } from "./elimination.ts";
import type { MapNode, MapSubmap } from "./map/parts.ts";
import { isPlausible } from "./plausible.ts";
import { PoseGraph } from "./pose_graph.ts";

Deno.test("BlockCholesky: solves random sparse systems", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = randomFrom(seed);
    const count = 5 + seed;
    const pairs = new Map<number, readonly [number, number]>();
    for (let k = 0; k < 2 * count; k++) {
      const a = Math.floor(random() * count), b = Math.floor(random() * count);
      if (a !== b) pairs.set(Math.min(a, b) * count + Math.max(a, b), [a, b]);
    }
    const size = 3 * count;
    const dense = new Float64Array(size * size);
    const factor = new BlockCholesky(
      count,
      withoutPause(eliminating(count, Int32Array.from([...pairs.values()].flat()))),
    );
    const put = (a: number, b: number, block: readonly number[]) => {
      const { block: at, first } = factor.blockOf(a, b);
      for (let row = 0; row < 3; row++) {
        for (let column = 0; column < 3; column++) {
          const value = block[3 * row + column];
          dense[size * (3 * a + row) + 3 * b + column] = value;
          dense[size * (3 * b + column) + 3 * a + row] = value;
          factor.values[9 * at + (first === a ? 3 * row + column : 3 * column + row)] = value;
        }
      }
    };
    for (const [a, b] of pairs.values()) put(a, b, Array.from({ length: 9 }, () => random() - 0.5));
    for (let a = 0; a < count; a++) put(a, a, [40, 1, 2, 1, 40, 3, 2, 3, 40]);
    const wanted = Float64Array.from({ length: size }, () => random());
    const right = wanted.map((_, row) =>
      wanted.reduce((sum, x, column) => sum + dense[size * row + column] * x, 0)
    );
    assert(withoutPause(factor.factoring()));
    factor.solve(right);
    right.forEach((x, k) => assertAlmostEquals(x, wanted[k], 1e-9));
  }
});

Deno.test("PoseGraph: a closed loop spreads its error, and a wrong edge has little influence", () => {
  const graph = new PoseGraph();
  const truth: Pose2d[] = Array.from({ length: 40 }, (_, k) => {
    const angle = 2 * Math.PI * k / 40;
    return { x: 5 * Math.sin(angle), y: 5 - 5 * Math.cos(angle), yaw: angle };
  });
  let at = truth[0];
  truth.forEach((pose, k) => {
    if (k > 0) at = compose2d(at, compose2d(between2d(truth[k - 1], pose), { x: 0.02, y: 0, yaw: 0.01 }));
    graph.addPose(at, k === 0);
  });
  const weights = { translationWeight: 20, rotationWeight: 50 };
  for (let k = 1; k < 40; k++) {
    const pose = compose2d(between2d(truth[k - 1], truth[k]), { x: 0.02, y: 0, yaw: 0.01 });
    graph.addEdge({ from: k - 1, to: k, pose, ...weights, robust: false });
  }
  const sharp = { translationWeight: 100, rotationWeight: 300, robust: true };
  for (const k of [36, 37, 38, 39]) {
    graph.addEdge({ from: 0, to: k, pose: between2d(truth[0], truth[k]), ...sharp });
  }
  graph.addEdge({ from: 5, to: 25, pose: { x: 0, y: 0, yaw: 0 }, ...sharp });
  const before = graph.pose(39);
  graph.optimize(50, "firm");
  graph.optimize(50, "yielding");
  const off = (pose: Pose2d) => Math.hypot(pose.x - truth[39].x, pose.y - truth[39].y);
  assert(off(before) > 0.5);
  assertLess(off(graph.pose(39)), 0.1);
});

Deno.test("PoseGraph: distributes the loop error to edges with little information", () => {
  const graph = new PoseGraph();
  const weights = { translationWeight: 100, rotationWeight: 300, robust: false };
  for (let k = 0; k <= 10; k++) graph.addPose({ x: 0, y: k, yaw: 1 }, k === 0);
  const step = between2d({ x: 0, y: 0, yaw: 1 }, { x: 0, y: 1, yaw: 1 });
  for (let k = 1; k <= 10; k++) {
    // The way is along y, which is at a right angle to x, and the poses are turned by 1.
    const degenerate = k === 4 ? { yaw: Math.PI / 2 - 1, share: 0.05 } : undefined;
    graph.addEdge({ from: k - 1, to: k, pose: step, ...weights, degenerate });
  }
  const seen = { x: 0.2, y: 11, yaw: 1 };
  const pose = between2d(graph.pose(0), seen);
  graph.addEdge({ from: 0, to: 10, pose, translationWeight: 1000, rotationWeight: 1000, robust: false });
  graph.optimize(50, "firm");
  assertAlmostEquals(graph.pose(4).y - graph.pose(3).y, 2, 0.05);
  assertAlmostEquals(graph.pose(8).y - graph.pose(7).y, 1, 0.01);
  assertAlmostEquals(graph.pose(4).x - graph.pose(3).x, graph.pose(5).x - graph.pose(4).x, 0.03);
});

Deno.test("PoseGraph: optimizing in steps equals a single run, and removed poses stop it without changes", () => {
  const ring = () => {
    const graph = new PoseGraph();
    for (let k = 0; k < 30; k++) graph.addPose({ x: k, y: 0, yaw: 0.01 * k }, k === 0);
    const edge = {
      pose: { x: 1, y: 0.1, yaw: 0.2 },
      translationWeight: 10,
      rotationWeight: 10,
      robust: false,
    };
    for (let k = 1; k < 30; k++) graph.addEdge({ from: k - 1, to: k, ...edge });
    graph.addEdge({ from: 29, to: 0, ...edge });
    return graph;
  };
  const posesOf = (graph: PoseGraph) => Array.from({ length: 29 }, (_, k) => graph.pose(k));
  const whole = ring(), inPieces = ring(), disturbed = ring();
  whole.optimize(5, "firm");
  const pieces = inPieces.optimizing(5, "firm");
  assertEquals(pieces.next().done, false);
  // What comes meanwhile has no part in it.
  inPieces.addEdge({ ...inPieces.edges[0], from: 0, to: inPieces.addPose({ x: 9, y: 9, yaw: 0 }, false) });
  let last = pieces.next();
  while (!last.done) last = pieces.next();
  assertEquals([last.value, posesOf(inPieces)], [true, posesOf(whole)]);
  const before = posesOf(disturbed), stopped = disturbed.optimizing(5, "firm");
  stopped.next();
  disturbed.removePoses(new Set([29]));
  let end = stopped.next();
  while (!end.done) end = stopped.next();
  assertEquals([end.value, posesOf(disturbed)], [false, before]);
});

Deno.test("SearchGrid: finds a scan metres and half a turn away, and rejects an unknown scan", () => {
  const grid = new ProbabilityGrid(0.05, 0, 0);
  const inserter = new GridInserter(0.55, 0.49);
  const view = { beams: 361, fieldRad: 2 * Math.PI, noiseM: 0.01 };
  const flat = (points: Float32Array) => {
    return Float64Array.from({ length: points.length / 1.5 }, (_, k) => points[3 * (k >> 1) + (k & 1)]);
  };
  for (let k = 0; k < 20; k++) {
    const pose = { x: 0.3 * k, y: 0, yaw: 0 };
    const points = flat(viewFrom(RING, pose, { ...view, seed: k }));
    const none = new Float64Array(0);
    inserter.insert(grid, { origin: pose, returns: pointsAt(points, pose), misses: none, surface: none });
  }
  grid.crop();
  const search = new SearchGrid(grid);
  const pose = { x: 4.1, y: 0.4, yaw: 2 };
  const points = flat(viewFrom(RING, pose, { ...view, seed: 99 }));
  const found = search.search(points, { x: 1, y: -2, yaw: 0.4 }, { linearM: 5, angularRad: Math.PI }, 0.5);
  assert(found);
  const off = between2d(pose, found.pose);
  assertLess(Math.hypot(off.x, off.y), 0.15);
  assertLess(Math.abs(off.yaw), 0.05);
  const circle = Float64Array.from({ length: 200 }, (_, k) => {
    const angle = 2 * Math.PI * (k >> 1) / 100;
    return 1.2 * (k & 1 ? Math.sin(angle) : Math.cos(angle));
  });
  const none = search.search(circle, { x: 1, y: 0, yaw: 0 }, { linearM: 5, angularRad: Math.PI }, 0.5);
  assert(none === undefined);
});

Deno.test("isPlausible: a robot drifts aside with a turn, and less far along than its path", () => {
  const graph = new PoseGraph();
  // Up one aisle and down the next one, four metres away.
  const way = [[0, 0], [0, 7], [0, 14], [0, 21], [0, 28], [4, 28], [4, 21], [4, 14], [4, 7], [4, 0]];
  const submaps = way.map(([x, y], index): MapSubmap => ({
    trajectory: 0,
    index,
    submap: new Submap({ x, y, yaw: 0 }, new ProbabilityGrid(0.05, x, y)),
    variable: graph.addPose({ x, y, yaw: 0 }, false),
    pathM: 7 * index,
    nodes: [],
  }));
  const end = { x: 4, y: 0, yaw: 0 };
  const node: MapNode = {
    trajectory: 0,
    index: 9,
    ticks: 0n,
    localPose: end,
    gravityAlignment: [0, 0, 0, 1],
    points: new Float64Array(),
    variable: graph.addPose(end, false),
    pathM: 63,
    submaps: [submaps[9]],
  };
  const isPlausibleAt = (corrected: Pose2d, trajectory = 0) => {
    const submap = { ...submaps[0], trajectory };
    return isPlausible(graph, { submap, node, pose: corrected, score: 0.6 }, corrected, submaps);
  };
  assert(!isPlausibleAt({ x: 0, y: 0, yaw: 0 }), "the next aisle");
  assert(isPlausibleAt({ x: 3, y: 0, yaw: 0 }), "a drift aside");
  assert(isPlausibleAt({ x: 2, y: 0, yaw: -0.12 }), "a drift aside by a turn half-way");
  assert(!isPlausibleAt({ x: 2, y: 0, yaw: 0.12 }), "a turn to the other side");
  assert(isPlausibleAt({ x: 4, y: 1.5, yaw: 0 }), "a longer path");
  assert(isPlausibleAt({ x: 0, y: 0, yaw: 0 }, 1), "the first place in another trajectory");
});
