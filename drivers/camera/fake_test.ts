import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { decodeDepth } from "../../lib/geometry/image/depth.ts";
import { decodeImage, imageSize, MIME } from "../../lib/geometry/image/image.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import { boundingBox } from "../../lib/geometry/cloud/point_cloud.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeCamera } from "./fake.ts";
import { sceneLens } from "./scene.ts";

Deno.test("fake camera: images are a JPEG and a depth image, 1280 x 720 by default", async () => {
  const { images } = await (await construct(FakeCamera)).getImages();
  assertEquals(
    images.map(({ sourceName, mimeType, image }) => [sourceName, mimeType, imageSize(image)]),
    [["color", MIME.jpeg, { width: 1280, height: 720 }], ["depth", MIME.depth, { width: 160, height: 90 }]],
    "the depth is small, for it comes along with every picture",
  );
  const small = await construct(FakeCamera, { width: 64, height: 0 });
  assertEquals(imageSize((await small.getImages()).images[0].image), { width: 64, height: 720 });
});

Deno.test("fake camera: the picture is a constant gradient from yellow to blue with the current time", async () => {
  const clock = new FakeClock();
  const camera = await construct(FakeCamera, { width: 64, height: 64 }, { clock });
  const first = await camera.getImages();
  assertEquals(first.capturedAtMs, clock.nowMs());
  await clock.advance(1000);
  const second = await camera.getImages();
  assertEquals(second.capturedAtMs, first.capturedAtMs + 1000);
  assert(first.images[0].image === second.images[0].image);
  const decoded = decodeImage(first.images[0].image);
  assert(decoded.kind === "color");
  const { rgba } = decoded.image;
  const [red, , blue] = rgba;
  const [redAtEnd, , blueAtEnd] = rgba.subarray(-4);
  assert(red > 240 && blue < 20, `${red} ${blue}`);
  assert(redAtEnd < 20 && blueAtEnd > 240, `${redAtEnd} ${blueAtEnd}`);
});

Deno.test("fake camera: with animated set the picture changes every 20 ms", async () => {
  const clock = new FakeClock();
  const camera = await construct(FakeCamera, { width: 64, height: 16, animated: true }, { clock });
  const picture = async () => (await camera.getImages()).images[0].image;
  const first = await picture();
  assertEquals(await picture(), first);
  await clock.advance(20);
  assert((await picture()).some((byte, index) => byte !== first[index]));
  await clock.advance(20 * 63);
  assertEquals(await picture(), first);
});

Deno.test("fake camera: the point cloud is the gradient with one millimetre per pixel", async () => {
  const camera = await construct(FakeCamera, { width: 40, height: 30 });
  const cloud = readPcd(await camera.getPointCloud());
  assertEquals(cloud.x.length, 1200);
  assertEquals(cloud.rgb?.[0], 0xffff00);
  const box = boundingBox(cloud)!;
  assertAlmostEquals(box.max.x, 0.039, 1e-6);
  assertAlmostEquals(box.max.y, 0.029, 1e-6);
  assertAlmostEquals(box.max.z, 0.255 * Math.hypot(39, 29) / 50, 1e-6);
});

Deno.test("fake camera: the point cloud of a large picture stays below 16 MiB", async () => {
  const camera = await construct(FakeCamera, { width: 2000, height: 1500 });
  assert((await camera.getPointCloud()).length < 2 ** 24);
});

Deno.test("fake camera: intrinsics match the depth image, or the published lens if model is set", async () => {
  assertEquals(await (await construct(FakeCamera)).getProperties(), {
    supportsPcd: true,
    mimeTypes: [MIME.jpeg, MIME.depth],
    intrinsics: sceneLens(1280, 720),
  });
  const { intrinsics, distortion } = await (await construct(FakeCamera, { model: true })).getProperties();
  assertEquals(intrinsics, {
    widthPx: 1280,
    heightPx: 720,
    focalXPx: 821.32642889,
    focalYPx: 821.68607359,
    centerXPx: 494.95941428,
    centerYPx: 370.70529534,
  });
  assertEquals(distortion?.model, "brown_conrady");
  assertEquals(distortion?.parameters.length, 5);
});

Deno.test("fake camera: a scene has at most as many pixels as 1920 x 1080", () => {
  assertEquals(problemsOf(FakeCamera, { width: 1080, height: 1920, scene: "boxes" }), []);
  assertEquals(problemsOf(FakeCamera, { width: 10_000, height: 10_000 }), []);
  assertEquals(problemsOf(FakeCamera, { width: 10_000, height: 10_000, scene: "boxes" }), [
    ": found a picture of 10000 x 10000, wanted at most 2073600 pixels (1920 x 1080) with a scene",
  ]);
});

