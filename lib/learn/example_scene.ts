/**
 * Drawn example pictures: cones, balls and boxes of any colour, size and rotation before a cluttered
 * background, none to four in a picture. Used by the example dataset of `svc-cloud serve --demo` and by
 * tests.
 *
 * Promises the same pictures for the same seed, and boxes that fit the painted objects to the pixel.
 */

import { encodePng } from "../geometry/image/png.ts";
import { randomFrom } from "../geometry/random.ts";
import type { Example, LabelledBox } from "./example.ts";

export const EXAMPLE_LABELS = ["cone", "ball", "box"] as const;
type Shape = typeof EXAMPLE_LABELS[number];

const [WIDTH, HEIGHT] = [160, 120];
/** Largest share of an object's box that another one may cover. */
const COVER_MAX = 0.25;
const TRIES_MAX = 30;
const NOISE = 8;

type Color = readonly [number, number, number];
type Random = () => number;

interface SceneOptions {
  /** Least and most objects in a picture. */
  readonly things?: readonly [number, number];
  /** Smallest and largest half size of an object, in pixels of a picture 160 wide and 120 high. */
  readonly radii?: readonly [number, number];
}

/** `count` pictures with their boxes; the labels are the names of the objects. */
export function exampleImages(count: number, seed: number, options?: SceneOptions): Example[] {
  return [...drawExamples(count, seed, options)];
}

/** The same, each drawn when it is asked for: a picture takes some milliseconds. */
export function* drawExamples(
  count: number,
  seed: number,
  { things = [0, 4], radii = [9, 30] }: SceneOptions = {},
): Generator<Example> {
  for (let index = 0; index < count; index++) {
    yield pictureOf(randomFrom(Math.imul(seed, 7919) + index), things, radii);
  }
}

/** The picture as a file. */
export function pngOf({ width, height, rgb }: Example): Uint8Array {
  return encodePng({ width, height, channels: 3, samples: rgb });
}

function pictureOf(
  random: Random,
  [fewest, most]: readonly [number, number],
  [smallest, largest]: readonly [number, number],
): Example {
  const canvas = new Canvas(random);
  canvas.clutter();

  const boxes: LabelledBox[] = [];
  const count = fewest + Math.floor(random() * (most - fewest + 1));
  for (let tries = 0; boxes.length < count && tries < TRIES_MAX; tries++) {
    const label = EXAMPLE_LABELS[Math.floor(random() * EXAMPLE_LABELS.length)] ?? EXAMPLE_LABELS[0];
    const radius = smallest * (largest / smallest) ** random();
    const x = radius + random() * (WIDTH - 2 * radius);
    const y = radius + random() * (HEIGHT - 2 * radius);
    const room = { label, ...sides(x - radius, y - radius, x + radius, y + radius) };
    if (boxes.some((box) => cover(room, box) > COVER_MAX)) continue;
    boxes.push({ label, ...canvas.paint(label, x, y, radius) });
  }

  canvas.noise();
  const labels = EXAMPLE_LABELS.filter((label) => boxes.some((box) => box.label === label));
  return { width: WIDTH, height: HEIGHT, rgb: canvas.rgb, labels, boxes };
}

class Canvas {
  readonly rgb = new Uint8Array(3 * WIDTH * HEIGHT);

  constructor(private readonly random: Random) {}

