/**
 * ML model: named tensors in, named tensors out, and a description of both.
 */

import { LabelType, MLModelService } from "../../../proto/gen/ml_model_pb.ts";
import type {
  FlatTensor,
  FlatTensors,
  FlatTensorSchema,
  FlatTensorsSchema,
  MetadataResponseSchema,
  MetadataSchema,
} from "../../../proto/gen/ml_model_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import type { JsonObject as Struct, MessageInitShape, MessageShape } from "../../wire/rpc/proto.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import { type Call, type Resource, unsupported } from "../../resource/resource.ts";
import { callOf, ResourceClient, resourceHandlers } from "../shared/resource.ts";

/** A model that computes tensors from tensors. */
export interface MlModel extends Resource {
  /** Shapes and types are those of `getMetadata`. Throws `invalid_argument` for others. */
  infer(inputs: Tensors, call?: Call): Promise<Tensors>;
  /** Names, types and shapes of inputs and outputs; -1 is a length that may vary. */
  getMetadata(call?: Call): Promise<MlMetadata>;
}

/** The inputs or outputs of a model, by name. */
export type Tensors = { readonly [name: string]: Tensor };

/** Numbers in row-major order; `data.length` is the product of the dimensions (1 without dimensions). */
export interface Tensor {
  /** Lengths of the dimensions, the outermost first; empty for a single number. */
  readonly shape: readonly number[];
  /** The numbers. */
  readonly data: TensorData;
}

/** The arrays in which the numbers of a tensor travel; the class says their type. */
export type TensorData =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** The description of a model. */
export interface MlMetadata {
  /** For people; need not be unique. */
  readonly name: string;
  /** The kind of model, for example `object_detector`. */
  readonly type: string;
  /** For people; may be empty. */
  readonly description: string;
  /** The tensors that `infer` takes. */
  readonly inputs: readonly TensorInfo[];
  /** The tensors that `infer` returns. */
  readonly outputs: readonly TensorInfo[];
}

/** The description of a tensor. */
export interface TensorInfo {
  /** The key of the tensor in `Tensors`. */
  readonly name: string;
  /** For people; may be empty. */
  readonly description: string;
  /** `uint8`, `float32`, … */
  readonly dataType: string;
  /** -1 for a dimension of any length. */
  readonly shape: readonly number[];
  /** Files that explain the values, such as labels. */
  readonly associatedFiles: readonly AssociatedFile[];
  /** The model's own further facts. */
  readonly extra?: JsonObject;
}

/** A file of labels; its line numbers are a tensor's values, or the positions along one of its axes. */
export interface AssociatedFile {
  /** Its file name. */
  readonly name: string;
  /** For people; may be empty. */
  readonly description: string;
  /** Whether a line number is a value of the tensor, or a position along an axis. */
  readonly labelType: "unspecified" | "tensor_value" | "tensor_axis";
}

class MlModelClient extends ResourceClient<typeof MLModelService> implements MlModel {
  async infer(inputs: Tensors, call?: Call): Promise<Tensors> {
    const request = { ...this.request(call), inputTensors: toTensorsMessage(inputs) };
    return fromTensorsMessage((await this.rpc.infer(request, call)).outputTensors);
  }

  async getMetadata(call?: Call): Promise<MlMetadata> {
    return fromMetadataMessage((await this.rpc.metadata(this.request(call), call)).metadata);
  }

  /** The published service has no such method. */
  override doCommand(_command: JsonObject, _call?: Call): Promise<JsonObject> {
    return Promise.reject(unsupported(this.name, "DoCommand"));
  }
}

/** The API `rdk:service:mlmodel`. */
export const MlModelApi: Api<MlModel> = {
  name: "rdk:service:mlmodel",
  desc: MLModelService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new MlModelClient(name, channel, MLModelService),
  serve: (find) =>
    service(MLModelService, {
      getStatus: resourceHandlers(find).getStatus,
      infer: async (request, ctx) => {
        const model = find(request.name);
        const outputs = await model.infer(fromTensorsMessage(request.inputTensors), callOf(request, ctx));
        return { outputTensors: toTensorsMessage(outputs) };
      },
      metadata: async (request, ctx) =>
        toMetadataMessage(await find(request.name).getMetadata(callOf(request, ctx))),
    }),
};

type TensorCase = NonNullable<FlatTensor["tensor"]["case"]>;

/** One row for each type of number: its message case and its array type. */
const TENSOR_TYPES: readonly {
  readonly case: TensorCase;
  readonly array: { new (length: number): TensorData };
}[] = [
  { case: "int8Tensor", array: Int8Array },
  { case: "uint8Tensor", array: Uint8Array },
  { case: "int16Tensor", array: Int16Array },
  { case: "uint16Tensor", array: Uint16Array },
  { case: "int32Tensor", array: Int32Array },
  { case: "uint32Tensor", array: Uint32Array },
  { case: "int64Tensor", array: BigInt64Array },
  { case: "uint64Tensor", array: BigUint64Array },
  { case: "floatTensor", array: Float32Array },
  { case: "doubleTensor", array: Float64Array },
];

