/**
 * JPEG as cameras and phones write it: read tolerantly, shown upright.
 *
 * Reads what libjpeg reads: stray bytes between segments, a missing end marker, a picture that breaks off, colours as
 * RGB without conversion. The EXIF orientation (tag 274 of IFD0) is applied, so that sizes, pixels
 * and boxes of a picture always mean its upright form. Safe on hostile bytes: the size is checked before anything is
 * allocated, and the entropy-coded data are decoded by `jpeg-js`, which knows neither time stamps nor names.
 */

import jpeg from "jpeg-js";
import { messageOf, SvcError } from "../../base/error.ts";
import { joinedBytes } from "../../base/files/byte_reader.ts";
import { PIXELS_MAX } from "./png.ts";
import type { ColorImage } from "./color_image.ts";

const QUALITY = 75;
const MEMORY_MAX_MB = 1024;
/** Scans of a progressive picture: encoders make about ten; each costs the time of a whole picture. */
const SCANS_MAX = 100;
/** Pixels times scans, so that neither large pictures nor many scans occupy a decoder for minutes. */
const SCANNED_PIXELS_MAX = 1_000_000_000;
/** Zeros for the rest of a scan that breaks off, which decode to noise of little contrast. */
const PADDING_MIN = 64 * 1024;
const PADDING_MAX = 16 * 1024 * 1024;

const MARKER = { soi: 0xd8, eoi: 0xd9, sos: 0xda, app0: 0xe0, app1: 0xe1, app14: 0xee } as const;
/** Segments that the decoder needs; the others (thumbnails, comments, profiles) are left out. */
const NEEDED: ReadonlySet<number> = new Set([0xc4, 0xdb, 0xdd, MARKER.app0, MARKER.app14]);
const ORIENTATION_TAG = 0x0112;
const SHORT_TYPE = 3;

/** The EXIF orientation, 1 to 8: which edge of the stored picture is the top, and whether it is mirrored. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

export interface JpegHeader {
  /** Size in pixels as stored, before the orientation is applied. */
  readonly width: number;
  readonly height: number;
  readonly orientation: Orientation;
}

/** One marker segment; `start` and `end` bound its content behind the length. */
interface Segment {
  readonly marker: number;
  readonly start: number;
  readonly end: number;
}

export function isJpeg(bytes: Uint8Array): boolean {
  return bytes[0] === 0xff && bytes[1] === MARKER.soi && bytes[2] === 0xff;
}

/** Whether the orientation swaps width and height. */
export function isTurned(orientation: Orientation): boolean {
  return orientation >= 5;
}

/** Size and orientation from the beginning of a file. Throws `invalid_argument` if there is no frame header. */
export function jpegHeader(bytes: Uint8Array): JpegHeader {
  let orientation: Orientation | undefined;
  for (const { marker, start, end } of segmentsOf(bytes)) {
    if (marker === MARKER.app1) orientation ??= exifOrientation(bytes.subarray(start, end));
    if (!isFrame(marker) || end - start < 6) continue;

    const height = wordAt(bytes, start + 1), width = wordAt(bytes, start + 3);
    if (width > 0 && height > 0 && width * height <= PIXELS_MAX) {
      return { width, height, orientation: orientation ?? 1 };
    }
    throw bad(`it says ${width} x ${height} pixels, wanted 1 to ${PIXELS_MAX} pixels`);
  }
  throw bad("it has no frame header");
}

/** The upright picture. Throws `invalid_argument` if the file is unreadable. */
export function decodeJpeg(bytes: Uint8Array): ColorImage {
  const { width, height, orientation } = jpegHeader(bytes);
  const file = cleaned(bytes, width * height);
  try {
    const { data } = jpeg.decode(file.bytes, {
      useTArray: true,
      colorTransform: hasLuma(bytes),
      tolerantDecoding: true,
      maxResolutionInMP: PIXELS_MAX / 1e6,
      maxMemoryUsageInMB: MEMORY_MAX_MB,
    });
    return upright({ width, height, rgba: data }, orientation);
  } catch (cause) {
    throw bad(file.isWhole ? messageOf(cause) : `it breaks off after ${bytes.length} bytes`, cause);
  }
}

export function encodeJpeg({ width, height, rgba }: ColorImage): Uint8Array {
  return Uint8Array.from(jpeg.encode({ width, height, data: rgba }, QUALITY).data);
}

