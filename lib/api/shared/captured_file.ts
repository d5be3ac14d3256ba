/** The published messages' description of a captured file: its kind, and the things seen in it. */

import { MimeType } from "../../../proto/gen/datasync_pb.ts";
import type { CapturedBox } from "../../resource/uploader.ts";

/** The kinds of files that have a number. */
export const MIME_TYPES: { readonly [K in MimeType]: string } = {
  [MimeType.UNSPECIFIED]: "",
  [MimeType.IMAGE_JPEG]: "image/jpeg",
  [MimeType.IMAGE_PNG]: "image/png",
  [MimeType.APPLICATION_PCD]: "pointcloud/pcd",
  [MimeType.VIDEO_MP4]: "video/mp4",
};

/** The number of a kind; `UNSPECIFIED` for a kind without one. */
export function mimeTypeNumber(mimeType: string): MimeType {
  const known = Object.keys(MIME_TYPES).map(Number) as MimeType[];
  return known.find((one) => MIME_TYPES[one] === mimeType) ?? MimeType.UNSPECIFIED;
}

/** The fields of a `BoundingBox` that describe the box itself. */
interface BoxFields {
  readonly label: string;
  readonly confidence?: number;
  readonly xMinNormalized: number;
  readonly yMinNormalized: number;
  readonly xMaxNormalized: number;
  readonly yMaxNormalized: number;
}

export function boxFields({ label, confidence, xMin, yMin, xMax, yMax }: CapturedBox): BoxFields {
  return {
    label,
    confidence,
    xMinNormalized: xMin,
    yMinNormalized: yMin,
    xMaxNormalized: xMax,
    yMaxNormalized: yMax,
  };
}

export function boxOf(fields: BoxFields): CapturedBox {
  return {
    label: fields.label,
    confidence: fields.confidence,
    xMin: fields.xMinNormalized,
    yMin: fields.yMinNormalized,
    xMax: fields.xMaxNormalized,
    yMax: fields.yMaxNormalized,
  };
}
