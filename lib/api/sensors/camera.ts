/**
 * Camera: named pictures taken at one moment, a point cloud, and the lens parameters.
 *
 * Pictures and clouds travel in the encoding that their camera chose; `lib/geometry/image/image.ts` and
 * `pcd.ts` read them.
 */

import { CameraService } from "../../../proto/gen/camera_pb.ts";
import type {
  GetPropertiesResponseSchema,
  Image as ImageMessage,
  ImageSchema,
} from "../../../proto/gen/camera_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { Json } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import type { Message, MessageInitShape } from "../../wire/rpc/proto.ts";
import { service } from "../../wire/rpc/service.ts";
import { MIME, mimeTypeOf } from "../../geometry/image/image.ts";
import type { Distortion, Intrinsics } from "../../geometry/image/lens.ts";
import { type OrientationVector, ORIGIN, type Vec3 } from "../../geometry/pose.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import { nearFrame } from "../shared/far_names.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";
import { toMs, toTimestamp } from "../shared/time.ts";
import { type NamedImage, pictureFile } from "../shared/capture.ts";

/** A source of images, point clouds, or both. */
export interface Camera extends Component {
  /**
   * The pictures of the named sources, or of all sources if the list is empty. Throws for an unknown source.
   */
  getImages(sourceNames?: readonly string[], call?: Call): Promise<Images>;
  /** A PCD file, in metres. */
  getPointCloud(call?: Call): Promise<Uint8Array>;
  /** Whether it has point clouds, its MIME types, and the parameters of its lens. */
  getProperties(call?: Call): Promise<CameraProperties>;
}

/** The pictures of one call. */
export interface Images {
  /** At least one of each source. */
  readonly images: readonly NamedImage[];
  /** When the pictures were taken, since the Unix epoch. */
  readonly capturedAtMs: number;
}

/** The abilities of a camera, and the parameters of its lens. */
export interface CameraProperties {
  /** Whether `getPointCloud` works. */
  readonly supportsPcd: boolean;
  /** The pinhole model of the lens, in pixels. Absent if unknown. */
  readonly intrinsics?: Intrinsics;
  /** The deviation of the lens from that model. Absent if unknown. */
  readonly distortion?: Distortion;
  /** Place of the depth sensor. Absent if unknown, or if there is none. */
  readonly extrinsics?: Extrinsics;
  /** Formats of its pictures, such as `image/jpeg`. */
  readonly mimeTypes: readonly string[];
  /** Pictures per second. */
  readonly frameRate?: number;
  /** The frame of the point clouds, if it is not the camera's own. */
  readonly defaultReferenceFrame?: string;
}

/** The depth sensor as seen from the colour sensor: millimetres and degrees. */
export interface Extrinsics {
  /** In millimetres. */
  readonly translation: Vec3;
  /** Its `theta` is in degrees. */
  readonly orientation: OrientationVector;
}

/** The extra argument of GetPointCloud that stands for `Call.withTimes`. */
const WITH_TIMES = "with_times";

class CameraClient extends ComponentClient<typeof CameraService> implements Camera {
  async getImages(sourceNames: readonly string[] = [], call?: Call): Promise<Images> {
    const request = { ...this.request(call), filterSourceNames: [...sourceNames] };
    const { images, responseMetadata } = await this.rpc.getImages(request, call);
    return { images: images.map(fromImageMessage), capturedAtMs: toMs(responseMetadata?.capturedAt) };
  }

  async getPointCloud(call?: Call): Promise<Uint8Array> {
    const extra = call?.withTimes ? { ...call.extra, [WITH_TIMES]: true } : call?.extra;
    const request = { ...this.request({ ...call, extra }), mimeType: MIME.pcd };
    return (await this.rpc.getPointCloud(request, call)).pointCloud;
  }

