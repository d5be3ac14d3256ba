/**
 * Decodes the picture formats of webcams into plain pixels or JPEG. YUV colours are read as BT.601 with
 * limited range, the form that cameras send unless they declare another.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { CameraFormat } from "../../lib/device/v4l2.ts";
import { type ColorImage, encodeImage, MIME } from "../../lib/geometry/image/image.ts";

type RawFormat = Exclude<CameraFormat, "MJPG">;

export interface RawPicture {
  readonly width: number;
  readonly height: number;
  /**
   * Bytes between the starts of two rows of brightness; 0 means that rows follow each other without a gap.
   */
  readonly rowBytes: number;
  readonly bytes: Uint8Array;
}

/**
 * The picture's pixels. Throws `unavailable` if part of the picture is missing, for example after a lost
 * packet.
 */
export function pixelsOf(format: RawFormat, picture: RawPicture): ColorImage {
  const { width, height, bytes } = picture;
  const packed = format === "YUYV" || format === "UYVY";
  const row = picture.rowBytes || width * (packed ? 2 : 1);
  const colors = packed ? 0 : Math.ceil(height / 2) * row;
  const wanted = row * height + colors;
  if (bytes.length < wanted) {
    const found = `${bytes.length} bytes of ${format}, wanted ${wanted} for ${width} x ${height} pixels`;
    throw new SvcError("unavailable", `the camera gave part of a picture: ${found}`);
  }

  const rgba = new Uint8Array(width * height * 4);
  const place = pixelOffsetsOf(format, row, height);
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0; x < width; x++, to += 4) {
      const { luma, u, v } = place(x, y);
      const bright = 298 * ((bytes[luma] ?? 0) - 16);
      const blue = (bytes[u] ?? 0) - 128, red = (bytes[v] ?? 0) - 128;
      rgba[to] = byte(bright + 409 * red);
      rgba[to + 1] = byte(bright - 100 * blue - 208 * red);
      rgba[to + 2] = byte(bright + 516 * blue);
      rgba[to + 3] = 255;
    }
  }

  return { width, height, rgba };
}

interface PixelOffsets {
  luma: number;
  u: number;
  v: number;
}

/**
 * Where the values of a pixel pair stand. Two pixels of a row share their colours; in planar formats two rows
 * share them as well. Every call returns the same object.
 */
function pixelOffsetsOf(
  format: RawFormat,
  row: number,
  height: number,
): (x: number, y: number) => PixelOffsets {
  const at: PixelOffsets = { luma: 0, u: 0, v: 0 };
  if (format === "YUYV" || format === "UYVY") {
    const first = format === "YUYV" ? 0 : 1;
    return (x, y) => {
      const pair = y * row + (x >> 1) * 4;
      at.luma = y * row + x * 2 + first;
      at.u = pair + 1 - first;
      at.v = pair + 3 - first;
      return at;
    };
  }

  const plane = row * height;
  return (x, y) => {
    at.luma = y * row + x;
    if (format === "YU12") {
      const half = row >> 1;
      at.u = plane + (y >> 1) * half + (x >> 1);
      at.v = at.u + half * Math.ceil(height / 2);
      return at;
    }
    const pair = plane + (y >> 1) * row + (x & ~1);
    at.u = format === "NV12" ? pair : pair + 1;
    at.v = format === "NV12" ? pair + 1 : pair;
    return at;
  };
}

function byte(value: number): number {
  const rounded = (value + 128) >> 8;
  if (rounded < 0) return 0;
  return rounded > 255 ? 255 : rounded;
}

const HUFFMAN = 0xc4, SCAN = 0xda, START = 0xd8, END = 0xd9;

/**
 * Turns a motion JPEG frame into a complete JPEG file. Such frames may omit the Huffman tables, which are
 * always the same; this function puts them in.
 */
export function standaloneJpeg(bytes: Uint8Array): Uint8Array {
  if (bytes[0] !== 0xff || bytes[1] !== START) {
    throw new SvcError("unavailable", "the camera gave a picture that does not begin as a JPEG");
  }
  const scan = segmentAt(bytes, SCAN);
  if (scan === undefined) {
    throw new SvcError("unavailable", "the camera gave a JPEG that ends before its picture");
  }

  if (segmentAt(bytes, HUFFMAN) !== undefined) return bytes;

  const standard = standardTables();
  const whole = new Uint8Array(bytes.length + standard.length);
  whole.set(bytes.subarray(0, scan));
  whole.set(standard, scan);
  whole.set(bytes.subarray(scan), scan + standard.length);

  return whole;
}

/** Whether the picture's data have their end; without it, the last rows of a picture are missing. */
export function isWholeJpeg(bytes: Uint8Array): boolean {
  const scan = segmentAt(bytes, SCAN) ?? bytes.length;
  // After the end, cameras send anything; within the data, such bytes are escaped.
  for (let at = bytes.length - 2; at > scan; at--) {
    if (bytes[at] === 0xff && bytes[at + 1] === END) return true;
  }
  return false;
}

/** Offset of the first segment with this marker before the picture's data. */
function segmentAt(bytes: Uint8Array, mark: number): number | undefined {
  for (let at = 2; at + 4 <= bytes.length && bytes[at] === 0xff;) {
    if (bytes[at + 1] === mark) return at;
    if (bytes[at + 1] === SCAN) return undefined;
    at += segmentBytes(bytes, at);
  }
  return undefined;
}

/** Length of the segment at this offset, with its marker. */
function segmentBytes(bytes: Uint8Array, at: number): number {
  return 2 + ((bytes[at + 2] ?? 0) << 8 | (bytes[at + 3] ?? 0));
}

/**
 * The standard's example tables. Our own encoder uses them too, so the segment is taken from a picture that
 * it made.
 */
function standardTables(): Uint8Array {
  const image = { width: 8, height: 8, rgba: new Uint8Array(8 * 8 * 4) };
  const jpeg = encodeImage({ kind: "color", image }, MIME.jpeg);
  const at = segmentAt(jpeg, HUFFMAN)!;
  return jpeg.subarray(at, at + segmentBytes(jpeg, at));
}
