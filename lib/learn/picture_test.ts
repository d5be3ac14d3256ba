import { assertAlmostEquals, assertEquals } from "@std/assert";
import { randomFrom } from "../geometry/random.ts";
import { PICTURE_CHANNELS } from "./network.ts";
import { boxesIn, drawView, fitted, square, variedView, WHOLE } from "./picture.ts";

/** A black picture with a white rectangle, in pixels. */
function rectangle(width: number, height: number, left: number, top: number, right: number, bottom: number) {
  const rgb = new Uint8Array(3 * width * height);
  for (let y = top; y < bottom; y++) rgb.fill(255, 3 * (y * width + left), 3 * (y * width + right));
  const sides = { xMin: left / width, yMin: top / height, xMax: right / width, yMax: bottom / height };
  return { picture: { width, height, rgb }, box: { label: 0, ...sides } };
}

Deno.test("boxesIn: boxes follow the picture through every view", () => {
  const side = 64;
  const { picture, box } = rectangle(160, 120, 60, 40, 110, 80);
  const random = randomFrom(5);
  const batch = new Float32Array(2 * side * side * PICTURE_CHANNELS);
  for (let turn = 0; turn < 50; turn++) {
    const view = { ...variedView(random), gain: [1, 1, 1] as const, lift: 0 };
    drawView(picture, view, batch, 1, side);
    let [xMin, yMin, xMax, yMax] = [side, side, 0, 0];
    for (let place = 0; place < side * side; place++) {
      if (batch[(side * side + place) * PICTURE_CHANNELS] < 0.05) continue;
      const [x, y] = [place % side, Math.floor(place / side)];
      [xMin, yMin] = [Math.min(xMin, x), Math.min(yMin, y)];
      [xMax, yMax] = [Math.max(xMax, x + 1), Math.max(yMax, y + 1)];
    }
    const [found] = boxesIn(view, [box]);
    const painted = { xMin, yMin, xMax, yMax };
    for (const key of ["xMin", "yMin", "xMax", "yMax"] as const) {
      assertAlmostEquals(found[key], painted[key] / side, 1.5 / side, `${key} in view ${turn}`);
    }
  }
});

Deno.test("boxesIn: drops a box that is mostly outside the view", () => {
  const view = { ...WHOLE, left: 0.5, width: 0.5 };
  const box = { label: 1, xMin: 0.3, yMin: 0, xMax: 0.55, yMax: 1 };
  assertEquals(boxesIn(view, [box]), []);
  assertEquals(boxesIn(view, [{ ...box, xMax: 0.75 }]).length, 1);
});

Deno.test("drawView: the whole picture equals the model's input bytes", () => {
  const random = randomFrom(6);
  const rgb = Uint8Array.from({ length: 3 * 50 * 30 }, () => 256 * random());
  const picture = { width: 50, height: 30, rgb };
  const batch = new Float32Array(32 * 32 * PICTURE_CHANNELS);
  drawView(picture, WHOLE, batch, 0, 32);
  const bytes = square(picture, 32);
  for (let place = 0; place < 32 * 32; place++) {
    for (let channel = 0; channel < 3; channel++) {
      assertAlmostEquals(
        batch[place * PICTURE_CHANNELS + channel],
        bytes[3 * place + channel] / 127.5 - 1,
        1e-6,
      );
    }
  }
});

Deno.test("fitted: shrinks large pictures and keeps small pictures", () => {
  const { picture } = rectangle(640, 100, 0, 0, 320, 100);
  const small = fitted(picture);
  assertEquals([small.width, small.height, small.rgb.length], [192, 100, 3 * 192 * 100]);
  assertEquals([small.rgb[3 * 90], small.rgb[3 * 100]], [255, 0]);
  const { picture: same } = rectangle(20, 10, 1, 1, 3, 3);
  assertEquals(fitted(same), same);
});