  async getProperties(call?: Call): Promise<CameraProperties> {
    const answer = await this.rpc.getProperties({ name: this.name.far }, call);
    const { intrinsicParameters, distortionParameters, extrinsicParameters } = answer;
    const { translation, orientation } = extrinsicParameters ?? {};
    return {
      supportsPcd: answer.supportsPcd,
      intrinsics: intrinsicParameters && plain(intrinsicParameters),
      distortion: distortionParameters && plain(distortionParameters),
      extrinsics: extrinsicParameters && {
        translation: translation ? plain(translation) : ORIGIN,
        orientation: orientation ? plain(orientation) : { oX: 0, oY: 0, oZ: 1, theta: 0 },
      },
      mimeTypes: answer.mimeTypes,
      frameRate: answer.frameRate,
      defaultReferenceFrame: nearFrame(this.name, answer.defaultReferenceFrame) || undefined,
    };
  }
}

/** The API `rdk:component:camera`. */
export const CameraApi: Api<Camera> = {
  name: "rdk:component:camera",
  desc: CameraService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: {
    GetImages: async (camera, { filter_source_names: sources }, call) => {
      const { images } = await camera.getImages(textsIn(sources), call);
      return { files: images.map(pictureFile) };
    },
    ReadImage: async (camera, { mime_type: wanted }, call) => {
      const { images } = await camera.getImages([], call);
      const found = images.find(({ mimeType }) => mimeType === wanted) ?? images[0];
      if (!found) throw new SvcError("unavailable", `${camera.name} gave no image`);
      return { files: [pictureFile(found)] };
    },
    NextPointCloud: async (camera, _, call) => ({
      files: [{ content: await camera.getPointCloud({ ...call, withTimes: true }), mimeType: MIME.pcd }],
    }),
  },
  client: (name: ResourceName, channel: Channel) => new CameraClient(name, channel, CameraService),
  serve: (find) =>
    service(CameraService, {
      ...componentHandlers(find),
      getImages: async (request, ctx) => {
        const camera = find(request.name);
        const { images, capturedAtMs } = await camera.getImages(
          request.filterSourceNames,
          callOf(request, ctx),
        );
        return {
          images: images.map(toImageMessage),
          responseMetadata: { capturedAt: toTimestamp(capturedAtMs) },
        };
      },
      getPointCloud: async (request, ctx) => {
        const withTimes = request.extra?.[WITH_TIMES] === true;
        const pointCloud = await find(request.name).getPointCloud({ ...callOf(request, ctx), withTimes });
        return { mimeType: MIME.pcd, pointCloud };
      },
      getProperties: async (request, ctx) =>
        toPropertiesMessage(await find(request.name).getProperties({ signal: ctx.signal })),
    }),
};

/** The type of an image without one, as old modules send it, is read from its bytes. */
export function fromImageMessage(message: ImageMessage): NamedImage {
  const { sourceName, image, annotations } = message;
  const mimeType = message.mimeType || mimeTypeOf(image);
  if (!annotations) return { sourceName, image, mimeType };
  const { bboxes, classifications } = annotations;
  const annotated = { bboxes: bboxes.map(plain), classifications: classifications.map(plain) };
  return { sourceName, image, mimeType, annotations: annotated };
}

/** A message's own fields. */
function plain<M extends Message>(message: M): Omit<M, "$typeName" | "$unknown"> {
  const { $typeName: _name, $unknown: _rest, ...fields } = message;
  return fields;
}

export function toImageMessage(
  { sourceName, image, mimeType, annotations }: NamedImage,
): MessageInitShape<typeof ImageSchema> {
  return {
    sourceName,
    image,
    mimeType,
    annotations: annotations &&
      { bboxes: [...annotations.bboxes], classifications: [...annotations.classifications] },
  };
}

function toPropertiesMessage(
  properties: CameraProperties,
): MessageInitShape<typeof GetPropertiesResponseSchema> {
  const { distortion, extrinsics } = properties;
  return {
    supportsPcd: properties.supportsPcd,
    intrinsicParameters: properties.intrinsics,
    distortionParameters: distortion && { model: distortion.model, parameters: [...distortion.parameters] },
    extrinsicParameters: extrinsics,
    mimeTypes: [...properties.mimeTypes],
    frameRate: properties.frameRate,
    defaultReferenceFrame: properties.defaultReferenceFrame,
  };
}

function textsIn(value: Json | undefined): string[] {
  return (Array.isArray(value) ? value : []).filter((one) => typeof one === "string");
}
