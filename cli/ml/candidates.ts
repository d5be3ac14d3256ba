/**
 * Completions of `svc-ml` command lines beyond the table of commands: spellings of the wire, and entries of the control
 * plane.
 */

import {
  ModelFramework,
  ModelType,
  spellingsOf,
  statusName,
  TrainingStatus,
} from "../../lib/cloud_client/training_client.ts";
import { PackageType } from "../../proto/gen/packages_pb.ts";
import type { Blank, Candidate } from "../command.ts";
import { FORMAT_NAMES } from "./data/import.ts";
import { type CommonValues, MlCommandContext, type MlProgramContext } from "./command_context.ts";

/** Time limit of a lookup: a person waits for the completion. */
const LOOKUP_MS = 2_000;

/** The candidates for a blank. */
export async function mlCandidates(
  program: MlProgramContext,
  values: CommonValues,
  { placeholder }: Blank,
): Promise<readonly Candidate[]> {
  const context = new MlCommandContext(program, { ...values, output: "table" }, new AbortController().signal);
  try {
    return await candidatesIn(context, placeholder);
  } finally {
    context.close();
  }
}

async function candidatesIn(context: MlCommandContext, placeholder: string): Promise<readonly Candidate[]> {
  const plain = (words: readonly string[]) => words.map((word) => ({ word }));
  switch (placeholder) {
    case "TYPE":
      return plain(spellingsOf(ModelType));
    case "FRAMEWORK":
      return plain(spellingsOf(ModelFramework));
    case "STATUS":
      return plain(spellingsOf(TrainingStatus));
    case "ORDER":
      return plain(["created", "-created", "ended", "-ended", "status", "-status", "model", "-model"]);
    case "LEVEL":
      return plain(["debug", "info", "warn", "error"]);
    case "FORM":
      return plain(["table", "json"]);
    case "FORMAT":
      return plain(FORMAT_NAMES);
    case "WHO":
      return plain(["private", "public", "public-unlisted"]);
    case "PROFILE":
      return plain(Object.keys((await context.profiles.read()).profiles));
    default:
      return await lookedUp(context, placeholder);
  }
}

/** Entries of the control plane. Throws if it does not answer. */
async function lookedUp(context: MlCommandContext, placeholder: string): Promise<Candidate[]> {
  const limits = { timeoutMs: LOOKUP_MS, ...context.limits };
  if (!["JOB", "DATASET", "MODEL", "ORGANIZATION"].includes(placeholder)) return [];
  const { jobs, datasets, packages, app } = await context.services();
  if (placeholder === "ORGANIZATION") {
    return (await app.listOrganizations({}, limits)).organizations.map(({ id, name }) => ({
      word: id,
      about: name,
    }));
  }
  const organizationId = await context.organization();
  if (placeholder === "JOB") {
    const all = await jobs.listTrainingJobs(organizationId, TrainingStatus.UNSPECIFIED, limits);
    return all.map(({ id, modelName, modelVersion, status }) => ({
      word: id,
      about: `${modelName} ${modelVersion} ${statusName(status)}`,
    }));
  }
  if (placeholder === "DATASET") {
    const all = (await datasets.listDatasetsByOrganizationID({ organizationId }, limits)).datasets;
    return all.map(({ id, name }) => ({ word: name.includes(" ") ? id : name, about: id }));
  }
  const all = (await packages.listPackages({ organizationId, type: PackageType.ML_MODEL }, limits)).packages;
  return [...new Set(all.map(({ info }) => info?.name ?? ""))].map((word) => ({ word }));
}
