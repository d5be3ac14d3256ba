/**
 * Damaged pictures and point clouds: a reader takes each or refuses it with an error for the caller, and nothing else.
 *
 * `deno task fuzz:pictures [seeds]` tries 100,000 seeds unless told otherwise. A seed is one damaged file.
 */

import { SvcError } from "../../lib/base/error.ts";
import { decodeImage, encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import type { Intrinsics } from "../../lib/geometry/image/lens.ts";
import { readPcd, writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { Segmenter } from "../../lib/geometry/cloud/segmentation.ts";
import { damaged } from "./damage.ts";

const SEEDS = 100_000;
const REFUSALS = ["invalid_argument", "resource_exhausted"];
interface Sample {
  readonly bytes: Uint8Array;
  readonly read: (bytes: Uint8Array) => void;
}

/** One small file of every kind. */
export function samples(): Sample[] {
  const random = randomFrom(1);
  const [width, height] = [12, 8];
  const rgba = Uint8Array.from({ length: width * height * 4 }, () => 256 * random());
  const color = { kind: "color" as const, image: { width, height, rgba } };
  const data = Uint16Array.from({ length: width * height }, () => 4000 * random());
  const depth = { kind: "depth" as const, map: { width, height, data } };
  const column = () => Float32Array.from({ length: 40 }, () => random());
  const words = () => Uint32Array.from({ length: 40 }, () => 0xffffff * random());
  const cloud = createCloud({ x: column(), y: column(), z: column(), rgb: words(), label: words() });
  const pictures = [
    encodeImage(color, MIME.jpeg),
    encodeImage(color, MIME.png),
    encodeImage(color, MIME.rgba),
    encodeImage(depth, MIME.depth),
    encodeImage(depth, MIME.png),
  ];
  const clouds = (["ascii", "binary", "binary_compressed"] as const).map((form) => writePcd(cloud, form));
  return [
    ...pictures.map((bytes) => ({ bytes, read: readPicture })),
    ...clouds.map((bytes) => ({ bytes, read: (damaged: Uint8Array) => void readPcd(damaged) })),
  ];
}

/** Depth is looked at for objects, too. */
function readPicture(bytes: Uint8Array): void {
  const decoded = decodeImage(bytes);
  if (decoded.kind !== "depth") return;
  const { width, height } = decoded.map;
  const lens: Intrinsics = {
    widthPx: width,
    heightPx: height,
    focalXPx: 10,
    focalYPx: 10,
    centerXPx: width / 2,
    centerYPx: height / 2,
  };
  new Segmenter(lens, {
    minPointsInPlane: 10,
    minPointsInSegment: 1,
    maxDistFromPlaneMm: 50,
    groundAngleToleranceDeg: 90,
    clusteringRadius: 1,
    clusteringStrictness: 5,
  }).segment(decoded.map);
}

/** What went wrong with the file of that seed: `undefined` is nothing. */
export function attempt(seed: number, all: readonly Sample[]): unknown {
  const { bytes, read } = all[seed % all.length];
  try {
    read(damaged(bytes, seed));
  } catch (error) {
    if (!(error instanceof SvcError) || !REFUSALS.includes(error.code)) return error;
  }
  return undefined;
}

if (import.meta.main) {
  const seeds = Number(Deno.args[0] ?? SEEDS);
  const all = samples();
  let failed = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    const error = attempt(seed, all);
    if (error === undefined) continue;
    console.error(`seed ${seed}:`, error);
    if (++failed === 10) break;
  }
  const residentMb = Deno.memoryUsage().rss / 1e6;
  console.log(`${seeds} damaged files, ${failed} wrong, ${residentMb.toFixed(0)} MB resident`);
  if (failed > 0) Deno.exit(1);
}
