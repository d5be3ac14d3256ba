/**
 * Pictures in the formats in which they travel (JPEG, PNG, raw RGBA and raw depth), to and from plain pixels.
 *
 * The bytes themselves tell the format, because each format begins with its own mark. Safe on hostile bytes:
 * sizes are checked against `PIXELS_MAX` before anything is allocated, and every problem is an
 * `invalid_argument` error.
 *
 * The room owns pictures: their formats, depth, lenses and regions. Pure functions.
 */

import { SvcError } from "../../base/error.ts";
import { decodeDepth, DEPTH_MIME_TYPE, type DepthMap, encodeDepth } from "./depth.ts";
import { beginsWith, decodeJpeg, encodeJpeg, isJpeg, isTurned, jpegHeader } from "./jpeg.ts";
import { decodePng, encodePng, isPng, PIXELS_MAX, pngSize } from "./png.ts";
import type { ColorImage } from "./color_image.ts";

export type { ColorImage } from "./color_image.ts";

/** Published names of the formats. */
export const MIME = {
  jpeg: "image/jpeg",
  png: "image/png",
  /** "RGBA", width and height as big-endian 32-bit integers, then 4 bytes a pixel. */
  rgba: "image/vnd.viam.rgba",
  depth: DEPTH_MIME_TYPE,
  pcd: "pointcloud/pcd",
} as const;

type Format = "jpeg" | "png" | "rgba" | "depth";

/** The content of a picture: colours or distances. */
export type Decoded =
  | { readonly kind: "color"; readonly image: ColorImage }
  | { readonly kind: "depth"; readonly map: DepthMap };

const RGBA_HEADER_BYTES = 12;
const DEPTH_HEADER_BYTES = 24;

/**
 * The upright picture: the orientation in a JPEG's EXIF data is applied. A 16-bit grey PNG is a depth map. Other PNGs are colour images; of 16-bit samples the upper 8 bits are
 * kept.
 */
export function decodeImage(bytes: Uint8Array): Decoded {
  switch (formatOf(bytes)) {
    case "jpeg":
      return { kind: "color", image: decodeJpeg(bytes) };
    case "png":
      return fromPng(bytes);
    case "rgba": {
      const { width, height } = imageSize(bytes);
      return { kind: "color", image: { width, height, rgba: bytes.slice(RGBA_HEADER_BYTES) } };
    }
    case "depth":
      imageSize(bytes);
      return { kind: "depth", map: decodeDepth(bytes) };
  }
}

/** The same of a picture that must have colours; `what` names the attempt in the error: `asking a model`. */
export function decodeColor(bytes: Uint8Array, what: string): ColorImage {
  const decoded = decodeImage(bytes);
  if (decoded.kind === "color") return decoded.image;
  throw new SvcError("invalid_argument", `${what}: found a depth image, wanted a colour image`);
}

/** Encodes in the named format. Throws `invalid_argument` if the format cannot hold the content. */
export function encodeImage(content: Decoded, mimeType: string): Uint8Array {
  if (content.kind === "depth") {
    const { width, height, data } = content.map;
    if (mimeType === MIME.depth) return encodeDepth(content.map);
    if (mimeType === MIME.png) return encodePng({ width, height, channels: 1, samples: data });
    throw new SvcError(
      "invalid_argument",
      `a depth map cannot become ${mimeType}, wanted ${MIME.depth} or ${MIME.png}`,
    );
  }

  const { width, height, rgba } = content.image;
  switch (mimeType) {
    case MIME.jpeg:
      return encodeJpeg(content.image);
    case MIME.png:
      return encodePng({ width, height, channels: 4, samples: rgba });
    case MIME.rgba:
      return encodeRgba(content.image);
  }

  const wanted = `${MIME.jpeg}, ${MIME.png} or ${MIME.rgba}`;
  throw new SvcError("invalid_argument", `a colour image cannot become ${mimeType}, wanted ${wanted}`);
}

/** 0x00RRGGBB for every pixel, the colour form of point clouds. */
export function packedRgb({ rgba }: ColorImage): Uint32Array {
  const packed = new Uint32Array(rgba.length / 4);
  for (let pixel = 0, at = 0; pixel < packed.length; pixel++, at += 4) {
    packed[pixel] = (rgba[at] ?? 0) << 16 | (rgba[at + 1] ?? 0) << 8 | (rgba[at + 2] ?? 0);
  }
  return packed;
}

