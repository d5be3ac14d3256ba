/**
 * Plans paths of a part with joints, from its present joint positions to a pose of its end, without touching
 * anything.
 *
 * A way is a list of joint positions (degrees, millimetres) that follow the present ones; between two of them
 * every joint moves evenly, all in the same time. If the straight way is free, the planner takes it;
 * otherwise it grows a way from both ends until they meet. Deterministic: the same question gives the same
 * answer. Every search is bounded and gives other work its turn.
 */

import { SvcError } from "../base/error.ts";
import { inverseKinematics, randomPositions } from "./inverse_kinematics.ts";
import { forwardKinematics, type KinematicModel, placeEnd } from "./kinematics.ts";
import {
  add,
  axisAnglesFromQuaternion,
  conjugate,
  degrees,
  distanceBetween,
  fromPose,
  multiply,
  type Pose,
  quaternionFromAxisAngles,
  type RigidTransform,
  scale,
  subtract,
  toPose,
} from "./pose.ts";
import { randomFrom } from "./random.ts";

export interface Reach {
  readonly model: KinematicModel;
  readonly start: readonly number[];
  /** Pose of the end, in the base frame. */
  readonly goal: Pose;
  /**
   * Name of the obstacle that the part would touch at these joint positions; `undefined` if the place is
   * free.
   */
  readonly touched: (positions: readonly number[]) => string | undefined;
  /** Called often: yields to other work, and rejects when the caller has aborted. */
  readonly pause: () => Promise<void>;
}

/** How far the end may deviate from the straight line, and its rotation from an even one. */
export interface LineTolerance {
  readonly distanceMm: number;
  readonly angleDeg: number;
}

type Way = readonly (readonly number[])[];

/** Largest joint change between two checked places of a way. */
const LOOK_STEP = 1;
/** Largest joint change between two places of a growing way. */
const GROW_STEP = 10;
/** Number of tries to find other joint positions for the same pose. */
const GOALS_TRIED = 12;
/** Most places of a growing way. */
const GROWN_MAX = 4_000;
const SHORTCUTS_TRIED = 60;
/** Number of places checked between two pauses. */
const LOOKS_PER_PAUSE = 10;
/** Distance of the end between two places of a line. */
const LINE_STEP_MM = 5;
const LINE_STEP_DEG = 1;
const LINE_POINTS_MAX = 5_000;
/** The smallest share of such a step. */
const LINE_STEP_SMALLEST = 1 / 64;
/** If one step of a line needs a larger joint change, the joint is turning over. */
const LINE_JOINT_STEP = 20;

/**
 * A way that touches nothing.
 *
 * @throws failed_precondition if the pose is out of reach or no way was found, naming the obstacle
 */
export async function freeWay(reach: Reach): Promise<Way> {
  const { model, start, goal } = reach;
  const look = new Look(reach);
  const first = inverseKinematics(model, goal, start);
  const inTheWay = await look.along(start, first);
  if (inTheWay === undefined) return [first];

  const random = randomFrom(1);
  const goals: number[][] = [];
  for (let round = 0; round <= GOALS_TRIED; round++) {
    const found = round === 0 ? first : otherGoal(reach, random);
    if (found && await look.at(found) === undefined) goals.push(found);
  }

  goals.sort((a, b) => furthestJoint(start, a) - furthestJoint(start, b));
  for (const found of goals) if (await look.along(start, found) === undefined) return [found];
  if (goals.length === 0) {
    throw refusal(
      reach,
      `in every place found of its joints it would touch ${await look.at(first) ?? inTheWay}`,
    );
  }

  const grown = await grow(reach, goals, look, random);
  if (!grown) throw refusal(reach, `${inTheWay} is in the way, and no way around was found`);

  return await shortened([start, ...grown], look, random);
}

/**
 * The way on which the end moves straight and turns evenly.
 *
 * @throws failed_precondition if no way is within the tolerance, or the way touches an obstacle
 */
export async function straightWay(reach: Reach, tolerance: LineTolerance): Promise<Way> {
  const { model, start, goal } = reach;
  const look = new Look(reach);
  const line = lineBetween(fromPose(forwardKinematics(model, start)), fromPose(goal));
  if (line.places > LINE_POINTS_MAX) throw refusal(reach, "a straight line there is too long");

  const way: (readonly number[])[] = [];
  let from = start;
  // If the joints bend the way too much between two places of the line, tries half the step first.
  for (let [share, step] = [0, 1 / line.places]; share < 1;) {
    const next = share + step > 1 - step / 2 ? 1 : share + step;
    const where = `${(100 * next).toFixed(1)} % of the straight line there`;
    const to = nextOnLine(reach, line.at(next), from, where);
    const off = distanceBetween(placeEnd(model, between(from, to, 0.5)), line.at((share + next) / 2));
    if (off.distanceMm > tolerance.distanceMm || degrees(off.angleRad) > tolerance.angleDeg) {
      step /= 2;
      if (step * line.places >= LINE_STEP_SMALLEST) continue;
      const found = `${off.distanceMm.toFixed(3)} mm and ${degrees(off.angleRad).toFixed(3)} degrees`;
      const wanted = `at most ${tolerance.distanceMm} mm and ${tolerance.angleDeg} degrees`;
      throw refusal(reach, `at ${where} it would be ${found} off, wanted ${wanted}`);
    }

    const inTheWay = await look.along(from, to);
    if (inTheWay !== undefined) throw refusal(reach, `at ${where} it would touch ${inTheWay}`);

    way.push(to);
    from = to;
    [share, step] = [next, Math.min(1 / line.places, 2 * step)];
  }

  return way;
}

