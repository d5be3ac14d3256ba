/**
 * The normal equations of a least squares problem over x, y and yaw (t): the matrix A and the gradient b of
 * 1/2 * step^T * A * step + b^T * step, which matchers sum up point by point.
 */

import type { Pose2d } from "../pose2d.ts";
import type { Symmetric } from "./symmetric.ts";

export class NormalEquations implements Symmetric {
  xx = 0;
  xy = 0;
  xt = 0;
  yy = 0;
  yt = 0;
  tt = 0;
  /** The gradient. */
  x = 0;
  y = 0;
  t = 0;

  clear(): void {
    this.xx =
      this.xy =
      this.xt =
      this.yy =
      this.yt =
      this.tt =
        0;
    this.x = this.y = this.t = 0;
  }

  scale(factor: number): void {
    this.xx *= factor;
    this.xy *= factor;
    this.xt *= factor;
    this.yy *= factor;
    this.yt *= factor;
    this.tt *= factor;
    this.x *= factor;
    this.y *= factor;
    this.t *= factor;
  }

  /** A copy of the matrix. */
  matrix(): Symmetric {
    const { xx, xy, xt, yy, yt, tt } = this;
    return { xx, xy, xt, yy, yt, tt };
  }

  /** Solves (A + lambda * diag(A)) * step = -b; undefined if the matrix is not positive. */
  solve(lambda: number): Pose2d | undefined {
    const grow = 1 + lambda;
    const l00 = Math.sqrt(this.xx * grow);
    const l10 = this.xy / l00, l20 = this.xt / l00;
    const l11 = Math.sqrt(this.yy * grow - l10 * l10);
    const l21 = (this.yt - l20 * l10) / l11;
    const l22 = Math.sqrt(this.tt * grow - l20 * l20 - l21 * l21);
    if (!(l00 > 0 && l11 > 0 && l22 > 0)) return undefined;
    const y0 = -this.x / l00, y1 = (-this.y - l10 * y0) / l11;
    const y2 = (-this.t - l20 * y0 - l21 * y1) / l22;
    const yaw = y2 / l22, y = (y1 - l21 * yaw) / l11;
    return { x: (y0 - l10 * y - l20 * yaw) / l00, y, yaw };
  }
}
