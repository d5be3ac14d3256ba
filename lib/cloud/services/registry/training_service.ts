/**
 * MLTrainingService, and our own TrainingService: training jobs as their callers see them. Thin: the rules for requests
 * are in `cloud_client/training_request.ts`, those for the states of a job in `state.ts`.
 */

import {
  type MLTrainingService,
  ModelFramework,
  ModelType,
  type SubmitCustomTrainingJobRequest,
  type SubmitTrainingJobRequest,
  type TrainingJobMetadataSchema,
  TrainingStatus,
} from "../../../../proto/gen/ml_training_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { CODES, SvcError } from "../../../base/error.ts";
import { checkLearning } from "../../../learn/learning.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import { type CallContext, type ServiceImpl } from "../../../wire/rpc/service.ts";
import type { Ref } from "../../access/access.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { cutPage, pageStart } from "../context.ts";
import { Datasets } from "../../data/datasets.ts";
import type { DatasetImage } from "../../../cloud_client/dataset.ts";
import type { Executors } from "../../executors/executor.ts";
import { checkNamed, Packages, splitId } from "../../packages/packages.ts";
import type { Sql } from "../../store/store.ts";
import { requirePackageQuota } from "../../packages/package_content.ts";
import { requireQuota } from "../../access/quota.ts";
import { containerHandlers, requireAllowed } from "./container_service.ts";
import { TrainingContainers } from "../../executors/containers.ts";
import type { JobScript } from "../../executors/executor.ts";
import { type NewJob, queueOf, type TrainingJob, TrainingJobs } from "../../training/training.ts";
import {
  checkArguments,
  checkImages,
  checkLabels,
  described,
  MODEL_KINDS,
  type ModelKind,
} from "../../../cloud_client/training_request.ts";
import { letGo, logEnd, logQueuePositions, type TrainingRunner } from "../../training/runner.ts";
import { isFinalState, TRAINING_STATES } from "../../training/state.ts";
import type { Package } from "../../packages/item.ts";

const PAGE = 100;

/** `runner` is absent in a process that trains nothing but still shows jobs. */
export function trainingHandlers(context: CloudContext, runner?: TrainingRunner) {
  const { store, audit, access } = context;
  const executors = runner?.executors ?? {};
  const jobs = new TrainingJobs(store);
  const submitter = new Submitter(executors);
  const submit = submission(context, runner);
  const submitTrainingJob = (request: SubmitTrainingJobRequest, ctx: CallContext) =>
    submit(ctx, request.organizationId, (sql) => submitter.managed(sql, request));
  return {
    submitTrainingJob,
    async submitCustomTrainingJob(request, ctx) {
      const mine = await access.readOrganizations(ctx.entity);
      return await submit(ctx, request.organizationId, (sql) => submitter.custom(sql, request, mine));
    },
    async getTrainingJob({ id }) {
      return { metadata: metadataOf(await jobs.get(id)) };
    },
    async listTrainingJobs({ organizationId, status }) {
      const state = TRAINING_STATES.find((one) => STATUS_OF[one] === status);
      if (!state && status !== TrainingStatus.UNSPECIFIED) {
        throw new SvcError(
          "invalid_argument",
          `found status ${status}, wanted a published value`,
        );
      }
      return { jobs: (await jobs.list(organizationId, state)).map(metadataOf) };
    },
    async cancelTrainingJob({ id }, ctx) {
      const contents = await audit.change(actorOf(ctx), { kind: "training_job", id }, async (sql, nowMs) => {
        const all = new TrainingJobs(sql);
        const { state, contents } = await all.cancel(id, nowMs);
        if (isFinalState(state)) await logEnd(all, id, nowMs);
        else await all.log(id, [{ atMs: nowMs, level: "info", message: "to be canceled" }]);
        return contents;
      });
      runner?.wake();
      await letGo(context, contents);
      return {};
    },
    async deleteCompletedTrainingJob({ id }, ctx) {
      const on: Ref = { kind: "training_job", id };
      await audit.change(actorOf(ctx), on, (sql) => new TrainingJobs(sql).delete(id));
      return {};
    },
    async getTrainingJobLogs({ id, pageToken }) {
      const found = await jobs.logs(id, pageToken ? pageStart(pageToken) : 0, PAGE + 1);
      const { page, nextPageToken } = cutPage(found, PAGE, ({ number }) => String(number));
      const logs = page.map(({ level, atMs, message }) => ({ level, time: toTimestamp(atMs), message }));
      return { logs, nextPageToken };
    },
    ...containerHandlers(context, executors),
  } satisfies ServiceImpl<typeof MLTrainingService>;
}

