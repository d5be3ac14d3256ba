/**
 * Kinematic models: how the joints of a moving part place its links.
 *
 * A model is a tree of frames, each relative to its parent: fixed links, and joints that turn or slide along
 * an axis. It is read from the published JSON form (SVA links and joints, or Denavit-Hartenberg rows) or from
 * URDF. It keeps its source, because clients ask for it.
 *
 * Joint positions are in the units of the wire: degrees for revolute joints, millimetres for prismatic ones,
 * in the order of `joints` (from the base outwards).
 */

import { SvcError } from "../base/error.ts";
import {
  choice,
  DecodeContext,
  type Infer,
  type JsonObject,
  list,
  number,
  object,
  text,
} from "../base/schema/schema.ts";
import { type Geometry, transformGeometry } from "./geometry.ts";
import {
  compose,
  IDENTITY,
  length,
  NO_ROTATION,
  ORIGIN,
  type Pose,
  quaternionFromAxisAngles,
  radians,
  type RigidTransform,
  scale,
  toPose,
  type Vec3,
} from "./pose.ts";
import { geometryField, orientationField, vectorField } from "./schema.ts";
import { svaFromUrdf } from "./urdf.ts";

const MAX_FILE_BYTES = 4 * 2 ** 20;
const MAX_FRAMES = 1000;

/** A joint of a part. */
export interface Joint {
  /** Its name in the model. */
  readonly id: string;
  /** Whether it turns (degrees) or slides (millimetres). */
  readonly type: "revolute" | "prismatic";
  /** The least position, in degrees or millimetres. */
  readonly min: number;
  /** The greatest position, in degrees or millimetres. */
  readonly max: number;
}

/**
 * The value that moves a joint frame: `multiplier` times the value of joint `index`, plus `offset` (degrees
 * or millimetres).
 */
export interface JointDrive {
  /** Whether the frame turns or slides. */
  readonly type: Joint["type"];
  /** A direction in the frame, of length 1. */
  readonly axis: Vec3;
  /** Into the joints of the model. */
  readonly index: number;
  /** 1 for a joint of its own; another factor for a joint that mimics another. */
  readonly multiplier: number;
  /** In degrees or millimetres. */
  readonly offset: number;
}

/** A link or a joint of a model. */
export interface ModelFrame {
  /** Its name in the model. */
  readonly id: string;
  /** Index of the parent frame; -1 for the base. */
  readonly parent: number;
  /** A fixed link's place in its parent; joints have `drive` instead. */
  readonly fixed: RigidTransform;
  /** Absent for a fixed link. */
  readonly drive?: JointDrive;
  /** Relative to the parent for links, to the moved frame for joints, as published. */
  readonly geometry?: Geometry;
}

/** The links and joints of a part that moves. */
export interface KinematicModel {
  /** May be empty. */
  readonly name: string;
  /** From the base outwards, in the order of joint positions. */
  readonly joints: readonly Joint[];
  /** Parents first. */
  readonly frames: readonly ModelFrame[];
  /** Index of the frame at the part's end; -1 for a model without frames. */
  readonly end: number;
  /** The model in the published JSON form. */
  readonly config: JsonObject;
  /** The file from which the model was read. */
  readonly source: { readonly format: "sva" | "urdf"; readonly bytes: Uint8Array };
}

const id = text("name of the frame", { pattern: /./, wanted: "a name" }).required();
const parent = text('frame it is attached to, or "world"').default("world");
const limits = { min: number("degrees or mm").default(0), max: number("degrees or mm").default(0) };

