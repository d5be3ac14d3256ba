/**
 * `module new`: creates a folder with a working module, for Deno and for Node.
 */

import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { withPacked } from "../../../lib/base/native/packed.ts";
import type { Command } from "../../command.ts";
import { printResult } from "../../table.ts";
import { MODULE_PACKAGE } from "../../version.ts";
import type { ModuleWorld } from "./program.ts";
import { LANGUAGES, moduleFiles } from "./template.ts";
import { UsageError } from "../../flags.ts";

/** The name becomes part of its models' names, whose letters are limited. */
const NAME = /^[a-zA-Z][\w-]{0,59}$/;

const PACKAGE_FILES = ["mod.js", "mod.d.ts", "package.json", "LICENSE"];

export const NEW: Command<ModuleWorld> = {
  words: "new",
  takes: ["NAME"],
  summary: "Creates a folder with a module that has one model, ready to run and to change.",
  flags: [
    {
      name: "language",
      type: "string",
      default: "typescript",
      value: "NAME",
      help: "typescript, which Deno and Node from 22.18 on run directly, or javascript, for Node from 20 on.",
    },
    {
      name: "folder",
      type: "string",
      default: "",
      value: "PATH",
      help: "The folder to create; by default ./NAME.",
    },
  ],
  run: async ({ host }, [name], { language, folder, json }: Values) => {
    if (!NAME.test(name)) {
      const wanted = 'wanted up to 60 letters, digits, "-" and "_", beginning with a letter';
      throw new UsageError(`"${name}" cannot be the name of a module, ${wanted}`);
    }
    const extension = Object.hasOwn(LANGUAGES, language) ? LANGUAGES[language] : undefined;
    if (extension === undefined) {
      const wanted = `wanted ${Object.keys(LANGUAGES).join(" or ")}`;
      throw new UsageError(`no module can be made in "${language}", ${wanted}`);
    }
    const made = resolve(host.cwd(), folder || name);
    await make(host, made, name, extension);
    const lines = [`made ${made}`, "", "List it in the file of a machine to run it:", ""];
    printResult(host, json, { folder: made, program: `${made}/run.sh` }, [
      ...lines,
      `  "modules": [{ "name": "${name}", "executable_path": "${made}/run.sh" }]`,
    ]);
  },
};

interface Values {
  readonly language: string;
  readonly folder: string;
  readonly json: boolean;
}

async function make(host: Host, folder: string, name: string, extension: string): Promise<void> {
  if (await host.stat(folder)) {
    throw new SvcError("already_exists", `cannot make a module in ${folder}: there is something already`);
  }
  const library = await libraryFiles(host);
  await host.makeFolder(`${folder}/svc-module`);
  for (const [file, text] of Object.entries(moduleFiles(name, extension))) {
    await host.writeFile(`${folder}/${file}`, text, { mode: file === "run.sh" ? 0o755 : 0o644 });
  }
  for (const [file, text] of library) {
    await host.writeFile(`${folder}/svc-module/${file}`, text, { mode: 0o644 });
  }
}

/** The library, from the build. */
async function libraryFiles(host: Host): Promise<[name: string, text: string][]> {
  const made = fileURLToPath(new URL(`../../../${MODULE_PACKAGE}`, import.meta.url));
  const filesOf = (folder: string) => libraryFilesOf(host, folder);
  return await withPacked(basename(MODULE_PACKAGE), filesOf) ?? await filesOf(made);
}

async function libraryFilesOf(host: Host, folder: string): Promise<[name: string, text: string][]> {
  return await Promise.all(PACKAGE_FILES.map(async (file): Promise<[string, string]> => {
    try {
      return [file, await host.readTextFile(join(folder, file))];
    } catch (cause) {
      const remedy = "run deno task module:package in the tree first";
      throw new SvcError("failed_precondition", `the library for modules is not made: ${remedy}`, { cause });
    }
  }));
}
