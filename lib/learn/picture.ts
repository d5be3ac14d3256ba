/**
 * A network's view of a picture: a part of it, bilinearly stretched to a square, with variations during
 * training.
 *
 * The whole picture is stretched without keeping its proportions, as the vision service does it, so that a
 * model sees the same in use as in training.
 */

import { PICTURE_CHANNELS } from "./network.ts";

/** A box with the number of its label. */
export interface NumberedBox {
  readonly label: number;
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

/** Networks take squares of up to 128 pixels; half as much again leaves room to enlarge a part. */
const SIDE_MAX = 192;
/** Value beyond the picture's edge: the middle of the range, which the network sees as zero. */
const OUTSIDE = 127.5;
/** A box counts in a view only if at least this share of it is visible. */
const BOX_SHARE_MIN = 0.4;

interface Picture {
  readonly width: number;
  readonly height: number;
  readonly rgb: Uint8Array;
}

/**
 * The part of a picture to look at (in proportions; may reach beyond the picture), and the changes of light
 * and colour.
 */
export interface Crop {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly mirrored: boolean;
  /** Red, green and blue are each multiplied by their `gain`, then raised by `lift`. */
  readonly gain: readonly [number, number, number];
  readonly lift: number;
}

export const WHOLE: Crop = {
  left: 0,
  top: 0,
  width: 1,
  height: 1,
  mirrored: false,
  gain: [1, 1, 1],
  lift: 0,
};

/** A random view: shifted, enlarged or reduced, mirrored, lighter or darker, with other colours. */
export function variedView(random: () => number): Crop {
  const around = (spread: number) => spread * (2 * random() - 1);
  const size = Math.exp(around(0.3));
  const [width, height] = [size * Math.exp(around(0.1)), size * Math.exp(around(0.1))];
  const light = Math.exp(around(0.25));
  return {
    left: (1 - width) * random(),
    top: (1 - height) * random(),
    width,
    height,
    mirrored: random() < 0.5,
    gain: [light * Math.exp(around(0.1)), light * Math.exp(around(0.1)), light * Math.exp(around(0.1))],
    lift: around(20),
  };
}

/** The boxes in a view's coordinates, without the parts outside it. */
export function boxesIn(view: Crop, boxes: readonly NumberedBox[]): NumberedBox[] {
  return boxes.flatMap((box) => {
    const first = (box.xMin - view.left) / view.width, second = (box.xMax - view.left) / view.width;
    const top = (box.yMin - view.top) / view.height, bottom = (box.yMax - view.top) / view.height;
    const left = view.mirrored ? 1 - second : first, right = view.mirrored ? 1 - first : second;
    const inside = (value: number) => Math.min(1, Math.max(0, value));
    const xMin = inside(left), xMax = inside(right), yMin = inside(top), yMax = inside(bottom);
    const left_over = (xMax - xMin) * (yMax - yMin) / ((right - left) * (bottom - top));
    return left_over < BOX_SHARE_MIN ? [] : [{ label: box.label, xMin, yMin, xMax, yMax }];
  });
}

/** Writes a view of a picture as number `index` of a batch of squares, from -1 for black to 1 for white. */
export function drawView(
  picture: Picture,
  view: Crop,
  into: Float32Array,
  index: number,
  side: number,
): void {
  const columns = taps(picture.width, view.left, view.width, side, view.mirrored);
  const rows = taps(picture.height, view.top, view.height, side, false);
  const { rgb, width } = picture;
  let at = index * side * side * PICTURE_CHANNELS;
  for (let y = 0; y < side; y++) {
    const upper = 3 * width * (rows.first[y] ?? -1), lower = 3 * width * (rows.second[y] ?? -1);
    const down = rows.share[y] ?? 0;
    for (let x = 0; x < side; x++, at += PICTURE_CHANNELS) {
      const left = 3 * (columns.first[x] ?? -1), right = 3 * (columns.second[x] ?? -1);
      const across = columns.share[x] ?? 0;
      const outside = left < 0 || upper < 0;
      for (let channel = 0; channel < 3; channel++) {
        let value = OUTSIDE;
        if (!outside) {
          const a = rgb[upper + left + channel] ?? 0, b = rgb[upper + right + channel] ?? 0;
          const c = rgb[lower + left + channel] ?? 0, d = rgb[lower + right + channel] ?? 0;
          const [above, below] = [a + (b - a) * across, c + (d - c) * across];
          const varied = (above + (below - above) * down) * (view.gain[channel] ?? 1) + view.lift;
          // Rounds, because in use the network receives bytes.
          value = Math.round(Math.min(Math.max(varied, 0), 255));
        }
        into[at + channel] = value / 127.5 - 1;
      }
    }
  }
}

/**
 * For each of `side` places: the two pixels around it and the weight of the second; -1 for a place outside.
 */
function taps(count: number, start: number, length: number, side: number, mirrored: boolean) {
  const [first, second, share] = [new Int32Array(side), new Int32Array(side), new Float64Array(side)];
  for (let place = 0; place < side; place++) {
    const part = (mirrored ? side - 1 - place : place) + 0.5;
    const along = (start + length * part / side) * count;
    const at = Math.min(count - 1, Math.max(0, along - 0.5));
    const before = along < 0 || along > count ? -1 : Math.floor(at);
    first[place] = before;
    second[place] = Math.min(count - 1, before + 1);
    share[place] = at - Math.floor(at);
  }
  return { first, second, share };
}

/** The whole picture as a square of bytes, three for each pixel. */
export function square(picture: Picture, side: number): Uint8Array {
  return resized(picture, side, side);
}

/** The picture, reduced if it is larger than training needs, else copied. */
export function fitted({ width, height, rgb }: Picture): Picture {
  const size = [Math.min(width, SIDE_MAX), Math.min(height, SIDE_MAX)] as const;
  return { width: size[0], height: size[1], rgb: resized({ width, height, rgb }, ...size) };
}

function resized({ width, height, rgb }: Picture, toWidth: number, toHeight: number): Uint8Array {
  if (width === toWidth && height === toHeight) return rgb.slice();
  const columns = taps(width, 0, 1, toWidth, false);
  const rows = taps(height, 0, 1, toHeight, false);
  const bytes = new Uint8Array(3 * toWidth * toHeight);
  for (let y = 0, at = 0; y < toHeight; y++) {
    const upper = 3 * width * (rows.first[y] ?? -1), lower = 3 * width * (rows.second[y] ?? -1);
    const down = rows.share[y] ?? 0;
    for (let x = 0; x < toWidth; x++) {
      const left = 3 * (columns.first[x] ?? -1), right = 3 * (columns.second[x] ?? -1);
      const across = columns.share[x] ?? 0;
      for (let channel = 0; channel < 3; channel++, at++) {
        const a = rgb[upper + left + channel] ?? 0, b = rgb[upper + right + channel] ?? 0;
        const c = rgb[lower + left + channel] ?? 0, d = rgb[lower + right + channel] ?? 0;
        const [above, below] = [a + (b - a) * across, c + (d - c) * across];
        bytes[at] = Math.round(above + (below - above) * down);
      }
    }
  }

  return bytes;
}
