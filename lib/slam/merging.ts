/**
 * Merges two maps of one building: finds the second on the first, moves all of it there, and closes the loops between
 * the two. The frame of the first map is kept.
 */

import { SvcError } from "../base/error.ts";
import {
  type ConstraintState,
  type MapState,
  type NodeState,
  secondsOf,
  type SubmapState,
} from "./map_state.ts";
import { Mapper } from "./mapper.ts";
import { intensityOf, type MapPicture, paintMap, PIXEL_M } from "./map_picture.ts";
import type { MapperOptions } from "./mapping.ts";
import { between2d, compose2d, IDENTITY_2D, inverse2d, type Pose2d, wrapAngle } from "./pose2d.ts";

export interface MergedMap {
  readonly map: MapState;
  /** The second map's origin on the first map. */
  readonly place: Pose2d;
  /** The number of scans of the second map that agree on it, and the number compared. */
  readonly agreed: number;
  readonly compared: number;
  /** The share of what one map shows in known space of the other that is there too. */
  readonly fit: number;
}

/** The number of scans that must agree on the place of the second map. */
const AGREED_MIN = 10;
/** There, this share of what one map shows in known space of the other must be there too, of at least so many pixels. */
const FIT_MIN = 0.78;
const PIXELS_MIN = 150;
/** Shades of pixels that show something, and of pixels that show nothing. */
const DARK = 100;
const LIGHT = 160;
const AGREED_M = 0.3;
const AGREED_RAD = 0.05;
/** The place by one scan may be off by a fraction of a degree, so the fit is climbed in these steps, at most so often. */
const STEP_M = 0.03;
const STEP_RAD = 0.003;
const STEPS_MAX = 20;
/** Constraints between the two maps from the search of the place; the mapper finds more. */
const TIES_MAX = 50;
/** One over the standard deviations of such a constraint: metres, radians. */
const TIE = { translationWeight: 1 / 0.1, rotationWeight: 1 / 0.02 } as const;

interface Seen {
  readonly node: NodeState;
  /** On the first map. */
  readonly pose: Pose2d;
  /** The second map's origin, as this scan has it. */
  readonly place: Pose2d;
}

/** Merges the maps. Throws `failed_precondition` if no part of the second map is found on the first. */
export function mergeMaps(first: MapState, second: MapState, options: MapperOptions): MergedMap {
  let best: Agreement & { compared: number } | undefined;
  const pictures = [paintMap(first.submaps), paintMap(second.submaps)] as const;
  for (const nodes of trajectoriesIn(second)) {
    const seen = seenOn(first, nodes, options), found = agreementOf(seen, ...pictures);
    if (found && found.fit > (best?.fit ?? 0)) best = { ...found, compared: seen.length };
  }
  if (!best) {
    throw new SvcError(
      "failed_precondition",
      "the two maps share no place that can be recognized: the second must show a part of what the first shows",
    );
  }
  const { place, agreed, compared, fit } = best;
  const mapper = new Mapper({
    mode: "update",
    options,
    map: joined(first, second, place, agreed),
    pose: IDENTITY_2D,
  });
  mapper.finish();
  return { map: mapper.state(), place, agreed: agreed.length, compared, fit };
}

/** The nodes of each trajectory in the order of time; those with the most nodes first. */
function trajectoriesIn({ nodes }: MapState): NodeState[][] {
  return [...Map.groupBy(nodes, ({ trajectory }) => trajectory).values()]
    .map((own) => own.toSorted((a, b) => a.index - b.index))
    .sort((a, b) => b.length - a.length);
}

/** Localizes, on the first map, a robot that sees the scans of the second map. */
function seenOn(first: MapState, nodes: readonly NodeState[], options: MapperOptions): Seen[] {
  const mapper = new Mapper({ mode: "localize", options, map: first });
  const seen: Seen[] = [];
  for (const node of nodes) {
    const timeS = secondsOf(node.ticks);
    mapper.addOdometry({ timeS, pose: node.globalPose });
    if (!mapper.addScan({ timeS, points: node.points })) continue;
    while (mapper.work());
    const pose = mapper.pose();
    if (pose) seen.push({ node, pose, place: compose2d(pose, inverse2d(node.globalPose)) });
  }
  return seen;
}

interface Agreement {
  readonly place: Pose2d;
  readonly agreed: readonly Seen[];
  /** The share of what one map shows in known space of the other that is there too. */
  readonly fit: number;
}

/** The place on which scans agree, and where the second map fits the first best. */
function agreementOf(seen: readonly Seen[], first: MapPicture, second: MapPicture): Agreement | undefined {
  let best: Agreement | undefined, left = seen.toReversed();
  for (let [newest] = left; newest && left.length >= AGREED_MIN; [newest] = left) {
    const { node, pose, place } = newest;
    const isAgreed = (one: Seen) => {
      // Compared where the robot was, as a small angle is metres away from the origin.
      const expected = compose2d(pose, between2d(node.globalPose, one.node.globalPose));
      return Math.hypot(expected.x - one.pose.x, expected.y - one.pose.y) < AGREED_M &&
        Math.abs(wrapAngle(expected.yaw - one.pose.yaw)) < AGREED_RAD;
    };
    const agreed = left.filter(isAgreed);
    if (agreed.length >= AGREED_MIN) {
      const found = { agreed, ...fittedNear(place, first, second) };
      if (found.fit >= FIT_MIN && found.fit > (best?.fit ?? 0)) best = found;
    }
    left = left.filter((one) => !isAgreed(one));
  }
  return best;
}

