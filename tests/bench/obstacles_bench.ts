/**
 * `deno task bench obstacles`: the time to find objects in a depth frame, by size and by stage, and beside the Point
 * Cloud Library if it is installed (libpcl-dev; the compiler's usual variables may point elsewhere).
 */

import { type CameraScene, drawScene, sceneLens, SCENES } from "../../drivers/camera/scene.ts";
import { decodeDepth, type DepthMap, depthToCloud, encodeDepth } from "../../lib/geometry/image/depth.ts";
import { type Intrinsics, raysOf } from "../../lib/geometry/image/lens.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { GroundFinder } from "../../lib/geometry/cloud/plane.ts";
import { Segmenter } from "../../lib/geometry/cloud/segmentation.ts";
import { type Frame, LIMITS, readFrames } from "../accuracy/mosd.ts";
import { heading, row } from "./figures.ts";

const SIZES = [[160, 120], [320, 240], [640, 480], [1280, 720], [1920, 1080]] as const;
const WARM_UP = 20;
const ROUNDS = 60;
const FRAME_ROUNDS = 5;
const MM_PER_M = 1e3;

export async function obstacles(): Promise<void> {
  heading("objects in a depth frame (three boxes on a floor, sensor noise)");
  const scene: CameraScene = { ...SCENES.boxes, noise: 1, dropout: 0.02 };
  for (const [width, height] of SIZES) {
    const lens = sceneLens(width, height);
    measureSize(`${width} x ${height}`, drawScene(scene, lens).depth, lens);
  }
  const data = await readFrames();
  if (!data) return row("real frames", "none: there is no ../shared/data/depth/mosd");
  const ours = measureFrames(data.frames, data.lens);
  const figures = ours.map(({ bestMs }) => bestMs);
  row(`${figures.length} real frames, 640 x 480`, spread(figures));
  await besidePcl(data.frames, data.lens, ours);
}

/** The best of a few runs of a frame, without reading and writing, as for the peer. */
interface FrameTime {
  bestMs: number;
  objects: number;
}

function measureFrames(frames: readonly Frame[], lens: Intrinsics): FrameTime[] {
  const segmenter = new Segmenter(lens, LIMITS);
  const times = frames.map(() => ({ bestMs: Infinity, objects: 0 }));
  for (let round = 0; round < FRAME_ROUNDS; round++) {
    for (const [n, { depth }] of frames.entries()) {
      const began = performance.now();
      times[n].objects = segmenter.segment(depth).segments.length;
      times[n].bestMs = Math.min(times[n].bestMs, performance.now() - began);
    }
  }
  return times;
}

function measureSize(name: string, depth: DepthMap, lens: Intrinsics): void {
  const { width, height } = depth;
  const encoded = encodeDepth(depth);
  const limits = { ...LIMITS, maxDistFromPlaneMm: 50 };
  const segmenter = new Segmenter(lens, limits);
  const finder = new GroundFinder(raysOf(lens), width, height);
  const stages = {
    read: [] as number[],
    ground: [] as number[],
    segment: [] as number[],
    write: [] as number[],
  };
  const timed = <T>(into: number[], work: () => T): T => {
    const began = performance.now();
    const made = work();
    into.push(performance.now() - began);
    return made;
  };
  for (let round = 0; round < WARM_UP + ROUNDS; round++) {
    if (round === WARM_UP) { for (const figures of Object.values(stages)) figures.length = 0; }
    const map = timed(stages.read, () => decodeDepth(encoded));
    timed(stages.ground, () => finder.find(map.data, { maxDistMm: 50, toleranceDeg: 60 }));
    const { segments } = timed(stages.segment, () => segmenter.segment(map));
    timed(stages.write, () => segments.map(({ cloud }) => writePcd(cloud)));
  }
  const [read, ground, whole, write] = Object.values(stages).map((figures) => quantile(figures, 0.5));
  row(
    name,
    spread(stages.segment),
    `${(whole * 1e6 / (width * height)).toFixed(1)} ns a pixel`,
    `ground ${ground.toFixed(2)}, objects ${(whole - ground).toFixed(2)} ms`,
    `reading ${read.toFixed(2)}, PCD ${write.toFixed(2)} ms`,
  );
}

async function besidePcl(
  frames: readonly Frame[],
  lens: Intrinsics,
  ours: readonly FrameTime[],
): Promise<void> {
  const program = await compilePeer();
  if (!program) return row("PCL", "not measured: no compiler, or no libpcl-dev");
  const process = new Deno.Command(program, { stdin: "piped", stdout: "piped" }).spawn();
  const answer = process.output();
  const writer = process.stdin.getWriter();
  for (const { depth } of frames) await writer.write(pointsOf(depth, lens));
  await writer.close();
  const lines = new TextDecoder().decode((await answer).stdout).trim().split("\n");
  await Deno.remove(program);
  const theirs = lines.map((line) => line.split(" ").map(Number));
  const totals = theirs.map(([planeMs, clustersMs]) => planeMs + clustersMs);
  const same = theirs.filter(([, , count], n) => count === ours[n].objects).length;
  row("PCL on the same", spread(totals), `as many objects in ${same}`);
  const ratios = totals.map((totalMs, n) => totalMs / ours[n].bestMs);
  row(
    "PCL over ours",
    `${quantile(ratios, 0.5).toFixed(0)} x median`,
    `${Math.min(...ratios).toFixed(0)} x least`,
  );
}

async function compilePeer(): Promise<string | undefined> {
  const program = await Deno.makeTempFile({ prefix: "svc-pcl-peer-" });
  const source = new URL("pcl_peer.cpp", import.meta.url).pathname;
  // deno-fmt-ignore
  const args = [
    "-O2", "-std=c++17", "-I/usr/include/pcl-1.13", "-I/usr/include/eigen3", source, "-o", program,
    ...["segmentation", "search", "sample_consensus", "kdtree", "common"].map((name) => `-lpcl_${name}`),
  ];
  try {
    if ((await new Deno.Command("g++", { args, stderr: "null" }).output()).success) return program;
  } catch {
    // There is no compiler.
  }
  await Deno.remove(program);
  return undefined;
}

/** A count and the points that are there, as the peer reads them. */
function pointsOf(depth: DepthMap, lens: Intrinsics): Uint8Array<ArrayBuffer> {
  const { x, y, z } = depthToCloud(depth, lens);
  const bytes = new ArrayBuffer(4 + 12 * x.length);
  new Uint32Array(bytes, 0, 1)[0] = x.length;
  const points = new Float32Array(bytes, 4);
  for (let n = 0; n < x.length; n++) points.set([x[n] * MM_PER_M, y[n] * MM_PER_M, z[n] * MM_PER_M], 3 * n);
  return new Uint8Array(bytes);
}

function spread(figures: readonly number[]): string {
  return `${quantile(figures, 0.5).toFixed(2)} ms, p95 ${quantile(figures, 0.95).toFixed(2)} ms`;
}

function quantile(figures: readonly number[], share: number): number {
  return figures.toSorted((a, b) => a - b)[Math.round((figures.length - 1) * share)];
}
