/**
 * Detectors whose boxes, confidences and classes stand in rows of one output, as exports with suppression of
 * overlapping boxes write them. Pure.
 *
 * The shape alone does not tell: the rows must hold what they would then mean. Boxes are x_min, y_min, x_max, y_max.
 */

import type { Tensor, Tensors } from "../services/ml_model.ts";
import { SvcError } from "../../base/error.ts";
import { CONFIDENCE_MAX, type DetectorNames, numbersOf } from "./detector_outputs.ts";

/** Raw outputs, whose boxes still overlap, have thousands of rows. */
const ROWS_MAX = 2_000;

/** Where the numbers of a row stand; `labels` is an output of its own with the classes. */
export interface JoinedForm {
  readonly output: string;
  readonly width: number;
  readonly box: number;
  readonly score: number;
  readonly category?: number;
  readonly labels?: string;
}

/** The names of the separated outputs, and the order of the sides of their boxes. */
export const SEPARATED: DetectorNames = {
  location: "location",
  score: "score",
  category: "category",
  isGuessed: true,
};
export const SEPARATED_ORDER: readonly number[] = [0, 1, 2, 3];

/** The form of rows with classes by their width: YOLO's newer versions, and version 7, which names the picture first. */
const FORMS = [
  { width: 6, box: 0, score: 4, category: 5 },
  { width: 7, box: 1, score: 6, category: 5 },
];

/** The form of the only output, or of the one beside a list of classes; `undefined` if they have another one. */
export function joinedForm(outputs: Tensors): JoinedForm | undefined {
  const entries = Object.entries(outputs);
  const forms = entries.flatMap(([output, { shape }]): JoinedForm[] => {
    const found = FORMS.find(({ width }) => width === shape.at(-1));
    if (entries.length === 1 && found) return [{ output, ...found }];
    const [labels] = entries.find(([name, tensor]) => name !== output && isClasses(name, tensor, shape)) ??
      [];
    const isPair = entries.length === 2 && shape.at(-1) === 5 && labels !== undefined;
    return isPair ? [{ output, labels, width: 5, box: 0, score: 4 }] : [];
  });
  return forms.find((form) => isRows(outputs[form.output]!) && problemIn(outputs, form) === undefined);
}

/** The boxes, confidences and classes as outputs of their own. Throws `failed_precondition` for rows of another form. */
export function separated(outputs: Tensors, form: JoinedForm): Tensors {
  const problem = problemIn(outputs, form);
  if (problem !== undefined) {
    const wanted = "wanted x_min, y_min, x_max, y_max with a confidence and a class";
    throw new SvcError("failed_precondition", `the model's output "${form.output}" ${problem}, ${wanted}`);
  }
  const rows = rowsIn(outputs, form);
  const data = (values: number[]) => Float32Array.from(values);
  return {
    location: {
      shape: [1, rows.length, 4],
      data: data(rows.flatMap(({ numbers }) => numbers.slice(form.box, form.box + 4))),
    },
    score: { shape: [1, rows.length], data: data(rows.map(({ score }) => score)) },
    category: { shape: [1, rows.length], data: data(rows.map(({ category }) => category)) },
  };
}

function isClasses(name: string, { shape }: Tensor, rows: readonly number[]): boolean {
  return /label|class/i.test(name) && shape.join() === rows.slice(0, -1).join();
}

/** [1, n, …] or [n, …]. */
function isRows({ shape }: Tensor): boolean {
  return (shape.length === 2 || shape.length === 3 && shape[0] === 1) && (shape.at(-2) ?? 0) <= ROWS_MAX;
}

function rowsIn(outputs: Tensors, { output, labels, width, score, category }: JoinedForm) {
  const valuesOf = (name: string) => {
    const tensor = outputs[name];
    return tensor ? numbersOf(tensor) : [];
  };
  const all = valuesOf(output);
  const classes = labels === undefined ? undefined : valuesOf(labels);
  return Array.from({ length: Math.floor(all.length / width) }, (_, at) => {
    const numbers = all.slice(at * width, (at + 1) * width);
    return {
      numbers,
      score: numbers[score] ?? NaN,
      category: (classes ? classes[at] : numbers[category ?? NaN]) ?? NaN,
    };
  });
}

/** Rows without confidence only fill the tensor. */
function problemIn(outputs: Tensors, form: JoinedForm): string | undefined {
  const { output, width, box } = form;
  if (outputs[output]?.shape.at(-1) !== width) return `has not ${width} numbers for each box`;
  const wrong = rowsIn(outputs, form).find(({ numbers, score, category }) => {
    if (score === 0) return false;
    const [xMin = NaN, yMin = NaN, xMax = NaN, yMax = NaN] = numbers.slice(box, box + 4);
    const isBox = xMin <= xMax && yMin <= yMax;
    return !(score > 0 && score <= CONFIDENCE_MAX && isBox && Number.isInteger(category) && category >= 0);
  });
  return wrong && `has the row ${wrong.numbers.map((one) => Number(one.toPrecision(4))).join(", ")}`;
}
