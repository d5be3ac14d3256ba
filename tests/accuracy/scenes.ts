/**
 * Random scenes with a known answer, drawn from a seed: boxes and balls on a floor, seen with the errors of a depth
 * sensor; and the faults of a segmentation.
 */

import {
  type CameraScene,
  type Drawing,
  drawScene,
  FLOOR,
  type SceneBody,
  sceneLens,
} from "../../drivers/camera/scene.ts";
import type { DepthMap } from "../../lib/geometry/image/depth.ts";
import { degrees, radians } from "../../lib/geometry/pose.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import type { Segmentation, SegmentationLimits } from "../../lib/geometry/cloud/segmentation.ts";

/** The documented defaults of the model. */
export const DEFAULTS: SegmentationLimits = {
  minPointsInPlane: 500,
  minPointsInSegment: 10,
  maxDistFromPlaneMm: 100,
  groundAngleToleranceDeg: 30,
  clusteringRadius: 1,
  clusteringStrictness: 5,
};

const BODIES_MAX = 4;
/** Between bodies as the camera sees them, in radians. */
const GAP_RAD = 0.05;
const PLANE_DEG = 0.2;
const PLANE_MM = 2;
/** A body that shows fewer points than this above the floor's may be missed. */
const SHOWN_MIN = 20;

export interface RandomScene {
  readonly scene: CameraScene;
  readonly drawing: Drawing;
  /** The drawing's depth without the pixels at the edges of bodies, where sensors have no reading. */
  readonly depth: DepthMap;
}

/** A scene in which bodies stand apart and rise above the floor's points by 50 mm and more. */
export function randomScene(
  seed: number,
  limits: SegmentationLimits,
  [width, height]: readonly [number, number],
  noise = 1,
): RandomScene {
  const random = randomFrom(seed);
  const between = (low: number, high: number) => low + (high - low) * random();
  const heightMm = between(400, 1500);
  const pitchDeg = between(0, limits.groundAngleToleranceDeg - 1);
  const count = Math.floor(between(0, BODIES_MAX + 1));
  const bodies: SceneBody[] = [];
  const taken: [number, number][] = [];
  for (let attempt = 0; bodies.length < count && attempt < 50; attempt++) {
    const at = { x: between(-900, 900), y: 0, z: between(700, 2800) };
    const rise = limits.maxDistFromPlaneMm + between(50, 350);
    const sizeMm = { x: between(100, 300), y: rise, z: between(100, 300) };
    const body: SceneBody = random() < 0.8
      ? { type: "box", at, sizeMm, yawDeg: between(0, 90), color: 0xc83c32 }
      : { type: "ball", at, radiusMm: rise / 2, color: 0x3264c8 };
    const half = body.type === "box" ? sizeMm.x * 0.75 : body.radiusMm;
    const [from, to] = [Math.atan2(at.x - half, at.z), Math.atan2(at.x + half, at.z)];
    if (taken.some(([left, right]) => from < right + GAP_RAD && to > left - GAP_RAD)) continue;
    bodies.push(body);
    taken.push([from, to]);
  }
  const scene = { heightMm, pitchDeg, bodies, noise, dropout: 0.02, seed };
  const drawing = drawScene(scene, sceneLens(width, height));
  return { scene, drawing, depth: withoutEdges(drawing) };
}

function withoutEdges({ depth, shown }: Drawing): DepthMap {
  const data = depth.data.slice();
  const { width } = depth;
  for (let pixel = 0; pixel + width < data.length; pixel++) {
    for (const next of [pixel + 1, pixel + width]) {
      if (shown[pixel] !== shown[next]) data[pixel] = data[next] = 0;
    }
  }
  return { ...depth, data };
}

/** Everything that is wrong, in words; nothing for a right answer. */
export function problemsOf(
  { scene, drawing, depth }: RandomScene,
  { ground, segments }: Segmentation,
  limits: SegmentationLimits,
): string[] {
  if (!ground) return ["no plane found"];
  const problems: string[] = [];
  const pitch = radians(scene.pitchDeg);
  const [up, ahead] = [-Math.cos(pitch), -Math.sin(pitch)];
  const cos = ground.normal.y * up + ground.normal.z * ahead;
  const planeDeg = degrees(Math.acos(Math.min(1, cos)));
  const planeMm = Math.abs(ground.offsetMm - scene.heightMm);
  if (planeDeg > PLANE_DEG) problems.push(`plane is off by ${planeDeg.toFixed(2)} deg`);
  if (planeMm > PLANE_MM) problems.push(`plane is off by ${planeMm.toFixed(1)} mm`);

  const found = scene.bodies.map(() => 0);
  for (const { pixels } of segments) {
    const votes = new Map<number, number>();
    for (const pixel of pixels) votes.set(drawing.shown[pixel], (votes.get(drawing.shown[pixel]) ?? 0) + 1);
    const [[body]] = [...votes].sort(([, a], [, b]) => b - a);
    if (body <= FLOOR) problems.push(`invented an object of ${pixels.length} points`);
    else if (found[body]++ > 0) problems.push(`split off ${pixels.length} points`);
    if ([...votes.keys()].filter((one) => one > FLOOR).length > 1) problems.push("merged bodies");
  }
  const points = shownAbove(scene, drawing, depth, limits.maxDistFromPlaneMm);
  const enough = Math.max(SHOWN_MIN, limits.minPointsInSegment * 1.2);
  for (const [body, count] of points.entries()) {
    if (found[body] === 0 && count >= enough) problems.push(`missed a body of ${count} points`);
  }
  return problems;
}

/** Of each body, the points higher above the floor than that. */
function shownAbove(
  scene: CameraScene,
  { shown }: Drawing,
  { data, width, height }: DepthMap,
  limitMm: number,
) {
  const lens = sceneLens(width, height);
  const pitch = radians(scene.pitchDeg);
  const points = scene.bodies.map(() => 0);
  for (let pixel = 0; pixel < data.length; pixel++) {
    if (shown[pixel] <= FLOOR || data[pixel] === 0) continue;
    const down = (Math.floor(pixel / width) - lens.centerYPx) / lens.focalYPx;
    const above = scene.heightMm - data[pixel] * (Math.cos(pitch) * down + Math.sin(pitch));
    if (above >= limitMm) points[shown[pixel]]++;
  }
  return points;
}
