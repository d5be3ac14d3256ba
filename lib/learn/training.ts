/**
 * One training, from its pictures to a model: goes through varied pictures in rounds, measures on the
 * held-back pictures, and keeps the best weights.
 *
 * Owns the schedule. Deterministic: uses no time and no randomness except the seed's, and the order of the
 * pictures does not matter.
 */

import { randomFrom } from "../geometry/random.ts";
import { Classifier } from "./classifier.ts";
import { detectionDifference, Detector } from "./detector.ts";
import { type Sample, split, type TaskKind, type TrainingTask } from "./example.ts";
import {
  type ConfusionRow,
  type Learner,
  type ModelOutputs,
  onnxOf,
  outputNamed,
  type QualityMetrics,
} from "./learner.ts";
import { Adam } from "./network.ts";
import { soleSlot, Team, type TeamSlot } from "./team.ts";
import { boxesIn, drawView, square, variedView, WHOLE } from "./picture.ts";

export interface Progress {
  /** Completed rounds, from 1, and the limit of rounds. */
  readonly epoch: number;
  readonly epochs: number;
  readonly loss: number;
  readonly validationLoss: number;
  /** Measured on the held-back pictures; the first metric decides which model is kept. */
  readonly metrics: QualityMetrics;
}

/** A model and its expected answers. */
export interface ModelDraft {
  readonly onnx: Uint8Array<ArrayBuffer>;
  readonly metrics: QualityMetrics;
  /** By label; empty for models that find objects. */
  readonly confusion: readonly ConfusionRow[];
  readonly epochs: number;
  /** Held-back pictures in the model's input form, with the trainer's own answers. */
  readonly probes: readonly { readonly image: Uint8Array; readonly answer: ModelOutputs }[];
}

/** Pictures in one step, shared among the threads. */
const BATCH = 8;
/** Number of held-back pictures that check an exported model; no more than a thread's share of a batch. */
const PROBES = 4;
const RATE = 4e-3;
const DECAY = 0.02;
/**
 * Total number of shown pictures, within the bounds below; the fewer pictures there are, the more often each
 * is shown.
 */
const SHOWN = {
  single_label_classification: 14_000,
  multi_label_classification: 14_000,
  object_detection: 10_000,
};
const EPOCHS_MIN = 12;
const EPOCHS_MAX = 80;
/**
 * Training stops early after this share of the rounds without a better metric, and sooner if the metric
 * cannot improve.
 */
const PATIENCE = 0.5;
const PATIENCE_PERFECT = 0.1;
const PATIENCE_EPOCHS_MIN = 8;
/**
 * The measured and kept weights are a running mean: each step moves them by this share, more at the start.
 */
const MEAN_RATE = 0.01;

const SIDES = { single_label_classification: 96, multi_label_classification: 96, object_detection: 128 };

/**
 * Trains round by round, as one thread of a team or alone. Only the team's first thread measures and reports.
 * Throws `failed_precondition` if no picture can be held back.
 */
export function* training(
  task: TrainingTask,
  samples: readonly Sample[],
  place: TeamSlot = soleSlot(),
): Generator<Progress, ModelDraft | undefined> {
  const team = new Team(place);
  const { learned, heldBack } = split(task, samples);
  const random = randomFrom(task.seed);
  const learner = learnerOf(task, learned, BATCH / team.size, random);
  const epochs = task.epochsMax ?? epochsFor(task.kind, learned.length);
  const stepsInAll = epochs * Math.ceil(learned.length / BATCH);

  const adam = new Adam(learner.network.parameters(), DECAY);
  const mean = new RunningMean(learner.network.state());
  let best: (Measured & { rank: number; state: readonly Float32Array[] }) | undefined;
  let [step, epoch] = [0, 0];
  const top = { metric: -Infinity, epoch: 0 };

  // Only the first thread measures, so only it decides when to stop; the others go on until they are ended.
  const hopes = () => team.rank > 0 || epoch - top.epoch < patience(top.metric, epochs);
  while (epoch < epochs && hopes()) {
    epoch++;
    let loss = 0;
    const order = shuffled(learned, random);
    for (let start = 0; start < order.length; start += BATCH) {
      const batch = Array.from({ length: BATCH }, (_, index) => order[(start + index) % order.length]!);
      loss += learn(learner, team, batch, random) / Math.ceil(order.length / BATCH);
      adam.step(RATE * pace(step++ / stepsInAll));
      mean.add();
    }

    if (team.rank > 0) continue;
    mean.swap();

    const measured = measure(learner, heldBack);
    const { metrics, validationLoss } = measured;
    const [metric = 0] = Object.values(metrics);
    if (metric > top.metric) Object.assign(top, { metric, epoch });
    const rank = metric - 1e-3 * validationLoss;
    if (!best || rank > best.rank) {
      best = { ...measured, rank, state: learner.network.state().map((part) => part.slice()) };
    }

    mean.swap();
    yield { epoch, epochs, loss, validationLoss, metrics };
  }

  if (team.rank > 0) return undefined;
  learner.network.state().forEach((part, index) => part.set(best!.state[index]!));
  learner.network.fold();

  const probes = probesOf(learner, heldBack.slice(0, PROBES));
  const onnx = onnxOf(learner, task.kind, task.labels);
  const { metrics, confusion } = best!;
  return { onnx, metrics, confusion, epochs: epoch, probes };
}

