/**
 * Vision: finds objects in a picture, as boxes in the picture, classes of the whole picture, or objects in
 * space (as points or as frames).
 *
 * Each model lists its skills and refuses the other calls. A method that takes a camera's name accepts "" if
 * the service has a default camera.
 */

import { VisionService } from "../../../proto/gen/vision_pb.ts";
import type {
  CaptureAllFromCameraResponseSchema,
  Classification as ClassificationMessage,
  Detection as DetectionMessage,
  Detection3D as Detection3DMessage,
  Detection3DSchema,
  DetectionSchema,
} from "../../../proto/gen/vision_pb.ts";
import type {
  PointCloudObject as ObjectMessage,
  PointCloudObjectSchema,
} from "../../../proto/gen/common_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import type { JsonObject as Struct, MessageInitShape } from "../../wire/rpc/proto.ts";
import { service } from "../../wire/rpc/service.ts";
import type { FramePart } from "../../geometry/frame_system.ts";
import type { Geometry } from "../../geometry/geometry.ts";
import { imageSize, MIME } from "../../geometry/image/image.ts";
import type { CaptureResult } from "../../resource/facets.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import { fromImageMessage, toImageMessage } from "../sensors/camera.ts";
import { nearFrame, nearPart } from "../shared/far_names.ts";
import { callOf, ResourceClient, resourceHandlers } from "../shared/resource.ts";
import {
  fromGeometryMessage,
  fromTransformMessage,
  toGeometryMessage,
  toTransformMessage,
} from "../shared/geometry.ts";
import { type NamedImage, nameParameter, pictureFile } from "../shared/capture.ts";

/** Finds things in images and point clouds. Throws `unimplemented` for what `getProperties` denies. */
export interface Vision extends Resource {
  /** Boxes in pixels, with class and confidence (0 to 1). */
  getDetections(image: EncodedImage, call?: Call): Promise<Detection[]>;
  /** The same of the camera's next image. */
  getDetectionsFromCamera(camera: string, call?: Call): Promise<Detection[]>;
  /** The `count` likeliest classes, the likeliest first; 0 means all. */
  getClassifications(image: EncodedImage, count: number, call?: Call): Promise<Classification[]>;
  /** At most `count` classes of the camera's next image, the surest first. */
  getClassificationsFromCamera(camera: string, count: number, call?: Call): Promise<Classification[]>;
  /** Objects of the camera's next point cloud, each with its points in mm and its box. */
  getObjectPointClouds(camera: string, call?: Call): Promise<PointCloudObject[]>;
  /** Boxes in space, in mm. */
  getDetections3D(camera: string, call?: Call): Promise<Detection3D[]>;
  /** What it finds. */
  getProperties(call?: Call): Promise<VisionProperties>;
  /** Several answers about one picture; answers that the model cannot give stay empty. */
  captureAllFromCamera(camera: string, wanted: Wanted, call?: Call): Promise<Capture>;
}

/** A picture in one of the forms of `MIME`. */
export interface EncodedImage {
  /** The content of the file. */
  readonly image: Uint8Array;
  /** Such as `image/jpeg`. */
  readonly mimeType: string;
}

/** Edges; x grows to the right, y downwards. */
export interface Box {
  /** The left edge. */
  readonly xMin: number;
  /** The upper edge. */
  readonly yMin: number;
  /** The right edge. */
  readonly xMax: number;
  /** The lower edge. */
  readonly yMax: number;
}

/** An object in a picture. */
export interface Detection {
  /** The kind of object, by the labels of the model. */
  readonly className: string;
  /** From 0 to 1. */
  readonly confidence: number;
  /** In pixels. */
  readonly box?: Box;
  /** In fractions of the picture's width and height. */
  readonly normalized?: Box;
}

/** A class of a whole picture or object. */
export interface Classification {
  /** By the labels of the model. */
  readonly className: string;
  /** From 0 to 1. */
  readonly confidence: number;
}

/** An object in space, as points. */
export interface PointCloudObject {
  /** A PCD file, in metres. */
  readonly pcd: Uint8Array;
  /** Shapes around the points, in mm. */
  readonly geometries: readonly Geometry[];
  /** The frame that points and geometries are in. */
  readonly referenceFrame: string;
}

