/**
 * The labelled depth frames of `../shared/data/depth/mosd`, and how well a segmentation agrees with them.
 *
 * The right answer for a frame are its islands: labels of objects that touch count as one. A found object is right
 * when it shares more than half of its pixels and the island's with it (intersection over union of at least 0.5).
 */

import type { DepthMap } from "../../lib/geometry/image/depth.ts";
import { decodeImage } from "../../lib/geometry/image/image.ts";
import type { Intrinsics } from "../../lib/geometry/image/lens.ts";
import { decodePng } from "../../lib/geometry/image/png.ts";
import type { Segmentation, SegmentationLimits } from "../../lib/geometry/cloud/segmentation.ts";

const FOLDER = new URL("../../../shared/data/depth/mosd/", import.meta.url);
const IOU_MIN = 0.5;
/** Labels up to this are the table's. */
const TABLE_MAX = 9;

/** Limits by the folder's README: the table is far from level, and the objects are low. */
export const LIMITS: SegmentationLimits = {
  minPointsInPlane: 500,
  minPointsInSegment: 300,
  maxDistFromPlaneMm: 10,
  groundAngleToleranceDeg: 60,
  clusteringRadius: 1,
  clusteringStrictness: 5,
};

export interface Frame {
  readonly name: string;
  readonly depth: DepthMap;
  readonly labels: Uint8Array;
  /** Labels that make one object. */
  readonly islands: readonly (readonly number[])[];
}

export interface Score {
  /** Objects found, and islands there are. */
  readonly found: number;
  readonly there: number;
  readonly right: number;
  /** Sum over the islands, of the objects that are right. */
  readonly iou: number;
}

/** The frames and their lens; `undefined` where the folder is not there. */
export async function readFrames(): Promise<{ lens: Intrinsics; frames: Frame[] } | undefined> {
  const truth = await Deno.readTextFile(new URL("ground_truth.json", FOLDER)).catch(() => undefined);
  if (truth === undefined) return undefined;
  const { intrinsics, frames } = JSON.parse(truth);
  const lens = {
    widthPx: intrinsics.width_px,
    heightPx: intrinsics.height_px,
    focalXPx: intrinsics.fx,
    focalYPx: intrinsics.fy,
    centerXPx: intrinsics.ppx,
    centerYPx: intrinsics.ppy,
  };
  return { lens, frames: await Promise.all(frames.map(readFrame)) };
}

async function readFrame(
  { frame: name, islands }: { frame: string; islands: number[][] },
): Promise<Frame> {
  const [depth, labels] = await Promise.all(
    ["depth", "label"].map((what) => Deno.readFile(new URL(`${name}_${what}.png`, FOLDER))),
  );
  const decoded = decodeImage(depth);
  if (decoded.kind !== "depth") throw new TypeError(`${name} is no depth image`);
  return { name, depth: decoded.map, labels: decodePng(labels).samples as Uint8Array, islands };
}

export function scoreOf({ labels, islands }: Frame, { segments }: Segmentation): Score {
  const islandOf = new Int16Array(256).fill(-1);
  for (const [island, members] of islands.entries()) for (const label of members) islandOf[label] = island;
  const sizes = islands.map(() => 0);
  for (const label of labels) if (islandOf[label] >= 0) sizes[islandOf[label]]++;
  const there = sizes.filter((size) => size >= LIMITS.minPointsInSegment).length;
  let right = 0, iou = 0;
  for (const { pixels } of segments) {
    const shared = islands.map(() => 0);
    for (const pixel of pixels) if (islandOf[labels[pixel]] >= 0) shared[islandOf[labels[pixel]]]++;
    const best = Math.max(0, ...shared.map((both, island) => both / (sizes[island] + pixels.length - both)));
    if (best < IOU_MIN) continue;
    right++;
    iou += best;
  }
  return { found: segments.length, there, right, iou };
}

/** How much of the labelled table is not in an object. */
export function tableShare({ labels }: Frame, { segments }: Segmentation): number {
  const isTable = (label: number) => label > 0 && label <= TABLE_MAX;
  const there = labels.reduce((count, label) => count + Number(isTable(label)), 0);
  const left = segments.flatMap(({ pixels }) => [...pixels]).filter((pixel) => isTable(labels[pixel])).length;
  return 1 - left / there;
}

export interface Summary {
  readonly frames: number;
  readonly exactCounts: number;
  readonly recall: number;
  readonly precision: number;
  readonly meanIou: number;
}

export function summaryOf(scores: readonly Score[]): Summary {
  const sum = (of: (score: Score) => number) => scores.reduce((total, score) => total + of(score), 0);
  const right = sum((score) => score.right);
  return {
    frames: scores.length,
    exactCounts: sum(({ found, there }) => found === there ? 1 : 0) / scores.length,
    recall: right / sum(({ there }) => there),
    precision: right / sum(({ found }) => found),
    meanIou: sum(({ iou }) => iou) / right,
  };
}
