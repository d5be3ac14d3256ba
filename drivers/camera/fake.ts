/**
 * A camera without hardware. By default it shows a gradient from yellow to blue, as published, with the depth
 * of a floor with boxes beside it. With `scene`, colours and depth both show that scene, so that a vision
 * service can be tried against a known right answer.
 *
 * A picture that does not move is drawn and encoded once; every answer has the same bytes.
 */

import { type Camera, CameraApi, type CameraProperties, type Images } from "../../lib/api/sensors/camera.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { bool, type Infer, integer, object } from "../../lib/base/schema/schema.ts";
import { depthToCloud } from "../../lib/geometry/image/depth.ts";
import { type ColorImage, encodeImage, MIME, packedRgb } from "../../lib/geometry/image/image.ts";
import { type Intrinsics, scaleIntrinsics } from "../../lib/geometry/image/lens.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud, type PointCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import { type Drawing, drawScene, sceneLens, SCENES } from "./scene.ts";
import { sceneField } from "./scene_settings.ts";
import { chosenSources } from "./sources.ts";

const SIZE_MAX_PX = 10_000;
/**
 * Pixels of a picture with a scene: 1920 x 1080. Nothing else happens in the program while a scene is drawn, which takes
 * a second for this many, and the cloud of more points does not fit in one message.
 */
const SCENE_PIXELS_MAX = 1920 * 1080;
const WIDTH_PX = 1280;
const HEIGHT_PX = 720;
/** How long an animated picture stands still before it moves on by a pixel. */
const ANIMATION_STEP_MS = 20;
/**
 * Longer side of the depth picture that accompanies the gradient; kept small because clients receive it even
 * if they do not ask for it.
 */
const COARSE_MAX_PX = 160;
/** Point limit of a cloud, so that its file (16 bytes a point) fits in one message. */
const POINTS_MAX = 1_000_000;

/** The lens of the published model; it does not follow the picture's size. */
const LENS = {
  focalXPx: 821.32642889,
  focalYPx: 821.68607359,
  centerXPx: 494.95941428,
  centerYPx: 370.70529534,
};
const DISTORTION = {
  model: "brown_conrady",
  parameters: [0.11297234, -0.21375332, -0.01584774, -0.00302002, 0.19969297],
};

const attributes = object({
  width: pixels("width", WIDTH_PX),
  height: pixels("height", HEIGHT_PX),
  animated: bool("move the picture to the right by a pixel every 20 milliseconds").default(false),
  rtpPassthrough: bool("published setting of video streams; without effect on pictures").default(false),
  model: bool(
    "report the published lens parameters (always the same), with distortion, instead of the depth's own; " +
      "no effect with a scene",
  ).default(false),
  scene: sceneField,
}).required().with((settings, at) => {
  const { scene, width, height } = settings;
  if (!scene || width * height <= SCENE_PIXELS_MAX) return settings;
  return at.error(
    `found a picture of ${width} x ${height}, wanted at most ${SCENE_PIXELS_MAX} pixels (1920 x 1080) with a scene`,
  );
});

type Attributes = Infer<typeof attributes>;

/** An even number of pixels; 0 is the default, as published. */
function pixels(side: string, fallback: number) {
  return integer(`${side} in pixels, an even number; 0 means ${fallback}`, { min: 0, max: SIZE_MAX_PX })
    .with((value, at) =>
      value % 2 === 0
        ? value || fallback
        : at.error(`odd-number resolutions cannot be rendered, cannot use a ${side} of ${value}`)
    ).default(fallback);
}

class Fake extends BaseComponent implements Camera {
  readonly #encoded = new Map<string, Uint8Array>();
  #drawn: Drawing | undefined;

  constructor(name: ResourceName, private readonly settings: Attributes, private readonly clock: Clock) {
    super(name);
  }

  getImages(sourceNames: readonly string[] = []): Promise<Images> {
    return Promise.try(() => {
      const images = chosenSources(this.name, ["color", "depth"], sourceNames).map((sourceName) => ({
        sourceName,
        mimeType: sourceName === "depth" ? MIME.depth : MIME.jpeg,
        image: sourceName === "depth" ? this.#depth() : this.#color(),
      }));
      return { images, capturedAtMs: this.clock.nowMs() };
    });
  }

