/**
 * Object detection: finds labelled objects and their boxes. For each cell of a grid (8 pixels a side), the
 * network estimates for each label how near an object's middle is, and the box around that object.
 *
 * The exported model finds the boxes itself and answers, the best first, `location` [1, N, 4] (y_min, x_min,
 * y_max, x_max, 0 to 1), `category` [1, N] and `score` [1, N]; unused places have score 0.
 */

import type { Convolution } from "./convolution.ts";
import {
  type ConfusionRow,
  type ExpectedFindings,
  type Learner,
  type ModelOutputs,
  outputNamed,
  type QualityMetrics,
  sigmoid,
} from "./learner.ts";
import { Network } from "./network.ts";
import type { OnnxGraph } from "./onnx/writer.ts";
import type { NumberedBox } from "./picture.ts";

const DETECTIONS_MAX = 50;
const STRIDE = 8;
/** Objects of one label that overlap more than this count as one object. */
const OVERLAP_MAX = 0.5;
const SCORE_MIN = 0.05;
/** Bounds of the logarithm of a side's share of the picture. */
const SIDE_LOG = [-5, 0] as const;
/** Spread of an object's middle, as a share of its sides; cells within two spreads predict its box. */
const SPREAD = 0.12;
const REACH = 2;
/** The loss of a box changes from quadratic to linear at this error. */
const KNEE = 0.1;
const WEIGHT_MAX = 3;

/** Indices of a box's numbers in a cell, after the labels' own numbers. */
const [Y, X, HEIGHT, WIDTH, BOX_NUMBERS] = [0, 1, 2, 3, 4];

export class Detector implements Learner {
  readonly network: Network;
  readonly #end: Convolution;
  readonly #names: readonly string[];
  readonly #labels: number;
  readonly #grid: number;
  /** Weight of an object of each label; rare labels weigh more. */
  readonly #weights: readonly number[];

