/**
 * The frame system: the places of a machine's parts relative to each other.
 *
 * It is a tree of frames rooted in "world". Each part gives two frames: `<name>_origin`, fixed to the parent
 * at the part's pose, and `<name>`, which is the end of its kinematics for a part that moves and equals the
 * origin for a part that does not. So a part attached to an arm rides on the arm's end, and a part attached
 * to `<arm>_origin` stays at its base. The frames within the kinematics exist too, as `<arm>:<link>`.
 *
 * Building never fails: it leaves out a part that cannot be placed and adds a warning. Asking for a missing
 * frame does fail.
 */

import { SvcError } from "../base/error.ts";
import type { Geometry } from "./geometry.ts";
import { type KinematicModel, placeEnd } from "./kinematics.ts";
import { compose, fromPose, IDENTITY, invert, type Pose, type RigidTransform, toPose } from "./pose.ts";

export const WORLD = "world";
export const ORIGIN_SUFFIX = "_origin";
const MAX_NAMES_SHOWN = 30;

/** The frame that the world of a remote is on this machine. */
export function remoteWorld(remote: string): string {
  return `${remote}_${WORLD}`;
}

/** A part of the machine in its frame system. */
export interface FramePart {
  /** The name of its frame. */
  readonly name: string;
  /** A part's name, its `_origin`, one of its links as `<part>:<link>`, or "world". */
  readonly parent: string;
  /** Pose of the part's origin in its parent. */
  readonly pose: Pose;
  /** The shape of the part, in its own frame. Absent if it has none. */
  readonly geometry?: Geometry;
  /** Its further shapes. */
  readonly moreGeometries?: readonly Geometry[];
  /** The joints of a part that moves. */
  readonly kinematics?: KinematicModel;
}

/** The frames of a machine. */
export interface FrameSystem {
  /** The parts that are linked to the world, each after its parent. */
  readonly parts: readonly FramePart[];
  /** Names of the parts that no chain of parents links to the world. */
  readonly unlinked: readonly string[];
  /** The left-out parts with their reasons, for the log. */
  readonly warnings: readonly string[];
}

/** A pose, and the frame that it is relative to. */
export interface PoseInFrame {
  /** The name of the frame. */
  readonly referenceFrame: string;
  /** Relative to that frame. */
  readonly pose: Pose;
}

export interface TransformOptions {
  /** Frames that exist for this one question only. */
  readonly supplemental?: readonly FramePart[];
  /** Joint positions by part (degrees, millimetres); 0 for a part that is not in the map. */
  readonly inputs?: ReadonlyMap<string, readonly number[]>;
}

/** The order of `parts` does not matter: the result is breadth first from the world, siblings by name. */
export function buildFrameSystem(parts: readonly FramePart[]): FrameSystem {
  const warnings: string[] = [];
  const usable = new Map<string, FramePart>();
  for (const part of parts) {
    let problem: string | undefined;
    if (part.name === WORLD) problem = 'is named "world", which is the name of the root';
    else if (part.parent === "") problem = "has no parent";
    else if (usable.has(part.name)) problem = "has the name of another part";

    if (problem) warnings.push(`frame of ${part.name || "a nameless part"} ${problem}, left out`);
    else usable.set(part.name, part);
  }

  const sorted = parentsFirst(usable);
  const linked = new Set(sorted);
  const unlinked = [...usable.values()].filter((part) => !linked.has(part));
  for (const { name, parent } of unlinked) {
    warnings.push(
      `frame of ${name} is not linked to the world: nothing leads there from its parent ${parent}`,
    );
  }

  return { parts: sorted, unlinked: unlinked.map(({ name }) => name), warnings };
}

/** Every frame that can be asked for, except the links within parts. */
export function frameNames(system: FrameSystem): string[] {
  return [WORLD, ...system.parts.flatMap(({ name }) => [`${name}${ORIGIN_SUFFIX}`, name])];
}

/**
 * The pose as seen from another frame; an empty destination means the world.
 *
 * @throws not_found for a frame that is not in the system, naming the known frames
 *
 * @throws invalid_argument for supplemental frames that cannot be placed, or joints that do not fit the part
 */
export function transformPose(
  system: FrameSystem,
  source: PoseInFrame,
  destination: string,
  options: TransformOptions = {},
): PoseInFrame {
  const between = transformBetween(system, source.referenceFrame, destination, options);
  return { referenceFrame: destination || WORLD, pose: toPose(compose(between, fromPose(source.pose))) };
}

