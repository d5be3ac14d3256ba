import { assert, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import {
  type ColorImage,
  type Decoded,
  decodeImage,
  encodeImage,
  imageSize,
  MIME,
  mimeTypeOf,
  packedRgb,
} from "./image.ts";
import { encodePng } from "./png.ts";
import { randomFrom } from "../random.ts";

const WIDTH = 16, HEIGHT = 8;

/** Left half red, right half blue. */
function halves(): ColorImage {
  const rgba = new Uint8Array(WIDTH * HEIGHT * 4);
  for (let pixel = 0; pixel < WIDTH * HEIGHT; pixel++) {
    rgba.set(pixel % WIDTH < WIDTH / 2 ? [255, 0, 0, 255] : [0, 0, 255, 255], pixel * 4);
  }
  return { width: WIDTH, height: HEIGHT, rgba };
}

const color: Decoded = { kind: "color", image: halves() };
const depth: Decoded = {
  kind: "depth",
  map: { width: 3, height: 2, data: Uint16Array.from([0, 1, 256, 1000, 65535, 7]) },
};

function refused(bytes: Uint8Array, text: string): void {
  const error = assertThrows(() => decodeImage(bytes), SvcError, text);
  assertEquals(error.code, "invalid_argument");
}

Deno.test("image: PNG, raw RGBA and raw depth round-trip without loss", () => {
  for (const mimeType of [MIME.png, MIME.rgba]) {
    const bytes = encodeImage(color, mimeType);
    assertEquals(mimeTypeOf(bytes), mimeType);
    assertEquals(imageSize(bytes), { width: WIDTH, height: HEIGHT });
    assertEquals(decodeImage(bytes), color);
  }
  for (const mimeType of [MIME.png, MIME.depth]) {
    const bytes = encodeImage(depth, mimeType);
    assertEquals(mimeTypeOf(bytes), mimeType);
    assertEquals(imageSize(bytes), { width: 3, height: 2 });
    assertEquals(decodeImage(bytes), depth);
  }
});

Deno.test("image: JPEG keeps size and colours", () => {
  const bytes = encodeImage(color, MIME.jpeg);
  assertEquals(mimeTypeOf(bytes), MIME.jpeg);
  assertEquals(imageSize(bytes), { width: WIDTH, height: HEIGHT });
  const decoded = decodeImage(bytes);
  assert(decoded.kind === "color");
  const { rgba } = decoded.image;
  assert(rgba[0] > 240 && rgba[2] < 20, "the left is red");
  assert(rgba[(WIDTH - 1) * 4] < 20 && rgba[(WIDTH - 1) * 4 + 2] > 240, "the right is blue");
});

Deno.test("image: a grey PNG becomes a colour image, and 16-bit colours keep the upper 8 bits", () => {
  const grey = encodePng({ width: 2, height: 1, channels: 1, samples: Uint8Array.from([3, 200]) });
  const rgb = encodePng({
    width: 1,
    height: 1,
    channels: 3,
    samples: Uint16Array.from([0x1234, 0xff00, 0x00ff]),
  });
  const pair = encodePng({ width: 1, height: 1, channels: 2, samples: Uint8Array.from([9, 4]) });
  const rgbaOf = (bytes: Uint8Array) => {
    const decoded = decodeImage(bytes);
    return decoded.kind === "color" ? [...decoded.image.rgba] : [];
  };
  assertEquals(rgbaOf(grey), [3, 3, 3, 255, 200, 200, 200, 255]);
  assertEquals(rgbaOf(rgb), [0x12, 0xff, 0, 255]);
  assertEquals(rgbaOf(pair), [9, 9, 9, 4]);
});

Deno.test("packedRgb: packs pixel colours as in a point cloud", () => {
  const packed = packedRgb(halves());
  assertEquals([packed[0], packed[WIDTH - 1]], [0xff0000, 0x0000ff]);
});

Deno.test("encodeImage: refuses a format that cannot hold the content", () => {
  assertThrows(() => encodeImage(color, MIME.depth), SvcError, "cannot become image/vnd.viam.dep");
  assertThrows(() => encodeImage(depth, MIME.jpeg), SvcError, "a depth map cannot become image/jpeg");
  assertThrows(() => encodeImage(color, "image/qoi"), SvcError, "cannot become image/qoi");
});

Deno.test("decodeImage: refuses sizes that do not match the bytes before allocation", () => {
  const huge = (mark: string, header: number) => {
    const bytes = new Uint8Array(header).fill(0x7f);
    bytes.set(new TextEncoder().encode(mark));
    return bytes;
  };
  refused(new Uint8Array(), "found no bytes");
  refused(new TextEncoder().encode("GIF89a"), "6 bytes of something else");
  refused(huge("RGBA", 12), "pixels, wanted 1 to 50000000");
  refused(huge("DEPTHMAP", 24), "pixels, wanted 1 to 50000000");
  refused(huge("RGBA", 5), "ends within its header");
  refused(encodeImage(color, MIME.rgba).subarray(0, 100), "has 100 bytes, wanted 524");
  refused(encodeImage(depth, MIME.depth).subarray(0, 30), "has 30 bytes, wanted 36");
  refused(
    Uint8Array.from([0xff, 0xd8, 0xff, 0xc0, 0, 17, 8, 0xff, 0xff, 0xff, 0xff, 3]),
    "65535 x 65535 pixels",
  );
  refused(Uint8Array.from([0xff, 0xd8, 0xff, 0xd9]), "no frame header");
});

Deno.test("decodeImage: a broken file is refused without another effect", () => {
  const next = randomFrom(7);
  for (const mimeType of [MIME.jpeg, MIME.png, MIME.rgba]) {
    const good = encodeImage(color, mimeType);
    for (let round = 0; round < 200; round++) {
      const bytes = good.slice(0, round % 2 === 0 ? good.length : Math.floor(next() * good.length));
      for (let flips = 0; flips < 3; flips++) {
        bytes[Math.floor(next() * bytes.length)] = Math.floor(next() * 256);
      }
      try {
        const decoded = decodeImage(bytes);
        assert(decoded.kind !== "color" || decoded.image.rgba.length <= 4 * 50_000_000);
      } catch (error) {
        assert(error instanceof SvcError && error.code === "invalid_argument", String(error));
      }
    }
  }
});
