/**
 * The commands that submit jobs: `submit` with a type of model, `submit-custom` with a script of your own.
 *
 * Missing flags get a value if there is no doubt, and the command reports it: the only dataset, all labels in it, a new
 * version.
 */

import {
  SubmitCustomTrainingJobRequestSchema,
  SubmitTrainingJobRequestSchema,
} from "../../proto/gen/ml_training_pb.ts";
import type { Dataset } from "../../proto/gen/dataset_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { isObject, type Problem } from "../../lib/base/schema/schema.ts";
import { LEARNING, USUAL_HOLDOUT_PERCENT } from "../../lib/learn/learning.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import {
  type MlTrainingClient,
  ModelFramework,
  ModelType,
  parseFramework,
  parseModelType,
  spelled,
  spellingsOf,
  type TrainingJobMetadata,
  TrainingStatus,
} from "../../lib/cloud_client/training_client.ts";
import { create, toJson } from "../../lib/wire/rpc/proto.ts";
import type { Flag, Values } from "../flags.ts";
import { facts } from "../table.ts";
import {
  commaWords,
  ML_EXIT,
  type MlCommand,
  mlCommand,
  newVersion,
  packageName,
  pairsOf,
} from "./command.ts";
import { useEmbedded } from "./embedded.ts";
import { detachable, followJob, tellEnd } from "./follow.ts";
import { printJob, TIMEOUT } from "./jobs.ts";
import { fetchImages, findDataset, onlyScript } from "./lookup.ts";
import { describePreflight, labelsIn, preflight } from "./data/preflight.ts";
import { removeScript, SCRIPT_FLAGS, scriptNameOf, uploadScript } from "./scripts/scripts.ts";
import type { MlCommandContext } from "./command_context.ts";

const DATASET = [
  {
    name: "dataset-id",
    type: "string",
    default: "",
    value: "DATASET",
    help: "The dataset to train on, by id or name; the only one by default.",
  },
  { name: "dataset", type: "string", default: "", value: "DATASET", help: "The same as --dataset-id." },
] as const satisfies readonly Flag[];
const MODEL = [
  {
    name: "model-name",
    type: "string",
    default: "",
    value: "NAME",
    help: "The model's name; by default the dataset's.",
  },
  {
    name: "model-version",
    type: "string",
    default: "",
    value: "VERSION",
    help: "A version that the model does not have yet; by default the time.",
  },
] as const satisfies readonly Flag[];
const THEN = [
  { name: "wait", type: "bool", default: false, help: "Wait until the job has ended." },
  { name: "follow", short: "f", type: "bool", default: false, help: "Wait, and show its log." },
  TIMEOUT,
  { name: "dry-run", type: "bool", default: false, help: "Only report what would be submitted." },
  {
    name: "if-not-exists",
    type: "bool",
    default: false,
    help: "If this version was submitted already with the same inputs, use that job.",
  },
] as const satisfies readonly Flag[];

interface ThenFlags {
  readonly wait: boolean;
  readonly follow: boolean;
  readonly timeoutMs: number;
  readonly ifNotExists: boolean;
}

export const MODEL_TYPE = {
  name: "model-type",
  type: "string",
  default: "",
  value: "TYPE",
  help: `${spellingsOf(ModelType).join(", ")}, or the published names of these.`,
} as const;
export const TAGS_FLAG = [
  {
    name: "tags",
    type: "list",
    default: [],
    value: "LABEL",
    help: 'Labels to learn, separated by commas ("\\," in a label); by default all labels in the dataset.',
  },
  { name: "labels", type: "list", default: [], value: "LABEL", help: "The same as --tags." },
] as const satisfies readonly Flag[];

const { epochs: EPOCHS, seed: SEED, holdoutPercent: HOLDOUT } = LEARNING;
/** The flags are texts, because no number stands for a missing value. */
const LEARNED = [
  {
    name: "epochs",
    type: "string",
    default: "",
    value: "N",
    help:
      `Maximum of epochs, ${EPOCHS.min} to ${EPOCHS.max}; by default it depends on the number of images. ` +
      "Only svc-cloud supports it, --seed and --holdout.",
  },
  {
    name: "seed",
    type: "string",
    default: "",
    value: "N",
    help: "The same seed, images and labels give the same model; by default 1.",
  },
  {
    name: "holdout",
    type: "string",
    default: "",
    value: "PERCENT",
    help: `Percentage of the images to hold back for measuring, ${HOLDOUT.min} to ${HOLDOUT.max}; ` +
      `by default ${USUAL_HOLDOUT_PERCENT}.`,
  },
] as const satisfies readonly Flag[];

