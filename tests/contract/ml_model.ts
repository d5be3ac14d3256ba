import { assert, assertEquals, assertRejects } from "@std/assert";
import { type MlModel, MlModelApi } from "../../lib/api/services/ml_model.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<MlModel> = {
  api: MlModelApi,
  cases: {
    "getMetadata describes all inputs and outputs": async (model) => {
      const { name, inputs, outputs } = await model.getMetadata();
      assert(name !== "" && inputs.length > 0 && outputs.length > 0);
      for (const { name, dataType, shape } of [...inputs, ...outputs]) {
        assert(name !== "" && dataType !== "" && shape.length > 0);
      }
    },
    "infer returns tensors whose shapes match their data": async (model) => {
      const { inputs } = await model.getMetadata();
      const given = inputs.map(({ name, shape, dataType }) => {
        assert(dataType === "float32" || dataType === "uint8", dataType);
        const sizes = shape.map((size) => size > 0 ? size : 2);
        const count = sizes.reduce((product, size) => product * size, 1);
        const data = dataType === "uint8" ? new Uint8Array(count) : new Float32Array(count);
        return [name, { shape: sizes, data: data.fill(1) }];
      });
      for (const { shape, data } of Object.values(await model.infer(Object.fromEntries(given)))) {
        assertEquals(data.length, shape.reduce((product, size) => product * size, 1));
      }
    },
    "doCommand is unimplemented": async (model) => {
      const error = await assertRejects(() => model.doCommand({}), SvcError);
      assertEquals(error.code, "unimplemented");
    },
  },
};
