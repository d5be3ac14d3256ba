/**
 * Finds in the control plane what a command line names: jobs, datasets, their images, parts.
 */

import { Order } from "../../proto/gen/data_pb.ts";
import type { Dataset } from "../../proto/gen/dataset_pb.ts";
import { type Package, PackageType } from "../../proto/gen/packages_pb.ts";
import { toMs } from "../../lib/api/shared/time.ts";
import { type Code, SvcError } from "../../lib/base/error.ts";
import type { DatasetImage } from "../../lib/cloud_client/dataset.ts";
import { type TrainingJobMetadata, TrainingStatus } from "../../lib/cloud_client/training_client.ts";
import type { JsonObject } from "../../lib/wire/rpc/proto.ts";
import { imageOf } from "./data/preflight.ts";
import { didYouMean } from "../../lib/base/schema/suggest.ts";
import { namedOne, onlyOf } from "../lookup.ts";
import { type Column, timeText } from "../table.ts";
import type { MlCommandContext } from "./command_context.ts";

const PAGE_IMAGES = 100n;
const UNSEEN: readonly Code[] = ["not_found", "permission_denied", "unimplemented"];
/** Taken as it is: the list of a large fleet ends early. */
const WHOLE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** Answers after which ids are shown without names; a control plane may leave out the organization of a job. */
const NAMELESS: readonly Code[] = [...UNSEEN, "invalid_argument"];

/** The dataset with an id, a unique beginning of it, or a name; for an empty text, the only one. */
export async function findDataset(context: MlCommandContext, wanted: string): Promise<Dataset> {
  const { datasets } = await context.services();
  const organizationId = await context.organization();
  const all = (await datasets.listDatasetsByOrganizationID({ organizationId }, context.limits)).datasets;
  if (wanted !== "") return namedOne("dataset", wanted, all);
  const only = onlyOf(all);
  if (only) return only;
  if (all.length === 0) {
    throw new SvcError("not_found", "there is no dataset yet: make one with svc-ml dataset create NAME");
  }
  const tell = `tell which one with --dataset: ${all.map(({ name }) => name).join(", ")}`;
  throw new SvcError("invalid_argument", `there are ${all.length} datasets: ${tell}`);
}

/** The job with an id, a unique beginning of it, the version of its model, or the model's name. */
export async function findJob(context: MlCommandContext, wanted: string): Promise<TrainingJobMetadata> {
  const { jobs } = await context.services();
  try {
    return await jobs.getTrainingJob(wanted, context.limits);
  } catch (error) {
    if (SvcError.from(error).code !== "not_found") throw error;
  }
  const organizationId = await context.organization();
  const all = await jobs.listTrainingJobs(organizationId, TrainingStatus.UNSPECIFIED, context.limits);
  return namedOne("training job", wanted, all.map(nameableJob));
}

/** A job has no name: people know it by its model and that one's version. */
function nameableJob(job: TrainingJobMetadata) {
  const { modelName, modelVersion } = job;
  return { ...job, name: `${modelName}/${modelVersion}`, also: [modelVersion, modelName] };
}

/** The names of organizations, and of the datasets of one of them, by their ids, as far as the caller may see them. */
export async function fetchNames(
  context: MlCommandContext,
  organizationId: string,
): Promise<ReadonlyMap<string, string>> {
  const { app, datasets } = await context.services();
  try {
    const { organizations } = await app.listOrganizations({}, context.limits);
    const all = (await datasets.listDatasetsByOrganizationID({ organizationId }, context.limits)).datasets;
    return new Map([...organizations, ...all].map(({ id, name }) => [id, name]));
  } catch (error) {
    context.signal.throwIfAborted();
    if (!NAMELESS.includes(SvcError.from(error).code)) throw error;
    return new Map();
  }
}

/** The same for JSON alone: tables have no place for them. */
export async function jsonNames(context: MlCommandContext): Promise<ReadonlyMap<string, string>> {
  return context.json ? await fetchNames(context, await context.organization()) : new Map();
}

/** `shapes (dataset-1)`, or the id alone without a name. */
export function withName(id: string, names: ReadonlyMap<string, string>): string {
  const name = names.get(id);
  return name === undefined || name === "" || id === "" ? id : `${name} (${id})`;
}

/** Packages of a type, of the organization or with a name, the newest first. */
export async function fetchPackages(
  context: MlCommandContext,
  type: PackageType,
  name: string,
): Promise<Package[]> {
  const { packages } = await context.services();
  const request = { organizationId: await context.organization(), name, type };
  const found = (await packages.listPackages(request, context.limits)).packages;
  if (name !== "" && found.length === 0) {
    const what = type === PackageType.ML_MODEL ? "model" : "training script";
    const others = (await packages.listPackages({ ...request, name: "" }, context.limits)).packages;
    const hint = didYouMean(name, new Set(others.map(({ info }) => info?.name ?? "")));
    throw new SvcError("not_found", `there is no ${what} "${name}" in this organization${hint}`);
  }
  return found.sort((a, b) => toMs(b.createdOn) - toMs(a.createdOn));
}

