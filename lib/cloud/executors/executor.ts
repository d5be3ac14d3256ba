/**
 * Executor: does the work of a training job.
 *
 * It does not know queues, other control planes or packages: it gets images and a folder, writes log lines, and
 * leaves files. It stops as soon as its signal aborts; errors after that do not count.
 *
 * The room owns the execution of training jobs: by the trainer in this program, by scripts on this computer, or by
 * pods on a cluster.
 */

import type { JsonObject } from "../../base/schema/schema.ts";
import type { DatasetImage } from "../../cloud_client/dataset.ts";
import type { ModelKind } from "../../cloud_client/training_request.ts";
import type { Learning } from "../../learn/learning.ts";

/** The script of a custom job, at the time of the job's submission. */
export interface JobScript {
  readonly id: string;
  readonly version: string;
  readonly sha256: string;
  readonly arguments: { readonly [name: string]: string };
  /** Its environment, or the id of a container that its organization registered. */
  readonly container: string;
  /** The image of that container, at the time of the job's submission. */
  readonly image?: string;
}

/** The task of a job. */
export interface JobTask {
  readonly id: string;
  readonly datasetId: string;
  readonly modelName: string;
  readonly modelVersion: string;
  /** Empty if a script does not declare it. */
  readonly modelType: ModelKind | "";
  readonly modelFramework: string;
  readonly labels: readonly string[];
  readonly script?: JobScript;
  /** Settings of the embedded trainer. */
  readonly learning?: Learning;
}

export type LogLevel = "info" | "warn" | "error";

export interface Work {
  readonly job: JobTask;
  readonly images: readonly DatasetImage[];
  /** The job's own folder, empty except for an empty folder `output`; removed at its end. */
  readonly folder: string;
  /** The content of an image, or of the job's script. */
  readonly read: (sha256: string) => AsyncIterable<Uint8Array>;
  readonly log: (level: LogLevel, message: string) => void;
  /** Credentials with which a script may call the control plane as long as the job runs; absent if it cannot. */
  readonly apiKey?: { readonly id: string; readonly key: string };
  readonly signal: AbortSignal;
}

/** An environment for custom scripts. */
export interface ScriptEnvironment {
  /** `python:3.11` */
  readonly key: string;
  readonly uri: string;
  readonly framework: string;
  readonly description: string;
}

export interface Executor {
  /** The number of jobs that it runs at the same time. */
  readonly capacity: number;
  /** Environments for custom scripts; the first one is the default. */
  readonly environments: readonly ScriptEnvironment[];
  /** Allowed prefixes of the names of organizations' images, each ending with `/`; none if it runs no images. */
  readonly images?: readonly string[];
  /** Whether its scripts can call the control plane, and so get a key. */
  readonly reachesUs: boolean;
  /**
   * Leaves the model in the folder `output`, without `output/tmp`. Returns facts for the package. Throws if the job
   * has failed; people see the error.
   */
  run(work: Work): Promise<JsonObject>;
  /** Removes the remains of a job whose control plane has died, unless they disappear by themselves. */
  abandon?(jobId: string): Promise<void>;
}

/** The executors by kind. Jobs of a kind without an executor are refused. */
export interface Executors {
  readonly managed?: Executor;
  readonly custom?: Executor;
  /** Why scripts have no executor, and how to get one. */
  readonly noScripts?: string;
}

/** `epoch 12/60 loss 0.41 validation 0.44 mAP 0.71`: the log line of an epoch, in every job. */
export function epochLine(progress: {
  readonly epoch: number;
  readonly epochs: number;
  readonly loss: number;
  readonly validationLoss: number;
  readonly metrics: { readonly [name: string]: number };
}): string {
  const { epoch, epochs, loss, validationLoss, metrics } = progress;
  const numbers = { loss, validation: validationLoss, ...metrics };
  const reported = Object.entries(numbers).map(([name, value]) => `${name} ${Number(value.toPrecision(3))}`);
  return [`epoch ${epoch}/${epochs}`, ...reported].join(" ");
}
