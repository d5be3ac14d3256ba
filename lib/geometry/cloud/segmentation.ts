/**
 * Finds objects in a depth image: takes the ground away and divides the rest into separate pieces.
 *
 * The same frame gives the same answer, regardless of earlier frames. The nearest objects come first. If
 * there is no ground plane within the limits, the whole picture is divided into objects, floor included.
 */

import { assert, SvcError } from "../../base/error.ts";
import { Clusterer, type LinkLimits } from "./cluster.ts";
import type { DepthMap } from "../image/depth.ts";
import { type Distortion, type Intrinsics, type Rays, raysOf } from "../image/lens.ts";
import { GroundFinder, type Plane } from "./plane.ts";
import { ORIGIN, type Vec3 } from "../pose.ts";
import { type BoundingBox, boundingBox, createCloud, type PointCloud } from "./point_cloud.ts";

export interface SegmentationLimits {
  /** Fewest points of a plane that can be the ground. */
  readonly minPointsInPlane: number;
  /** Fewest points that an object must have of its own; 0 reports every cluster of any kind. */
  readonly minPointsInSegment: number;
  /** Points nearer to the ground than this, above or below it, belong to the ground. */
  readonly maxDistFromPlaneMm: number;
  /** Largest angle between the ground's normal and the camera's up, (0, -1, 0). */
  readonly groundAngleToleranceDeg: number;
  /**
   * Largest distance between neighbours, above 0: a larger radius merges objects, a smaller one divides them.
   */
  readonly clusteringRadius: number;
  /** How near neighbours must be, above 0: a larger value divides objects, a smaller one merges them. */
  readonly clusteringStrictness: number;
}

export interface Segmentation {
  readonly ground?: Plane;
  readonly segments: readonly CloudSegment[];
}

export interface CloudSegment {
  /** The object's pixels in ascending order; `cloud` has its points in the same order. */
  readonly pixels: Uint32Array;
  /** In metres, in the camera's frame. */
  readonly cloud: PointCloud;
  readonly box: BoundingBox;
}

/** The camera's own up, used if no ground gives a better one. */
const UP: Vec3 = { x: 0, y: -1, z: 0 };
/** A plane without any points. */
const NOWHERE: Plane = { normal: ORIGIN, offsetMm: Infinity };
/** Largest frame: buffers take 40 bytes for each pixel. */
const PIXELS_MAX = 10_000_000;
const WINDOW_MAX_PX = 8;
/** With this radius and strictness, the link distance stays as it is. */
const STRICTNESS = 5;
/**
 * Link distance: the noise of neighbouring readings, and the largest gap in multiples of the pixel spread.
 * Under any strictness, the next pixel at the same depth is linked.
 */
const LINK_MM = 6;
const LINK_PX = 3;
const LINK_PX_MIN = 1.1;
/**
 * Sampling of the ground's noise around a cluster: the number of its pixels to use, and the reach around
 * each.
 */
const NOISE_SAMPLE = 300;
const NOISE_REACH_PX = 3;
/**
 * Root mean square of the ground's distances, as a share of their limit; above it, part of the ground must
 * lie beyond the limit.
 */
const NOISY = 0.35;
const M_PER_MM = 1e-3;

/** Segments frames of one camera. Reuses its buffers for each frame. */
export class Segmenter {
  readonly #rays: Rays;
  readonly #finder: GroundFinder;
  readonly #clusterer: Clusterer;
  /** The pixels off the ground, and the cluster of each. */
  readonly #pixels: Uint32Array;
  readonly #clusters: Int32Array;

