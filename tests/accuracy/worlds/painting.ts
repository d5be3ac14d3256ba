/** A picture of a world from above: its walls, the true way, and the ways by the mapper, odometry and scans alone. */

import { encodeImage, MIME } from "../../../lib/geometry/image/image.ts";
import type { World } from "./matrix.ts";
import type { WorldPaths } from "./score.ts";

const SIDE_PX = 900;
const MARGIN_M = 1;
const COLOURS = {
  wall: [60, 60, 60],
  truth: [30, 160, 60],
  odometry: [220, 150, 20],
  scans: [70, 110, 230],
  ours: [220, 30, 60],
} as const;

/** A PNG file. Green is the truth, red ours, orange odometry, blue scans alone. */
export function paintWorld(world: World, paths: WorldPaths): Uint8Array {
  const lines = Object.entries(paths).flatMap(([name, path]) =>
    path.slice(1).map((to: { x: number; y: number }, k: number) => {
      return { from: path[k], to, colour: COLOURS[name as keyof WorldPaths] };
    })
  );
  const walls = world.walls.map(({ fromX, fromY, toX, toY }) => {
    return { from: { x: fromX, y: fromY }, to: { x: toX, y: toY }, colour: COLOURS.wall };
  });
  const all = [...walls, ...lines].flatMap(({ from, to }) => [from, to]);
  const minX = Math.min(...all.map(({ x }) => x)) - MARGIN_M,
    maxX = Math.max(...all.map(({ x }) => x)) + MARGIN_M;
  const minY = Math.min(...all.map(({ y }) => y)) - MARGIN_M,
    maxY = Math.max(...all.map(({ y }) => y)) + MARGIN_M;
  const scale = SIDE_PX / Math.max(maxX - minX, maxY - minY);
  const width = Math.ceil((maxX - minX) * scale), height = Math.ceil((maxY - minY) * scale);
  const rgba = new Uint8Array(4 * width * height).fill(255);
  for (const { from, to, colour } of [...walls, ...lines]) {
    const steps = Math.max(1, Math.ceil(scale * Math.hypot(to.x - from.x, to.y - from.y)));
    for (let step = 0; step <= steps; step++) {
      const x = Math.floor((from.x + (to.x - from.x) * step / steps - minX) * scale);
      const y = height - 1 - Math.floor((from.y + (to.y - from.y) * step / steps - minY) * scale);
      rgba.set(colour, 4 * (width * y + x));
    }
  }
  return encodeImage({ kind: "color", image: { width, height, rgba } }, MIME.png);
}
