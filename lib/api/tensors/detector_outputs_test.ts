import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import type { Tensor, Tensors } from "../services/ml_model.ts";
import { detectorNames } from "./detector_outputs.ts";
import { joinedForm, separated } from "./joined_outputs.ts";
import { foundIn } from "./vision_tensors.ts";

function floats(shape: readonly number[], ...values: number[]): Tensor {
  return { shape, data: Float32Array.from(values) };
}

const BOXES = floats([1, 3, 4], 0, 0, 1, 1, 0, 0, 0.5, 0.5, 0, 0, 0, 0);
const ZEROS = floats([1, 3], 0, 0, 0);
const SCORES = floats([1, 3], 0.9, 0.4, 0);
const CLASSES = floats([1, 3], 2, 0, 0);
const ANCHORS = floats([1, 3], 1403, 77, 912);
const NONE: ReadonlyMap<string, string> = new Map();

/** The names of the boxes, classes and scores, and whether they were guessed. */
function found(outputs: Tensors, remapped = NONE, order = Object.keys(outputs)) {
  const names = detectorNames(outputs, order, remapped);
  return names && [names.location, names.category, names.score, names.isGuessed];
}

Deno.test("detectorNames: published and remapped names count first", () => {
  const published = { score: ZEROS, category: SCORES, location: BOXES };
  assertEquals(found(published), ["location", "category", "score", false]);
  const remapped = new Map([["location", "a"], ["category", "c"], ["score", "b"]]);
  assertEquals(found({ a: BOXES, b: ZEROS, c: ZEROS }, remapped), ["a", "c", "b", false]);
});

Deno.test("detectorNames: the numbers belong to the boxes, also to a single one, and to none", () => {
  const [none, one] = [floats([1, 0, 4]), floats([1, 1, 4], 0, 0, 1, 1)];
  const named = ["location", "category", "score", false];
  const single = { location: one, category: floats([1, 1], 2), score: floats([1, 1], 0.9) };
  assertEquals(found(single), named);
  assertEquals(found({ location: none, category: floats([1, 0]), score: floats([1, 0]) }), named);
});

Deno.test("detectorNames: usual names of exports count, also where all classes are 0", () => {
  assertEquals(found({ boxes: BOXES, classes: ZEROS, scores: SCORES }), [
    "boxes",
    "classes",
    "scores",
    false,
  ]);
  assertEquals(found({ scores: ZEROS, labels: ZEROS, bboxes: BOXES }), ["bboxes", "labels", "scores", false]);
  assertEquals(found({ "model/boxes:0": BOXES, "model/class_ids:0": ZEROS, "model/confidence:0": SCORES }), [
    "model/boxes:0",
    "model/class_ids:0",
    "model/confidence:0",
    false,
  ]);
  const tf2 = {
    detection_anchor_indices: ANCHORS,
    detection_boxes: BOXES,
    detection_classes: ZEROS,
    detection_multiclass_scores: floats([1, 3, 2], 0.1, 0.9, 0.6, 0.4, 1, 0),
    detection_scores: SCORES,
    num_detections: floats([1], 3),
    raw_detection_boxes: BOXES,
    raw_detection_scores: floats([1, 3, 2], 0, 0, 0, 0, 0, 0),
  };
  assertEquals(found(tf2), ["detection_boxes", "detection_classes", "detection_scores", false]);
  const { detection_classes: _classes, detection_scores: _scores, ...without } = tf2;
  assertEquals(found(without), undefined);
});

Deno.test("detectorNames: boxes without a batch count beside lists of classes and confidences", () => {
  const named = ["boxes", "labels", "scores", false];
  const boxes = floats([2, 4], 0, 0, 8, 8, 2, 2, 4, 4);
  const labels = { shape: [2], data: BigInt64Array.of(1n, 18n) };
  const scores = floats([2], 0.9, 0.4);
  assertEquals(found({ boxes, labels, scores }), named, "as torchvision exports them");
  const none = { boxes: floats([0, 4]), labels: floats([0]), scores: floats([0]) };
  assertEquals(found(none), named, "nothing found in the picture");
  const masks = floats([2, 1, 2, 2], 0, 0, 0, 0, 0, 0, 0, 0);
  assertEquals(found({ boxes, labels, scores, masks }), named, "with masks");
  assertEquals(found({ box: floats([1, 4], 0, 0, 1, 1), probability: floats([1, 3], 0, 1, 0) }), undefined);
});

Deno.test("detectorNames: the content decides where names say nothing", () => {
  assertEquals(found({ a: SCORES, b: CLASSES, c: BOXES }), ["c", "b", "a", true]);
  assertEquals(found({ a: ZEROS, b: SCORES, c: BOXES }), ["c", "a", "b", true]);
  assertEquals(found({ a: ANCHORS, b: BOXES, c: ZEROS, d: SCORES, e: floats([1], 3) }), [
    "b",
    "c",
    "d",
    true,
  ]);
  assertEquals(found({ a: CLASSES, b: BOXES, c: ZEROS }), ["b", "a", "c", true]);
  assertEquals(found({ a: BOXES, b: ZEROS }), ["a", undefined, "b", true]);
  assertEquals(found({ a: BOXES, b: floats([1, 3, 2], 0, 1, 0, 0, 1, 0) }), ["a", undefined, "b", true]);
  assertEquals(found({ a: BOXES }), undefined);
  assertEquals(found({ a: floats([1, 2], 0.5, 0.5) }), undefined);
});