export const PACKAGE_COLUMNS: readonly Column[] = [
  { heading: "NAME", cutTo: 12 },
  { heading: "VERSION", cutTo: 12 },
  { heading: "TYPE", cutTo: 12, rank: 2 },
  { heading: "FRAMEWORK", cutTo: 10, rank: 5 },
  { heading: "CREATED (UTC)", rank: 1 },
];

/** A package in a table: name, version, the model's stage or quality, and creation time. */
export function packageCells({ info, createdOn }: Package): string[] {
  const metadata: JsonObject = info?.metadata ?? {};
  const word = (key: string) => typeof metadata[key] === "string" ? metadata[key].replaceAll("_", "-") : "-";
  return [
    info?.name ?? "",
    info?.version ?? "",
    word("model_type"),
    word("model_framework"),
    timeText(createdOn),
  ];
}

/** The model that a job has made; `undefined` if there is none, or none any more. */
export async function fetchModel(
  context: MlCommandContext,
  { syncedModelId: id, modelVersion: version, status }: TrainingJobMetadata,
): Promise<Package | undefined> {
  if (status !== TrainingStatus.COMPLETED || id === "") return undefined;
  const { packages } = await context.services();
  try {
    const request = { id, version, type: PackageType.ML_MODEL };
    return (await packages.getPackage(request, context.limits)).package;
  } catch (error) {
    // Whoever may see the job may lack the right to see its model.
    if (UNSEEN.includes(SvcError.from(error).code)) return undefined;
    throw error;
  }
}

/** The name of the only training script of the organization. */
export async function onlyScript(context: MlCommandContext): Promise<string> {
  const all = await fetchPackages(context, PackageType.ML_TRAINING, "");
  const names = [...new Set(all.map(({ info }) => info?.name ?? ""))].sort();
  const only = onlyOf(names);
  if (only !== undefined) return only;

  const wanted = names.length === 0
    ? "there is no training script yet: --path FOLDER uploads one, or name that of another organization with " +
      "--script-name org:name"
    : `there are ${names.length} training scripts: tell which one with --script-name: ${names.join(", ")}`;
  throw new SvcError(names.length === 0 ? "not_found" : "invalid_argument", wanted);
}

/** The images in a dataset without their contents, sorted by age, the oldest first, then by id. */
export async function fetchImages(context: MlCommandContext, datasetId: string): Promise<DatasetImage[]> {
  const { data } = await context.services();
  const images: DatasetImage[] = [];
  for (let last = "";;) {
    const dataRequest = { filter: { datasetId }, limit: PAGE_IMAGES, last, sortOrder: Order.ASCENDING };
    const page = await data.binaryDataByFilter({ dataRequest, includeBinary: false }, context.limits);
    images.push(...page.data.map(imageOf));
    if (page.data.length === 0 || page.last === "" || page.last === last) break;
    last = page.last;
  }
  return images.sort((a, b) => a.capturedMs - b.capturedMs || Number(a.id > b.id) - Number(a.id < b.id));
}

/**
 * The part that uploads name as their origin: by its id, a unique beginning of it, its name or its machine's name;
 * without a word the only machine's, or none.
 */
export async function findPart(context: MlCommandContext, wanted: string): Promise<string> {
  if (WHOLE_ID.test(wanted)) return wanted;
  const all = await fetchParts(context).catch((error) => {
    // A key that may upload for one part need not see the machines; then only an id helps.
    if (wanted !== "" && UNSEEN.includes(SvcError.from(error).code)) return undefined;
    throw error;
  });
  if (all === undefined) return wanted;
  if (wanted !== "") return namedOne("part", wanted, all).id;
  const machines = new Set(all.map(({ machine }) => machine));
  const part = machines.size === 1 ? all.find(({ isMain }) => isMain) ?? all[0] : undefined;
  return part?.id ?? "";
}

async function fetchParts(context: MlCommandContext) {
  const { app } = await context.services();
  const organizationId = await context.organization();
  const { locationSummaries } = await app.listMachineSummaries({ organizationId }, context.limits);
  return locationSummaries.flatMap((location) => location.machineSummaries).flatMap((machine) =>
    machine.partSummaries.map(({ partId, partName, isMainPart }) => ({
      id: partId,
      name: partName,
      isMain: isMainPart,
      machine,
      also: isMainPart ? [machine.machineName, machine.machineId] : [],
    }))
  );
}
