/**
 * A camera that shows the pictures of a folder one after the other.
 *
 * Files whose names end in `color` or `depth` (`7_color.jpg`, `7_depth.png`) are the sources of one frame,
 * named by the part before. In a folder without such files, each picture is the colour of a frame. Frames
 * come in the order of their names, with numbers ordered by value, starting with the first request.
 */

import { type Camera, CameraApi, type CameraProperties, type Images } from "../../lib/api/sensors/camera.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { assert, SvcError } from "../../lib/base/error.ts";
import { bool, type Infer, number, object, text } from "../../lib/base/schema/schema.ts";
import { MIME } from "../../lib/geometry/image/image.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import { PictureFiles } from "./files.ts";
import { distortionField, intrinsicsField } from "./lens.ts";
import { chosenSources } from "./sources.ts";

const FRAMES_PER_SECOND = 10;
const SOURCES = ["color", "depth"] as const;
const NAMED = /^(?:(.*)[-_.])?(color|depth)\.(?:png|jpe?g|dep)$/i;
const PICTURE = /^(.*)\.(?:png|jpe?g)$/i;

const attributes = object({
  folder: text("folder of the pictures: PNG or JPEG for colour, 16-bit PNG or image/vnd.viam.dep for depth")
    .required(),
  frameRate: number("frames a second; 0 shows the next frame at every request for pictures", {
    min: 0,
    max: 1000,
  })
    .default(FRAMES_PER_SECOND),
  loop: bool("start again after the last frame instead of staying on it").default(true),
  intrinsicParameters: intrinsicsField,
  distortionParameters: distortionField,
}).required();

type Attributes = Infer<typeof attributes>;
type Source = typeof SOURCES[number];
/** The file of each source. */
type Frame = ReadonlyMap<Source, string>;

class Replay extends BaseComponent implements Camera {
  readonly #sources: readonly Source[];
  #startedMs: number | undefined;
  #requests = 0;

  constructor(
    name: ResourceName,
    private readonly settings: Attributes,
    private readonly frames: readonly Frame[],
    private readonly files: PictureFiles,
    private readonly clock: Clock,
  ) {
    super(name);
    this.#sources = SOURCES.filter((source) => frames[0]?.has(source));
  }

  async getImages(sourceNames: readonly string[] = []): Promise<Images> {
    const chosen = chosenSources(this.name, this.#sources, sourceNames);
    this.#requests++;
    const frame = this.#frame();
    const images = await Promise.all(chosen.map(async (sourceName) => ({
      sourceName,
      mimeType: sourceName === "depth" ? MIME.depth : MIME.jpeg,
      image: await this.#image(sourceName, frame.get(sourceName)!),
    })));
    return { images, capturedAtMs: this.clock.nowMs() };
  }

  async getPointCloud(): Promise<Uint8Array> {
    const { intrinsicParameters, distortionParameters } = this.settings;
    const frame = this.#frame();
    const depth = frame.get("depth");
    if (depth && intrinsicParameters) {
      return await this.files.readCloud(depth, frame.get("color"), intrinsicParameters, distortionParameters);
    }
    const missing = depth ? "intrinsic_parameters in the attributes" : "depth images in the folder";
    throw new SvcError(
      "failed_precondition",
      `${this.name} cannot make a point cloud: there are no ${missing}`,
    );
  }

  getProperties(): Promise<CameraProperties> {
    const { intrinsicParameters, distortionParameters, frameRate } = this.settings;
    return Promise.resolve({
      supportsPcd: this.#sources.includes("depth") && intrinsicParameters !== undefined,
      intrinsics: intrinsicParameters,
      distortion: distortionParameters,
      mimeTypes: this.#sources.map((source) => source === "depth" ? MIME.depth : MIME.jpeg),
      frameRate: frameRate || undefined,
    });
  }

  /** The frame to show now. */
  #frame(): Frame {
    const { frameRate, loop } = this.settings;
    const nowMs = this.clock.monotonicMs();
    this.#startedMs ??= nowMs;
    const passed = frameRate === 0
      ? Math.max(0, this.#requests - 1)
      : Math.floor((nowMs - this.#startedMs) * frameRate / 1000);
    const frame = this.frames[loop ? passed % this.frames.length : Math.min(passed, this.frames.length - 1)];
    assert(frame, "a folder without pictures is refused");
    return frame;
  }

  #image(source: Source, path: string): Promise<Uint8Array> {
    return source === "color" ? this.files.readColor(path) : this.files.readDepth(path);
  }
}

export const ReplayCamera = model({
  api: CameraApi,
  name: "rdk:builtin:replay",
  doc: "A camera that shows the pictures of a folder one after the other.",
  attributes,
  construct: async ({ name, attributes, host, clock }) => {
    const frames = framesOf(attributes.folder, await host.readFolder(attributes.folder));
    return new Replay(name, attributes, frames, new PictureFiles(name, host), clock);
  },
});

/** At least one frame; all frames have the same sources. */
function framesOf(folder: string, names: readonly string[]): Frame[] {
  const named = names.flatMap((name) => {
    const [, title = "", source] = NAMED.exec(name) ?? [];
    return source ? [{ title, source: source.toLowerCase() as Source, name }] : [];
  });
  const plain = names.flatMap((name) => {
    const title = PICTURE.exec(name)?.[1];
    return title === undefined ? [] : [{ title, source: "color" as const, name }];
  });
  const frames = new Map<string, Map<Source, string>>();
  for (const { title, source, name } of named.length > 0 ? named : plain) {
    const frame = frames.get(title) ?? new Map<Source, string>();
    frames.set(title, frame.set(source, `${folder}/${name}`));
  }

  const sources = SOURCES.filter((source) => [...frames.values()].some((frame) => frame.has(source)));
  if (sources.length === 0) {
    throw new SvcError(
      "failed_precondition",
      `replaying ${folder}: found no pictures, wanted PNG or JPEG files`,
    );
  }

  for (const [title, frame] of frames) {
    const missing = sources.find((source) => !frame.has(source));
    if (missing === undefined) continue;
    const problem = `frame "${title}" has no ${missing} image, while others have`;
    throw new SvcError("failed_precondition", `replaying ${folder}: ${problem}`);
  }

  const order = new Intl.Collator("en", { numeric: true });
  return [...frames].sort(([a], [b]) => order.compare(a, b)).map(([, frame]) => frame);
}
