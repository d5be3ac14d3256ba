/**
 * PNG files: reads every colour type, bit depth and interlacing, and writes plain files.
 *
 * Safe on hostile files: allocates nothing before the header has passed `PIXELS_MAX`, and stops decompression
 * little beyond the size that the header promises. Errors are `invalid_argument`.
 */

import { constants, crc32, deflateSync, inflateSync } from "node:zlib";
import { messageOf, SvcError } from "../../base/error.ts";
import { joinedBytes } from "../../base/files/byte_reader.ts";

/** Largest picture that the decoder accepts, in pixels. */
export const PIXELS_MAX = 50_000_000;

/** Samples row by row, `channels` for each pixel: grey, grey and alpha, RGB, or RGBA. */
export interface PngImage {
  /** In pixels. */
  readonly width: number;
  /** In pixels. */
  readonly height: number;
  /** 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. */
  readonly channels: 1 | 2 | 3 | 4;
  /** 8-bit or 16-bit samples. */
  readonly samples: Uint8Array | Uint16Array;
}

interface Header {
  readonly width: number;
  readonly height: number;
  readonly bits: number;
  /** Stored samples of a pixel; 1 for palette indices. */
  readonly stored: 1 | 2 | 3 | 4;
  readonly palette: boolean;
  readonly interlaced: boolean;
}

/** Bytes of image data that a file may have beyond its pixels. */
const SURPLUS_MAX = 2 ** 16;

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

/** By colour type: samples of a pixel, and the allowed bit depths. */
const COLOUR_TYPES: { readonly [type: number]: { stored: 1 | 2 | 3 | 4; bits: readonly number[] } } = {
  0: { stored: 1, bits: [1, 2, 4, 8, 16] },
  2: { stored: 3, bits: [8, 16] },
  3: { stored: 1, bits: [1, 2, 4, 8] },
  4: { stored: 2, bits: [8, 16] },
  6: { stored: 4, bits: [8, 16] },
};

const COLOUR_TYPE_OF = { 1: 0, 2: 4, 3: 2, 4: 6 } as const;

/** Places of the pixels of a pass: every `dx`-th from `x0`, every `dy`-th from `y0`. */
interface Pass {
  readonly x0: number;
  readonly y0: number;
  readonly dx: number;
  readonly dy: number;
}

const PLAIN: readonly Pass[] = [{ x0: 0, y0: 0, dx: 1, dy: 1 }];
const ADAM7: readonly Pass[] = [
  { x0: 0, y0: 0, dx: 8, dy: 8 },
  { x0: 4, y0: 0, dx: 8, dy: 8 },
  { x0: 0, y0: 4, dx: 4, dy: 8 },
  { x0: 2, y0: 0, dx: 4, dy: 4 },
  { x0: 0, y0: 2, dx: 2, dy: 4 },
  { x0: 1, y0: 0, dx: 2, dy: 2 },
  { x0: 0, y0: 1, dx: 1, dy: 2 },
];

export function isPng(bytes: Uint8Array): boolean {
  return SIGNATURE.every((byte, index) => bytes[index] === byte);
}

/** Width and height, from the header alone. */
export function pngSize(bytes: Uint8Array): { width: number; height: number } {
  const { width, height } = headerOf(bytes);
  return { width, height };
}

/**
 * A palette becomes RGB, or RGBA if it has transparency; so does a colour that the file names as transparent. Grey of 16
 * bits stays as it is, because its samples are distances. Samples under 8 bits are scaled to 8.
 */
export function decodePng(bytes: Uint8Array): PngImage {
  const header = headerOf(bytes);
  const { data, palette, transparency } = chunksOf(bytes);
  const passes = header.interlaced ? ADAM7 : PLAIN;
  const raw = inflate(data, passes.reduce((sum, pass) => sum + passBytes(header, pass), 0));
  const samples = unpack(raw, header, passes);
  const { width, height, stored } = header;
  if (header.palette) return { width, height, ...coloured(samples as Uint8Array, palette, transparency) };

  const key = transparentSamples(header, transparency);
  return key
    ? { width, height, ...keyed(samples, stored, key) }
    : { width, height, channels: stored, samples };
}

/** Writes a PNG file. Source: PNG 1.2. */
export function encodePng({ width, height, channels, samples }: PngImage): Uint8Array {
  const bytes = samples.BYTES_PER_ELEMENT;
  const rowBytes = width * channels * bytes;
  const raw = new Uint8Array(height * (1 + rowBytes));
  const source = bytes === 1 ? samples as Uint8Array : bigEndian(samples as Uint16Array);
  for (let y = 0; y < height; y++) {
    // The "up" filter costs one subtraction a byte and makes pictures much smaller than no filter.
    const row = y * (1 + rowBytes);
    raw[row] = y === 0 ? 0 : 2;
    const from = y * rowBytes;
    for (let x = 0; x < rowBytes; x++) {
      const above = y === 0 ? 0 : source[from - rowBytes + x] ?? 0;
      raw[row + 1 + x] = (source[from + x] ?? 0) - above;
    }
  }

  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, bytes * 8);
  header.setUint8(9, COLOUR_TYPE_OF[channels]);

  return joinedBytes([
    Uint8Array.from(SIGNATURE),
    chunk("IHDR", new Uint8Array(header.buffer)),
    chunk("IDAT", deflateSync(raw, { level: 6 })),
    chunk("IEND", new Uint8Array()),
  ]);
}

