/**
 * The embedded trainer: learns from a dataset right here, on two threads, and leaves an ONNX model.
 *
 * Leaves `model.onnx`, `labels.txt` (a label a line, in the order of the model's classes) and `metadata.json`. The same
 * images with the same labels give the same model.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../base/error.ts";
import type { JsonObject } from "../base/schema.ts";
import { decodeImage } from "../geometry/image.ts";
import { fitted } from "../learn/picture.ts";
import { type Example, type TrainedModel, type TrainingTask, trainInWorker } from "../learn/trainer.ts";
import type { DatasetImage } from "./datasets.ts";
import { type Executor, progressLine, type Work } from "./executor.ts";
import { labelsOf, type ModelKind } from "./training_request.ts";

/** The class of images that have none of the labels; the last one. */
export const UNKNOWN = "UNKNOWN";

const SEED = 1;
/** How often it tells how many images have been read. */
const TOLD_EVERY = 500;

interface Options {
  /** Rounds through the images; as many as their number suggests without it. */
  readonly epochsMax?: number;
}

export class EmbeddedExecutor implements Executor {
  readonly capacity = 1;
  readonly environments = [];

  constructor(private readonly options: Options = {}) {}

  async run(work: Work): Promise<JsonObject> {
    const { job, log, signal, folder } = work;
    const kind = job.modelType as ModelKind;
    const examples = await examplesOf(work, kind);
    const unknown = examples.some(({ labels }) => labels.includes(UNKNOWN)) && !job.labels.includes(UNKNOWN);
    const labels = unknown ? [...job.labels, UNKNOWN] : job.labels;
    const task: TrainingTask = { kind, labels, seed: SEED, epochsMax: this.options.epochsMax };
    log(
      "info",
      `learning ${labels.join(", ")} from ${examples.length} images, some of them held back to measure`,
    );
    const model = await trainInWorker(task, examples, {
      onProgress: (progress) => log("info", progressLine(progress)),
      signal,
    });
    const measured = Object.entries(model.metrics).map(([name, value]) =>
      `${name} ${Number(value.toPrecision(3))}`
    );
    log("info", `learned in ${model.epochs} epochs: ${measured.join(" ")} on images it has not seen`);
    const files: Record<string, string | Uint8Array> = {
      "model.onnx": model.onnx,
      "labels.txt": `${model.labels.join("\n")}\n`,
      "metadata.json": `${JSON.stringify(described(work, model), null, 2)}\n`,
    };
    for (const [name, content] of Object.entries(files)) {
      await writeFile(join(folder, "output", name), content);
    }
    return { model_type: kind, model_framework: "onnx" };
  }
}

/** Decodes what can be decoded; the pictures are made small at once, for all of them are in memory together. */
async function examplesOf({ job, images, read, log, signal }: Work, kind: ModelKind): Promise<Example[]> {
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
      examples.push({ ...await pictureOf(image, read), labels, boxes: image.boxes });
    } catch (error) {
      log("warn", `image ${image.id} (${image.fileName}) is left out: ${messageOf(error)}`);
    }
    if ((index + 1) % TOLD_EVERY === 0) log("info", `${index + 1} of ${images.length} images have been read`);
  }
  if (ambiguous > 0) {
    log("warn", `${ambiguous} images are left out because they have more than one of the labels`);
  }
  return examples;
}

async function pictureOf({ sha256, bytes }: DatasetImage, read: Work["read"]) {
  const content = new Uint8Array(bytes);
  let at = 0;
  for await (const chunk of read(sha256)) {
    content.set(chunk, at);
    at += chunk.length;
  }
  const decoded = decodeImage(content);
  if (decoded.kind !== "color") throw new Error("it holds distances, wanted colours");
  const { width, height, rgba } = decoded.image;
  const rgb = new Uint8Array(3 * width * height);
  for (let from = 0, to = 0; from < rgba.length; from += 4, to += 3) {
    rgb[to] = rgba[from];
    rgb[to + 1] = rgba[from + 1];
    rgb[to + 2] = rgba[from + 2];
  }
  return fitted({ width, height, rgb });
}

/** The published `Metadata` of a model as JSON, and how the model came to be. */
function described({ job, images }: Work, model: TrainedModel): JsonObject {
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
      metrics: { ...model.metrics },
      epochs: model.epochs,
      seed: SEED,
      dataset: { id: job.datasetId, images: images.length },
    },
  };
}