/** Turns and mirrors a stored picture so that its top is up. */
export function upright(image: ColorImage, orientation: Orientation): ColorImage {
  if (orientation === 1) return image;

  const { width, height } = image;
  const [columns, rows] = isTurned(orientation) ? [height, width] : [width, height];
  const from = new Uint32Array(image.rgba.slice().buffer);
  const to = new Uint32Array(columns * rows);
  for (let y = 0, at = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++, at++) {
      const [column, row] = storedPoint(orientation, x, y, width, height);
      to[at] = from[row * width + column] ?? 0;
    }
  }
  return { width: columns, height: rows, rgba: new Uint8Array(to.buffer) };
}

/** The sides of a box, as fractions of the picture's width and height. */
interface Sides {
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

/** The sides in the upright picture of a box in the stored one. */
export function uprightSides({ xMin, yMin, xMax, yMax }: Sides, orientation: Orientation): Sides {
  const [x1, y1] = uprightPoint(orientation, xMin, yMin);
  const [x2, y2] = uprightPoint(orientation, xMax, yMax);
  return { xMin: Math.min(x1, x2), yMin: Math.min(y1, y2), xMax: Math.max(x1, x2), yMax: Math.max(y1, y2) };
}

/** The place in the upright picture of (x, y) in the stored one, both as fractions. */
function uprightPoint(orientation: Orientation, x: number, y: number): readonly [x: number, y: number] {
  switch (orientation) {
    case 1:
      return [x, y];
    case 2:
      return [1 - x, y];
    case 3:
      return [1 - x, 1 - y];
    case 4:
      return [x, 1 - y];
    case 5:
      return [y, x];
    case 6:
      return [1 - y, x];
    case 7:
      return [1 - y, 1 - x];
    case 8:
      return [y, 1 - x];
  }
}

/** The stored pixel that stands at (x, y) of the upright picture. */
function storedPoint(
  orientation: Orientation,
  x: number,
  y: number,
  width: number,
  height: number,
): readonly [column: number, row: number] {
  switch (orientation) {
    case 1:
      return [x, y];
    case 2:
      return [width - 1 - x, y];
    case 3:
      return [width - 1 - x, height - 1 - y];
    case 4:
      return [x, height - 1 - y];
    case 5:
      return [y, x];
    case 6:
      return [y, height - 1 - x];
    case 7:
      return [width - 1 - y, height - 1 - x];
    case 8:
      return [width - 1 - y, x];
  }
}

/** The segments up to the first scan, without the bytes between them that belong to none. */
function wordAt(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) << 8 | (bytes[at + 1] ?? 0);
}

function* segmentsOf(bytes: Uint8Array, from = 2): Generator<Segment> {
  for (let at = nextMarker(bytes, from); at < bytes.length; at = nextMarker(bytes, at)) {
    const marker = bytes[at] ?? 0;
    at++;
    if (isBare(marker)) continue;
    if (marker === MARKER.eoi || at + 2 > bytes.length) return;

    const end = at + Math.max(2, wordAt(bytes, at));
    yield { marker, start: at + 2, end: Math.min(end, bytes.length) };
    if (marker === MARKER.sos) return;
    at = end;
  }
}

/** The place of the next marker's code, behind its 0xff bytes. */
function nextMarker(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0xff, from); at >= 0; at = bytes.indexOf(0xff, at)) {
    while (bytes[at] === 0xff) at++;
    if (at >= bytes.length) break;
    if (bytes[at] !== 0) return at;
  }
  return bytes.length;
}

/** Start of image, restarts and the like have no content. */
function isBare(marker: number): boolean {
  return marker === MARKER.soi || marker === 0x01 || marker >= 0xd0 && marker <= 0xd7;
}

function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
}

/** A file as the decoder wants it. */
interface Cleaned {
  readonly bytes: Uint8Array;
  /** False if the file breaks off before its end marker. */
  readonly isWhole: boolean;
}

/**
 * Keeps only the segments that the decoder needs, nothing between them, and adds an end marker. Of a file that breaks
 * off, the last scan of several is left out, which only refines; zeros stand for the rest of a single one.
 */
