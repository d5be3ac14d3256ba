/**
 * The report on a dataset before its training: what counts, what is skipped and why.
 *
 * The rules are the control plane's own. Pure.
 */

import { type BinaryData, BinaryDataSchema } from "../../../proto/gen/data_pb.ts";
import { boxOf } from "../../../lib/api/shared/captured_file.ts";
import { toMs } from "../../../lib/api/shared/time.ts";
import { messageOf } from "../../../lib/base/error.ts";
import type { DatasetImage } from "../../../lib/cloud_client/dataset.ts";
import { ModelType } from "../../../lib/cloud_client/training_client.ts";
import {
  checkImages,
  checkLabels,
  countLabels,
  labelsOf,
  type ModelKind,
} from "../../../lib/cloud_client/training_request.ts";
import { create } from "../../../lib/wire/rpc/proto.ts";
import { table } from "../../table.ts";
import { counted } from "../../../lib/base/log/counted.ts";

/** A label with fewer images teaches little. */
const FEW_IMAGES = 10;
/** Limit of skipped images listed one by one. */
const LISTED_MAX = 20;
const PICTURES = ["image/jpeg", "image/png"];

const KINDS: { readonly [T in ModelType]?: ModelKind } = {
  [ModelType.SINGLE_LABEL_CLASSIFICATION]: "single_label_classification",
  [ModelType.MULTI_LABEL_CLASSIFICATION]: "multi_label_classification",
  [ModelType.OBJECT_DETECTION]: "object_detection",
};

export interface Preflight {
  readonly datasetId: string;
  readonly modelType: string;
  readonly images: number;
  readonly labeled: number;
  /** Images by label; for object detection, images with a box of the label. */
  readonly labels: { readonly [label: string]: number };
  readonly skipped: readonly {
    readonly binaryDataId: string;
    readonly fileName: string;
    readonly reason: string;
  }[];
  /** Reasons against a training. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  readonly ready: boolean;
}

/**
 * An empty `labels` stands for all labels. `unreadable` has the images that a trainer cannot decode, by id, with the
 * reason.
 */
export function preflight(
  { datasetId, type, labels, images, unreadable }: {
    readonly datasetId: string;
    readonly type: ModelType;
    readonly labels: readonly string[];
    readonly images: readonly DatasetImage[];
    readonly unreadable: ReadonlyMap<string, string>;
  },
): Preflight {
  const kind = KINDS[type]!;
  const readable = images.filter(({ id }) => !unreadable.has(id));
  const chosen = labels.length > 0 ? labels : labelsIn(type, readable);
  const { labeled, byLabel } = countLabels(kind, chosen, readable);
  const problems = [() => checkLabels(chosen), () => checkImages(kind, chosen, readable)].flatMap(
    complaint,
  );
  const few = [...byLabel].filter(([, count]) => count > 0 && count < FEW_IMAGES);
  return {
    datasetId,
    modelType: ModelType[type],
    images: images.length,
    labeled,
    labels: Object.fromEntries(byLabel),
    skipped: images.flatMap((image) => skippedFor(kind, chosen, image, unreadable.get(image.id))),
    problems,
    warnings: few.map(([label, count]) =>
      `"${label}" has ${counted(count, "image")}: with fewer than ${FEW_IMAGES} a model learns little`
    ),
    ready: problems.length === 0,
  };
}

/** Every label of the images for a model of this type, sorted. */
export function labelsIn(type: ModelType, images: readonly DatasetImage[]): string[] {
  return [...new Set(images.flatMap((image) => labelsOf(KINDS[type]!, image)))].sort();
}

/** The report for people. */
export function describePreflight(
  { images, labeled, labels, skipped, problems, warnings, ready }: Preflight,
): string[] {
  const counts = Object.entries(labels).map(([label, count]) => [label, String(count)]);
  const listed = skipped.slice(0, LISTED_MAX).map(({ fileName, reason }) => `  ${fileName}: ${reason}`);
  if (skipped.length > LISTED_MAX) listed.push(`  and ${skipped.length - LISTED_MAX} more; see --json`);
  return [
    `${counted(images, "image")}, ${labeled} of them labeled`,
    ...counts.length > 0 ? table([["LABEL", "IMAGES"], ...counts]) : [],
    ...skipped.length > 0
      ? [`${counted(skipped.length, "image is", "images are")} left out:`, ...listed]
      : [],
    ...warnings.map((one) => `warning: ${one}`),
    ...problems.map((one) => `problem: ${one}`),
    ready ? "ready to train" : "not ready to train",
  ];
}

/** An image of a dataset, from the data store's answer. */
export function imageOf(data: BinaryData = create(BinaryDataSchema)): DatasetImage {
  const { metadata } = data;
  const from = metadata?.captureMetadata;
  return {
    id: metadata?.binaryDataId || metadata?.id || "",
    sha256: "",
    bytes: Number(metadata?.fileSizeBytes ?? 0),
    mimeType: from?.mimeType ?? "",
    fileName: metadata?.fileName ?? "",
    tags: from?.tags ?? [],
    classifications: (metadata?.annotations?.classifications ?? []).map(({ label, confidence }) => ({
      label,
      confidence,
    })),
    boxes: (metadata?.annotations?.bboxes ?? []).map((box) => ({ id: box.id, ...boxOf(box) })),
    capturedMs: toMs(metadata?.timeRequested),
    partId: from?.partId ?? "",
    componentName: from?.componentName ?? "",
    organizationId: from?.organizationId ?? "",
    locationId: from?.locationId ?? "",
    machineId: from?.robotId ?? "",
  };
}

function skippedFor(
  kind: ModelKind,
  labels: readonly string[],
  image: DatasetImage,
  unreadable: string | undefined,
): Preflight["skipped"] {
  const skip = (reason: string) => [{ binaryDataId: image.id, fileName: image.fileName, reason }];
  if (unreadable !== undefined) return skip(unreadable);
  if (image.mimeType !== "" && !PICTURES.includes(image.mimeType)) {
    return skip(`it is of type ${image.mimeType}, wanted a JPEG or PNG`);
  }
  const own = labelsOf(kind, image).filter((label) => labels.includes(label));
  if (kind !== "single_label_classification" || own.length < 2) return [];
  return skip(`it has ${own.length} of the labels, ${own.join(", ")}: one image shows one thing here`);
}

function complaint(check: () => unknown): string[] {
  try {
    check();
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}
