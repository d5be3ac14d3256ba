/**
 * `obstacles_depth`: the objects that stand apart from each other above the ground, in a depth camera's picture.
 *
 * Needs the camera's lens parameters for that. Without them the answer is a single object without points, as far
 * away as the middle one of all readings. What keeps it from a full answer is logged when it changes, not at every
 * picture.
 */

import type { CameraProperties, Images, NamedImage } from "../../lib/api/camera.ts";
import { type PointCloudObject, VisionApi } from "../../lib/api/vision.ts";
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

const MM_PER_M = 1e3;

/** Whole numbers where the documentation says integer. 0 is taken as it is or, where it means nothing, refused. */
const attributes = object({
  minPointsInPlane: integer("points that a flat surface must have to be the ground", { min: 0 }).default(500),
  minPointsInSegment: integer(
    "points that an object must have; noisy cameras want hundreds; 0 shows every cluster",
    { min: 0 },
  ).default(10),
  maxDistFromPlaneMm: number("distance in millimetres above and below the ground that counts as ground", {
    above: 0,
  }).default(100),
  groundAngleToleranceDegs: integer(
    "how many degrees the ground may deviate from level, as the camera has it",
    {
      min: 0,
      max: 180,
    },
  ).default(30),
  clusteringRadius: integer(
    "how near points must be to belong together: small values split, large ones merge",
    { min: 1 },
  ).default(1),
  clusteringStrictness: integer("large values give many small objects, small ones fewer and larger", {
    min: 1,
  }).default(5),
  cameraName: text("camera for requests that name none").names("camera"),
}).required();

type Attributes = Infer<typeof attributes>;

/** What a camera's frames are cut up with, and for which frames and lens that is. */
interface Eye {
  readonly key: string;
  readonly segmenter: Segmenter;
}

class Obstacles implements Skills {
  readonly #limits: SegmentationLimits;
  /** By camera, at most one each. */
  readonly #eyes = new Map<string, Eye>();
  readonly #said = new Map<string, string>();

  constructor(attributes: Attributes, private readonly logger: Logger) {
    const { groundAngleToleranceDegs, cameraName: _, ...limits } = attributes;
    this.#limits = { ...limits, groundAngleToleranceDeg: groundAngleToleranceDegs };
  }

  async segment(view: Shot, call?: Call): Promise<PointCloudObject[]> {
    const { cameraName } = view;
    const [properties, images] = await Promise.all([this.#propertiesOf(view, call), view.images()]);
    const map = depthOf(images, cameraName);
    if (!properties?.intrinsics) return farOff(map, cameraName);
    const { segmenter } = this.#eyeFor(cameraName, map, properties.intrinsics, properties.distortion);
    const { ground, segments } = segmenter.segment(map);
    this.#say(
      cameraName,
      "ground",
      ground ? "" : "no ground was found, so that it may be part of the objects",
    );
    return segments.map(({ cloud, box }) => ({
      pcd: writePcd(cloud),
      geometries: [boxAround(box)],
      referenceFrame: cameraName,
    }));
  }

  async #propertiesOf({ camera, cameraName }: Shot, call?: Call): Promise<CameraProperties | undefined> {
    const without = "one object without points is told, as far away as the middle one of all readings";
    try {
      const properties = await camera.getProperties(call);
      this.#say(cameraName, "lens", properties.intrinsics ? "" : `there are no lens parameters: ${without}`);
      return properties;
    } catch (error) {
      this.#say(cameraName, "lens", `could not get lens parameters (${messageOf(error)}): ${without}`);
      return undefined;
    }
  }

  /** A segmenter for pictures of that size through that lens, kept for the next picture. */
  #eyeFor(camera: string, { width, height }: DepthMap, lens: Intrinsics, distortion?: Distortion): Eye {
    const key = JSON.stringify([width, height, lens, distortion]);
    const kept = this.#eyes.get(camera);
    if (kept?.key === key) return kept;
    const known = !distortion || DISTORTION_MODELS.includes(distortion.model);
    const asIs = lens.widthPx === width && lens.heightPx === height;
    const alike =
      Math.abs(lens.widthPx * height - lens.heightPx * width) < Math.max(lens.widthPx, lens.heightPx);
    const problems = [
      known ? "" : `the distortion model "${distortion.model}" is unknown and left out`,
      alike
        ? ""
        : `lens parameters for ${lens.widthPx} x ${lens.heightPx} are scaled to ${width} x ${height}`,
    ];
    const fitting = asIs ? lens : scaleIntrinsics(lens, width, height);
    const eye = { key, segmenter: new Segmenter(fitting, this.#limits, known ? distortion : undefined) };
    this.#say(camera, "fit", problems.filter((problem) => problem !== "").join("; "));
    this.#eyes.set(camera, eye);
    return eye;
  }

  /** Warns of a problem of a camera when it is new; "" is none. */
  #say(camera: string, about: string, problem: string): void {
    const key = `${about} ${camera}`;
    if ((this.#said.get(key) ?? "") === problem) return;
    this.#said.set(key, problem);
    if (problem !== "") this.logger.warn(`${camera}: ${problem}`);
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

/** The depth among a camera's images: the one that is called so, or in the form for it, before others. */
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

/** All that can be said without a lens; nothing when nothing is seen. */
function farOff(map: DepthMap, camera: string): PointCloudObject[] {
  const depthMm = medianDepth(map);
  if (depthMm === undefined) return [];
  const none = new Float32Array();
  return [{
    pcd: writePcd(createCloud({ x: none, y: none, z: none })),
    geometries: [{ center: poseAt(0, 0, depthMm), label: "", shape: { type: "sphere", radiusMm: 0 } }],
    referenceFrame: camera,
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