/** A part whose kinematics stand between a frame and the world. */
export interface Carrier {
  readonly part: FramePart & { readonly kinematics: KinematicModel };
  /** Index of the carrying frame in the part's kinematics. */
  readonly link: number;
}

/**
 * The parts that carry a frame on their kinematics, the nearest first; a part carries its own frame.
 *
 * @throws not_found for a frame that is not in the system, naming the known frames
 */
export function carriersOf(system: FrameSystem, frame: string): Carrier[] {
  const parts = new Map(system.parts.map((part) => [part.name, part]));
  const carriers: Carrier[] = [];
  for (let next = frame; next !== WORLD;) {
    const found = find(parts, next);
    if (!found) {
      throw new SvcError("unknown", `frame with name "${frame}" not in frame system, ${known(system)}`);
    }
    const { part, link } = found;
    if (isMoving(part) && link !== undefined) carriers.push({ part, link });
    next = part.parent;
  }
  return carriers;
}

function isMoving(part: FramePart): part is Carrier["part"] {
  return part.kinematics !== undefined;
}

/** The transform of points from the source frame to the destination frame; see `transformPose`. */
export function transformBetween(
  system: FrameSystem,
  source: string,
  destination: string,
  { supplemental = [], inputs = new Map() }: TransformOptions = {},
): RigidTransform {
  const whole = supplemented(system, supplemental);
  const parts = new Map(whole.parts.map((part) => [part.name, part]));
  const place = (frame: string): RigidTransform => {
    const found = placeInWorld(parts, frame, inputs);
    if (found) return found;
    const asked = `transforming from ${source} to ${destination || WORLD}`;
    throw new SvcError(
      "unknown",
      `${asked}: frame with name "${frame}" not in frame system, ${known(whole)}`,
    );
  };
  return compose(invert(place(destination || WORLD)), place(source));
}

function placeInWorld(
  parts: ReadonlyMap<string, FramePart>,
  frame: string,
  inputs: ReadonlyMap<string, readonly number[]>,
): RigidTransform | undefined {
  let place = IDENTITY;
  for (let next = frame; next !== WORLD;) {
    const found = find(parts, next);
    if (!found) return undefined;
    const { part, link } = found;
    if (part.kinematics && link !== undefined) {
      const positions = inputs.get(part.name) ?? part.kinematics.joints.map(() => 0);
      place = compose(placeEnd(part.kinematics, positions, link), place);
    }
    place = compose(fromPose(part.pose), place);
    next = part.parent;
  }
  return place;
}

/**
 * The part of a frame, and the frame's index in the part's kinematics; no index for the origin. Part names
 * have precedence.
 */
function find(
  parts: ReadonlyMap<string, FramePart>,
  frame: string,
): { part: FramePart; link?: number } | undefined {
  const part = parts.get(frame);
  if (part) return { part, link: part.kinematics?.end };
  const still = frame.endsWith(ORIGIN_SUFFIX) && parts.get(frame.slice(0, -ORIGIN_SUFFIX.length));
  if (still) return { part: still };
  const [, name = "", id] = /^(.+):(.*)$/.exec(frame) ?? [];
  const moving = parts.get(name);
  const link = moving?.kinematics?.frames.findIndex((one) => one.id === id) ?? -1;
  return moving && link >= 0 ? { part: moving, link } : undefined;
}

function supplemented(system: FrameSystem, supplemental: readonly FramePart[]): FrameSystem {
  if (supplemental.length === 0) return system;
  const whole = buildFrameSystem([...system.parts, ...supplemental]);
  if (whole.warnings.length === 0) return whole;
  const found = `supplemental frames: ${whole.warnings.join("; ")}`;
  throw new SvcError("invalid_argument", `${found}, ${known(whole)}`);
}

function parentsFirst(parts: ReadonlyMap<string, FramePart>): FramePart[] {
  const children = Map.groupBy(parts.values(), ({ parent }) => {
    return parent === WORLD ? WORLD : find(parts, parent)?.part.name ?? parent;
  });
  const childrenOf = (name: string) => {
    return (children.get(name) ?? []).toSorted((a, b) => a.name < b.name ? -1 : 1);
  };
  const sorted = childrenOf(WORLD);
  // A loop over an array also visits elements that are added during the loop.
  for (const { name } of sorted) sorted.push(...childrenOf(name));
  return sorted;
}

function known(system: FrameSystem): string {
  const names = [WORLD, ...system.parts.map(({ name }) => name)];
  const more = names.length - MAX_NAMES_SHOWN;
  return `known are ${names.slice(0, MAX_NAMES_SHOWN).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
