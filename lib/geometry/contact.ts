/**
 * Contact: decides whether two bodies are closer to each other than allowed.
 *
 * A body is the set of points within a radius of the hull of a few corners: a sphere has one corner, a
 * capsule two, a box eight and no radius. So one question, the distance between two hulls, answers for all
 * shapes.
 */

import { SvcError } from "../base/error.ts";
import type { Geometry, GeometryShape } from "./geometry.ts";
import {
  add,
  fromPose,
  length,
  ORIGIN,
  type RigidTransform,
  scale,
  subtract,
  transformPoint,
  type Vec3,
} from "./pose.ts";

export interface Body {
  readonly corners: readonly Vec3[];
  readonly radiusMm: number;
  /** No point of the body is further from its centre than its extent. */
  readonly center: Vec3;
  readonly extentMm: number;
}

/** @throws unimplemented for meshes and point clouds */
export function bodyOf({ center, label, shape }: Geometry): Body {
  const { corners, radiusMm } = outline(shape, label);
  const place = fromPose(center);
  return {
    corners: corners.map((corner) => transformPoint(place, corner)),
    radiusMm,
    center: place.translation,
    extentMm: Math.max(...corners.map(length)) + radiusMm,
  };
}

function outline(shape: GeometryShape, label: string): Pick<Body, "corners" | "radiusMm"> {
  switch (shape.type) {
    case "sphere":
      return { corners: [ORIGIN], radiusMm: shape.radiusMm };
    case "capsule": {
      const z = Math.max(0, shape.lengthMm / 2 - shape.radiusMm);
      return { corners: [{ x: 0, y: 0, z }, { x: 0, y: 0, z: -z }], radiusMm: shape.radiusMm };
    }
    case "box": {
      const { x, y, z } = scale(shape.dimsMm, 0.5);
      const corners = [-x, x].flatMap((x) => [-y, y].flatMap((y) => [-z, z].map((z) => ({ x, y, z }))));
      return { corners, radiusMm: 0 };
    }
    default: {
      const found = `geometry "${label}" is a ${shape.type.replace("_", " ")}`;
      throw new SvcError(
        "unimplemented",
        `${found}, wanted a box, sphere or capsule`,
      );
    }
  }
}

export function movedBody({ corners, radiusMm, center, extentMm }: Body, by: RigidTransform): Body {
  return {
    corners: corners.map((corner) => transformPoint(by, corner)),
    radiusMm,
    center: transformPoint(by, center),
    extentMm,
  };
}

/**
 * Whether the gap between two bodies is less than `bufferMm`; touching and overlapping bodies are always in
 * contact.
 */
export function inContact(a: Body, b: Body, bufferMm = 0): boolean {
  const apart = length(subtract(a.center, b.center));
  if (apart > a.extentMm + b.extentMm + bufferMm) return false;
  return hullsWithin(a.radiusMm + b.radiusMm + bufferMm, a.corners, b.corners);
}

const MAX_STEPS = 60;
/** Hulls within this distance touch. */
const TOUCH_MM = 1e-6;
/** The search ends when a step would gain less than this share. */
const PROGRESS = 1e-9;

/**
 * Whether the distance between two hulls is at most `limitMm`. All differences between their points form a
 * hull too, whose distance to the origin is the wanted distance. The search approaches it through the corners
 * furthest towards the origin. It ends when the bounds decide: the distance is at most that of the nearest
 * point so far, and at least that of the plane through the next corner.
 */
function hullsWithin(limitMm: number, a: readonly Vec3[], b: readonly Vec3[]): boolean {
  let simplex: readonly Vec3[] = [];
  let nearest = subtract(a[0] ?? ORIGIN, b[0] ?? ORIGIN);
  const enoughMm = Math.max(limitMm, TOUCH_MM);
  for (let step = 0; step < MAX_STEPS; step++) {
    const distanceMm = length(nearest);
    if (distanceMm <= enoughMm) return true;
    const next = subtract(furthest(a, scale(nearest, -1)), furthest(b, nearest));
    const leastMm = dot(nearest, next) / distanceMm;
    if (leastMm > enoughMm || distanceMm - leastMm <= PROGRESS * distanceMm) return false;
    ({ point: nearest, simplex } = nearestOf([...simplex, next]));
    if (simplex.length === 4) return true;
  }
  return true;
}

function furthest(corners: readonly Vec3[], direction: Vec3): Vec3 {
  let [best, most] = [corners[0] ?? ORIGIN, -Infinity];
  for (const corner of corners) {
    const reach = dot(corner, direction);
    if (reach > most) [best, most] = [corner, reach];
  }
  return best;
}

/** The point of a simplex nearest to the origin, and the smallest face of the simplex that contains it. */
function nearestOf(corners: readonly Vec3[]): { point: Vec3; simplex: readonly Vec3[] } {
  let best: { point: Vec3; simplex: readonly Vec3[]; squared: number } | undefined;
  for (let subset = 1; subset < 1 << corners.length; subset++) {
    const simplex = corners.filter((_, index) => subset & (1 << index));
    const point = nearestWithin(simplex);
    if (!point) continue;
    const squared = dot(point, point);
    if (!best || squared < best.squared) best = { point, simplex, squared };
  }
  return best!;
}

/** The point of the plane through all corners that is nearest to the origin, if it lies between them. */
function nearestWithin([first, ...others]: readonly Vec3[]): Vec3 | undefined {
  if (!first) return undefined;
  const edges = others.map((corner) => subtract(corner, first));
  const weights = solved(
    edges.map((edge) => edges.map((other) => dot(edge, other))),
    edges.map((edge) => -dot(edge, first)),
  );
  if (!weights || weights.some((weight) => weight < 0)) return undefined;
  if (weights.reduce((sum, weight) => sum + weight, 0) > 1) return undefined;
  return edges.reduce((point, edge, index) => add(point, scale(edge, weights[index] ?? 0)), first);
}

/** Solves up to three equations by Cramer's rule; `undefined` if the corners are not independent. */
function solved(rows: readonly (readonly number[])[], right: readonly number[]): number[] | undefined {
  const whole = determinant(rows);
  const size = rows.reduce((product, row, index) => product * (row[index] ?? 0), 1);
  if (Math.abs(whole) <= 1e-12 * size) return undefined;
  return rows.map((_, column) =>
    determinant(rows.map((row, index) => row.with(column, right[index] ?? 0))) / whole
  );
}

function determinant([first, ...others]: readonly (readonly number[])[]): number {
  if (!first) return 1;
  return first.reduce((sum, value, column) => {
    const minor = others.map((row) => row.toSpliced(column, 1));
    return sum + (column % 2 === 0 ? 1 : -1) * value * determinant(minor);
  }, 0);
}

function dot(a: Vec3, b: Vec3): number {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
