/**
 * Readers beside a second reader of the same format: what both take has to mean the same, and what one refuses, the other
 * refuses, too, except where ours is stricter on purpose.
 */

import { parse as parseStd } from "@std/jsonc";
import { isDeepStrictEqual } from "node:util";
import { PNG } from "pngjs";
import { Buffer } from "node:buffer";
import { crc32, deflateSync } from "node:zlib";
import { JSON_DEPTH_MAX, parseJsonc } from "../../../lib/base/schema/jsonc.ts";
import { decodePng } from "../../../lib/geometry/image/png.ts";
import { joined } from "../damage.ts";
import { bytesOf, type Target } from "../target.ts";

const JSON_WORDS = [
  "1e999",
  "-0",
  "1.5E-7",
  "\\ud83d\\ude00",
  "\\u0000",
  "__proto__",
  "//",
  "/*",
  "*/",
  ",]",
  ",}",
  "[[[[",
];
/** Ours is stricter: a number that is none, a nesting too deep, an empty file, UTF-16. */
const STRICTER = /wanted a number up to|nested deeper than|the file is empty|UTF-16/;

interface Outcome {
  readonly value?: unknown;
  readonly refused?: string;
}

function outcomeOf(read: () => unknown): Outcome {
  try {
    return { value: read() };
  } catch (error) {
    return { refused: error instanceof Error ? error.message : String(error) };
  }
}

/** Throws if the two readers disagree. */
function requireSame(ours: Outcome, other: Outcome, isStricter: (refused: string) => boolean): void {
  if (ours.refused === undefined && other.refused === undefined) {
    if (!isDeepStrictEqual(ours.value, other.value)) {
      throw new Error("both read it, and found different values");
    }
  } else if (ours.refused === undefined) {
    throw new Error(`the other reader refuses what ours takes: ${other.refused}`);
  } else if (other.refused === undefined && !isStricter(ours.refused)) {
    throw new Error(`ours refuses what the other reader takes: ${ours.refused}`);
  }
}

function readJson(bytes: Uint8Array): void {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    // The other readers read text.
    return;
  }

  const ours = outcomeOf(() => parseJsonc(bytes, { file: "f" }));
  const strict = outcomeOf(() => JSON.parse(text));
  if (strict.refused === undefined) return requireSame(ours, strict, (refused) => STRICTER.test(refused));

  // With comments and commas the standard library's reader is the other one; it takes more than the format has.
  const loose = outcomeOf(() => parseStd(text));
  if (ours.refused === undefined) requireSame(ours, loose, () => true);
}

/** By colour type: samples of a pixel, and bit depths. */
const COLOURS = [
  { type: 0, stored: 1, bits: [1, 2, 4, 8, 16] },
  { type: 2, stored: 3, bits: [8, 16] },
  { type: 3, stored: 1, bits: [1, 2, 4, 8] },
  { type: 4, stored: 2, bits: [8, 16] },
  { type: 6, stored: 4, bits: [8, 16] },
];
const SIDE_MAX = 12;
const FILTERS = 5;
const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

/** A PNG file whose kind, size, filters and pixels are taken from the bytes, over and over. */
function pngFrom(bytes: Uint8Array): Uint8Array {
  let at = 0;
  const next = () => bytes.length === 0 ? 0 : bytes[at++ % bytes.length];
  const { type, stored, bits } = COLOURS[next() % COLOURS.length];
  const depth = bits[next() % bits.length];
  const [width, height] = [1 + next() % SIDE_MAX, 1 + next() % SIDE_MAX];
  const isInterlaced = next() % 2 === 1;

  const rows: number[] = [];
  for (const [columns, lines] of isInterlaced ? passSizes(width, height) : [[width, height]]) {
    const rowBytes = Math.ceil(columns * stored * depth / 8);
    for (let line = 0; columns > 0 && line < lines; line++) {
      rows.push(next() % FILTERS);
      for (let column = 0; column < rowBytes; column++) rows.push(next());
    }
  }
  const palette = Uint8Array.from({ length: 3 * 2 ** Math.min(depth, 8) }, next);
  const transparency = Uint8Array.from(
    { length: next() % 2 * transparencyBytes(type, depth) },
    // The other reader takes no notice that only the low bits of a colour count.
    (_, index) =>
      type === 3 ? next() : next() & (index % 2 === 0 ? 2 ** Math.max(0, depth - 8) - 1 : 2 ** depth - 1),
  );
  const header = [...word(width), ...word(height), depth, type, 0, 0, isInterlaced ? 1 : 0];
  return joined(
    SIGNATURE,
    chunk("IHDR", Uint8Array.from(header)),
    type === 3 ? chunk("PLTE", palette) : new Uint8Array(),
    transparency.length > 0 ? chunk("tRNS", transparency) : new Uint8Array(),
    chunk("IDAT", deflateSync(Uint8Array.from(rows))),
    chunk("IEND", new Uint8Array()),
  );
}

