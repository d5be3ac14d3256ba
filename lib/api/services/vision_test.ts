import { assertEquals } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { encodeImage, MIME } from "../../geometry/image/image.ts";
import { IDENTITY_POSE } from "../../geometry/pose.ts";
import { ResourceName } from "../../resource/name.ts";
import { BaseComponent, BaseResource, type Call, type Resource } from "../../resource/resource.ts";
import type { Api } from "../../resource/registry.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { type Camera, CameraApi, type CameraProperties, type Images } from "../sensors/camera.ts";
import {
  type Capture,
  type Classification,
  type Detection,
  type Detection3D,
  type EncodedImage,
  type PointCloudObject,
  type Vision,
  VisionApi,
  type VisionProperties,
  type Wanted,
} from "./vision.ts";

/** The resource as its clients see it. */
function throughTheWire<R extends Resource>(api: Api<R>, resource: R): R {
  const table = new ServiceTable(new SystemClock());
  table.add(api.serve(() => resource));
  return api.client(resource.name, memoryChannel(table));
}

const annotated: Images = {
  capturedAtMs: 1_700_000_000_123.25,
  images: [{
    sourceName: "left",
    mimeType: MIME.png,
    image: Uint8Array.of(1, 2, 3),
    annotations: {
      bboxes: [{
        id: "1",
        label: "cat",
        xMinNormalized: 0,
        yMinNormalized: 0.25,
        xMaxNormalized: 0.5,
        yMaxNormalized: 1,
        confidence: 0.75,
      }],
      classifications: [{ id: "2", label: "indoors", confidence: 0.5 }],
    },
  }],
};

const properties: CameraProperties = {
  supportsPcd: true,
  intrinsics: { widthPx: 4, heightPx: 3, focalXPx: 2.5, focalYPx: 2.75, centerXPx: 1.5, centerYPx: 1 },
  distortion: { model: "brown_conrady", parameters: [1, 2, 3, 4, 5] },
  extrinsics: { translation: { x: 10, y: 0, z: -5 }, orientation: { oX: 0, oY: 1, oZ: 0, theta: 90 } },
  mimeTypes: [MIME.png],
  frameRate: 12.5,
  defaultReferenceFrame: "depth_sensor",
};

class StillCamera extends BaseComponent implements Camera {
  wanted: readonly string[] | undefined;
  extra: unknown;
  withTimes: boolean | undefined;

  getImages(sourceNames?: readonly string[], call?: Call): Promise<Images> {
    this.wanted = sourceNames;
    this.extra = call?.extra;
    return Promise.resolve(annotated);
  }

  getPointCloud(call?: Call): Promise<Uint8Array> {
    this.withTimes = call?.withTimes;
    return Promise.resolve(Uint8Array.of(9, 8));
  }

  getProperties(): Promise<CameraProperties> {
    return Promise.resolve(properties);
  }
}

const box = { xMin: 1, yMin: 2, xMax: 3, yMax: 4 };
const detections: Detection[] = [
  { className: "a", confidence: 0.5, box, normalized: { xMin: 0.25, yMin: 0.5, xMax: 0.75, yMax: 1 } },
  { className: "b", confidence: 0.25, box: { ...box, xMin: 0 }, normalized: undefined },
];
const classifications: Classification[] = [{ className: "c", confidence: 0.125 }];
const shape = {
  label: "crate",
  center: { ...IDENTITY_POSE, z: 500 },
  shape: { type: "box" as const, dimsMm: { x: 1, y: 2, z: 3 } },
};
const objects: PointCloudObject[] = [{ pcd: Uint8Array.of(7), geometries: [shape], referenceFrame: "cam" }];
const detections3D: Detection3D[] = [{
  parts: [
    { name: "o", parent: "cam", pose: { ...IDENTITY_POSE, x: 3 }, geometry: shape },
    { name: "o/points", parent: "o", pose: IDENTITY_POSE, geometry: undefined },
  ],
  classifications,
  metadata: { age: 3 },
}];

class SeesEverything extends BaseResource implements Vision {
  readonly asked: unknown[] = [];

  getDetections({ image, mimeType }: EncodedImage): Promise<Detection[]> {
    this.asked.push([image.length, mimeType]);
    return Promise.resolve(detections);
  }

