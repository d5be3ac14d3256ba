/** The pictures of the published `preloaded_image` setting, in our own drawing: discs on top of discs. */

import type { ColorImage } from "../../lib/geometry/image/image.ts";

const SIZE_PX = 480;

/** Centre and radius as fractions of the picture's size, and 0xRRGGBB; later discs cover earlier ones. */
type Disc = readonly [x: number, y: number, radius: number, color: number];

const EYE: readonly (readonly [number, number])[] = [[0.41, 0.43], [0.59, 0.43]];
const TOPPINGS: readonly (readonly [number, number])[] = [
  ...[[0.38, 0.34], [0.6, 0.3], [0.72, 0.48], [0.5, 0.5]] as const,
  ...[[0.3, 0.55], [0.44, 0.7], [0.64, 0.68]] as const,
];
const PEOPLE: readonly (readonly [number, number])[] = [0.35, 0.5, 0.65].flatMap((y, row) =>
  [0.1, 0.3, 0.5, 0.7, 0.9].map((x) => [x + 0.05 * (row % 2), y] as const)
);

const CLOTHES = [0x325096, 0x96323c, 0x3c8250];
const SKINS = [0xf0c8a0, 0x8c5a3c, 0xc89664];

const DRAWINGS = {
  pizza: [
    [0.5, 0.5, 0.45, 0xb9783c],
    [0.5, 0.5, 0.4, 0xf0c85a],
    ...TOPPINGS.map(([x, y]): Disc => [x, y, 0.06, 0xb43228]),
  ],
  dog: [
    [0.26, 0.42, 0.16, 0x5a3c28],
    [0.74, 0.42, 0.16, 0x5a3c28],
    [0.5, 0.5, 0.28, 0xa0784b],
    [0.5, 0.62, 0.14, 0xdcc8a0],
    [0.5, 0.57, 0.05, 0x1e1e1e],
    ...EYE.map(([x, y]): Disc => [x, y, 0.035, 0x1e1e1e]),
  ],
  crowd: PEOPLE.flatMap(([x, y], index): Disc[] => [
    [x, y + 0.16, 0.11, CLOTHES[index % CLOTHES.length] ?? 0],
    [x, y, 0.06, SKINS[index % SKINS.length] ?? 0],
  ]),
} as const satisfies { readonly [name: string]: readonly Disc[] };

export type PictureName = keyof typeof DRAWINGS;

export const PICTURES = Object.keys(DRAWINGS) as PictureName[];

export function pictureOf(name: PictureName): ColorImage {
  const rgba = new Uint8Array(SIZE_PX * SIZE_PX * 4).fill(230);
  for (const [x, y, radius, color] of DRAWINGS[name]) {
    for (let row = 0; row < SIZE_PX; row++) {
      const half = radius ** 2 - (row / SIZE_PX - y) ** 2;
      if (half <= 0) continue;
      const from = Math.round((x - Math.sqrt(half)) * SIZE_PX);
      const to = Math.round((x + Math.sqrt(half)) * SIZE_PX);
      for (let column = Math.max(0, from); column < Math.min(SIZE_PX, to); column++) {
        const at = (row * SIZE_PX + column) * 4;
        [rgba[at], rgba[at + 1], rgba[at + 2]] = [color >> 16, color >> 8 & 255, color & 255];
      }
    }
  }
  for (let at = 3; at < rgba.length; at += 4) rgba[at] = 255;
  return { width: SIZE_PX, height: SIZE_PX, rgba };
}