  getPointCloud(): Promise<Uint8Array> {
    return Promise.try(() => this.#once("cloud", () => writePcd(this.#cloud())));
  }

  getProperties(): Promise<CameraProperties> {
    const { scene, model } = this.settings;
    const properties = { supportsPcd: true, mimeTypes: [MIME.jpeg, MIME.depth], intrinsics: this.#lens };
    return Promise.resolve(!scene && model ? { ...properties, distortion: DISTORTION } : properties);
  }

  get #lens(): Intrinsics {
    const { scene, width, height, model } = this.settings;
    return !scene && model ? { widthPx: width, heightPx: height, ...LENS } : sceneLens(width, height);
  }

  #color(): Uint8Array {
    const { animated, scene, width, height } = this.settings;
    const encoded = (image: ColorImage) => encodeImage({ kind: "color", image }, MIME.jpeg);
    if (scene) return this.#once("color", () => encoded(this.#drawing.color));
    if (!animated) return this.#once("color", () => encoded(gradient(width, height, 0)));
    const shift = Math.floor(this.clock.nowMs() / ANIMATION_STEP_MS) % width;
    return encoded(gradient(width, height, shift));
  }

  #depth(): Uint8Array {
    return this.#once("depth", () => encodeImage({ kind: "depth", map: this.#drawing.depth }, MIME.depth));
  }

  #cloud(): PointCloud {
    const { scene, width, height } = this.settings;
    if (!scene) return gradientCloud(width, height);
    const { color, depth } = this.#drawing;
    return depthToCloud(depth, this.#lens, { rgb: packedRgb(color) });
  }

  get #drawing(): Drawing {
    const { scene } = this.settings;
    return this.#drawn ??= scene ? drawScene(scene, this.#lens) : drawScene(SCENES.boxes, coarse(this.#lens));
  }

  #once(what: string, make: () => Uint8Array): Uint8Array {
    const made = this.#encoded.get(what) ?? make();
    this.#encoded.set(what, made);
    return made;
  }
}

export const FakeCamera = model({
  api: CameraApi,
  name: "rdk:builtin:fake",
  doc: "A camera without hardware: shows a gradient or a scene, with depth.",
  attributes,
  construct: ({ name, attributes, clock }) => new Fake(name, attributes, clock),
});

/** The same view in a picture small enough to accompany every colour picture. */
function coarse(lens: Intrinsics): Intrinsics {
  const share = Math.min(1, COARSE_MAX_PX / Math.max(lens.widthPx, lens.heightPx));
  const pixels = (side: number) => Math.max(1, Math.round(side * share));
  return scaleIntrinsics(lens, pixels(lens.widthPx), pixels(lens.heightPx));
}

/** How far a pixel is on the way from yellow (0) to blue (255): its distance from the upper left corner. */
function blueness(x: number, y: number, width: number, height: number): number {
  return 255 * Math.sqrt(x * x + y * y) / Math.sqrt(width * width + height * height);
}

function gradient(width: number, height: number, shift: number): ColorImage {
  const rgba = new Uint8Array(width * height * 4);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const to = (y * width + (x + shift) % width) * 4;
      const blue = blueness(x, y, width, height);
      rgba[to] = rgba[to + 1] = 255 - blue;
      rgba[to + 2] = blue;
      rgba[to + 3] = 255;
    }
  }
  return { width, height, rgba };
}

/** The gradient as a surface with one millimetre to the pixel; blueness is the height. */
function gradientCloud(width: number, height: number): PointCloud {
  const step = Math.ceil(Math.sqrt(width * height / POINTS_MAX));
  const [columns, rows] = [Math.ceil(width / step), Math.ceil(height / step)];
  const count = columns * rows;
  const [x, y, z] = [new Float32Array(count), new Float32Array(count), new Float32Array(count)];
  const rgb = new Uint32Array(count);
  for (let index = 0; index < count; index++) {
    const [px, py] = [index % columns * step, Math.floor(index / columns) * step];
    const blue = blueness(px, py, width, height);
    const yellow = Math.trunc(255 - blue);
    [x[index], y[index], z[index]] = [px / 1000, py / 1000, blue / 1000];
    rgb[index] = yellow << 16 | yellow << 8 | Math.trunc(blue);
  }
  return createCloud({ x, y, z, rgb });
}