Deno.test("fake camera: width and height must be even and at most 10000", () => {
  const message = "odd-number resolutions cannot be rendered, cannot use a width of 3";
  assertEquals(problemsOf(FakeCamera, { width: 3 }), [`width: ${message}`]);
  assertEquals(problemsOf(FakeCamera, { height: 10_002 }).length, 1);
  assertEquals(problemsOf(FakeCamera, { height: -2 }).length, 1);
  assertEquals(problemsOf(FakeCamera, { width: 10_000, height: 2 }), []);
});

Deno.test("fake camera: getImages returns only the requested sources and refuses unknown sources", async () => {
  const camera = await construct(FakeCamera, { width: 16, height: 16, scene: "boxes" });
  const names = async (...wanted: string[]) =>
    (await camera.getImages(wanted)).images.map(({ sourceName }) => sourceName);
  assertEquals(await names(), ["color", "depth"]);
  assertEquals(await names("depth"), ["depth"]);
  assertEquals(await names("depth", "color", "depth"), ["color", "depth"]);
  const error = await assertRejects(() => camera.getImages(["infrared"]), SvcError);
  assertEquals(
    error.message,
    'rdk:component:camera/test has no image source "infrared", it has: "color", "depth"',
  );
});

Deno.test("fake camera: depth image and point cloud show the scene's true heights", async () => {
  const camera = await construct(FakeCamera, { width: 320, height: 240, scene: "boxes" });
  const { images } = await camera.getImages(["depth"]);
  const map = decodeDepth(images[0].image);
  const { intrinsics } = await camera.getProperties();
  const cloud = readPcd(await camera.getPointCloud());
  assertEquals([map.width, map.height], [intrinsics?.widthPx, intrinsics?.heightPx]);
  assertEquals(cloud.x.length, map.data.filter((depth) => depth > 0).length);
  // The camera is 600 mm above the floor: with the pitch undone, no point lies below the floor and the
  // highest box rises 400 mm.
  const [cos, sin] = [Math.cos(20 * Math.PI / 180), Math.sin(20 * Math.PI / 180)];
  let [lowest, highest] = [Infinity, -Infinity];
  for (let point = 0; point < cloud.x.length; point++) {
    const up = 0.6 - cos * cloud.y[point] - sin * cloud.z[point];
    [lowest, highest] = [Math.min(lowest, up), Math.max(highest, up)];
  }
  assertAlmostEquals(lowest, 0, 0.002);
  assertAlmostEquals(highest, 0.4, 0.005);
});

Deno.test("fake camera: a scene of the attributes has boxes, balls, noise and dropout", async () => {
  const scene = {
    height_mm: 500,
    pitch_degs: 90,
    boxes: [{ z_mm: 0, x_mm: -100, width_mm: 100, height_mm: 200 }],
    balls: [{ z_mm: 0, x_mm: 100, radius_mm: 50, color: "#0000ff" }],
  };
  const camera = await construct(FakeCamera, { width: 160, height: 120, scene });
  const { images } = await camera.getImages(["depth"]);
  const { data } = decodeDepth(images[0].image);
  // Seen from 500 mm straight down: the floor, the top of the box and the top of the ball.
  assertEquals([data[0], Math.min(...data), data.filter((depth) => depth === 300).length > 500], [
    500,
    300,
    true,
  ]);
  assertEquals(data[60 * 160 + 80 + Math.round(139.2 * 100 / 400)], 400);
  const noisy = await construct(FakeCamera, { width: 160, height: 120, scene: { noise: 1, dropout: 0.5 } });
  const depth = decodeDepth((await noisy.getImages(["depth"])).images[0].image).data;
  const holes = depth.subarray(-8000).filter((one) => one === 0).length;
  assert(holes > 3800 && holes < 4200, `${holes}`);
  assertEquals(problemsOf(FakeCamera, { scene: "moon" }), [
    'scene: found "moon", wanted one of "floor", "boxes"',
  ]);
  assertEquals(problemsOf(FakeCamera, { scene: { boxes: [{}], balls: [{ z_mm: 1, color: "red" }] } }), [
    "scene.boxes.0.z_mm: missing required field, wanted a number",
    'scene.balls.0.color: found "red", wanted a colour such as #c83c32',
  ]);
});
