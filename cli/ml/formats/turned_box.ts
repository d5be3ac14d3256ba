/**
 * Boxes that tools store unturned, beside an angle: CVAT in COCO and Pascal VOC, and roLabelImg. Pure.
 */

import type { BoxSides } from "./folder.ts";

const DEGREES = Math.PI / 180;

/**
 * The upright box, in pixels, around a box that is turned about its middle; the box itself if the angle is no number. An
 * angle and its opposite have the same box around them.
 */
export function aroundTurned(box: BoxSides, degrees: number): BoxSides {
  if (!Number.isFinite(degrees) || degrees % 180 === 0) return box;
  const [sine, cosine] = [Math.abs(Math.sin(degrees * DEGREES)), Math.abs(Math.cos(degrees * DEGREES))];
  const [middleX, middleY] = [(box.xMin + box.xMax) / 2, (box.yMin + box.yMax) / 2];
  const [width, height] = [Math.abs(box.xMax - box.xMin), Math.abs(box.yMax - box.yMin)];
  const halfWidth = (width * cosine + height * sine) / 2, halfHeight = (width * sine + height * cosine) / 2;
  return {
    xMin: middleX - halfWidth,
    yMin: middleY - halfHeight,
    xMax: middleX + halfWidth,
    yMax: middleY + halfHeight,
  };
}

/** An angle as tools write it, as a number or a text; `NaN` if there is none. */
export function angleIn(value: unknown): number {
  if (typeof value === "number") return value;
  return typeof value === "string" && value.trim() !== "" ? Number(value) : NaN;
}