const MANAGED = [
  MODEL_TYPE,
  ...DATASET,
  ...TAGS_FLAG,
  ...LEARNED,
  ...MODEL,
  {
    name: "framework",
    type: "string",
    default: "",
    value: "FRAMEWORK",
    help: `The model's framework: ${
      spellingsOf(ModelFramework).join(", ")
    }; by default the control plane chooses.`,
  },
  ...THEN,
  {
    name: "embedded",
    type: "bool",
    default: false,
    help: "Use a control plane on this computer, and start one if none is running.",
  },
] as const satisfies readonly Flag[];
const CUSTOM = [
  ...DATASET,
  ...MODEL,
  ...SCRIPT_FLAGS,
  {
    name: "arg",
    type: "list",
    default: [],
    value: "KEY=VALUE",
    help: "An argument of the script, passed as --KEY=VALUE.",
  },
  { name: "args-file", type: "string", default: "", value: "FILE", help: "More arguments: a JSON object." },
  {
    name: "container-version",
    type: "string",
    default: "",
    value: "KEY",
    help: "The container to run it in; see svc-ml containers.",
  },
  ...THEN,
] as const satisfies readonly Flag[];

export const SUBMIT_COMMANDS: readonly MlCommand[] = [
  mlCommand(
    "submit",
    [],
    "Trains a model of a known type on a dataset.",
    MANAGED,
    (context, _, flags) => submitManaged(context, flags),
  ),
  mlCommand(
    "submit-custom",
    [],
    "Runs a training script on a dataset: one from the registry, or with --path a local one, which is uploaded first.",
    CUSTOM,
    (context, _, flags) => submitCustom(context, flags),
  ),
];

async function submitManaged(context: MlCommandContext, flags: Values<typeof MANAGED>): Promise<number> {
  if (flags.modelType === "") {
    const wanted = spellingsOf(ModelType).join(", ");
    throw new SvcError("invalid_argument", `--model-type is missing, wanted one of ${wanted}`);
  }
  const modelType = parseModelType(flags.modelType);
  const modelFramework = flags.framework === ""
    ? ModelFramework.UNSPECIFIED
    : parseFramework(flags.framework);
  refuseDoubtful(flags);
  const given = commaWords(flags.tags, flags.labels);
  const learning = learningOf(flags);
  await chooseControlPlane(context, flags.embedded);
  const { jobs } = await context.services();
  const dataset = await findDataset(context, flags.datasetId || flags.dataset);
  const images = given.length > 0 && !flags.dryRun ? [] : await fetchImages(context, dataset.id);
  const tags = given.length > 0 ? given : labelsIn(modelType, images);
  const target = targetOf(context, dataset, flags);
  const { organizationId, datasetId, modelName, modelVersion } = target;
  if (flags.dryRun) {
    const request = create(SubmitTrainingJobRequestSchema, {
      ...target,
      modelType,
      modelFramework,
      tags,
      ...learning,
    });
    const check = preflight({ datasetId, type: modelType, labels: tags, images, unreadable: new Map() });
    context.print({ request: toJson(SubmitTrainingJobRequestSchema, request), check }, [
      ...facts([
        ["model", `${modelName}, version ${modelVersion}`],
        ["type", spelled(ModelType[modelType])],
        ["dataset", `${dataset.name} (${datasetId})`],
      ]),
      ...describePreflight(check),
    ]);
    context.note("nothing has been submitted");
    return check.ready ? ML_EXIT.ok : ML_EXIT.conflict;
  }
  if (tags.length === 0) {
    const found = `dataset "${dataset.name}" has ${images.length} images and no labels`;
    const type = spelled(ModelType[modelType]);
    throw new SvcError("failed_precondition", `${found} for ${type}; see svc-ml dataset check ${datasetId}`);
  }
  if (given.length === 0) context.note(`labels: ${tags.join(", ")}`);
  const same = (job: TrainingJobMetadata) =>
    differing([
      ["model type", ModelType[job.modelType], ModelType[modelType]],
      ["dataset", job.datasetId, datasetId],
      ["labels", [...job.tags].sort().join(", "), [...tags].sort().join(", ")],
      ["epochs", `${job.epochs ?? ""}`, `${learning.epochs ?? ""}`],
      ["seed", `${job.seed ?? ""}`, `${learning.seed ?? ""}`],
      ["holdout", `${job.holdoutPercent ?? ""}`, `${learning.holdoutPercent ?? ""}`],
    ]);
  return await submitted(context, jobs, target, flags, same, () => {
    const options = { modelFramework, ...learning, ...context.limits };
    return jobs.submitTrainingJob(
      organizationId,
      datasetId,
      modelName,
      modelVersion,
      modelType,
      tags,
      options,
    );
  });
}