function cleaned(bytes: Uint8Array, pixels: number): Cleaned {
  const parts: Uint8Array[] = [Uint8Array.of(0xff, MARKER.soi)];
  let [at, scans] = [2, 0];
  let beforeLast = 0;
  for (;;) {
    const header = [...segmentsOf(bytes, at)];
    const scan = header.find(({ marker }) => marker === MARKER.sos);
    if (!scan) break;

    scans++;
    if (scans > SCANS_MAX || scans * pixels > SCANNED_PIXELS_MAX) {
      throw bad(`it has ${scans} scans of ${pixels} pixels or more, wanted fewer: save it again`);
    }

    beforeLast = parts.length;
    const needed = header.filter(({ marker }) =>
      NEEDED.has(marker) || isFrame(marker) || marker === MARKER.sos
    );
    for (const { marker, start, end } of needed) {
      parts.push(Uint8Array.of(0xff, marker), bytes.subarray(start - 2, end));
    }
    at = scanEnd(bytes, scan.end);
    parts.push(bytes.subarray(scan.end, at));
  }

  if (scans === 0) throw bad("it has no scan: it breaks off in its header");

  const isWhole = at + 1 < bytes.length;
  if (!isWhole && scans > 1) parts.length = beforeLast;
  else if (!isWhole) parts.push(new Uint8Array(Math.min(PADDING_MAX, PADDING_MIN + 4 * pixels)));
  return { bytes: joinedBytes([...parts, Uint8Array.of(0xff, MARKER.eoi)]), isWhole };
}

/** Where the entropy-coded data from `from` on end: at a marker other than a restart, or at the end of the file. */
function scanEnd(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0xff, from); at >= 0; at = bytes.indexOf(0xff, at)) {
    let code = at + 1;
    while (bytes[code] === 0xff) code++;
    const marker = bytes[code];
    if (marker === undefined) return at;
    if (marker !== 0 && !(marker >= 0xd0 && marker <= 0xd7)) return code - 1;
    at = code + 1;
  }
  return bytes.length;
}

/**
 * Whether three components are luminance and chrominance, by libjpeg's rules: what Adobe's segment says, else yes for
 * JFIF, else no for components that are called R, G and B.
 */
function hasLuma(bytes: Uint8Array): boolean {
  let isJfif = false;
  let components = "";
  for (const { marker, start, end } of segmentsOf(bytes)) {
    const content = bytes.subarray(start, end);
    if (marker === MARKER.app14 && beginsWith(content, "Adobe") && content.length >= 12) {
      return content[11] !== 0;
    }
    if (marker === MARKER.app0 && beginsWith(content, "JFIF\0")) isJfif = true;
    if (isFrame(marker)) components = String.fromCharCode(content[6] ?? 0, content[9] ?? 0, content[12] ?? 0);
  }
  return isJfif || components !== "RGB";
}

/** The orientation in an EXIF segment; `undefined` if it has none or is no EXIF. Source: CIPA DC-008, 4.6.2. */
function exifOrientation(segment: Uint8Array): Orientation | undefined {
  if (!beginsWith(segment, "Exif\0")) return undefined;

  return tiffOrientation(segment.subarray(6));
}

/** The same of the TIFF structure in it. */
function tiffOrientation(tiff: Uint8Array): Orientation | undefined {
  if (tiff.length < 8) return undefined;

  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.byteLength);
  const isLittle = beginsWith(tiff, "II");
  if (!isLittle && !beginsWith(tiff, "MM") || view.getUint16(2, isLittle) !== 42) return undefined;

  const folder = view.getUint32(4, isLittle);
  if (folder + 2 > tiff.length) return undefined;

  const count = view.getUint16(folder, isLittle);
  for (let at = folder + 2, entry = 0; entry < count && at + 12 <= tiff.length; at += 12, entry++) {
    if (view.getUint16(at, isLittle) !== ORIENTATION_TAG) continue;

    const value = view.getUint16(at + 8, isLittle);
    return view.getUint16(at + 2, isLittle) === SHORT_TYPE && value >= 1 && value <= 8
      ? value as Orientation
      : undefined;
  }

  return undefined;
}

/** Whether bytes begin with these ASCII characters. */
export function beginsWith(bytes: Uint8Array, mark: string): boolean {
  return [...mark].every((letter, index) => bytes[index] === letter.charCodeAt(0));
}

function bad(problem: string, cause?: unknown): SvcError {
  return new SvcError("invalid_argument", `cannot read the JPEG image: ${problem}`, { cause });
}
