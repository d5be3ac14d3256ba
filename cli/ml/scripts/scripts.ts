/**
 * The commands on training scripts: uploading them, and running them here as the control plane would.
 *
 * A script is a folder with `setup.py` (or `pyproject.toml`) and `model/training.py`; its purpose and its arguments are
 * the published contract.
 *
 * The room owns training scripts on this computer: packing, uploading and trial runs.
 */

import { basename, resolve } from "node:path";
import {
  type CreatePackageRequestSchema,
  ListPackagesResponseSchema,
  PackageType,
} from "../../../proto/gen/packages_pb.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import {
  ModelFramework,
  ModelType,
  parseFramework,
  parseModelType,
} from "../../../lib/cloud_client/training_client.ts";
import { create, type MessageInitShape } from "../../../lib/wire/rpc/proto.ts";
import type { Flag, Values } from "../../flags.ts";
import { sizeText } from "../../table.ts";
import {
  ML_EXIT,
  type MlCommand,
  mlCommand,
  newVersion,
  packageName,
  pairsOf,
  unknownWord,
} from "../command.ts";
import { fetchPackages, jsonNames, PACKAGE_COLUMNS, packageCells } from "../lookup.ts";
import { scriptArchive } from "./folder.ts";
import { NEW_SCRIPT } from "./new.ts";
import { testLocal } from "./run.ts";
import type { MlCommandContext } from "../command_context.ts";
import { counted } from "../../../lib/base/log/counted.ts";

const CHUNK_BYTES = 256 * 1024;
const UPLOAD_MS = 10 * 60 * 1000;
const VISIBILITIES = ["private", "public", "public-unlisted"];

/** The description of a script, and of its models. */
export const SCRIPT_FLAGS = [
  {
    name: "script-name",
    type: "string",
    default: "",
    value: "SCRIPT",
    help:
      "The script: its name, or org:name for a script of another organization. By default the name of the " +
      "uploaded folder, or the only script.",
  },
  {
    name: "script-version",
    type: "string",
    default: "",
    value: "VERSION",
    help: "The script's version; by default the latest, for an upload the time.",
  },
  { name: "path", type: "string", default: "", value: "PATH", help: "Upload this folder or .tar.gz first." },
  { name: "framework", type: "string", default: "", value: "FRAMEWORK", help: "The purpose of the models." },
  { name: "type", type: "string", default: "", value: "TYPE", help: "The type of the models." },
  { name: "url", type: "string", default: "", value: "URL", help: "Where to read more about the script." },
  { name: "draft", type: "bool", default: false, help: "Mark the script as not ready for others." },
] as const satisfies readonly Flag[];

type ScriptFlags = Values<typeof SCRIPT_FLAGS>;

export const SCRIPT_COMMANDS: readonly MlCommand[] = [
  NEW_SCRIPT,
  mlCommand(
    "script upload",
    ["[PATH]"],
    "Uploads a training script: a folder, which is packed, or a .tar.gz.",
    [
      ...SCRIPT_FLAGS,
      {
        name: "visibility",
        type: "string",
        default: "",
        value: "WHO",
        help: `Who may use it: ${VISIBILITIES.join(", ")}.`,
      },
      {
        name: "description",
        type: "string",
        default: "",
        value: "TEXT",
        help: "Its purpose; required for a public script.",
      },
    ],
    async (context, [path = ""], flags) => {
      const given = { ...flags, path: path || flags.path };
      if (given.path === "") {
        throw new SvcError("invalid_argument", "found no PATH of a script, wanted a folder or .tar.gz");
      }
      const scriptName = given.scriptName || scriptNameOf(context, given.path);
      const more = audience(flags.visibility, flags.description);
      const organizationId = await context.organization();
      const { id, version } = await uploadScript(context, organizationId, { ...given, scriptName }, more);
      context.print({ id, version }, [`${id} ${version}`]);
      context.note(`train with: svc-ml submit-custom --script-name ${id} --script-version ${version}`);
    },
  ),
  mlCommand(
    "script list",
    ["[SCRIPT]"],
    "Lists the training scripts of an organization, the newest version first.",
    [],
    async (context, [name = ""]) => {
      const found = await fetchPackages(context, PackageType.ML_TRAINING, name);
      const message = create(ListPackagesResponseSchema, { packages: found });
      context.listMessage(ListPackagesResponseSchema, message, {
        columns: PACKAGE_COLUMNS,
        rows: found.map((one) => packageCells(one)),
        empty: "there is no training script yet: svc-ml script new NAME begins one",
      }, await jsonNames(context));
    },
  ),
  mlCommand(
    "script test-local",
    ["SCRIPT"],
    "Runs a training script on an exported dataset, on this computer as the control plane would.",
    [
      {
        name: "dataset-root",
        type: "string",
        default: ".",
        value: "FOLDER",
        help: "The folder of the dataset.",
      },
      {
        name: "dataset-file",
        type: "string",
        default: "dataset.jsonl",
        value: "FILE",
        help: "The lines of the dataset, from its folder; without them the folders in it are labels.",
      },
      {
        name: "model-output-directory",
        type: "string",
        default: "model_output",
        value: "FOLDER",
        help: "The folder for the model.",
      },
      {
        name: "arg",
        type: "list",
        default: [],
        value: "KEY=VALUE",
        help: "An argument, passed as --KEY=VALUE.",
      },
      {
        name: "container-version",
        type: "string",
        default: "",
        value: "KEY",
        help: "The Python to run it in, such as python:3.11; by default the control plane's choice.",
      },
    ],
    async (context, [folder], flags) => {
      const files = await testLocal(context, {
        script: resolve(folder),
        datasetRoot: resolve(flags.datasetRoot),
        datasetFile: flags.datasetFile,
        output: resolve(flags.modelOutputDirectory),
        arguments: pairsOf("arg", flags.arg),
        container: flags.containerVersion,
      });
      context.print({ modelOutputDirectory: flags.modelOutputDirectory, files }, files);
      return ML_EXIT.ok;
    },
  ),
];

