/**
 * A camera that shows files: a colour image, a depth image, a point cloud.
 *
 * Every call reads the files anew, so a replaced file changes the picture. If there is no point cloud file,
 * the camera makes a cloud from the depth image and the lens parameters.
 */

import { type Camera, CameraApi, type CameraProperties, type Images } from "../../lib/api/sensors/camera.ts";
import type { ReadFiles } from "../../lib/base/files/files.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { choice, type Infer, object, text } from "../../lib/base/schema/schema.ts";
import { MIME } from "../../lib/geometry/image/image.ts";
import { publishedPcd } from "../../lib/geometry/cloud/pcd.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import { distortionField, intrinsicsField } from "./lens.ts";
import { pictureOf, PICTURES } from "./pictures.ts";
import { chosenSources } from "./sources.ts";
import { jpegOf, PictureFiles } from "./files.ts";

const attributes = object({
  colorImageFilePath: text("JPEG or PNG file of the colour image").default(""),
  depthImageFilePath: text("depth image: a 16-bit grey PNG file in millimetres, or image/vnd.viam.dep")
    .default(""),
  pointcloudFilePath: text("PCD file in metres").default(""),
  preloadedImage: choice("a built-in picture, as a source of its own", PICTURES),
  intrinsicParameters: intrinsicsField,
  distortionParameters: distortionField,
}).required();

type Attributes = Infer<typeof attributes>;
type Source = "preloaded" | "color" | "depth";

class ImageFile extends BaseComponent implements Camera {
  readonly #files: PictureFiles;

  constructor(
    name: ResourceName,
    private readonly settings: Attributes,
    files: ReadFiles,
    private readonly clock: Clock,
  ) {
    super(name);
    this.#files = new PictureFiles(name, files);
  }

  async getImages(sourceNames: readonly string[] = []): Promise<Images> {
    const available = this.#sources();
    if (available.length === 0) {
      const wanted = "color_image_file_path, depth_image_file_path or preloaded_image in the attributes";
      throw new SvcError("unimplemented", `${this.name} has no image file to read, wanted ${wanted}`);
    }
    const chosen = chosenSources(this.name, available, sourceNames);
    const images = await Promise.all(chosen.map(async (sourceName) => ({
      sourceName,
      mimeType: sourceName === "depth" ? MIME.depth : MIME.jpeg,
      image: await this.#image(sourceName),
    })));
    return { images, capturedAtMs: this.clock.nowMs() };
  }

  async getPointCloud(): Promise<Uint8Array> {
    const { pointcloudFilePath, colorImageFilePath, depthImageFilePath } = this.settings;
    const { intrinsicParameters, distortionParameters: distortion } = this.settings;
    if (pointcloudFilePath) {
      return await this.#files.read(pointcloudFilePath, publishedPcd);
    }
    if (!intrinsicParameters) {
      const problem = "camera intrinsics not found in config";
      throw new SvcError("failed_precondition", `${this.name} cannot make a point cloud: ${problem}`);
    }
    if (!depthImageFilePath) {
      throw new SvcError(
        "failed_precondition",
        `${this.name} cannot make a point cloud: no depth image in config`,
      );
    }

    return await this.#files.readCloud(
      depthImageFilePath,
      colorImageFilePath,
      intrinsicParameters,
      distortion,
    );
  }

  getProperties(): Promise<CameraProperties> {
    const { pointcloudFilePath, depthImageFilePath, intrinsicParameters, distortionParameters } =
      this.settings;
    const sources = this.#sources();
    const color = sources.includes("color") || sources.includes("preloaded");
    return Promise.resolve({
      supportsPcd: Boolean(pointcloudFilePath || depthImageFilePath && intrinsicParameters),
      intrinsics: intrinsicParameters,
      distortion: distortionParameters,
      mimeTypes: [...color ? [MIME.jpeg] : [], ...sources.includes("depth") ? [MIME.depth] : []],
    });
  }

  #sources(): Source[] {
    const { preloadedImage, colorImageFilePath, depthImageFilePath } = this.settings;
    const sources: Source[] = [];
    if (preloadedImage) sources.push("preloaded");
    if (colorImageFilePath) sources.push("color");
    if (depthImageFilePath) sources.push("depth");
    return sources;
  }

  #image(source: Source): Promise<Uint8Array> {
    const { preloadedImage, colorImageFilePath, depthImageFilePath } = this.settings;
    if (source === "preloaded") return Promise.resolve(jpegOf(pictureOf(preloadedImage!)));
    return source === "color"
      ? this.#files.readColor(colorImageFilePath)
      : this.#files.readDepth(depthImageFilePath);
  }
}

export const ImageFileCamera = model({
  api: CameraApi,
  name: "rdk:builtin:image_file",
  doc: "A camera that shows files: a colour image, a depth image, a point cloud.",
  attributes,
  construct: ({ name, attributes, host, clock }) => new ImageFile(name, attributes, host, clock),
});
