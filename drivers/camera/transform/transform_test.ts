import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Camera, CameraApi, type Images } from "../../../lib/api/sensors/camera.ts";
import { type Vision, VisionApi } from "../../../lib/api/services/vision.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";
import { readPcd } from "../../../lib/geometry/cloud/pcd.ts";
import { type Decoded, decodeImage, encodeImage, MIME } from "../../../lib/geometry/image/image.ts";
import { ResourceName } from "../../../lib/resource/name.ts";
import { BaseComponent } from "../../../lib/resource/resource.ts";
import { construct, problemsOf } from "../../../tests/support/construct.ts";
import { FakeVision } from "../../vision/fake.ts";
import { cropped, pictureSize, resized, rotated } from "./geometry.ts";
import { TransformCamera } from "./transform.ts";

/** A picture whose pixels are their own numbers. */
function numbered(width: number, height: number, kind: Decoded["kind"] = "depth"): Decoded {
  const data = Uint16Array.from({ length: width * height }, (_, index) => index + 1);
  if (kind === "depth") return { kind, map: { width, height, data } };
  const rgba = Uint8Array.from({ length: width * height * 4 }, (_, at) => at % 4 === 3 ? 255 : (at >> 2) + 1);
  return { kind, image: { width, height, rgba } };
}

function pixels(content: Decoded): number[][] {
  const { width, height } = pictureSize(content);
  const value = (index: number) =>
    content.kind === "depth" ? content.map.data[index] : content.image.rgba[4 * index];
  return Array.from(
    { length: height },
    (_, y) => Array.from({ length: width }, (_, x) => value(y * width + x)),
  );
}

class Shown extends BaseComponent implements Camera {
  constructor(private readonly content: Decoded) {
    super(ResourceName.of(CameraApi.name, "source"));
  }

  getImages(): Promise<Images> {
    const mimeType = this.content.kind === "depth" ? MIME.depth : MIME.png;
    const image = { sourceName: "eye", mimeType, image: encodeImage(this.content, mimeType) };
    return Promise.resolve({ images: [image, { ...image, sourceName: "other" }], capturedAtMs: 5 });
  }

  getPointCloud(): Promise<Uint8Array> {
    return Promise.reject(new Error("none"));
  }

  getProperties() {
    return Promise.resolve({ supportsPcd: false, mimeTypes: [MIME.png] });
  }
}

async function shown(content: Decoded, pipeline: JsonObject[], more: JsonObject = {}, vision?: Vision) {
  const dependencies = [new Shown(content), ...vision ? [vision] : []];
  return await construct(TransformCamera, { source: "source", pipeline, ...more }, { dependencies });
}

async function result(camera: Camera): Promise<Decoded> {
  return decodeImage((await camera.getImages()).images[0].image);
}

Deno.test("rotated(): clockwise by right angles, of colours and of depth", () => {
  for (const kind of ["depth", "color"] as const) {
    const content = numbered(3, 2, kind);
    assertEquals(pixels(rotated(content, 90)), [[4, 1], [5, 2], [6, 3]]);
    assertEquals(pixels(rotated(content, 180)), [[6, 5, 4], [3, 2, 1]]);
    assertEquals(pixels(rotated(content, -90)), [[3, 6], [2, 5], [1, 4]]);
    assertEquals(pixels(rotated(content, 360)), [[1, 2, 3], [4, 5, 6]]);
  }
  const slanted = rotated(numbered(10, 10, "color"), 45);
  assertEquals([pictureSize(slanted).width, pictureSize(slanted).height], [15, 15]);
  assertEquals(pixels(slanted)[0][0], 0, "the corners are black");
});

Deno.test("resized() and cropped() take whole pixels", () => {
  const content = numbered(4, 2);
  assertEquals(pixels(resized(content, 2, 1)), [[6, 8]]);
  assertEquals(pixels(resized(numbered(2, 1, "color"), 4, 2)), [[1, 1, 2, 2], [1, 1, 2, 2]]);
  assertEquals(pixels(cropped(content, { xMin: 1, yMin: 0, xMax: 99, yMax: 1 })), [[2, 3, 4]]);
});

Deno.test("transform: the stages follow each other; the source's name stays", async () => {
  const camera = await shown(numbered(4, 4), [
    { type: "crop", attributes: { x_min_px: 0.5, y_min_px: 0, x_max_px: 1, y_max_px: 1 } },
    { type: "rotate" },
    { type: "resize", attributes: { width_px: 4, height_px: 4 } },
    { type: "" },
  ]);
  const { images, capturedAtMs } = await camera.getImages(["eye"]);
  assertEquals([images.map(({ sourceName }) => sourceName), images[0].mimeType, capturedAtMs], [
    ["eye"],
    MIME.depth,
    5,
  ]);
  assertEquals(pixels(decodeImage(images[0].image))[0], [16, 16, 15, 15]);
  await assertRejects(() => camera.getImages(["other"]), SvcError, 'no image source "other"');
});

