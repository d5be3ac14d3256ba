/** Asks a model of the registry about a stored image: MLInferenceService, which the published library leaves out. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import type { dataApi } from "@viamrobotics/sdk";
import { wireMessage, wireService } from "../../machine/link/wire.ts";

/** What a model finds in an image. */
export interface Suggested {
  readonly bboxes: readonly SuggestedBox[];
  readonly classifications: readonly { readonly label: string; readonly confidence: number }[];
}

/** Sides as proportions of the image's, 0 to 1. */
export type SuggestedBox = Pick<
  dataApi.BoundingBox,
  "label" | "xMinNormalized" | "yMinNormalized" | "xMaxNormalized" | "yMaxNormalized"
>;

export interface InferenceCalls {
  getInference(
    request: {
      readonly registryItemId: string;
      readonly registryItemVersion: string;
      readonly binaryDataId: string;
      readonly organizationId: string;
    },
  ): Promise<{ readonly annotations?: Suggested }>;
}

const BoxMessage = wireMessage("viam.app.data.v1.BoundingBox", {
  id: [1, "string"],
  label: [2, "string"],
  x_min_normalized: [3, "double"],
  y_min_normalized: [4, "double"],
  x_max_normalized: [5, "double"],
  y_max_normalized: [6, "double"],
});
const Classification = wireMessage("viam.app.data.v1.Classification", {
  id: [1, "string"],
  label: [2, "string"],
  confidence: [3, "double"],
});
const Annotations = wireMessage("viam.app.data.v1.Annotations", {
  bboxes: [1, BoxMessage, "repeated"],
  classifications: [2, Classification, "repeated"],
});
const MLInferenceService = wireService("viam.app.mlinference.v1.MLInferenceService", {
  GetInference: [
    wireMessage("viam.app.mlinference.v1.GetInferenceRequest", {
      registry_item_id: [1, "string"],
      registry_item_version: [2, "string"],
      organization_id: [4, "string"],
      binary_data_id: [5, "string"],
    }),
    wireMessage("viam.app.mlinference.v1.GetInferenceResponse", { annotations: [2, Annotations] }),
  ],
});

export function inferenceCalls(transport: Transport): InferenceCalls {
  return createPromiseClient(MLInferenceService, transport) as unknown as InferenceCalls;
}