function learningOf({ epochs, seed, holdout }: Values<typeof MANAGED>) {
  return {
    epochs: numberIn("epochs", epochs, EPOCHS),
    seed: numberIn("seed", seed, SEED),
    holdoutPercent: numberIn("holdout", holdout, HOLDOUT),
  };
}

/** The whole number of a flag; `undefined` if it is missing. */
function numberIn(
  flag: string,
  text: string,
  { min, max }: { min: number; max: number },
): number | undefined {
  if (text === "") return undefined;
  const found = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
  if (found >= min && found <= max) return found;
  const wanted = `wanted a whole number from ${min} to ${max}`;
  throw new SvcError("invalid_argument", `--${flag}: found "${text}", ${wanted}`);
}

async function submitCustom(context: MlCommandContext, flags: Values<typeof CUSTOM>): Promise<number> {
  refuseDoubtful(flags);
  const given = { ...await argumentsIn(context, flags.argsFile), ...pairsOf("arg", flags.arg) };
  const { jobs } = await context.services();
  const dataset = await findDataset(context, flags.datasetId || flags.dataset);
  const target = targetOf(context, dataset, flags);
  const { organizationId, datasetId, modelName, modelVersion } = target;
  const { containerVersion } = flags;
  const scriptName = flags.scriptName ||
    (flags.path === "" ? await onlyScript(context) : scriptNameOf(context, flags.path));
  if (flags.scriptName === "") context.note(`script: ${scriptName}`);
  const stored = { id: scriptId(scriptName, organizationId), version: flags.scriptVersion || "latest" };
  if (flags.dryRun) {
    const request = create(SubmitCustomTrainingJobRequestSchema, {
      ...target,
      registryItemId: stored.id,
      registryItemVersion: stored.version,
      arguments: given,
      containerVersion,
    });
    context.print(
      { request: toJson(SubmitCustomTrainingJobRequestSchema, request) },
      facts([
        ["model", `${modelName}, version ${modelVersion}`],
        ["script", `${stored.id}, version ${stored.version}`],
        ["dataset", `${dataset.name} (${datasetId})`],
        ["arguments", Object.entries(given).map((pair) => pair.join("=")).join(" ")],
      ]),
    );
    context.note("nothing has been uploaded or submitted");
    return ML_EXIT.ok;
  }
  const same = (job: TrainingJobMetadata) =>
    differing([
      ["script", job.registryItemId, stored.id],
      ["dataset", job.datasetId, datasetId],
      ["arguments", JSON.stringify(sorted(job.arguments)), JSON.stringify(sorted(given))],
    ]);
  return await submitted(context, jobs, target, flags, same, async () => {
    const { id, version } = flags.path === ""
      ? stored
      : await uploadScript(context, organizationId, { ...flags, scriptName });
    const options = { arguments: given, containerVersion, ...context.limits };
    try {
      return await jobs.submitCustomTrainingJob(
        organizationId,
        datasetId,
        id,
        version,
        modelName,
        modelVersion,
        options,
      );
    } catch (error) {
      // A failed submission leaves no script behind.
      if (flags.path !== "") await removeScript(context, id, version);
      throw error;
    }
  });
}

interface Target {
  readonly organizationId: string;
  readonly datasetId: string;
  readonly modelName: string;
  readonly modelVersion: string;
}

function targetOf(
  context: MlCommandContext,
  { id, name, organizationId }: Dataset,
  flags: { readonly modelName: string; readonly modelVersion: string },
): Target {
  return {
    organizationId,
    datasetId: id,
    modelName: flags.modelName || packageName(name, "model"),
    modelVersion: flags.modelVersion || newVersion(context.clock.nowMs()),
  };
}

type SubmitFlags = ThenFlags & { readonly modelVersion: string };