/** An object in space, and its possible classes. */
export interface Detection3D {
  /**
   * The whole object first, relative to the camera or another frame; then its parts, each after its parent.
   */
  readonly parts: readonly FramePart[];
  /** The surest first. */
  readonly classifications: readonly Classification[];
  /** The model's own further facts. */
  readonly metadata?: JsonObject;
}

/** Which of its methods a vision service has. */
export interface VisionProperties {
  /** Whether it classifies pictures. */
  readonly classifications: boolean;
  /** Whether it finds boxes in pictures. */
  readonly detections: boolean;
  /** Whether `getObjectPointClouds` works. */
  readonly objectPointClouds: boolean;
  /** Whether `getDetections3D` works. */
  readonly detections3D: boolean;
  /** The camera of calls that give an empty name. Absent if there is none. */
  readonly defaultCamera?: string;
}

/** The parts that `captureAllFromCamera` shall return; absent means no. */
export interface Wanted {
  /** The picture itself. */
  readonly image?: boolean;
  /** The boxes in it. */
  readonly detections?: boolean;
  /** The classes of it. */
  readonly classifications?: boolean;
  /** The objects in space, as points. */
  readonly objectPointClouds?: boolean;
  /** The objects in space, as frames. */
  readonly detections3D?: boolean;
}

/** The answers about one picture. Lists are empty if they were not wanted. */
export interface Capture {
  /** Absent if it was not wanted. */
  readonly image?: NamedImage;
  /** Boxes in the picture. */
  readonly detections: readonly Detection[];
  /** Classes of the picture. */
  readonly classifications: readonly Classification[];
  /** Objects in space, as points. */
  readonly objects: readonly PointCloudObject[];
  /** Objects in space, as frames. */
  readonly detections3D: readonly Detection3D[];
  /** The model's own further facts. */
  readonly extra?: JsonObject;
}

/** Cameras and frames have their names of this machine, also if the service is on another one. */
class VisionClient extends ResourceClient<typeof VisionService> implements Vision {
  async getDetections({ image, mimeType }: EncodedImage, call?: Call): Promise<Detection[]> {
    const { width, height } = imageSize(image);
    const request = { ...this.request(call), image, mimeType, width: BigInt(width), height: BigInt(height) };
    return (await this.rpc.getDetections(request, call)).detections.map(fromDetectionMessage);
  }

  async getDetectionsFromCamera(cameraName: string, call?: Call): Promise<Detection[]> {
    const answer = await this.rpc.getDetectionsFromCamera({
      ...this.request(call),
      cameraName: this.name.farOf(cameraName),
    }, call);
    return answer.detections.map(fromDetectionMessage);
  }

  async getClassifications(
    { image, mimeType }: EncodedImage,
    n: number,
    call?: Call,
  ): Promise<Classification[]> {
    const request = { ...this.request(call), image, mimeType, ...imageSize(image), n };
    return (await this.rpc.getClassifications(request, call)).classifications.map(fromClassificationMessage);
  }

  async getClassificationsFromCamera(cameraName: string, n: number, call?: Call): Promise<Classification[]> {
    const answer = await this.rpc.getClassificationsFromCamera(
      { ...this.request(call), cameraName: this.name.farOf(cameraName), n },
      call,
    );
    return answer.classifications.map(fromClassificationMessage);
  }

