/** What a session asks of its thread, and the answers. */

import { type Code, SvcError } from "../../base/error.ts";
import type { OnnxTensorInfo, OnnxTensors } from "./tensors.ts";

/** The name of the thread. */
export const ONNX_WORKER = "svc-onnx";

/** The largest file of an ONNX model, which is a protobuf message. */
export const MODEL_BYTES_MAX = 2 ** 31 - 1;

export function sizeError(bytes: number): SvcError {
  const wanted = `wanted 1 to ${MODEL_BYTES_MAX} bytes`;
  return new SvcError("invalid_argument", `cannot load the ONNX model: it has ${bytes} bytes, ${wanted}`);
}

export type OnnxRequest =
  | { readonly open: { readonly model: Uint8Array | string; readonly threads?: number } }
  | { readonly run: OnnxTensors }
  | { readonly close: true };

export interface OnnxSignature {
  readonly inputs: readonly OnnxTensorInfo[];
  readonly outputs: readonly OnnxTensorInfo[];
}

export type OnnxAnswer =
  | { readonly done: OnnxSignature | OnnxTensors | undefined }
  | { readonly code: Code; readonly message: string };
