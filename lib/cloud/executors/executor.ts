/**
 * Executor: what does the work of a training job.
 *
 * It knows nothing of jobs that wait, of other control planes or of packages: it is given images and a folder, writes
 * lines of log, and leaves files. It stops as soon as its signal aborts; what it throws then does not matter.
 *
 * The room owns what does the work of training jobs: the trainer in this program, scripts on this computer, pods on a
 * cluster.
 */

import type { JsonObject } from "../../base/schema/schema.ts";
import type { DatasetImage } from "../../cloud_client/dataset.ts";
import type { ModelKind } from "../../cloud_client/training_request.ts";
import type { Learning } from "../../learn/learning.ts";

/** The script of a custom job, as it was when the job was submitted. */
export interface JobScript {
  readonly id: string;
  readonly version: string;
  readonly sha256: string;
  readonly arguments: { readonly [name: string]: string };
  /** The environment that it runs in, or the id of a container that its organization had registered. */
  readonly container: string;
  /** The image of that container, when the job was submitted. */
  readonly image?: string;
}

/** What a job is about. */
export interface Task {
  readonly id: string;
  readonly datasetId: string;
  readonly modelName: string;
  readonly modelVersion: string;
  /** Empty where a script does not say. */
  readonly modelType: ModelKind | "";
  readonly modelFramework: string;
  readonly labels: readonly string[];
  readonly script?: JobScript;
  /** Of a model that is made here. */
  readonly learning?: Learning;
}

export type LogLevel = "info" | "warn" | "error";

export interface Work {
  readonly job: Task;
  readonly images: readonly DatasetImage[];
  /** Its own, empty but for an empty folder `output`, and removed behind it. */
  readonly folder: string;
  /** The content of an image, or of the job's script. */
  readonly read: (sha256: string) => AsyncIterable<Uint8Array>;
  readonly log: (level: LogLevel, message: string) => void;
  /** What a script may call the control plane with, for as long as the job lasts; none where it cannot. */
  readonly apiKey?: { readonly id: string; readonly key: string };
  readonly signal: AbortSignal;
}

/** What a custom script can be run in. */
export interface Environment {
  /** `python:3.11` */
  readonly key: string;
  readonly uri: string;
  readonly framework: string;
  readonly description: string;
}

export interface Executor {
  /** How many jobs it works on at once. */
  readonly capacity: number;
  /** Those of custom scripts; the first one is taken where nobody says. */
  readonly environments: readonly Environment[];
  /** How the names of images begin that organizations may bring, each with a `/` at its end; none where it runs no images. */
  readonly images?: readonly string[];
  /** Whether what it runs can call the control plane, and so gets a key. */
  readonly reachesUs: boolean;
  /**
   * Leaves the model in the folder `output`; what is in `output/tmp` is not part of it. Gives what is to be said of
   * the package. Throws where the job has failed; the error is shown to people.
   */
  run(work: Work): Promise<JsonObject>;
  /** Removes what is left of a job whose control plane is no more, where that does not go with it. */
  abandon?(jobId: string): Promise<void>;
}

/** Who works on what. Without an executor of a kind, such jobs are refused. */
export interface Executors {
  readonly managed?: Executor;
  readonly custom?: Executor;
  /** Why there is none for scripts, and what to do about it. */
  readonly noScripts?: string;
}

/** `epoch 12/60 loss 0.41 validation 0.44 mAP 0.71`: the line that stands for an epoch in the log of every job. */
export function progressLine(progress: {
  readonly epoch: number;
  readonly epochs: number;
  readonly loss: number;
  readonly validationLoss: number;
  readonly metrics: { readonly [name: string]: number };
}): string {
  const { epoch, epochs, loss, validationLoss, metrics } = progress;
  const numbers = { loss, validation: validationLoss, ...metrics };
  const told = Object.entries(numbers).map(([name, value]) => `${name} ${Number(value.toPrecision(3))}`);
  return [`epoch ${epoch}/${epochs}`, ...told].join(" ");
}