  async getObjectPointClouds(cameraName: string, call?: Call): Promise<PointCloudObject[]> {
    const request = { ...this.request(call), cameraName: this.name.farOf(cameraName), mimeType: MIME.pcd };
    return (await this.rpc.getObjectPointClouds(request, call)).objects.map((one) => this.#object(one));
  }

  async getDetections3D(cameraName: string, call?: Call): Promise<Detection3D[]> {
    const answer = await this.rpc.getDetections3D({
      ...this.request(call),
      cameraName: this.name.farOf(cameraName),
    }, call);
    return answer.detections3d.map((one) => this.#detection3D(one));
  }

  async getProperties(call?: Call): Promise<VisionProperties> {
    const answer = await this.rpc.getProperties(this.request(call), call);
    return {
      classifications: answer.classificationsSupported,
      detections: answer.detectionsSupported,
      objectPointClouds: answer.objectPointCloudsSupported,
      detections3D: answer.detections3dSupported,
      defaultCamera: this.name.nearOf(answer.defaultCamera ?? "") || undefined,
    };
  }

  async captureAllFromCamera(cameraName: string, wanted: Wanted, call?: Call): Promise<Capture> {
    const answer = await this.rpc.captureAllFromCamera({
      ...this.request(call),
      cameraName: this.name.farOf(cameraName),
      returnImage: wanted.image,
      returnDetections: wanted.detections,
      returnClassifications: wanted.classifications,
      returnObjectPointClouds: wanted.objectPointClouds,
      returnDetections3d: wanted.detections3D,
    }, call);
    return {
      image: answer.image && fromImageMessage(answer.image),
      detections: answer.detections.map(fromDetectionMessage),
      classifications: answer.classifications.map(fromClassificationMessage),
      objects: answer.objects.map((one) => this.#object(one)),
      detections3D: answer.detections3d.map((one) => this.#detection3D(one)),
      extra: answer.extra as JsonObject | undefined,
    };
  }

  #object(message: ObjectMessage): PointCloudObject {
    const object = fromObjectMessage(message);
    return { ...object, referenceFrame: nearFrame(this.name, object.referenceFrame) };
  }

  #detection3D(message: Detection3DMessage): Detection3D {
    const found = fromDetection3DMessage(message);
    return { ...found, parts: found.parts.map((part) => nearPart(this.name, part)) };
  }
}

/** The API `rdk:service:vision`. */
export const VisionApi: Api<Vision> = {
  name: "rdk:service:vision",
  desc: VisionService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: { CaptureAllFromCamera: captureAll },
  client: (name: ResourceName, channel: Channel) => new VisionClient(name, channel, VisionService),
  serve: (find) =>
    service(VisionService, {
      ...resourceHandlers(find),
      getDetections: async (request, ctx) => {
        const found = await find(request.name).getDetections(request, callOf(request, ctx));
        return { detections: found.map(toDetectionMessage) };
      },
      getDetectionsFromCamera: async (request, ctx) => {
        const { name, cameraName } = request;
        const found = await find(name).getDetectionsFromCamera(cameraName, callOf(request, ctx));
        return { detections: found.map(toDetectionMessage) };
      },
      getClassifications: async (request, ctx) => ({
        classifications: await find(request.name).getClassifications(
          request,
          request.n,
          callOf(request, ctx),
        ),
      }),
      getClassificationsFromCamera: async (request, ctx) => {
        const { name, cameraName, n } = request;
        const found = await find(name).getClassificationsFromCamera(cameraName, n, callOf(request, ctx));
        return { classifications: found };
      },
      getObjectPointClouds: async (request, ctx) => {
        const { name, cameraName } = request;
        const found = await find(name).getObjectPointClouds(cameraName, callOf(request, ctx));
        return { mimeType: MIME.pcd, objects: found.map(toObjectMessage) };
      },
      getDetections3D: async (request, ctx) => {
        const { name, cameraName } = request;
        const found = await find(name).getDetections3D(cameraName, callOf(request, ctx));
        return { detections3d: found.map(toDetection3DMessage) };
      },
      getProperties: async (request, ctx) => {
        const found = await find(request.name).getProperties(callOf(request, ctx));
        return {
          classificationsSupported: found.classifications,
          detectionsSupported: found.detections,
          objectPointCloudsSupported: found.objectPointClouds,
          detections3dSupported: found.detections3D,
          defaultCamera: found.defaultCamera,
        };
      },
      captureAllFromCamera: async (request, ctx) => {
        const wanted = {
          image: request.returnImage,
          detections: request.returnDetections,
          classifications: request.returnClassifications,
          objectPointClouds: request.returnObjectPointClouds,
          detections3D: request.returnDetections3d,
        };
        const { name, cameraName } = request;
        return toCaptureMessage(
          await find(name).captureAllFromCamera(cameraName, wanted, callOf(request, ctx)),
        );
      },
    }),
};

/** One picture, with the findings whose confidence is at least `min_confidence_score`. */
async function captureAll(vision: Vision, parameters: JsonObject, call: Call): Promise<CaptureResult> {
  const wanted = { image: true, detections: true, classifications: true };
  const found = await vision.captureAllFromCamera(nameParameter("camera_name", parameters), wanted, call);
  if (!found.image) throw new SvcError("unavailable", `${vision.name} gave no image`);

  const { min_confidence_score: least } = parameters;
  const sure = ({ confidence }: { confidence: number }) => confidence >= Number(least ?? 0);
  const { width, height } = imageSize(found.image.image);
  const boxes = found.detections.filter(sure).flatMap(
    ({ className: label, confidence, box, normalized }) => {
      const { xMin, yMin, xMax, yMax } = normalized ?? box ?? {};
      if (xMin === undefined || yMin === undefined || xMax === undefined || yMax === undefined) return [];
      const [w, h] = normalized ? [1, 1] : [width, height];
      return [{ label, confidence, xMin: xMin / w, yMin: yMin / h, xMax: xMax / w, yMax: yMax / h }];
    },
  );
  const classifications = found.classifications.filter(sure).map(({ className: label, confidence }) => {
    return { label, confidence };
  });
  return { files: [{ ...pictureFile(found.image), annotations: { boxes, classifications } }] };
}

function toCaptureMessage(capture: Capture): MessageInitShape<typeof CaptureAllFromCameraResponseSchema> {
  return {
    image: capture.image && toImageMessage(capture.image),
    detections: capture.detections.map(toDetectionMessage),
    classifications: [...capture.classifications],
    objects: capture.objects.map(toObjectMessage),
    detections3d: capture.detections3D.map(toDetection3DMessage),
    extra: capture.extra as Struct | undefined,
  };
}

function toDetectionMessage(detection: Detection): MessageInitShape<typeof DetectionSchema> {
  const { className, confidence, box, normalized } = detection;
  return {
    className,
    confidence,
    ...(box && {
      xMin: BigInt(Math.trunc(box.xMin)),
      yMin: BigInt(Math.trunc(box.yMin)),
      xMax: BigInt(Math.trunc(box.xMax)),
      yMax: BigInt(Math.trunc(box.yMax)),
    }),
    ...(normalized && {
      xMinNormalized: normalized.xMin,
      yMinNormalized: normalized.yMin,
      xMaxNormalized: normalized.xMax,
      yMaxNormalized: normalized.yMax,
    }),
  };
}

function fromDetectionMessage(message: DetectionMessage): Detection {
  const { className, confidence } = message;
  const { xMin, yMin, xMax, yMax } = message;
  const { xMinNormalized, yMinNormalized, xMaxNormalized, yMaxNormalized } = message;
  return {
    className,
    confidence,
    box: boxOf(Number(xMin), Number(yMin), Number(xMax), Number(yMax)),
    normalized: boxOf(xMinNormalized, yMinNormalized, xMaxNormalized, yMaxNormalized),
  };
}

/** A box that has all its edges. */
function boxOf(xMin?: number, yMin?: number, xMax?: number, yMax?: number): Box | undefined {
  if (!isEdge(xMin) || !isEdge(yMin) || !isEdge(xMax) || !isEdge(yMax)) return undefined;
  return { xMin, yMin, xMax, yMax };
}

function isEdge(edge: number | undefined): edge is number {
  return edge !== undefined && !Number.isNaN(edge);
}

function fromClassificationMessage({ className, confidence }: ClassificationMessage): Classification {
  return { className, confidence };
}

function toObjectMessage(
  { pcd, geometries, referenceFrame }: PointCloudObject,
): MessageInitShape<typeof PointCloudObjectSchema> {
  return { pointCloud: pcd, geometries: { referenceFrame, geometries: geometries.map(toGeometryMessage) } };
}

function fromObjectMessage({ pointCloud, geometries }: ObjectMessage): PointCloudObject {
  return {
    pcd: pointCloud,
    geometries: (geometries?.geometries ?? []).map(fromGeometryMessage),
    referenceFrame: geometries?.referenceFrame ?? "",
  };
}

function toDetection3DMessage(
  { parts, classifications, metadata }: Detection3D,
): MessageInitShape<typeof Detection3DSchema> {
  return {
    transforms: parts.map(toTransformMessage),
    classifications: [...classifications],
    metadata: metadata as Struct | undefined,
  };
}

function fromDetection3DMessage({ transforms, classifications, metadata }: Detection3DMessage): Detection3D {
  return {
    parts: transforms.map(fromTransformMessage),
    classifications: classifications.map(fromClassificationMessage),
    metadata: metadata as JsonObject | undefined,
  };
}
