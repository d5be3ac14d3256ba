/** Turning, sizing and cropping of pictures, of colours and of distances alike: whole pixels, nothing in between. */

import { SvcError } from "../../../lib/base/error.ts";
import type { Decoded } from "../../../lib/geometry/image/image.ts";
import type { PixelEdges } from "./drawing.ts";

/** Where a pixel of the new picture comes from; outside of the old one it is black, or without a reading. */
type SourceOf = (x: number, y: number) => readonly [x: number, y: number];

/** Turned clockwise. The picture grows so that its corners stay in it; depth images turn by right angles only. */
export function rotated(content: Decoded, angleDeg: number): Decoded {
  const { width, height } = pictureSize(content);
  const turn = ((angleDeg % 360) + 360) % 360;
  if (turn === 0) return content;
  if (turn === 180) return remapped(content, width, height, (x, y) => [width - 1 - x, height - 1 - y]);
  if (turn === 90) return remapped(content, height, width, (x, y) => [y, height - 1 - x]);
  if (turn === 270) return remapped(content, height, width, (x, y) => [width - 1 - y, x]);

  if (content.kind === "depth") {
    throw new SvcError(
      "invalid_argument",
      `cannot rotate a depth image by ${angleDeg} degrees, wanted a multiple of 90`,
    );
  }

  const radians = turn * Math.PI / 180, [cos, sin] = [Math.cos(radians), Math.sin(radians)];
  const newWidth = Math.ceil(Math.abs(width * cos) + Math.abs(height * sin) - 1e-6);
  const newHeight = Math.ceil(Math.abs(width * sin) + Math.abs(height * cos) - 1e-6);
  const [centerX, centerY] = [(newWidth - 1) / 2, (newHeight - 1) / 2];
  return remapped(content, newWidth, newHeight, (x, y) => {
    const [dx, dy] = [x - centerX, y - centerY];
    return [
      Math.round(cos * dx + sin * dy + (width - 1) / 2),
      Math.round(-sin * dx + cos * dy + (height - 1) / 2),
    ];
  });
}

export function resized(content: Decoded, newWidth: number, newHeight: number): Decoded {
  const { width, height } = pictureSize(content);
  return remapped(content, newWidth, newHeight, (x, y) => [
    Math.min(width - 1, Math.floor((x + 0.5) * width / newWidth)),
    Math.min(height - 1, Math.floor((y + 0.5) * height / newHeight)),
  ]);
}

/** The part of the picture within the edges. Throws `invalid_argument` if there is none. */
export function cropped(content: Decoded, edges: PixelEdges): Decoded {
  const { width, height } = pictureSize(content);
  const [left, top] = [Math.max(0, edges.xMin), Math.max(0, edges.yMin)];
  const [right, bottom] = [Math.min(width, edges.xMax), Math.min(height, edges.yMax)];
  if (right <= left || bottom <= top) {
    throw new SvcError(
      "invalid_argument",
      `the crop leaves nothing of the picture of ${width} x ${height} pixels`,
    );
  }
  return remapped(content, right - left, bottom - top, (x, y) => [x + left, y + top]);
}

export function pictureSize(content: Decoded): { readonly width: number; readonly height: number } {
  return content.kind === "color" ? content.image : content.map;
}

function remapped(content: Decoded, width: number, height: number, sourceOf: SourceOf): Decoded {
  const from = pictureSize(content);
  const sources = (visit: (to: number, from: number) => void) => {
    for (let y = 0, to = 0; y < height; y++) {
      for (let x = 0; x < width; x++, to++) {
        const [fromX, fromY] = sourceOf(x, y);
        const inside = fromX >= 0 && fromY >= 0 && fromX < from.width && fromY < from.height;
        visit(to, inside ? fromY * from.width + fromX : -1);
      }
    }
  };
  if (content.kind === "depth") {
    const data = new Uint16Array(width * height);
    sources((to, at) => data[to] = at < 0 ? 0 : content.map.data[at] ?? 0);
    return { kind: "depth", map: { width, height, data } };
  }

  const pixels = new Uint32Array(width * height), bytes = content.image.rgba;
  // A copy begins at a multiple of four bytes, as whole pixels need.
  const old = new Uint32Array(bytes.slice().buffer);
  const [black = 0] = new Uint32Array(new Uint8Array([0, 0, 0, 255]).buffer);
  sources((to, at) => pixels[to] = at < 0 ? black : old[at] ?? black);

  return { kind: "color", image: { width, height, rgba: new Uint8Array(pixels.buffer) } };
}
