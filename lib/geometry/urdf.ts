/**
 * URDF: converts robot descriptions in XML to the published JSON form of a kinematic model.
 *
 * URDF measures in metres and radians and gives a joint its own place; the JSON form measures in millimetres
 * and degrees and gives places to links only. So each moving joint becomes a link `<joint>_origin` followed
 * by a joint. A body is a `collision` with a shape of its own; mesh files are not read. The JSON form has one body
 * for a link, so that each further one has a link `<link>_body` before its own.
 */

import { messageOf, SvcError } from "../base/error.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import { childOf, childrenOf, type Element, parseXml } from "../base/xml.ts";
import { degrees } from "./pose.ts";

const MM_PER_M = 1000;
/** Limits of a continuous joint: finite, because the JSON form has no infinite numbers. */
export const ENDLESS_DEG = 36_000;

/**
 * The model in the published JSON form, not yet checked as a model.
 *
 * @throws invalid_argument for text that is not XML, XML that is not a robot, or a joint of an unsupported
 * type
 */
export async function svaFromUrdf(xml: string): Promise<JsonObject> {
  const robot = await parse(xml);
  const joints = childrenOf(robot, "joint");
  const names = namesOf(robot, joints);
  const parentOf = new Map(
    joints.map((joint) => [linkOf(joint, "child"), names.joint(attribute(joint, "name"))]),
  );
  const links = childrenOf(robot, "link").filter((link) => attribute(link, "name") !== "world").flatMap(
    (link) => {
      const name = attribute(link, "name");
      const [first, ...others] = geometriesOf(link);
      let parent = parentOf.get(name) ?? "world";
      const before = others.map((geometry) => {
        const body = { id: names.another(`${name}_body`), parent, geometry };
        parent = body.id;
        return body;
      });
      return [...before, { id: names.link(name), parent, ...(first ? { geometry: first } : {}) }];
    },
  );
  const placed = joints.map((joint) => convert(joint, names));
  return {
    name: robot.getAttribute("name") ?? "",
    kinematic_param_type: "SVA",
    links: [...links, ...placed.map(({ link }) => link)],
    joints: placed.flatMap(({ joint }) => joint ? [joint] : []),
  };
}

/** The frames of the JSON form, which has one name for each frame, whether it is a link or a joint. */
interface FrameNames {
  link(name: string): string;
  joint(name: string): string;
  /** The link with the place of a moving joint. */
  origin(name: string): string;
  /** A name that no other frame has, which begins like this one. */
  another(name: string): string;
  /** The type of a joint; undefined for an unknown one. */
  typeOf(joint: string): string | undefined;
}

/**
 * URDF gives links and joints names of their own, which may be the same. A moving joint keeps its name, because people
 * name joints; the link gets another one, and so does a fixed joint, which is only a place.
 */
function namesOf(robot: Element, joints: readonly Element[]): FrameNames {
  const types = new Map(joints.map((joint) => [attribute(joint, "name"), attribute(joint, "type")]));
  const links = childrenOf(robot, "link").map((link) => attribute(link, "name"));
  const taken = new Set(["world", ...links, ...types.keys()]);
  const another = (name: string) => {
    let found = name;
    for (let count = 2; taken.has(found); count++) found = `${name}${count}`;
    taken.add(found);
    return found;
  };
  const linkNames = new Map<string, string>(), jointNames = new Map<string, string>();
  for (const name of links) {
    const type = types.get(name);
    if (type === "fixed") jointNames.set(name, another(`${name}_joint`));
    else if (type !== undefined) linkNames.set(name, another(`${name}_link`));
  }

  const origins = new Map([...types.keys()].map((name) => [name, another(`${name}_origin`)]));
  return {
    link: (name) => linkNames.get(name) ?? name,
    joint: (name) => jointNames.get(name) ?? name,
    origin: (name) => origins.get(name)!,
    another,
    typeOf: (joint) => types.get(joint),
  };
}

/** A fixed joint becomes a link; a moving joint becomes a link with its place, and the joint itself. */
function convert(joint: Element, names: FrameNames): { link: JsonObject; joint?: JsonObject } {
  const name = attribute(joint, "name"), type = attribute(joint, "type");
  const id = names.joint(name), parent = names.link(linkOf(joint, "parent"));
  const place = poseOf(joint);
  if (type === "fixed") return { link: { id, parent, ...place } };

  const moving = type === "continuous" ? "revolute" : type;
  if (moving !== "revolute" && moving !== "prismatic") {
    throw invalid(`joint ${id} is of type ${type}, wanted fixed, revolute, continuous or prismatic`);
  }

  const toPublished = publishedUnit(moving);
  const limit = childOf(joint, "limit");
  const mimic = childOf(joint, "mimic");
  if (!limit && !mimic && type !== "continuous") throw invalid(`joint ${id} has no limit`);

  const endless = type === "continuous";
  const [x, y, z] = triple(childOf(joint, "axis"), "xyz", [1, 0, 0]);
  const origin = names.origin(name);
  return {
    link: { id: origin, parent, ...place },
    joint: {
      id,
      type: moving,
      parent: origin,
      axis: { x, y, z },
      min: endless ? -ENDLESS_DEG : toPublished(numeric(limit, "lower", 0)),
      max: endless ? ENDLESS_DEG : toPublished(numeric(limit, "upper", 0)),
      ...(mimic ? { mimic: mimicOf(mimic, moving, names) } : {}),
    },
  };
}

