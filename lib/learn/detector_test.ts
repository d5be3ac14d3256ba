import { assertAlmostEquals, assertEquals } from "@std/assert";
import { randomFrom } from "../geometry/random.ts";
import { detectionDifference, detectionMetrics, Detector } from "./detector.ts";
import type { ExpectedFindings, ModelOutputs } from "./learner.ts";

type Row = readonly [label: number, score: number, xMin: number, yMin: number, xMax: number, yMax: number];

function answerOf(rows: readonly Row[]): ModelOutputs {
  return {
    location: new Float32Array(rows.flatMap(([, , xMin, yMin, xMax, yMax]) => [yMin, xMin, yMax, xMax])),
    category: new Float32Array(rows.map(([label]) => label)),
    score: new Float32Array(rows.map(([, score]) => score)),
  };
}

function targetOf(...rows: readonly Row[]): ExpectedFindings {
  return {
    labels: [],
    boxes: rows.map(([label, , xMin, yMin, xMax, yMax]) => ({ label, xMin, yMin, xMax, yMax })),
  };
}

const LEFT = [0, 0.1, 0.5, 0.5] as const;
const RIGHT = [0.5, 0.1, 1, 0.5] as const;

function detector(labels: readonly string[]): Detector {
  return new Detector(labels, [targetOf([0, 1, ...LEFT])], 4, 32, randomFrom(1));
}

Deno.test("detectionMetrics: averages precision over recall for each label", () => {
  const targets = [targetOf([0, 1, ...LEFT], [0, 1, ...RIGHT]), targetOf([0, 1, ...LEFT])];
  const answers = [
    answerOf([[0, 0.9, ...LEFT], [0, 0.3, ...RIGHT]]),
    // A false box between the two right ones, and a duplicate.
    answerOf([[0, 0.8, 0.6, 0.6, 0.9, 0.9], [0, 0.7, ...LEFT], [0, 0.6, ...LEFT]]),
  ];
  const metrics = detectionMetrics(["cone", "ball"], answers, targets);
  // Recall 1/3 at precision 1, 2/3 at 2/3, 1 at 3/5.
  const expected = (1 + 2 / 3 + 3 / 5) / 3;
  assertEquals(Object.keys(metrics), ["mAP@0.5", "AP@0.5 cone"]);
  assertAlmostEquals(metrics["mAP@0.5"], expected, 1e-9);
});

Deno.test("detectionMetrics: a box with low overlap or another label is wrong", () => {
  const targets = [targetOf([0, 1, ...LEFT], [1, 1, ...RIGHT])];
  const answers = [answerOf([[0, 0.9, 0.25, 0.1, 0.75, 0.5], [0, 0.8, ...RIGHT]])];
  const metrics = detectionMetrics(["cone", "ball"], answers, targets);
  assertEquals(metrics, { "mAP@0.5": 0, "AP@0.5 cone": 0, "AP@0.5 ball": 0 });
});

Deno.test("detectionDifference: is the largest difference, whatever the order", () => {
  const rows: Row[] = [[0, 0.9, ...LEFT], [1, 0.8, ...RIGHT]];
  assertEquals(detectionDifference(answerOf(rows), answerOf(rows.toReversed())), 0);
  const moved = answerOf([rows[1], [0, 0.9, 0, 0.125, 0.5, 0.5]]);
  assertAlmostEquals(detectionDifference(answerOf(rows), moved), 0.025, 1e-6);
  assertEquals(detectionDifference(answerOf(rows), answerOf([rows[0]])), 1);
});

Deno.test("Detector: the loss decreases along its gradient", () => {
  const subject = detector(["cone", "ball"]);
  const { network } = subject;
  const random = randomFrom(9);
  network.picture.data.forEach((_, at) => network.picture.data[at] = at % 4 === 3 ? 0 : 2 * random() - 1);
  const targets = [
    targetOf([0, 1, ...LEFT], [1, 1, ...RIGHT]),
    targetOf(),
    targetOf([1, 1, 0.3, 0.2, 0.4, 0.9]),
    targetOf([0, 1, 0, 0, 1, 1]),
  ];
  network.forward();
  const before = subject.loss(targets);
  network.backward();
  const parameters = network.parameters();
  const step = 1e-4;
  const slope = parameters.reduce(
    (sum, { gradient }) => gradient.reduce((total, value) => total + value * value, sum),
    0,
  );
  for (const { value, gradient } of parameters) value.forEach((_, at) => value[at] -= step * gradient[at]);
  network.forward();
  const fallen = before - subject.loss(targets);
  assertAlmostEquals(fallen / (step * slope), 1, 0.1);
});
