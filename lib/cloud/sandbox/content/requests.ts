/**
 * Requests to a content process. What a room wants of one stands in the room; here is what all requests have in
 * common, and those that open a picture.
 */

import type { boxFields } from "../../../api/shared/captured_file.ts";

/** A request, followed by its bytes. */
export interface ContentRequest {
  readonly ask: string;
  readonly bytes: number;
  /** Of a query. */
  readonly language?: "mql" | "sql";
}

/** A picture of `image` bytes, then a model's package. The answer is `InferenceFacts`, then the tensors one by one. */
export interface InferenceRequest extends ContentRequest {
  readonly ask: "inference";
  readonly image: number;
}

/** A picture. The answer is its size and its pixels, three bytes each, scaled down as for training. */
export interface PictureRequest extends ContentRequest {
  readonly ask: "picture";
}

export interface TensorHead {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  readonly bytes: number;
}

export interface InferenceFacts {
  readonly tensors: readonly TensorHead[];
  readonly boxes: readonly ReturnType<typeof boxFields>[];
  readonly classes: readonly { readonly label: string; readonly confidence: number }[];
}

/** Limit of the tensors of an answer. */
export const TENSORS_BYTES_MAX = 32 * 1024 * 1024;
