/**
 * Groups the pixels of a depth image into clusters of connected pixels.
 *
 * Two pixels are linked if they are near each other in the picture (within a window, which bridges pixels
 * without a reading) and in space (within a distance, which grows with the depth as the pixels spread). On a
 * level surface seen at a low angle, the rows of pixels are far apart; there two pixels are also linked if
 * one continues the level of the other.
 *
 * A cluster consists of all pixels that are linked directly or through others, so the result does not depend
 * on the order of the work; one pass is enough. A wider window or a longer distance only adds links: clusters
 * merge and never split.
 */

import type { Rays } from "../image/lens.ts";
import type { Vec3 } from "../pose.ts";

export interface LinkLimits {
  /** Largest distance in the picture, in pixels along rows and along columns. */
  readonly windowPx: number;
  /** Largest distance in space at depth 0, and the addition for each mm of depth. */
  readonly distanceMm: number;
  readonly distancePerMm: number;
}

/** The frame to cluster. */
export interface DepthView {
  readonly depth: Uint16Array;
  readonly rays: Rays;
  /** The direction, of length 1, perpendicular to level surfaces. */
  readonly up: Vec3;
}

/**
 * Pixels of a frame, by their row-by-row index in ascending order; the first `count` entries of the array.
 */
export interface PixelList {
  readonly pixels: Uint32Array;
  readonly count: number;
}

/**
 * Sines of angles of view: below the first, a level surface counts as seen at a low angle; below the second,
 * its level says nothing.
 */
const LOW_ANGLE = 0.35;
const LOWEST_ANGLE = 0.02;
/** A cluster is thin if it surrounds less than this share of its own pixels on all sides. */
const THIN_INSIDE = 0.1;
/** Number of a cluster's pixels that are sampled to estimate a share of them. */
const SHARE_SAMPLE = 500;

/** Clusters the pixels of frames of one size. Reuses its buffers for each frame. */
export class Clusterer {
  /**
   * Start of the grid, which has a margin of the window's width around the rows, so that no neighbour is
   * outside.
   */
  readonly #start: number;
  readonly #x: Float32Array;
  readonly #y: Float32Array;
  readonly #z: Float32Array;
  /** Height along the view's up, measured from the camera. */
  readonly #height: Float32Array;
  readonly #labels: Int32Array;
  /** For each label, a smaller label with which it is joined; a root has itself. */
  readonly #parents: Int32Array;
  /** The window's pixels before its middle, as offsets from the middle, nearest first. */
  readonly #before: Int32Array;
  /** The eight pixels around a pixel, and all pixels of its window. */
  readonly #around: Int32Array;
  readonly #window: Int32Array;

