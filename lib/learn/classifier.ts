/**
 * Classification of whole pictures: one label of several (softmax) or any number of them (sigmoid).
 *
 * The exported model answers `probability` [1, labels]. Labels with few pictures weigh more in the loss.
 */

import {
  type ConfusionRow,
  type ExpectedFindings,
  type Learner,
  type ModelOutputs,
  outputNamed,
  type QualityMetrics,
  sigmoid,
} from "./learner.ts";
import type { Convolution } from "./convolution.ts";
import { Network } from "./network.ts";
import type { OnnxGraph } from "./onnx/writer.ts";

/** Largest weight that a picture may have in the loss. */
const WEIGHT_MAX = 4;

export class Classifier implements Learner {
  readonly network: Network;
  readonly #end: Convolution;
  readonly #labels: number;
  /** For each label, the weight of a picture with it and of a picture without it. */
  readonly #weights: readonly { readonly having: number; readonly lacking: number }[];

  /** `one` means that exactly one label belongs to each picture. */
  constructor(
    private readonly one: boolean,
    labels: number,
    learned: readonly ExpectedFindings[],
    batch: number,
    side: number,
    random: () => number,
  ) {
    this.#labels = labels;
    const network = this.network = new Network(batch, side, random);
    let tensor = network.picture;
    for (const [channels, stride] of [[16, 2], [32, 2], [32, 1], [64, 2], [64, 1], [96, 1]] as const) {
      tensor = network.convolution(tensor, { channels, stride, size: 3, rectified: true }).output;
    }
    const peak = network.peak(tensor);
    this.#end = network.convolution(peak, { channels: labels, size: 1, stride: 1, rectified: false });

    this.#weights = Array.from({ length: labels }, (_, label) => {
      const having = learned.filter((target) => target.labels.includes(label)).length;
      const even = one ? learned.length / labels : learned.length / 2;
      const weight = (count: number) => Math.min(WEIGHT_MAX, Math.sqrt(even / Math.max(1, count)));
      return { having: weight(having), lacking: one ? 1 : weight(learned.length - having) };
    });
  }

  loss(targets: readonly ExpectedFindings[], batch = targets): number {
    const { channels } = this.#end.output;
    const gradient = this.#end.output.gradient!.fill(0);
    let sum = 0;
    targets.forEach(({ labels }, index) => {
      const probabilities = outputNamed(this.answer(index), "probability");
      const ofOne = this.#weights[labels[0] ?? 0]?.having ?? 1;
      for (const [label, { having, lacking }] of this.#weights.entries()) {
        const has = labels.includes(label);
        const ofEach = has ? having : lacking;
        const weight = this.one ? ofOne : ofEach;
        const probability = probabilities[label] ?? 0;
        const right = has ? probability : 1 - probability;
        if (has || !this.one) sum -= weight * Math.log(Math.max(1e-7, right)) / batch.length;
        gradient[index * channels + label] = weight * (probability - (has ? 1 : 0)) / batch.length;
      }
    });

    return sum;
  }

  answer(index: number): ModelOutputs {
    const { data, channels } = this.#end.output;
    const values = data.subarray(index * channels, index * channels + this.#labels);
    if (!this.one) return { probability: values.map(sigmoid) };
    const largest = Math.max(...values);
    const powers = values.map((value) => Math.exp(value - largest));
    const sum = powers.reduce((total, power) => total + power, 0);
    return { probability: powers.map((power) => power / sum) };
  }

  /**
   * Accuracy (over all labels of all pictures if several labels may apply) and F1, the mean over labels that
   * occur.
   */
  metrics(answers: readonly ModelOutputs[], targets: readonly ExpectedFindings[]): QualityMetrics {
    const counts = this.confusion(answers, targets).map(({ pictures, foundAs, wrong }, label) => {
      const right = foundAs[label] ?? 0;
      return {
        there: pictures,
        right,
        output: right + wrong,
        agreed: answers.length - pictures + right - wrong,
      };
    });
    const total = (pick: (count: typeof counts[number]) => number) =>
      counts.reduce((sum, count) => sum + pick(count), 0);
    const accuracy = this.one
      ? total(({ right }) => right) / answers.length
      : total(({ agreed }) => agreed) / (answers.length * this.#labels);
    const occurring = counts.filter(({ there }) => there > 0);
    const f1 = occurring.reduce((sum, { right, output, there }) => sum + 2 * right / (output + there), 0);
    const macro = occurring.length === 0 ? 0 : f1 / occurring.length;
    return this.one ? { accuracy, "macro F1": macro } : { "macro F1": macro, accuracy };
  }

  confusion(answers: readonly ModelOutputs[], targets: readonly ExpectedFindings[]): readonly ConfusionRow[] {
    const rows = Array.from({ length: this.#labels }, () => ({
      pictures: 0,
      foundAs: new Array<number>(this.#labels).fill(0),
      wrong: 0,
    }));
    answers.forEach((answer, index) => {
      const probability = outputNamed(answer, "probability");
      const best = probability.indexOf(Math.max(...probability));
      const labels = targets[index]?.labels ?? [];
      rows.forEach((row, label) => {
        const output = this.one ? label === best : (probability[label] ?? 0) >= 0.5;
        if (!labels.includes(label)) {
          row.wrong += Number(output);
          return;
        }
        row.pictures++;
        const as = this.one ? best : label;
        row.foundAs[as] = (row.foundAs[as] ?? 0) + Number(this.one || output);
      });
    });
    return rows;
  }

  finish(graph: OnnxGraph, end: string): void {
    const shape = [1, this.#labels];
    const flat = graph.node("Reshape", [end, graph.integers(shape)]);
    if (this.one) graph.node("Softmax", [flat], { axis: 1 }, "probability");
    else graph.node("Sigmoid", [flat], {}, "probability");
    graph.output("probability", "float32", shape);
  }
}
