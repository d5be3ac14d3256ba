/**
 * Runs a training script on this computer, with the control plane's own executor, on local images.
 */

import { dirname, isAbsolute, join, relative } from "node:path";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import type { DatasetImage } from "../../../lib/cloud_client/dataset.ts";
import type { JobTask } from "../../../lib/cloud/executors/executor.ts";
import { SCRIPT_LIMITS, ScriptExecutor } from "../../../lib/cloud/executors/script.ts";
import { NO_SANDBOX } from "../../../lib/cloud/sandbox/sandbox.ts";
import { type LocalImage, localImages } from "../data/local_images.ts";
import { scriptArchive } from "./folder.ts";
import type { MlCommandContext } from "../command_context.ts";

/** The script's scratch folder; its content is not a result. */
const SCRATCH = "tmp";
/** Stands for the content of the script; contents of images are their paths. */
const SCRIPT = "script";

/** People can trust their own script. */
const OWN_SCRIPT = { sandbox: NO_SANDBOX, network: true, limits: SCRIPT_LIMITS };

export interface LocalRun {
  /** A folder or a `.tar.gz`. */
  readonly script: string;
  readonly datasetRoot: string;
  /** From the folder of the dataset; empty if the dataset has no such file. */
  readonly datasetFile: string;
  readonly output: string;
  readonly arguments: { readonly [key: string]: string };
  /** `python:3.11`; empty for the control plane's default. */
  readonly container: string;
}

/** Returns the files that the script has written. Throws if the control plane would call the job failed. */
export async function testLocal(context: MlCommandContext, run: LocalRun): Promise<string[]> {
  const { host, clock, signal } = context;
  await scriptArchive(host, run.script);
  // The dataset stays on this computer.
  const dataset = await datasetPath(context, run);
  const { images, skipped } = await localImages(context, [dataset], [], { outside: true });
  for (const { path, reason } of skipped) context.note(`left out ${path}: ${reason}`);
  const executor = await ScriptExecutor.open(host, clock, OWN_SCRIPT);
  if (!executor) {
    throw new SvcError(
      "failed_precondition",
      "there is no Python on this computer, wanted python3 in the PATH",
    );
  }
  const folder = await host.temporaryFolder("svc-ml-");
  const output = join(folder, "output");
  try {
    await host.makeFolder(output);
    const work = {
      job: taskOf(run, containerOf(executor, run.container)),
      images: images.map(imageOf),
      folder,
      read: (content: string) => content === SCRIPT ? contentOf(host, run.script) : host.readPieces(content),
      log: (_level: string, message: string) => context.note(message),
      signal,
    };
    await executor.run(work).catch((cause) => {
      signal.throwIfAborted();
      throw new SvcError("unknown", `the job would have failed: ${messageOf(cause)}`, { cause });
    });
    const files = await filesIn(host, output);
    if (files.length === 0) {
      const wanted = `wanted a model in --model_output_directory, outside of its ${SCRATCH}/`;
      throw new SvcError("unknown", `the job would have failed: the script left nothing, ${wanted}`);
    }
    for (const file of files) {
      const target = join(run.output, file);
      await host.makeFolder(dirname(target));
      const left = join(output, file);
      // Keeps the executable bit that the script has set.
      await host.copyFile(left, target, { mode: (await host.stat(left))?.mode || undefined });
    }
    return files;
  } finally {
    await host.removeTree(folder);
  }
}

/** The file of lines, or a folder if there is none. */
async function datasetPath(
  context: MlCommandContext,
  { datasetRoot, datasetFile }: LocalRun,
): Promise<string> {
  const file = join(datasetRoot, datasetFile);
  if (isAbsolute(datasetFile) || relative(datasetRoot, file).startsWith("..")) {
    throw new SvcError(
      "invalid_argument",
      `--dataset-file: found "${datasetFile}", wanted a file in ${datasetRoot}`,
    );
  }
  return await context.host.fileSize(file) === undefined ? datasetRoot : file;
}

async function* contentOf(files: ReadFiles, script: string): AsyncGenerator<Uint8Array> {
  yield* (await scriptArchive(files, script)).bytes;
}

function containerOf({ environments }: ScriptExecutor, wanted: string): string {
  const found = wanted === "" ? environments[0] : environments.find(({ key }) => key === wanted);
  if (found) return found.key;
  const there = environments.map(({ key }) => key).join(", ");
  throw new SvcError("invalid_argument", `--container-version: found "${wanted}", here is ${there}`);
}

function taskOf(run: LocalRun, container: string): JobTask {
  const script = { id: run.script, version: "local", sha256: SCRIPT, arguments: run.arguments, container };
  return {
    id: "local",
    datasetId: "",
    modelName: "",
    modelVersion: "",
    modelType: "",
    modelFramework: "",
    labels: [],
    script,
  };
}

function imageOf(
  { path, fileName, mimeType, labels, boxes, capturedMs }: LocalImage,
  index: number,
): DatasetImage {
  return {
    id: String(index),
    sha256: path,
    bytes: 0,
    mimeType,
    fileName,
    tags: [],
    classifications: labels,
    boxes: boxes.map((box, at) => ({ ...box, id: String(at) })),
    capturedMs,
    partId: "",
    componentName: "",
    organizationId: "",
    locationId: "",
    machineId: "",
  };
}

async function filesIn(files: ReadFiles, folder: string): Promise<string[]> {
  return (await files.filesAt(folder)).map(({ name }) => name).filter((path) =>
    !path.startsWith(`${SCRATCH}/`)
  )
    .sort();
}
