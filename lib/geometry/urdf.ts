/**
 * URDF: converts robot descriptions in XML to the published JSON form of a kinematic model.
 *
 * URDF measures in metres and radians and gives a joint its own place; the JSON form measures in millimetres
 * and degrees and gives places to links only. So each moving joint becomes a link `<joint>_origin` followed
 * by a joint. Bodies come from the first `collision` of a link; mesh files are not read.
 */

import { messageOf, SvcError } from "../base/error.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import { childOf, childrenOf, type Element, parseXml } from "../base/xml.ts";
import { degrees } from "./pose.ts";

const MM_PER_M = 1000;
/** Limits of a continuous joint: finite, because the JSON form has no infinite numbers. */
const ENDLESS_DEG = 36_000;

/**
 * The model in the published JSON form, not yet checked as a model.
 *
 * @throws invalid_argument for text that is not XML, XML that is not a robot, or a joint of an unsupported
 * type
 */
export async function svaFromUrdf(xml: string): Promise<JsonObject> {
  const robot = await parse(xml);
  const joints = childrenOf(robot, "joint");
  const parentOf = new Map(joints.map((joint) => [linkOf(joint, "child"), attribute(joint, "name")]));
  const links = childrenOf(robot, "link").filter((link) => attribute(link, "name") !== "world").map(
    (link) => {
      const id = attribute(link, "name");
      const geometry = geometryOf(link);
      return { id, parent: parentOf.get(id) ?? "world", ...(geometry ? { geometry } : {}) };
    },
  );
  const placed = joints.map((joint) => convert(joint));
  return {
    name: robot.getAttribute("name") ?? "",
    kinematic_param_type: "SVA",
    links: [...links, ...placed.map(({ link }) => link)],
    joints: placed.flatMap(({ joint }) => joint ? [joint] : []),
  };
}

/** A fixed joint becomes a link; a moving joint becomes a link with its place, and the joint itself. */
function convert(joint: Element): { link: JsonObject; joint?: JsonObject } {
  const [id, parent, type] = [attribute(joint, "name"), linkOf(joint, "parent"), attribute(joint, "type")];
  const place = placeOf(joint);
  if (type === "fixed") return { link: { id, parent, ...place } };
  const moving = type === "continuous" ? "revolute" : type;
  if (moving !== "revolute" && moving !== "prismatic") {
    throw invalid(`joint ${id} is of type ${type}, wanted fixed, revolute, continuous or prismatic`);
  }
  const toPublished = moving === "revolute" ? degrees : (metres: number) => metres * MM_PER_M;
  const limit = childOf(joint, "limit");
  const mimic = childOf(joint, "mimic");
  if (!limit && !mimic && type !== "continuous") throw invalid(`joint ${id} has no limit`);
  const endless = type === "continuous";
  const [x, y, z] = triple(childOf(joint, "axis"), "xyz", [1, 0, 0]);
  const origin = `${id}_origin`;
  return {
    link: { id: origin, parent, ...place },
    joint: {
      id,
      type: moving,
      parent: origin,
      axis: { x, y, z },
      min: endless ? -ENDLESS_DEG : toPublished(numeric(limit, "lower", 0)),
      max: endless ? ENDLESS_DEG : toPublished(numeric(limit, "upper", 0)),
      ...(mimic ? { mimic: mimicOf(mimic, toPublished) } : {}),
    },
  };
}

function mimicOf(mimic: Element, toPublished: (value: number) => number): JsonObject {
  return {
    joint: attribute(mimic, "joint"),
    multiplier: numeric(mimic, "multiplier", 1),
    offset: toPublished(numeric(mimic, "offset", 0)),
  };
}

function placeOf(holder: Element): JsonObject {
  const origin = childOf(holder, "origin");
  const [x, y, z] = triple(origin, "xyz", [0, 0, 0]).map((metres) => metres * MM_PER_M);
  const [roll, pitch, yaw] = triple(origin, "rpy", [0, 0, 0]);
  return { translation: { x, y, z }, orientation: { type: "euler_angles", value: { roll, pitch, yaw } } };
}

function geometryOf(link: Element): JsonObject | undefined {
  const collision = childOf(link, "collision");
  const shape = collision && childOf(collision, "geometry");
  const body = shape && bodyOf(shape);
  return body && { ...body, ...placeOf(collision) };
}

/**
 * A cylinder becomes the capsule around it: the JSON form has no cylinders, and a larger body is the safe
 * side.
 */
function bodyOf(shape: Element): JsonObject | undefined {
  const [box, sphere, cylinder] = ["box", "sphere", "cylinder"].map((tag) => childOf(shape, tag));
  if (box) {
    const [x, y, z] = triple(box, "size", [0, 0, 0]).map((metres) => metres * MM_PER_M);
    return { type: "box", x, y, z };
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

function triple(of: Element | undefined, name: string, fallback: readonly number[]): readonly number[] {
  return numbers(of, name, 3) ?? fallback;
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
