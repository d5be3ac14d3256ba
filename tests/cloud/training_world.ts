/**
 * Datasets to learn from, and a scripted executor.
 */

import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { join } from "node:path";
import { type ArchiveFile, packed } from "../../lib/base/files/archive.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { BinaryData, type BinaryUpload } from "../../lib/cloud/data/binary_data.ts";
import { Datasets, type DatasetType } from "../../lib/cloud/data/datasets.ts";
import type { Executor, Work } from "../../lib/cloud/executors/executor.ts";
import { SCRIPT_LIMITS, ScriptExecutor } from "../../lib/cloud/executors/script.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import type { FileStore, StoredFile } from "../../lib/cloud/store/files.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { openSandbox } from "../../lib/cloud/sandbox/sandbox.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import type { NewJob } from "../../lib/cloud/training/training.ts";
import type { Example } from "./program.ts";
import type { World } from "./world.ts";

export function newJob(organizationId: string): NewJob {
  return {
    organizationId,
    datasetId: "a dataset",
    modelName: "model",
    modelVersion: crypto.randomUUID(),
    modelType: "object_detection",
    modelFramework: "onnx",
    labels: ["thing"],
  };
}

/** An image of a dataset: its content, and its annotations. */
export interface TestImage {
  readonly bytes: Uint8Array;
  readonly tags?: readonly string[];
  readonly boxes?: BinaryUpload["boxes"];
}

/** As many images as are asked for, half of them tagged `cat` and half `dog`; no two are the same. */
export function catsAndDogs(count = 16): TestImage[] {
  return Array.from({ length: count }, (_, index) => ({
    bytes: new TextEncoder().encode(`image ${index} ${crypto.randomUUID()}`),
    tags: [index % 2 === 0 ? "cat" : "dog"],
  }));
}

/** A package of Python that brings the tools to build it. */
const PROJECT = `[build-system]\nrequires = []\nbuild-backend = "build_it"\nbackend-path = ["."]\n`;
const BUILD_IT = `
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "script-1-py3-none-any.whl", "script-1.dist-info/"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for part in ("__init__.py", "training.py"):
            wheel.write("model/" + part)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: script\\nVersion: 1\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
`;
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

let datasets = 0;

export async function newDataset(
  store: Store,
  files: FileStore,
  { organization, location, machine, part }: World,
  images: readonly TestImage[],
  type: DatasetType = "images",
): Promise<string> {
  const stored: StoredFile[] = [];
  for (const { bytes } of images) stored.push(await files.put(stream(bytes)));
  const origin = {
    organizationId: organization,
    locationId: location,
    machineId: machine,
    machineName: "rover",
    partId: part,
    partName: "rover-main",
    componentType: "rdk:component:camera",
    componentName: "eye",
    methodName: "GetImages",
    parameters: "{}",
  };
  return await store.transaction(async (sql) => {
    const id = await new Datasets(sql).create(organization, `dataset ${++datasets}`, type, 0);
    for (const [index, { tags = [], boxes = [] }] of images.entries()) {
      const upload: BinaryUpload = {
        origin,
        capturedUs: 1_700_000_000_000_000 + index,
        fileName: `${index}.png`,
        fileExt: ".png",
        mimeType: "image/png",
        tags,
        boxes,
        classifications: [],
        datasetIds: [id],
      };
      await new BinaryData(sql).add(upload, stored[index], 0);
    }
    return id;
  });
}

/** Puts a training script into the registry; gives its id there. */
export async function newScript(
  store: Store,
  files: FileStore,
  organizationId: string,
  archive: AsyncIterable<Uint8Array>,
): Promise<string> {
  const file = await files.put(archive);
  const info = {
    organizationId,
    name: "script",
    version: "1.0.0",
    type: "ml_training",
    platform: "",
  } as const;
  const metadata = { model_type: "single_label_classification", model_framework: "tensorflow" };
  await store.transaction((sql) => new Packages(sql).add({ ...info, metadata, file }, 0));
  return `${organizationId}:script`;
}

