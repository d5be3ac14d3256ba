/**
 * The embedded trainer: learns from a dataset in this program, on two threads, and produces an ONNX model.
 *
 * Its output is `model.onnx`, `labels.txt` (one label per line, in the order of the model's classes) and
 * `metadata.json`. The same images with the same labels give the same model.
 */

import { join } from "node:path";
import { deadline } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { PICTURE_BYTES_MAX } from "../../learn/example.ts";
import { USUAL_HOLDOUT_PERCENT } from "../../learn/learning.ts";
import { type Example, type TrainedModel, type TrainingTask, trainInWorker } from "../../learn/trainer.ts";
import { type ContentOptions, ContentProcess } from "../sandbox/content/process.ts";
import type { DatasetImage } from "../../cloud_client/dataset.ts";
import { epochLine, type Executor, type Work } from "./executor.ts";
import { labelsOf, type ModelKind } from "../../cloud_client/training_request.ts";
import { counted } from "../../base/log/counted.ts";

/** The class of images without any of the labels; the last one. */
export const UNKNOWN = "UNKNOWN";

const SEED = 1;
/** Interval of progress reports in images. */
const TOLD_EVERY = 100;
/** Time limit for decoding a picture, and limit of pictures that end their decoding process. */
const PICTURE_MS_MAX = 30_000;
const ENDED_MAX = 10;

interface Options {
  /** Rounds through the images; if absent, the number of images decides. */
  readonly epochsMax?: number;
}

export class EmbeddedExecutor implements Executor {
  readonly capacity = 1;
  readonly environments = [];
  readonly reachesUs = false;

  constructor(private readonly content: ContentOptions, private readonly options: Options = {}) {}

  async run(work: Work): Promise<JsonObject> {
    const { job, log, signal, folder } = work;
    const kind = job.modelType as ModelKind;
    log("info", `reading ${counted(work.images.length, "image")}`);
    const decoder = new Decoder(this.content, signal);
    const examples = await readExamples(work, kind, decoder).finally(() => decoder.close());
    const unknown = examples.some(({ labels }) => labels.includes(UNKNOWN)) && !job.labels.includes(UNKNOWN);
    const labels = unknown ? [...job.labels, UNKNOWN] : job.labels;
    const { seed = SEED, holdoutPercent = USUAL_HOLDOUT_PERCENT, epochs } = job.learning ?? {};
    const epochsMax = epochs ?? this.options.epochsMax;
    const task: TrainingTask = { kind, labels, seed, epochsMax, holdoutPercent };
    const how = `${holdoutPercent} % of them held back to measure, from seed ${seed}`;
    log("info", `learning ${labels.join(", ")} from ${counted(examples.length, "image")}, ${how}`);
    const model = await trainInWorker(task, examples, {
      onProgress: (progress) => log("info", epochLine(progress)),
      signal,
    });
    const measured = Object.entries(model.metrics).map(([name, value]) =>
      `${name} ${Number(value.toPrecision(3))}`
    );
    log("info", `learned in ${model.epochs} epochs: ${measured.join(" ")} on unseen images`);
    const files: Record<string, string | Uint8Array> = {
      "model.onnx": model.onnx,
      "labels.txt": `${model.labels.join("\n")}\n`,
      "metadata.json": `${JSON.stringify(described(work, task, model), null, 2)}\n`,
    };
    for (const [name, content] of Object.entries(files)) {
      await this.content.host.createFile(join(folder, "output", name), content);
    }
    return { model_type: kind, model_framework: "onnx", ...measuredOf(model) };
  }
}

