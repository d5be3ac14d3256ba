/**
 * Converts pictures to the input tensors of vision models, and output tensors to classes and boxes, by the
 * published conventions and without state. A tensor that does not fit is an `invalid_argument` error that
 * names it.
 *
 * The room owns what tensors mean for vision: pictures that go in, and classes and boxes that come out.
 */

import type { Tensor, TensorInfo, Tensors } from "../services/ml_model.ts";
import type { Box, Classification } from "../services/vision.ts";
import { assert, SvcError } from "../../base/error.ts";
import { CONFIDENCE_MAX, type DetectorNames, numbersOf } from "./detector_outputs.ts";
import type { ColorImage } from "../../geometry/image/image.ts";

/** Least confidence with the rounding of quantized models; logits of what is not there are far below. */
const CONFIDENCE_MIN = -0.1;

/** The form in which a model takes a picture. */
export interface InputForm {
  readonly type: "uint8" | "float32";
  /** True for colours as planes, [1, 3, height, width]; false for colours by pixel, [1, height, width, 3]. */
  readonly planes: boolean;
  /** `undefined` means the picture's own width or height. */
  readonly width: number | undefined;
  readonly height: number | undefined;
  readonly bgr: boolean;
  /** Subtracted from each of the three colours (0 to 255) before the division; for float32. */
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
}

/** A box with its class number. Edges are fractions of the picture. */
export interface Found {
  readonly category: number;
  readonly confidence: number;
  readonly box: Box;
}

type Layout = Pick<InputForm, "type" | "planes" | "width" | "height">;

/** The layout that the model's own description asks for. */
export function layoutOf({ name, dataType, shape }: TensorInfo): Layout {
  const found = `the model's input "${name}" is ${dataType} [${shape.join(", ")}]`;
  if (dataType !== "uint8" && dataType !== "float32") throw bad(`${found}, wanted uint8 or float32`);
  const planes = shape[1] === 3 && shape[3] !== 3;
  const fits = shape.length === 4 && (shape[0] === 1 || shape[0] === -1) && (planes || shape[3] === 3);
  if (!fits) throw bad(`${found}, wanted [1, height, width, 3] or [1, 3, height, width]`);
  const [height, width] = planes ? shape.slice(2) : shape.slice(1, 3);
  const size = (pixels = 0) => pixels > 0 ? pixels : undefined;
  return { type: dataType, planes, width: size(width), height: size(height) };
}

/** The whole picture, stretched to the model's size without keeping its proportions. */
export function imageTensor(image: ColorImage, form: InputForm): Tensor {
  const { planes, bgr, mean, deviation } = form;
  const width = form.width ?? image.width, height = form.height ?? image.height;
  const pixels = width * height;
  const data = form.type === "uint8" ? new Uint8Array(pixels * 3) : new Float32Array(pixels * 3);
  const [step, apart] = planes ? [1, pixels] : [3, 1];
  const columns = samples(image.width, width), rows = samples(image.height, height);
  for (let channel = 0; channel < 3; channel++) {
    const source = image.rgba.subarray(bgr ? 2 - channel : channel);
    const [less, by] = form.type === "uint8" ? [0, 1] : [mean[channel] ?? 0, deviation[channel] ?? 1];
    // Byte arrays truncate fractions, so adding a half rounds.
    const round = form.type === "uint8" ? 0.5 : 0;
    let to = channel * apart;
    for (const { at: row, next: below, share: down } of rows) {
      const upper = row * image.width, lower = below * image.width;
      for (const { at: column, next: right, share: across } of columns) {
        const above = mix(source[(upper + column) * 4] ?? 0, source[(upper + right) * 4] ?? 0, across);
        const under = mix(source[(lower + column) * 4] ?? 0, source[(lower + right) * 4] ?? 0, across);
        data[to] = (mix(above, under, down) - less) / by + round;
        to += step;
      }
    }
  }

  return { shape: planes ? [1, 3, height, width] : [1, height, width, 3], data };
}

/** For each of `to` pixels, the two of `from` pixels between which it lies; a pixel's place is its middle. */
function samples(from: number, to: number): { at: number; next: number; share: number }[] {
  return Array.from({ length: to }, (_, index) => {
    const place = Math.min(Math.max((index + 0.5) * from / to - 0.5, 0), from - 1);
    const at = Math.floor(place);
    return { at, next: Math.min(at + 1, from - 1), share: place - at };
  });
}

function mix(a: number, b: number, share: number): number {
  return a + (b - a) * share;
}

/** The name of the output with the class probabilities, if there is one. */
export function probabilityName(outputs: Tensors, named: ReadonlyMap<string, string>): string | undefined {
  const asked = named.get("probability") ?? "probability";
  if (asked in outputs) return asked;
  const [only, ...more] = Object.entries(outputs);
  if (!only || more.length > 0) return undefined;
  // The only output with a single row of numbers must be the probabilities.
  const [name, { shape }] = only;
  return shape.filter((size) => size !== 1).length <= 1 ? name : undefined;
}

/** One class for each number of the output, named by `labels`, or by its number if there are no labels. */
export function classesOf(
  name: string,
  tensor: Tensor,
  labels: readonly string[] | undefined,
): Classification[] {
  const confidences = probabilities(tensor);
  if (labels && labels.length !== confidences.length) {
    throw bad(
      `the model's output "${name}" has ${confidences.length} classes and the file of labels ${labels.length}`,
    );
  }
  return confidences.map((confidence, index) => ({
    className: labels?.[index] || String(index),
    confidence,
  }));
}

/**
 * Bytes are fractions of 255. Numbers from 0 to 1 stay as they are, also where the model's rounding leaves them slightly
 * above 1. Others go through a softmax (a single number through a sigmoid).
 */
