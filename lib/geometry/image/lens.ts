/**
 * Lenses: the direction in which each pixel of a camera looks.
 *
 * The camera's frame has +X right, +Y down, +Z forward; pixel centres are on whole numbers. A ray is the
 * point at depth 1 that its pixel sees, so a depth times a ray is a place. Pixels that the lens cannot see
 * through (a strong distortion folds the picture's corners) have NaN rays.
 */

import { SvcError } from "../../base/error.ts";
import type { Vec3 } from "../pose.ts";

/** A pinhole lens, in pixels, with the fields of the published message. */
export interface Intrinsics {
  /** Of the pictures that the other values belong to. */
  readonly widthPx: number;
  /** Of the pictures that the other values belong to. */
  readonly heightPx: number;
  /** Focal length along X. */
  readonly focalXPx: number;
  /** Focal length along Y. */
  readonly focalYPx: number;
  /** X of the optical axis. */
  readonly centerXPx: number;
  /** Y of the optical axis. */
  readonly centerYPx: number;
}

/**
 * The deviation of a lens from a pinhole: a published model (see `DISTORTION_MODELS`) and its parameters in
 * order.
 */
export interface Distortion {
  /** The published name of the model. */
  readonly model: string;
  /** In the order of the model. */
  readonly parameters: readonly number[];
}

/** One column for each coordinate, row by row. */
export interface Rays {
  readonly x: Float32Array;
  readonly y: Float32Array;
}

/** Maps the seen direction of a point to its true direction, both at depth 1. */
type Straighten = (x: number, y: number) => readonly [number, number];

const NOWHERE = [NaN, NaN] as const;
const NEWTON_STEPS_MAX = 20;
const CONVERGED = 1e-9;

/**
 * The function that undoes each distortion model.
 * - `brown_conrady` (k1 k2 k3 p1 p2) maps a straight ray to where it is seen; Newton's method finds the
 *   reverse.
 * - `inverse_brown_conrady` (the same five) is that reverse itself.
 * - `kannala_brandt` (k1 k2 k3 k4) is for wide lenses: a polynomial of the angle from the axis.
 */
const MODELS: { readonly [model: string]: (parameters: readonly number[]) => Straighten } = {
  brown_conrady: (parameters) => undoBrownConrady(parameters),
  inverse_brown_conrady: (parameters) => (x, y) => brownConrady(parameters, x, y).at,
  kannala_brandt: (parameters) => undoKannalaBrandt(parameters),
  no_distortion: () => (x, y) => [x, y],
};

export const DISTORTION_MODELS: readonly string[] = Object.keys(MODELS);

/** @throws invalid_argument naming the first impossible number */
export function checkIntrinsics(intrinsics: Intrinsics): void {
  for (const name of ["widthPx", "heightPx", "focalXPx", "focalYPx", "centerXPx", "centerYPx"] as const) {
    const value = intrinsics[name];
    const wanted = name.startsWith("center") ? "a number" : "more than 0";
    if (Number.isFinite(value) && (wanted === "a number" || value > 0)) continue;
    throw new SvcError("invalid_argument", `intrinsics: ${name} is ${value}, wanted ${wanted}`);
  }
}

/**
 * The same lens for pictures of another size.
 *
 * @throws invalid_argument for impossible numbers
 */
export function scaleIntrinsics(intrinsics: Intrinsics, widthPx: number, heightPx: number): Intrinsics {
  checkIntrinsics(intrinsics);
  const [right, down] = [widthPx / intrinsics.widthPx, heightPx / intrinsics.heightPx];
  return {
    widthPx,
    heightPx,
    focalXPx: intrinsics.focalXPx * right,
    focalYPx: intrinsics.focalYPx * down,
    centerXPx: (intrinsics.centerXPx + 0.5) * right - 0.5,
    centerYPx: (intrinsics.centerYPx + 0.5) * down - 0.5,
  };
}

/**
 * The ray of every pixel.
 *
 * @throws invalid_argument for impossible numbers, or a distortion of an unknown model
 */
