/**
 * The commands on submitted jobs: showing, following, canceling and deleting them.
 */

import {
  ListSupportedContainersResponseSchema,
  ListTrainingJobsResponseSchema,
  TrainingJobMetadataSchema,
} from "../../proto/gen/ml_training_pb.ts";
import { toMs } from "../../lib/api/shared/time.ts";
import {
  LogReader,
  ModelFramework,
  ModelType,
  parseStatus,
  spelled,
  statusName,
  type TrainingJobLogEntry,
  type TrainingJobMetadata,
  TrainingStatus,
} from "../../lib/cloud_client/training_client.ts";
import { create, type JsonObject, toJson } from "../../lib/wire/rpc/proto.ts";
import { type Column, facts, lengthText, timeText, withNames } from "../table.ts";
import { sinceMs } from "../flags.ts";
import { countOf, type MlCommand, mlCommand, unknownWord } from "./command.ts";
import { detachable, followJob, followLogs, printLogs, tellEnd } from "./follow.ts";
import { fetchModel, fetchNames, findJob, jsonNames, withName } from "./lookup.ts";
import { confusionLines, metricsText } from "./measured.ts";
import type { MlCommandContext } from "./command_context.ts";

export const TIMEOUT = {
  name: "timeout",
  type: "duration",
  default: 0,
  help: "Give up waiting after this long (exit code 124); the job continues. 0s waits without a limit.",
} as const;

const LEVELS = ["debug", "info", "warn", "error"];

const JOB_COLUMNS: readonly Column[] = [
  { heading: "ID", cutTo: 9 },
  { heading: "STATUS", isState: true },
  { heading: "MODEL", cutTo: 10 },
  { heading: "VERSION", cutTo: 10, rank: 1 },
  { heading: "TYPE", cutTo: 12, rank: 4 },
  { heading: "CREATED (UTC)", rank: 2 },
  { heading: "TOOK", rank: 3 },
];

/** The sort orders of jobs. */
const ORDERS: { readonly [name: string]: (a: TrainingJobMetadata, b: TrainingJobMetadata) => number } = {
  created: (a, b) => toMs(a.createdOn) - toMs(b.createdOn),
  ended: (a, b) => toMs(a.trainingEnded) - toMs(b.trainingEnded),
  status: (a, b) => a.status - b.status,
  model: (a, b) => compare(a.modelName, b.modelName) || compare(a.modelVersion, b.modelVersion),
};

const JOB_WORDS = "JOB is an id, its beginning, or the name or version of a model that only one job makes.";