/** The checked subject of a training. */
interface Submitted {
  readonly job: NewJob;
  readonly images: readonly DatasetImage[];
  readonly notes: readonly string[];
}

/** Queues a job of an organization, created by `take` within the change; returns its id. */
function submission(context: CloudContext, runner: TrainingRunner | undefined) {
  const { audit, limits } = context;
  return async (ctx: CallContext, organizationId: string, take: (sql: Sql) => Promise<Submitted>) => {
    const on: Ref = { kind: "organization", id: organizationId };
    // An early check spares the user the training time.
    await requirePackageQuota(context, organizationId);
    const id = await audit.change(actorOf(ctx), on, async (sql, nowMs) => {
      const { job, images, notes } = await take(sql);
      const all = new TrainingJobs(sql);
      const [queue, runningMax] = [queueOf(job), runner?.runningMax(queueOf(job)) ?? 1];
      const before = await all.waiting(queue, runningMax);
      const id = await all.add(job, images, nowMs, runner?.waitingMax);
      await requireQuota(sql, limits, "trainingJobsPerOrganization", organizationId);
      await all.log(id, notes.map((message) => ({ atMs: nowMs, level: "info", message })));
      await logQueuePositions(all, before, await all.waiting(queue, runningMax), nowMs, id);
      return id;
    });
    runner?.wake();
    return { id };
  };
}

/** Checks the request against everything that is known. */
class Submitter {
  constructor(private readonly executors: Executors) {}

  async managed(sql: Sql, request: SubmitTrainingJobRequest) {
    const { organizationId, datasetId, modelName, modelVersion, modelFramework, tags: labels } = request;
    const modelType = kindOf(request.modelType);
    if (!modelType) {
      throw new SvcError(
        "invalid_argument",
        `found model_type ${request.modelType}, wanted a published value`,
      );
    }
    await this.#checkModel(sql, organizationId, modelName, modelVersion);
    checkLabels(labels);
    const learning = checkLearning(request);
    const images = await selectImages(sql, organizationId, datasetId);
    const counts = checkImages(modelType, labels, images);
    const framework = frameworkOf(modelFramework);
    if (framework !== "" && framework !== "onnx") {
      const found = `found model_framework ${
        framework || modelFramework
      }, which this control plane does not train`;
      throw new SvcError("unimplemented", `${found}, wanted onnx (or a custom training script)`);
    }
    if (!this.executors.managed) {
      throw new SvcError("unimplemented", "this control plane trains no models");
    }
    const job = {
      organizationId,
      datasetId,
      modelName,
      modelVersion,
      modelType,
      modelFramework: "onnx",
      labels,
      learning,
    };
    return { job, images, notes: [`the dataset has ${described(counts)}`] };
  }

  async custom(sql: Sql, request: SubmitCustomTrainingJobRequest, mine: readonly string[]) {
    const { organizationId, datasetId, modelName, modelVersion, registryItemId } = request;
    await this.#checkModel(sql, organizationId, modelName, modelVersion);
    checkArguments(request.arguments);
    const script = await findScript(sql, request);
    const visible = script.item.visibility !== "private" || mine.includes(script.item.organizationId);
    if (!visible) throw new SvcError("not_found", `there is no package "${registryItemId}"`);
    const images = await selectImages(sql, organizationId, datasetId);
    if (images.length === 0) {
      throw new SvcError("failed_precondition", "the dataset has no images, wanted some");
    }
    const { metadata, version, sha256 } = script;
    const runsIn = await this.#container(
      sql,
      organizationId,
      request.containerId || request.containerVersion,
    );
    const job: NewJob = {
      organizationId,
      datasetId,
      modelName,
      modelVersion,
      modelType: MODEL_KINDS.find((kind) => kind === String(metadata.model_type).toLowerCase()) ?? "",
      modelFramework: String(metadata.model_framework ?? "").toLowerCase(),
      labels: [],
      script: { id: registryItemId, version, sha256, arguments: { ...request.arguments }, ...runsIn },
    };
    const notes = [
      `script "${registryItemId}", version "${version}", in ${runsIn.image ?? runsIn.container}`,
      `the dataset has ${images.length} images`,
    ];
    return { job, images, notes };
  }

  /** The version must be new; whether another job makes it is decided when this one is accepted. */
  async #checkModel(sql: Sql, organizationId: string, name: string, version: string): Promise<void> {
    checkNamed(name, version, { nameField: "model_name", versionField: "model_version" });
    const packages = new Packages(sql);
    const item = await packages.itemIfAny(`${organizationId}/${name}`);
    if (item && item.kind !== "ml_model") {
      throw new SvcError(
        "already_exists",
        `model_name: there is a ${item.kind} "${name}" already, wanted a name for a model`,
      );
    }
    if (await packages.has(organizationId, { name, version, kind: "ml_model" })) {
      throw new SvcError(
        "already_exists",
        `model "${name}" has version "${version}" already, wanted a new model_version`,
      );
    }
  }

  /** The environment of a script: one of the executor's, or a container of its organization. */
  async #container(
    sql: Sql,
    organizationId: string,
    key: string,
  ): Promise<Pick<JobScript, "container" | "image">> {
    const known = this.executors.custom?.environments ?? [];
    const found = key === "" ? known[0] : known.find((one) => one.key === key);
    if (found) return { container: found.key };
    if (known.length === 0) {
      throw new SvcError(
        "unimplemented",
        this.executors.noScripts ?? "this control plane runs no training scripts",
      );
    }
    const own = await new TrainingContainers(sql).find(key);
    if (own?.organizationId === organizationId) {
      requireAllowed(this.executors, own.imageUri);
      return { container: own.id, image: own.imageUri };
    }
    const wanted = known.map((one) => one.key).join(", ");
    throw new SvcError(
      "invalid_argument",
      `found container_version "${key}", wanted one of ${wanted}, or the id of one of the organization's own`,
    );
  }
}

