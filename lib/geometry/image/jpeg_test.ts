import { assert, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { joinedBytes } from "../../base/files/byte_reader.ts";
import { type ColorImage, decodeImage, imageSize } from "./image.ts";
import { decodeJpeg, encodeJpeg, jpegHeader, type Orientation, upright } from "./jpeg.ts";

const WIDTH = 32, HEIGHT = 16;
const RED = [255, 0, 0], GREEN = [0, 255, 0], BLUE = [0, 0, 255], WHITE = [255, 255, 255];

/** Red and green above, blue and white below. */
function quarters(): ColorImage {
  const rgba = new Uint8Array(WIDTH * HEIGHT * 4);
  for (let pixel = 0; pixel < WIDTH * HEIGHT; pixel++) {
    const [x, y] = [pixel % WIDTH, Math.floor(pixel / WIDTH)];
    const [left, right] = y < HEIGHT / 2 ? [RED, GREEN] : [BLUE, WHITE];
    rgba.set([...x < WIDTH / 2 ? left : right, 255], pixel * 4);
  }
  return { width: WIDTH, height: HEIGHT, rgba };
}

/** The colours near the four corners, in rows. */
function corners({ width, height, rgba }: ColorImage): string {
  const at = (x: number, y: number) => {
    const [red, green, blue] = rgba.subarray((y * width + x) * 4);
    if (red > 128) return green > 128 ? "W" : "R";
    return blue > 128 ? "B" : "G";
  };
  return at(1, 1) + at(width - 2, 1) + at(1, height - 2) + at(width - 2, height - 2);
}

function segment(marker: number, content: Uint8Array): Uint8Array {
  const length = content.length + 2;
  return joinedBytes([Uint8Array.of(0xff, marker, length >> 8, length & 0xff), content]);
}

function exif(orientation: number, order: "II" | "MM" = "MM"): Uint8Array {
  const tiff = new DataView(new ArrayBuffer(8 + 2 + 24 + 4));
  const isLittle = order === "II";
  tiff.setUint16(0, order === "II" ? 0x4949 : 0x4d4d);
  tiff.setUint16(2, 42, isLittle);
  tiff.setUint32(4, 8, isLittle);
  tiff.setUint16(8, 2, isLittle);
  // The width of the picture, then the orientation.
  tiff.setUint16(10, 0x0100, isLittle);
  tiff.setUint16(22, 0x0112, isLittle);
  tiff.setUint16(24, 3, isLittle);
  tiff.setUint32(26, 1, isLittle);
  tiff.setUint16(30, orientation, isLittle);
  return segment(0xe1, joinedBytes([new TextEncoder().encode("Exif\0\0"), new Uint8Array(tiff.buffer)]));
}

function adobe(transform: number): Uint8Array {
  return segment(
    0xee,
    joinedBytes([new TextEncoder().encode("Adobe"), Uint8Array.of(0, 100, 0, 0, 0, 0, transform)]),
  );
}

/** Puts bytes behind the start of the file. */
function withHead(file: Uint8Array, ...parts: Uint8Array[]): Uint8Array {
  return joinedBytes([file.subarray(0, 2), ...parts, file.subarray(2)]);
}

/** The place of the first segment with this marker. */
function placeOf(file: Uint8Array, marker: number): number {
  return file.findIndex((byte, at) => byte === 0xff && file[at + 1] === marker);
}

function withoutJfif(file: Uint8Array): Uint8Array {
  const at = placeOf(file, 0xe0);
  return joinedBytes([file.subarray(0, at), file.subarray(at + 2 + (file[at + 2] << 8 | file[at + 3]))]);
}

const FILE = encodeJpeg(quarters());

Deno.test("decodeJpeg: shows each of the eight orientations upright", () => {
  const seen = {
    1: "RGBW",
    2: "GRWB",
    3: "WBGR",
    4: "BWRG",
    5: "RBGW",
    6: "BRWG",
    7: "WGBR",
    8: "GWRB",
  };
  for (const [text, wanted] of Object.entries(seen)) {
    for (const order of ["II", "MM"] as const) {
      const file = withHead(FILE, exif(Number(text), order));
      const image = decodeJpeg(file);
      assertEquals(corners(image), wanted, `orientation ${text}`);
      const size = { width: image.width, height: image.height };
      assertEquals(
        size,
        Number(text) >= 5 ? { width: HEIGHT, height: WIDTH } : { width: WIDTH, height: HEIGHT },
      );
      assertEquals(imageSize(file), size);
    }
  }
});

Deno.test("upright: the eight orientations keep every pixel", () => {
  const image = quarters();
  const sum = ({ rgba }: ColorImage) => rgba.reduce((all, byte) => all + byte, 0);
  for (let one = 1; one <= 8; one++) assertEquals(sum(upright(image, one as Orientation)), sum(image));
});

Deno.test("jpegHeader: an unusable orientation counts as upright", () => {
  for (
    const head of [
      exif(0),
      exif(9),
      exif(6).subarray(0, 20),
      segment(0xe1, new TextEncoder().encode("http://")),
    ]
  ) {
    assertEquals(jpegHeader(withHead(FILE, head)).orientation, 1);
  }
});

Deno.test("decodeJpeg: stray bytes between segments, fill bytes and bytes behind the end change nothing", () => {
  const plain = decodeJpeg(FILE);
  for (const marker of [0xdb, 0xc4, 0xc0, 0xda]) {
    const at = placeOf(FILE, marker);
    for (const stray of [[0, 0x12, 0x34], [0, 0, 0, 0, 0], [0xff, 0xff], [0xff, 0x00, 0xff]]) {
      const file = joinedBytes([FILE.subarray(0, at), Uint8Array.from(stray), FILE.subarray(at)]);
      assertEquals(decodeJpeg(file), plain, `${stray} before ${marker.toString(16)}`);
    }
  }
  assertEquals(decodeJpeg(joinedBytes([FILE, new TextEncoder().encode("and more")])), plain);
});

Deno.test("decodeJpeg: a missing end marker is no fault, and a picture that breaks off keeps its beginning", () => {
  const plain = decodeJpeg(FILE);
  assertEquals(decodeJpeg(FILE.subarray(0, -2)), plain);
  assertEquals(decodeJpeg(FILE.subarray(0, -1)), plain);
  const scan = placeOf(FILE, 0xda) + 14;
  const half = decodeJpeg(FILE.subarray(0, scan + Math.floor((FILE.length - scan) / 2)));
  assertEquals(corners(half)[0], "R");
  assertThrows(() => decodeJpeg(FILE.subarray(0, scan - 14)), SvcError, "it breaks off in its header");
});

Deno.test("decodeJpeg: takes colours as RGB where the file says so", () => {
  const bare = withoutJfif(FILE);
  const [y, cb, cr] = decodeJpeg(withHead(bare, adobe(0))).rgba;
  // Luminance and chrominance of red.
  assert(Math.abs(y - 76) < 4 && Math.abs(cb - 85) < 4 && Math.abs(cr - 255) < 4, `${y} ${cb} ${cr}`);
  assertEquals(corners(decodeJpeg(withHead(bare, adobe(1)))), "RGBW");
  assertEquals(corners(decodeJpeg(bare)), "RGBW");
  const named = bare.slice();
  const frame = placeOf(named, 0xc0);
  const scan = placeOf(named, 0xda);
  for (const [index, letter] of [..."RGB"].entries()) {
    named[frame + 10 + 3 * index] = named[scan + 5 + 2 * index] = letter.charCodeAt(0);
  }
  assertEquals([...decodeJpeg(named).rgba.subarray(0, 3)], [y, cb, cr]);
});

Deno.test("decodeJpeg: refuses a file whose many scans would occupy it for long", () => {
  const [frame, scan] = [placeOf(FILE, 0xc0), placeOf(FILE, 0xda)];
  const body = FILE.subarray(scan, -2);
  const many = joinedBytes([
    FILE.subarray(0, scan),
    ...Array.from({ length: 101 }, () => body),
    FILE.subarray(-2),
  ]);
  assertThrows(() => decodeImage(many), SvcError, "it has 101 scans of 512 pixels or more, wanted fewer");
  const large = joinedBytes([
    FILE.subarray(0, scan),
    ...Array.from({ length: 25 }, () => body),
    FILE.subarray(-2),
  ]);
  new DataView(large.buffer).setUint32(frame + 5, 7000 << 16 | 7000);
  assertThrows(() => decodeImage(large), SvcError, "scans of 49000000 pixels");
});