const modelField = object({
  name: text().default(""),
  kinematicParamType: choice("form of the model", ["", "SVA", "DH"]).default("SVA"),
  links: list(object({
    id,
    parent,
    translation: vectorField,
    orientation: orientationField,
    geometry: geometryField,
  })).default([]),
  joints: list(object({
    id,
    parent,
    type: choice("kind of motion", ["revolute", "prismatic"]).required(),
    axis: vectorField.required().with((axis, at) => {
      return length(axis) > 0
        ? scale(axis, 1 / length(axis))
        : at.error("x, y and z are all 0, wanted an axis");
    }),
    ...limits,
    geometry: geometryField,
    mimic: object({ joint: text().required(), multiplier: number().default(1), offset: number().default(0) }),
  })).default([]),
  dhParams: list(object({
    id,
    parent,
    a: number("mm").default(0),
    d: number("mm").default(0),
    alpha: number("degrees").default(0),
    ...limits,
    geometry: geometryField,
  })).key("dhParams").default([]),
  outputFrames: list(text()).default([]),
});

type ModelSettings = NonNullable<Infer<typeof modelField>>;

/** A frame whose parents have not been looked up yet. */
interface Node extends Omit<ModelFrame, "parent" | "drive"> {
  readonly parentId: string;
  readonly joint?: Joint;
  readonly axis?: Vec3;
  readonly mimic?: { readonly joint: string; readonly multiplier: number; readonly offset: number };
}

/**
 * Reads a kinematics file. `name` replaces the name in it.
 *
 * @throws invalid_argument with every problem found
 */
export async function parseKinematics(
  bytes: Uint8Array,
  format: "sva" | "urdf",
  name?: string,
): Promise<KinematicModel> {
  if (format === "sva") return parseSva(bytes, name);
  const config = await svaFromUrdf(textOf(bytes, name));
  return { ...decodeSva(config, name), source: { format, bytes } };
}

/** Reads a file of the published JSON form; see `parseKinematics`. */
export function parseSva(bytes: Uint8Array, name?: string): KinematicModel {
  const contents = textOf(bytes, name);
  let config: unknown;
  try {
    config = JSON.parse(contents);
  } catch (cause) {
    throw new SvcError("invalid_argument", `reading kinematics${of(name)}: not JSON`, { cause });
  }
  return { ...decodeSva(config, name), source: { format: "sva", bytes } };
}

function textOf(bytes: Uint8Array, name?: string): string {
  if (bytes.length <= MAX_FILE_BYTES) return new TextDecoder().decode(bytes);
  throw invalid(name, `a file of ${bytes.length} bytes, wanted at most ${MAX_FILE_BYTES}`);
}

/** The model of a JSON value in the published form; see `parseKinematics`. */
export function decodeSva(config: unknown, name?: string): KinematicModel {
  const at = new DecodeContext();
  const settings = modelField.required().decode(config, at);
  if (at.failed) {
    const errors = at.problems.filter((problem) => problem.severity === "error");
    throw invalid(name, errors.map(({ path, message }) => path ? `${path}: ${message}` : message).join("; "));
  }
  const title = name ?? settings.name;
  const nodes = parentsFirst(nodesOf(settings, title), title);
  const { joints, frames } = linked(nodes, title);
  const end = endOf(frames, settings.outputFrames, title);
  const bytes = new TextEncoder().encode(JSON.stringify(config));
  return { name: title, joints, frames, end, config: config as JsonObject, source: { format: "sva", bytes } };
}

/**
 * Pose of the part's end in its base frame. Accepts positions beyond the limits, because the arm may really
 * be there.
 *
 * @throws invalid_argument for a different number of joints
 */
export function forwardKinematics(model: KinematicModel, positions: readonly number[]): Pose {
  return toPose(placeEnd(model, positions));
}

/**
 * Like `forwardKinematics`, as a transform for further arithmetic; `frame` selects another frame than the
 * end.
 */
export function placeEnd(
  model: KinematicModel,
  positions: readonly number[],
  frame = model.end,
): RigidTransform {
  checkCount(model, positions);
  return placeFrames(model, positions)[frame] ?? IDENTITY;
}

/** The bodies of the links in the part's base frame, labelled `<model>:<link>`. */
export function modelGeometries(model: KinematicModel, positions: readonly number[]): Geometry[] {
  checkCount(model, positions);
  const places = placeFrames(model, positions);
  return linkGeometries(model).map(({ frame, geometry }) =>
    transformGeometry(geometry, toPose(places[frame] ?? IDENTITY))
  );
}

