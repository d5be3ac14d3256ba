import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Camera, CameraApi } from "../../lib/api/sensors/camera.ts";
import { SvcError } from "../../lib/base/error.ts";
import { imageSize, mimeTypeOf } from "../../lib/geometry/image/image.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Camera> = {
  api: CameraApi,
  cases: {
    "getImages returns images of their MIME type with unique names": async (camera) => {
      const { images, capturedAtMs } = await camera.getImages();
      assert(images.length > 0 && capturedAtMs > 0);
      for (const { image, mimeType } of images) {
        assertEquals(mimeTypeOf(image), mimeType);
        assert(imageSize(image).width > 0);
      }
      const names = images.map(({ sourceName }) => sourceName);
      assertEquals(new Set(names).size, names.length);
    },
    "getImages returns only the requested source": async (camera) => {
      for (const { sourceName, mimeType } of (await camera.getImages()).images) {
        const { images } = await camera.getImages([sourceName]);
        assertEquals(images.map((one) => [one.sourceName, one.mimeType]), [[sourceName, mimeType]]);
      }
    },
    "getImages refuses an unknown source": async (camera) => {
      const error = await assertRejects(
        () => camera.getImages(["no such source"]),
        SvcError,
        "no such source",
      );
      assertEquals(error.code, "invalid_argument");
    },
    "getProperties lists the MIME types of all images": async (camera) => {
      const { mimeTypes } = await camera.getProperties();
      for (const { mimeType } of (await camera.getImages()).images) {
        assert(mimeTypes.includes(mimeType), mimeType);
      }
    },
    "getPointCloud returns points if supportsPcd is true": {
      capability: "point clouds",
      has: async (camera) => (await camera.getProperties()).supportsPcd,
      check: async (camera) => assert(readPcd(await camera.getPointCloud()).x.length > 0),
      otherwise: async (camera) => void await assertRejects(() => camera.getPointCloud(), SvcError),
    },
    "intrinsics have positive sizes and focal lengths": {
      capability: "intrinsics",
      has: async (camera) => (await camera.getProperties()).intrinsics !== undefined,
      check: async (camera) => {
        const { widthPx, heightPx, focalXPx, focalYPx } = (await camera.getProperties()).intrinsics!;
        assert(widthPx > 0 && heightPx > 0);
        assert(focalXPx > 0 && focalYPx > 0);
      },
    },
  },
};
