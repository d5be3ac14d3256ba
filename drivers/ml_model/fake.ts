/**
 * An ML model that infers nothing: every tensor comes back unchanged, so that clients and conversions can be
 * tried without a model file.
 */

import { type MlMetadata, type MlModel, MlModelApi, type Tensors } from "../../lib/api/services/ml_model.ts";
import { object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";

const TENSOR = {
  name: "tensor",
  description: "numbers of any type and shape, under any name",
  dataType: "float32",
  shape: [-1],
  associatedFiles: [],
};

const METADATA: MlMetadata = {
  name: "fake",
  type: "echo",
  description: "answers with the tensors that it was given",
  inputs: [TENSOR],
  outputs: [TENSOR],
};

class Fake extends BaseResource implements MlModel {
  infer(inputs: Tensors): Promise<Tensors> {
    return Promise.resolve(inputs);
  }

  getMetadata(): Promise<MlMetadata> {
    return Promise.resolve(METADATA);
  }
}

export const FakeMlModel = model({
  api: MlModelApi,
  name: "rdk:builtin:fake",
  doc: "An ML model that answers with the tensors it is given.",
  attributes: object({}).required(),
  construct: ({ name }) => new Fake(name),
});
