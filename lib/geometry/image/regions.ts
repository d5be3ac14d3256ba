/** Regions of a picture: groups of marked pixels that touch each other by a side. */

import { assert } from "../../base/error.ts";

/** A region's size and bounding box in pixels; the right and lower edges are after its last pixels. */
export interface Region {
  readonly pixels: number;
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

/** The regions of the pixels (row by row) that are not 0, in the order of their first pixels. */
export function regionsOf(mask: Uint8Array, width: number): Region[] {
  assert(width > 0 && mask.length % width === 0, `a mask of ${mask.length} pixels in rows of ${width}`);
  const seen = new Uint8Array(mask.length);
  const reached = new Int32Array(mask.length);
  const regions: Region[] = [];
  for (let first = 0; first < mask.length; first++) {
    if (mask[first] === 0 || seen[first] === 1) continue;
    let [xMin, xMax, last] = [first % width, first % width, first];
    let count = 1;
    seen[first] = 1;
    reached[0] = first;

    for (let n = 0; n < count; n++) {
      const pixel = reached[n] ?? 0;
      const x = pixel % width;
      if (x < xMin) xMin = x;
      if (x > xMax) xMax = x;
      if (pixel > last) last = pixel;
      const reach = (next: number) => {
        if (mask[next] === 0 || seen[next] === 1) return;
        seen[next] = 1;
        reached[count++] = next;
      };
      if (x > 0) reach(pixel - 1);
      if (x < width - 1) reach(pixel + 1);
      if (pixel >= width) reach(pixel - width);
      if (pixel < mask.length - width) reach(pixel + width);
    }

    const [yMin, yMax] = [Math.floor(first / width), Math.floor(last / width) + 1];
    regions.push({ pixels: count, xMin, yMin, xMax: xMax + 1, yMax });
  }

  return regions;
}
