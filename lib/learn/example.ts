/**
 * Training examples: labelled pictures, their checks, and their split into pictures to learn from and
 * held-back pictures.
 *
 * Owns the rules for usable examples, and the split. Promises that the split depends on the content of the
 * pictures, not on their order, and that equal pictures are never on both sides of it.
 */

import { SvcError } from "../base/error.ts";
import { checkLearning, USUAL_HOLDOUT_PERCENT } from "./learning.ts";
import { fitted, type NumberedBox } from "./picture.ts";

/** Sides as proportions of the picture, 0 to 1. */
export interface LabelledBox {
  readonly label: string;
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

export interface Example {
  readonly width: number;
  readonly height: number;
  /** Rows from the top, three bytes a pixel. */
  readonly rgb: Uint8Array;
  readonly labels: readonly string[];
  readonly boxes: readonly LabelledBox[];
}

export const TASK_KINDS = [
  "single_label_classification",
  "multi_label_classification",
  "object_detection",
] as const;

export type TaskKind = typeof TASK_KINDS[number];

export interface TrainingTask {
  readonly kind: TaskKind;
  /**
   * The labels that the model distinguishes, in the order of its outputs. Other labels of examples are
   * ignored.
   */
  readonly labels: readonly string[];
  /** The same seed gives the same model, byte for byte. */
  readonly seed: number;
  /** Most rounds through the pictures; absent means a number that depends on the number of pictures. */
  readonly epochsMax?: number;
  /** Share of the pictures to hold back for measurement; absent means a fifth. */
  readonly holdoutPercent?: number;
  /**
   * Side of the square that the model takes, a multiple of 16 up to 128; absent means the default of its
   * kind.
   */
  readonly side?: number;
}

/** An example in the trainer's form: labels by number, and the picture no larger than needed. */
export interface Sample {
  readonly width: number;
  readonly height: number;
  readonly rgb: Uint8Array;
  readonly labels: readonly number[];
  readonly boxes: readonly NumberedBox[];
}

export const EXAMPLES_MIN = 10;
export const EXAMPLES_MAX = 5_000;
export const LABELS_MAX = 200;
/** Largest file of a picture. */
export const PICTURE_BYTES_MAX = 64 * 1024 * 1024;
/** Networks halve the picture four times. */
const [SIDE_STEP, SIDE_MAX] = [16, 128];
/**
 * The examples as samples. Throws `invalid_argument` for a wrong task or picture, and `failed_precondition`
 * for too few pictures or a label without any; the message names the cause.
 */
export function samplesOf(task: TrainingTask, examples: readonly Example[]): Sample[] {
  checkTask(task);
  if (examples.length < EXAMPLES_MIN || examples.length > EXAMPLES_MAX) {
    const wanted = `wanted ${EXAMPLES_MIN} to ${EXAMPLES_MAX}`;
    throw refusal("failed_precondition", `there are ${examples.length} pictures, ${wanted}`);
  }
  const samples = examples.map((example, index) => sampleOf(task, example, `picture ${index + 1}`));
  const counts = task.labels.map((label, index) => {
    return { label, count: samples.filter((sample) => namesOf(sample, task).has(index)).length };
  });
  const missing = counts.filter(({ count }) => count === 0).map(({ label }) => label);
  if (missing.length > 0) {
    const all = counts.map(({ label, count }) => `${label} ${count}`).join(", ");
    const what = task.kind === "object_detection" ? "with a box labelled" : "labelled";
    throw refusal("failed_precondition", `there is no picture ${what} ${missing.join(", ")} (${all})`);
  }
  return samples;
}

function checkTask({ labels, seed, side = SIDE_STEP, ...task }: TrainingTask): void {
  checkLearning({ seed, epochs: task.epochsMax, holdoutPercent: task.holdoutPercent });
  if (side % SIDE_STEP !== 0 || side < SIDE_STEP || side > SIDE_MAX) {
    const wanted = `a multiple of ${SIDE_STEP} up to ${SIDE_MAX}`;
    throw refusal("invalid_argument", `the side is ${side}, wanted ${wanted}`);
  }
  if (labels.length === 0 || labels.length > LABELS_MAX) {
    throw refusal("invalid_argument", `there are ${labels.length} labels, wanted 1 to ${LABELS_MAX}`);
  }
  const twice = labels.find((label, index) => label.trim() === "" || labels.indexOf(label) !== index);
  if (twice === undefined) return;
  throw refusal(
    "invalid_argument",
    twice.trim() === "" ? "a label is empty" : `the label ${twice} is given twice`,
  );
}

function sampleOf(task: TrainingTask, example: Example, name: string): Sample {
  const { width, height, rgb } = example;
  if (!(width > 0 && height > 0) || rgb.length !== 3 * width * height) {
    const found = `${name} is ${width} x ${height} with ${rgb.length} bytes`;
    throw refusal("invalid_argument", `${found}, wanted three bytes for each pixel`);
  }

  const known = [...new Set(example.labels)].map((label) => task.labels.indexOf(label));
  const labels = known.filter((label) => label >= 0).sort((a, b) => a - b);
  if (task.kind === "single_label_classification" && labels.length !== 1) {
    const found = labels.length === 0 ? "none" : labels.map((label) => task.labels[label]).join(" and ");
    throw refusal("invalid_argument", `${name} has ${found} of the labels, wanted exactly one`);
  }

  const boxes = example.boxes.flatMap((box) => {
    const { xMin, yMin, xMax, yMax } = box;
    const right = 0 <= xMin && xMin < xMax && xMax <= 1 && 0 <= yMin && yMin < yMax && yMax <= 1;
    const label = task.labels.indexOf(box.label);
    if (label < 0 || task.kind !== "object_detection") return [];
    if (right) return [{ label, xMin, yMin, xMax, yMax }];
    const found = `${name} has a box ${box.label} from ${xMin}, ${yMin} to ${xMax}, ${yMax}`;
    throw refusal("invalid_argument", `${found}, wanted sides from 0 to 1 and the lower one first`);
  });
  return { ...fitted(example), labels, boxes };
}

function refusal(code: "invalid_argument" | "failed_precondition", found: string): SvcError {
  return new SvcError(code, `Cannot train: ${found}`);
}

/** The label numbers of a sample: those of its boxes, or its own. */
function namesOf(sample: Sample, { kind }: TrainingTask): ReadonlySet<number> {
  return new Set(kind === "object_detection" ? sample.boxes.map(({ label }) => label) : sample.labels);
}

export interface Split {
  readonly learned: readonly Sample[];
  readonly heldBack: readonly Sample[];
}

/** Splits the pictures into learned and held-back ones, evenly for each combination of labels. */
export function split(task: TrainingTask, samples: readonly Sample[]): Split {
  const percent = task.holdoutPercent ?? USUAL_HOLDOUT_PERCENT;
  const keyed = samples.map((sample) => {
    const group = [...namesOf(sample, task)].sort((a, b) => a - b).join(" ");
    return { sample, group, mark: hashOf(sample, task.seed), rest: JSON.stringify(sample.boxes) };
  });
  const order = (a: string, b: string) => Number(a > b) - Number(a < b);
  keyed.sort((a, b) => order(a.group, b.group) || order(a.mark, b.mark) || order(a.rest, b.rest));

  // A repeated picture goes to the side of its first occurrence, whatever its labels are.
  const sides = new Map<string, boolean>();
  let [place, heldBackCount] = [0, 0];
  for (const { mark } of keyed) {
    if (sides.has(mark)) continue;
    const heldBack = heldUpTo(place + 1, percent) > heldUpTo(place, percent);
    place++;
    if (heldBack) heldBackCount++;
    sides.set(mark, heldBack);
  }

  if (heldBackCount === 0 || heldBackCount === sides.size) {
    const found = `of ${samples.length} pictures only ${sides.size} differ`;
    throw refusal("failed_precondition", `${found}, too few to hold back ${percent} %`);
  }

  const side = (heldBack: boolean) =>
    keyed.filter(({ mark }) => sides.get(mark) === heldBack).map(({ sample }) => sample);
  return { learned: side(false), heldBack: side(true) };
}

/** Number of held-back pictures among the first `count`. */
function heldUpTo(count: number, percent: number): number {
  return Math.floor((count * percent + 50) / 100);
}

/** A hash of a picture's content, mixed with the seed (two 32-bit sums after Fowler, Noll and Vo). */
function hashOf({ rgb, width }: Sample, seed: number): string {
  let [first, second] = [0x811c9dc5 ^ seed, 0x1000193 ^ width];
  for (let at = 0; at < rgb.length; at++) {
    const byte = rgb[at] ?? 0;
    first = Math.imul(first ^ byte, 0x01000193);
    second = Math.imul(second ^ byte, 0x85ebca6b) ^ (second >>> 15);
  }
  return `${(first >>> 0).toString(16).padStart(8, "0")}${(second >>> 0).toString(16).padStart(8, "0")}`;
}
