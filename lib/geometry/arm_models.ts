/**
 * Kinematics of well-known arms, and of the simple gripper and gantry, for the drivers that imitate them.
 *
 * Each arm is a chain of joints and straight links with its maker's lengths and limits. The bodies are
 * capsules of one thickness along the links, exact enough to look at and to avoid.
 */

import { SvcError } from "../base/error.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import { suggest } from "../base/schema/suggest.ts";
import { decodeSva, type KinematicModel } from "./kinematics.ts";

type Triple = readonly [number, number, number];

/** A joint, and the link from it to the next joint (millimetres in the joint's frame). */
interface Segment {
  readonly joint: string;
  readonly axis: Triple;
  /** Degrees. */
  readonly range: readonly [min: number, max: number];
  readonly link: string;
  readonly to: Triple;
}

interface Chain {
  /** The link from the base to the first joint. */
  readonly base: Triple;
  readonly segments: readonly Segment[];
  /** The direction of the end as seen from the last joint: an orientation vector in degrees. */
  readonly tool?: { readonly x: number; readonly y: number; readonly z: number; readonly th: number };
  readonly radiusMm: number;
}

const X: Triple = [1, 0, 0], Y: Triple = [0, 1, 0], Z: Triple = [0, 0, 1];
const MINUS_Y: Triple = [0, -1, 0], MINUS_Z: Triple = [0, 0, -1];
const TURN = [-360, 360] as const;
const TURN_359 = [-359, 359] as const;
const AXES = [X, Y, Z];

const BUILDERS: { readonly [armModel: string]: () => JsonObject } = {
  fake: () => ({
    name: "fake",
    links: [{ id: "base_link", parent: "world", translation: { x: 500, y: 0, z: 300 } }],
    joints: [
      {
        id: "shoulder_pan_joint",
        type: "revolute",
        parent: "base_link",
        axis: vector(Z),
        min: -360,
        max: 360,
      },
    ],
  }),
  ur5e: () => chain("ur5e", universalRobot(162.5, 425, 392.2, 133.3, 99.7, 99.6)),
  ur7e: () => chain("ur7e", universalRobot(162.5, 425, 392.2, 133.3, 99.7, 99.6)),
  ur20: () => chain("ur20", universalRobot(236.3, 862, 728.7, 201, 159.3, 154.3)),
  xarm6: () => chain("xarm6", xarm6()),
  xarm7: () => chain("xarm7", xarm7()),
  lite6: () => chain("lite6", lite6()),
  dofbot,
  "yahboom-dofbot": dofbot,
};

export const ARM_MODEL_NAMES: readonly string[] = Object.keys(BUILDERS);

/**
 * The kinematics of a known arm; without a name, an arm with a single joint.
 *
 * @throws invalid_argument naming the known arms
 */
export function armModel(armModelName = "fake", componentName?: string): KinematicModel {
  const wanted = armModelName.toLowerCase();
  const build = Object.hasOwn(BUILDERS, wanted) ? BUILDERS[wanted] : undefined;
  if (build) return decodeSva(build(), componentName);

  const likely = suggest(wanted, ARM_MODEL_NAMES);
  const known = `${ARM_MODEL_NAMES.join(", ")}${likely ? `; did you mean "${likely}"?` : ""}`;
  throw new SvcError("invalid_argument", `unsupported arm model ${armModelName}, wanted one of ${known}`);
}

/** A gripper: one link of 200 mm from its flange to the point between its fingers. */
export function gripperModel(componentName?: string): KinematicModel {
  const body = { type: "box", x: 120, y: 170, z: 200, translation: { x: 0, y: 0, z: 100 } };
  const link = { id: "base_link", parent: "world", translation: { x: 0, y: 0, z: 200 }, geometry: body };
  return decodeSva(
    { name: "gripper", kinematic_param_type: "SVA", links: [link], joints: [] },
    componentName,
  );
}

/**
 * A gantry with one axis for each given length, along X, Y and Z in turn.
 *
 * @throws invalid_argument for no length, more than three, or a negative one
 */
export function gantryModel(componentName?: string, lengthsMm: readonly number[] = [100]): KinematicModel {
  if (lengthsMm.length < 1 || lengthsMm.length > AXES.length) {
    throw new SvcError(
      "invalid_argument",
      `a gantry of ${lengthsMm.length} axes, wanted 1 to ${AXES.length}`,
    );
  }

  const joints = AXES.slice(0, lengthsMm.length).map((axis, index) => ({
    id: `axis_${index}`,
    type: "prismatic",
    parent: index === 0 ? "base" : `axis_${index - 1}`,
    axis: vector(axis),
    min: 0,
    max: lengthsMm[index] ?? 0,
  }));
  const body = { type: "box", x: 50, y: 50, z: 10, translation: { x: 0, y: 0, z: 5 } };
  const carriage = { id: "carriage", parent: `axis_${lengthsMm.length - 1}`, geometry: body };
  const links = [{ id: "base", parent: "world" }, carriage];
  return decodeSva({ name: "gantry", kinematic_param_type: "SVA", links, joints }, componentName);
}

