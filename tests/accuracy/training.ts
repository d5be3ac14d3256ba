/**
 * `deno task accuracy:training [pictures]`: how well the trainer learns from generated pictures (240 by default), and
 * how long it takes. The detector is measured on its held-back pictures and, through ONNX Runtime, on as many new ones;
 * exits with 1 below `PRECISION_MIN` or past `MINUTES_MAX`. The time is processor time divided by two cores: the
 * duration on a quiet computer.
 */

import process from "node:process";
import { detectionMetrics } from "../../lib/learn/detector.ts";
import type { Example, TaskKind } from "../../lib/learn/example.ts";
import { samplesOf } from "../../lib/learn/example.ts";
import { EXAMPLE_LABELS, exampleImages } from "../../lib/learn/example_scene.ts";
import type { ModelOutputs } from "../../lib/learn/learner.ts";
import { openOnnx } from "../../lib/learn/onnx/session.ts";
import { square } from "../../lib/learn/picture.ts";
import { type TrainedModel, trainInWorker } from "../../lib/learn/trainer.ts";

const PICTURES = 240;
const PRECISION_MIN = 0.85;
const MINUTES_MAX = 4;
const CORES = 2;
const SEED = 1;
const SHOWN_EVERY = 10;

const count = Number(Deno.args[0] ?? PICTURES);
const fresh = exampleImages(count, SEED + 1);

const detector = await train("object_detection", exampleImages(count, SEED));
const heldBack = detector.model.metrics["mAP@0.5"];
const unseen = (await measured(detector.model, fresh))["mAP@0.5"];
console.log(
  `mAP@0.5 on held-back pictures ${heldBack.toFixed(3)}, on ${count} new ones ${unseen.toFixed(3)}`,
);
const passed = heldBack >= PRECISION_MIN && detector.minutes <= MINUTES_MAX;
console.log(passed ? "passed" : `failed: wanted ${PRECISION_MIN} within ${MINUTES_MAX} minutes`);

await train("multi_label_classification", exampleImages(count, SEED));
await train(
  "single_label_classification",
  exampleImages(count, SEED, { things: [1, 1], radii: [18, 45] }),
);
Deno.exitCode = passed ? 0 : 1;

async function train(kind: TaskKind, examples: readonly Example[]) {
  const startMs = performance.now();
  const before = process.cpuUsage();
  console.log(`${kind}: ${examples.length} pictures`);
  const model = await trainInWorker({ kind, labels: EXAMPLE_LABELS, seed: SEED }, examples, {
    onProgress: ({ epoch, epochs, loss, validationLoss, metrics }) => {
      if (epoch !== 1 && epoch % SHOWN_EVERY !== 0) return;
      const seconds = ((performance.now() - startMs) / 1000).toFixed(0);
      const losses = `loss ${loss.toFixed(3)}, held back ${validationLoss.toFixed(3)}`;
      console.log(`  ${seconds} s: round ${epoch} of ${epochs}: ${losses}, ${text(metrics)}`);
    },
  });
  const { user, system } = process.cpuUsage(before);
  const minutes = (user + system) / 60e6 / CORES;
  const passedMinutes = (performance.now() - startMs) / 60_000;
  const times = `${minutes.toFixed(2)} minutes of ${CORES} cores in ${passedMinutes.toFixed(2)}`;
  console.log(`  ${times}, ${model.epochs} rounds: ${text(model.metrics)}`);
  return { model, minutes };
}

async function measured({ onnx, labels }: TrainedModel, examples: readonly Example[]) {
  const samples = samplesOf({ kind: "object_detection", labels, seed: SEED }, examples);
  const session = await openOnnx(onnx);
  try {
    const { shape } = session.inputs[0];
    const answers: ModelOutputs[] = [];
    for (const sample of samples) {
      const data = square(sample, shape[1]);
      const { location, category, score } = await session.run({ image: { type: "uint8", shape, data } });
      const [places, kinds, scores] = [location, category, score].map((one) => one.data as Float32Array);
      answers.push({ location: places, category: kinds, score: scores });
    }
    return detectionMetrics(labels, answers, samples);
  } finally {
    await session.close();
  }
}

function text(metrics: { readonly [name: string]: number }): string {
  return Object.entries(metrics).map(([name, value]) => `${name} ${value.toFixed(3)}`).join(", ");
}
