import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Camera, CameraApi } from "../../lib/api/camera.ts";
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
    "getPointCloud works if and only if supportsPcd is true": async (camera) => {
      const { supportsPcd } = await camera.getProperties();
      if (!supportsPcd) {
        await assertRejects(() => camera.getPointCloud(), SvcError);
        return;
      }
      assert(readPcd(await camera.getPointCloud()).x.length > 0);
    },
    "intrinsics have positive sizes and focal lengths": async (camera) => {
      const { intrinsics } = await camera.getProperties();
      if (!intrinsics) return;
      assert(intrinsics.widthPx > 0 && intrinsics.heightPx > 0);
      assert(intrinsics.focalXPx > 0 && intrinsics.focalYPx > 0);
    },
  },
};