/** The same bodies, each with the index of the frame that carries it (-1 for the base), in that frame. */
export function linkGeometries(model: KinematicModel): { frame: number; geometry: Geometry }[] {
  return model.frames.flatMap(({ id, parent, drive, geometry }, index) => {
    if (!geometry) return [];
    const label = `${model.name}:${geometry.label || id}`;
    return [{ frame: drive ? index : parent, geometry: { ...geometry, label } }];
  });
}

/** What is allowed, and probably a mistake. */
export function modelWarnings({ name, joints }: KinematicModel): string[] {
  return joints.filter(({ min, max }) => min === 0 && max === 0)
    .map(({ id }) => `joint ${id} of ${name} cannot move: its limits are 0 to 0`);
}

/** @throws invalid_argument naming the first joint outside its limits, or the wrong number of joints */
export function checkJoints(model: KinematicModel, positions: readonly number[]): void {
  checkCount(model, positions);
  for (const [index, { id, type, min, max }] of model.joints.entries()) {
    const position = positions[index] ?? NaN;
    if (position >= min && position <= max) continue;
    const unit = type === "revolute" ? "degrees" : "mm";
    const text = `moving joint ${index} (${id}) of ${model.name} to ${position} ${unit}`;
    throw new SvcError("invalid_argument", `${text}, wanted from ${min} to ${max}`);
  }
}

/** The place of every frame in the base frame, at joint positions in degrees and millimetres. */
export function placeFrames(model: KinematicModel, positions: readonly number[]): RigidTransform[] {
  const places: RigidTransform[] = [];
  for (const { parent, fixed, drive } of model.frames) {
    const local = drive ? moved(drive, positions[drive.index] ?? NaN) : fixed;
    const base = places[parent];
    places.push(base ? compose(base, local) : local);
  }
  return places;
}

function moved({ type, axis, multiplier, offset }: JointDrive, position: number): RigidTransform {
  const value = multiplier * position + offset;
  return type === "revolute"
    ? { translation: ORIGIN, rotation: quaternionFromAxisAngles({ ...axis, theta: radians(value) }) }
    : { translation: scale(axis, value), rotation: NO_ROTATION };
}

/** @throws invalid_argument if the number of positions differs from the number of joints */
export function checkCount(model: KinematicModel, positions: readonly number[]): void {
  if (positions.length === model.joints.length) return;
  const found = `${positions.length} joint positions for ${model.name}`;
  throw new SvcError("invalid_argument", `${found}, wanted ${model.joints.length}`);
}

function nodesOf({ kinematicParamType, links, joints, dhParams }: ModelSettings, title: string): Node[] {
  if (kinematicParamType === "DH") return dhParams.flatMap((row) => dhNodes(row));
  return [
    ...links.map(({ id, parent, translation = ORIGIN, orientation = NO_ROTATION, geometry }): Node => {
      return { id, parentId: parent, fixed: { translation, rotation: orientation }, geometry };
    }),
    ...joints.map(({ id, parent, type, axis, min, max, geometry, mimic }): Node => {
      if (min > max) throw invalid(title, `joint ${id} has min ${min} above max ${max}`);
      return { id, parentId: parent, fixed: IDENTITY, joint: { id, type, min, max }, axis, geometry, mimic };
    }),
  ];
}

/** The frames of one Denavit-Hartenberg row: a turn about Z, then d along Z, a along X and alpha about X. */
function dhNodes(row: ModelSettings["dhParams"][number]): Node[] {
  const joint: Joint = { id: `${row.id}_j`, type: "revolute", min: row.min, max: row.max };
  const rotation = quaternionFromAxisAngles({ x: 1, y: 0, z: 0, theta: radians(row.alpha) });
  const fixed = { translation: { x: row.a, y: 0, z: row.d }, rotation };
  return [
    { id: joint.id, parentId: row.parent, fixed: IDENTITY, joint, axis: { x: 0, y: 0, z: 1 } },
    { id: row.id, parentId: joint.id, fixed, geometry: row.geometry },
  ];
}

