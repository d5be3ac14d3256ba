/**
 * Depth images: the distance of each pixel in millimetres, and the conversion to points in space.
 *
 * Owns the published format image/vnd.viam.dep ("DEPTHMAP", width and height as big-endian 64-bit numbers,
 * then big-endian 16-bit pixels row by row).
 */

import { assert, SvcError } from "../../base/error.ts";
import { checkIntrinsics, type Distortion, type Intrinsics, raysOf } from "./lens.ts";
import { createCloud, type PointCloud, withoutMissing } from "../cloud/point_cloud.ts";

export const DEPTH_MIME_TYPE = "image/vnd.viam.dep";

const MAGIC = "DEPTHMAP";
const HEADER_BYTES = 24;
const M_PER_MM = 1e-3;

export interface DepthMap {
  readonly width: number;
  readonly height: number;
  /** Millimetres, row by row; 0 means no reading. */
  readonly data: Uint16Array;
}

export function encodeDepth({ width, height, data }: DepthMap): Uint8Array<ArrayBuffer> {
  assert(data.length === width * height, `a depth map of ${width} x ${height} has ${data.length} pixels`);
  const bytes = new Uint8Array(HEADER_BYTES + 2 * data.length);
  bytes.set(new TextEncoder().encode(MAGIC));
  const view = new DataView(bytes.buffer);
  view.setBigUint64(8, BigInt(width));
  view.setBigUint64(16, BigInt(height));
  for (let n = 0, at = HEADER_BYTES; n < data.length; n++, at += 2) view.setUint16(at, data[n] ?? 0);
  return bytes;
}

/** @throws invalid_argument if it is not a depth image or its length differs from its header */
export function decodeDepth(bytes: Uint8Array): DepthMap {
  const magic = new TextDecoder("latin1").decode(bytes.subarray(0, MAGIC.length));
  if (magic !== MAGIC || bytes.length < HEADER_BYTES) {
    throw invalid(`${bytes.length} bytes starting ${JSON.stringify(magic)}, wanted "${MAGIC}" and a header`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [width, height] = [view.getBigUint64(8), view.getBigUint64(16)];
  const wanted = BigInt(HEADER_BYTES) + 2n * width * height;
  if (BigInt(bytes.length) !== wanted) {
    throw invalid(`${bytes.length} bytes for ${width} x ${height} pixels, wanted ${wanted}`);
  }
  const data = new Uint16Array((bytes.length - HEADER_BYTES) / 2);
  for (let n = 0, at = HEADER_BYTES; n < data.length; n++, at += 2) data[n] = view.getUint16(at);
  return { width: Number(width), height: Number(height), data };
}

export interface DepthCloudOptions {
  /** A colour for each pixel, 0x00RRGGBB. */
  readonly rgb?: Uint32Array;
  /** Keeps the grid, with a missing point for each pixel without a reading. */
  readonly organised?: boolean;
  readonly distortion?: Distortion;
}

/**
 * The points of a depth image, in metres in the camera's frame.
 *
 * @throws invalid_argument for an impossible lens, or a lens for images of another size
 */
export function depthToCloud(
  map: DepthMap,
  intrinsics: Intrinsics,
  options: DepthCloudOptions = {},
): PointCloud {
  const { width, height, data } = map;
  const { widthPx, heightPx } = intrinsics;
  checkIntrinsics(intrinsics);
  if (widthPx !== width || heightPx !== height) {
    const found = `a depth image of ${width} x ${height}`;
    throw new SvcError("invalid_argument", `${found} with intrinsics for ${widthPx} x ${heightPx}`);
  }

  const { x, y } = raysOf(intrinsics, options.distortion);
  const z = new Float32Array(data.length);
  for (let n = 0; n < data.length; n++) {
    const depth = data[n] ?? 0;
    const forward = depth === 0 ? NaN : depth * M_PER_MM;
    x[n] = (x[n] ?? NaN) * forward;
    y[n] = (y[n] ?? NaN) * forward;
    z[n] = forward;
  }

  const cloud = createCloud({ width, height, x, y, z, rgb: options.rgb });
  return options.organised ? cloud : withoutMissing(cloud);
}

/** The median of the readings (the farther of the two middle ones); `undefined` without readings. */
export function medianDepth({ data }: DepthMap): number | undefined {
  const counts = new Uint32Array(2 ** 16);
  for (let n = 0; n < data.length; n++) {
    const depth = data[n] ?? 0;
    counts[depth] = (counts[depth] ?? 0) + 1;
  }
  const rank = Math.floor((data.length - (counts[0] ?? 0)) / 2);
  for (let depth = 1, before = 0; depth < counts.length; depth++) {
    before += counts[depth] ?? 0;
    if (before > rank) return depth;
  }
  return undefined;
}

function invalid(found: string): SvcError {
  return new SvcError("invalid_argument", `reading depth image: ${found}`);
}