export const JOB_COMMANDS: readonly MlCommand[] = [
  mlCommand("get", ["JOB"], `Shows a job in detail. ${JOB_WORDS}`, [], async (context, [wanted]) => {
    await printJob(context, await findJob(context, wanted));
  }),
  mlCommand(
    "list",
    [],
    "Lists the jobs of an organization.",
    [
      {
        name: "status",
        type: "string",
        default: "",
        value: "STATUS",
        help: "Only those in this status, such as in-progress (or running), completed, failed.",
      },
      { name: "limit", type: "int", default: 0, help: "Maximum number; 0 for all." },
      {
        name: "sort",
        type: "string",
        default: "-created",
        value: "ORDER",
        help: `By ${Object.keys(ORDERS).join(", ")}; with a dash in front, in reverse order.`,
      },
    ],
    async (context, _, { status, limit, sort }) => {
      const order = orderOf(sort);
      const count = countOf("limit", limit) || undefined;
      const wanted = status === "" ? TrainingStatus.UNSPECIFIED : parseStatus(status);
      const { jobs } = await context.services();
      const all = await jobs.listTrainingJobs(await context.organization(), wanted, context.limits);
      const shown = all.sort(order).slice(0, count);
      const message = create(ListTrainingJobsResponseSchema, { jobs: shown });
      context.listMessage(ListTrainingJobsResponseSchema, message, {
        columns: JOB_COLUMNS,
        rows: shown.map(jobRow),
        empty: status === ""
          ? "there is no training job yet: svc-ml submit --model-type TYPE begins one"
          : `no training job is ${spelled(statusName(wanted))}: svc-ml list shows all`,
      }, await jsonNames(context));
      if (shown.length < all.length) context.note(`${all.length - shown.length} more; see --limit`);
    },
  ),
  mlCommand("cancel", ["JOB"], "Cancels a job that has not ended.", [], async (context, [wanted]) => {
    const { jobs } = await context.services();
    const { id } = await findJob(context, wanted);
    await jobs.cancelTrainingJob(id, context.limits);
    context.print({ id }, [id]);
    context.note(`asked to be canceled; see it end with: svc-ml wait ${id}`);
  }),
  mlCommand(
    "delete",
    ["JOB"],
    "Removes a job that has ended; its model stays.",
    [],
    async (context, [wanted]) => {
      const { jobs } = await context.services();
      const { id } = await findJob(context, wanted);
      await jobs.deleteCompletedTrainingJob(id, context.limits);
      context.print({ id }, [id]);
    },
  ),
  mlCommand(
    "wait",
    ["JOB"],
    "Waits until a job has ended; the exit code is 0 if it completed, else 1.",
    [TIMEOUT],
    async (context, [wanted], { timeoutMs }) => {
      const { jobs } = await context.services();
      const { id } = await findJob(context, wanted);
      return await detachable(context, id, async () => {
        const job = await followJob(context, jobs, id, { logs: false, timeoutMs });
        await printJob(context, job);
        return tellEnd(context, job);
      });
    },
  ),
  mlCommand(
    "logs",
    ["JOB"],
    "Prints a job's log, oldest lines first.",
    [
      {
        name: "follow",
        short: "f",
        type: "bool",
        default: false,
        help: "Follow the log until the job has ended.",
      },
      { name: "tail", type: "int", default: 0, help: "Only this many of the last lines; 0 for all." },
      {
        name: "since",
        type: "string",
        default: "",
        value: "TIME",
        help: "Only newer lines: 10m, or 2024-01-02T03:04:05Z.",
      },
      {
        name: "level",
        type: "string",
        default: "",
        value: "LEVEL",
        help: `Only this level and worse: ${LEVELS.join(", ")}.`,
      },
    ],
    async (context, [wanted], { follow, tail, since, level }) => {
      const keep = filterOf(since, level, context.clock.nowMs());
      const last = countOf("tail", tail);
      const { jobs } = await context.services();
      const { id } = await findJob(context, wanted);
      const reader = new LogReader(jobs, id);
      return await detachable(context, id, async () => {
        const earlier = (await reader.next(context.limits)).filter(keep);
        printLogs(context, last > 0 ? earlier.slice(-last) : earlier);
        if (!follow) {
          if (earlier.length === 0) context.note(`training job ${id} has logged nothing of the kind yet`);
          return 0;
        }
        return tellEnd(context, await followLogs(context, jobs, id, reader, keep));
      });
    },
  ),
  mlCommand(
    "containers",
    [],
    "Lists the containers that training scripts may request.",
    [],
    async (context) => {
      const { jobs } = await context.services();
      const containerMap = await jobs.listSupportedContainers(context.limits);
      const rows = Object.entries(containerMap).sort(([a], [b]) => compare(a, b));
      const message = create(ListSupportedContainersResponseSchema, { containerMap });
      context.listMessage(ListSupportedContainersResponseSchema, message, {
        columns: [
          { heading: "KEY", cutTo: 12 },
          { heading: "FRAMEWORK", cutTo: 10, rank: 1 },
          { heading: "END OF LIFE (UTC)", rank: 2 },
          { heading: "DESCRIPTION", cutTo: 20, rank: 3 },
        ],
        rows: rows.map(([key, one]) => [key, one.framework, timeText(one.eol), one.description]),
        empty: "this control plane offers no container: its operator chooses them (svc-cloud serve --help)",
      });
    },
  ),
];

function orderOf(sort: string): (a: TrainingJobMetadata, b: TrainingJobMetadata) => number {
  const name = sort.replace(/^-/, "");
  const order = Object.hasOwn(ORDERS, name) ? ORDERS[name] : undefined;
  if (!order) throw unknownWord("sort", sort, Object.keys(ORDERS));
  return sort.startsWith("-") ? (a, b) => order(b, a) : order;
}

