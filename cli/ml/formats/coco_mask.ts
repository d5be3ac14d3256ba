/**
 * The boxes around COCO's masks: outlines as lists of coordinates, or run lengths, plain or as text. Pure.
 *
 * Source of the format of run lengths: the public description of the COCO API (columns from top to bottom, the first run
 * is background; a text holds groups of 5 bits in characters from "0" on, each from the third run on relative to the run two before).
 */

import { isObject } from "../../../lib/base/schema/schema.ts";
import type { BoxSides } from "./folder.ts";

const RUNS_MAX = 1_000_000;

/** In pixels; `undefined` if the mask is unreadable or empty. */
export function maskSides(segmentation: unknown): BoxSides | undefined {
  return Array.isArray(segmentation) ? outlineSides(segmentation) : runSides(segmentation);
}

function outlineSides(outlines: readonly unknown[]): BoxSides | undefined {
  const lists = outlines.every((one) => typeof one === "number") ? [outlines] : outlines;
  let [xMin, yMin, xMax, yMax] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const points of lists) {
    if (!Array.isArray(points) || points.length < 6 || points.length % 2 !== 0) return undefined;
    for (let at = 0; at < points.length; at += 2) {
      const [x, y] = [points[at], points[at + 1]];
      if (typeof x !== "number" || typeof y !== "number") return undefined;
      [xMin, yMin, xMax, yMax] = [Math.min(xMin, x), Math.min(yMin, y), Math.max(xMax, x), Math.max(yMax, y)];
    }
  }
  return xMin <= xMax ? { xMin, yMin, xMax, yMax } : undefined;
}

function runSides(mask: unknown): BoxSides | undefined {
  const { size, counts } = isObject(mask) ? mask : {};
  const height = Array.isArray(size) ? size[0] : undefined;
  const runs = typeof counts === "string" ? runsIn(counts) : counts;
  if (!Number.isInteger(height) || height < 1 || !Array.isArray(runs) || runs.length > RUNS_MAX) {
    return undefined;
  }

  let [xMin, yMin, xMax, yMax] = [Infinity, Infinity, -Infinity, -Infinity];
  let place = 0;
  for (const [index, run] of runs.entries()) {
    if (!Number.isInteger(run) || run < 0) return undefined;
    const end = place + run;
    if (index % 2 === 1 && run > 0) {
      const [first, last] = [Math.floor(place / height), Math.floor((end - 1) / height)];
      const isWhole = first !== last;
      xMin = Math.min(xMin, first);
      xMax = Math.max(xMax, last + 1);
      yMin = Math.min(yMin, isWhole ? 0 : place % height);
      yMax = Math.max(yMax, isWhole ? height : (end - 1) % height + 1);
    }
    place = end;
  }
  return xMin < xMax ? { xMin, yMin, xMax, yMax } : undefined;
}

function runsIn(text: string): number[] | undefined {
  const runs: number[] = [];
  for (let at = 0; at < text.length;) {
    let [value, shift, more] = [0, 0, true];
    while (more) {
      const bits = text.charCodeAt(at++) - 48;
      if (!(bits >= 0 && bits < 64) || shift > 30 || runs.length >= RUNS_MAX) return undefined;
      value |= (bits & 0x1f) << shift;
      shift += 5;
      more = (bits & 0x20) !== 0;
      if (!more && (bits & 0x10) !== 0 && shift < 32) value |= -1 << shift;
    }
    runs.push(runs.length > 2 ? value + (runs.at(-2) ?? 0) : value);
  }
  return runs;
}