  constructor(
    names: readonly string[],
    learned: readonly ExpectedFindings[],
    batch: number,
    side: number,
    random: () => number,
  ) {
    this.#names = names;
    const labels = this.#labels = names.length;
    this.#grid = side / STRIDE;

    const network = this.network = new Network(batch, side, random);
    const inner = (from: Convolution["input"], channels: number, stride: 1 | 2) =>
      network.convolution(from, { channels, stride, size: 3, rectified: true }).output;
    const half = inner(network.picture, 16, 2);
    const quarter = inner(inner(half, 32, 2), 32, 1);
    const cells = inner(inner(quarter, 64, 2), 64, 1);
    const wide = inner(inner(cells, 96, 2), 96, 1);

    const plain = { size: 1, stride: 1, rectified: false } as const;
    const surroundings = network.convolution(wide, { channels: 64, ...plain }).output;
    const seen = inner(network.merge(cells, surroundings), 64, 1);
    this.#end = network.convolution(seen, { channels: labels + BOX_NUMBERS, ...plain });

    const boxes = learned.flatMap((target) => target.boxes);
    const mean = (size: (box: NumberedBox) => number) =>
      boxes.reduce((sum, box) => sum + Math.log(size(box)), 0) / boxes.length;
    const sides = [mean((box) => box.yMax - box.yMin), mean((box) => box.xMax - box.xMin)];
    this.#end.startAt([...Array(labels).fill(-2.5), 0, 0, ...sides]);
    this.#weights = Array.from({ length: labels }, (_, label) => {
      const count = boxes.filter((box) => box.label === label).length;
      return Math.min(WEIGHT_MAX, Math.sqrt(boxes.length / labels / Math.max(1, count)));
    });
  }

  loss(targets: readonly ExpectedFindings[], batch = targets): number {
    this.#end.output.gradient!.fill(0);
    const things = Math.max(1, batch.reduce((sum, { boxes }) => sum + boxes.length, 0));
    return targets.reduce((sum, { boxes }, index) => sum + this.#lossOf(index, boxes, 1 / things), 0);
  }

  answer(index: number): ModelOutputs {
    const found = this.#found(index).slice(0, DETECTIONS_MAX);
    const location = new Float32Array(4 * DETECTIONS_MAX);
    const category = new Float32Array(DETECTIONS_MAX), score = new Float32Array(DETECTIONS_MAX);
    found.forEach((one, place) => {
      location.set([one.yMin, one.xMin, one.yMax, one.xMax], 4 * place);
      category[place] = one.label;
      score[place] = one.score;
    });
    return { location, category, score };
  }

  metrics(answers: readonly ModelOutputs[], targets: readonly ExpectedFindings[]): QualityMetrics {
    return detectionMetrics(this.#names, answers, targets);
  }

  confusion(): readonly ConfusionRow[] {
    return [];
  }

  finish(graph: OnnxGraph, end: string): void {
    const [labels, grid, cells] = [this.#labels, this.#grid, this.#grid ** 2];
    const lists = graph.node("Transpose", [end], { perm: [0, 2, 3, 1] });
    const rows = graph.node("Reshape", [lists, graph.integers([cells, labels + BOX_NUMBERS])]);
    const columns = (from: string, start: number, stop: number) =>
      graph.node("Slice", [from, ...[start, stop, 1].map((value) => graph.integers([value]))]);
    const scores = graph.node("Transpose", [graph.node("Sigmoid", [columns(rows, 0, labels)])], {
      perm: [1, 0],
    });
    const places = Array.from(
      { length: cells },
      (_, cell) => [Math.floor(cell / grid) + 0.5, cell % grid + 0.5],
    );
    const moved = graph.node("Add", [
      columns(rows, labels, labels + 2),
      graph.floats(places.flat(), [cells, 2]),
    ]);
    const middle = graph.node("Div", [moved, graph.floats([grid], [])]);

    const limits = SIDE_LOG.map((limit) => graph.floats([limit], []));
    const logs = graph.node("Clip", [columns(rows, labels + 2, labels + 4), ...limits]);
    const half = graph.node("Mul", [graph.node("Exp", [logs]), graph.floats([0.5], [])]);
    const corners = [graph.node("Sub", [middle, half]), graph.node("Add", [middle, half])];
    const zeroToOne = [graph.floats([0], []), graph.floats([1], [])];
    const boxes = graph.node("Clip", [graph.node("Concat", corners, { axis: 1 }), ...zeroToOne]);

    const one = graph.integers([0]);
    const chosen = graph.node("NonMaxSuppression", [
      graph.node("Unsqueeze", [boxes, one]),
      graph.node("Unsqueeze", [scores, one]),
      graph.integers([DETECTIONS_MAX]),
      graph.floats([OVERLAP_MAX], [1]),
      graph.floats([SCORE_MIN], [1]),
    ]);
    // Rows of picture, label, cell, filled up with zeros so that there are always enough of them.
    const filled = (values: string, zeros: string) => graph.node("Concat", [values, zeros], { axis: 0 });
    const none = Array(DETECTIONS_MAX).fill(0);
    const score = graph.node("GatherND", [scores, columns(chosen, 1, 3)]);
    const [best, order] = graph.pair("TopK", [
      filled(score, graph.floats(none, [DETECTIONS_MAX])),
      graph.integers([DETECTIONS_MAX]),
    ]);

    const column = (at: number) => graph.node("Gather", [chosen, graph.integers([at], [])], { axis: 1 });
    const found = (values: string, zeros: string) => graph.node("Gather", [filled(values, zeros), order]);
    const category = found(column(1), graph.integers(none));
    const emptyBoxes = graph.floats([...none, ...none, ...none, ...none], [DETECTIONS_MAX, 4]);
    const location = found(graph.node("Gather", [boxes, column(2)]), emptyBoxes);
    graph.node("Unsqueeze", [location, one], {}, "location");

    graph.node("Unsqueeze", [graph.node("Cast", [category], { to: 1 }), one], {}, "category");
    graph.node("Unsqueeze", [best, one], {}, "score");
    graph.output("location", "float32", [1, DETECTIONS_MAX, 4]);
    graph.output("category", "float32", [1, DETECTIONS_MAX]);
    graph.output("score", "float32", [1, DETECTIONS_MAX]);
  }

  /** The loss of one picture, in which each object has the weight `share`; writes its gradient. */
  #lossOf(picture: number, boxes: readonly NumberedBox[], share: number): number {
    const { data, channels } = this.#end.output;
    const gradient = this.#end.output.gradient!;
    const cells = this.#grid ** 2;
    const start = picture * cells * channels;
    const { wanted, owners } = this.#targetsOf(boxes);
    let loss = 0;
    for (let cell = 0; cell < cells; cell++) {
      for (let label = 0; label < this.#labels; label++) {
        const at = start + cell * channels + label;
        const p = Math.min(1 - 1e-6, Math.max(1e-6, sigmoid(data[at] ?? 0)));
        const target = wanted[cell * this.#labels + label] ?? 0;
        const weight = share * (this.#weights[label] ?? 0);
        // Confident right answers weigh little, and an answer near an object's middle is hardly wrong.
        if (target === 1) {
          loss -= weight * (1 - p) ** 2 * Math.log(p);
          gradient[at] = weight * (1 - p) ** 2 * (2 * p * Math.log(p) - (1 - p));
        } else {
          const far = weight * (1 - target) ** 4;
          loss -= far * p * p * Math.log(1 - p);
          gradient[at] = far * p * p * (p - 2 * (1 - p) * Math.log(1 - p));
        }
      }
    }

    for (const { cell, box, weight } of owners) {
      const at = start + cell * channels + this.#labels;
      this.#boxTerms(cell, box).forEach(({ target, size }, number) => {
        const error = ((data[at + number] ?? 0) - target) / size;
        const near = Math.abs(error) < KNEE;
        loss += share * weight * (near ? error ** 2 / (2 * KNEE) : Math.abs(error) - KNEE / 2);
        gradient[at + number] = share * weight * (near ? error / KNEE : Math.sign(error)) / size;
      });
    }

    return loss;
  }

  /** The numbers that a cell should predict for a box, each with the unit in which its error is measured. */
  #boxTerms(cell: number, { xMin, yMin, xMax, yMax }: NumberedBox): { target: number; size: number }[] {
    const grid = this.#grid;
    const [height, width] = [yMax - yMin, xMax - xMin];
    const along = (low: number, high: number, place: number) => grid * (low + high) / 2 - place - 0.5;
    const terms = [];
    terms[Y] = { target: along(yMin, yMax, Math.floor(cell / grid)), size: grid * height };
    terms[X] = { target: along(xMin, xMax, cell % grid), size: grid * width };
    terms[HEIGHT] = { target: Math.log(height), size: 1 };
    terms[WIDTH] = { target: Math.log(width), size: 1 };
    return terms;
  }

  /**
   * The target value of each label in each cell, and the boxes that each cell predicts, with their weights.
   */
  #targetsOf(boxes: readonly NumberedBox[]) {
    const grid = this.#grid;
    const wanted = new Float64Array(grid * grid * this.#labels);
    const nearest = new Float64Array(grid * grid);
    const owner = new Int32Array(grid * grid).fill(-1);
    boxes.forEach(({ label, xMin, yMin, xMax, yMax }, index) => {
      const [x, y] = [grid * (xMin + xMax) / 2, grid * (yMin + yMax) / 2];
      const spreadX = Math.max(0.4, SPREAD * grid * (xMax - xMin));
      const spreadY = Math.max(0.4, SPREAD * grid * (yMax - yMin));
      const inside = (value: number) => Math.min(grid - 1, Math.floor(value));
      const middle = inside(y) * grid + inside(x);
      for (let cell = 0; cell < grid * grid; cell++) {
        const [right, down] = [cell % grid + 0.5 - x, Math.floor(cell / grid) + 0.5 - y];
        const distance = (right / spreadX) ** 2 + (down / spreadY) ** 2;
        const value = cell === middle ? 1 : Math.exp(-distance / 2);
        const at = cell * this.#labels + label;
        wanted[at] = Math.max(wanted[at] ?? 0, cell === middle ? 1 : Math.min(0.99, value));
        if ((cell === middle || distance < REACH ** 2) && value > (nearest[cell] ?? 0)) {
          nearest[cell] = value;
          owner[cell] = index;
        }
      }
    });

    const sums = new Float64Array(boxes.length);
    for (const [cell, index] of owner.entries()) {
      if (index >= 0) sums[index] = (sums[index] ?? 0) + (nearest[cell] ?? 0);
    }

    const owners: { cell: number; box: NumberedBox; weight: number }[] = [];
    for (const [cell, index] of owner.entries()) {
      const box = boxes[index];
      if (!box) continue;
      const weight = (this.#weights[box.label] ?? 0) * (nearest[cell] ?? 0) / (sums[index] ?? 0);
      owners.push({ cell, box, weight });
    }
    return { wanted, owners };
  }

  /** The objects in a picture, the best first. */
  #found(picture: number): Found[] {
    const { data, channels } = this.#end.output;
    const cells = this.#grid ** 2;
    const start = picture * cells * channels;
    const found: Found[] = [];
    for (let label = 0; label < this.#labels; label++) {
      const candidates: Found[] = [];
      for (let cell = 0; cell < cells; cell++) {
        const at = start + cell * channels;
        const score = sigmoid(data[at + label] ?? 0);
        if (score > SCORE_MIN) candidates.push({ label, score, ...this.#boxAt(cell, at + this.#labels) });
      }
      candidates.sort((a, b) => b.score - a.score);
      const kept: Found[] = [];
      for (const one of candidates) {
        if (kept.length < DETECTIONS_MAX && kept.every((other) => overlap(one, other) <= OVERLAP_MAX)) {
          kept.push(one);
        }
      }
      found.push(...kept);
    }

    return found.sort((a, b) => b.score - a.score);
  }

  #boxAt(cell: number, at: number): Omit<NumberedBox, "label"> {
    const { data } = this.#end.output;
    const grid = this.#grid;
    const half = (log: number) => Math.exp(Math.min(SIDE_LOG[1], Math.max(SIDE_LOG[0], log))) / 2;
    const inside = (value: number) => Math.min(1, Math.max(0, value));
    const y = (Math.floor(cell / grid) + 0.5 + (data[at + Y] ?? 0)) / grid;
    const x = (cell % grid + 0.5 + (data[at + X] ?? 0)) / grid;
    const height = half(data[at + HEIGHT] ?? 0), width = half(data[at + WIDTH] ?? 0);
    return {
      yMin: inside(y - height),
      xMin: inside(x - width),
      yMax: inside(y + height),
      xMax: inside(x + width),
    };
  }
}

interface Found extends NumberedBox {
  readonly score: number;
}

type Sides = Omit<NumberedBox, "label">;

function overlap(a: Sides, b: Sides): number {
  const width = Math.min(a.xMax, b.xMax) - Math.max(a.xMin, b.xMin);
  const height = Math.min(a.yMax, b.yMax) - Math.max(a.yMin, b.yMin);
  if (width <= 0 || height <= 0) return 0;
  const area = (box: Sides) => (box.xMax - box.xMin) * (box.yMax - box.yMin);
  return width * height / (area(a) + area(b) - width * height);
}

function foundIn(outputs: ModelOutputs): Found[] {
  const location = outputNamed(outputs, "location"), category = outputNamed(outputs, "category");
  return Array.from(outputNamed(outputs, "score"), (value, place) => {
    const [yMin = 0, xMin = 0, yMax = 0, xMax = 0] = location.subarray(4 * place, 4 * place + 4);
    return { label: category[place] ?? 0, score: value, yMin, xMin, yMax, xMax };
  }).filter((one) => one.score > 0);
}

/**
 * Mean average precision, counting a box as right from an overlap of one half, and the average precision of
 * each label.
 */
export function detectionMetrics(
  names: readonly string[],
  answers: readonly ModelOutputs[],
  targets: readonly ExpectedFindings[],
): QualityMetrics {
  const each = names.flatMap((name, label) => {
    const precision = averagePrecision(label, answers, targets);
    return precision === undefined ? [] : [[`AP@0.5 ${name}`, precision] as const];
  });
  const mean = each.reduce((sum, [, precision]) => sum + precision, 0) / Math.max(1, each.length);
  return { "mAP@0.5": mean, ...Object.fromEntries(each) };
}

/**
 * The area under precision over recall, with precision made non-increasing; undefined for a label that does not
 * occur.
 */
function averagePrecision(
  label: number,
  answers: readonly ModelOutputs[],
  targets: readonly ExpectedFindings[],
) {
  const there = targets.map(({ boxes }) => boxes.filter((box) => box.label === label));
  const count = there.reduce((sum, boxes) => sum + boxes.length, 0);
  if (count === 0) return undefined;

  const found = answers.flatMap((answer, picture) =>
    foundIn(answer).filter((one) => one.label === label).map((one) => ({ picture, one }))
  ).sort((a, b) => b.one.score - a.one.score);
  const taken = new Set<NumberedBox>();
  let right = 0;
  const points = found.map(({ picture, one }, index) => {
    let best: NumberedBox | undefined;
    for (const box of there[picture] ?? []) {
      if (!best || overlap(one, box) > overlap(one, best)) best = box;
    }
    if (best && overlap(one, best) >= 0.5 && !taken.has(best)) {
      taken.add(best);
      right++;
    }
    return { recall: right / count, precision: right / (index + 1) };
  });
  let [area, precision] = [0, 0];
  for (const [index, point] of [...points.entries()].reverse()) {
    precision = Math.max(precision, point.precision);
    area += precision * (point.recall - (points[index - 1]?.recall ?? 0));
  }

  return area;
}

/** Compares objects found with some confidence; 1 if only one of the two answers has an object. */
export function detectionDifference(expected: ModelOutputs, found: ModelOutputs): number {
  const sure = (answer: ModelOutputs) => foundIn(answer).filter(({ score }) => score > 2 * SCORE_MIN);
  const [a, b] = [foundIn(expected), foundIn(found)];
  const distance = (one: Found, other: Found) =>
    Math.max(
      ...(["label", "score", "xMin", "yMin", "xMax", "yMax"] as const).map((key) =>
        Math.abs(one[key] - other[key])
      ),
    );
  const nearest = (one: Found, others: readonly Found[]) =>
    Math.min(1, ...others.map((other) => distance(one, other)));
  const both = [
    ...sure(expected).map((one) => nearest(one, b)),
    ...sure(found).map((one) => nearest(one, a)),
  ];
  return Math.max(0, ...both);
}
