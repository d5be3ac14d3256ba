import { assertEquals, assertThrows } from "@std/assert";
import { crc32, deflateSync } from "node:zlib";
import { SvcError } from "../../base/error.ts";
import { decodePng, encodePng, isPng, type PngImage, pngSize } from "./png.ts";

/** A PNG file from a header and raw rows that already carry their filter bytes. */
function png(header: number[], rows: number[], extra: [string, number[]][] = []): Uint8Array<ArrayBuffer> {
  return packed(header, deflateSync(Uint8Array.from(rows)), extra);
}

/** The same from rows that are compressed. */
function packed(
  header: number[],
  data: Uint8Array,
  extra: [string, number[]][] = [],
): Uint8Array<ArrayBuffer> {
  const chunk = (type: string, content: Uint8Array) => {
    const bytes = new Uint8Array(12 + content.length);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, content.length);
    bytes.set(new TextEncoder().encode(type), 4);
    bytes.set(content, 8);
    view.setUint32(8 + content.length, crc32(bytes.subarray(4, 8 + content.length)));
    return [...bytes];
  };
  return Uint8Array.from([
    ...[0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
    ...chunk("IHDR", Uint8Array.from(header)),
    ...extra.flatMap(([type, content]) => chunk(type, Uint8Array.from(content))),
    ...chunk("IDAT", data),
    ...chunk("IEND", new Uint8Array()),
  ]);
}

function header(width: number, height: number, bits: number, type: number, interlaced = 0): number[] {
  return [0, 0, 0, width, 0, 0, 0, height, bits, type, 0, 0, interlaced];
}

function refuses(bytes: Uint8Array, text: string): void {
  const error = assertThrows(() => decodePng(bytes), SvcError, text);
  assertEquals(error.code, "invalid_argument");
}

Deno.test("png: round-trips every number of channels and both depths", () => {
  for (const channels of [1, 2, 3, 4] as const) {
    for (const array of [Uint8Array, Uint16Array]) {
      const samples = new array(5 * 3 * channels).map((_, index) => index * 1237);
      const image: PngImage = { width: 5, height: 3, channels, samples };
      const bytes = encodePng(image);
      assertEquals(isPng(bytes), true);
      assertEquals(pngSize(bytes), { width: 5, height: 3 });
      assertEquals(decodePng(bytes), image);
    }
  }
});

Deno.test("png: decodes all five filters", () => {
  const rows = [0, 10, 20, 30, 1, 10, 5, 5, 2, 1, 1, 1, 3, 4, 4, 4, 4, 1, 2, 3];
  const { samples } = decodePng(png(header(3, 5, 8, 0), rows));
  const none = [10, 20, 30];
  const sub = [10, 15, 20];
  const up = [11, 16, 21];
  const average = [4 + 5, 4 + (9 + 16 >> 1), 4 + (16 + 21 >> 1)];
  const paeth = [1 + 9, 2 + 16, 3 + 22];
  assertEquals([...samples], [...none, ...sub, ...up, ...average, ...paeth]);
});

Deno.test("png: scales samples of 1, 2 and 4 bits to 8 bits", () => {
  assertEquals([...decodePng(png(header(9, 1, 1, 0), [0, 0b10100000, 0b10000000])).samples], [
    ...[255, 0, 255, 0, 0, 0, 0, 0, 255],
  ]);
  assertEquals([...decodePng(png(header(4, 1, 2, 0), [0, 0b00011011])).samples], [0, 85, 170, 255]);
  assertEquals([...decodePng(png(header(3, 1, 4, 0), [0, 0x0f, 0x80])).samples], [0, 255, 136]);
});

Deno.test("png: decodes a palette to RGB, or RGBA with transparency", () => {
  const palette: [string, number[]] = ["PLTE", [1, 2, 3, 4, 5, 6, 7, 8, 9]];
  const plain = decodePng(png(header(4, 1, 2, 3), [0, 0b00011000], [palette]));
  assertEquals([plain.channels, [...plain.samples]], [3, [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3]]);
  const clear = decodePng(png(header(2, 1, 8, 3), [0, 0, 2], [palette, ["tRNS", [7]]]));
  assertEquals([clear.channels, [...clear.samples]], [4, [1, 2, 3, 7, 7, 8, 9, 255]]);
  refuses(png(header(1, 1, 8, 3), [0, 0]), "its palette has 0 bytes");
});

Deno.test("png: a colour that the palette lacks is an opaque black", () => {
  const palette: [string, number[]] = ["PLTE", [255, 255, 255, 128, 128, 128, 0, 0, 255]];
  const rows = [0, 1, 100, 0, 1, 2];
  const plain = decodePng(png(header(2, 2, 8, 3), rows, [palette]));
  assertEquals([...plain.samples], [128, 128, 128, 0, 0, 0, 128, 128, 128, 0, 0, 255]);
  const clear = decodePng(png(header(2, 2, 8, 3), rows, [palette, ["tRNS", [0, 255, 0]]]));
  assertEquals([...clear.samples], [128, 128, 128, 255, 0, 0, 0, 255, 128, 128, 128, 255, 0, 0, 255, 0]);
  const long = decodePng(png(header(1, 1, 2, 3), [0, 0b11000000], [palette, ["tRNS", [9, 9, 9, 9]]]));
  assertEquals([...long.samples], [0, 0, 0, 255]);
});