function nextOnLine(reach: Reach, place: RigidTransform, from: readonly number[], where: string): number[] {
  let to: number[];
  try {
    to = inverseKinematics(reach.model, toPose(place), from, { restarts: 0 });
  } catch (cause) {
    throw refusal(reach, `it cannot follow at ${where}`, cause);
  }
  if (furthestJoint(from, to) > LINE_JOINT_STEP) {
    throw refusal(reach, `its joints would turn over at ${where}`);
  }
  return to;
}

function lineBetween(from: RigidTransform, to: RigidTransform) {
  const { distanceMm, angleRad } = distanceBetween(from, to);
  const way = subtract(to.translation, from.translation);
  const { theta, ...axis } = axisAnglesFromQuaternion(multiply(to.rotation, conjugate(from.rotation)));
  return {
    places: Math.max(1, Math.ceil(Math.max(distanceMm / LINE_STEP_MM, degrees(angleRad) / LINE_STEP_DEG))),
    at: (share: number): RigidTransform => ({
      translation: add(from.translation, scale(way, share)),
      rotation: multiply(quaternionFromAxisAngles({ ...axis, theta: theta * share }), from.rotation),
    }),
  };
}

/** Checks places, and gives other work its turn in between. */
class Look {
  #looks = 0;

  constructor(private readonly reach: Reach) {}

  async at(positions: readonly number[]): Promise<string | undefined> {
    if (++this.#looks % LOOKS_PER_PAUSE === 0) await this.reach.pause();
    return this.reach.touched(positions);
  }

  /** Name of the obstacle touched on the straight way, without its first place. */
  async along(from: readonly number[], to: readonly number[]): Promise<string | undefined> {
    const steps = Math.max(1, Math.ceil(furthestJoint(from, to) / LOOK_STEP));
    for (let step = 1; step <= steps; step++) {
      const inTheWay = await this.at(between(from, to, step / steps));
      if (inTheWay !== undefined) return inTheWay;
    }
  }
}

/** Other joint positions for the same pose, from a random start of the search. */
function otherGoal({ model, goal }: Reach, random: () => number): number[] | undefined {
  try {
    return inverseKinematics(model, goal, randomPositions(model, random), { restarts: 0 });
  } catch {
    return undefined;
  }
}

/** A place of a tree, and the index of its predecessor; -1 for a root. */
interface Grown {
  readonly positions: readonly number[];
  readonly from: number;
}

/** Two trees, from the start and from the goals, grow towards random places and towards each other. */
async function grow(
  { model, start }: Reach,
  goals: readonly (readonly number[])[],
  look: Look,
  random: () => number,
): Promise<(readonly number[])[] | undefined> {
  const here: Grown[] = [{ positions: start, from: -1 }];
  const there: Grown[] = goals.map((positions) => ({ positions, from: -1 }));
  let [growing, other] = [here, there];
  for (let round = 0; round < GROWN_MAX && here.length + there.length < GROWN_MAX; round++) {
    const target = await step(growing, randomPositions(model, random), look);
    for (let reached = target && await step(other, target, look); target && reached;) {
      if (furthestJoint(reached, target) === 0) {
        return [...rootward(here).reverse().slice(1), ...rootward(there).slice(1)];
      }
      reached = await step(other, target, look);
    }
    [growing, other] = [other, growing];
  }
}

/**
 * Adds one place on the way from the tree's nearest place to the target, and returns it; `undefined` if an obstacle is
 * in between, or the tree has reached the target.
 */
async function step(
  tree: Grown[],
  target: readonly number[],
  look: Look,
): Promise<readonly number[] | undefined> {
  let [from, start, nearest] = [-1, target, Infinity];
  for (const [index, { positions }] of tree.entries()) {
    const way = Math.hypot(...positions.map((position, joint) => position - (target[joint] ?? 0)));
    if (way < nearest) [from, start, nearest] = [index, positions, way];
  }
  const furthest = furthestJoint(start, target);
  if (furthest === 0) return undefined;
  const positions = furthest <= GROW_STEP ? target : between(start, target, GROW_STEP / furthest);
  if (await look.along(start, positions) !== undefined) return undefined;
  tree.push({ positions, from });
  return positions;
}

/** The places from the newest place of a tree to its root. */
function rootward(tree: readonly Grown[]): (readonly number[])[] {
  const way: (readonly number[])[] = [];
  for (let grown = tree.at(-1); grown; grown = tree[grown.from]) way.push(grown.positions);
  return way;
}

/** The same way without unnecessary places, and without its beginning. */
async function shortened(way: Way, look: Look, random: () => number): Promise<Way> {
  let best = way;
  for (let turn = 0; turn < SHORTCUTS_TRIED && best.length > 2; turn++) {
    const from = Math.floor(random() * (best.length - 2));
    const to = from + 2 + Math.floor(random() * (best.length - from - 2));
    const first = best[from], last = best[to];
    const isFree = first && last && await look.along(first, last) === undefined;
    if (isFree) best = best.toSpliced(from + 1, to - from - 1);
  }
  return best.slice(1);
}

function between(from: readonly number[], to: readonly number[], share: number): readonly number[] {
  if (share === 1) return to;
  return from.map((position, index) => position + ((to[index] ?? 0) - position) * share);
}

function furthestJoint(from: readonly number[], to: readonly number[]): number {
  return Math.max(0, ...from.map((position, index) => Math.abs((to[index] ?? 0) - position)));
}

function refusal({ model, goal }: Reach, reason: string, cause?: unknown): SvcError {
  const where = `(${[goal.x, goal.y, goal.z].map((mm) => mm.toFixed(1)).join(", ")}) mm`;
  return new SvcError("failed_precondition", `moving ${model.name} to ${where}: ${reason}`, { cause });
}