Deno.test("detectorNames: two classes that differ are classes, three numbers beyond their count are indices", () => {
  const two = { a: floats([1, 2, 4], 0, 0, 1, 1, 0, 0, 0.5, 0.5), b: floats([1, 2], 0.9, 0.4) };
  assertEquals(found({ ...two, c: floats([1, 2], 2, 0), d: floats([1, 2], 200_000, 77) }), [
    "a",
    "c",
    "b",
    true,
  ]);
  const three = { a: BOXES, b: SCORES, c: CLASSES };
  assertEquals(found({ ...three, d: floats([1, 3], 3, 0, 1) }), ["a", "c", "b", true]);
});

Deno.test("detectorNames: an output that could be two things is asked about", () => {
  const remap = "wanted remap_output_names to say which output is location, category and score";
  const cases: [Tensors, string][] = [
    [
      { a: BOXES, b: SCORES, c: SCORES },
      `the outputs "b" [1, 3] and "c" [1, 3] could each be the confidences: ${remap}`,
    ],
    [{ a: BOXES, b: ZEROS, c: ZEROS }, "could each be the classes or the confidences"],
    [{ a: BOXES, b: SCORES, c: ZEROS, d: CLASSES }, '"c" [1, 3] and "d" [1, 3] could each be the classes'],
  ];
  for (const [outputs, logged] of cases) {
    const { code } = assertThrows(() => found(outputs), SvcError, logged);
    assertEquals(code, "failed_precondition");
  }
});

Deno.test("foundIn: a confidence above 1 shows that a guess was wrong", () => {
  const names = detectorNames({ a: SCORES, b: CLASSES, c: BOXES }, ["a", "b", "c"], NONE)!;
  const form = { order: [1, 0, 3, 2], width: 10, height: 10 };
  const later = { a: floats([1, 3], 7, 0, 0), b: CLASSES, c: BOXES };
  assertThrows(
    () => foundIn(later, names, form),
    SvcError,
    'output "a" was taken for the confidences and has 7',
  );
  assertEquals(foundIn(later, { ...names, isGuessed: false }, form)[0].confidence, 1);
});

Deno.test("joinedForm: rows of boxes, confidences and classes by their width and what they hold", () => {
  const six = [1, 2, 11, 12, 0.9, 3], seven = [0, 1, 2, 11, 12, 3, 0.9], five = [1, 2, 11, 12, 0.9];
  const empty = Array(6).fill(0);
  const two = floats([1, 2, 6], ...six, ...empty);
  const parts = { location: [1, 2, 11, 12], score: [0.9], category: [3] };
  const separate = (outputs: Tensors) => {
    const form = joinedForm(outputs);
    if (!form) return undefined;
    const { location, score, category } = separated(outputs, form);
    const [rows] = score!.shape.slice(1);
    assertEquals([location!.shape, score!.shape, category!.shape], [[1, rows, 4], [1, rows], [1, rows]]);
    const all = { location, score, category };
    return Object.fromEntries(
      Object.entries(all).map(([name, tensor]) => [
        name,
        Array.from(tensor!.data as Float32Array, (one) => Number(one.toFixed(3))),
      ]),
    );
  };
  assertEquals(separate({ out: floats([1, 1, 6], ...six) }), parts, "6 numbers");
  assertEquals(separate({ out: floats([1, 6], ...six) }), parts, "without a batch");
  assertEquals(separate({ out: floats([1, 7], ...seven) }), parts, "7 numbers, the picture's first");
  const pair = { dets: floats([1, 1, 5], ...five), labels: floats([1, 1], 3) };
  assertEquals(separate(pair), parts, "5 numbers beside the classes");
  assertEquals(separate({ out: two })?.score, [0.9, 0], "a row without confidence fills the tensor");

  const row = (...numbers: number[]) => ({ out: floats([1, 1, numbers.length], ...numbers) });
  const others: Record<string, Tensors> = {
    "a side left of the other one": row(11, 2, 1, 12, 0.9, 3),
    "a lower edge above the upper one": row(1, 12, 11, 2, 0.9, 3),
    "a confidence above 1": row(1, 2, 11, 12, 1.5, 3),
    "a negative confidence": row(1, 2, 11, 12, -0.5, 3),
    "a class with a fraction": row(1, 2, 11, 12, 0.9, 2.5),
    "a negative class": row(1, 2, 11, 12, 0.9, -1),
    "another width": row(1, 2, 11, 12, 0.9, 3, 0, 0),
    "two pictures": { out: floats([2, 1, 6], ...six, ...six) },
    "a single row without a list of rows": { out: floats([6], ...six) },
    "too many rows": { out: floats([1, 2_001, 6]) },
    "5 numbers without classes": row(...five),
    "5 numbers beside an output of another name": { dets: pair.dets, other: pair.labels },
    "5 numbers beside classes of another count": { dets: pair.dets, labels: floats([1, 2], 3, 3) },
    "5 numbers beside two more": { ...pair, more: floats([1], 0) },
    "6 numbers beside another output": { out: floats([1, 6], ...six), other: floats([1], 0) },
  };
  for (const [what, outputs] of Object.entries(others)) assertEquals(separate(outputs), undefined, what);
});

Deno.test("separated: rows of another form are refused with the first of them", () => {
  const good = { out: floats([1, 1, 6], 1, 2, 11, 12, 0.9, 3) };
  const form = joinedForm(good)!;
  const bad = { out: floats([1, 2, 6], ...Array(6).fill(0), 5, 2, 1, 12, 0.25, 3) };
  const row = 'output "out" has the row 5, 2, 1, 12, 0.25, 3, wanted x_min, y_min, x_max, y_max';
  assertEquals(assertThrows(() => separated(bad, form), SvcError, row).code, "failed_precondition");
  const wide = { out: floats([1, 1, 7], 0, 0, 0, 0, 0, 0, 0) };
  for (const outputs of [wide, {}]) {
    assertThrows(() => separated(outputs, form), SvcError, 'output "out" has not 6 numbers for each box');
  }
});
