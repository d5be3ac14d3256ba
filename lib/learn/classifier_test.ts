import { assertAlmostEquals, assertEquals } from "@std/assert";
import { randomFrom } from "../geometry/random.ts";
import { Classifier } from "./classifier.ts";

function answer(...probability: number[]) {
  return { probability: Float32Array.from(probability) };
}

function target(...labels: number[]) {
  return { labels, boxes: [] };
}

Deno.test("Classifier: for a single label, each confusion row counts predicted labels", () => {
  const classifier = new Classifier(true, 3, [], 4, 16, randomFrom(1));
  const answers = [answer(0.8, 0.1, 0.1), answer(0.2, 0.7, 0.1), answer(0, 0.9, 0.1), answer(0.5, 0.3, 0.2)];
  const targets = [target(0), target(0), target(1), target(2)];
  assertEquals(classifier.confusion(answers, targets), [
    { pictures: 2, foundAs: [1, 1, 0], wrong: 1 },
    { pictures: 1, foundAs: [0, 1, 0], wrong: 1 },
    { pictures: 1, foundAs: [1, 0, 0], wrong: 0 },
  ]);
  assertEquals(classifier.metrics(answers, targets), { accuracy: 0.5, "macro F1": (2 / 4 + 2 / 3 + 0) / 3 });
});

Deno.test("Classifier: answers that know nothing have the loss of even chances", () => {
  const several = new Classifier(false, 2, [target(0, 1), target()], 4, 16, randomFrom(1));
  assertAlmostEquals(several.loss([target(0), target()]), 2 * Math.LN2, 1e-6);
  const one = new Classifier(true, 2, [target(0), target(1)], 4, 16, randomFrom(1));
  assertAlmostEquals(one.loss([target(0), target(1)]), Math.LN2, 1e-6);
});

Deno.test("Classifier: for several labels, each confusion row counts found, missed and wrong labels", () => {
  const classifier = new Classifier(false, 2, [], 4, 16, randomFrom(1));
  const answers = [answer(0.8, 0.9), answer(0.2, 0.7), answer(0.9, 0.1), answer(0.1, 0.2)];
  const targets = [target(0, 1), target(0), target(), target(1)];
  assertEquals(classifier.confusion(answers, targets), [
    { pictures: 2, foundAs: [1, 0], wrong: 1 },
    { pictures: 2, foundAs: [0, 1], wrong: 1 },
  ]);
  assertEquals(classifier.metrics(answers, targets), { "macro F1": 0.5, accuracy: 0.5 });
});