  /**
   * Paints a background that changes from side to side, with patches, bars and crosses that belong to no
   * object.
   */
  clutter(): void {
    const [from, to] = [this.#color(), this.#color()];
    const [cosTurn, sinTurn] = direction(this.#between(0, 2 * Math.PI));
    within(0, 0, WIDTH, HEIGHT, (column, row, at) => {
      const [x, y] = [column + 0.5, row + 0.5];
      const share = 0.5 + ((x / WIDTH - 0.5) * cosTurn + (y / HEIGHT - 0.5) * sinTurn) * 0.8;
      const part = Math.min(1, Math.max(0, share));
      for (let index = 0; index < 3; index++) {
        this.rgb[at + index] = byteOf(mixed(from[index] ?? 0, to[index] ?? 0, part));
      }
    });

    for (let count = Math.floor(this.#between(3, 10)); count > 0; count--) {
      const [x, y] = [this.#between(0, WIDTH), this.#between(0, HEIGHT)];
      const [cos, sin] = direction(this.#between(0, Math.PI));
      const [length, thickness] = [this.#between(10, 60), this.#between(1.5, 5)];
      const [color, strength, kind] = [this.#color(), this.#between(0.3, 1), this.random()];
      const reach = 1.5 * length;
      within(x - reach, y - reach, x + reach, y + reach, (column, row, at) => {
        const [right, down] = [column + 0.5 - x, row + 0.5 - y];
        const u = right * cos + down * sin;
        const v = down * cos - right * sin;
        if (kind < 0.6) {
          const bar = Math.abs(u) < length && Math.abs(v) < thickness;
          const across = kind >= 0.4 && Math.abs(v) < length / 2 && Math.abs(u) < thickness;
          if (bar || across) this.#mix(at, color, strength);
          return;
        }
        const distance = (u / length) ** 2 + (v / (0.6 * length)) ** 2;
        if (distance <= 2) this.#mix(at, color, strength * Math.exp(-2 * distance));
      });
    }
  }

  /** Paints an object; returns its sides as proportions of the picture. */
  paint(shape: Shape, x: number, y: number, radius: number): Omit<LabelledBox, "label"> {
    const [cos, sin] = direction(
      shape === "cone" ? this.#between(-0.6, 0.6) : this.#between(-Math.PI, Math.PI),
    );
    const light = this.#between(0, 2 * Math.PI);
    const color = this.#color();
    const [stripe, proportion] = [this.random() < 0.5, this.#between(0.75, 1)];
    let [left, top, right, bottom] = [WIDTH, HEIGHT, 0, 0];
    const reach = 1.5 * radius;
    within(x - reach, y - reach, x + reach, y + reach, (column, row, at) => {
      const [px, py] = [column + 0.5, row + 0.5];
      const [dx, dy] = [(px - x) / radius, (py - y) / radius];
      const u = (dx * cos + dy * sin) / (shape === "ball" ? 1 : proportion);
      const v = dy * cos - dx * sin;
      const shade = SHADES[shape](u, v, light);
      if (shade === undefined) return;
      [left, top] = [Math.min(left, px - 0.5), Math.min(top, py - 0.5)];
      [right, bottom] = [Math.max(right, px + 0.5), Math.max(bottom, py + 0.5)];
      const base = stripe && shape === "cone" && v > -0.1 && v < 0.25 ? [235, 235, 235] as const : color;
      for (let index = 0; index < 3; index++) {
        this.rgb[at + index] = byteOf((base[index] ?? 0) * Math.min(1, shade) + 255 * Math.max(0, shade - 1));
      }
    });

    return sides(left, top, right, bottom);
  }

  noise(): void {
    const { rgb, random } = this;
    const light = this.#between(0.75, 1.15);
    for (let at = 0; at < rgb.length; at++) {
      const value = light * (rgb[at] ?? 0) + NOISE * (random() + random() + random() - 1.5);
      rgb[at] = byteOf(value);
    }
  }

  /** Mixes a share of a colour, from 0 to 1, into the pixel whose samples begin at `at`. */
  #mix(at: number, color: Color, part: number): void {
    const { rgb } = this;
    for (let index = 0; index < 3; index++) {
      rgb[at + index] = byteOf(mixed(rgb[at + index] ?? 0, color[index] ?? 0, part));
    }
  }

  #color(): Color {
    return [this.#between(20, 235), this.#between(20, 235), this.#between(20, 235)];
  }

  #between(low: number, high: number): number {
    return low + this.random() * (high - low);
  }
}

/**
 * Brightness of each shape at a place within -1 to 1, with light from the direction `light`; undefined
 * outside the shape.
 */
const SHADES: { readonly [shape in Shape]: (u: number, v: number, light: number) => number | undefined } = {
  ball: (u, v, light) => {
    const depth = 1 - u * u - v * v;
    if (depth < 0) return undefined;
    const towards = 0.6 * (u * Math.cos(light) + v * Math.sin(light)) + 0.8 * Math.sqrt(depth);
    return 0.35 + 0.65 * Math.max(0, towards) + 0.6 * Math.max(0, towards) ** 12;
  },
  cone: (u, v, light) => {
    const half = 0.7 * (v + 1) / 1.8;
    const foot = v > 0.8 ? (u / 0.7) ** 2 + ((v - 0.8) / 0.2) ** 2 < 1 : v > -1 && Math.abs(u) < half;
    if (!foot) return undefined;
    return 0.65 + 0.35 * Math.cos(1.4 * (u / Math.max(0.1, half) - Math.cos(light)));
  },
  box: (u, v, light) => {
    const [sides, bright] = [[0.5, 0.75, 1], Math.floor(light) % 3];
    const corner = 0.4;
    if (u > -1 && u < corner && v > -corner && v < 1) return sides[bright];
    const slide = -corner - v;
    if (slide >= 0 && v > -1 && u - slide > -1 && u - slide < corner) return sides[(bright + 1) % 3];
    const back = u - corner;
    if (back >= 0 && back < 1 - corner && v + back > -corner && v + back < 1) return sides[(bright + 2) % 3];
    return undefined;
  },
};

function direction(angle: number): readonly [cos: number, sin: number] {
  return [Math.cos(angle), Math.sin(angle)];
}

/** Calls `paint` for each pixel whose middle lies between the sides, with the place of its samples. */
function within(
  left: number,
  top: number,
  right: number,
  bottom: number,
  paint: (column: number, row: number, at: number) => void,
): void {
  const [first, last] = [Math.max(0, Math.floor(left)), Math.min(WIDTH, Math.ceil(right))];
  for (let y = Math.max(0, Math.floor(top)); y < Math.min(HEIGHT, bottom); y++) {
    for (let x = first, at = 3 * (y * WIDTH + first); x < last; x++, at += 3) paint(x, y, at);
  }
}

function byteOf(value: number): number {
  if (value <= 0) return 0;
  return value >= 255 ? 255 : Math.floor(value + 0.5);
}

function mixed(from: number, to: number, part: number): number {
  return from + (to - from) * part;
}

function sides(left: number, top: number, right: number, bottom: number): Omit<LabelledBox, "label"> {
  return { xMin: left / WIDTH, yMin: top / HEIGHT, xMax: right / WIDTH, yMax: bottom / HEIGHT };
}

/** The larger of the shares of the two boxes that the other one covers. */
function cover(a: LabelledBox, b: LabelledBox): number {
  const width = Math.min(a.xMax, b.xMax) - Math.max(a.xMin, b.xMin);
  const height = Math.min(a.yMax, b.yMax) - Math.max(a.yMin, b.yMin);
  const area = (box: LabelledBox) => (box.xMax - box.xMin) * (box.yMax - box.yMin);
  return width <= 0 || height <= 0 ? 0 : width * height / Math.min(area(a), area(b));
}