async function findScript(
  sql: Sql,
  { registryItemId: id, registryItemVersion: version }: SubmitCustomTrainingJobRequest,
): Promise<Package> {
  if (id === "") {
    throw new SvcError("invalid_argument", "registry_item_id is empty, wanted the id of a training script");
  }
  splitId(id);
  if (version === "") {
    const wanted = 'a version of the training script, or "latest"';
    throw new SvcError("invalid_argument", `registry_item_version is empty, wanted ${wanted}`);
  }
  const found = await new Packages(sql).find(id, version);
  if (found.item.kind === "ml_training") return found;
  throw new SvcError("invalid_argument", `"${id}" is a ${found.item.kind}, wanted an ml_training script`);
}

async function selectImages(sql: Sql, organizationId: string, id: string): Promise<readonly DatasetImage[]> {
  if (id === "") throw new SvcError("invalid_argument", "dataset_id is empty, wanted the id of a dataset");
  const datasets = new Datasets(sql);
  const dataset = await datasets.get(id);
  if (dataset.organizationId !== organizationId) {
    throw new SvcError("not_found", `there is no dataset "${id}"`);
  }
  if (dataset.type === "images") return await datasets.snapshot(id);
  throw new SvcError(
    "failed_precondition",
    `dataset "${dataset.name}" contains sequences, wanted a dataset of images`,
  );
}

const STATUS_OF = {
  pending: TrainingStatus.PENDING,
  in_progress: TrainingStatus.IN_PROGRESS,
  canceling: TrainingStatus.CANCELING,
  completed: TrainingStatus.COMPLETED,
  failed: TrainingStatus.FAILED,
  canceled: TrainingStatus.CANCELED,
} as const;

/** Kinds and frameworks are stored under their published names, in lower case. */
function kindOf(type: ModelType): ModelKind | undefined {
  return MODEL_KINDS.find((kind) => kind.toUpperCase() === ModelType[type]);
}

function frameworkOf(framework: ModelFramework): string {
  return framework === ModelFramework.UNSPECIFIED
    ? ""
    : ModelFramework[framework]?.toLowerCase() ?? "unknown";
}

function metadataOf(job: TrainingJob): MessageInitShape<typeof TrainingJobMetadataSchema> {
  const { error, script, startedMs, endedMs } = job;
  return {
    id: job.id,
    datasetId: job.datasetId,
    organizationId: job.organizationId,
    modelName: job.modelName,
    modelVersion: job.modelVersion,
    modelType: ModelType[job.modelType.toUpperCase() as keyof typeof ModelType] ?? ModelType.UNSPECIFIED,
    modelFramework: ModelFramework[job.modelFramework.toUpperCase() as keyof typeof ModelFramework] ??
      ModelFramework.UNSPECIFIED,
    isCustomJob: script !== undefined,
    registryItemId: script?.id,
    registryItemVersion: script?.version,
    arguments: script?.arguments,
    containerVersion: script?.container,
    containerId: script?.container,
    status: STATUS_OF[job.state],
    errorStatus: error && { code: CODES[error.code], message: error.message },
    createdOn: toTimestamp(job.createdMs),
    lastModified: toTimestamp(job.modifiedMs),
    trainingStarted: startedMs === undefined ? undefined : toTimestamp(startedMs),
    trainingEnded: endedMs === undefined ? undefined : toTimestamp(endedMs),
    syncedModelId: job.modelId,
    tags: [...job.labels],
    ...job.learning,
  };
}
