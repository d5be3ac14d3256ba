/**
 * `module new`: creates a folder with a working module, with a stub of every method of its resource's type.
 */

import { basename, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { withPacked } from "../../../lib/base/native/packed.ts";
import { shellWord } from "../../../lib/base/escape.ts";
import type { Command } from "../../command.ts";
import { printResult } from "../../table.ts";
import { MODULE_PACKAGE } from "../../version.ts";
import { Interview } from "../first/interview.ts";
import { LANGUAGES, moduleFiles } from "./template.ts";
import { UsageError } from "../../flags.ts";
import type { ModuleContext } from "./module_context.ts";
import type { ModulePlan } from "./plan.ts";

/** The name becomes part of its models' names, whose letters are limited. */
const NAME = /^[a-zA-Z][\w-]{0,59}$/;
const NAMESPACE = /^[a-z0-9][a-z0-9-]{0,99}$/;
const API = /^[\w-]+:(?:component|service):[\w-]+$/;
/** What lives among the services when only its last word is given. */
const SERVICES = ["discovery", "mlmodel", "motion", "slam", "video", "vision", "world_state_store"];

const PACKAGE_FILES = ["mod.js", "mod.d.ts", "package.json", "LICENSE"];
const EXECUTABLE_MODE = 0o755;

export const NEW: Command<ModuleContext> = {
  words: "new",
  takes: ["[NAME]"],
  summary:
    "Creates a folder with a module that has one model, with a stub of every method of its type, a test and a " +
    "build script. Without NAME it asks.",
  flags: [
    {
      name: "language",
      type: "string",
      default: "typescript",
      value: "NAME",
      help:
        "typescript, which Deno and Node from 22.18 on run directly, javascript, for Node from 20 on, or python.",
    },
    {
      name: "namespace",
      type: "string",
      default: "example",
      value: "NAME",
      help: "The public name of the organization that shares it.",
    },
    {
      name: "api",
      type: "string",
      default: "rdk:component:sensor",
      value: "API",
      help: "The type of its resource, as in rdk:service:vision; a word such as motor is enough.",
    },
    {
      name: "model",
      type: "string",
      default: "",
      value: "NAME",
      help: "The last word of the model's name; by default that of the API.",
    },
    {
      name: "folder",
      type: "string",
      default: "",
      value: "PATH",
      help: "The folder to create; by default ./NAME.",
    },
  ],
  run: async ({ host, ask }, [name], values: Flags) => {
    const plan = name === undefined ? askedPlan(ask, host, values) : planOf(name, values);
    const made = resolve(host.cwd(), values.folder || plan.name);
    await make(host, made, plan);
    const entry = `{ "name": "${plan.name}", "executable_path": "${made}/run.sh" }`;
    printResult(host, values.json, { folder: made, program: `${made}/run.sh` }, [
      `made ${made}`,
      "",
      "Try it, and edit it while it runs:",
      "",
      `  cd ${shellWord(relative(host.cwd(), made))}`,
      "  svc-server -config machine.json -hot .",
      "",
      "For the file of another machine:",
      "",
      `  "modules": [${entry}]`,
    ]);
  },
};

interface Flags {
  readonly language: string;
  readonly namespace: string;
  readonly api: string;
  readonly model: string;
  readonly folder: string;
  readonly json: boolean;
}

function planOf(name: string, { language, namespace, api: given, model }: Flags): ModulePlan {
  for (const problem of [nameProblem(name), namespaceProblem(namespace), languageProblem(language)]) {
    if (problem !== undefined) throw new UsageError(problem);
  }
  const api = apiOf(given);
  const word = model || api.split(":").at(-1)!;
  const problem = apiProblem(api) ?? nameProblem(word);
  if (problem !== undefined) throw new UsageError(problem);
  return { name, namespace, api, model: word, extension: LANGUAGES[language]! };
}

function askedPlan(ask: ModuleContext["ask"], host: Host, flags: Flags): ModulePlan {
  const interview = new Interview({ ask, agrees: false, tell: (text) => host.writeError(`${text}\n`) });
  const name = interview.text("Name of the module", "", nameProblem);
  const language = interview.choice("Language", flags.language, Object.keys(LANGUAGES));
  const namespace = interview.text(
    "Namespace, the public name of your organization",
    flags.namespace,
    namespaceProblem,
  );
  const api = apiOf(interview.text("Type of its resource (motor, camera, vision, …)", "sensor", (answer) => {
    return apiProblem(apiOf(answer));
  }));
  const model = interview.text(
    "Last word of the model's name",
    flags.model || api.split(":").at(-1)!,
    nameProblem,
  );
  return { name, namespace, api, model, extension: LANGUAGES[language]! };
}

function apiOf(given: string): string {
  if (given.includes(":")) return given;
  const word = given.replace(/^ml_model$/, "mlmodel");
  return `rdk:${SERVICES.includes(word) ? "service" : "component"}:${word}`;
}

function apiProblem(api: string): string | undefined {
  return API.test(api)
    ? undefined
    : `"${api}" is not the name of an API, wanted one such as rdk:component:motor`;
}

function nameProblem(name: string): string | undefined {
  if (NAME.test(name)) return undefined;
  return `"${name}" cannot be the name of a module, wanted up to 60 letters, digits, "-" and "_", beginning with a letter`;
}

function namespaceProblem(namespace: string): string | undefined {
  return NAMESPACE.test(namespace)
    ? undefined
    : `"${namespace}" cannot be a namespace, wanted a-z, 0-9 and "-"`;
}

function languageProblem(language: string): string | undefined {
  if (Object.hasOwn(LANGUAGES, language)) return undefined;
  return `no module can be made in "${language}", wanted ${Object.keys(LANGUAGES).join(", ")}`;
}

async function make(host: Host, folder: string, plan: ModulePlan): Promise<void> {
  if (await host.stat(folder)) {
    throw new SvcError("already_exists", `cannot make a module in ${folder}: there is something already`);
  }
  const library = plan.extension === "py" ? [] : await libraryFiles(host);
  const types = library.find(([file]) => file === "mod.d.ts")?.[1] ?? "";
  const files = moduleFiles(plan, types);
  await host.makeFolder(library.length > 0 ? `${folder}/svc-module` : folder);
  for (const [file, text] of Object.entries(files)) {
    await host.writeFile(`${folder}/${file}`, text, { mode: file.endsWith(".sh") ? EXECUTABLE_MODE : 0o644 });
  }
  for (const [file, text] of library) {
    await host.writeFile(`${folder}/svc-module/${file}`, text, { mode: 0o644 });
  }
}

/** The library, from the build. */
async function libraryFiles(host: Host): Promise<[name: string, text: string][]> {
  const made = fileURLToPath(new URL(`../../../${MODULE_PACKAGE}`, import.meta.url));
  const filesOf = (folder: string) => readLibraryFiles(host, folder);
  return await withPacked(basename(MODULE_PACKAGE), filesOf) ?? await filesOf(made);
}

async function readLibraryFiles(host: Host, folder: string): Promise<[name: string, text: string][]> {
  return await Promise.all(PACKAGE_FILES.map(async (file): Promise<[string, string]> => {
    try {
      return [file, await host.readTextFile(join(folder, file))];
    } catch (cause) {
      const remedy = "run deno task module:package in the tree first";
      throw new SvcError("failed_precondition", `the library for modules is not made: ${remedy}`, { cause });
    }
  }));
}