Deno.test("png: reads image data that is too long, or without its end", () => {
  const rows = [0, 1, 2, 0, 3, 4], size = header(2, 2, 8, 0);
  // A stored block that says 65,535 bytes, holds four more than the picture, and breaks off.
  const stored = Uint8Array.of(0x78, 0x01, 0, 0xff, 0xff, 0, 0, ...rows, 7, 7, 7, 7);
  const whole = deflateSync(Uint8Array.from(rows));
  const withoutChecksum = whole.subarray(0, whole.length - 4);
  const files = [packed(size, stored), png(size, [...rows, 9, 9]), packed(size, withoutChecksum)];
  for (const file of files) assertEquals([...decodePng(file).samples], [1, 2, 3, 4]);

  refuses(packed(size, stored.subarray(0, 12)), "has 5 bytes, wanted 6");
  const wrongChecksum = whole.slice();
  wrongChecksum[whole.length - 1] ^= 1;
  refuses(packed(size, wrongChecksum), "cannot be decompressed to 6 bytes");
});

Deno.test("png: the colour that a file names as transparent gets an alpha of 0, except in distances", () => {
  const key = (...bytes: number[]): [string, number[]] => ["tRNS", bytes];
  const grey = decodePng(png(header(3, 1, 8, 0), [0, 7, 8, 7], [key(0, 7)]));
  assertEquals([grey.channels, [...grey.samples]], [2, [7, 0, 8, 255, 7, 0]]);

  // Of the two bytes only the low bit counts.
  const bit = decodePng(png(header(2, 1, 1, 0), [0, 0b01000000], [key(255, 255)]));
  assertEquals([...bit.samples], [0, 255, 255, 0]);

  const colours = decodePng(png(header(2, 1, 8, 2), [0, 1, 2, 3, 1, 2, 4], [key(0, 1, 0, 2, 0, 3)]));
  assertEquals([colours.channels, [...colours.samples]], [4, [1, 2, 3, 0, 1, 2, 4, 255]]);

  // Samples of two bytes count whole, and keep the high one.
  const [one, two, other] = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [1, 2, 9, 4, 5, 6]];
  const deep = decodePng(png(header(3, 1, 16, 2), [0, ...one, ...two, ...other], [key(...one)]));
  const alphas = [...deep.samples].filter((_, at) => at % 4 === 3);
  assertEquals([deep.channels, alphas.map((alpha) => alpha > 0)], [4, [false, false, true]]);

  const distances = decodePng(png(header(2, 1, 16, 0), [0, 0, 0, 1, 0], [key(0, 0)]));
  assertEquals([distances.channels, [...distances.samples]], [1, [0, 256]]);
});

Deno.test("png: decodes interlaced pictures", () => {
  // 3 x 3 pixels lie in the passes 1 (0,0), 4 (2,0 is pass 4), 5 (row 2), 6 (odd columns of even rows), 7
  // (row 1).
  const rows = [0, 1, 0, 3, 0, 7, 9, 0, 2, 0, 8, 0, 4, 5, 6];
  assertEquals([...decodePng(png(header(3, 3, 8, 0, 1), rows)).samples], [1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

Deno.test("png: refuses broken files", () => {
  const good = png(header(2, 2, 8, 0), [0, 1, 2, 0, 3, 4]);
  refuses(new Uint8Array(), "first 8 bytes");
  refuses(good.subarray(0, 20), "whole IHDR chunk");
  refuses(good.subarray(0, 45), "cut off");
  refuses(png(header(0, 2, 8, 0), []), "0 x 2 pixels");
  refuses(
    png([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0, 0], []),
    "4294967295 x 4294967295 pixels",
  );
  refuses(png(header(2, 2, 5, 0), []), "no colour type 0 of 5 bits");
  refuses(png(header(2, 2, 8, 0, 2), []), "interlace method");
  refuses(png(header(2, 2, 8, 0), [0, 1, 2]), "has 3 bytes, wanted 6");
  refuses(png(header(2, 2, 8, 0), [9, 1, 2, 0, 3, 4]), "unknown filter 9");
  const flipped = good.slice();
  flipped[45] ^= 1;
  refuses(flipped, "checksum of its IDAT chunk");
});

Deno.test("png: refuses data that decompresses beyond the header's size", () => {
  const rows = new Array(3_000_000).fill(0);
  refuses(png(header(2, 2, 8, 0), rows), "cannot be decompressed to 6 bytes");
});