/** The largest difference between two answers that should be equal. */
export function differenceOf(expected: ModelOutputs, found: ModelOutputs): number {
  if (!expected.probability) return detectionDifference(expected, found);
  const other = outputNamed(found, "probability");
  return Math.max(...expected.probability.map((value, label) => Math.abs(value - (other[label] ?? NaN))));
}

function learnerOf(
  task: TrainingTask,
  learned: readonly Sample[],
  batch: number,
  random: () => number,
): Learner {
  const side = task.side ?? SIDES[task.kind];
  if (task.kind === "object_detection") return new Detector(task.labels, learned, batch, side, random);
  const labels = task.labels.length;
  return new Classifier(task.kind === "single_label_classification", labels, learned, batch, side, random);
}

/** Number of rounds that may pass without a better metric. A falling loss alone is no reason to continue. */
function patience(metric: number, epochs: number): number {
  return Math.max(PATIENCE_EPOCHS_MIN, (metric >= 1 ? PATIENCE_PERFECT : PATIENCE) * epochs);
}

function epochsFor(kind: TaskKind, pictures: number): number {
  return Math.min(EPOCHS_MAX, Math.max(EPOCHS_MIN, Math.ceil(SHOWN[kind] / pictures)));
}

/**
 * The share of the learning rate over the training: rises for the first twentieth, then falls as a cosine.
 */
function pace(share: number): number {
  return Math.min(1, 0.01 + 20 * share) * (1 + Math.cos(Math.PI * share)) / 2;
}

/** Computes the gradients of one step from a batch of varied pictures; returns the loss. */
function learn(learner: Learner, team: Team, batch: readonly Sample[], random: () => number): number {
  const { network } = learner;
  const first = team.rank * network.batch;
  const targets = batch.map((sample, index) => {
    // Every thread draws the views of all threads, so that they stay in step.
    const view = variedView(random);
    const place = index - first;
    if (place >= 0 && place < network.batch) {
      drawView(sample, view, network.picture.data, place, network.picture.height);
    }
    return { labels: sample.labels, boxes: boxesIn(view, sample.boxes) };
  });
  network.forward();

  const loss = new Float32Array([learner.loss(targets.slice(first, first + network.batch), targets)]);
  network.backward();
  team.add([loss, ...network.parameters().map(({ gradient }) => gradient)]);

  return loss[0] ?? NaN;
}

interface Measured {
  readonly metrics: QualityMetrics;
  readonly confusion: readonly ConfusionRow[];
  readonly validationLoss: number;
}

function measure(learner: Learner, samples: readonly Sample[]): Measured {
  learner.network.fold();
  const answers: ModelOutputs[] = [];
  let validationLoss = 0;
  const size = learner.network.batch;
  for (let start = 0; start < samples.length; start += size) {
    const batch = samples.slice(start, start + size);
    use(learner, batch);
    validationLoss += learner.loss(batch) * batch.length / samples.length;
    answers.push(...batch.map((_, index) => learner.answer(index)));
  }
  const confusion = learner.confusion(answers, samples);
  return { metrics: learner.metrics(answers, samples), confusion, validationLoss };
}

function probesOf(learner: Learner, samples: readonly Sample[]): ModelDraft["probes"] {
  use(learner, samples);
  const side = learner.network.picture.height;
  return samples.map((sample, index) => ({ image: square(sample, side), answer: learner.answer(index) }));
}

function use({ network }: Learner, samples: readonly Sample[]): void {
  const { data, height } = network.picture;
  samples.forEach((sample, index) => drawView(sample, WHOLE, data, index, height));
  network.use();
}

/** The mean of a network's numbers over its last steps, which is steadier than any single step. */
class RunningMean {
  readonly #own: readonly Float32Array[];
  #steps = 0;

  constructor(private readonly state: readonly Float32Array[]) {
    this.#own = state.map((part) => part.slice());
  }

  add(): void {
    const rate = Math.max(MEAN_RATE, 1 / ++this.#steps ** 0.75);
    this.state.forEach((part, index) => {
      const own = this.#own[index]!;
      for (let at = 0; at < part.length; at++) {
        const before = own[at] ?? 0;
        own[at] = before + rate * ((part[at] ?? 0) - before);
      }
    });
  }

  /** Exchanges the present numbers and the mean. */
  swap(): void {
    this.state.forEach((part, index) => {
      const kept = part.slice();
      const own = this.#own[index]!;
      part.set(own);
      own.set(kept);
    });
  }
}

function shuffled<T>(values: readonly T[], random: () => number): T[] {
  const order = [...values];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}