/** Decodes the readable pictures and scales them down at once, because all of them stay in memory. */
async function readExamples(
  { job, images, read, log, signal }: Work,
  kind: ModelKind,
  decoder: Decoder,
): Promise<Example[]> {
  const examples: Example[] = [];
  let ambiguous = 0;
  for (const [index, image] of images.entries()) {
    signal.throwIfAborted();
    const labels = labelsOf(kind, image).filter((label) => job.labels.includes(label));
    if (kind === "single_label_classification" && labels.length > 1) {
      ambiguous++;
      continue;
    }
    if (kind === "single_label_classification" && labels.length === 0) labels.push(UNKNOWN);
    try {
      examples.push({ ...await decoder.picture(image, read), labels, boxes: image.boxes });
    } catch (error) {
      signal.throwIfAborted();
      if (decoder.ended > ENDED_MAX) throw error;
      log("warn", `image ${image.id} (${image.fileName}) is left out: ${messageOf(error)}`);
    }
    if ((index + 1) % TOLD_EVERY === 0) log("info", `${index + 1} of ${images.length} images have been read`);
  }
  if (ambiguous > 0) {
    log("warn", `left out ${counted(ambiguous, "image")} with more than one of the labels`);
  }
  return examples;
}

/** Decodes pictures one after the other, in one process until a picture ends it. */
class Decoder {
  /** Processes that ended before they answered. */
  ended = 0;
  #process?: ContentProcess;

  constructor(private readonly content: ContentOptions, private readonly signal: AbortSignal) {}

  async picture({ sha256, bytes }: DatasetImage, read: Work["read"]) {
    if (bytes > PICTURE_BYTES_MAX) {
      throw new SvcError("invalid_argument", `it has ${bytes} bytes, wanted at most ${PICTURE_BYTES_MAX}`);
    }
    const tooLong = () => {
      return new SvcError("deadline_exceeded", `it is not decoded within ${PICTURE_MS_MAX / 1000} s`);
    };
    const { signal, done } = deadline(this.content.clock, PICTURE_MS_MAX, tooLong, this.signal);
    const process = this.#process ??= await ContentProcess.start(this.content);
    try {
      const { head, bytes: rgb } = await process.ask({ ask: "picture", bytes }, read(sha256), signal);
      const [width, height] = [Number(head.width), Number(head.height)];
      if (!(width > 0 && height > 0 && rgb.length === 3 * width * height)) {
        throw new SvcError("internal", `${rgb.length} bytes came for ${width} x ${height} pixels`);
      }
      return { width, height, rgb };
    } catch (error) {
      if (process.answers && !signal.aborted) throw error;
      this.ended++;
      await this.close();
      throw error;
    } finally {
      done();
    }
  }

  async close(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    await process?.close();
  }
}

/**
 * The quality of a model on unseen images. For a classifier, each row of `confusion` counts the labels that the model
 * gave to the images of one label; its last number counts the other images that got this label.
 */
function measuredOf({ metrics, confusion, labels }: TrainedModel): JsonObject {
  const rows = confusion.map(({ pictures, foundAs, wrong }, row) => ({
    label: labels[row] ?? "",
    images: pictures,
    found_as: foundAs.flatMap((images, label) => images > 0 ? [{ label: labels[label] ?? "", images }] : []),
    wrongly_found: wrong,
  }));
  return { metrics: { ...metrics }, ...rows.length > 0 ? { confusion: rows } : {} };
}

/** The published `Metadata` of a model as JSON, and how the model was trained. */
function described({ job, images }: Work, { seed, holdoutPercent }: TrainingTask, model: TrainedModel) {
  const detects = job.modelType === "object_detection";
  const outputs = detects ? ["location", "category", "score"] : ["probability"];
  return {
    name: job.modelName,
    type: detects ? "object_detector" : "classifier",
    description: `${job.modelType} of ${model.labels.join(", ")}`,
    input_info: [{ name: "image", description: "a picture: red, green and blue, 0 to 255" }],
    output_info: outputs.map((name) => ({ name, extra: { labels: "labels.txt" } })),
    training: {
      version: job.modelVersion,
      ...measuredOf(model),
      epochs: model.epochs,
      seed,
      holdout_percent: holdoutPercent!,
      dataset: { id: job.datasetId, images: images.length },
    },
  };
}
