import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Vision, VisionApi, type VisionProperties } from "../../lib/api/services/vision.ts";
import { SvcError } from "../../lib/base/error.ts";
import { encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import type { Contract } from "./contract.ts";

/** 64 x 48 pixels of grey. */
function picture() {
  const rgba = new Uint8Array(64 * 48 * 4).fill(127);
  const image = encodeImage({ kind: "color", image: { width: 64, height: 48, rgba } }, MIME.png);
  return { image, mimeType: MIME.png };
}

export const contract: Contract<Vision> = {
  api: VisionApi,
  cases: {
    "getProperties supports at least one skill": async (vision) => {
      const { detections, classifications, objectPointClouds } = await vision.getProperties();
      assert(detections || classifications || objectPointClouds);
    },
    "getDetections finds boxes within the picture": {
      capability: "detections",
      has: (vision) => can(vision, "detections"),
      check: async (vision) => {
        for (const { box, confidence, className } of await vision.getDetections(picture())) {
          assert(box && box.xMin >= 0 && box.yMin >= 0 && box.xMax <= 64 && box.yMax <= 48);
          assert(box.xMin <= box.xMax && box.yMin <= box.yMax);
          assert(confidence >= 0 && confidence <= 1 && className !== "");
        }
      },
      otherwise: async (vision) => {
        await refuses(vision.getDetections(picture()));
        await refuses(vision.getDetectionsFromCamera("any"));
      },
    },
    "getClassifications sorts by confidence": {
      capability: "classifications",
      has: (vision) => can(vision, "classifications"),
      check: async (vision) => {
        const all = await vision.getClassifications(picture(), 0);
        const sorted = all.toSorted((a, b) => b.confidence - a.confidence);
        assertEquals(all.map(({ confidence }) => confidence), sorted.map(({ confidence }) => confidence));
        assertEquals((await vision.getClassifications(picture(), 1)).length, Math.min(1, all.length));
      },
      otherwise: async (vision) => {
        await refuses(vision.getClassifications(picture(), 1));
        await refuses(vision.getClassificationsFromCamera("any", 1));
      },
    },
    "getDetections3D works": {
      capability: "3D detections",
      has: (vision) => can(vision, "detections3D"),
      check: async (vision) => void await vision.getDetections3D(""),
      otherwise: (vision) => refuses(vision.getDetections3D("any")),
    },
    "getObjectPointClouds returns clouds in the frame of the default camera": {
      capability: "object point clouds",
      has: (vision) => can(vision, "objectPointClouds"),
      check: async (vision) => {
        const { defaultCamera } = await vision.getProperties();
        for (const { pcd, referenceFrame } of await vision.getObjectPointClouds("")) {
          readPcd(pcd);
          assertEquals(referenceFrame, defaultCamera);
        }
      },
      otherwise: (vision) => refuses(vision.getObjectPointClouds("any")),
    },
    "an unknown camera is refused with its name": async (vision) => {
      const { detections, classifications } = await vision.getProperties();
      if (detections) {
        const lost = () => vision.getDetectionsFromCamera("no_camera");
        assertEquals((await assertRejects(lost, SvcError, "no_camera")).code, "unknown");
      }
      if (classifications) {
        await assertRejects(() => vision.getClassificationsFromCamera("no_camera", 1), SvcError, "no_camera");
      }
      await assertRejects(() => vision.captureAllFromCamera("no_camera", {}), SvcError, "no_camera");
    },
    "captureAllFromCamera returns only the requested parts": {
      capability: "default camera",
      has: (vision) => can(vision, "defaultCamera"),
      check: async (vision) => {
        const { defaultCamera, detections, classifications } = await vision.getProperties();
        const nothing = await vision.captureAllFromCamera("", {});
        assertEquals([nothing.image, nothing.detections, nothing.classifications, nothing.objects], [
          undefined,
          [],
          [],
          [],
        ]);
        const wanted = { image: true, detections: true, classifications: true, objectPointClouds: true };
        const all = await vision.captureAllFromCamera(defaultCamera!, wanted);
        assert(all.image && all.image.image.length > 0);
        if (!detections) assertEquals(all.detections, []);
        if (!classifications) assertEquals(all.classifications, []);
      },
      otherwise: async (vision) => {
        await assertRejects(() => vision.captureAllFromCamera("", {}), SvcError, "no camera name");
      },
    },
    "getDetections and getClassifications refuse bytes that are not a picture": async (vision) => {
      const image = new TextEncoder().encode("not a picture");
      await assertRejects(() => vision.getDetections({ image, mimeType: MIME.jpeg }), SvcError);
      await assertRejects(() => vision.getClassifications({ image, mimeType: MIME.jpeg }, 1), SvcError);
    },
  },
};

async function refuses(call: Promise<unknown>): Promise<void> {
  const error = await assertRejects(() => call, SvcError, "does not implement");
  assertEquals(error.code, "unimplemented");
}

async function can(vision: Vision, property: keyof VisionProperties): Promise<boolean> {
  return !!(await vision.getProperties())[property];
}
