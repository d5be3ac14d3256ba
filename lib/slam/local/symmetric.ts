/**
 * Symmetric 3 x 3 matrices over x, y and yaw (t), each number by its name: the covariance of a pose, or the information
 * about it, which is the inverse of a covariance.
 */

import type { Pose2d } from "../pose2d.ts";

export interface Symmetric {
  readonly xx: number;
  readonly xy: number;
  readonly xt: number;
  readonly yy: number;
  readonly yt: number;
  readonly tt: number;
}

type Row = readonly [x: number, y: number, yaw: number];
/** A matrix over x, y and yaw, row by row. */
export type Matrix = readonly [x: Row, y: Row, yaw: Row];

export const ZERO: Symmetric = { xx: 0, xy: 0, xt: 0, yy: 0, yt: 0, tt: 0 };
export const UNIT: Symmetric = { xx: 1, xy: 0, xt: 0, yy: 1, yt: 0, tt: 1 };
export const ZERO_MATRIX: Matrix = rowsOf(ZERO);
export const UNIT_MATRIX: Matrix = rowsOf(UNIT);

export function scaled({ xx, xy, xt, yy, yt, tt }: Symmetric, factor: number): Symmetric {
  return {
    xx: xx * factor,
    xy: xy * factor,
    xt: xt * factor,
    yy: yy * factor,
    yt: yt * factor,
    tt: tt * factor,
  };
}

/** matrix + share * vector * vector^T. */
export function widenedBy(matrix: Symmetric, { x, y, yaw: t }: Pose2d, share: number): Symmetric {
  return {
    xx: matrix.xx + share * (x * x),
    xy: matrix.xy + share * (x * y),
    xt: matrix.xt + share * (x * t),
    yy: matrix.yy + share * (y * y),
    yt: matrix.yt + share * (y * t),
    tt: matrix.tt + share * (t * t),
  };
}

/** vector^T * matrix * vector. */
export function quadratic(
  { xx, xy, xt, yy, yt, tt }: Symmetric,
  { x, y, yaw: t }: Pose2d,
): number {
  return xx * x * x + yy * y * y + tt * t * t + 2 * (xy * x * y + xt * x * t + yt * y * t);
}

/** Undefined unless the matrix is positive. */
export function inverse({ xx, xy, xt, yy, yt, tt }: Symmetric): Symmetric | undefined {
  const a = yy * tt - yt * yt, b = xt * yt - xy * tt, c = xy * yt - xt * yy;
  const determinant = xx * a + xy * b + xt * c;
  if (!(determinant > 1e-30 && xx > 0 && yy > 0 && tt > 0)) return undefined;
  const s = 1 / determinant;
  return {
    xx: a * s,
    xy: b * s,
    xt: c * s,
    yy: (xx * tt - xt * xt) * s,
    yt: (xy * xt - xx * yt) * s,
    tt: (xx * yy - xy * xy) * s,
  };
}

/** The covariance P after a measurement with the information H: (P^-1 + H)^-1 = (1 + P H)^-1 P, without the inverse of P. */
export function updated(P: Symmetric, H: Symmetric): Symmetric {
  const p = rowsOf(P);
  const [[xx, xy, xt], [yx, yy, yt], [tx, ty, tt]] = plusProduct(
    0,
    inverse3(plusProduct(1, p, rowsOf(H))),
    p,
  );
  return { xx, xy: (xy + yx) / 2, xt: (xt + tx) / 2, yy, yt: (yt + ty) / 2, tt };
}

/** The share of an error that an update by H leaves, if P is the covariance after it: 1 - P H. */
export function leftAfter(P: Symmetric, H: Symmetric): Matrix {
  return plusProduct(1, rowsOf(scaled(P, -1)), rowsOf(H));
}

/** P H vector. */
export function timesBoth(P: Symmetric, H: Symmetric, vector: Pose2d): Pose2d {
  return times(rowsOf(P), times(rowsOf(H), vector));
}

/** matrix * vector. */
export function times([onX, onY, onYaw]: Matrix, { x, y, yaw }: Pose2d): Pose2d {
  return {
    x: onX[0] * x + onX[1] * y + onX[2] * yaw,
    y: onY[0] * x + onY[1] * y + onY[2] * yaw,
    yaw: onYaw[0] * x + onYaw[1] * y + onYaw[2] * yaw,
  };
}

function rowsOf({ xx, xy, xt, yy, yt, tt }: Symmetric): Matrix {
  return [[xx, xy, xt], [xy, yy, yt], [xt, yt, tt]];
}

/** `diagonal` times the unit matrix, plus a * b. */
function plusProduct(diagonal: number, [a, b, c]: Matrix, [d, e, f]: Matrix): Matrix {
  const row = ([x, y, t]: Row, onX: number, onY: number, onYaw: number): Row => [
    onX + x * d[0] + y * e[0] + t * f[0],
    onY + x * d[1] + y * e[1] + t * f[1],
    onYaw + x * d[2] + y * e[2] + t * f[2],
  ];
  return [row(a, diagonal, 0, 0), row(b, 0, diagonal, 0), row(c, 0, 0, diagonal)];
}

function inverse3([[a, b, c], [d, e, f], [g, h, i]]: Matrix): Matrix {
  const A = e * i - f * h, B = f * g - d * i, C = d * h - e * g;
  const scale = 1 / (a * A + b * B + c * C);
  return [
    [A * scale, (c * h - b * i) * scale, (b * f - c * e) * scale],
    [B * scale, (a * i - c * g) * scale, (c * d - a * f) * scale],
    [C * scale, (b * g - a * h) * scale, (a * e - b * d) * scale],
  ];
}
