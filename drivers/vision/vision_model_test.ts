import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Camera, CameraApi, type Images } from "../../lib/api/sensors/camera.ts";
import { type PointCloudObject, VisionApi } from "../../lib/api/services/vision.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import { encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { readPcd, writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { IDENTITY_POSE } from "../../lib/geometry/pose.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { Dependencies } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import { construct, namedBy } from "../../tests/support/construct.ts";
import { FakeVision } from "./fake.ts";
import { type Skills, VisionModel } from "./vision_model.ts";

const PICTURE = {
  mimeType: MIME.png,
  image: encodeImage({ kind: "color", image: { width: 10, height: 6, rgba: new Uint8Array(240) } }, MIME.png),
};

type EncodedPicture = { readonly mimeType: string; readonly image: Uint8Array };

/** Counts how often it takes pictures. */
class Counting extends BaseComponent implements Camera {
  taken = 0;

  constructor(name: string, private readonly pictures: readonly EncodedPicture[] = [PICTURE]) {
    super(ResourceName.of(CameraApi.name, name));
  }

  getImages(): Promise<Images> {
    this.taken++;
    return Promise.resolve({
      images: this.pictures.map((picture) => ({ ...picture, sourceName: "color" })),
      capturedAtMs: 1,
    });
  }

  getPointCloud(): Promise<Uint8Array> {
    return Promise.resolve(new Uint8Array());
  }

  getProperties() {
    return Promise.resolve({ supportsPcd: false, mimeTypes: [MIME.png] });
  }
}

const name = ResourceName.of(VisionApi.name, "eyes");
const classes = [{ className: "b", confidence: 0.2 }, { className: "a", confidence: 0.7 }, {
  className: "c",
  confidence: 0.1,
}];
/** Two points on a box, one metre ahead. */
const object: PointCloudObject = {
  pcd: writePcd(
    createCloud({ x: Float32Array.of(0, 0.1), y: Float32Array.of(0, 0), z: Float32Array.of(1, 1) }),
  ),
  geometries: [{
    label: "crate",
    center: { ...IDENTITY_POSE, z: 1000 },
    shape: { type: "box", dimsMm: { x: 100, y: 100, z: 100 } },
  }],
  referenceFrame: "cam",
};

function vision(skills: Skills, cameras: Camera[], { defaultCamera, logged = [] }: {
  defaultCamera?: string;
  logged?: LogRecord[];
} = {}) {
  const logs = new Logs(new FakeClock(), [memorySink(logged)]);
  logs.configure([], true);
  return new VisionModel(
    { name, dependencies: new Dependencies(name, cameras), logger: logs.logger("v") },
    skills,
    defaultCamera,
  );
}

Deno.test("fake vision: it returns one detection in the middle and one classification", async () => {
  const camera = new Counting("cam");
  const fake = await construct(FakeVision, {}, { dependencies: [camera] });
  const middle = { xMin: 0.25, yMin: 0.25, xMax: 0.75, yMax: 0.75 };
  const box = { xMin: 2, yMin: 1, xMax: 7, yMax: 4 };
  const detections = [{ className: "a_detection", confidence: 0.92, box, normalized: middle }];
  const classifications = [{ className: "a_classification", confidence: 0.85 }];
  assertEquals(await fake.getDetections(PICTURE), detections);
  assertEquals(await fake.getDetectionsFromCamera("cam"), detections);
  assertEquals(await fake.getClassifications(PICTURE, 5), classifications);
  assertEquals(await fake.getClassificationsFromCamera("cam", 1), classifications);
  assertEquals(await fake.getProperties(), {
    detections: true,
    classifications: true,
    objectPointClouds: false,
    detections3D: false,
    defaultCamera: "fake_camera",
  });
});

Deno.test("fake vision: camera_name is a dependency and the default camera", async () => {
  assertEquals(namedBy(FakeVision, { camera_name: "cam" }), ["cam"]);
  const fake = await construct(FakeVision, { camera_name: "cam" }, { dependencies: [new Counting("cam")] });
  assertEquals((await fake.getDetectionsFromCamera("")).length, 1);
  assertEquals((await fake.getProperties()).defaultCamera, "cam");
});

Deno.test("fake vision: without camera_name, or with an empty one, fake_camera is the default", async () => {
  const cases: JsonObject[] = [{}, { camera_name: "" }];
  for (const attributes of cases) {
    assertEquals(namedBy(FakeVision, attributes), []);
    const cameras = { dependencies: [new Counting("fake_camera")] };
    const fake = await construct(FakeVision, attributes, cameras);
    assertEquals((await fake.getDetectionsFromCamera("")).length, 1);
    assertEquals((await fake.getProperties()).defaultCamera, "fake_camera");
    const alone = await construct(FakeVision, attributes);
    const missing = () => alone.getDetectionsFromCamera("");
    await assertRejects(missing, SvcError, "could not find camera named fake_camera");
  }
});

