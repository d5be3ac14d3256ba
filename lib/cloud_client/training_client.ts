/**
 * The client of the training service: the published operations in both naming styles, and the logs of jobs.
 *
 * It adds what the published clients leave to the server or leave out: it refuses empty fields before it sends
 * anything, and takes the framework, arguments and container of a job. Errors are `SvcError`s with the code of the
 * answer: `not_found` for an unknown job or dataset, `already_exists` for an existing version of the model, and
 * `failed_precondition` for an operation that the state of the job or dataset does not allow.
 */

import {
  type Container,
  MLTrainingService,
  ModelFramework,
  ModelType,
  type TrainingJobLogEntry,
  type TrainingJobMetadata,
  TrainingStatus as PublishedStatus,
} from "../../proto/gen/ml_training_pb.ts";
import { TrainingService } from "../../proto/gen/training_pb.ts";
import { SvcError } from "../base/error.ts";
import { checkLearning, type Learning } from "../learn/learning.ts";
import { didYouMean } from "../base/schema/suggest.ts";
import { type CallOptions, type Channel, client, type ServiceClient } from "../wire/rpc/channel.ts";

export { ModelFramework, ModelType };

/** The published statuses, and `RUNNING` as another name for `IN_PROGRESS`, accepted and shown. */
export const TrainingStatus: typeof PublishedStatus & { readonly RUNNING: PublishedStatus.IN_PROGRESS } = {
  ...PublishedStatus,
  RUNNING: PublishedStatus.IN_PROGRESS,
};
export type TrainingStatus = PublishedStatus;
export type { Container, TrainingJobLogEntry, TrainingJobMetadata };

/** Settings of a job that the published clients do not offer. */
export interface ManagedOptions {
  /** If absent, the control plane chooses; svc-cloud chooses ONNX. */
  readonly modelFramework?: ModelFramework;
}

export interface CustomOptions {
  /** Passed to the script as `--key=value`. */
  readonly arguments?: { readonly [key: string]: string };
  /** The key of a container, on a control plane with containers. */
  readonly containerVersion?: string;
}

/** A page of a job's logs, oldest first. */
export interface LogPage {
  readonly logs: readonly TrainingJobLogEntry[];
  /** The token of the next page; empty at the end. */
  readonly nextPageToken: string;
}

type Limits = Pick<CallOptions, "timeoutMs" | "signal">;

/** Final statuses. */
const ENDED: readonly TrainingStatus[] = [
  TrainingStatus.COMPLETED,
  TrainingStatus.FAILED,
  TrainingStatus.CANCELED,
];

export class MlTrainingClient {
  readonly #service: ServiceClient<typeof MLTrainingService>;
  readonly #own: ServiceClient<typeof TrainingService>;

  /** `channel` comes from `connectApp`; the key must be an organization owner's. */
  constructor(channel: Channel) {
    this.#service = client(MLTrainingService, channel);
    this.#own = client(TrainingService, channel);
  }

