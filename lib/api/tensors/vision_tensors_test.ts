import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { detectorNames } from "./detector_outputs.ts";
import type { TensorInfo } from "../services/ml_model.ts";
import {
  classesOf,
  foundIn,
  imageTensor,
  type InputForm,
  layoutOf,
  probabilityName,
} from "./vision_tensors.ts";

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

Deno.test("layoutOf: the shape tells planes from pixels, and the size where it is fixed", () => {
  const layout = (dataType: TensorInfo["dataType"], ...shape: number[]) => {
    const info = { name: "in", description: "", dataType, shape, associatedFiles: [] };
    const { type, planes, width, height } = layoutOf(info);
    return [type, planes, width, height];
  };
  assertEquals(layout("uint8", 1, 240, 320, 3), ["uint8", false, 320, 240]);
  assertEquals(layout("float32", 1, 3, 240, 320), ["float32", true, 320, 240]);
  assertEquals(layout("float32", -1, -1, -1, 3), ["float32", false, undefined, undefined]);
  assertEquals(layout("uint8", -1, 3, -1, 640), ["uint8", true, 640, undefined]);
  assertEquals(layout("uint8", 1, 3, 3, 3), ["uint8", false, 3, 3], "by pixel, as most models have it");
  const refused = [[2, 240, 320, 3], [1, 240, 320, 4], [240, 320, 3], [1, 1, 240, 320, 3]];
  for (const shape of refused) {
    assertThrows(() => layout("uint8", ...shape), SvcError, `is uint8 [${shape.join(", ")}], wanted`);
  }
  assertThrows(() => layout("int32", 1, 240, 320, 3), SvcError, "is int32 [1, 240, 320, 3], wanted uint8");
});

Deno.test("imageTensor: colours stand by pixel or as planes, in their order, as the model wants their values", () => {
  const image = { width: 2, height: 1, rgba: Uint8Array.of(10, 20, 30, 255, 40, 50, 60, 255) };
  const form: InputForm = {
    type: "uint8",
    planes: false,
    width: undefined,
    height: undefined,
    bgr: false,
    mean: [],
    deviation: [],
  };
  const made = (changes: Partial<InputForm>) => {
    const { shape, data } = imageTensor(image, { ...form, ...changes });
    return [shape, Array.from<number | bigint, number>(data as ArrayLike<number | bigint>, Number)];
  };
  assertEquals(made({}), [[1, 1, 2, 3], [10, 20, 30, 40, 50, 60]]);
  assertEquals(made({ planes: true }), [[1, 3, 1, 2], [10, 40, 20, 50, 30, 60]]);
  assertEquals(made({ bgr: true }), [[1, 1, 2, 3], [30, 20, 10, 60, 50, 40]]);
  const scaled = { mean: [10, 20, 30], deviation: [1, 2, 4] };
  assertEquals(made({ ...scaled, type: "float32" })[1], [0, 0, 0, 30, 15, 7.5]);
  assertEquals(made(scaled)[1], [10, 20, 30, 40, 50, 60], "bytes are as they are");
  // The middle of a pixel is its place, and beyond the last middle nothing changes any more.
  assertEquals(made({ width: 4 })[1], [10, 20, 30, 18, 28, 38, 33, 43, 53, 40, 50, 60]);
  assertEquals(made({ width: 1, height: 2 }), [[1, 2, 1, 3], [25, 35, 45, 25, 35, 45]]);
});

Deno.test("probabilityName: the name, the remapped name, or the only row of numbers", () => {
  const row = floats([1, 2], 0.5, 0.5), table = floats([2, 2], 1, 2, 3, 4);
  const none = new Map<string, string>();
  assertEquals(probabilityName({ probability: table, other: row }, none), "probability");
  assertEquals(probabilityName({ a: row, b: row }, new Map([["probability", "b"]])), "b");
  assertEquals(probabilityName({ a: row, b: row }, none), undefined, "either may be meant");
  assertEquals([probabilityName({ a: row }, none), probabilityName({ a: table }, none)], ["a", undefined]);
  assertEquals(probabilityName({}, none), undefined);
});

Deno.test("classesOf: names, and confidences from bytes and from any numbers", () => {
  const classes = (data: Uint8Array | Float32Array, labels?: string[]) =>
    classesOf("out", { shape: [1, data.length], data }, labels)
      .map(({ className, confidence }) => [className, Number(confidence.toFixed(3))]);
  assertEquals(classes(Uint8Array.of(255, 51), ["cat", ""]), [["cat", 1], ["1", 0.2]]);
  assertEquals(classes(Float32Array.of(0)), [["0", 0]]);
  assertEquals(classes(Float32Array.of(-1)), [["0", 0.269]], "a single number passes a sigmoid");
  assertEquals(classes(Float32Array.of(1_000, 1_000, -1_000)), [["0", 0.5], ["1", 0.5], ["2", 0]]);
  assertThrows(() => classes(Uint8Array.of(1, 2), ["cat"]), SvcError, "2 classes and the file of labels 1");
});
