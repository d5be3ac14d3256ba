/**
 * A vision service that returns the same result for every picture: one object in the middle, one class. It
 * works on any camera of the machine.
 */

import {
  type Classification,
  type Detection,
  type EncodedImage,
  VisionApi,
} from "../../lib/api/services/vision.ts";
import { object, text } from "../../lib/base/schema/schema.ts";
import { imageSize } from "../../lib/geometry/image/image.ts";
import { model } from "../../lib/resource/registry.ts";
import { type Skills, VisionModel } from "./vision_model.ts";

const SEEN = { className: "a_detection", confidence: 0.92 };
const CLASS = { className: "a_classification", confidence: 0.85 };
/** As shares of the picture's width and height. */
const MIDDLE = { xMin: 0.25, yMin: 0.25, xMax: 0.75, yMax: 0.75 };

const FAKE_CAMERA = "fake_camera";

const attributes = object({
  // The published default is a name, not a dependency: a machine without such a camera has the service all the same.
  cameraName: text("camera for requests that name none").names("camera").emptyIsAbsent().default(FAKE_CAMERA),
}).required();

/** Reads only the size of a picture. */
const skills: Skills = {
  detect({ image }: EncodedImage): Promise<Detection[]> {
    const { width, height } = imageSize(image);
    const box = {
      xMin: Math.trunc(MIDDLE.xMin * width),
      yMin: Math.trunc(MIDDLE.yMin * height),
      xMax: Math.trunc(MIDDLE.xMax * width),
      yMax: Math.trunc(MIDDLE.yMax * height),
    };
    return Promise.resolve([{ ...SEEN, box, normalized: MIDDLE }]);
  },
  classify({ image }: EncodedImage): Promise<Classification[]> {
    imageSize(image);
    return Promise.resolve([CLASS]);
  },
};

export const FakeVision = model({
  api: VisionApi,
  name: "rdk:builtin:fake",
  doc: "A vision service that sees the same thing in the middle of every picture of any camera.",
  attributes,
  construct: (from) => new VisionModel(from, skills, from.attributes.cameraName),
});
