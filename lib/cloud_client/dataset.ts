/**
 * The content of a dataset, shared by the control plane and its clients: images with labels and boxes, and their
 * published form, one line of JSON per image, which training scripts read. Pure.
 */

import { extensionOf } from "./mime_types.ts";
import { withoutEnd } from "../base/escape.ts";

export interface Label {
  readonly label: string;
  readonly confidence?: number;
}

/** Corners as proportions from 0 to 1. */
export interface LabelBox extends Label {
  readonly id: string;
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

export interface DatasetImage {
  readonly id: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly mimeType: string;
  /** File name with its extension and without folders; never empty, not unique. */
  readonly fileName: string;
  readonly tags: readonly string[];
  readonly classifications: readonly Label[];
  readonly boxes: readonly LabelBox[];
  readonly capturedMs: number;
  readonly partId: string;
  readonly componentName: string;
  readonly organizationId: string;
  readonly locationId: string;
  readonly machineId: string;
}

/**
 * The line of one image, without the line end. The published form has one list of labels for tags and classifications;
 * a classification appears as the tag of its name.
 */
export function datasetLine(image: DatasetImage, imagePath: string): string {
  const classified = new Set(image.classifications.map(({ label }) => label));
  const labels = [
    ...image.tags.filter((tag) => !classified.has(tag)).map((label) => ({ label })),
    ...image.classifications,
  ];
  return JSON.stringify({
    image_path: imagePath,
    classification_annotations: labels.map((
      { label, confidence }: { label: string; confidence?: number },
    ) => ({
      annotation_label: label,
      confidence,
    })),
    bounding_box_annotations: image.boxes.map(({ id, label, xMin, yMin, xMax, yMax, confidence }) => ({
      id,
      annotation_label: label,
      x_min_normalized: xMin,
      x_max_normalized: xMax,
      y_min_normalized: yMin,
      y_max_normalized: yMax,
      confidence,
    })),
    binary_data_id: image.id,
    timestamp: goTime(image.capturedMs),
    robot_id: image.machineId || undefined,
    part_id: image.partId,
    component_name: image.componentName,
    organization_id: image.organizationId || undefined,
    location_id: image.locationId || undefined,
  });
}

/** `2024-01-02 03:04:05.678 +0000 UTC`, to the microsecond, without trailing zeros. */
function goTime(timeMs: number): string {
  const micros = Math.round(timeMs * 1000);
  const seconds = Math.floor(micros / 1e6);
  const [date, time] = new Date(seconds * 1000).toISOString().slice(0, 19).split("T");
  const fraction = withoutEnd(String(micros - seconds * 1e6).padStart(6, "0"), "0");
  return `${date} ${time}${fraction && `.${fraction}`} +0000 UTC`;
}

/** File name with its extension and without folders. */
export function imageFileName(id: string, name: string, extension: string, mimeType: string): string {
  const last = name.split(/[/\\]/).at(-1)!.replace(/^\.+/, "") || id;
  const wanted = extension || (last.includes(".") ? "" : extensionOf(mimeType));
  return last.endsWith(wanted) ? last : last + wanted;
}
