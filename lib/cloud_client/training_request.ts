/**
 * The rules for a training request: checks labels, arguments and datasets before a job is accepted. Pure.
 *
 * The numbers are the published ones.
 */

import { SvcError } from "../base/error.ts";
import { hasHidden } from "../base/escape.ts";
import { EXAMPLES_MAX, LABELS_MAX, TASK_KINDS } from "../learn/example.ts";
import type { DatasetImage } from "./dataset.ts";
import { counted } from "../base/log/counted.ts";

export const MODEL_KINDS = TASK_KINDS;
export type ModelKind = typeof MODEL_KINDS[number];

const IMAGES_MIN = 15;
const LABELED_SHARE_MIN = 0.8;
/** Limit for all labels, or all arguments, of a job together: lists of jobs contain them all. */
const LETTERS_MAX = 16 * 1024;
const ARGUMENT = /^[A-Za-z0-9_-]{1,100}$/;
const OWN_ARGUMENTS = ["dataset_file", "model_output_directory"];

/** Counts of images. */
export interface LabelCounts {
  readonly images: number;
  /** Images with any label, or any box for a model that finds objects. */
  readonly labeled: number;
  /** Images with several labels, which a model with one label per image cannot learn from. */
  readonly ambiguous: number;
  readonly byLabel: ReadonlyMap<string, number>;
}

/** The labels that a model learns to tell apart. */
export function checkLabels(labels: readonly string[]): void {
  if (labels.length < 1 || labels.length > LABELS_MAX) {
    throw invalid(`tags: found ${labels.length}, wanted 1 to ${LABELS_MAX} labels to learn`);
  }
  const letters = labels.join("").length;
  if (letters > LETTERS_MAX) {
    throw invalid(`tags: found ${letters} characters, wanted at most ${LETTERS_MAX}`);
  }
  for (const [index, label] of labels.entries()) {
    if (label.trim() === "" || hasHidden(label)) {
      throw invalid(
        `tags[${index}]: found ${
          JSON.stringify(label)
        }, wanted a label in one line without control characters`,
      );
    }
    if (labels.indexOf(label) < index) throw invalid(`tags[${index}]: "${label}" is there twice`);
  }
}

export function checkArguments(given: { readonly [name: string]: string }): void {
  const letters = Object.entries(given).reduce((sum, words) => sum + words.join("").length, 0);
  if (letters > LETTERS_MAX) {
    throw invalid(`arguments: found ${letters} characters, wanted at most ${LETTERS_MAX}`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (!ARGUMENT.test(name)) {
      throw invalid(`arguments: found the name "${name}", wanted letters, digits, '_' and '-'`);
    }
    if (OWN_ARGUMENTS.includes(name)) throw invalid(`arguments: "${name}" is given to every script already`);
    if (value.includes("\0")) throw invalid(`arguments: the value of "${name}" has a zero byte`);
  }
}

/** Throws `failed_precondition` if the images are too few to learn from. */
export function checkImages(
  kind: ModelKind,
  labels: readonly string[],
  images: readonly DatasetImage[],
): LabelCounts {
  const counts = countLabels(kind, labels, images);
  const usable = counts.images - counts.ambiguous;
  const missing = labels.filter((label) => !counts.byLabel.get(label));
  const found = `the dataset has ${described(counts)}`;
  if (usable < IMAGES_MIN) throw unfit(`${found}, wanted at least ${IMAGES_MIN} usable images`);
  if (usable > EXAMPLES_MAX) throw unfit(`${found}, wanted at most ${EXAMPLES_MAX} images`);
  if (counts.labeled < LABELED_SHARE_MIN * counts.images) {
    throw unfit(`${found}, wanted at least ${LABELED_SHARE_MIN * 100} % of them labeled`);
  }
  if (missing.length > 0) {
    const names = missing.map((label) => `"${label}"`).join(", ");
    throw unfit(`${found}, wanted at least one image with ${names}`);
  }
  const [only, ...others] = labels;
  const isOnly = only !== undefined && others.length === 0;
  if (kind !== "object_detection" && isOnly && counts.byLabel.get(only) === counts.images) {
    throw unfit(
      `${found}: every image has "${only}", so there is nothing to tell it from; add images of something else, with ` +
        "another label, and train on this label or on both",
    );
  }
  return counts;
}

export function countLabels(
  kind: ModelKind,
  labels: readonly string[],
  images: readonly DatasetImage[],
): LabelCounts {
  const byLabel = new Map(labels.map((label) => [label, 0]));
  let [labeled, ambiguous] = [0, 0];
  for (const image of images) {
    const all = labelsOf(kind, image);
    const wanted = all.filter((label) => byLabel.has(label));
    if (all.length > 0) labeled++;
    if (kind === "single_label_classification" && wanted.length > 1) ambiguous++;
    for (const label of wanted) byLabel.set(label, byLabel.get(label)! + 1);
  }
  return { images: images.length, labeled, ambiguous, byLabel };
}

/** The labels of an image, each once: tags and classifications, or the labels of its boxes. */
export function labelsOf(kind: ModelKind, { tags, classifications, boxes }: DatasetImage): string[] {
  const annotated = kind === "object_detection" ? boxes : classifications;
  return [...new Set([...kind === "object_detection" ? [] : tags, ...annotated.map(({ label }) => label)])];
}

/** `20 images, 18 of them labeled (cat 9, dog 9)` */
export function described({ images, labeled, ambiguous, byLabel }: LabelCounts): string {
  const each = [...byLabel].map(([label, count]) => `${label} ${count}`).join(", ");
  const left = ambiguous > 0 ? `, ${ambiguous} left out because they have more than one of the labels` : "";
  return `${counted(images, "image")}, ${labeled} of them labeled (${each})${left}`;
}

function invalid(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}

function unfit(message: string): SvcError {
  return new SvcError("failed_precondition", message);
}
