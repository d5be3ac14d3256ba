import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ambiguousModels, fileReaders } from "../../../tests/attack/hostile_models.ts";
import { boxesModel, colorsModel, doubleModel } from "../../../tests/support/onnx_models.ts";
import { SvcError } from "../../base/error.ts";
import { checkModel } from "./check.ts";
import { openOnnx } from "./session.ts";
import { OnnxGraph, protoField, protoMessage } from "./writer.ts";

const REFUSAL =
  /^cannot load the ONNX model: (the values of "w" are in another file|it has an operator EPContext|its metadata has "ort_config")/;

Deno.test("checkModel: refuses a model with weights in another file", () => {
  for (const { model } of fileReaders("secret", 16)) {
    const error = assertThrows(() => checkModel(model), SvcError);
    assertEquals([error.code, REFUSAL.test(error.message)], ["invalid_argument", true], error.message);
  }
  const error = assertThrows(() => checkModel(fileReaders("../cloud.db", 16)[0].model), SvcError);
  assertEquals(
    error.message,
    'cannot load the ONNX model: the values of "w" are in another file ("../cloud.db"); save it with its weights ' +
      "inside (in Python: onnx.save(onnx.load(path), path))",
  );
});

Deno.test("checkModel: refuses a model that two readers could read differently", () => {
  for (const { name, model } of ambiguousModels("secret")) {
    const error = assertThrows(() => checkModel(model), SvcError, "cannot load the ONNX model");
    assertEquals(error.code, "invalid_argument", name);
  }
});

Deno.test("openOnnx: refuses a model that reads a file, given as bytes or as a path", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc_onnx_" });
  try {
    await Deno.writeTextFile(`${folder}/secret`, "the sixteen bytes");
    // The runtime looks beside the model; for a model in bytes, in the working folder.
    const beside = fileReaders("secret", 16);
    const here = fileReaders("deno.json", 16);
    for (const [index, { name, model }] of beside.entries()) {
      const path = `${folder}/model.onnx`;
      await Deno.writeFile(path, model);
      for (const one of [path, here[index].model]) {
        const error = await assertRejects(() => openOnnx(one, { threads: 1 }), SvcError);
        assertEquals(REFUSAL.test(error.message), true, `${name}: ${error.message}`);
      }
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("checkModel: accepts a self-contained model with its own functions", () => {
  for (const model of [colorsModel(), boxesModel(), doubleModel()]) checkModel(model);
  const graph = new OnnxGraph();
  graph.node("Add", [graph.input("a", "float32", [1]), graph.floats([1], [1])], {}, "b");
  graph.output("b", "float32", [1]);
  const noted = graph.model("noted", "tests", { "author": "somebody" });
  const node = protoMessage([protoField(4, "Mine"), protoField(7, "mine.functions")]);
  const local = protoMessage([protoField(1, "Mine"), protoField(10, "mine.functions")]);
  const tensor = protoMessage([protoField(2, 1), protoField(8, "w"), protoField(14, 0)]);
  checkModel(
    protoMessage([
      noted,
      protoField(7, protoMessage([protoField(1, node), protoField(5, tensor)])),
      protoField(25, local),
    ]),
  );
  assertThrows(
    () => checkModel(protoMessage([noted, protoField(7, protoMessage([protoField(1, node)]))])),
    SvcError,
    'it uses operators of "mine.functions"',
  );
});

Deno.test("checkModel: every truncation of a model is refused or valid", () => {
  const model = colorsModel();
  let whole = 0;
  for (let length = 0; length <= model.length; length++) {
    try {
      checkModel(model.subarray(0, length));
      whole++;
    } catch (error) {
      assertEquals(SvcError.from(error).code, "invalid_argument", String(error));
    }
  }
  // A cut between two fields of the outermost message gives a valid message too.
  assertEquals(whole < 10, true, `${whole}`);
});

Deno.test("checkModel: refuses a model with more than 10000000 fields", () => {
  const error = assertThrows(() => checkModel(new Uint8Array(30_000_000).fill(8)), SvcError);
  assertEquals(error.message, "cannot load the ONNX model: it has more than 10000000 fields");
});