  /** @throws invalid_argument for an impossible lens, resource_exhausted for more than `PIXELS_MAX` */
  constructor(
    private readonly intrinsics: Intrinsics,
    private readonly limits: SegmentationLimits,
    distortion?: Distortion,
  ) {
    const { widthPx, heightPx } = intrinsics;
    if (widthPx * heightPx > PIXELS_MAX) {
      const found = `frames of ${widthPx} x ${heightPx}`;
      throw new SvcError("resource_exhausted", `segmenting ${found}, wanted at most ${PIXELS_MAX} pixels`);
    }
    this.#rays = raysOf(intrinsics, distortion);
    this.#finder = new GroundFinder(this.#rays, widthPx, heightPx);
    this.#clusterer = new Clusterer(widthPx, heightPx, linkLimits(intrinsics, limits));
    this.#pixels = new Uint32Array(widthPx * heightPx);
    this.#clusters = new Int32Array(widthPx * heightPx);
  }

  /** The frame must have the size of the lens. */
  segment({ width, height, data }: DepthMap): Segmentation {
    const { widthPx, heightPx } = this.intrinsics;
    assert(width === widthPx && height === heightPx, `a frame of ${width} x ${height} through another lens`);
    const { maxDistFromPlaneMm, groundAngleToleranceDeg, minPointsInPlane } = this.limits;
    const limits = { maxDistMm: maxDistFromPlaneMm, toleranceDeg: groundAngleToleranceDeg };
    const found = this.#finder.find(data, limits);
    let parted = this.#part(data, found ?? NOWHERE);
    const ground = parted.on >= minPointsInPlane ? found : undefined;
    if (found && !ground) parted = this.#part(data, NOWHERE);
    const view = { depth: data, rays: this.#rays, up: ground?.normal ?? UP };
    const list = { pixels: this.#pixels, count: parted.off };
    const clusters = this.#clusterer.cluster(view, list, this.#clusters);
    return { ground, segments: this.#emit(data, parted.off, clusters, ground) };
  }

  /** Lists the pixels that are not on the plane; returns the numbers of pixels off and on it. */
  #part(data: Uint16Array, { normal, offsetMm }: Plane): { off: number; on: number } {
    const { x, y } = this.#rays;
    const { x: nx, y: ny, z: nz } = normal;
    const pixels = this.#pixels;
    const limit = this.limits.maxDistFromPlaneMm;
    let off = 0, seen = 0;
    for (let n = 0; n < data.length; n++) {
      const depth = data[n] ?? 0;
      const distance = Math.abs(depth * (nx * (x[n] ?? NaN) + ny * (y[n] ?? NaN) + nz) + offsetMm);
      // Writes every pixel and advances only for pixels off the plane: on noisy data a branch would be
      // expensive.
      pixels[off] = n;
      const there = depth !== 0 ? 1 : 0;
      off += distance >= limit ? there : 0;
      // A pixel without a ray has no distance, so it is nowhere.
      seen += distance >= 0 ? there : 0;
    }

    return { off, on: seen - off };
  }

  /** The clusters that are objects, the nearest first. */
  #emit(data: Uint16Array, count: number, clusters: number, ground?: Plane): CloudSegment[] {
    const sizes = new Uint32Array(clusters);
    for (let n = 0; n < count; n++) {
      const cluster = this.#clusters[n] ?? 0;
      sizes[cluster] = (sizes[cluster] ?? 0) + 1;
    }

    const { minPointsInSegment } = this.limits;
    const places = new Int32Array(clusters).fill(-1);
    const kept: Uint32Array[] = [];
    for (const [cluster, size] of sizes.entries()) {
      if (size < minPointsInSegment) continue;
      places[cluster] = kept.length;
      kept.push(new Uint32Array(size));
    }

    const filled = new Uint32Array(kept.length);
    for (let n = 0; n < count; n++) {
      const place = places[this.#clusters[n] ?? 0] ?? -1;
      const pixels = kept[place];
      if (!pixels) continue;
      const next = filled[place] ?? 0;
      pixels[next] = this.#pixels[n] ?? 0;
      filled[place] = next + 1;
    }

    const segments = kept.filter((pixels) => this.#ownPoints(pixels, data, ground) >= minPointsInSegment)
      .map((pixels) => this.#segmentOf(pixels, data));
    return segments.sort((a, b) => a.box.min.z - b.box.min.z || firstPixel(a) - firstPixel(b));
  }

  /**
   * The number of points that count for a cluster's size. In a thick cluster all points count. In a thin
   * cluster, points beside a nearer object may be that object's side or mixed readings at its edge, so they
   * do not count; and on ground so noisy that parts of it seem off the plane, no point counts, because all
   * of them may be ground. If objects of any size are allowed, all points count.
   */
  #ownPoints(pixels: Uint32Array, data: Uint16Array, ground?: Plane): number {
    if (this.limits.minPointsInSegment === 0 || !this.#clusterer.isThin(pixels)) return pixels.length;
    if (ground && this.#isNoisyGround(pixels, data, ground)) return 0;
    return pixels.length - this.#clusterer.besideNearer(pixels);
  }

  /**
   * Whether the ground around the pixels is so uneven that it nearly fills the distance within which ground
   * is removed. Judges by the other side of the plane, where the foot of an object does not count.
   */
  #isNoisyGround(pixels: Uint32Array, data: Uint16Array, { normal, offsetMm }: Plane): boolean {
    const { x, y } = this.#rays;
    const width = this.intrinsics.widthPx;
    const limit = this.limits.maxDistFromPlaneMm;
    const distance = (n: number) => {
      const rayX = x[n] ?? NaN, rayY = y[n] ?? NaN;
      return (data[n] ?? 0) * (normal.x * rayX + normal.y * rayY + normal.z) + offsetMm;
    };
    let points = 0, squares = 0;
    for (let n = 0; n < pixels.length; n += Math.ceil(pixels.length / NOISE_SAMPLE)) {
      const middle = pixels[n] ?? 0;
      const side = Math.sign(distance(middle));
      for (let down = -NOISE_REACH_PX; down <= NOISE_REACH_PX; down++) {
        for (let right = -NOISE_REACH_PX; right <= NOISE_REACH_PX; right++) {
          // Past the edge of a row the next row follows, whose pixels serve as well.
          const pixel = middle + down * width + right;
          const across = -side * distance(pixel);
          if (!(across > 0 && across < limit && (data[pixel] ?? 0) > 0)) continue;
          points++;
          squares += across * across;
        }
      }
    }

    return squares > points * (NOISY * limit) ** 2;
  }

  #segmentOf(pixels: Uint32Array, data: Uint16Array): CloudSegment {
    const { length } = pixels;
    const [x, y, z] = [new Float32Array(length), new Float32Array(length), new Float32Array(length)];
    for (let n = 0; n < length; n++) {
      const pixel = pixels[n] ?? 0;
      const forward = (data[pixel] ?? 0) * M_PER_MM;
      x[n] = (this.#rays.x[pixel] ?? NaN) * forward;
      y[n] = (this.#rays.y[pixel] ?? NaN) * forward;
      z[n] = forward;
    }
    const cloud = createCloud({ x, y, z });
    return { pixels, cloud, box: boundingBox(cloud)! };
  }
}

/** In row-by-row order. */
function firstPixel({ pixels }: CloudSegment): number {
  return pixels[0] ?? 0;
}

/**
 * The window grows with the radius, the distance with the radius over the strictness. The window stops
 * growing where its cost would be felt; the distance does not.
 */
function linkLimits(
  { focalXPx, focalYPx }: Intrinsics,
  { clusteringRadius, clusteringStrictness }: SegmentationLimits,
): LinkLimits {
  const scale = clusteringRadius * STRICTNESS / clusteringStrictness;
  return {
    windowPx: Math.min(WINDOW_MAX_PX, clusteringRadius + 1),
    distanceMm: scale * LINK_MM,
    distancePerMm: Math.max(LINK_PX_MIN, scale * LINK_PX) / Math.min(focalXPx, focalYPx),
  };
}