/** Uploads a script under a name of the organization; returns its id. */
export async function uploadScript(
  context: MlCommandContext,
  organizationId: string,
  { path, scriptName, scriptVersion: wanted, framework, type, url, draft }: ScriptFlags,
  more: { readonly [key: string]: string } = {},
): Promise<{ id: string; version: string }> {
  const { packages } = await context.services();
  const name = ownName(scriptName, organizationId);
  const version = wanted || newVersion(context.clock.nowMs());
  const content = await scriptArchive(context.host, path);
  const metadata = {
    ...framework && { model_framework: ModelFramework[parseFramework(framework)].toLowerCase() },
    ...type && { model_type: ModelType[parseModelType(type)].toLowerCase() },
    ...url && { url },
    draft,
    ...more,
  };
  const info = {
    organizationId,
    name,
    version,
    type: PackageType.ML_TRAINING,
    files: content.files,
    metadata,
  };
  async function* parts(): AsyncGenerator<MessageInitShape<typeof CreatePackageRequestSchema>> {
    yield { package: { case: "info", value: info } };
    for await (const bytes of content.bytes) {
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
        yield { package: { case: "contents", value: bytes.subarray(at, at + CHUNK_BYTES) } };
      }
    }
  }
  await packages.createPackage(parts(), { timeoutMs: UPLOAD_MS, ...context.limits });
  context.note(
    `uploaded script ${name}, version ${version} (${counted(content.files.length, "file")}, ${
      sizeText(content.size)
    })`,
  );
  return { id: `${organizationId}:${name}`, version };
}

/** The default name of a script: that of its folder or archive. */
export function scriptNameOf({ host }: MlCommandContext, path: string): string {
  return packageName(basename(resolve(host.cwd(), path)).replace(/\.(?:tar\.gz|tgz)$/i, ""), "script");
}

/** Removes a version that was just uploaded; reports a failure to do so. */
export async function removeScript(context: MlCommandContext, id: string, version: string): Promise<void> {
  const { packages } = await context.services();
  try {
    await packages.deletePackage({ id: id.replace(":", "/"), version, type: PackageType.ML_TRAINING });
    context.note(`took back version ${version} of script ${id}`);
  } catch (error) {
    context.note(`version ${version} of script ${id} stays uploaded: ${messageOf(error)}`);
  }
}

/** The name of a script of your own organization. */
function ownName(script: string, organizationId: string): string {
  const [name = "", owner = organizationId] = script.split(":").reverse();
  if (owner === organizationId && name !== "") return name;
  const problem = `script "${script}" belongs to another organization than ${organizationId}`;
  throw new SvcError("invalid_argument", `--script-name: ${problem}, wanted a name for one of your own`);
}

/** A script's visibility and description, in its metadata's form. */
function audience(visibility: string, description: string): { [key: string]: string } {
  const word = visibility.toLowerCase().replaceAll("_", "-");
  if (word !== "" && !VISIBILITIES.includes(word)) throw unknownWord("visibility", visibility, VISIBILITIES);
  if (word !== "" && word !== "private" && description === "") {
    const problem = "--description is missing: a script that others see has to describe its purpose";
    throw new SvcError("invalid_argument", problem);
  }
  return { ...word && { visibility: word.replaceAll("-", "_") }, ...description && { description } };
}