/** The e-series arms and their heavier relatives differ only in lengths. */
function universalRobot(d1: number, a2: number, a3: number, d4: number, d5: number, d6: number): Chain {
  return {
    base: [0, 0, d1],
    segments: [
      segment("shoulder_pan_joint", Z, TURN, "shoulder_link", [0, 0, 0]),
      segment("shoulder_lift_joint", MINUS_Y, TURN, "upper_arm_link", [-a2, 0, 0]),
      segment("elbow_joint", MINUS_Y, [-180, 180], "forearm_link", [-a3, 0, 0]),
      segment("wrist_1_joint", MINUS_Y, TURN, "wrist_1_link", [0, -d4, 0]),
      segment("wrist_2_joint", MINUS_Z, TURN, "wrist_2_link", [0, 0, -d5]),
      segment("wrist_3_joint", MINUS_Y, TURN, "ee_link", [0, -d6, 0]),
    ],
    tool: { x: 0, y: -1, z: 0, th: 90 },
    radiusMm: 50,
  };
}

function xarm6(): Chain {
  return {
    base: [0, 0, 0],
    segments: [
      segment("waist", Z, TURN_359, "base_top", [0, 0, 267]),
      segment("shoulder", Y, [-118, 120], "upper_arm", [53.5, 0, 284.5]),
      segment("elbow", Y, [-225, 10], "upper_forearm", [77.5, 0, -172.5]),
      ...xarmForearm(),
    ],
    tool: { x: 0, y: 0, z: -1, th: 0 },
    radiusMm: 50,
  };
}

function xarm7(): Chain {
  return {
    base: [0, 0, 0],
    segments: [
      segment("waist", Z, TURN_359, "base_top", [0, 0, 267]),
      segment("shoulder", Y, [-117.5, 120], "base_arm_link", [0, 0, 200]),
      segment("upper_arm_rot", Z, TURN_359, "upper_arm", [52.5, 0, 93]),
      segment("elbow", MINUS_Y, [-11, 225], "upper_forearm", [77.5, 0, -172.5]),
      ...xarmForearm(),
    ],
    tool: { x: 0, y: 0, z: -1, th: 0 },
    radiusMm: 50,
  };
}

function xarmForearm(): Segment[] {
  return [
    segment("forearm_rot", MINUS_Z, TURN_359, "lower_forearm", [0, 0, -170]),
    segment("wrist", Y, [-97, 179], "wrist_link", [76, 0, -97]),
    segment("gripper_rot", MINUS_Z, TURN_359, "gripper_mount", [0, 0, 0]),
  ];
}

function lite6(): Chain {
  return {
    base: [0, 0, 0],
    segments: [
      segment("waist", Z, TURN_359, "base_top", [0, 0, 243.3]),
      segment("shoulder", Y, [-149, 149], "upper_arm", [0, 0, 200]),
      segment("elbow", MINUS_Y, [-3, 299], "upper_forearm", [87, 0, 0]),
      segment("forearm_rot", MINUS_Z, TURN_359, "lower_forearm", [0, 0, -227.6]),
      segment("wrist", Y, [-124, 124], "wrist_link", [0, 0, -61.5]),
      segment("gripper_rot", MINUS_Z, TURN_359, "gripper_mount", [0, 0, 0]),
    ],
    tool: { x: 0, y: 0, z: -1, th: 0 },
    radiusMm: 40,
  };
}

function dofbot(): JsonObject {
  const row = (id: string, parent: string, a: number, d: number, alpha: number) => {
    return { id, parent, a, d, alpha, min: -180, max: 180 };
  };
  return {
    name: "dofbot",
    kinematic_param_type: "DH",
    dhParams: [
      row("j1", "world", 0, 115, -90),
      row("j2", "j1", 82.85, 0, 0),
      row("j3", "j2", 82.85, 0, 0),
      row("j4", "j3", 82.85, 0, 0),
      row("j5", "j4", 0, 0, 90),
    ],
  };
}

function segment(joint: string, axis: Triple, range: Segment["range"], link: string, to: Triple): Segment {
  return { joint, axis, range, link, to };
}

function chain(name: string, { base, segments, tool, radiusMm }: Chain): JsonObject {
  const links: JsonObject[] = [{ id: "base", parent: "world", ...body(base, radiusMm) }];
  const joints: JsonObject[] = [];
  for (const [index, { joint, axis, range: [min, max], link, to }] of segments.entries()) {
    const parent = segments[index - 1]?.link ?? "base";
    const end = index === segments.length - 1 && tool
      ? { type: "ov_degrees", value: { ...tool } }
      : undefined;
    joints.push({ id: joint, type: "revolute", parent, axis: vector(axis), min, max });
    links.push({ id: link, parent: joint, ...body(to, radiusMm), ...(end ? { orientation: end } : {}) });
  }
  return { name, kinematic_param_type: "SVA", links, joints };
}

/** A link's far end and the capsule along it; a link without length has no body. */
function body(to: Triple, radiusMm: number): JsonObject {
  const [x, y, z] = to;
  const translation = vector(to);
  const lengthMm = Math.hypot(x, y, z);
  if (lengthMm === 0) return { translation };
  const orientation = { type: "ov_degrees", value: { ...translation, th: 0 } };
  const middle = { x: x / 2, y: y / 2, z: z / 2 };
  const capsule = { type: "capsule", r: radiusMm, l: lengthMm + 2 * radiusMm };
  return { translation, geometry: { ...capsule, translation: middle, orientation } };
}

function vector([x, y, z]: Triple): { x: number; y: number; z: number } {
  return { x, y, z };
}
