/** Lens parameters as settings, under the published names of intrinsics and distortion. */

import { integer, number, object } from "../../lib/base/schema/schema.ts";
import type { Distortion, Intrinsics } from "../../lib/geometry/image/lens.ts";

export const intrinsicsField = object({
  widthPx: integer("width of the picture in pixels", { min: 0 }).default(0),
  heightPx: integer("height of the picture in pixels", { min: 0 }).default(0),
  fx: number("focal length in pixels, along x").default(0),
  fy: number("focal length in pixels, along y").default(0),
  ppx: number("x of the optical axis in pixels").default(0),
  ppy: number("y of the optical axis in pixels").default(0),
}, "the pinhole model of the lens").with(({ widthPx, heightPx, fx, fy, ppx, ppy }): Intrinsics => (
  { widthPx, heightPx, focalXPx: fx, focalYPx: fy, centerXPx: ppx, centerYPx: ppy }
));

export const distortionField = object({
  rk1: number("first radial coefficient").default(0),
  rk2: number("second radial coefficient").default(0),
  rk3: number("third radial coefficient").default(0),
  tp1: number("first tangential coefficient").default(0),
  tp2: number("second tangential coefficient").default(0),
}, "the lens's deviation from a pinhole, after Brown and Conrady").with((
  { rk1, rk2, rk3, tp1, tp2 },
): Distortion => ({ model: "brown_conrady", parameters: [rk1, rk2, rk3, tp1, tp2] }));