function headerOf(bytes: Uint8Array): Header {
  if (!isPng(bytes)) throw bad("its first 8 bytes are not those of a PNG file");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 33 || view.getUint32(12) !== 0x49484452 || view.getUint32(8) !== 13) {
    throw bad("it does not begin with a whole IHDR chunk");
  }

  const width = view.getUint32(16), height = view.getUint32(20);
  const bits = view.getUint8(24), type = view.getUint8(25);
  if (width === 0 || height === 0 || width * height > PIXELS_MAX) {
    throw bad(`it says ${width} x ${height} pixels, wanted 1 to ${PIXELS_MAX} pixels`);
  }

  const kind = COLOUR_TYPES[type];
  if (!kind?.bits.includes(bits)) throw bad(`there is no colour type ${type} of ${bits} bits`);
  const interlacing = view.getUint8(28);
  if (bytes[26] !== 0 || bytes[27] !== 0 || interlacing > 1) {
    throw bad("unknown compression, filter or interlace method");
  }

  return { width, height, bits, stored: kind.stored, palette: type === 3, interlaced: interlacing === 1 };
}

/** The image data, the palette, and what is transparent; skips other chunks. */
function chunksOf(bytes: Uint8Array) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const data: Uint8Array[] = [];
  let palette = new Uint8Array(), transparency = new Uint8Array();
  for (let at = SIGNATURE.length; at + 12 <= bytes.length;) {
    const length = view.getUint32(at);
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    const end = at + 8 + length;
    if (end + 4 > bytes.length) throw bad(`its ${type} chunk of ${length} bytes is cut off`);

    const content = bytes.slice(at + 8, end);
    if (type === "IEND") break;
    if (
      ["IHDR", "PLTE", "IDAT"].includes(type) && crc32(bytes.subarray(at + 4, end)) !== view.getUint32(end)
    ) {
      throw bad(`the checksum of its ${type} chunk does not match`);
    }

    if (type === "PLTE") palette = content;
    else if (type === "tRNS") transparency = content;
    else if (type === "IDAT") data.push(content);
    at = end + 4;
  }

  return { data: joinedBytes(data), palette, transparency };
}

function inflate(data: Uint8Array, size: number): Uint8Array {
  let raw: Uint8Array;
  try {
    // Some programs leave out the end of the data, or put in more than belongs to the picture.
    const limits = { maxOutputLength: size + SURPLUS_MAX, finishFlush: constants.Z_SYNC_FLUSH };
    raw = inflateSync(data, limits);
  } catch (cause) {
    throw bad(`its image data cannot be decompressed to ${size} bytes: ${messageOf(cause)}`, cause);
  }
  if (raw.length < size) throw bad(`its image data has ${raw.length} bytes, wanted ${size}`);
  return raw.subarray(0, size);
}

function passSize({ width, height }: Header, { x0, y0, dx, dy }: Pass): { columns: number; rows: number } {
  return { columns: Math.ceil((width - x0) / dx), rows: Math.ceil((height - y0) / dy) };
}

function rowBytesOf({ bits, stored }: Header, columns: number): number {
  return Math.ceil(columns * stored * bits / 8);
}

function passBytes(header: Header, pass: Pass): number {
  const { columns, rows } = passSize(header, pass);
  return columns > 0 && rows > 0 ? rows * (1 + rowBytesOf(header, columns)) : 0;
}

/** Undoes filters and interlacing. */
function unpack(raw: Uint8Array, header: Header, passes: readonly Pass[]): Uint8Array | Uint16Array {
  const { width, height, bits, stored, palette } = header;
  const length = width * height * stored;
  const samples = bits === 16 ? new Uint16Array(length) : new Uint8Array(length);
  const mask = (1 << Math.min(bits, 8)) - 1;
  const scale = bits < 8 && !palette ? 255 / mask : 1;
  let start = 0;
  for (const pass of passes) {
    const { columns, rows } = passSize(header, pass);
    if (columns <= 0 || rows <= 0) continue;

    const rowBytes = rowBytesOf(header, columns);
    unfilter(raw, start, rows, rowBytes, Math.max(1, stored * bits / 8));

    for (let row = 0; row < rows; row++) {
      const from = start + row * (1 + rowBytes) + 1;
      const to = ((pass.y0 + row * pass.dy) * width + pass.x0) * stored;
      if (bits === 8 && pass.dx === 1) {
        samples.set(raw.subarray(from, from + rowBytes), to);
        continue;
      }
      for (let index = 0; index < columns * stored; index++) {
        const pixel = Math.floor(index / stored);
        const bit = index * bits;
        const byte = from + (bit >> 3);
        const value = raw[byte] ?? 0;
        samples[to + pixel * pass.dx * stored + index % stored] = bits === 16
          ? value << 8 | (raw[byte + 1] ?? 0)
          : (value >> (8 - bits - (bit & 7)) & mask) * scale;
      }
    }

    start += rows * (1 + rowBytes);
  }

  return samples;
}

