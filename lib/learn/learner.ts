/**
 * The common part of the three kinds of models: a network for square pictures, a loss, answers and their
 * metrics, and the exported graph.
 */

import type { GradientTensor } from "./patch_products.ts";
import type { Network } from "./network.ts";
import { OnnxGraph } from "./onnx/writer.ts";
import type { NumberedBox } from "./picture.ts";
import { assert } from "../base/error.ts";

/** The expected findings in a picture. */
export interface ExpectedFindings {
  readonly labels: readonly number[];
  readonly boxes: readonly NumberedBox[];
}

/** Outputs of a model for one picture by their published names, in rows. */
export type ModelOutputs = { readonly [output: string]: Float32Array };

/** An output that the model has. */
export function outputNamed(outputs: ModelOutputs, name: string): Float32Array {
  const found = outputs[name];
  assert(found, `the model has no output ${name}`);
  return found;
}

export type QualityMetrics = { readonly [name: string]: number };

/** A classifier's answers for the held-back pictures of one label: a row of the confusion matrix. */
export interface ConfusionRow {
  /** Pictures with the label. */
  readonly pictures: number;
  /**
   * For each label, how many of these pictures the model assigns to it. A model that sees several labels in a
   * picture counts only the row's own label.
   */
  readonly foundAs: readonly number[];
  /** Pictures without the label in which the model sees it. */
  readonly wrong: number;
}

export interface Learner {
  readonly network: Network;
  /**
   * The share of the last computed pictures in the loss of `batch`, of which they may be a part. Writes the
   * gradient at the network's end.
   */
  loss(targets: readonly ExpectedFindings[], batch?: readonly ExpectedFindings[]): number;
  /** The exported model's answer for picture `index` of the batch last computed with `use`. */
  answer(index: number): ModelOutputs;
  /** The quality of answers, each metric from 0 to 1. The first metric decides which model is kept. */
  metrics(answers: readonly ModelOutputs[], targets: readonly ExpectedFindings[]): QualityMetrics;
  /** A row for each label; empty for models that find objects. */
  confusion(answers: readonly ModelOutputs[], targets: readonly ExpectedFindings[]): readonly ConfusionRow[];
  /** Adds the last nodes of the exported graph: from the network's end, named `end`, to the named outputs. */
  finish(graph: OnnxGraph, end: string): void;
}

/**
 * The model as an ONNX file: takes the bytes of a picture `image` [1, side, side, 3] and returns the
 * published outputs.
 */
export function onnxOf(learner: Learner, kind: string, labels: readonly string[]): Uint8Array<ArrayBuffer> {
  const { network } = learner;
  const graph = new OnnxGraph();
  const image = graph.input("image", "uint8", [1, network.picture.height, network.picture.width, 3]);
  const floats = graph.node("Cast", [image], { to: 1 });
  const scaled = graph.node("Div", [floats, graph.floats([127.5], [])]);
  const centred = graph.node("Sub", [scaled, graph.floats([1], [])]);

  const names = new Map<GradientTensor, string>();
  names.set(network.picture, graph.node("Transpose", [centred], { perm: [0, 3, 1, 2] }));

  let end = "";
  for (const layer of network.layers) {
    if (layer.kind === "convolution") {
      const { input, output, shape, folded } = layer.convolution;
      const from = input === network.picture ? 3 : input.channels;
      const weights = reordered(
        folded.weights,
        shape.size,
        input.channels,
        output.channels,
        from,
        shape.channels,
      );
      const sizes = [shape.channels, from, shape.size, shape.size];
      const bias = graph.floats(folded.bias.subarray(0, shape.channels), [shape.channels]);
      end = graph.node("Conv", [names.get(input)!, graph.floats(weights, sizes), bias], {
        kernel_shape: [shape.size, shape.size],
        strides: [shape.stride, shape.stride],
        pads: Array(4).fill(shape.size >> 1),
      });

      if (shape.rectified) end = graph.node("Relu", [end]);
      names.set(output, end);
    } else if (layer.kind === "merge") {
      const scales = graph.floats([1, 1, 2, 2], [4]);
      const enlarged = graph.node("Resize", [names.get(layer.coarse)!, "", scales], {
        mode: "nearest",
        coordinate_transformation_mode: "asymmetric",
        nearest_mode: "floor",
      });
      names.set(layer.output, graph.node("Add", [names.get(layer.fine)!, enlarged]));
    } else names.set(layer.output, graph.node("GlobalMaxPool", [names.get(layer.input)!]));
  }

  learner.finish(graph, end);
  return graph.model(kind, "svc", { labels: labels.join("\n") });
}

/** The weights [size, size, in, out] as [out, in, size, size], without the padding channels. */
function reordered(
  weights: Float32Array,
  size: number,
  inputs: number,
  outputs: number,
  inputsKept: number,
  outputsKept: number,
): Float32Array {
  const kept = new Float32Array(outputsKept * inputsKept * size * size);
  let at = 0;
  for (let output = 0; output < outputsKept; output++) {
    for (let input = 0; input < inputsKept; input++) {
      for (let place = 0; place < size * size; place++) {
        kept[at++] = weights[(place * inputs + input) * outputs + output] ?? 0;
      }
    }
  }

  return kept;
}

export function sigmoid(value: number): number {
  return 1 / (1 + Math.exp(-value));
}