/**
 * The length of a tRNS chunk: an alpha for each colour of a palette, or the colour that is transparent. Ours leaves grey
 * of 16 bits as it is.
 */
function transparencyBytes(type: number, depth: number): number {
  if (type === 3) return 2 ** depth;
  if (type === 2) return 6;
  return type === 0 && depth < 16 ? 2 : 0;
}

/** The seven passes of Adam7: columns and lines of each. */
function passSizes(width: number, height: number): [number, number][] {
  const passes = [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2], [
    0,
    1,
    1,
    2,
  ]];
  return passes.map(([x, y, dx, dy]) => [Math.ceil((width - x) / dx), Math.ceil((height - y) / dy)]);
}

function word(value: number): number[] {
  return [value >>> 24, value >>> 16 & 255, value >>> 8 & 255, value & 255];
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const body = joined(bytesOf(type), data);
  return joined(Uint8Array.from(word(data.length)), body, Uint8Array.from(word(crc32(body))));
}

/** Both as RGBA, 8 or 16 bits a sample. */
function readPng(bytes: Uint8Array): void {
  const file = pngFrom(bytes);
  const ours = outcomeOf(() => {
    const { width, height, channels, samples } = decodePng(file);
    return { width, height, samples: seen(rgbaOf(channels, samples)) };
  });
  const other = outcomeOf(() => {
    const { width, height, data } = PNG.sync.read(Buffer.from(file), { skipRescale: depthOf(file) === 16 });
    return { width, height, samples: seen([...data]) };
  });
  requireSame(ours, other, () => false);
}

/** The colour of what is wholly transparent has no meaning. */
function seen(rgba: readonly number[]): number[] {
  return rgba.map((sample, at) => rgba[at - at % 4 + 3] === 0 ? 0 : sample);
}

function depthOf(file: Uint8Array): number {
  return file[24];
}

function rgbaOf(channels: number, samples: Uint8Array | Uint16Array): number[] {
  const opaque = samples.BYTES_PER_ELEMENT === 1 ? 0xff : 0xffff;
  const pixels = Array.from({ length: samples.length / channels }, (_, at) => {
    const pixel = [...samples.subarray(at * channels, (at + 1) * channels)];
    const [one] = pixel;
    return [[one, one, one, opaque], [one, one, one, pixel[1]], [...pixel, opaque], pixel][channels - 1];
  });
  return pixels.flat();
}

export const SAME: readonly Target[] = [
  {
    name: "same/json",
    covers: ["base/schema/jsonc.ts"],
    samples: () =>
      [
        '{"a": [1, -2.5e3, "b\\u00e9\\n", null, true], "e": {"f": ""}}',
        '{"a": 1, // b\n /* c */ "d": [2, 3,],}',
        "[".repeat(JSON_DEPTH_MAX) + "]".repeat(JSON_DEPTH_MAX),
        '"\\ud83d\\ude00"',
        "-0.0e-0",
      ].map(bytesOf),
    words: JSON_WORDS,
    read: readJson,
  },
  {
    name: "same/png",
    covers: ["geometry/image/png.ts"],
    samples: () =>
      Array.from(
        { length: 40 },
        (_, at) => Uint8Array.from({ length: 64 }, (_, index) => at * 7 + index * (at + 3)),
      ),
    read: readPng,
  },
];