/** A dataset and a script in the folder of an `svc-cloud` that does not run; gives their ids. */
export async function prepareScript(
  folder: string,
  { organizationId: organization, locationId, machineId, partId, ownerKey: owner }: Example,
  archive: AsyncIterable<Uint8Array>,
): Promise<[datasetId: string, scriptId: string]> {
  const store = await openStore(
    { sqlite: sqliteIn(`${folder}/cloud.db`, new DenoHost()) },
    new SystemClock(),
  );
  try {
    const files = await FolderFiles.open(new SystemFiles(), `${folder}/files`, { olderThanMs: 0 });
    const place = { organization, location: locationId, machine: machineId, part: partId };
    const dataset = await newDataset(store, files, { ...place, owner, operator: owner }, catsAndDogs(2));
    return [dataset, await newScript(store, files, organization, archive)];
  } finally {
    await store.close();
  }
}

/** Files of a package whose dependencies are missing, and whose build prints much. */
export function needyBuild(): Record<string, string> {
  const needs = BUILD_IT.replace("Version: 1\\n", "Version: 1\\nRequires-Dist: there-is-no-such-package\\n");
  return { "pyproject.toml": PROJECT, "build_it.py": needs };
}

/** Files of a package that nothing can build, and that says so. */
export function brokenBuild(): Record<string, string> {
  return { "pyproject.toml": PROJECT, "build_it.py": 'raise SystemExit("the backend complains")\n' };
}

/** A training script whose package builds without anything, or with `build`. */
export function scriptArchive(
  training: string,
  build: Record<string, string> = { "pyproject.toml": PROJECT, "build_it.py": BUILD_IT },
  folder = "",
): AsyncIterable<Uint8Array> {
  const file = (path: string, text: string): ArchiveFile => {
    const bytes = new TextEncoder().encode(text);
    return { path: folder + path, bytes: bytes.length, content: [bytes] };
  };
  const files = { ...build, "model/__init__.py": "", "model/training.py": training };
  return packed(Object.entries(files).map(([path, text]) => file(path, text)));
}

/** Why training scripts cannot run in a sandbox here, for the tests' names; empty if they can. */
export async function noScripts(): Promise<string> {
  const [host, clock] = [new DenoHost(), new SystemClock()];
  const sandbox = await openSandbox(host, clock);
  if (typeof sandbox === "string") return `no sandbox: ${sandbox}`;
  const scripts = await ScriptExecutor.open(host, clock, { sandbox, network: false, limits: SCRIPT_LIMITS });
  return scripts ? "" : "no Python";
}

export async function* stream(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** A job in an executor's work, until the test decides its result. */
export interface FakeWork extends Work {
  /** Leaves a file as the model. */
  finish(text?: string): void;
  /** Leaves nothing. */
  succeed(): void;
  fail(error: SvcError): void;
}

/** Works on jobs one at a time, or on the given number. */
export class FakeExecutor implements Executor {
  readonly environments = [
    { key: "python:3", uri: "python3", framework: "", description: "the one of this machine" },
    { key: "python:2", uri: "python2", framework: "", description: "the old one" },
  ];
  readonly reachesUs = true;
  /** Every job that it was given. */
  readonly begun: FakeWork[] = [];
  #waiting: ((work: FakeWork) => void)[] = [];
  #taken = 0;

  constructor(readonly capacity = 1) {}

  /** The next job that it has been given or will be. */
  next(): Promise<FakeWork> {
    const there = this.begun[this.#taken++];
    return there ? Promise.resolve(there) : new Promise((resolve) => this.#waiting.push(resolve));
  }

  async run(work: Work): Promise<JsonObject> {
    const done = Promise.withResolvers<void>();
    const stop = () => done.reject(work.signal.reason);
    work.signal.addEventListener("abort", stop);
    if (work.signal.aborted) stop();
    const fake: FakeWork = {
      ...work,
      finish: (text = `model of job ${work.job.id}`) => {
        // The runner removes the folder of a job once it has been aborted: no turn may pass between look and write.
        if (work.signal.aborted) return;
        const output = join(work.folder, "output");
        Deno.mkdirSync(output, { recursive: true });
        Deno.writeTextFileSync(join(output, "model.txt"), text);
        done.resolve();
      },
      succeed: done.resolve,
      fail: done.reject,
    };
    this.begun.push(fake);
    this.#waiting.shift()?.(fake);
    try {
      await done.promise;
    } finally {
      work.signal.removeEventListener("abort", stop);
    }
    return { model_type: work.job.modelType, model_framework: "onnx" };
  }
}