/** Breadth first from the base, otherwise in the order of the file: a chain comes out from base to end. */
function parentsFirst(nodes: readonly Node[], title: string): Node[] {
  if (nodes.length > MAX_FRAMES) throw invalid(title, `${nodes.length} frames, wanted at most ${MAX_FRAMES}`);
  const known = new Set<string>();
  for (const { id } of nodes) {
    if (id === "world") throw invalid(title, 'a frame named "world", which is the name of the base');
    if (known.has(id)) throw invalid(title, `two frames named ${id}`);
    known.add(id);
  }

  const children = Map.groupBy(nodes, ({ parentId }) => parentId === "" ? "world" : parentId);
  for (const [parentId, [child]] of children) {
    if (parentId === "world" || known.has(parentId)) continue;
    throw invalid(
      title,
      `frame ${child?.id} has parent ${parentId}, which is not among ${[...known].join(", ")}`,
    );
  }

  const sorted = [...children.get("world") ?? []];
  // A loop over an array also visits elements that are added during the loop.
  for (const { id } of sorted) sorted.push(...children.get(id) ?? []);
  if (sorted.length < nodes.length) {
    const lost = nodes.filter((node) => !sorted.includes(node)).map(({ id }) => id);
    throw invalid(title, `frames ${lost.join(", ")} go round in a circle, wanted a way to "world"`);
  }

  return sorted;
}

function linked(nodes: readonly Node[], title: string): { joints: Joint[]; frames: ModelFrame[] } {
  const joints = nodes.flatMap(({ joint, mimic }) => joint && !mimic ? [joint] : []);
  const indexOf = new Map(nodes.map(({ id }, index) => [id, index]));
  const frames = nodes.map((node): ModelFrame => ({
    id: node.id,
    parent: indexOf.get(node.parentId) ?? -1,
    fixed: node.fixed,
    drive: node.joint && driveOf(node, nodes, joints, title),
    geometry: node.geometry,
  }));
  return { joints, frames };
}

/** Follows mimic joints to the driven joint and combines their factors on the way. */
function driveOf(node: Node, nodes: readonly Node[], joints: readonly Joint[], title: string): JointDrive {
  let [multiplier, offset, driver] = [1, 0, node];
  const seen = new Set<Node>();
  while (driver.mimic) {
    if (seen.has(driver)) throw invalid(title, `joint ${node.id} mimics itself`);
    seen.add(driver);
    offset += multiplier * driver.mimic.offset;
    multiplier *= driver.mimic.multiplier;
    const wanted = driver.mimic.joint;
    const next = nodes.find(({ id, joint }) => joint && id === wanted);
    if (!next) throw invalid(title, `joint ${driver.id} mimics ${wanted}, which is not a joint of the model`);
    driver = next;
  }
  const index = joints.indexOf(driver.joint!);
  return { type: node.joint!.type, axis: node.axis!, index, multiplier, offset };
}

function endOf(frames: readonly ModelFrame[], outputs: readonly string[], title: string): number {
  if (outputs.length > 1) throw invalid(title, `output frames ${outputs.join(", ")}, wanted one`);
  if (outputs.length === 1) {
    const end = frames.findIndex(({ id }) => id === outputs[0]);
    if (end < 0) throw invalid(title, `output frame ${outputs[0]} is not a frame of the model`);
    return end;
  }
  const parents = new Set(frames.map(({ parent }) => parent));
  const ends = [...frames.keys()].filter((index) => !parents.has(index));
  if (ends.length > 1) {
    const names = frames.filter((_, index) => !parents.has(index)).map(({ id }) => id).join(", ");
    throw invalid(title, `ends in ${names}, wanted one end (or one named in output_frames)`);
  }
  return ends[0] ?? -1;
}

function of(name: string | undefined): string {
  return name ? ` of ${name}` : "";
}

function invalid(name: string | undefined, found: string): SvcError {
  return new SvcError("invalid_argument", `reading kinematics${of(name)}: ${found}`);
}