function filterOf(since: string, level: string, nowMs: number): (entry: TrainingJobLogEntry) => boolean {
  const fromMs = since === "" ? -Infinity : sinceMs("since", since, nowMs);
  const least = level === "" ? 0 : LEVELS.indexOf(level.toLowerCase());
  if (least < 0) throw unknownWord("level", level, LEVELS);
  // An unknown level counts as the worst, so that no line is lost.
  const rank = (name: string) => {
    const at = LEVELS.findIndex((one) => name.toLowerCase().startsWith(one));
    return at < 0 ? LEVELS.length : at;
  };
  return (entry) => toMs(entry.time) >= fromMs && (least === 0 || rank(entry.level) >= least);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function jobRow(job: TrainingJobMetadata): string[] {
  const { id, status, modelName, modelVersion, createdOn } = job;
  return [
    id,
    statusName(status),
    modelName,
    modelVersion,
    typeText(job),
    timeText(createdOn),
    tookText(job),
  ];
}

function typeText({ isCustomJob, modelType }: TrainingJobMetadata): string {
  return isCustomJob ? "custom" : spelled(ModelType[modelType] ?? "");
}

function tookText({ trainingStarted, trainingEnded }: TrainingJobMetadata): string {
  if (!trainingStarted || !trainingEnded) return "-";
  return lengthText(toMs(trainingEnded) - toMs(trainingStarted));
}

/**
 * Prints everything about a job and its model. As JSON it is the published message, with `metrics` and `confusion` as
 * the model's metadata has them; `quiet` prints no text.
 */
export async function printJob(
  context: MlCommandContext,
  job: TrainingJobMetadata,
  quiet = false,
): Promise<void> {
  if (quiet && !context.json) return;
  const model = await fetchModel(context, job);
  const { metrics, confusion } = model?.info?.metadata ?? {};
  const known = {
    ...metrics === undefined ? {} : { metrics },
    ...confusion === undefined ? {} : { confusion },
  };
  const json = context.json
    ? { ...toJson(TrainingJobMetadataSchema, job) as JsonObject, ...known }
    : undefined;
  const matrix = model ? confusionLines(model) : [];
  const names = await fetchNames(context, job.organizationId);
  context.print(withNames(json, names), [
    ...describeJob(job, names, model ? metricsText(model) : ""),
    ...matrix.length > 0 ? ["", ...matrix] : [],
  ]);
}

function describeJob(
  job: TrainingJobMetadata,
  names: ReadonlyMap<string, string>,
  measured: string,
): string[] {
  const number = (value: number | undefined, unit = "") => value === undefined ? "" : `${value}${unit}`;
  const optional = (instant: TrainingJobMetadata["createdOn"]) => instant ? timeText(instant) : "";
  return facts([
    ["id", job.id],
    ["status", statusName(job.status)],
    ["error", job.errorStatus?.message ?? ""],
    ["model", job.modelName],
    ["version", job.modelVersion],
    ["type", typeText(job)],
    ["framework", job.modelFramework ? spelled(ModelFramework[job.modelFramework]) : ""],
    ["dataset", withName(job.datasetId, names)],
    ["organization", withName(job.organizationId, names)],
    ["labels", job.tags.join(", ")],
    ["script", [job.registryItemId, job.registryItemVersion].filter(Boolean).join(" ")],
    ["arguments", Object.entries(job.arguments).map((pair) => pair.join("=")).join(" ")],
    ["container", job.containerVersion],
    ["epochs", number(job.epochs, " at most")],
    ["seed", number(job.seed)],
    ["holdout", number(job.holdoutPercent, " %")],
    ["created", optional(job.createdOn)],
    ["started", optional(job.trainingStarted)],
    ["ended", optional(job.trainingEnded)],
    ["took", tookText(job).replace("-", "")],
    ["package", job.syncedModelId],
    ["measured", measured],
  ]);
}