Deno.test("vision: methods without a skill are refused with the published errors", async () => {
  const mute = vision({}, [new Counting("cam")]);
  const title = 'vision model "rdk:service:vision/eyes" does not implement';
  await assertRejects(() => mute.getDetections(PICTURE), SvcError, `${title} a Detector`);
  await assertRejects(() => mute.getDetectionsFromCamera("cam"), SvcError, `${title} a Detector`);
  await assertRejects(() => mute.getClassifications(PICTURE, 1), SvcError, `${title} a Classifier`);
  await assertRejects(() => mute.getClassificationsFromCamera("cam", 1), SvcError, `${title} a Classifier`);
  await assertRejects(() => mute.getObjectPointClouds("cam"), SvcError, `${title} a 3D segmenter`);
  await assertRejects(() => mute.getDetections3D("cam"), SvcError, `${title} a 3D segmenter`);
});

Deno.test("vision: a missing camera, and a camera without images", async () => {
  const able = vision({ classify: () => Promise.resolve(classes) }, [new Counting("empty", [])]);
  const classify = (camera: string) => () => able.getClassificationsFromCamera(camera, 0);
  const unnamed = await assertRejects(
    classify(""),
    SvcError,
    "no camera name provided and no default camera",
  );
  const gone = await assertRejects(classify("gone"), SvcError, "could not find camera named gone");
  assertEquals([unnamed.code, gone.code], ["unknown", "unknown"], "as published");
  await assertRejects(classify("empty"), SvcError, "no images returned from camera empty");
});

Deno.test("vision: of a camera with several sensors it sees the first picture with colours, in any order", async () => {
  const depth: EncodedPicture = { mimeType: MIME.depth, image: Uint8Array.of(1) };
  const other: EncodedPicture = { mimeType: MIME.jpeg, image: Uint8Array.of(2) };
  const seen: number[] = [];
  const see = ({ image }: { image: Uint8Array }) => void seen.push(image.length > 1 ? 0 : image[0]!);
  const skills: Skills = {
    detect: (image) => Promise.resolve(see(image)).then(() => []),
    classify: (image) => Promise.resolve(see(image)).then(() => classes),
  };
  const cases = [[depth, PICTURE, other], [PICTURE, depth], [depth, depth, other], [depth]];
  for (const pictures of cases) {
    const able = vision(skills, [new Counting("cam", pictures)]);
    await able.getDetectionsFromCamera("cam");
    await able.getClassificationsFromCamera("cam", 0);
    see((await able.captureAllFromCamera("cam", { image: true })).image!);
  }
  assertEquals(seen, [0, 0, 0, 0, 0, 0, 2, 2, 2, 1, 1, 1], "only depth: what there is");
});

Deno.test("vision: classifications are sorted by confidence and limited to the requested count", async () => {
  const able = vision({ classify: () => Promise.resolve(classes) }, []);
  const names = async (count: number) =>
    (await able.getClassifications(PICTURE, count)).map(({ className }) => className).join("");
  assertEquals([await names(0), await names(2), await names(9)], ["abc", "ab", "abc"]);
  await assertRejects(() => able.getClassifications(PICTURE, -1), SvcError, "-1 classifications asked for");
});

Deno.test("vision: captureAllFromCamera takes one picture, and logs requests that it cannot serve", async () => {
  const camera = new Counting("cam");
  const logged: LogRecord[] = [];
  const segment: Skills["segment"] = async (view) => {
    await view.images();
    return [{ ...object, referenceFrame: view.cameraName }];
  };
  const able = vision({ segment, classify: () => Promise.resolve(classes) }, [camera], {
    logged,
    defaultCamera: "cam",
  });
  const wanted = { image: true, detections: true, classifications: true, objectPointClouds: true };
  const all = await able.captureAllFromCamera("", wanted);
  assertEquals(camera.taken, 1);
  assertEquals(all.image?.image, PICTURE.image);
  assertEquals([all.detections, all.classifications.length, all.objects], [[], 3, [object]]);
  assert(
    logged.some(({ message }) => message.includes("asks for detections, which rdk:service:vision/eyes")),
  );
});

Deno.test("vision: getDetections3D returns each object as a frame with its points as a child frame", async () => {
  const able = vision({ segment: () => Promise.resolve([object]) }, [new Counting("cam")]);
  const [{ parts, classifications }] = await able.getDetections3D("cam");
  const [whole, points] = parts;
  assertEquals(classifications, []);
  assertEquals([whole.name, whole.parent, whole.pose.z], ["eyes/object-0", "cam", 1000]);
  assertEquals(whole.geometry, { ...object.geometries[0], center: IDENTITY_POSE });
  assertEquals([points.name, points.parent], ["eyes/object-0/points", "eyes/object-0"]);
  assert(points.geometry?.shape.type === "point_cloud");
  assertEquals([...readPcd(points.geometry.shape.pcd).z], [0, 0]);
  const bare = {
    ...object,
    geometries: [],
    pcd: writePcd(createCloud({ x: new Float32Array(), y: new Float32Array(), z: new Float32Array() })),
  };
  const empty = vision({ segment: () => Promise.resolve([bare]) }, [new Counting("cam")]);
  const captured = await empty.captureAllFromCamera("cam", { detections3D: true });
  assertEquals(captured.objects, []);
  assertEquals(captured.detections3D[0].parts.map(({ geometry }) => geometry), [undefined]);
});
