/**
 * The work on configurations that a thread of its own does: parsing, resolving fragments, checking.
 *
 * A thread works on one job at a time. It asks the main thread for the texts of fragments, and reads nothing itself.
 */

import { type Code, messageOf, SvcError } from "../../base/error.ts";
import { isObject, type Json, type JsonObject, type Problem } from "../../base/schema/schema.ts";
import { type ConditionJob, judge } from "../triggers/conditions.ts";
import { packagesIn, type PackageUse } from "./package_uses.ts";
import { type CollectorRetention, collectorsIn } from "../capture/retention_policies.ts";
import { asWarnings, isForMicrocontroller } from "./other_runtime.ts";
import {
  type FindFragments,
  type FragmentText,
  type FragmentVersion,
  type Resolution,
  resolve,
} from "./resolution.ts";
import { clipped, ResolutionBudget, type ResolutionLimits } from "./resolution_budget.ts";

/** Every problem of a machine's configuration; an unusable one has errors. */
export type Validate = (json: unknown) => Promise<readonly Problem[]>;

export interface ConfigJob {
  /**
   * `check`: everything that a machine would find in the configuration. `fragment`: only what concerns fragments.
   * `fill`: the configuration as the machine gets it. `find`: only the fragments in it.
   */
  readonly kind: "check" | "fragment" | "fill" | "find";
  readonly text: string;
  readonly limits: ResolutionLimits;
  /** The fragment whose content the configuration is. */
  readonly within?: string;
  /** Stars in place of the secrets of fragments. */
  readonly masked?: boolean;
  /** For `check`: what svc-server cannot run is a warning, because another runtime is to run it. */
  readonly forced?: boolean;
}

export interface ConfigResult extends Pick<Resolution, "problems" | "used" | "imports" | "secret"> {
  /** The configuration itself in its stored form. */
  readonly text: string;
  /** The configuration with its fragments filled in; for `fill`. */
  readonly config?: JsonObject;
  /** The items of the registry that the configuration names itself. */
  readonly packages: readonly PackageUse[];
  /** The settings of the agent with fragments filled in. */
  readonly agent?: Json;
  /** The triggers with fragments filled in. */
  readonly triggers?: Json;
  /** How long the data of its collectors is kept. */
  readonly collectors: readonly CollectorRetention[];
}

export type ConfigRequest =
  | { readonly job: ConfigJob }
  | { readonly judge: ConditionJob }
  /** Wants the JSON Schema of a machine's configuration. */
  | { readonly wantsSchema: true }
  | { readonly texts: readonly FragmentText[] };

export type ConfigAnswer =
  | { readonly ready: true }
  | { readonly wanted: readonly FragmentVersion[]; readonly lettersMax: number }
  | { readonly done: ConfigResult }
  | { readonly judged: readonly number[] }
  | { readonly schema: string }
  | { readonly code: Code; readonly message: string };

/** The parts of a thread's scope that this file uses. */
export interface ConfigScope {
  onmessage: ((event: { data: ConfigRequest }) => void) | null;
  postMessage(answer: ConfigAnswer): void;
}

const PROBLEMS_MAX = 1_000;
const MESSAGE_SHOWN = 1_000;

/** Answers jobs until the thread ends; errors are answers, too. `schema` makes the schema of a configuration. */
export function serveConfigJobs(scope: ConfigScope, validate: Validate, schema = noSchema): void {
  let texts: ((found: readonly FragmentText[]) => void) | undefined;
  const find = (wanted: readonly FragmentVersion[], lettersMax: number) => {
    const { promise, resolve } = Promise.withResolvers<readonly FragmentText[]>();
    texts = resolve;
    scope.postMessage({ wanted, lettersMax });
    return promise;
  };
  scope.onmessage = ({ data }) => {
    if ("texts" in data) return texts?.(data.texts);
    if ("judge" in data) return scope.postMessage(judged(data.judge));
    if ("wantsSchema" in data) {
      return void schema().then((made) => ({ schema: JSON.stringify(made) }), failureOf)
        .then((answer: ConfigAnswer) => scope.postMessage(answer));
    }
    workOn(data.job, find, validate).then(
      (done) => scope.postMessage({ done }),
      (thrown) => scope.postMessage(failureOf(thrown)),
    );
  };
  scope.postMessage({ ready: true });
}

function noSchema(): Promise<JsonObject> {
  return Promise.reject(
    new SvcError("unimplemented", "the checks of this control plane have no schema"),
  );
}

/** Does one job. */
export async function workOn(job: ConfigJob, find: FindFragments, validate: Validate): Promise<ConfigResult> {
  const json = parsedConfig(job.text);
  // Checks the depth first, because everything that follows recurses as deep as the document.
  new ResolutionBudget(job.limits).count(json);
  const { config, problems, ...found } = await resolve(json, find, {
    ...job,
    findOnly: job.kind === "find",
  });
  const judged = job.kind === "check" ? await validate(config) : [];
  const all = [...problems, ...job.forced || isForMicrocontroller(config) ? asWarnings(judged) : judged];
  return {
    text: JSON.stringify(json),
    problems: readable(all),
    ...found,
    config: job.kind === "fill" ? config : undefined,
    agent: config.agent,
    triggers: config.triggers,
    collectors: collectorsIn(config),
    packages: packagesIn(json),
  };
}

function judged(job: ConditionJob): ConfigAnswer {
  try {
    return { judged: judge(job) };
  } catch (thrown) {
    return failureOf(thrown);
  }
}

/** The object that a text holds. Throws `invalid_argument`. */
export function parsedConfig(text: string): JsonObject {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new SvcError("invalid_argument", `the configuration is not JSON: ${messageOf(cause)}`, { cause });
  }
  if (isObject(json)) return json as JsonObject;
  throw new SvcError(
    "invalid_argument",
    'the configuration is no object, wanted one such as {"components": []}',
  );
}

/** Errors first, each of a readable length. */
function readable(problems: readonly Problem[]): Problem[] {
  const sorted = problems.toSorted((a, b) =>
    Number(a.severity === "warning") - Number(b.severity === "warning")
  );
  return sorted.slice(0, PROBLEMS_MAX).map(({ severity, path, message }) => ({
    severity,
    path: path.length > MESSAGE_SHOWN ? clipped(path) : path,
    message: message.length > MESSAGE_SHOWN ? `${message.slice(0, MESSAGE_SHOWN)}…` : message,
  }));
}

function failureOf(thrown: unknown): ConfigAnswer {
  if (thrown instanceof SvcError) return { code: thrown.code, message: thrown.message };
  // A document can exceed the engine's stack or memory.
  return { code: "resource_exhausted", message: `the configuration cannot be read: ${messageOf(thrown)}` };
}