export function raysOf(intrinsics: Intrinsics, distortion?: Distortion): Rays {
  checkIntrinsics(intrinsics);
  const { widthPx, heightPx, focalXPx, focalYPx, centerXPx, centerYPx } = intrinsics;
  const [x, y] = [new Float32Array(widthPx * heightPx), new Float32Array(widthPx * heightPx)];
  const straighten = straightenerOf(distortion);
  for (let v = 0, n = 0; v < heightPx; v++) {
    const down = (v - centerYPx) / focalYPx;
    for (let u = 0; u < widthPx; u++, n++) {
      const right = (u - centerXPx) / focalXPx;
      if (straighten) [x[n], y[n]] = straighten(right, down);
      else [x[n], y[n]] = [right, down];
      // A ray that is not finite sees nothing, either.
      if (!Number.isFinite((x[n] ?? NaN) + (y[n] ?? NaN))) [x[n], y[n]] = NOWHERE;
    }
  }

  return { x, y };
}

/** The pixel that sees a point of the camera's frame; `undefined` behind the camera or outside the image. */
export function projectPoint(intrinsics: Intrinsics, point: Vec3): { u: number; v: number } | undefined {
  if (!(point.z > 0)) return undefined;
  const u = point.x / point.z * intrinsics.focalXPx + intrinsics.centerXPx;
  const v = point.y / point.z * intrinsics.focalYPx + intrinsics.centerYPx;
  const inside = u >= -0.5 && v >= -0.5 && u < intrinsics.widthPx - 0.5 && v < intrinsics.heightPx - 0.5;
  return inside ? { u, v } : undefined;
}

/** `undefined` if there is no distortion to undo. */
function straightenerOf(distortion?: Distortion): Straighten | undefined {
  if (!distortion || distortion.parameters.every((parameter) => parameter === 0)) return undefined;
  const { model, parameters } = distortion;
  const create = Object.hasOwn(MODELS, model) ? MODELS[model] : undefined;
  if (!create) {
    const wanted = `one of ${DISTORTION_MODELS.join(", ")}`;
    throw new SvcError("invalid_argument", `distortion: found the model "${model}", wanted ${wanted}`);
  }
  const wrong = parameters.find((parameter) => !Number.isFinite(parameter));
  if (wrong === undefined) return create(parameters);
  throw new SvcError("invalid_argument", `distortion: found the parameter ${wrong}, wanted a number`);
}

/** The distorted point, and the derivative of each of its coordinates (the Jacobian is symmetric). */
function brownConrady([k1 = 0, k2 = 0, k3 = 0, p1 = 0, p2 = 0]: readonly number[], x: number, y: number) {
  const r2 = x * x + y * y;
  const radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3));
  const slope = k1 + r2 * (2 * k2 + r2 * 3 * k3);
  const at = [
    x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
    y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
  ] as const;
  return {
    at,
    xx: radial + 2 * x * x * slope + 2 * p1 * y + 6 * p2 * x,
    xy: 2 * x * y * slope + 2 * p1 * x + 2 * p2 * y,
    yy: radial + 2 * y * y * slope + 6 * p1 * y + 2 * p2 * x,
  };
}

function undoBrownConrady(parameters: readonly number[]): Straighten {
  return (seenX, seenY) => {
    let [x, y] = [seenX, seenY];
    for (let step = 0; step < NEWTON_STEPS_MAX; step++) {
      const { at, xx, xy, yy } = brownConrady(parameters, x, y);
      const [missX, missY] = [at[0] - seenX, at[1] - seenY];
      const area = xx * yy - xy * xy;
      // Where the picture is folded over, a pixel sees no single point.
      if (!(area > 0)) return NOWHERE;
      if (Math.abs(missX) + Math.abs(missY) < CONVERGED) return [x, y];
      x -= (yy * missX - xy * missY) / area;
      y -= (xx * missY - xy * missX) / area;
    }
    return NOWHERE;
  };
}

function undoKannalaBrandt([k1 = 0, k2 = 0, k3 = 0, k4 = 0]: readonly number[]): Straighten {
  return (seenX, seenY) => {
    const seen = Math.hypot(seenX, seenY);
    if (seen === 0) return [0, 0];

    let angle = seen;
    for (let step = 0; step < NEWTON_STEPS_MAX; step++) {
      const a2 = angle * angle;
      const miss = angle * (1 + a2 * (k1 + a2 * (k2 + a2 * (k3 + a2 * k4)))) - seen;
      const slope = 1 + a2 * (3 * k1 + a2 * (5 * k2 + a2 * (7 * k3 + a2 * 9 * k4)));
      if (!(slope > 0)) return NOWHERE;
      if (Math.abs(miss) < CONVERGED) {
        const longer = angle < Math.PI / 2 ? Math.tan(angle) / seen : NaN;
        return [seenX * longer, seenY * longer];
      }
      angle -= miss / slope;
    }

    return NOWHERE;
  };
}