function refuseDoubtful({ ifNotExists, modelVersion, wait, follow, timeoutMs }: SubmitFlags): void {
  if (timeoutMs !== 0 && !wait && !follow) {
    throw new SvcError("invalid_argument", "--timeout needs --wait or --follow: else nothing is waited for");
  }
  if (!ifNotExists || modelVersion !== "") return;
  const problem = "--if-not-exists needs --model-version: without it every job makes a version of its own";
  throw new SvcError("invalid_argument", problem);
}

/** If no control plane is configured, the person may start one. */
async function chooseControlPlane(context: MlCommandContext, embedded: boolean): Promise<void> {
  if (embedded) return await useEmbedded(context);
  const { terminal } = context.context;
  if (!terminal.input || !terminal.errors || await context.account()) return;
  context.note(
    "No control plane is configured. One of your own can run on this computer, with an example in it.",
  );
  const answer = context.context.ask("Start it? [y/N] ") ?? "";
  if (/^y(es)?$/i.test(answer.trim())) await useEmbedded(context);
}

/** Submits, unless the job exists and that is allowed; then does the follow-up work. */
async function submitted(
  context: MlCommandContext,
  jobs: MlTrainingClient,
  target: Target,
  flags: ThenFlags,
  differs: (job: TrainingJobMetadata) => string | undefined,
  submit: () => Promise<string>,
): Promise<number> {
  const existing = () => flags.ifNotExists ? earlier(context, jobs, target, differs) : undefined;
  let id = await existing();
  if (id !== undefined) context.note("this version has been submitted already");
  else {
    id = await submit().catch(async (error) => {
      // Another submission was quicker.
      const found = SvcError.from(error).code === "already_exists" ? await existing() : undefined;
      if (found === undefined) throw error;
      return found;
    });
  }
  const { modelName, modelVersion } = target;
  context.print({ id, modelName, modelVersion }, [id]);
  if (!flags.wait && !flags.follow) {
    context.note(`model ${modelName}, version ${modelVersion}; follow it with: svc-ml logs -f ${id}`);
    return ML_EXIT.ok;
  }
  const job = id;
  return await detachable(context, job, async () => {
    const ended = await followJob(context, jobs, job, { logs: flags.follow, timeoutMs: flags.timeoutMs });
    await printJob(context, ended, flags.follow);
    return tellEnd(context, ended);
  });
}

/** The job that makes this version of the model, unless it failed. Throws if its inputs differ. */
async function earlier(
  context: MlCommandContext,
  jobs: MlTrainingClient,
  { organizationId, modelName, modelVersion }: Target,
  differs: (job: TrainingJobMetadata) => string | undefined,
): Promise<string | undefined> {
  const all = await jobs.listTrainingJobs(organizationId, TrainingStatus.UNSPECIFIED, context.limits);
  const over = [TrainingStatus.FAILED, TrainingStatus.CANCELED, TrainingStatus.CANCELING];
  const found = all.find((job) =>
    job.modelName === modelName && job.modelVersion === modelVersion && !over.includes(job.status)
  );
  const difference = found && differs(found);
  if (difference === undefined) return found?.id;
  const problem = `version "${modelVersion}" of model "${modelName}" is made by training job ${
    found!.id
  } with other inputs`;
  throw new SvcError("already_exists", `${problem}: ${difference}; choose another version`);
}

function differing(
  pairs: readonly (readonly [what: string, found: string, wanted: string])[],
): string | undefined {
  const different = pairs.filter(([, found, wanted]) => found !== wanted);
  if (different.length === 0) return undefined;
  return different.map(([what, found, wanted]) => `${what} ${found || "none"}, not ${wanted || "none"}`).join(
    "; ",
  );
}

function sorted(pairs: { readonly [key: string]: string }): [string, string][] {
  return Object.entries(pairs).sort(([a], [b]) => a < b ? -1 : 1);
}

/** `name` of your own organization, or `org:name`. */
function scriptId(name: string, organizationId: string): string {
  return name.includes(":") ? name : `${organizationId}:${name}`;
}

async function argumentsIn(context: MlCommandContext, file: string): Promise<{ [key: string]: string }> {
  if (file === "") return {};
  const problems: Problem[] = [];
  const json = parseJsonc(await context.host.readFile(file), { file, problems });
  for (const { path, message } of problems) context.note(`warning: ${file}: ${path}: ${message}`);
  if (!isObject(json)) {
    throw new SvcError("invalid_argument", `${file}: wanted an object such as {"num_epochs": 20}`);
  }
  const pairs = Object.entries(json).map(([key, value]) => {
    return `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`;
  });
  return pairsOf("args-file", pairs);
}
