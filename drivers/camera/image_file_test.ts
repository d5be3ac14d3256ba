import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { decodeDepth } from "../../lib/geometry/image/depth.ts";
import { encodeImage, imageSize, MIME, mimeTypeOf } from "../../lib/geometry/image/image.ts";
import { withOrientation } from "../../tests/support/phone_photo.ts";
import { jpegHeader } from "../../lib/geometry/image/jpeg.ts";
import { readPcd, writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { pictureOf } from "./pictures.ts";
import { ImageFileCamera } from "./image_file.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";

const LENS = { width_px: 4, height_px: 2, fx: 2, fy: 2, ppx: 1.5, ppy: 0.5 };

function color(width = 4, height = 2) {
  return {
    kind: "color" as const,
    image: { width, height, rgba: new Uint8Array(width * height * 4).fill(200) },
  };
}

const depth = {
  kind: "depth" as const,
  map: { width: 4, height: 2, data: Uint16Array.of(0, 1000, 2, 3, 4, 5, 6, 7) },
};

/** A machine with only these files. */
function hostWith(files: Record<string, Uint8Array>): FakeHost {
  return new FakeHost({ files });
}

Deno.test("image_file: images are colour as JPEG, then depth", async () => {
  const host = hostWith({ "c.png": encodeImage(color(), MIME.png), "d.png": encodeImage(depth, MIME.png) });
  const attributes = { color_image_file_path: "c.png", depth_image_file_path: "d.png" };
  const camera = await construct(ImageFileCamera, attributes, { host });
  const { images } = await camera.getImages();
  assertEquals(images.map(({ sourceName, mimeType }) => [sourceName, mimeType]), [
    ["color", MIME.jpeg],
    ["depth", MIME.depth],
  ]);
  assertEquals(imageSize(images[0].image), { width: 4, height: 2 });
  assertEquals(decodeDepth(images[1].image), depth.map);
  assertEquals((await camera.getProperties()).mimeTypes, [MIME.jpeg, MIME.depth]);
});

Deno.test("image_file: a JPEG file is sent unchanged, and a replaced file is read again", async () => {
  const files = { "c.jpg": encodeImage(color(), MIME.jpeg) };
  const host = hostWith(files);
  const camera = await construct(ImageFileCamera, { color_image_file_path: "c.jpg" }, { host });
  assertEquals((await camera.getImages()).images[0].image, files["c.jpg"]);
  host.put("c.jpg", encodeImage(color(8, 8), MIME.jpeg));
  assertEquals(imageSize((await camera.getImages()).images[0].image), { width: 8, height: 8 });
});

Deno.test("image_file: a photograph that a phone took upright is sent upright", async () => {
  const photo = withOrientation(encodeImage(color(16, 8), MIME.jpeg), 6);
  const camera = await construct(ImageFileCamera, { color_image_file_path: "c.jpg" }, {
    host: hostWith({ "c.jpg": photo }),
  });
  const [{ image, mimeType }] = (await camera.getImages()).images;
  assertEquals([mimeType, imageSize(image)], [MIME.jpeg, { width: 8, height: 16 }]);
  assertEquals(jpegHeader(image).orientation, 1);
});

Deno.test("image_file: preloaded_image adds a built-in picture as the first image", async () => {
  for (const preloaded_image of ["pizza", "dog", "crowd"]) {
    const camera = await construct(ImageFileCamera, { preloaded_image });
    const [{ sourceName, mimeType, image }] = (await camera.getImages()).images;
    assertEquals([sourceName, mimeType, mimeTypeOf(image)], ["preloaded", MIME.jpeg, MIME.jpeg]);
  }
  const [problem] = problemsOf(ImageFileCamera, { preloaded_image: "cat" });
  assert(problem.includes('"pizza", "dog", "crowd"'), problem);
});

Deno.test("pictureOf: discs on a light ground, later ones over earlier ones", () => {
  const { width, height, rgba } = pictureOf("pizza");
  const colorAt = (x: number, y: number) => {
    const at = 4 * (Math.round(y * height) * width + Math.round(x * width));
    return [...rgba.subarray(at, at + 4)];
  };
  assertEquals([width, height, rgba.length], [480, 480, 480 * 480 * 4]);
  assertEquals(colorAt(0.02, 0.02), [230, 230, 230, 255]);
  assertEquals(colorAt(0.5, 0.5), [0xb4, 0x32, 0x28, 255]);
  assertEquals(colorAt(0.5, 0.85), [0xf0, 0xc8, 0x5a, 255]);
  assertEquals(colorAt(0.08, 0.5), [0xb9, 0x78, 0x3c, 255]);
});

Deno.test("image_file: the point cloud comes from pointcloud_file_path, or from depth image and lens", async () => {
  const pcd = writePcd(
    createCloud({ x: Float32Array.of(1), y: Float32Array.of(2), z: Float32Array.of(3) }),
    "ascii",
  );
  const host = hostWith({
    "p.pcd": pcd,
    "c.png": encodeImage(color(), MIME.png),
    "d.png": encodeImage(depth, MIME.png),
  });
  const cloudOf = async (attributes: Record<string, string | typeof LENS>) => {
    const camera = await construct(ImageFileCamera, attributes, { host });
    assertEquals((await camera.getProperties()).supportsPcd, true);
    return readPcd(await camera.getPointCloud());
  };
  assertEquals([...(await cloudOf({ pointcloud_file_path: "p.pcd" })).z], [3]);
  const made = await cloudOf({ depth_image_file_path: "d.png", intrinsic_parameters: LENS });
  assertEquals([made.x.length, made.z[0], made.rgb], [7, 1, undefined]);
  const colored = {
    color_image_file_path: "c.png",
    depth_image_file_path: "d.png",
    intrinsic_parameters: LENS,
  };
  assertEquals((await cloudOf(colored)).rgb?.[0], 0xc8c8c8);
});

Deno.test("image_file: errors name the missing file, lens or depth image", async () => {
  const host = hostWith({
    "c.png": encodeImage(color(2, 2), MIME.png),
    "d.png": encodeImage(depth, MIME.png),
  });
  const camera = (attributes: Record<string, string | typeof LENS>) =>
    construct(ImageFileCamera, attributes, { host });
  const nothing = await camera({});
  await assertRejects(() => nothing.getImages(), SvcError, "no image file to read");
  await assertRejects(() => nothing.getPointCloud(), SvcError, "camera intrinsics not found in config");
  assertEquals((await nothing.getProperties()).supportsPcd, false);
  const lens = await camera({ color_image_file_path: "c.png", intrinsic_parameters: LENS });
  await assertRejects(() => lens.getPointCloud(), SvcError, "no depth image in config");
  const gone = await camera({ color_image_file_path: "gone.png" });
  const error = await assertRejects(() => gone.getImages(), SvcError, "cannot show the file gone.png");
  assertEquals(error.code, "not_found");
  const sizes = {
    color_image_file_path: "c.png",
    depth_image_file_path: "d.png",
    intrinsic_parameters: LENS,
  };
  await assertRejects(
    async () => (await camera(sizes)).getPointCloud(),
    SvcError,
    "2 x 2 pixels and a depth image of 4 x 2",
  );
});

Deno.test("image_file: files of the wrong kind are refused", async () => {
  const host = hostWith({
    "c.png": encodeImage(color(), MIME.png),
    "d.png": encodeImage(depth, MIME.png),
    "note.txt": new TextEncoder().encode("hello"),
  });
  const images = async (attributes: Record<string, string>) =>
    (await construct(ImageFileCamera, attributes, { host })).getImages();
  await assertRejects(() => images({ color_image_file_path: "d.png" }), SvcError, "wanted a colour image");
  await assertRejects(() => images({ depth_image_file_path: "c.png" }), SvcError, "wanted a depth image");
  await assertRejects(
    () => images({ color_image_file_path: "note.txt" }),
    SvcError,
    "5 bytes of something else",
  );
  assertEquals(problemsOf(ImageFileCamera, { intrinsic_parameters: { width_px: -1 } }).length, 1);
});
