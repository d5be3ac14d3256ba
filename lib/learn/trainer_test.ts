import { assert, assertEquals, assertGreater, assertRejects } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { randomFrom } from "../geometry/random.ts";
import type { Example, LabelledBox, TrainingTask } from "./example.ts";
import { until } from "../../tests/support/until.ts";
import { openOnnx } from "./onnx/session.ts";
import { type Progress, type TrainedModel, trainInWorker } from "./trainer.ts";
import { training } from "./training.ts";
import { samplesOf } from "./example.ts";

const [WIDTH, HEIGHT] = [48, 32];
const COLORS = { plum: [130, 40, 150], lime: [170, 220, 40] } as const;
type Fruit = keyof typeof COLORS;
const FRUITS = Object.keys(COLORS) as Fruit[];

/** Discs of two colours in each picture before a noisy background: easy to learn within seconds. */
function examples(count: number, seed: number, fewest: number, most: number): Example[] {
  const random = randomFrom(seed);
  return Array.from({ length: count }, () => {
    const ground = 60 + 90 * random();
    const rgb = Uint8Array.from({ length: 3 * WIDTH * HEIGHT }, () => ground + 30 * random());
    const boxes: LabelledBox[] = [];
    const wanted = fewest + Math.floor(random() * (most - fewest + 1));
    while (boxes.length < wanted) {
      const label = FRUITS[Math.floor(random() * 2)];
      const radius = 5 + Math.floor(random() * 4);
      // One disc in each half, so that none hides another.
      const x = boxes.length * WIDTH / 2 + radius + Math.floor(random() * (WIDTH / 2 - 2 * radius));
      const y = radius + Math.floor(random() * (HEIGHT - 2 * radius));
      for (let place = 0; place < WIDTH * HEIGHT; place++) {
        const [dx, dy] = [place % WIDTH + 0.5 - x, Math.floor(place / WIDTH) + 0.5 - y];
        if (dx * dx + dy * dy < radius * radius) rgb.set(COLORS[label], 3 * place);
      }
      const [xMin, xMax, yMin, yMax] = [x - radius, x + radius, y - radius, y + radius];
      boxes.push({
        label,
        xMin: xMin / WIDTH,
        yMin: yMin / HEIGHT,
        xMax: xMax / WIDTH,
        yMax: yMax / HEIGHT,
      });
    }
    return { width: WIDTH, height: HEIGHT, rgb, labels: boxes.map(({ label }) => label), boxes };
  });
}

async function trained(task: TrainingTask, pictures: readonly Example[]) {
  const progress: Progress[] = [];
  const model = await trainInWorker(task, pictures, { onProgress: (one) => progress.push(one) });
  assertEquals(progress.map(({ epoch }) => epoch), progress.map((_, index) => index + 1));
  assertEquals(progress.length, model.epochs);
  assertGreater(progress[0].loss, 2 * progress.at(-1)!.loss);
  assertGreater(progress.at(-1)!.loss, 0);
  return model;
}

/** Outputs of a trained model for a picture of its own input size. */
async function outputsOf({ onnx }: TrainedModel, { rgb }: Example) {
  const session = await openOnnx(onnx, { threads: 1 });
  try {
    const { shape, type } = session.inputs[0];
    assertEquals({ type, pixels: shape.slice(1) }, { type: "uint8", pixels: [32, 32, 3] });
    const data = new Uint8Array(3 * 32 * 32);
    for (let y = 0; y < 32; y++) data.set(rgb.subarray(3 * WIDTH * y, 3 * WIDTH * y + 96), 96 * y);
    return await session.run({ image: { type: "uint8", shape, data } });
  } finally {
    await session.close();
  }
}

Deno.test("trainer: a single-label classifier learns two kinds of pictures", async () => {
  const task = {
    kind: "single_label_classification",
    labels: FRUITS,
    seed: 1,
    epochsMax: 12,
    side: 32,
  } as const;
  const model = await trained(task, examples(60, 1, 1, 1));
  assertEquals(Object.keys(model.metrics), ["accuracy", "macro F1"]);
  assertGreater(model.metrics.accuracy, 0.9);
  const held = model.confusion.reduce((sum, { pictures }) => sum + pictures, 0);
  const right = model.confusion.reduce((sum, { foundAs }, label) => sum + foundAs[label], 0);
  assertEquals([held, right / held], [12, model.metrics.accuracy]);
  const [picture] = examples(1, 5, 1, 1);
  const { probability } = await outputsOf(model, picture);
  assertEquals(probability.shape, [1, 2]);
  const values = [...probability.data as Float32Array];
  assertEquals(FRUITS[values[0] > values[1] ? 0 : 1], picture.labels[0]);
});

Deno.test("trainer: a multi-label classifier learns none, either or both labels", async () => {
  const task = {
    kind: "multi_label_classification",
    labels: FRUITS,
    seed: 1,
    epochsMax: 16,
    side: 32,
  } as const;
  const model = await trained(task, examples(80, 2, 0, 2));
  assertGreater(model.metrics["macro F1"], 0.9);
  assertGreater(model.metrics.accuracy, 0.9);
});

