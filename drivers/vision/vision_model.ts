/**
 * The common part of all vision models: finds the camera, takes one picture of it, and refuses requests for
 * skills that the model lacks. A model supplies its skills.
 */

import { type Camera, CameraApi, type Images } from "../../lib/api/sensors/camera.ts";
import type {
  Capture,
  Classification,
  Detection,
  Detection3D,
  EncodedImage,
  PointCloudObject,
  Vision,
  VisionProperties,
  Wanted,
} from "../../lib/api/services/vision.ts";
import { assert, chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { readPcd, writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { transformCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { MIME } from "../../lib/geometry/image/image.ts";
import { fromPose, IDENTITY_POSE, invert } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import type { Dependencies } from "../../lib/resource/registry.ts";
import { BaseResource, type Call } from "../../lib/resource/resource.ts";
import type { NamedImage } from "../../lib/api/shared/capture.ts";

/** The skills of a model; requests for an absent skill are refused. */
export interface Skills {
  detect?(image: EncodedImage, call?: Call): Promise<Detection[]>;
  /** In any order. */
  classify?(image: EncodedImage, call?: Call): Promise<Classification[]>;
  segment?(view: Shot, call?: Call): Promise<PointCloudObject[]>;
}

/** A camera at one moment: its pictures are taken once, however often they are asked for. */
export interface Shot {
  readonly cameraName: string;
  readonly camera: Camera;
  /** The camera's frame; its name if it has none. */
  readonly frame: string;
  /** At least one. */
  images(): Promise<Images>;
}

export class VisionModel extends BaseResource implements Vision {
  readonly #dependencies: Dependencies;
  readonly #logger: Logger;

  constructor(
    { name, dependencies, logger }: { name: ResourceName; dependencies: Dependencies; logger: Logger },
    private readonly skills: Skills,
    private readonly defaultCamera?: string,
  ) {
    super(name);
    this.#dependencies = dependencies;
    this.#logger = logger;
  }

  async getDetections(image: EncodedImage, call?: Call): Promise<Detection[]> {
    return await this.#skill("detect")(image, call);
  }

  async getDetectionsFromCamera(camera: string, call?: Call): Promise<Detection[]> {
    const detect = this.#skill("detect");
    return await detect(await takeColourImage(this.#view(camera, call)), call);
  }

  async getClassifications(image: EncodedImage, count: number, call?: Call): Promise<Classification[]> {
    return likeliest(await this.#skill("classify")(image, call), count);
  }

  async getClassificationsFromCamera(camera: string, count: number, call?: Call): Promise<Classification[]> {
    const classify = this.#skill("classify");
    return likeliest(await classify(await takeColourImage(this.#view(camera, call)), call), count);
  }

  async getObjectPointClouds(camera: string, call?: Call): Promise<PointCloudObject[]> {
    return await this.#skill("segment")(this.#view(camera, call), call);
  }

  async getDetections3D(camera: string, call?: Call): Promise<Detection3D[]> {
    return (await this.getObjectPointClouds(camera, call)).map((object, index) =>
      this.#framed(object, index)
    );
  }

  getProperties(): Promise<VisionProperties> {
    const { detect, classify, segment } = this.skills;
    return Promise.resolve({
      detections: detect !== undefined,
      classifications: classify !== undefined,
      objectPointClouds: segment !== undefined,
      detections3D: segment !== undefined,
      defaultCamera: this.defaultCamera,
    });
  }

  async captureAllFromCamera(camera: string, wanted: Wanted, call?: Call): Promise<Capture> {
    const view = this.#view(camera, call);
    const image = await takeColourImage(view);
    const { detect, classify, segment } = this.skills;
    const able = <S>(asked: boolean | undefined, skill: S | undefined, what: string): S | undefined => {
      if (asked && !skill) this.#logger.debug(`a client asks for ${what}, which ${this.name} does not give`);
      return asked ? skill : undefined;
    };
    const detections = await able(wanted.detections, detect, "detections")?.call(this.skills, image, call);
    const classes = await able(wanted.classifications, classify, "classes")?.call(this.skills, image, call);

    const inSpace = wanted.objectPointClouds || wanted.detections3D;
    const objects = await able(inSpace, segment, "objects in space")?.call(this.skills, view, call) ?? [];
    return {
      image: wanted.image ? image : undefined,
      detections: detections ?? [],
      classifications: likeliest(classes ?? [], 0),
      objects: wanted.objectPointClouds ? objects : [],
      detections3D: wanted.detections3D ? objects.map((object, index) => this.#framed(object, index)) : [],
    };
  }

  /**
   * An object as frames: one frame for the whole object, at its shape, and its points as a part of that
   * frame. The names are valid for one answer only, because objects are not followed from one picture to the
   * next.
   */
  #framed({ pcd, geometries, referenceFrame }: PointCloudObject, index: number): Detection3D {
    const name = `${this.name.short}/object-${index}`;
    const [shape] = geometries;
    const pose = shape?.center ?? IDENTITY_POSE;
    const whole = {
      name,
      parent: referenceFrame,
      pose,
      geometry: shape && { ...shape, center: IDENTITY_POSE },
    };
    const cloud = transformCloud(readPcd(pcd), invert(fromPose(pose)));
    if (cloud.x.length === 0) return { parts: [whole], classifications: [] };

    const points: Geometry = {
      center: IDENTITY_POSE,
      label: "",
      shape: { type: "point_cloud", pcd: writePcd(cloud) },
    };
    const part = { name: `${name}/points`, parent: name, pose: IDENTITY_POSE, geometry: points };
    return { parts: [whole, part], classifications: [] };
  }

  /** The skill, or the published refusal. */
  #skill<K extends keyof Skills>(skill: K): NonNullable<Skills[K]> {
    const found = this.skills[skill];
    if (found) return found.bind(this.skills) as NonNullable<Skills[K]>;
    const noun = { detect: "a Detector", classify: "a Classifier", segment: "a 3D segmenter" }[skill];
    throw new SvcError("unimplemented", `vision model "${this.name}" does not implement ${noun}`);
  }

  #view(asked: string, call?: Call): Shot {
    const cameraName = asked || this.defaultCamera;
    if (!cameraName) {
      // The published text is a plain error, which has this code on the wire. A missing camera has the same
      // code.
      throw new SvcError("unknown", "no camera name provided and no default camera found");
    }
    const camera = attempt(
      `could not find camera named ${cameraName}`,
      () => this.#dependencies.lookUp(CameraApi, cameraName),
    );
    const frame = this.#dependencies.frameOf(camera) ?? cameraName;
    let taken: Promise<Images> | undefined;
    return { cameraName, camera, frame, images: () => taken ??= takeImages(camera, cameraName, call) };
  }
}

/** The first picture with colours: a camera with several sensors may give its depth before it. */
async function takeColourImage(view: Shot): Promise<NamedImage> {
  const { images } = await view.images();
  const image = images.find(({ mimeType }) => mimeType !== MIME.depth) ?? images[0];
  assert(image, "a view without images is refused");
  return image;
}

async function takeImages(camera: Camera, name: string, call?: Call): Promise<Images> {
  let images: Images;
  try {
    images = await camera.getImages([], call);
  } catch (cause) {
    throw wrapped(`could not get image from ${name}`, cause);
  }
  if (images.images.length > 0) return images;
  throw new SvcError("unavailable", `no images returned from camera ${name}`);
}

function attempt<T>(problem: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw wrapped(problem, cause);
  }
}

function wrapped(problem: string, cause: unknown): SvcError {
  return new SvcError(SvcError.from(cause).code, `${problem}: ${chainOf(cause)}`, { cause });
}

/** The `count` classes with most confidence, in that order; 0 means all. */
function likeliest(classes: readonly Classification[], count: number): Classification[] {
  if (count < 0) {
    throw new SvcError("invalid_argument", `${count} classifications asked for, wanted 0 (all) or more`);
  }
  return classes.toSorted((a, b) => b.confidence - a.confidence).slice(0, count || undefined);
}
