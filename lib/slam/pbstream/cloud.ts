/**
 * Point clouds in the packed form of map files: coordinates in whole millimetres, grouped by blocks of 1024 mm. One
 * number holds the ten low bits of each coordinate of a point.
 */

import type { CloudMessage } from "./messages.ts";

const BLOCK_BITS = 10;
const BLOCK_MASK = (1 << BLOCK_BITS) - 1;
const MM_PER_M = 1000;
/** Limit of a coordinate: 2^23 mm, beyond the range of any sensor. */
const MM_MAX = 1 << 23;
/** The numbers before the points of a block: the count, and the three indices of the block. */
const BLOCK_HEAD = 4;

/** The points (x, y, z, x, …) in metres, or a text that says what is wrong with the message. */
export function unpackCloud({ numPoints, pointData }: CloudMessage): Float32Array | string {
  // Each point takes at least one number, so a larger count is wrong.
  if (numPoints < 0 || numPoints > pointData.length) {
    return `a cloud of ${numPoints} points in ${pointData.length} numbers`;
  }
  const points = new Float32Array(3 * numPoints);
  let to = 0;
  for (let at = 0; at < pointData.length;) {
    const count = pointData[at] ?? 0, end = at + BLOCK_HEAD + count;
    if (end < at + BLOCK_HEAD || end > pointData.length) {
      return `a block of ${count} points where ${pointData.length - at} numbers are left`;
    }
    if (to + 3 * count > points.length) return `a cloud of more than its ${numPoints} points`;
    const [x = 0, y = 0, z = 0] = pointData.subarray(at + 1, at + BLOCK_HEAD);
    if (Math.max(Math.abs(x), Math.abs(y), Math.abs(z)) > MM_MAX >> BLOCK_BITS) {
      return `a block of points at ${x}, ${y}, ${z}`;
    }
    for (at += BLOCK_HEAD; at < end; at++) {
      const point = pointData[at] ?? 0;
      points[to++] = ((x << BLOCK_BITS) + (point & BLOCK_MASK)) / MM_PER_M;
      points[to++] = ((y << BLOCK_BITS) + (point >> BLOCK_BITS & BLOCK_MASK)) / MM_PER_M;
      points[to++] = ((z << BLOCK_BITS) + (point >> 2 * BLOCK_BITS & BLOCK_MASK)) / MM_PER_M;
    }
  }
  if (to < points.length) return `a cloud of ${to / 3} points, said to have ${numPoints}`;
  return points;
}

/** Packs points (x, y, z, x, …); those that are not finite or too far away are left out. */
export function packCloud(points: Float32Array): CloudMessage {
  const blocks = new Map<number, number[]>();
  let numPoints = 0;
  for (let n = 0; n + 2 < points.length; n += 3) {
    const x = millimetres(points[n] ?? NaN), y = millimetres(points[n + 1] ?? NaN);
    const z = millimetres(points[n + 2] ?? NaN);
    if (!(Math.max(Math.abs(x), Math.abs(y), Math.abs(z)) < MM_MAX)) continue;
    numPoints++;
    const [bx, by, bz] = [x >> BLOCK_BITS, y >> BLOCK_BITS, z >> BLOCK_BITS];
    // Fourteen bits each: a number holds all three without loss.
    const key = ((bx + 0x2000) * 0x4000 + by + 0x2000) * 0x4000 + bz + 0x2000;
    let block = blocks.get(key);
    if (!block) blocks.set(key, block = [bx, by, bz]);
    block.push(
      (z & BLOCK_MASK) << 2 * BLOCK_BITS | (y & BLOCK_MASK) << BLOCK_BITS | x & BLOCK_MASK,
    );
  }
  const pointData = new Int32Array(numPoints + BLOCK_HEAD * blocks.size);
  let at = 0;
  for (const block of blocks.values()) {
    pointData[at++] = block.length - (BLOCK_HEAD - 1);
    pointData.set(block, at);
    at += block.length;
  }
  return { numPoints, pointData };
}

function millimetres(metres: number): number {
  return Math.round(metres * MM_PER_M);
}
