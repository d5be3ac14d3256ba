/**
 * `obstacles_depth`: finds the separate objects above the ground in a depth camera's picture.
 *
 * Needs the camera's lens parameters. Without them, the answer is a single object without points, at the
 * median distance of all readings. The driver logs the reason for such a limited answer when the reason
 * changes, not at every picture.
 */

import { LogOnChange } from "../../lib/base/log/on_change.ts";
import type { CameraProperties, Images } from "../../lib/api/sensors/camera.ts";
import { type PointCloudObject, VisionApi } from "../../lib/api/services/vision.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type Infer, integer, number, object, text } from "../../lib/base/schema/schema.ts";
import { type DepthMap, medianDepth } from "../../lib/geometry/image/depth.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { decodeImage, MIME, mimeTypeOf } from "../../lib/geometry/image/image.ts";
import {
  type Distortion,
  DISTORTION_MODELS,
  type Intrinsics,
  scaleIntrinsics,
} from "../../lib/geometry/image/lens.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { type BoundingBox, createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { poseAt } from "../../lib/geometry/pose.ts";
import { type SegmentationLimits, Segmenter } from "../../lib/geometry/cloud/segmentation.ts";
import { model } from "../../lib/resource/registry.ts";
import type { Call } from "../../lib/resource/resource.ts";
import { type Shot, type Skills, VisionModel } from "./vision_model.ts";
import type { NamedImage } from "../../lib/api/shared/capture.ts";

const MM_PER_M = 1e3;

/**
 * Whole numbers, where the documentation says integer. A 0 keeps its literal meaning; for settings
 * for which 0 makes no sense it means the default, as it does for the published model.
 */
const attributes = object({
  minPointsInPlane: integer("points that a flat surface must have to be the ground", { min: 0, exact: true })
    .default(500),
  minPointsInSegment: integer(
    "points that an object must have; noisy cameras want hundreds; 0 reports every cluster",
    { min: 0, exact: true },
  ).default(10),
  maxDistFromPlaneMm: number("distance in millimetres above and below the ground that counts as ground", {
    above: 0,
  }).zeroIsAbsent().default(100),
  groundAngleToleranceDegs: integer(
    "degrees by which the ground may deviate from the camera's level",
    {
      min: 0,
      max: 180,
      exact: true,
    },
  ).default(30),
  clusteringRadius: integer(
    "how near points must be to belong together: small values split objects, large values merge them",
    { min: 1, exact: true },
  ).zeroIsAbsent().default(1),
  clusteringStrictness: integer(
    "large values give many small objects, small values give fewer and larger objects",
    { min: 1, exact: true },
  ).zeroIsAbsent().default(5),
  cameraName: text("camera for requests that name none").names("camera"),
}).required();

type Attributes = Infer<typeof attributes>;

/** A segmenter for one camera, with the frame size and the lens for which it is made. */
interface Eye {
  readonly key: string;
  readonly segmenter: Segmenter;
}

class Obstacles implements Skills {
  readonly #limits: SegmentationLimits;
  /** At most one for each camera. */
  readonly #eyes = new Map<string, Eye>();
  readonly #problems = new LogOnChange();

  constructor(attributes: Attributes, private readonly logger: Logger) {
    const { groundAngleToleranceDegs, cameraName: _, ...limits } = attributes;
    this.#limits = { ...limits, groundAngleToleranceDeg: groundAngleToleranceDegs };
  }

  async segment(view: Shot, call?: Call): Promise<PointCloudObject[]> {
    const { cameraName, frame: referenceFrame } = view;
    const [properties, images] = await Promise.all([this.#readProperties(view, call), view.images()]);
    const map = depthOf(images, cameraName);
    if (!properties?.intrinsics) return farOff(map, referenceFrame);

    const { segmenter } = this.#eyeFor(cameraName, map, properties.intrinsics, properties.distortion);
    const { ground, segments } = segmenter.segment(map);
    this.#say(
      cameraName,
      "ground",
      ground ? "" : "found no ground; it may be part of the objects",
    );

    return segments.map(({ cloud, box }) => ({
      pcd: writePcd(cloud),
      geometries: [boxAround(box)],
      referenceFrame,
    }));
  }

  async #readProperties({ camera, cameraName }: Shot, call?: Call): Promise<CameraProperties | undefined> {
    const without = "the answer is one object without points, at the median distance of all readings";
    try {
      const properties = await camera.getProperties(call);
      this.#say(cameraName, "lens", properties.intrinsics ? "" : `there are no lens parameters: ${without}`);
      return properties;
    } catch (error) {
      this.#say(cameraName, "lens", `could not get lens parameters (${messageOf(error)}): ${without}`);
      return undefined;
    }
  }