export function toTensorsMessage(tensors: Tensors): MessageInitShape<typeof FlatTensorsSchema> {
  const entries = Object.entries(tensors).map(([name, tensor]) => [name, toTensorMessage(name, tensor)]);
  return { tensors: Object.fromEntries(entries) };
}

/** Throws `invalid_argument` for a tensor without data, or with a shape that does not fit its data. */
export function fromTensorsMessage(message: FlatTensors | undefined): Tensors {
  const entries = Object.entries(message?.tensors ?? {});
  return Object.fromEntries(entries.map(([name, tensor]) => [name, fromTensorMessage(name, tensor)]));
}

function toTensorMessage(name: string, { shape, data }: Tensor): MessageInitShape<typeof FlatTensorSchema> {
  checkShape(name, shape, data.length);
  const type = TENSOR_TYPES.find((type) => data instanceof type.array)!;
  const tensor = { case: type.case, value: { data: toWire(data) } };
  return { shape: shape.map(BigInt), tensor: tensor as MessageInitShape<typeof FlatTensorSchema>["tensor"] };
}

/**
 * Bytes for 8-bit types. 16-bit values travel as unsigned 32-bit integers that keep the sign in the upper
 * half.
 */
function toWire(data: TensorData): Uint8Array | (number | bigint)[] {
  if (data instanceof Uint8Array) return data;
  if (data instanceof Int8Array) return new Uint8Array(data.buffer, data.byteOffset, data.length);
  if (data instanceof Int16Array) return Array.from(data, (value) => value >>> 0);
  return Array.from<number | bigint>(data as ArrayLike<number> | ArrayLike<bigint>);
}

function fromTensorMessage(name: string, { shape: sizes, tensor }: FlatTensor): Tensor {
  const type = TENSOR_TYPES.find((type) => type.case === tensor.case);
  if (!type) throw new SvcError("invalid_argument", `tensor "${name}" has no data`);
  const values = tensor.value!.data as unknown as ArrayLike<never>;
  const shape = sizes.map(Number);
  checkShape(name, shape, values.length);
  const data = new type.array(values.length);
  // Typed arrays keep the low bits, which undoes the widening of 16-bit values.
  data.set(values);
  return { shape, data };
}

function checkShape(name: string, shape: readonly number[], length: number): void {
  const wanted = shape.reduce((product, size) => product * size, 1);
  if (wanted === length) return;
  const found = `tensor "${name}" has the shape [${shape.join(", ")}] and ${length} values`;
  throw new SvcError("invalid_argument", `${found}, wanted ${wanted} values`);
}

const LABEL_TYPES: readonly (readonly [AssociatedFile["labelType"], LabelType])[] = [
  ["unspecified", LabelType.UNSPECIFIED],
  ["tensor_value", LabelType.TENSOR_VALUE],
  ["tensor_axis", LabelType.TENSOR_AXIS],
];

function toMetadataMessage(metadata: MlMetadata): MessageInitShape<typeof MetadataResponseSchema> {
  const { name, type, description, inputs, outputs } = metadata;
  const info = (tensor: TensorInfo) => ({
    ...tensor,
    shape: [...tensor.shape],
    extra: tensor.extra as Struct | undefined,
    associatedFiles: tensor.associatedFiles.map((file) => ({
      ...file,
      labelType: LABEL_TYPES.find(([word]) => word === file.labelType)![1],
    })),
  });
  return {
    metadata: { name, type, description, inputInfo: inputs.map(info), outputInfo: outputs.map(info) },
  };
}

type MetadataMessage = MessageShape<typeof MetadataSchema>;

function fromMetadataMessage(message: MetadataMessage | undefined): MlMetadata {
  const info = (
    { name, description, dataType, shape, associatedFiles, extra }: MetadataMessage["inputInfo"][0],
  ) => ({
    name,
    description,
    dataType,
    shape,
    associatedFiles: associatedFiles.map((file) => ({
      name: file.name,
      description: file.description,
      labelType: LABEL_TYPES.find(([, number]) => number === file.labelType)?.[0] ?? "unspecified",
    })),
    extra: extra as JsonObject | undefined,
  });
  return {
    name: message?.name ?? "",
    type: message?.type ?? "",
    description: message?.description ?? "",
    inputs: (message?.inputInfo ?? []).map(info),
    outputs: (message?.outputInfo ?? []).map(info),
  };
}
