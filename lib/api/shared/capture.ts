/**
 * Parts that the types share in their declarations of capturable data: readings in the published shape,
 * pictures as files, and the parameters of a capture method.
 */

import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { OrientationVector, Pose, Vec3 } from "../../geometry/pose.ts";
import type { TakenFile } from "../../resource/facets.ts";
import { boxOf } from "./captured_file.ts";

/** An image of one of the camera's sources. */
export interface NamedImage {
  /** Such as `color` or `depth`. */
  readonly sourceName: string;
  /** Of `image`, such as `image/jpeg` or `image/vnd.viam.dep`. */
  readonly mimeType: string;
  /** The encoded image. */
  readonly image: Uint8Array;
  /** Boxes and labels that the source knows. */
  readonly annotations?: Annotations;
}

/** The camera's own description of its picture's content. */
export interface Annotations {
  /** Boxes around objects. */
  readonly bboxes: readonly {
    readonly id: string;
    readonly label: string;
    /** Fractions of the picture's width and height. */
    readonly xMinNormalized: number;
    readonly yMinNormalized: number;
    readonly xMaxNormalized: number;
    readonly yMaxNormalized: number;
    readonly confidence?: number;
  }[];
  /** Labels of the whole picture. */
  readonly classifications: readonly {
    readonly id: string;
    readonly label: string;
    readonly confidence?: number;
  }[];
}

export function pictureFile({ image: content, mimeType, annotations }: NamedImage): TakenFile {
  if (!annotations) return { content, mimeType };
  const boxes = annotations.bboxes.map(boxOf);
  const classifications = annotations.classifications.map(({ label, confidence }) => ({ label, confidence }));
  return { content, mimeType, annotations: { boxes, classifications } };
}

export function capturedVector({ x, y, z }: Vec3): JsonObject {
  return { x, y, z };
}

export function capturedOrientation({ oX, oY, oZ, theta }: OrientationVector): JsonObject {
  return { o_x: oX, o_y: oY, o_z: oZ, theta };
}

export function capturedPose(pose: Pose): JsonObject {
  return { ...capturedVector(pose), ...capturedOrientation(pose) };
}

/** The parameter that names the thing to capture. Throws `invalid_argument` if it is missing. */
export function nameParameter(parameter: string, parameters: JsonObject): string {
  const value = parameters[parameter];
  if (typeof value === "string" && value !== "") return value;
  throw new SvcError("invalid_argument", `additional_params has no ${parameter}, wanted the name to capture`);
}
