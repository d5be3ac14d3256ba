/**
 * `onnx_cpu`: runs an ONNX model on the processor.
 *
 * The driver reads the model's inputs and outputs from its graph. A `metadata.json` file beside the model
 * (the published `Metadata` message as JSON) adds names and descriptions; a `labels.txt` file beside it names
 * the classes. A model package unpacks to such a folder, so `model_path` may name the folder:
 * `${packages.ml_model.NAME}`.
 */

import { basename, dirname, join, resolve } from "node:path";
import {
  type MlMetadata,
  type MlModel,
  MlModelApi,
  type TensorInfo,
  type Tensors,
} from "../../lib/api/services/ml_model.ts";
import type { ReadFiles } from "../../lib/base/files/files.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { Clock } from "../../lib/base/clock.ts";
import {
  anyObject,
  DecodeContext,
  type Infer,
  integer,
  list,
  object,
  text,
} from "../../lib/base/schema/schema.ts";
import { type OnnxSession, openOnnx, typeOfData } from "../../lib/learn/onnx/session.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource, type Call } from "../../lib/resource/resource.ts";
import type { OnnxTensor, OnnxTensorInfo } from "../../lib/learn/onnx/tensors.ts";

const attributes = object({
  modelPath: text("an .onnx file, or a folder with one, labels.txt and metadata.json").required(),
  labelPath: text("file with one label a line; absent means labels.txt beside the model").default(""),
  numThreads: integer("threads that share one inference; absent means the number of cores", {
    min: 1,
    max: 256,
  }),
}).required();

const describedTensor = object({
  name: text().required(),
  description: text().default(""),
  extra: anyObject(),
}).required();

/** The published `Metadata`, without its types and shapes: the graph gives them more reliably. */
const metadataFile = object({
  name: text().default(""),
  type: text().default(""),
  description: text().default(""),
  inputInfo: list(describedTensor).default([]),
  outputInfo: list(describedTensor).default([]),
}).required();

class OnnxCpu extends BaseResource implements MlModel {
  constructor(
    name: ResourceName,
    private readonly session: OnnxSession,
    private readonly metadata: MlMetadata,
  ) {
    super(name);
  }

  async infer(inputs: Tensors, call?: Call): Promise<Tensors> {
    const given = Object.entries(inputs).map(([name, { shape, data }]): [string, OnnxTensor] => {
      const wanted = this.session.inputs.find((input) => input.name === name)?.type;
      // The wire has no type for truth values: they travel as bytes.
      const type = wanted === "bool" && data instanceof Uint8Array ? wanted : typeOfData(data);
      return [name, { type, shape, data }];
    });
    return await this.session.run(Object.fromEntries(given), call?.signal);
  }

  getMetadata(): Promise<MlMetadata> {
    return Promise.resolve(this.metadata);
  }

  override async close(): Promise<void> {
    await this.session.close();
  }
}

export const OnnxCpuMlModel = model({
  api: MlModelApi,
  name: "rdk:builtin:onnx_cpu",
  doc: "Runs an ONNX model on the processor.",
  attributes,
  construct: async ({ name, attributes: { modelPath, labelPath, numThreads }, host, clock, signal }) => {
    const path = await modelFile(host, modelPath);
    const metadata = await metadataBeside(host, path);
    const labels = await labelsFile(host, labelPath, path);
    const session = await open(host, path, { threads: numThreads, clock, signal });
    return new OnnxCpu(name, session, describe(session, metadata, labels, path));
  },
});

async function open(
  files: ReadFiles,
  path: string,
  options: { threads?: number; clock: Clock; signal: AbortSignal },
): Promise<OnnxSession> {
  if (await files.fileSize(path) === undefined) {
    throw new SvcError("not_found", `model_path ${path}: there is no such file`);
  }
  try {
    return await openOnnx(resolve(path), options);
  } catch (cause) {
    const { code, message } = SvcError.from(cause);
    throw new SvcError(code, `model_path ${path}: ${message}`, { cause });
  }
}

/** The path itself, or the only model in the folder that it names. */
async function modelFile(files: ReadFiles, path: string): Promise<string> {
  const names = await files.readFolder(path).catch(() => undefined);
  if (names === undefined) return path;
  const models = names.filter((name) => name.endsWith(".onnx"));
  const chosen = models.includes("model.onnx") ? "model.onnx" : models[0];
  if (chosen !== undefined && (chosen === "model.onnx" || models.length === 1)) return join(path, chosen);
  const found = models.length > 0 ? `holds ${models.join(", ")}` : "holds no .onnx file";
  throw new SvcError(
    "not_found",
    `model_path ${path} is a folder that ${found}, wanted model.onnx or a single one`,
  );
}

/**
 * The absolute path of the label file, for readers with another working folder. Throws if a configured file
 * is missing.
 */
async function labelsFile(files: ReadFiles, asked: string, model: string): Promise<string | undefined> {
  const path = asked || join(dirname(model), "labels.txt");
  if (await files.fileSize(path) !== undefined) return resolve(path);
  if (!asked) return undefined;
  throw new SvcError("not_found", `label_path ${asked}: there is no such file`);
}

async function metadataBeside(
  files: ReadFiles,
  model: string,
): Promise<Infer<typeof metadataFile> | undefined> {
  const path = join(dirname(model), "metadata.json");
  if (await files.fileSize(path) === undefined) return undefined;

  const at = new DecodeContext();
  let decoded;
  try {
    decoded = metadataFile.decode(JSON.parse(await files.readTextFile(path)), at);
  } catch (cause) {
    throw new SvcError("invalid_argument", `cannot read the model's ${path}: ${messageOf(cause)}`, { cause });
  }

  const problem = at.problems.find(({ severity }) => severity === "error");
  if (!problem) return decoded;
  const { path: key, message } = problem;
  throw new SvcError("invalid_argument", `the model's ${path}${key && ` at ${key}`}: ${message}`);
}

function describe(
  { inputs, outputs }: OnnxSession,
  stated: Infer<typeof metadataFile> | undefined,
  labels: string | undefined,
  path: string,
): MlMetadata {
  const info = (tensor: OnnxTensorInfo, described: readonly Infer<typeof describedTensor>[]): TensorInfo => {
    const words = described.find(({ name }) => name === tensor.name);
    return {
      name: tensor.name,
      description: words?.description ?? "",
      dataType: tensor.type,
      shape: tensor.shape,
      associatedFiles: [],
      extra: typeof words?.extra?.labels === "string"
        ? { ...words.extra, labels: resolve(dirname(path), words.extra.labels) }
        : words?.extra,
    };
  };
  return {
    name: stated?.name || basename(path, ".onnx"),
    type: stated?.type || typeOf(outputs.map(({ name }) => name)),
    description: stated?.description ?? "",
    inputs: inputs.map((tensor) => info(tensor, stated?.inputInfo ?? [])),
    outputs: outputs.map((tensor, index) => {
      const described = info(tensor, stated?.outputInfo ?? []);
      return index === 0 && labels !== undefined ? labelled(described, labels) : described;
    }),
  };
}

/** Adds the label file in the place where a vision service looks for it. */
function labelled(info: TensorInfo, labels: string): TensorInfo {
  const file = { name: labels, description: "names of the classes", labelType: "tensor_axis" as const };
  return { ...info, associatedFiles: [file], extra: { ...info.extra, labels } };
}

/** The published word for the kind of model, derived from the published names of its outputs. */
function typeOf(outputs: readonly string[]): string {
  if (["location", "category", "score"].every((name) => outputs.includes(name))) return "object_detector";
  return outputs.includes("probability") ? "classifier" : "other";
}
