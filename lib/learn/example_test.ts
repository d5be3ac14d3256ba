import { assert, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { type Example, EXAMPLES_MIN, samplesOf, split, type TrainingTask } from "./example.ts";
import { drawExamples, EXAMPLE_LABELS, exampleImages } from "./example_scene.ts";

const TASK: TrainingTask = { kind: "object_detection", labels: EXAMPLE_LABELS, seed: 1 };
const EXAMPLES = exampleImages(40, 1);

function refused(task: TrainingTask, examples: readonly Example[]): string {
  const { code, message } = assertThrows(() => samplesOf(task, examples), SvcError);
  return `${code}: ${message}`;
}

function withFirst(change: Partial<Example>): Example[] {
  return [{ ...EXAMPLES[0], ...change }, ...EXAMPLES.slice(1)];
}

Deno.test("samplesOf: refuses unusable examples with the picture and the problem", () => {
  assertEquals(
    refused(TASK, []),
    `failed_precondition: Cannot train: there are 0 pictures, wanted ${EXAMPLES_MIN} to 5000`,
  );
  assertEquals(
    refused(TASK, withFirst({ width: 3, height: 3, rgb: new Uint8Array(9) })),
    "invalid_argument: Cannot train: picture 1 is 3 x 3 with 9 bytes, wanted three bytes for each pixel",
  );
  const box = { label: "ball", xMin: 0.5, yMin: 0.1, xMax: 1.25, yMax: 0.2 };
  assertEquals(
    refused(TASK, withFirst({ boxes: [box] })),
    "invalid_argument: Cannot train: picture 1 has a box ball from 0.5, 0.1 to 1.25, 0.2, " +
      "wanted sides from 0 to 1 and the lower one first",
  );
  assertEquals(
    refused({ ...TASK, labels: ["ball", "dog"] }, EXAMPLES).replace(/ball \d+/, "ball n"),
    "failed_precondition: Cannot train: there is no picture with a box labelled dog (ball n, dog 0)",
  );
  assertEquals(
    refused({ ...TASK, kind: "single_label_classification" }, withFirst({ labels: ["ball", "cone"] })),
    "invalid_argument: Cannot train: picture 1 has cone and ball of the labels, wanted exactly one",
  );
  assertEquals(
    refused({ ...TASK, labels: ["ball", "ball"] }, EXAMPLES),
    "invalid_argument: Cannot train: the label ball is given twice",
  );
  assertEquals(
    refused({ ...TASK, side: 100 }, EXAMPLES),
    "invalid_argument: Cannot train: the side is 100, wanted a multiple of 16 up to 128",
  );
});

Deno.test("samplesOf: ignores labels that were not requested", () => {
  const samples = samplesOf({ ...TASK, labels: ["box"] }, withFirst({ boxes: [] }));
  assertEquals(samples.every(({ boxes }) => boxes.every(({ label }) => label === 0)), true);
});

Deno.test("split: holds back a fifth in any order and keeps equal pictures together", () => {
  const samples = samplesOf(TASK, [...EXAMPLES, ...EXAMPLES]);
  const { learned, heldBack } = split(TASK, samples);
  assertEquals([learned.length, heldBack.length], [64, 16]);
  const pictures = new Set(learned.map(({ rgb }) => rgb.join()));
  assertEquals(heldBack.filter(({ rgb }) => pictures.has(rgb.join())), []);
  assertEquals(split(TASK, samples.toReversed()), { learned, heldBack });
});

Deno.test("split: holds back holdoutPercent, and at least a picture", () => {
  const samples = samplesOf({ ...TASK, labels: ["ball"] }, EXAMPLES);
  for (const percent of [5, 10, 20, 25, 33, 50]) {
    const task = { ...TASK, holdoutPercent: percent };
    const { learned, heldBack } = split(task, samples);
    assertEquals([heldBack.length, learned.length + heldBack.length], [Math.round(0.4 * percent), 40]);
    const few = split(task, samples.slice(0, EXAMPLES_MIN));
    assertEquals([few.heldBack.length > 0, few.learned.length > 0], [true, true], `${percent} %`);
  }
  assertEquals(split({ ...TASK, holdoutPercent: 20 }, samples), split(TASK, samples));
});

Deno.test("samplesOf: refuses epochs, seed and holdout_percent beyond their limits", () => {
  const logged = (request: Partial<TrainingTask>) =>
    refused({ ...TASK, ...request }, EXAMPLES).split("invalid_argument: ")[1];
  assertEquals(logged({ epochsMax: 501 }), "epochs: found 501, wanted a whole number from 1 to 500");
  assertEquals(logged({ seed: -1 }), "seed: found -1, wanted a whole number from 0 to 4294967295");
  assertEquals(logged({ seed: 0.5 }), "seed: found 0.5, wanted a whole number from 0 to 4294967295");
  assertEquals(logged({ holdoutPercent: 4 }), "holdout_percent: found 4, wanted a whole number from 5 to 50");
});

Deno.test("split: refuses to hold back copies of a single picture", () => {
  const samples = samplesOf(
    { ...TASK, labels: ["box"] },
    Array(20).fill(EXAMPLES.find(({ labels }) => labels.includes("box"))),
  );
  assertThrows(
    () => split(TASK, samples),
    SvcError,
    "of 20 pictures only 1 differ, too few to hold back 20 %",
  );
});

Deno.test("exampleImages: a seed always gives the same pictures, with boxes inside them", () => {
  const again = exampleImages(40, 1);
  assertEquals(again, EXAMPLES);
  assertEquals(again[0].rgb.join() === exampleImages(1, 2)[0].rgb.join(), false);
  const counts = new Set(again.map(({ boxes }) => boxes.length));
  assertEquals([...counts].sort(), [0, 1, 2, 3, 4]);
  for (const { xMin, yMin, xMax, yMax } of again.flatMap(({ boxes }) => boxes)) {
    assertEquals(0 <= xMin && xMin < xMax && xMax <= 1 && 0 <= yMin && yMin < yMax && yMax <= 1, true);
  }
});

Deno.test("exampleImages: bright places stay bright, whatever noise is added", () => {
  let bright = 0;
  for (const { width, rgb } of EXAMPLES) {
    for (let at = 3; at < rgb.length - 3; at++) {
      if (at % (3 * width) < 3 || at % (3 * width) >= 3 * width - 3) continue;
      if (Math.min(rgb[at - 3], rgb[at + 3]) < 230) continue;
      bright++;
      assert(rgb[at] > 20, `${rgb[at]} between ${rgb[at - 3]} and ${rgb[at + 3]}`);
    }
  }
  assert(bright > 1000, `${bright} bright places`);
});

Deno.test("drawExamples: draws a picture when it is asked for, and no other", () => {
  const { value: first } = drawExamples(1e9, 1).next();
  assertEquals(first.rgb, EXAMPLES[0].rgb);
});