  /**
   * Submits a job that trains a model of a known type on a dataset; returns the job's id. Only svc-cloud accepts
   * learning settings; any other control plane refuses such a job with `unimplemented`.
   */
  async submitTrainingJob(
    organizationId: string,
    datasetId: string,
    modelName: string,
    modelVersion: string,
    modelType: ModelType,
    tags: readonly string[],
    options: ManagedOptions & Learning & Limits = {},
  ): Promise<string> {
    const { modelFramework = ModelFramework.UNSPECIFIED, epochs, seed, holdoutPercent, ...limits } = options;
    refuseEmpty({ organizationId, datasetId, modelName, modelVersion });
    if (modelType === ModelType.UNSPECIFIED) throw new SvcError("invalid_argument", "model_type is empty");
    const request = {
      organizationId,
      datasetId,
      modelName,
      modelVersion,
      modelType,
      tags: [...tags],
      modelFramework,
    };
    const learning = checkLearning({ epochs, seed, holdoutPercent });
    if (Object.keys(learning).length === 0) {
      return (await this.#service.submitTrainingJob(request, limits)).id;
    }
    try {
      return (await this.#own.submitTrainingJob({ ...request, ...learning }, limits)).id;
    } catch (cause) {
      const { code } = SvcError.from(cause);
      if (code !== "unimplemented") throw cause;
      const text =
        "this control plane does not train with epochs, seed or holdout_percent, as svc-cloud does";
      throw new SvcError(code, text, { cause });
    }
  }

  /** Submits a job that runs a training script of the registry on a dataset; returns the job's id. */
  async submitCustomTrainingJob(
    organizationId: string,
    datasetId: string,
    registryItemId: string,
    registryItemVersion: string,
    modelName: string,
    modelVersion: string,
    { arguments: given = {}, containerVersion = "", ...limits }: CustomOptions & Limits = {},
  ): Promise<string> {
    const required = {
      organizationId,
      datasetId,
      registryItemId,
      registryItemVersion,
      modelName,
      modelVersion,
    };
    refuseEmpty(required);
    const request = { ...required, arguments: { ...given }, containerVersion };
    return (await this.#service.submitCustomTrainingJob(request, limits)).id;
  }

  /** Everything about a job. */
  async getTrainingJob(id: string, limits: Limits = {}): Promise<TrainingJobMetadata> {
    refuseEmpty({ id });
    const { metadata } = await this.#service.getTrainingJob({ id }, limits);
    if (!metadata) throw new SvcError("internal", `the answer about training job ${id} is empty`);
    return metadata;
  }

  /** The jobs of an organization, with one status or all. */
  async listTrainingJobs(
    organizationId: string,
    status: TrainingStatus = TrainingStatus.UNSPECIFIED,
    limits: Limits = {},
  ): Promise<TrainingJobMetadata[]> {
    refuseEmpty({ organizationId });
    return (await this.#service.listTrainingJobs({ organizationId, status }, limits)).jobs;
  }

  /** Cancels a running or waiting job; `failed_precondition` if it has ended. */
  async cancelTrainingJob(id: string, limits: Limits = {}): Promise<void> {
    refuseEmpty({ id });
    await this.#service.cancelTrainingJob({ id }, limits);
  }

  /** Deletes a job that has ended, in whatever way; `failed_precondition` otherwise. Its model stays. */
  async deleteCompletedTrainingJob(id: string, limits: Limits = {}): Promise<void> {
    refuseEmpty({ id });
    await this.#service.deleteCompletedTrainingJob({ id }, limits);
  }

  /** One page of a job's logs: the first, or the page of a token. */
  async getTrainingJobLogs(id: string, pageToken?: string, limits: Limits = {}): Promise<LogPage> {
    refuseEmpty({ id });
    return await this.#service.getTrainingJobLogs({ id, pageToken }, limits);
  }

  /** The containers for custom scripts, by key. */
  async listSupportedContainers(limits: Limits = {}): Promise<{ [key: string]: Container }> {
    return (await this.#service.listSupportedContainers({}, limits)).containerMap;
  }

  /** As `submitTrainingJob`. */
  submit_training_job(...given: Parameters<MlTrainingClient["submitTrainingJob"]>): Promise<string> {
    return this.submitTrainingJob(...given);
  }

  /** As `submitCustomTrainingJob`. */
  submit_custom_training_job(
    ...given: Parameters<MlTrainingClient["submitCustomTrainingJob"]>
  ): Promise<string> {
    return this.submitCustomTrainingJob(...given);
  }

  /** As `getTrainingJob`. */
  get_training_job(id: string): Promise<TrainingJobMetadata> {
    return this.getTrainingJob(id);
  }

  /** As `listTrainingJobs`. */
  list_training_jobs(organizationId: string, status?: TrainingStatus): Promise<TrainingJobMetadata[]> {
    return this.listTrainingJobs(organizationId, status);
  }

  /** As `cancelTrainingJob`. */
  cancel_training_job(id: string): Promise<void> {
    return this.cancelTrainingJob(id);
  }

  /** As `deleteCompletedTrainingJob`. */
  delete_completed_training_job(id: string): Promise<void> {
    return this.deleteCompletedTrainingJob(id);
  }

  /** As `getTrainingJobLogs`. */
  get_training_job_logs(id: string, pageToken?: string): Promise<LogPage> {
    return this.getTrainingJobLogs(id, pageToken);
  }
}

/**
 * Follows a job's logs: each call of `next` returns the entries that are new since the last one. It requests the last
 * page again, because entries may have been added to it.
 */
export class LogReader {
  #token: string | undefined;
  #seen = 0;

  constructor(private readonly jobs: MlTrainingClient, private readonly id: string) {}

  async next(limits: Limits = {}): Promise<TrainingJobLogEntry[]> {
    const fresh: TrainingJobLogEntry[] = [];
    for (;;) {
      const { logs, nextPageToken } = await this.jobs.getTrainingJobLogs(this.id, this.#token, limits);
      fresh.push(...logs.slice(this.#seen));
      this.#seen = logs.length;
      if (nextPageToken === "" || nextPageToken === this.#token || logs.length === 0) return fresh;
      this.#token = nextPageToken;
      this.#seen = 0;
    }
  }
}

/** Whether the status is final. */
export function hasEnded(status: TrainingStatus): boolean {
  return ENDED.includes(status);
}

/** `IN_PROGRESS`; a number for a status of a newer control plane. */
export function statusName(status: TrainingStatus): string {
  return TrainingStatus[status] ?? `STATUS_${status}`;
}

/** `object-detection`, `OBJECT_DETECTION`, `MODEL_TYPE_OBJECT_DETECTION`, in any letter case. */
export function parseModelType(text: string): ModelType {
  return parseEnum("model type", ModelType, "MODEL_TYPE_", text);
}

/** `onnx`, `MODEL_FRAMEWORK_ONNX`, in any letter case. */
export function parseFramework(text: string): ModelFramework {
  return parseEnum("model framework", ModelFramework, "MODEL_FRAMEWORK_", text);
}

/** `in-progress`, `TRAINING_STATUS_IN_PROGRESS`, in any letter case; `running` means the same. */
export function parseStatus(text: string): TrainingStatus {
  return parseEnum("training status", TrainingStatus, "TRAINING_STATUS_", text);
}

/** Values in the form of a command line: `object-detection`. */
export function spellingsOf(values: { readonly [name: string]: string | number }): string[] {
  return Object.keys(values).filter((name) => /^[A-Z]/.test(name) && name !== "UNSPECIFIED").map(spelled);
}

/** `OBJECT_DETECTION` as `object-detection`. */
export function spelled(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}

function folded(text: string): string {
  return text.trim().toUpperCase().replaceAll("-", "_");
}

function parseEnum<T extends number>(
  what: string,
  values: { readonly [name: string]: string | T },
  prefix: string,
  text: string,
): T {
  const name = folded(text).replace(prefix, "");
  const value = name === "UNSPECIFIED" || !Object.hasOwn(values, name) ? undefined : values[name];
  if (typeof value === "number") return value;
  const known = spellingsOf(values);
  const hint = didYouMean(spelled(name), known);
  throw new SvcError("invalid_argument", `found ${what} "${text}", wanted ${known.join(", ")}${hint}`);
}

/** Errors name fields as the published requests do, whichever style the caller uses. */
function refuseEmpty(fields: { readonly [name: string]: string }): void {
  const empty = Object.keys(fields).filter((name) => fields[name] === "").map((name) =>
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  );
  if (empty.length === 0) return;
  throw new SvcError("invalid_argument", `wanted a text for ${empty.join(", ")}, found none`);
}