/** The place near another that fits best. */
function fittedNear(from: Pose2d, first: MapPicture, second: MapPicture): { place: Pose2d; fit: number } {
  let best = { place: from, fit: fitAt(from, first, second) };
  for (let step = 0; step < STEPS_MAX; step++) {
    const { x, y, yaw } = best.place, before = best.fit;
    for (const sign of [-1, 1]) {
      const neighbours = [
        { x: x + sign * STEP_M, y, yaw },
        { x, y: y + sign * STEP_M, yaw },
        { x, y, yaw: yaw + sign * STEP_RAD },
      ];
      for (const place of neighbours) {
        const fit = fitAt(place, first, second);
        if (fit > best.fit) best = { place, fit };
      }
    }
    if (best.fit === before) break;
  }
  return best;
}

/** How well what each map shows lies on what the other shows; 0 if too little is known to both. */
function fitAt(place: Pose2d, first: MapPicture, second: MapPicture): number {
  const there = compared(second, place, first), back = compared(first, inverse2d(place), second);
  const on = there.on + back.on, off = there.off + back.off;
  return on + off < PIXELS_MIN ? 0 : on / (on + off);
}

/** Of what `from` shows: how much lies on something in `to`, and how much in its free space. */
function compared(from: MapPicture, place: Pose2d, to: MapPicture): { on: number; off: number } {
  let on = 0, off = 0;
  for (let pixel = 0; pixel < from.known.length; pixel++) {
    if (from.known[pixel] === 0 || intensityOf(from, pixel) >= DARK) continue;
    const x = (pixel % from.width - from.originX + 0.5) * PIXEL_M;
    const y = (from.originY - Math.floor(pixel / from.width) + 0.5) * PIXEL_M;
    const shade = shadeAt(to, compose2d(place, { x, y, yaw: 0 }));
    if (shade === "occupied") on++;
    if (shade === "free") off++;
  }
  return { on, off };
}

function shadeAt(map: MapPicture, { x, y }: Pose2d): "occupied" | "free" | undefined {
  const { width, height, originX, originY, known } = map;
  const column = Math.floor(x / PIXEL_M) + originX, row = originY - Math.floor(y / PIXEL_M);
  let isFree = false;
  for (const dx of [-1, 0, 1]) {
    for (const dy of [-1, 0, 1]) {
      const px = column + dx, py = row + dy, pixel = py * width + px;
      if (px < 0 || py < 0 || px >= width || py >= height || known[pixel] === 0) continue;
      const intensity = intensityOf(map, pixel);
      if (intensity < DARK) return "occupied";
      isFree ||= intensity > LIGHT && dx === 0 && dy === 0;
    }
  }
  return isFree ? "free" : undefined;
}

/** Both maps in one: the trajectories of the second get new numbers, and constraints to the first. */
function joined(first: MapState, second: MapState, place: Pose2d, agreed: readonly Seen[]): MapState {
  const used = [...first.trajectories, ...first.submaps, ...first.nodes].map(({ trajectory }) => trajectory);
  const offset = used.reduce((most, one) => Math.max(most, one), -1) + 1;
  const moved = <T extends { readonly trajectory: number }>(one: T): T => ({
    ...one,
    trajectory: one.trajectory + offset,
  });
  const placed = <T extends SubmapState | NodeState>(one: T): T => {
    return { ...moved(one), globalPose: compose2d(place, one.globalPose) };
  };
  const every = Math.ceil(agreed.length / TIES_MAX);
  const ties = agreed.filter((_, n) => n % every === 0).flatMap(({ node, pose }): ConstraintState[] => {
    const submap = nearest(first.submaps, pose);
    return [{
      submap: { trajectory: submap.trajectory, index: submap.index },
      node: { trajectory: node.trajectory + offset, index: node.index },
      pose: between2d(submap.globalPose, pose),
      ...TIE,
      kind: "inter",
    }];
  });
  return {
    trajectories: [...first.trajectories, ...second.trajectories.map(moved)],
    submaps: [...first.submaps, ...second.submaps.map(placed)],
    nodes: [...first.nodes, ...second.nodes.map(placed)],
    constraints: [
      ...first.constraints,
      ...second.constraints.map((one) => ({ ...one, submap: moved(one.submap), node: moved(one.node) })),
      ...ties,
    ],
    // The second map's landmarks would need its frame; those of the first stay where they are.
    landmarks: first.landmarks,
  };
}

function nearest(submaps: readonly SubmapState[], pose: Pose2d): SubmapState {
  const distance = ({ globalPose }: SubmapState) => Math.hypot(globalPose.x - pose.x, globalPose.y - pose.y);
  return submaps.reduce((best, one) => distance(one) < distance(best) ? one : best);
}