Deno.test("trainer: a detector learns the places of two kinds of objects", async () => {
  const task = { kind: "object_detection", labels: FRUITS, seed: 1, epochsMax: 25, side: 32 } as const;
  const model = await trained(task, examples(80, 3, 0, 2));
  assertGreater(model.metrics["mAP@0.5"], 0.8);
  assertEquals(Object.keys(model.metrics), ["mAP@0.5", "AP@0.5 plum", "AP@0.5 lime"]);
  const outputs = await outputsOf(model, examples(1, 8, 1, 1)[0]);
  const shapes = Object.entries(outputs).map(([name, { shape }]) => [name, ...shape]);
  assertEquals(shapes, [["location", 1, 50, 4], ["category", 1, 50], ["score", 1, 50]]);
  const [scores, places] = [outputs.score.data, outputs.location.data] as Float32Array[];
  assertGreater(scores[0], 0.3);
  assert(scores.every((score, index) => index === 0 || score <= scores[index - 1]), "best first");
  assert(places.every((side) => side >= 0 && side <= 1));
});

Deno.test("trainer: the same seed and pictures in any order give the same bytes", async () => {
  const task = { kind: "object_detection", labels: FRUITS, seed: 7, epochsMax: 2, side: 16 } as const;
  const pictures = examples(20, 4, 0, 2);
  const { onnx } = await trainInWorker(task, pictures);
  assertEquals((await trainInWorker(task, pictures.toReversed())).onnx, onnx);
  const other = await trainInWorker({ ...task, seed: 8 }, pictures);
  assert(other.onnx.some((byte, index) => byte !== onnx[index]));
  const half = await trainInWorker({ ...task, holdoutPercent: 50 }, pictures);
  assert(half.onnx.some((byte, index) => byte !== onnx[index]));
});

Deno.test("trainInWorker: can be canceled before and during a training", async () => {
  const task = {
    kind: "multi_label_classification",
    labels: FRUITS,
    seed: 1,
    epochsMax: 100,
    side: 16,
  } as const;
  const pictures = examples(20, 4, 0, 2);
  const controller = new AbortController();
  const options = { signal: controller.signal, onProgress: () => controller.abort() };
  const { code } = await assertRejects(() => trainInWorker(task, pictures, options), SvcError);
  assertEquals(code, "canceled");
  await assertRejects(() => trainInWorker(task, pictures, options), SvcError, "The training was canceled");
});

for (const kind of ["multi_label_classification", "object_detection"] as const) {
  Deno.test(`trainInWorker: its threads have ended soon after a cancellation or an error: ${kind}`, async () => {
    const before = workerThreads();
    const task = { kind, labels: FRUITS, seed: 1, epochsMax: 500 } as const;
    const pictures = examples(20, 4, 1, 2);
    const controller = new AbortController();
    const onProgress = () => controller.abort();
    const canceled = { signal: controller.signal, onProgress };
    await assertRejects(() => trainInWorker(task, pictures, canceled), SvcError, "canceled");
    await until(() => workerThreads() <= before, { found: workerThreads });
    const failing = () => {
      throw new SvcError("aborted", "enough");
    };
    await assertRejects(() => trainInWorker(task, pictures, { onProgress: failing }), SvcError, "enough");
    await until(() => workerThreads() <= before, { found: workerThreads });
  });
}

/** The threads of this process that run workers. */
function workerThreads(): number {
  const names = Array.from(Deno.readDirSync("/proc/self/task"), ({ name }) => {
    return Deno.readTextFileSync(`/proc/self/task/${name}/comm`);
  });
  return names.filter((name) => name.startsWith("worker-")).length;
}

Deno.test("trainInWorker: refuses unusable pictures, and an error in onProgress ends it", async () => {
  const task = { kind: "object_detection", labels: FRUITS, seed: 1, epochsMax: 2, side: 16 } as const;
  await assertRejects(() => trainInWorker(task, examples(5, 4, 0, 2)), SvcError, "there are 5 pictures");
  const onProgress = () => {
    throw new SvcError("aborted", "enough");
  };
  await assertRejects(() => trainInWorker(task, examples(20, 4, 1, 2), { onProgress }), SvcError, "enough");
});

Deno.test("training: stops without improvement and returns the best weights", () => {
  const task = {
    kind: "single_label_classification",
    labels: FRUITS,
    seed: 1,
    epochsMax: 20,
    side: 16,
  } as const;
  // Labels that are unrelated to the pictures.
  const pictures = examples(30, 6, 1, 1).map((one, index) => ({ ...one, labels: [FRUITS[index % 2]] }));
  const accuracies: number[] = [];
  const steps = training(task, samplesOf(task, pictures));
  let step = steps.next();
  for (; !step.done; step = steps.next()) accuracies.push(step.value.metrics.accuracy);
  const best = accuracies.indexOf(Math.max(...accuracies));
  // Half of the rounds pass without a better metric.
  assertEquals(accuracies.length, Math.min(20, best + 1 + 10));
  assertEquals(step.value?.epochs, accuracies.length);
});

Deno.test("training: stops soon after the metric is perfect", () => {
  const task: TrainingTask = {
    kind: "single_label_classification",
    labels: FRUITS,
    seed: 1,
    epochsMax: 60,
    side: 16,
  };
  const all: Progress[] = [];
  for (const progress of training(task, samplesOf(task, examples(40, 1, 1, 1)))) all.push(progress);
  const perfect = all.find(({ metrics }) => metrics.accuracy === 1);
  assert(perfect, "nothing was learned");
  assertEquals(all.length, perfect.epoch + 8);
  assertGreater(60, all.length);
});