  getDetectionsFromCamera(camera: string): Promise<Detection[]> {
    this.asked.push(camera);
    return Promise.resolve(detections);
  }

  getClassifications({ image, mimeType }: EncodedImage, count: number): Promise<Classification[]> {
    this.asked.push([image.length, mimeType, count]);
    return Promise.resolve(classifications);
  }

  getClassificationsFromCamera(camera: string, count: number): Promise<Classification[]> {
    this.asked.push([camera, count]);
    return Promise.resolve(classifications);
  }

  getObjectPointClouds(camera: string): Promise<PointCloudObject[]> {
    this.asked.push(camera);
    return Promise.resolve(objects);
  }

  getDetections3D(camera: string): Promise<Detection3D[]> {
    this.asked.push(camera);
    return Promise.resolve(detections3D);
  }

  getProperties(): Promise<VisionProperties> {
    return Promise.resolve({
      detections: true,
      classifications: false,
      objectPointClouds: true,
      detections3D: false,
      defaultCamera: "cam",
    });
  }

  captureAllFromCamera(camera: string, wanted: Wanted): Promise<Capture> {
    this.asked.push([camera, wanted]);
    const [image] = annotated.images;
    return Promise.resolve({
      image,
      detections,
      classifications,
      objects,
      detections3D,
      extra: { note: "hi" },
    });
  }
}

Deno.test("camera: images with annotations and time survive the wire", async () => {
  const camera = new StillCamera(ResourceName.of(CameraApi.name, "cam"));
  const client = throughTheWire(CameraApi, camera);
  assertEquals(await client.getImages(["left"], { extra: { fast: true } }), annotated);
  assertEquals([camera.wanted, camera.extra], [["left"], { fast: true }]);
  assertEquals(await client.getPointCloud(), Uint8Array.of(9, 8));
  assertEquals(camera.withTimes, false);
  await client.getPointCloud({ withTimes: true });
  assertEquals(camera.withTimes, true);
});

Deno.test("camera: full and minimal properties survive the wire", async () => {
  const camera = new StillCamera(ResourceName.of(CameraApi.name, "cam"));
  assertEquals(await throughTheWire(CameraApi, camera).getProperties(), properties);
  const bare: CameraProperties = { supportsPcd: false, mimeTypes: [] };
  camera.getProperties = () => Promise.resolve(bare);
  const found = await throughTheWire(CameraApi, camera).getProperties();
  assertEquals(JSON.parse(JSON.stringify(found)), bare);
});

Deno.test("vision: arguments and answers of each method survive the wire", async () => {
  const eyes = new SeesEverything(ResourceName.of(VisionApi.name, "eyes"));
  const client = throughTheWire(VisionApi, eyes);
  const rgba = new Uint8Array(2 * 2 * 4);
  const image = encodeImage({ kind: "color", image: { width: 2, height: 2, rgba } }, MIME.rgba);
  assertEquals(await client.getDetections({ image, mimeType: MIME.rgba }), detections);
  assertEquals(await client.getDetectionsFromCamera("cam"), detections);
  assertEquals(await client.getClassifications({ image, mimeType: MIME.rgba }, 3), classifications);
  assertEquals(await client.getClassificationsFromCamera("cam", 2), classifications);
  assertEquals(await client.getObjectPointClouds("cam"), objects);
  assertEquals(await client.getDetections3D("cam"), detections3D);
  assertEquals(await client.getProperties(), await eyes.getProperties());
  assertEquals(eyes.asked, [
    [image.length, MIME.rgba],
    "cam",
    [image.length, MIME.rgba, 3],
    ["cam", 2],
    "cam",
    "cam",
  ]);
});

Deno.test("vision: CaptureAllFromCamera survives the wire", async () => {
  const eyes = new SeesEverything(ResourceName.of(VisionApi.name, "eyes"));
  const wanted = {
    image: true,
    detections: false,
    classifications: true,
    objectPointClouds: true,
    detections3D: true,
  };
  const captured = await throughTheWire(VisionApi, eyes).captureAllFromCamera("cam", wanted);
  assertEquals(captured, await eyes.captureAllFromCamera("", wanted));
  assertEquals(eyes.asked[0], ["cam", wanted]);
});