/** Radians to degrees, or metres to millimetres. */
function publishedUnit(type: string): (value: number) => number {
  return type === "prismatic" ? (metres) => metres * MM_PER_M : degrees;
}

/** The multiplier is in units of the follower per unit of the leader: metres per radian for a slide on a turn. */
function mimicOf(mimic: Element, follower: string, names: FrameNames): JsonObject {
  const joint = attribute(mimic, "joint");
  const toFollower = publishedUnit(follower), toLeader = publishedUnit(names.typeOf(joint) ?? follower);
  return {
    joint: names.joint(joint),
    multiplier: numeric(mimic, "multiplier", 1) * toFollower(1) / toLeader(1),
    offset: toFollower(numeric(mimic, "offset", 0)),
  };
}

/** The place of a joint or a body. Since version 1.1 of the format, a quaternion may give the rotation. */
function poseOf(holder: Element): JsonObject {
  const origin = childOf(holder, "origin");
  return { translation: millimetres(origin, "xyz"), orientation: orientationOf(origin) };
}

function orientationOf(origin: Element | undefined): JsonObject {
  const quaternion = numbers(origin, "quat_xyzw", 4);
  if (!quaternion) {
    const [roll, pitch, yaw] = triple(origin, "rpy", [0, 0, 0]);
    return { type: "euler_angles", value: { roll, pitch, yaw } };
  }

  if (origin?.getAttribute("rpy")) throw invalid("<origin> has rpy and quat_xyzw, wanted one of them");
  const [x = 0, y = 0, z = 0, w = 0] = quaternion;
  return { type: "quaternion", value: { w, x, y, z } };
}

function geometriesOf(link: Element): JsonObject[] {
  return childrenOf(link, "collision").flatMap((collision) => {
    const shape = childOf(collision, "geometry");
    const body = shape && bodyOf(shape);
    return body ? [{ ...body, ...poseOf(collision) }] : [];
  });
}

/**
 * A cylinder becomes the capsule around it: the JSON form has no cylinders, and a larger body is the safe
 * side. The length of a capsule in URDF leaves out its round ends, so that the two convert alike.
 */
function bodyOf(shape: Element): JsonObject | undefined {
  const [box, sphere] = ["box", "sphere"].map((tag) => childOf(shape, tag));
  const cylinder = childOf(shape, "cylinder") ?? childOf(shape, "capsule");
  if (box) {
    return { type: "box", ...millimetres(box, "size") };
  }
  if (sphere) return { type: "sphere", r: numeric(sphere, "radius", 0) * MM_PER_M };
  if (!cylinder) return undefined;
  const r = numeric(cylinder, "radius", 0) * MM_PER_M;
  return { type: "capsule", r, l: numeric(cylinder, "length", 0) * MM_PER_M + 2 * r };
}

async function parse(xml: string): Promise<Element> {
  let root: Element;
  try {
    root = await parseXml(xml);
  } catch (cause) {
    throw new SvcError("invalid_argument", `reading URDF: ${messageOf(cause)}`, { cause });
  }
  if (root.tagName === "robot") return root;
  throw invalid(`found <${root.tagName}>, wanted <robot>`);
}

function attribute(of: Element, name: string): string {
  return of.getAttribute(name) || refuseMissing(of, name);
}

function linkOf(joint: Element, end: "parent" | "child"): string {
  const found = childOf(joint, end);
  return found ? attribute(found, "link") : refuseMissing(joint, end);
}

function refuseMissing(of: Element, what: string): never {
  throw invalid(`<${of.tagName} name="${of.getAttribute("name") ?? ""}"> has no ${what}`);
}

function numeric(of: Element | undefined, name: string, fallback: number): number {
  return numbers(of, name, 1)?.[0] ?? fallback;
}

type Triple = readonly [number, number, number];

function triple(of: Element | undefined, name: string, fallback: Triple): Triple {
  const found = numbers(of, name, 3);
  if (!found) return fallback;
  const [x = 0, y = 0, z = 0] = found;
  return [x, y, z];
}

/** A length in metres on each axis, in millimetres. */
function millimetres(of: Element | undefined, name: string): { x: number; y: number; z: number } {
  const [x, y, z] = triple(of, name, [0, 0, 0]);
  return { x: x * MM_PER_M, y: y * MM_PER_M, z: z * MM_PER_M };
}

function numbers(of: Element | undefined, name: string, count: number): number[] | undefined {
  const written = of?.getAttribute(name)?.trim();
  if (!of || !written) return undefined;
  const found = written.split(/\s+/).map(Number);
  if (found.length === count && found.every(Number.isFinite)) return found;
  throw invalid(
    `<${of.tagName} ${name}="${written}">, wanted ${count === 1 ? "a number" : `${count} numbers`}`,
  );
}

function invalid(found: string): SvcError {
  return new SvcError("invalid_argument", `reading URDF: ${found}`);
}