Deno.test("transform: crop in pixels, in shares, of the first pixel, and as a box that is drawn", async () => {
  const size = async (attributes: JsonObject) =>
    pictureSize(await result(await shown(numbered(40, 20), [{ type: "crop", attributes }])));
  const { width, height } = await size({ x_min_px: 5, y_min_px: 5, x_max_px: 15, y_max_px: 10 });
  assertEquals([width, height], [10, 5]);
  const share = await size({ x_min_px: 0.25, x_max_px: 0.75, y_max_px: 0.5 });
  assertEquals([share.width, share.height], [20, 10]);
  const first = await size({ x_max_px: 1, y_max_px: 1 });
  assertEquals([first.width, first.height], [1, 1]);
  await assertRejects(
    () => size({ x_min_px: 90, x_max_px: 99, y_max_px: 9 }),
    SvcError,
    "stage 0 of its pipeline: the crop",
  );
  const box = { x_min_px: 10, y_min_px: 10, x_max_px: 90, y_max_px: 90, overlay_crop_box: true };
  const drawn = await result(await shown(numbered(100, 100, "color"), [{ type: "crop", attributes: box }]));
  assert(drawn.kind === "color" && drawn.image.width === 100);
  const [red, green] = drawn.image.rgba.subarray(4 * (50 * 100 + 11));
  assert(red > 200 && green < 90, `${red} ${green}`);
});

Deno.test("transform: what a vision service finds is drawn, if it counts", async () => {
  const vision = await construct(FakeVision, {}, { name: "eyes" });
  Object.assign(vision, {
    getDetections: () =>
      Promise.resolve([
        { className: "Cat", confidence: 0.9, box: { xMin: 20, yMin: 20, xMax: 80, yMax: 80 } },
        { className: "dog", confidence: 0.9, normalized: { xMin: 0, yMin: 0, xMax: 0.1, yMax: 0.1 } },
        { className: "cat", confidence: 0.2, box: { xMin: 0, yMin: 90, xMax: 99, yMax: 99 } },
      ]),
    getClassifications: (_image: unknown, count: number) =>
      Promise.resolve(
        [{ className: "cat", confidence: 0.9 }, { className: "VIAM_UNKNOWN", confidence: 1 }].slice(0, count),
      ),
  });
  const attributes = { detector_name: "eyes", confidence_threshold: 0.5, valid_labels: ["cat"] };
  const red = (content: Decoded, x: number, y: number) =>
    content.kind === "color" && content.image.rgba[4 * (y * 100 + x)] > 200 &&
    content.image.rgba[4 * (y * 100 + x) + 1] < 90;
  const black: Decoded = { kind: "color", image: { width: 100, height: 100, rgba: new Uint8Array(40_000) } };
  const boxes = await result(await shown(black, [{ type: "detections", attributes }], {}, vision));
  assertEquals([red(boxes, 21, 60), red(boxes, 1, 5), red(boxes, 50, 98)], [true, false, false]);
  const logged = [{
    type: "classifications",
    attributes: { classifier_name: "eyes", max_classifications: 2 },
  }];
  const titled = await result(await shown(black, logged, {}, vision));
  const rows = [...Array(100).keys()].filter((y) => [...Array(100).keys()].some((x) => red(titled, x, y)));
  assert(rows[0] >= 29 && rows.at(-1)! <= 56, `${rows[0]} to ${rows.at(-1)}`);
  assertEquals(vision.name.api, VisionApi.name);
  const depth = await shown(numbered(9, 9), [{ type: "detections", attributes }], {}, vision);
  await assertRejects(() => depth.getImages(), SvcError, "wanted a colour image");
  const nobody = await shown(black, [{ type: "detections", attributes }]);
  await assertRejects(() => nobody.getImages(), SvcError, "name eyes");
});

Deno.test("transform: a depth camera with a lens gives point clouds", async () => {
  const lens = { width_px: 2, height_px: 2, fx: 1, fy: 1, ppx: 1, ppy: 1 };
  const pipeline = [{ type: "resize", attributes: { width_px: 2, height_px: 2 } }];
  const camera = await shown(numbered(4, 4), pipeline, { intrinsic_parameters: lens });
  assertEquals((await camera.getProperties()).supportsPcd, true);
  assertEquals(readPcd(await camera.getPointCloud()).x.length, 4);
  const flat = await shown(numbered(4, 4, "color"), pipeline, { intrinsic_parameters: lens });
  assertEquals((await flat.getProperties()).supportsPcd, false);
  await assertRejects(() => flat.getPointCloud(), SvcError, "have no depth");
});

Deno.test("transform: impossible attributes, each with its path", () => {
  const paths = (...pipeline: JsonObject[]) =>
    problemsOf(TransformCamera, { source: "s", pipeline }).map((one) => one.split(":")[0]);
  assertEquals(paths(), ["pipeline"]);
  assertEquals(paths({ type: "rotat" }), ["pipeline.0.type"]);
  assertEquals(paths({ type: "resize" }), [
    "pipeline.0.attributes.width_px",
    "pipeline.0.attributes.height_px",
  ]);
  assertEquals(paths({ type: "resize", attributes: { width_px: 1e6, height_px: 1e6 } }), [
    "pipeline.0.attributes",
  ]);
  assertEquals(paths({ type: "crop", attributes: { x_min_px: 5, x_max_px: 5, y_max_px: 9 } }), [
    "pipeline.0.attributes.x_min_px",
  ]);
});