function probabilities({ data }: Tensor): number[] {
  const values = Array.from<number | bigint, number>(data as ArrayLike<number | bigint>, Number);
  if (data instanceof Uint8Array) return values.map((value) => value / 255);
  if (values.every((value) => value >= 0 && value <= CONFIDENCE_MAX)) {
    return values.map((value) => Math.min(value, 1));
  }
  if (values.length === 1) return values.map((value) => 1 / (1 + Math.exp(-value)));
  const most = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/** The form in which a detector writes its boxes. */
export interface BoxForm {
  /** Which of x_min, y_min, x_max and y_max (0 to 3) stands at each place. */
  readonly order: readonly number[];
  /** Size of the model's input, for boxes in pixels. */
  readonly width: number;
  readonly height: number;
}

/** Leaves out boxes without any confidence, or beyond the model's own count, which only fill a tensor of fixed length. */
export function foundIn(outputs: Tensors, names: DetectorNames, form: BoxForm): Found[] {
  const edges = numbersOf(tensorNamed(outputs, names.location));
  const count = edges.length / 4;
  const { scores: all, categories } = scored(outputs, names, count);
  const scores = all.slice(0, reportedCount(outputs, names));

  // Fractions may reach slightly beyond the picture; boxes in pixels have larger numbers somewhere. What only fills the
  // tensor may hold any number.
  const proportional = edges.every((edge, at) => !((scores[at >> 2] ?? 0) > 0) || !(Math.abs(edge) > 2));
  const [across, down] = proportional ? [1, 1] : [form.width, form.height];
  const place = [0, 1, 2, 3].map((edge) => form.order.indexOf(edge));
  const within = (edge: number) => Math.min(Math.max(edge, 0), 1);
  const found: Found[] = [];
  for (let index = 0; index < count; index++) {
    const confidence = scores[index] ?? 0;
    const isPlace = edges.slice(index * 4, index * 4 + 4).every((edge) => !Number.isNaN(edge));
    if (!(confidence > 0) || !isPlace) continue;

    const [xMin = 0, yMin = 0, xMax = 0, yMax = 0] = place.map((at, edge) =>
      within((edges[index * 4 + at] ?? 0) / (edge % 2 ? down : across))
    );
    const box = {
      xMin: Math.min(xMin, xMax),
      yMin: Math.min(yMin, yMax),
      xMax: Math.max(xMin, xMax),
      yMax: Math.max(yMin, yMax),
    };
    found.push({
      category: Math.max(0, Math.round(categories[index] ?? 0)),
      confidence: Math.min(confidence, 1),
      box,
    });
  }

  return found;
}

/** How many boxes the model reports; those after them are whatever was in its memory. */
function reportedCount(outputs: Tensors, { count }: DetectorNames): number | undefined {
  const [reported = NaN, ...more] = count === undefined ? [] : numbersOf(tensorNamed(outputs, count));
  return reported >= 0 && more.length === 0 ? Math.round(reported) : undefined;
}

function scored(outputs: Tensors, names: DetectorNames, count: number) {
  const { location, score, category, isGuessed } = names;
  const tensor = tensorNamed(outputs, score);
  const all = numbersOf(tensor);
  const checked = category === undefined ? all : all.slice(0, reportedCount(outputs, names));
  checkScores(checked, tensor, { score, isGuessed });

  const scale = tensor.data instanceof Uint8Array ? 255 : 1;
  const scores = all.map((value) => value / scale);
  if (category !== undefined) {
    const categories = numbersOf(tensorNamed(outputs, category));
    if (scores.length === count && categories.length === count) return { scores, categories };
    const found =
      `"${location}" ${count} boxes, "${score}" ${scores.length}, "${category}" ${categories.length}`;
    throw bad(`the model's outputs do not fit: ${found}`);
  }

  const classes = count === 0 ? 0 : scores.length / count;
  if (!Number.isInteger(classes)) {
    throw bad(
      `the model's outputs do not fit: "${location}" ${count} boxes, "${score}" ${scores.length} numbers`,
    );
  }

  // [1, boxes, classes], or [1, classes, boxes].
  const { shape } = tensor;
  const turned = shape.length === 3 && shape[2] === count && shape[1] !== count;
  const best = { scores: [] as number[], categories: [] as number[] };
  for (let box = 0; box < count; box++) {
    let most = 0;
    const at = (one: number) => scores[turned ? one * count + box : box * classes + one] ?? 0;
    for (let one = 1; one < classes; one++) if (at(one) > at(most)) most = one;
    best.scores.push(at(most));
    best.categories.push(most);
  }

  return best;
}

function tensorNamed(outputs: Tensors, name: string): Tensor {
  const tensor = outputs[name];
  assert(tensor, `"${name}" is one of the model's outputs`);
  return tensor;
}

/** A confidence above 1, or below 0, shows that a guess was wrong; -1 may fill the tensor. */
function checkScores(
  values: readonly number[],
  { data }: Tensor,
  { score, isGuessed }: Pick<DetectorNames, "score" | "isGuessed">,
): void {
  if (!isGuessed || data instanceof Uint8Array) return;
  const wrong = values.find((value) => value > CONFIDENCE_MAX || value < CONFIDENCE_MIN && value !== -1);
  if (wrong === undefined) return;
  throw new SvcError(
    "failed_precondition",
    `the model's output "${score}" was taken for the confidences and has ${wrong}, wanted 0 to 1; ` +
      "remap_output_names says which output is which",
  );
}

function bad(problem: string): SvcError {
  return new SvcError("invalid_argument", problem);
}
