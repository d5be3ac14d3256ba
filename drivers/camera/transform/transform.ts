/**
 * `transform`: another camera's picture, changed by stages one after the other: rotate, resize, crop, detections,
 * classifications. The first picture of the other camera counts.
 */

import {
  type Camera,
  CameraApi,
  type CameraProperties,
  type Images,
} from "../../../lib/api/sensors/camera.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { anyObject, type Infer, list, object, text } from "../../../lib/base/schema/schema.ts";
import { writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { depthToCloud } from "../../../lib/geometry/image/depth.ts";
import { type Decoded, decodeImage, encodeImage, MIME } from "../../../lib/geometry/image/image.ts";
import type { ResourceName } from "../../../lib/resource/name.ts";
import { type Dependencies, model } from "../../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../../lib/resource/resource.ts";
import { distortionField, intrinsicsField } from "../lens.ts";
import { chosenSources } from "../sources.ts";
import { type PictureStage, stageOf } from "./stages.ts";

/** Stages of one camera. */
const STAGES_MAX = 32;

const attributes = object({
  source: text("the camera whose picture is changed").required().names("camera"),
  pipeline: list(
    object({
      type: text("rotate, resize, crop, detections or classifications").default(""),
      attributes: anyObject("the stage's own").default({}),
    }).with(({ type, attributes }, at) => stageOf(type, attributes, at)),
    "the stages, in order",
  ).required().with((stages, at) =>
    stages.length > 0 && stages.length <= STAGES_MAX ? stages : at.wanted(`1 to ${STAGES_MAX} stages`, stages)
  ),
  intrinsicParameters: intrinsicsField,
  distortionParameters: distortionField,
}).required();

type Settings = NonNullable<Infer<typeof attributes>>;

export const TransformCamera = model({
  api: CameraApi,
  name: "rdk:builtin:transform",
  doc:
    "Another camera's picture, rotated, resized, cropped, or with what a vision service finds drawn into it.",
  attributes,
  construct: ({ name, attributes, dependencies }) => new Transform(name, attributes, dependencies),
});

class Transform extends BaseComponent implements Camera {
  readonly #source: Camera;
  #kind?: Decoded["kind"];

  constructor(
    name: ResourceName,
    private readonly settings: Settings,
    private readonly dependencies: Dependencies,
  ) {
    super(name);
    this.#source = dependencies.get(CameraApi, settings.source);
  }

  async getImages(sourceNames: readonly string[] = [], call?: Call): Promise<Images> {
    const { images, capturedAtMs } = await this.#source.getImages([], call);
    const [first] = images;
    if (!first) throw new SvcError("unavailable", `${this.name}: ${this.#source.name} gave no picture`);
    chosenSources(this.name, [first.sourceName], sourceNames);
    const content = await this.#changed(first.image, call);
    const mimeType = content.kind === "color" ? MIME.jpeg : MIME.depth;
    const image = { sourceName: first.sourceName, mimeType, image: encodeImage(content, mimeType) };
    return { images: [image], capturedAtMs };
  }

  async getPointCloud(call?: Call): Promise<Uint8Array> {
    const { intrinsicParameters: intrinsics, distortionParameters: distortion } = this.settings;
    const refused = (why: string) =>
      new SvcError("failed_precondition", `${this.name} cannot make a point cloud: ${why}`);
    if (!intrinsics) throw refused("it has no intrinsic_parameters");
    const { images: [first] } = await this.#source.getImages([], call);
    const content = first && await this.#changed(first.image, call);
    if (content?.kind !== "depth") throw refused("its pictures have no depth");
    return writePcd(depthToCloud(content.map, intrinsics, { distortion }));
  }

  async getProperties(call?: Call): Promise<CameraProperties> {
    const { intrinsicParameters: intrinsics, distortionParameters: distortion } = this.settings;
    if (intrinsics && !this.#kind) await this.getImages([], call).catch(() => {});
    return {
      supportsPcd: intrinsics !== undefined && this.#kind === "depth",
      intrinsics,
      distortion,
      mimeTypes: [MIME.jpeg, MIME.depth],
    };
  }

  async #changed(image: Uint8Array, call?: Call): Promise<Decoded> {
    let content = decodeImage(image);
    for (const [index, stage] of (this.settings.pipeline as readonly PictureStage[]).entries()) {
      call?.signal?.throwIfAborted();
      try {
        content = await stage(content, this.dependencies, call);
      } catch (cause) {
        const { code, message } = SvcError.from(cause);
        throw new SvcError(code, `${this.name}: stage ${index} of its pipeline: ${message}`, { cause });
      }
    }
    this.#kind = content.kind;
    return content;
  }
}
