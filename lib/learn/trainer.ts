/**
 * Trains models from labelled pictures, on two threads beside the caller's.
 *
 * Owns the threads. Promises: the same task, seed and pictures, in any order, give the same bytes; it
 * releases a model only if ONNX Runtime gives the trainer's own answers for held-back pictures; a canceled
 * training has ended and released its memory.
 *
 * The room owns the training of classifiers and detectors, from labelled pictures to a model.
 */

import { assert, SvcError } from "../base/error.ts";
import { type Example, type Sample, samplesOf, type TrainingTask } from "./example.ts";
import type { ConfusionRow } from "./learner.ts";
import { openOnnx } from "./onnx/session.ts";
import { differenceOf, type ModelDraft, type Progress } from "./training.ts";
import { disband, teamSlots } from "./team.ts";
import { TRAINER_WORKER, type TrainerMessage, type TrainerRequest } from "./trainer_worker.ts";

export { type Example, type LabelledBox, TASK_KINDS, type TrainingTask } from "./example.ts";
export type { ConfusionRow } from "./learner.ts";
export type { Progress } from "./training.ts";

export interface TrainedModel {
  /**
   * An ONNX file that takes `image` uint8 [1, side, side, 3] and returns the published outputs of its kind.
   */
  readonly onnx: Uint8Array;
  readonly labels: readonly string[];
  /** Measured on the held-back pictures. */
  readonly metrics: { readonly [name: string]: number };
  /** From the held-back pictures, a row for each label; empty for models that find objects. */
  readonly confusion: readonly ConfusionRow[];
  /** Number of completed rounds. */
  readonly epochs: number;
}

/** Largest allowed difference between the answers of the trainer and of ONNX Runtime. */
const DIFFERENCE_MAX = 1e-4;

/**
 * Number of threads that train together. It affects the result, because other sums would be rounded
 * differently.
 */
const THREADS = 2;

interface Options {
  readonly onProgress?: (progress: Progress) => void;
  readonly signal?: AbortSignal;
}

/**
 * Trains a model. Throws `invalid_argument` or `failed_precondition` for unusable examples (see `samplesOf`),
 * `canceled` if the signal aborts, `internal` if the exported model gives different answers.
 */
export async function trainInWorker(
  task: TrainingTask,
  examples: readonly Example[],
  { onProgress, signal }: Options = {},
): Promise<TrainedModel> {
  const samples = shared(samplesOf(task, examples));
  try {
    const draft = await drafted(task, samples, onProgress, signal);
    await check(draft, signal);
    const { onnx, metrics, confusion, epochs } = draft;
    return { onnx, labels: task.labels, metrics, confusion, epochs };
  } catch (thrown) {
    if (signal?.aborted) throw new SvcError("canceled", "The training was canceled");
    throw thrown;
  }
}

async function drafted(
  task: TrainingTask,
  samples: readonly Sample[],
  onProgress?: (progress: Progress) => void,
  signal?: AbortSignal,
): Promise<ModelDraft> {
  signal?.throwIfAborted();
  const done = Promise.withResolvers<ModelDraft>();
  const cancel = () => done.reject(signal!.reason);
  signal?.addEventListener("abort", cancel, { once: true });

  const team = teamSlots(THREADS);
  const workers = team.map((place) => {
    const worker = new Worker(new URL("./trainer_worker.ts", import.meta.url), {
      type: "module",
      name: TRAINER_WORKER,
    });
    worker.onmessage = ({ data }: MessageEvent<TrainerMessage>) => {
      if ("code" in data) return done.reject(new SvcError(data.code, data.message));
      if ("draft" in data) return done.resolve(data.draft);
      try {
        onProgress?.(data.progress);
      } catch (thrown) {
        done.reject(thrown);
      }
    };
    worker.onerror = (event) => {
      event.preventDefault();
      done.reject(new SvcError("internal", `A thread of the training failed: ${event.message}`));
    };
    worker.postMessage({ task, samples, place } satisfies TrainerRequest);

    return worker;
  });
  try {
    return await done.promise;
  } finally {
    signal?.removeEventListener("abort", cancel);
    disband(team);
    for (const worker of workers) worker.terminate();
  }
}

/** The samples, with their pictures in memory shared by all threads. */
function shared(samples: readonly Sample[]): Sample[] {
  const memory = new SharedArrayBuffer(samples.reduce((sum, { rgb }) => sum + rgb.length, 0));
  let start = 0;
  return samples.map((sample) => {
    const rgb = new Uint8Array(memory, start, sample.rgb.length);
    rgb.set(sample.rgb);
    start += rgb.length;
    return { ...sample, rgb };
  });
}

/** Throws `internal` unless ONNX Runtime gives the trainer's answers. */
async function check(draft: ModelDraft, signal?: AbortSignal): Promise<void> {
  const session = await openOnnx(draft.onnx, { threads: 1, signal });
  try {
    const shape = session.inputs[0]?.shape ?? [];
    for (const { image, answer } of draft.probes) {
      const outputs = await session.run({ image: { type: "uint8", shape, data: image } }, signal);
      const found = Object.fromEntries(
        Object.entries(outputs).map(([name, { data }]) => {
          assert(data instanceof Float32Array, `output ${name} is not float32`);
          return [name, data];
        }),
      );
      const difference = differenceOf(answer, found);
      if (difference <= DIFFERENCE_MAX) continue;
      const wanted = `wanted at most ${DIFFERENCE_MAX}`;
      const text = `The trained model is not given out: ONNX Runtime answers ${difference} off, ${wanted}`;
      throw new SvcError("internal", text);
    }
  } finally {
    await session.close();
  }
}