/** Width and height in pixels of the upright picture, from the header alone. */
export function imageSize(bytes: Uint8Array): { width: number; height: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (formatOf(bytes)) {
    case "jpeg": {
      const { width, height, orientation } = jpegHeader(bytes);
      return isTurned(orientation) ? { width: height, height: width } : { width, height };
    }
    case "png":
      return pngSize(bytes);
    case "rgba":
      if (bytes.length < RGBA_HEADER_BYTES) throw bad("raw RGBA image", "it ends within its header");
      return checked("raw RGBA image", bytes, RGBA_HEADER_BYTES, 4, view.getUint32(4), view.getUint32(8));
    case "depth": {
      if (bytes.length < DEPTH_HEADER_BYTES) throw bad("raw depth map", "it ends within its header");
      const width = Number(view.getBigUint64(8)), height = Number(view.getBigUint64(16));
      return checked("raw depth map", bytes, DEPTH_HEADER_BYTES, 2, width, height);
    }
  }
}

/** The published name of the bytes' format. */
export function mimeTypeOf(bytes: Uint8Array): string {
  return MIME[formatOf(bytes)];
}

function formatOf(bytes: Uint8Array): Format {
  if (isPng(bytes)) return "png";
  if (isJpeg(bytes)) return "jpeg";
  if (beginsWith(bytes, "RGBA")) return "rgba";
  if (beginsWith(bytes, "DEPTHMAP")) return "depth";
  const found = bytes.length === 0 ? "no bytes" : `${bytes.length} bytes of something else`;
  throw bad("image", `found ${found}, wanted JPEG, PNG, ${MIME.rgba} or ${MIME.depth}`);
}

/** A raw image's size, checked against the number of bytes. */
function checked(
  what: string,
  bytes: Uint8Array,
  header: number,
  perPixel: number,
  width: number,
  height: number,
) {
  if (!(width > 0 && height > 0 && width * height <= PIXELS_MAX)) {
    throw bad(what, `it says ${width} x ${height} pixels, wanted 1 to ${PIXELS_MAX} pixels`);
  }
  const wanted = header + width * height * perPixel;
  if (bytes.length !== wanted) {
    throw bad(what, `it has ${bytes.length} bytes, wanted ${wanted} for ${width} x ${height} pixels`);
  }

  return { width, height };
}

function fromPng(bytes: Uint8Array): Decoded {
  const { width, height, channels, samples } = decodePng(bytes);
  if (channels === 1 && samples instanceof Uint16Array) {
    return { kind: "depth", map: { width, height, data: samples } };
  }

  const grey = channels < 3;
  const alpha = channels % 2 === 0 ? channels - 1 : undefined;
  const shift = samples instanceof Uint16Array ? 8 : 0;
  const rgba = new Uint8Array(width * height * 4);
  for (let from = 0, to = 0; to < rgba.length; from += channels, to += 4) {
    rgba[to] = (samples[from] ?? 0) >> shift;
    rgba[to + 1] = (samples[grey ? from : from + 1] ?? 0) >> shift;
    rgba[to + 2] = (samples[grey ? from : from + 2] ?? 0) >> shift;
    rgba[to + 3] = alpha === undefined ? 255 : (samples[from + alpha] ?? 0) >> shift;
  }

  return { kind: "color", image: { width, height, rgba } };
}

function encodeRgba({ width, height, rgba }: ColorImage): Uint8Array {
  const bytes = new Uint8Array(RGBA_HEADER_BYTES + rgba.length);
  const view = new DataView(bytes.buffer);
  for (let index = 0; index < 4; index++) bytes[index] = "RGBA".charCodeAt(index);
  view.setUint32(4, width);
  view.setUint32(8, height);
  bytes.set(rgba, RGBA_HEADER_BYTES);
  return bytes;
}

function bad(what: string, problem: string, cause?: unknown): SvcError {
  return new SvcError("invalid_argument", `cannot read the ${what}: ${problem}`, { cause });
}