  /** A segmenter for pictures of this size through this lens, kept for the next picture. */
  #eyeFor(camera: string, size: DepthMap, lens: Intrinsics, distortion?: Distortion): Eye {
    const { width, height } = size;
    const key = JSON.stringify([width, height, lens, distortion]);
    const kept = this.#eyes.get(camera);
    if (kept?.key === key) return kept;

    const known = !distortion || DISTORTION_MODELS.includes(distortion.model);
    const alike =
      Math.abs(lens.widthPx * height - lens.heightPx * width) < Math.max(lens.widthPx, lens.heightPx);
    const problems = [
      known ? "" : `the distortion model "${distortion.model}" is unknown; ignoring it`,
      alike
        ? ""
        : `lens parameters for ${lens.widthPx} x ${lens.heightPx} are scaled to ${width} x ${height}`,
    ];
    const eye = { key, segmenter: this.#segmenterFor(camera, size, lens, known ? distortion : undefined) };
    this.#say(camera, "fit", problems.filter((problem) => problem !== "").join("; "));
    this.#eyes.set(camera, eye);

    return eye;
  }

  /** Throws `invalid_argument` that names the camera for an impossible lens. */
  #segmenterFor(
    camera: string,
    { width, height }: DepthMap,
    lens: Intrinsics,
    distortion?: Distortion,
  ): Segmenter {
    try {
      const asIs = lens.widthPx === width && lens.heightPx === height;
      const fitting = asIs ? lens : scaleIntrinsics(lens, width, height);
      return new Segmenter(fitting, this.#limits, distortion);
    } catch (cause) {
      const { code } = SvcError.from(cause);
      throw new SvcError(code, `${camera}: ${messageOf(cause)}`, { cause });
    }
  }

  /** Warns of a camera's problem when it is new; "" means no problem. */
  #say(camera: string, about: string, problem: string): void {
    const key = `${about} ${camera}`;
    if (this.#problems.isNew(problem, key) && problem !== "") this.logger.warn(`${camera}: ${problem}`);
  }
}

export const ObstaclesDepthVision = model({
  api: VisionApi,
  name: "rdk:builtin:obstacles_depth",
  doc: "Finds the objects on the ground in front of a depth camera, as point clouds and boxes.",
  attributes,
  construct: (from) =>
    new VisionModel(from, new Obstacles(from.attributes, from.logger), from.attributes.cameraName),
});

/** The depth image among a camera's images: an image named `depth` or in the depth format comes first. */
function depthOf({ images }: Images, camera: string): DepthMap {
  const likely = ({ sourceName, image }: NamedImage) =>
    (sourceName === "depth" ? 2 : 0) + (formOf(image) === MIME.depth ? 1 : 0);
  for (const { image } of images.toSorted((a, b) => likely(b) - likely(a))) {
    const form = formOf(image);
    if (form !== MIME.depth && form !== MIME.png) continue;
    const decoded = decodeImage(image);
    if (decoded.kind === "depth") return decoded.map;
  }
  const found = images.map(({ sourceName, mimeType }) => `"${sourceName}" of ${mimeType}`).join(", ");
  throw new SvcError(
    "invalid_argument",
    `could not convert an image of ${camera} to a depth map: found ${found}, ` +
      `wanted ${MIME.depth} or a 16-bit grey ${MIME.png}`,
  );
}

function formOf(image: Uint8Array): string | undefined {
  try {
    return mimeTypeOf(image);
  } catch {
    return undefined;
  }
}

/** The answer without a lens; empty if there are no readings. */
function farOff(map: DepthMap, referenceFrame: string): PointCloudObject[] {
  const depthMm = medianDepth(map);
  if (depthMm === undefined) return [];
  const none = new Float32Array();
  return [{
    pcd: writePcd(createCloud({ x: none, y: none, z: none })),
    geometries: [{ center: poseAt(0, 0, depthMm), label: "", shape: { type: "sphere", radiusMm: 0 } }],
    referenceFrame,
  }];
}

function boxAround({ min, max }: BoundingBox): Geometry {
  const middle = (low: number, high: number) => (low + high) / 2 * MM_PER_M;
  const size = (low: number, high: number) => (high - low) * MM_PER_M;
  return {
    center: poseAt(middle(min.x, max.x), middle(min.y, max.y), middle(min.z, max.z)),
    label: "",
    shape: {
      type: "box",
      dimsMm: { x: size(min.x, max.x), y: size(min.y, max.y), z: size(min.z, max.z) },
    },
  };
}