  constructor(private readonly width: number, height: number, private readonly limits: LinkLimits) {
    const { windowPx } = limits;
    const stride = width + windowPx;
    this.#start = windowPx * stride + windowPx;
    const size = this.#start + (height + windowPx) * stride;
    [this.#x, this.#y] = [new Float32Array(size), new Float32Array(size)];
    [this.#z, this.#height] = [new Float32Array(size), new Float32Array(size)];
    this.#labels = new Int32Array(size);
    this.#parents = new Int32Array(width * height + 1);
    const cells = (steps: readonly Step[]) =>
      Int32Array.from(steps, ([right, down]) => down * stride + right);
    this.#before = cells(stepsBefore(windowPx));
    this.#around = cells(stepsAround(1));
    this.#window = cells(stepsAround(windowPx));
  }

  /**
   * Writes the cluster of each listed pixel to the same index of `clusters`.
   *
   * @returns the number of clusters, which are counted from 0 in the order of their first pixels
   */
  cluster(view: DepthView, list: PixelList, clusters: Int32Array): number {
    this.#labels.fill(0);
    const numbers = this.#numbered(this.#link(view, list, clusters));
    const parents = this.#parents;
    for (let n = 0; n < list.count; n++) clusters[n] = ~(parents[clusters[n] ?? 0] ?? 0);
    return numbers;
  }

  /** Whether a cluster of the last call is three pixels thick almost nowhere. */
  isThin(pixels: Uint32Array): boolean {
    const own = this.#clusterOf(pixels);
    return shareOf(pixels, (pixel) => this.#isInside(this.#cell(pixel), own)) < THIN_INSIDE;
  }

  /**
   * The number of a cluster's pixels along the edges of nearer clusters, for the last call; an estimate for
   * large clusters.
   */
  besideNearer(pixels: Uint32Array): number {
    const own = this.#clusterOf(pixels);
    return pixels.length * shareOf(pixels, (pixel) => this.#hasNearer(this.#cell(pixel), own));
  }

  #isInside(cell: number, own: number): boolean {
    for (const step of this.#around) if (this.#clusterAt(cell + step) !== own) return false;
    return true;
  }

  #hasNearer(cell: number, own: number): boolean {
    const ownZ = this.#z[cell] ?? 0;
    for (const step of this.#window) {
      const other = cell + step;
      if (this.#labels[other] === 0 || (this.#z[other] ?? 0) >= ownZ) continue;
      if (this.#clusterAt(other) !== own) return true;
    }
    return false;
  }

  /**
   * Labels pixels in the grid and in `found`, and joins the labels of linked pixels; returns the last label.
   */
  #link({ depth, rays, up }: DepthView, { pixels, count }: PixelList, found: Int32Array): number {
    const { distanceMm, distancePerMm, windowPx } = this.limits;
    const [x, y, z, height] = [this.#x, this.#y, this.#z, this.#height];
    const [labels, before] = [this.#labels, this.#before];
    let last = 0, rowEnd = this.width, margins = this.#start;
    for (let n = 0; n < count; n++) {
      const pixel = pixels[n] ?? 0;
      for (; pixel >= rowEnd; rowEnd += this.width) margins += windowPx;
      const cell = pixel + margins;
      const ownZ = z[cell] = depth[pixel] ?? 0;
      const ownX = x[cell] = (rays.x[pixel] ?? 0) * ownZ;
      const ownY = y[cell] = (rays.y[pixel] ?? 0) * ownZ;
      const ownHeight = height[cell] = up.x * ownX + up.y * ownY + up.z * ownZ;
      const steepness = Math.abs(ownHeight) / ownZ;
      const isLow = steepness > LOWEST_ANGLE && steepness < LOW_ANGLE;

      let own = 0;
      for (let k = 0; k < before.length; k++) {
        const other = cell + (before[k] ?? 0);
        const label = labels[other] ?? 0;
        if (label === 0 || label === own) continue;
        const otherZ = z[other] ?? 0;
        const reach = distanceMm + distancePerMm * Math.min(ownZ, otherZ);
        const right = ownX - (x[other] ?? 0), down = ownY - (y[other] ?? 0), away = ownZ - otherZ;
        if (
          right * right + down * down + away * away > reach * reach &&
          // Distance along the ray between the pixel and the other pixel's level.
          !(isLow && Math.abs(ownHeight - (height[other] ?? 0)) <= reach * steepness)
        ) continue;
        own = own === 0 ? label : this.#join(own, label);
      }

      if (own === 0) this.#parents[own = ++last] = last;
      found[n] = labels[cell] = own;
    }

    return last;
  }

  #join(a: number, b: number): number {
    const [rootA, rootB] = [this.#root(a), this.#root(b)];
    const root = Math.min(rootA, rootB);
    return this.#parents[Math.max(rootA, rootB)] = root;
  }

  #root(label: number): number {
    const parents = this.#parents;
    for (let parent = parents[label] ?? 0; parent !== label; parent = parents[label] ?? 0) {
      label = parents[label] = parents[parent] ?? 0;
    }
    return label;
  }

  /**
   * Replaces each label's parent by the complement of its cluster's number; returns the number of clusters.
   */
  #numbered(last: number): number {
    const parents = this.#parents;
    let clusters = 0;
    for (let label = 1; label <= last; label++) {
      const parent = parents[label] ?? 0;
      parents[label] = parent === label ? ~clusters++ : parents[parent] ?? 0;
    }
    return clusters;
  }

  /** Of pixels of one cluster. */
  #clusterOf(pixels: Uint32Array): number {
    return this.#clusterAt(this.#cell(pixels[0] ?? 0));
  }

  #clusterAt(cell: number): number {
    return ~(this.#parents[this.#labels[cell] ?? 0] ?? 0);
  }

  #cell(pixel: number): number {
    return this.#start + pixel + Math.floor(pixel / this.width) * this.limits.windowPx;
  }
}

/** The share of pixels for which `holds` is true, estimated from a sample spread over all of them. */
function shareOf(pixels: Uint32Array, holds: (pixel: number) => boolean): number {
  const step = Math.ceil(pixels.length / SHARE_SAMPLE);
  let looked = 0, held = 0;
  for (let n = 0; n < pixels.length; n += step, looked++) if (holds(pixels[n] ?? 0)) held++;
  return held / looked;
}

/** Right and down. */
type Step = readonly [number, number];

/** All steps within a window except the one to its middle, nearest first. */
function stepsAround(reach: number): Step[] {
  const steps: Step[] = [];
  for (let down = -reach; down <= reach; down++) {
    for (let right = -reach; right <= reach; right++) {
      if (right !== 0 || down !== 0) steps.push([right, down]);
    }
  }
  return steps.sort(([a, b], [c, d]) => a * a + b * b - c * c - d * d);
}

/** The steps of a window that lead to earlier pixels, in row-by-row order. */
function stepsBefore(reach: number): Step[] {
  return stepsAround(reach).filter(([right, down]) => down < 0 || down === 0 && right < 0);
}
