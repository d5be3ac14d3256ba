/**
 * Small ONNX models with known answers, for the tests of what runs them. Those in `tests/data/ml_model` are these.
 */

import { OnnxGraph } from "../../lib/learn/onnx/writer.ts";

/** Element types by their numbers in the format. */
const FLOAT32 = 1;

/** Classes red, green and blue of a 6 x 4 picture: how bright it is in each, from 0 to 1. */
export function colorsModel(): Uint8Array<ArrayBuffer> {
  const graph = new OnnxGraph();
  brightness(graph, [1, 4, 6, 3], [1, 2], "probability");
  graph.output("probability", "float32", [1, 3]);
  return graph.model("colors", "svc tests", {});
}

/**
 * Three boxes in a 6 x 4 picture, y_min first: the left half, the lower half, and nothing, of which each is as sure
 * as the picture is red, green and blue. Takes planes of float32. The boxes are shares of the picture, or in pixels.
 */
export function boxesModel({ inPixels = false } = {}): Uint8Array<ArrayBuffer> {
  const graph = new OnnxGraph();
  const image = graph.input("image", "float32", [1, 3, 4, 6]);
  graph.node("ReduceMean", [image], { axes: [2, 3], keepdims: 0 }, "score");
  const shares = [0, 0, 1, 0.5, 0.5, 0, 1, 1, 0, 0, 0, 0];
  const sides = shares.map((share, at) => inPixels ? share * (at % 2 ? 6 : 4) : share);
  const boxes = graph.floats(sides, [1, 3, 4]);
  graph.node("Identity", [boxes], {}, "location");
  graph.node("Identity", [graph.floats([0, 1, 2], [1, 3])], {}, "category");
  graph.output("location", "float32", [1, 3, 4]);
  graph.output("category", "float32", [1, 3]);
  graph.output("score", "float32", [1, 3]);
  return graph.model("boxes", "svc tests", {});
}

/** The same boxes in rows of one output, in pixels: x_min first, then how sure it is, and the class. */
export function rowsModel(): Uint8Array<ArrayBuffer> {
  const graph = new OnnxGraph();
  const image = graph.input("image", "float32", [1, 3, 4, 6]);
  const lines = graph.node("ReduceMean", [image], { axes: [3], keepdims: 0 });
  const score = graph.node("ReduceMean", [lines], { axes: [2], keepdims: 1 });
  const boxes = graph.floats([0, 0, 3, 4, 0, 2, 6, 4, 0, 0, 0, 0], [1, 3, 4]);
  const classes = graph.floats([0, 1, 2], [1, 3, 1]);
  graph.node("Concat", [boxes, score, classes], { axis: 2 }, "output0");
  graph.output("output0", "float32", [1, 3, 6]);
  return graph.model("rows", "svc tests", {});
}

/** Twice its input `a`, as `b`: rows of four numbers. */
export function doubleModel(): Uint8Array<ArrayBuffer> {
  const graph = new OnnxGraph();
  const a = graph.input("a", "float32", [2, 4]);
  graph.node("Add", [a, a], {}, "b");
  graph.output("b", "float32", [2, 4]);
  return graph.model("double", "svc tests", {});
}

/** A model with an unknown operator. */
export function unknownOperatorModel(): Uint8Array<ArrayBuffer> {
  const graph = new OnnxGraph();
  graph.node("Frobnicate", [graph.input("a", "float32", [1])], {}, "b");
  graph.output("b", "float32", [1]);
  return graph.model("unknown", "svc tests", {});
}

function brightness(graph: OnnxGraph, shape: readonly number[], axes: readonly number[], name: string): void {
  const image = graph.input("image", "uint8", shape);
  const bytes = graph.node("Cast", [image], { to: FLOAT32 });
  const mean = graph.node("ReduceMean", [bytes], { axes, keepdims: 0 });
  graph.node("Div", [mean, graph.floats([255], [])], {}, name);
}

if (import.meta.main) {
  const folder = new URL("../data/ml_model/", import.meta.url);
  await Deno.writeFile(new URL("colors/model.onnx", folder), colorsModel());
  await Deno.writeFile(new URL("boxes/model.onnx", folder), boxesModel());
}
