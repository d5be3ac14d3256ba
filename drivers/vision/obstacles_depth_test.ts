import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { type Camera, CameraApi, type CameraProperties, type Images } from "../../lib/api/sensors/camera.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { type DepthMap, encodeDepth } from "../../lib/geometry/image/depth.ts";
import { encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import { boundingBox } from "../../lib/geometry/cloud/point_cloud.ts";
import { poseAt } from "../../lib/geometry/pose.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeCamera } from "../camera/fake.ts";
import { type CameraScene, drawScene, sceneLens } from "../camera/scene.ts";
import { ObstaclesDepthVision } from "./obstacles_depth.ts";

const LENS = sceneLens(160, 120);
const SCENE: CameraScene = {
  heightMm: 500,
  pitchDeg: 15,
  bodies: [
    { type: "box", at: { x: -300, y: 0, z: 1000 }, sizeMm: { x: 150, y: 300, z: 150 }, color: 0xff0000 },
    { type: "ball", at: { x: 300, y: 0, z: 1300 }, radiusMm: 150, color: 0x00ff00 },
  ],
};

/** A camera that shows the given images. */
class Showing extends BaseComponent implements Camera {
  taken = 0;
  pictures: readonly { sourceName: string; mimeType: string; image: Uint8Array }[];
  properties: Partial<CameraProperties> | Error;

  constructor(map: DepthMap, properties: Partial<CameraProperties> | Error = { intrinsics: LENS }) {
    super(ResourceName.of(CameraApi.name, "cam"));
    this.pictures = [{ sourceName: "", mimeType: MIME.depth, image: encodeDepth(map) }];
    this.properties = properties;
  }

  getImages(): Promise<Images> {
    this.taken++;
    return Promise.resolve({ images: this.pictures, capturedAtMs: 1 });
  }

  getPointCloud(): Promise<Uint8Array> {
    return Promise.resolve(new Uint8Array());
  }

  getProperties(): Promise<CameraProperties> {
    if (this.properties instanceof Error) return Promise.reject(this.properties);
    return Promise.resolve({ supportsPcd: true, mimeTypes: [], ...this.properties });
  }
}

const build = (camera: Camera, attributes: JsonObject = {}, logged: LogRecord[] = []) =>
  construct(ObstaclesDepthVision, attributes, { dependencies: [camera], logged });

Deno.test("obstacles_depth: finds objects in front of a fake camera without attributes", async () => {
  const logged: LogRecord[] = [];
  const vision = await build(await construct(FakeCamera, {}, { name: "cam" }), {}, logged);
  assertEquals((await vision.getObjectPointClouds("cam")).length, 3);
  assertEquals(logged, []);
});

const depth = (scene: Partial<CameraScene> = {}) => drawScene({ ...SCENE, ...scene }, LENS).depth;

function flat(width: number, height: number, depthOf: (pixel: number) => number): DepthMap {
  return { width, height, data: Uint16Array.from({ length: width * height }, (_, pixel) => depthOf(pixel)) };
}

Deno.test("obstacles_depth: each object is a point cloud with its bounding box in the camera's frame", async () => {
  const vision = await build(new Showing(depth()));
  const objects = await vision.getObjectPointClouds("cam");
  assertEquals(objects.length, 2);
  for (const { pcd, geometries, referenceFrame } of objects) {
    assertEquals(referenceFrame, "cam");
    assertEquals(geometries.length, 1);
    const [{ center, label, shape }] = geometries;
    const { min, max, points } = boundingBox(readPcd(pcd))!;
    assert(points > 100 && shape.type === "box" && label === "");
    assertAlmostEquals(center.x, (min.x + max.x) * 500, 1e-3);
    assertAlmostEquals(center.z, (min.z + max.z) * 500, 1e-3);
    assertAlmostEquals(shape.dimsMm.y, (max.y - min.y) * 1000, 1e-3);
    assertEquals([center.oX, center.oY, center.oZ, center.theta], [0, 0, 1, 0]);
  }
  const [box, ball] = objects.map(({ geometries }) => geometries[0].center);
  assertAlmostEquals(box.x, -300, 30);
  assertAlmostEquals(ball.x, 300, 30);
});

Deno.test("obstacles_depth: equal depth images give identical point clouds", async () => {
  const vision = await build(new Showing(depth({ noise: 1, dropout: 0.02 })));
  const first = await vision.getObjectPointClouds("cam");
  assertEquals(first.length, 2);
  assertEquals(await vision.getObjectPointClouds("cam"), first);
});

Deno.test("obstacles_depth: the defaults equal the published defaults", async () => {
  const vision = await build(new Showing(depth()));
  const published = await build(new Showing(depth()), {
    min_points_in_plane: 500,
    min_points_in_segment: 10,
    max_dist_from_plane_mm: 100.0,
    ground_angle_tolerance_degs: 30,
    clustering_radius: 1,
    clustering_strictness: 5,
  });
  assertEquals(await published.getObjectPointClouds("cam"), await vision.getObjectPointClouds("cam"));
});

Deno.test("obstacles_depth: 0 is the default where it makes no sense otherwise", async () => {
  const vision = await build(new Showing(depth()));
  const zeros = await build(new Showing(depth()), {
    max_dist_from_plane_mm: 0,
    clustering_radius: 0,
    clustering_strictness: 0,
  });
  assertEquals(await zeros.getObjectPointClouds("cam"), await vision.getObjectPointClouds("cam"));
});

Deno.test("obstacles_depth: 0 is not the default: any plane is ground, only a level plane is, every cluster is an object", async () => {
  const count = async (map: DepthMap, attributes: JsonObject) =>
    (await (await build(new Showing(map), attributes)).getObjectPointClouds("cam")).length;
  const tilted = depth();
  assertEquals(await count(tilted, { min_points_in_plane: 100_000 }), 1, "all in one with the floor");
  assertEquals(await count(tilted, { min_points_in_plane: 0 }), 2);
  assertEquals(await count(tilted, { ground_angle_tolerance_degs: 0 }), 1, "the floor is 15 degrees askew");
  const noisy = depth({ noise: 1, dropout: 0.02 });
  const limits = { max_dist_from_plane_mm: 3 };
  assert(
    await count(noisy, { ...limits, min_points_in_segment: 0 }) >
      await count(noisy, { ...limits, min_points_in_segment: 1 }),
  );
});

Deno.test("obstacles_depth: impossible attributes, each error with its path", () => {
  assertEquals(
    problemsOf(ObstaclesDepthVision, {
      min_points_in_plane: -1,
      min_points_in_segment: 1.5,
      max_dist_from_plane_mm: -0.1,
      ground_angle_tolerance_degs: 30.5,
      clustering_radius: "1",
      clustering_strictness: 1e-8,
      camera_name: 7,
    }),
    [
      "min_points_in_plane: found -1, wanted an integer of at least 0",
      "min_points_in_segment: found 1.5, wanted an integer of at least 0",
      "max_dist_from_plane_mm: found -0.1, wanted a number greater than 0",
      "ground_angle_tolerance_degs: found 30.5, wanted an integer from 0 to 180",
      'clustering_radius: found "1", wanted an integer of at least 1',
      "clustering_strictness: found 1e-8, wanted an integer of at least 1",
      "camera_name: found 7, wanted a string",
    ],
  );
  assertEquals(problemsOf(ObstaclesDepthVision, {}), []);
  assertEquals(
    problemsOf(ObstaclesDepthVision, {
      ground_angle_tolerance_degs: 181,
      clustering_radius: -1,
      clustering_strictness: -1,
    }),
    [
      "ground_angle_tolerance_degs: found 181, wanted an integer from 0 to 180",
      "clustering_radius: found -1, wanted an integer of at least 1",
      "clustering_strictness: found -1, wanted an integer of at least 1",
    ],
  );
  const whole = { min_points_in_plane: 0, min_points_in_segment: 0, ground_angle_tolerance_degs: 0 };
  assertEquals(problemsOf(ObstaclesDepthVision, { ...whole, clustering_radius: 10 }), []);
});

Deno.test("obstacles_depth: camera_name is the default camera, and detections are unimplemented", async () => {
  assertEquals(namedBy(ObstaclesDepthVision, { camera_name: "cam" }), ["cam"]);
  const camera = new Showing(depth());
  const vision = await build(camera, { camera_name: "cam" });
  assertEquals((await vision.getObjectPointClouds("")).length, 2);
  assertEquals(await vision.getProperties(), {
    detections: false,
    classifications: false,
    objectPointClouds: true,
    detections3D: true,
    defaultCamera: "cam",
  });
  const bare = await build(camera);
  await assertRejects(() => bare.getObjectPointClouds(""), SvcError, "no camera name provided");
  await assertRejects(() => bare.getObjectPointClouds("gone"), SvcError, "could not find camera named gone");
  await assertRejects(() => bare.getDetectionsFromCamera("cam"), SvcError, "does not implement a Detector");
  await assertRejects(() => bare.getClassificationsFromCamera("cam", 1), SvcError, "does not implement");
});

Deno.test("obstacles_depth: captureAllFromCamera takes a single picture", async () => {
  const camera = new Showing(depth());
  const vision = await build(camera, { camera_name: "cam" });
  const wanted = { image: true, detections: true, classifications: true, objectPointClouds: true };
  const { image, objects, detections, classifications } = await vision.captureAllFromCamera("", wanted);
  assertEquals([camera.taken, image?.mimeType, objects.length], [1, MIME.depth, 2]);
  assertEquals([detections, classifications], [[], []]);
});

Deno.test("obstacles_depth: without intrinsics it returns one object at the median distance and logs a warning", async () => {
  const logged: LogRecord[] = [];
  // 1600 of 2500 pixels are at 400 mm; the others are far away or have no reading.
  const far = (pixel: number) => pixel < 2000 ? 0 : 900;
  const camera = new Showing(flat(50, 50, (pixel) => pixel < 1600 ? 400 : far(pixel)), {});
  const vision = await build(camera, {}, logged);
  const [{ pcd, geometries, referenceFrame }, ...others] = await vision.getObjectPointClouds("cam");
  assertEquals([others, referenceFrame, readPcd(pcd).x.length], [[], "cam", 0]);
  assertEquals(geometries, [{
    center: poseAt(0, 0, 400),
    label: "",
    shape: { type: "sphere", radiusMm: 0 },
  }]);
  await vision.getObjectPointClouds("cam");
  const warnings = () => logged.filter(({ level }) => level === "warn").map(({ message }) => message);
  assertEquals(warnings().length, 1);
  assert(warnings()[0].startsWith("cam: there are no lens parameters"), warnings()[0]);
  camera.properties = new SvcError("unavailable", "unplugged");
  assertEquals((await vision.getObjectPointClouds("cam")).length, 1);
  assert(warnings()[1].includes("could not get lens parameters (unplugged)"), warnings()[1]);
  camera.pictures = [{ ...camera.pictures[0], image: encodeDepth(flat(5, 5, () => 0)) }];
  assertEquals(await vision.getObjectPointClouds("cam"), []);
});

Deno.test("obstacles_depth: it finds the depth image among a camera's images", async () => {
  const map = depth();
  const camera = new Showing(map);
  const [raw] = camera.pictures;
  const rgba = new Uint8Array(160 * 120 * 4);
  const color = (sourceName: string, mimeType: string) => ({
    sourceName,
    mimeType,
    image: encodeImage({ kind: "color", image: { width: 160, height: 120, rgba } }, mimeType),
  });
  const grey = {
    sourceName: "range",
    mimeType: MIME.png,
    image: encodeImage({ kind: "depth", map }, MIME.png),
  };
  const vision = await build(camera);
  for (
    const pictures of [
      [color("color", MIME.jpeg), raw],
      [color("depth", MIME.jpeg), color("color", MIME.png), grey],
      [{ sourceName: "other", mimeType: "image/qoi", image: Uint8Array.of(1, 2, 3) }, raw],
    ]
  ) {
    camera.pictures = pictures;
    assertEquals((await vision.getObjectPointClouds("cam")).length, 2);
  }
  camera.pictures = [color("color", MIME.jpeg), color("left", MIME.png)];
  const error = await assertRejects(() => vision.getObjectPointClouds("cam"), SvcError);
  assertEquals(error.code, "invalid_argument");
  assertEquals(
    error.message,
    'could not convert an image of cam to a depth map: found "color" of image/jpeg, "left" of image/png, ' +
      "wanted image/vnd.viam.dep or a 16-bit grey image/png",
  );
});

Deno.test("obstacles_depth: bad intrinsics fail, and scaled intrinsics and unknown distortion are logged", async () => {
  const logged: LogRecord[] = [];
  const camera = new Showing(depth());
  const vision = await build(camera, {}, logged);
  for (const change of [{ focalXPx: 0 }, { focalYPx: NaN }, { centerXPx: Infinity }, { widthPx: 0 }]) {
    camera.properties = { intrinsics: { ...LENS, ...change } };
    const error = await assertRejects(
      () => vision.getObjectPointClouds("cam"),
      SvcError,
      "cam: intrinsics: ",
    );
    assertEquals(error.code, "invalid_argument");
  }
  camera.properties = { intrinsics: sceneLens(320, 240) };
  assertEquals((await vision.getObjectPointClouds("cam")).length, 2);
  assertEquals(logged, [], "a picture of another size is the same view");
  camera.properties = { intrinsics: sceneLens(320, 200) };
  assertEquals((await vision.getObjectPointClouds("cam")).length, 2);
  camera.properties = { intrinsics: LENS, distortion: { model: "fishy", parameters: [1] } };
  assertEquals((await vision.getObjectPointClouds("cam")).length, 2);
  await vision.getObjectPointClouds("cam");
  assertEquals(logged.map(({ message }) => message), [
    "cam: lens parameters for 320 x 200 are scaled to 160 x 120",
    'cam: the distortion model "fishy" is unknown; ignoring it',
  ]);
});

Deno.test("obstacles_depth: a missing ground is logged once", async () => {
  const logged: LogRecord[] = [];
  const camera = new Showing(depth({ pitchDeg: 45 }));
  const vision = await build(camera, {}, logged);
  assert((await vision.getObjectPointClouds("cam")).length > 0);
  await vision.getObjectPointClouds("cam");
  assertEquals(logged.map(({ message }) => message), [
    "cam: found no ground; it may be part of the objects",
  ]);
  camera.pictures = [{ ...camera.pictures[0], image: encodeDepth(depth({ bodies: [] })) }];
  assertEquals(await vision.getObjectPointClouds("cam"), []);
});

Deno.test("obstacles_depth: damaged depth images are refused with invalid_argument", async () => {
  const camera = new Showing(depth());
  const vision = await build(camera);
  const { image } = camera.pictures[0];
  const lying = image.slice();
  lying.fill(255, 8, 24);
  for (const bad of [new Uint8Array(), image.subarray(0, 20), image.subarray(0, 900), lying]) {
    camera.pictures = [{ sourceName: "depth", mimeType: MIME.depth, image: bad }];
    const error = await assertRejects(() => vision.getObjectPointClouds("cam"), SvcError);
    assertEquals(error.code, "invalid_argument");
  }
});

Deno.test("obstacles_depth: it finds the three boxes of a fake camera's scene", async () => {
  const camera = await construct(FakeCamera, { width: 320, height: 240, scene: "boxes" }, { name: "cam" });
  const vision = await build(camera);
  const centers = (await vision.getObjectPointClouds("cam")).map(({ geometries }) => geometries[0].center);
  assertEquals(centers.map(({ x }) => Math.round(x / 100)).sort((a, b) => a - b), [-4, 0, 5]);
});
