import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { detectorNames } from "./detector_outputs.ts";
import { classesOf, foundIn } from "./vision_tensors.ts";

function floats(shape: readonly number[], ...values: number[]) {
  return { shape, data: Float32Array.from(values) };
}

Deno.test("classesOf: rounding above 1 leaves probabilities as they are", () => {
  const confidences = (...values: number[]) =>
    classesOf("out", floats([1, values.length], ...values), undefined)
      .map(({ confidence }) => Number(confidence.toFixed(4)));
  assertEquals(confidences(1.00000536, 0), [1, 0], "a probability that a library rounded up");
  assertEquals(confidences(1 + 2 ** -23), [1], "the next number after 1");
  assertEquals(confidences(0.25, 1 + 2 ** -10, 0.75), [0.25, 1, 0.75], "half precision, several labels");
  assertEquals(confidences(2, 1), [0.7311, 0.2689], "what is clearly above 1 is no probability");
});

Deno.test("foundIn: what only fills the tensor is no box and does not decide about pixels", () => {
  const found = (outputs: Parameters<typeof detectorNames>[0]) => {
    const names = detectorNames(outputs, Object.keys(outputs), new Map());
    const form = { order: [1, 0, 3, 2], width: 100, height: 100 };
    return names && foundIn(outputs, names, form).map(({ category, box }) => [category, box]);
  };
  const [half, one] = [[0, 0.25, 0.5, 0.75], [0, { xMin: 0.25, yMin: 0, xMax: 0.75, yMax: 0.5 }]];
  const garbage = {
    detection_boxes: floats([1, 3, 4], ...half, 3e20, -7, 1e9, 5, NaN, 0, 1, 1),
    detection_classes: floats([1, 3], 0, 1e9, -3),
    detection_scores: floats([1, 3], 0.9, 4e18, 0.7),
    num_detections: floats([1], 1),
  };
  assertEquals(found(garbage), [one], "one box counts, and the rest of the memory is as it was");
  assertEquals(found({ ...garbage, num_detections: floats([1], 0) }), [], "none counts");
  const { num_detections: _count, ...uncounted } = garbage;
  assertEquals(
    found({ ...uncounted, detection_scores: floats([1, 3], 0.9, 0, 0.7) }),
    [one],
    "without count",
  );
  const pixels = floats([1, 3, 4], 0, 25, 50, 75, 0, 0, 0, 0, 0, 0, 0, 0);
  assertEquals(found({ ...garbage, detection_boxes: pixels }), [one], "in pixels");
});

Deno.test("foundIn: logits that were guessed to be confidences are refused, whether or not something is there", () => {
  const form = { order: [0, 1, 2, 3], width: 100, height: 100 };
  const found = (...logits: number[]) => {
    const outputs = {
      pred_boxes: floats([1, 2, 4], 0, 0, 1, 1, 0, 0, 0.5, 0.5),
      logits: floats([1, 2, 3], ...logits),
    };
    return foundIn(outputs, detectorNames(outputs, Object.keys(outputs), new Map())!, form).length;
  };
  for (const logits of [[-7, -5, -4, -6, -4, -3], [-7, 0.5, -4, -6, -4, -3], [0, 2.5, 0, 0, 0, 0]]) {
    assertThrows(() => found(...logits), SvcError, '"logits" was taken for the confidences');
  }
  assertEquals(found(-0.004, 0.9, 0, -1, -1, -1), 1, "rounded, and filled");
});
