/** The tensors that go into a model and come out of it. */

export const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
} as const;

export type OnnxData =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/** Values in row-major order; their number is the product of the dimensions. */
export interface OnnxTensor {
  readonly type: OnnxType;
  readonly shape: readonly number[];
  readonly data: OnnxData;
}

export interface OnnxTensorInfo {
  readonly name: string;
  readonly type: OnnxType;
  /** -1 for a dimension of any length. */
  readonly shape: readonly number[];
}

export type OnnxTensors = { readonly [name: string]: OnnxTensor };

export type OnnxType = keyof typeof ARRAYS;
