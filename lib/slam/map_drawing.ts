/** The map as images for people and programs: a drawing with trajectories and loop closures, and the map of ROS. */

import type { ColorImage } from "../geometry/image/image.ts";
import { intensityOf, type MapPicture, PIXEL_M } from "./map_picture.ts";
import type { MapState, NodeState } from "./map_state.ts";
import type { Pose2d } from "./pose2d.ts";

type Colour = readonly [red: number, green: number, blue: number];

const UNKNOWN: Colour = [214, 220, 230];
const TRAJECTORIES: readonly [Colour, ...Colour[]] = [
  [30, 100, 220],
  [20, 150, 90],
  [170, 80, 200],
  [210, 130, 20],
];
const CLOSURE: Colour = [235, 120, 120];
const SUBMAP: Colour = [200, 30, 30];
/** The value of unknown cells in ROS. */
const PGM_UNKNOWN = 205;

/** The picture in shades of grey, and over it the trajectories, submaps and loop closures of `map`. */
export function drawMap(picture: MapPicture, map?: MapState): ColorImage {
  const { width, height, known } = picture;
  const rgba = new Uint8Array(4 * width * height);
  for (let pixel = 0; pixel < known.length; pixel++) {
    const shade = intensityOf(picture, pixel);
    rgba.set(known[pixel] === 0 ? [...UNKNOWN, 255] : [shade, shade, shade, 255], 4 * pixel);
  }
  const image = { width, height, rgba };
  if (map) drawParts(new Drawing(image, picture), map);
  return image;
}

function drawParts(drawing: Drawing, map: MapState): void {
  const key = ({ trajectory, index }: { trajectory: number; index: number }) => `${trajectory} ${index}`;
  const submaps = new Map(map.submaps.map((one) => [key(one), one.globalPose]));
  const nodes = new Map(map.nodes.map((one) => [key(one), one.globalPose]));
  for (const { kind, submap, node } of map.constraints) {
    const [from, to] = [submaps.get(key(submap)), nodes.get(key(node))];
    if (kind === "inter" && from && to) drawing.line(from, to, CLOSURE);
  }
  const byTrajectory = Map.groupBy(map.nodes, ({ trajectory }) => trajectory);
  for (const [trajectory, all] of byTrajectory) {
    const colour = TRAJECTORIES.at(trajectory % TRAJECTORIES.length) ?? TRAJECTORIES[0];
    let before: NodeState | undefined;
    for (const node of all.toSorted((a, b) => a.index - b.index)) {
      if (before) drawing.line(before.globalPose, node.globalPose, colour);
      before = node;
    }
  }
  for (const pose of submaps.values()) drawing.dot(pose, SUBMAP);
}

class Drawing {
  constructor(private readonly image: ColorImage, private readonly picture: MapPicture) {}

  /** A line between two places; the part outside the picture is left out. */
  line(from: Pose2d, to: Pose2d, colour: Colour): void {
    const [fromX, fromY] = this.#pixelOf(from);
    const [toX, toY] = this.#pixelOf(to);
    const steps = Math.ceil(Math.max(Math.abs(toX - fromX), Math.abs(toY - fromY)));
    // Lines longer than the picture come only from wrong poses.
    if (!(steps <= this.image.width + this.image.height)) return;
    for (let step = 0; step <= steps; step++) {
      const share = steps === 0 ? 0 : step / steps;
      this.#paint(fromX + (toX - fromX) * share, fromY + (toY - fromY) * share, colour);
    }
  }

  dot(at: Pose2d, colour: Colour): void {
    const [x, y] = this.#pixelOf(at);
    for (const dx of [-1, 0, 1]) for (const dy of [-1, 0, 1]) this.#paint(x + dx, y + dy, colour);
  }

  #pixelOf({ x, y }: Pose2d): [number, number] {
    return [this.picture.originX + x / PIXEL_M, this.picture.originY - y / PIXEL_M];
  }

  #paint(x: number, y: number, colour: Colour): void {
    const [column, row] = [Math.round(x), Math.round(y)];
    const { width, height, rgba } = this.image;
    if (column >= 0 && row >= 0 && column < width && row < height) {
      rgba.set(colour, 4 * (row * width + column));
    }
  }
}

/** The map in the form of ROS: a greyscale image, and the text with its place. `image` is the name of its file. */
export function rosMap(
  picture: MapPicture,
  image: string,
): { readonly pgm: Uint8Array; readonly yaml: string } {
  const { width, height, originX, originY, known } = picture;
  const head = new TextEncoder().encode(`P5\n${width} ${height}\n255\n`);
  const pgm = new Uint8Array(head.length + known.length);
  pgm.set(head);
  for (let pixel = 0; pixel < known.length; pixel++) {
    pgm[head.length + pixel] = known[pixel] === 0 ? PGM_UNKNOWN : knownShade(intensityOf(picture, pixel));
  }
  // The corner of the lowest pixel on the left; the pixel's own place is its middle.
  const metres = (pixels: number) => (pixels * PIXEL_M).toFixed(3);
  const origin = `[${metres(-originX - 0.5)}, ${metres(originY - height + 0.5)}, 0]`;
  const yaml = [
    `image: ${JSON.stringify(image)}`,
    `resolution: ${PIXEL_M}`,
    `origin: ${origin}`,
    "negate: 0",
    "occupied_thresh: 0.65",
    "free_thresh: 0.196",
    "",
  ].join("\n");
  return { pgm, yaml };
}

/** Avoids the shade of unknown pixels. */
function knownShade(intensity: number): number {
  return intensity === PGM_UNKNOWN ? PGM_UNKNOWN + 1 : intensity;
}
