/** Training jobs in words, and the curves in their logs. Pure functions. */

import type { mlTrainingApi } from "@viamrobotics/sdk";

/** MODEL_TYPE_OBJECT_DETECTION: boxes are its labels; tags are those of other kinds. */
export const FINDS_OBJECTS = 3;

/** Kinds of models that datasets train. */
export const MODEL_TYPES = [
  [1, "one label an image"],
  [2, "several labels an image"],
  [FINDS_OBJECTS, "boxes in an image"],
] as const;

const STATES = ["unknown", "waiting", "running", "completed", "failed", "cancelled", "cancelling"];
const ENDED = ["completed", "failed", "cancelled"];

export function jobState({ status }: Pick<mlTrainingApi.TrainingJobMetadata, "status">): string {
  return STATES[status] ?? "unknown";
}

export function isJobOver(job: Pick<mlTrainingApi.TrainingJobMetadata, "status">): boolean {
  return ENDED.includes(jobState(job));
}

export function jobTone(
  job: Pick<mlTrainingApi.TrainingJobMetadata, "status">,
): "good" | "warn" | "bad" | "" {
  const state = jobState(job);
  if (state === "completed") return "good";
  if (state === "failed") return "bad";
  return state === "running" ? "warn" : "";
}

export interface Epoch {
  readonly epoch: number;
  readonly epochs: number;
  /** `loss`, `validation`, and measures of the model's kind. */
  readonly values: Readonly<Record<string, number>>;
}

/** An epoch of a log line, `epoch 12/60 loss 0.41 validation 0.44 mAP 0.71`; other lines are `undefined`. */
export function epochIn(message: string): Epoch | undefined {
  const [, epoch, epochs, rest] = /^epoch (\d+)\/(\d+)((?: \S+ \S+)+)$/.exec(message) ?? [];
  if (rest === undefined) return undefined;
  const words = rest.trim().split(" ");
  const pairs = words.flatMap((word, at) => at % 2 === 0 ? [[word, Number(words[at + 1])] as const] : []);
  return { epoch: Number(epoch), epochs: Number(epochs), values: Object.fromEntries(pairs) };
}
