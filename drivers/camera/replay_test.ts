import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { decodeDepth } from "../../lib/geometry/image/depth.ts";
import { encodeImage, imageSize, MIME } from "../../lib/geometry/image/image.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { ReplayCamera } from "./replay.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";

const LENS = { width_px: 2, height_px: 1, fx: 2, fy: 2, ppx: 0.5, ppy: 0 };

function depth(depthMm: number): Uint8Array {
  return encodeImage(
    { kind: "depth", map: { width: 2, height: 1, data: Uint16Array.of(depthMm, 0) } },
    MIME.png,
  );
}

function color(width: number, height = 1): Uint8Array {
  return encodeImage(
    { kind: "color", image: { width, height, rgba: new Uint8Array(width * height * 4) } },
    MIME.png,
  );
}

/** A machine whose folder `frames` holds these files. */
function hostWith(files: Record<string, Uint8Array>): FakeHost {
  const paths = Object.entries(files).map(([name, bytes]) => [`frames/${name}`, bytes]);
  return new FakeHost({ files: Object.fromEntries(paths) });
}

function replay(files: Record<string, Uint8Array>, attributes: JsonObject = {}, clock = new FakeClock()) {
  return construct(ReplayCamera, { folder: "frames", ...attributes }, { host: hostWith(files), clock });
}

const DEPTHS = {
  "t10_depth.png": depth(3),
  "t2_depth.png": depth(2),
  "t1_depth.png": depth(1),
  "t1_label.png": color(2),
};

Deno.test("replay camera: frames follow the clock in numeric order", async () => {
  const clock = new FakeClock();
  const camera = await replay(DEPTHS, { frame_rate: 5 }, clock);
  const shown = async () => decodeDepth((await camera.getImages()).images[0].image).data[0];
  await clock.advance(5000);
  assertEquals(await shown(), 1);
  await clock.advance(199);
  assertEquals(await shown(), 1);
  await clock.advance(1);
  assertEquals([await shown(), await shown()], [2, 2]);
  await clock.advance(200);
  assertEquals(await shown(), 3);
  await clock.advance(200);
  assertEquals(await shown(), 1);
});

Deno.test("replay camera: without loop the last frame stays, with frame_rate 0 each request advances", async () => {
  const clock = new FakeClock();
  const once = await replay(DEPTHS, { loop: false }, clock);
  await once.getImages();
  await clock.advance(60_000);
  assertEquals(decodeDepth((await once.getImages()).images[0].image).data[0], 3);
  const stepped = await replay(DEPTHS, { frame_rate: 0, intrinsic_parameters: LENS }, clock);
  const shown: number[] = [];
  for (let request = 0; request < 4; request++) {
    shown.push(decodeDepth((await stepped.getImages()).images[0].image).data[0]);
    shown.push(Math.round(readPcd(await stepped.getPointCloud()).z[0] * 1000));
  }
  assertEquals(shown, [1, 1, 2, 2, 3, 3, 1, 1]);
});

Deno.test("replay camera: a frame has colour, depth and a coloured point cloud", async () => {
  const files = { "a_color.png": color(2), "a_depth.png": depth(1000) };
  const camera = await replay(files, { intrinsic_parameters: LENS });
  const { images } = await camera.getImages();
  assertEquals(images.map(({ sourceName, mimeType }) => [sourceName, mimeType]), [
    ["color", MIME.jpeg],
    ["depth", MIME.depth],
  ]);
  assertEquals(images.map(({ image }) => imageSize(image)), [{ width: 2, height: 1 }, {
    width: 2,
    height: 1,
  }]);
  const cloud = readPcd(await camera.getPointCloud());
  assertEquals([cloud.x.length, cloud.x[0], cloud.z[0], cloud.rgb?.length], [1, -0.25, 1, 1]);
  const { supportsPcd, frameRate, mimeTypes, intrinsics } = await camera.getProperties();
  assertEquals([supportsPcd, frameRate, mimeTypes], [true, 10, [MIME.jpeg, MIME.depth]]);
  assertEquals(intrinsics?.widthPx, 2);
});

Deno.test("replay camera: a folder of plain pictures has colour images only", async () => {
  const camera = await replay({ "b.png": color(3), "a.png": color(4), "notes.txt": new Uint8Array() });
  const { images } = await camera.getImages();
  assertEquals(images.map(({ sourceName, image }) => [sourceName, imageSize(image).width]), [["color", 4]]);
  await assertRejects(() => camera.getPointCloud(), SvcError, "there are no depth images in the folder");
});

Deno.test("replay camera: an unusable folder is refused with the reason", async () => {
  await assertRejects(
    () => replay({ "notes.txt": new Uint8Array() }),
    SvcError,
    "replaying frames: found no pictures",
  );
  const uneven = { "a_color.png": color(2), "a_depth.png": depth(1), "b_color.png": color(2) };
  await assertRejects(() => replay(uneven), SvcError, 'frame "b" has no depth image, while others have');
  await assertRejects(() => replay(DEPTHS, { folder: "gone" }), SvcError, 'cannot list "gone"');
  assertEquals(problemsOf(ReplayCamera, {}), ["folder: missing required field, wanted a string"]);
  const camera = await replay(DEPTHS);
  await assertRejects(() => camera.getImages(["color"]), SvcError, 'it has: "depth"');
  await assertRejects(() => camera.getPointCloud(), SvcError, "there are no intrinsic_parameters");
});