/** Undoes the filter of each row in place; `step` is the distance in bytes to the pixel on the left. */
function unfilter(raw: Uint8Array, start: number, rows: number, rowBytes: number, step: number): void {
  for (let row = 0; row < rows; row++) {
    const at = start + row * (1 + rowBytes) + 1;
    const filter = raw[at - 1] ?? 0;
    if (filter > 4) throw bad(`row ${row} has the unknown filter ${filter}`);

    for (let x = 0; filter !== 0 && x < rowBytes; x++) {
      const left = x >= step ? raw[at + x - step] ?? 0 : 0;
      const above = row > 0 ? raw[at + x - rowBytes - 1] ?? 0 : 0;
      const corner = row > 0 && x >= step ? raw[at + x - rowBytes - 1 - step] ?? 0 : 0;
      raw[at + x] = (raw[at + x] ?? 0) + predicted(filter, left, above, corner);
    }
  }
}

/** What a filter other than "none" takes from a byte. */
function predicted(filter: number, left: number, above: number, corner: number): number {
  if (filter === 1) return left;
  if (filter === 2) return above;
  return filter === 3 ? left + above >> 1 : paeth(left, above, corner);
}

/** The neighbour nearest to left + above - corner. */
function paeth(left: number, above: number, corner: number): number {
  const toLeft = Math.abs(above - corner);
  const toAbove = Math.abs(left - corner);
  const toCorner = Math.abs(left + above - 2 * corner);
  if (toLeft <= toAbove && toLeft <= toCorner) return left;
  return toAbove <= toCorner ? above : corner;
}

function coloured(indices: Uint8Array, palette: Uint8Array, alpha: Uint8Array) {
  const channels = alpha.length > 0 ? 4 as const : 3 as const;
  const colours = palette.length / 3;
  if (colours < 1 || !Number.isInteger(colours)) throw bad(`its palette has ${palette.length} bytes`);
  const samples = new Uint8Array(indices.length * channels);
  for (let pixel = 0, to = 0; pixel < indices.length; pixel++, to += channels) {
    const index = indices[pixel] ?? 0;
    // A colour that the palette lacks is an opaque black, as PNG 3, 13.2 requires.
    samples[to] = palette[index * 3] ?? 0;
    samples[to + 1] = palette[index * 3 + 1] ?? 0;
    samples[to + 2] = palette[index * 3 + 2] ?? 0;
    if (channels === 4) samples[to + 3] = index < colours ? alpha[index] ?? 255 : 255;
  }
  return { channels, samples };
}

/** The samples of the transparent colour, scaled as those of the picture; `undefined` if there is none. */
function transparentSamples({ bits, stored }: Header, transparency: Uint8Array): number[] | undefined {
  const isDepth = stored === 1 && bits === 16;
  if (isDepth || stored === 2 || stored === 4 || transparency.length !== 2 * stored) return undefined;

  const scale = bits < 8 ? 255 / ((1 << bits) - 1) : 1;
  return Array.from({ length: stored }, (_, at) => {
    const value = (transparency[2 * at] ?? 0) << 8 | (transparency[2 * at + 1] ?? 0);
    return (value & (1 << bits) - 1) * scale;
  });
}

/** Adds an alpha channel, in which only the pixels of one colour are transparent. */
function keyed(samples: Uint8Array | Uint16Array, stored: number, key: readonly number[]) {
  const channels = stored === 1 ? 2 as const : 4 as const;
  const length = samples.length / stored * channels;
  const [result, opaque] = samples instanceof Uint16Array
    ? [new Uint16Array(length), 0xffff]
    : [new Uint8Array(length), 0xff];
  for (let from = 0, to = 0; from < samples.length; from += stored, to += channels) {
    let isTransparent = true;
    for (let at = 0; at < stored; at++) {
      const sample = samples[from + at] ?? 0;
      result[to + at] = sample;
      if (sample !== key[at]) isTransparent = false;
    }
    result[to + stored] = isTransparent ? 0 : opaque;
  }
  return { channels, samples: result };
}

function bigEndian(samples: Uint16Array): Uint8Array {
  const bytes = new Uint8Array(samples.length * 2);
  for (let index = 0; index < samples.length; index++) {
    const sample = samples[index] ?? 0;
    bytes[index * 2] = sample >> 8;
    bytes[index * 2 + 1] = sample;
  }
  return bytes;
}

function chunk(type: string, content: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(12 + content.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, content.length);
  for (let index = 0; index < 4; index++) bytes[4 + index] = type.charCodeAt(index);
  bytes.set(content, 8);
  view.setUint32(8 + content.length, crc32(bytes.subarray(4, 8 + content.length)));
  return bytes;
}

function bad(problem: string, cause?: unknown): SvcError {
  return new SvcError("invalid_argument", `cannot read the PNG image: ${problem}`, { cause });
}
