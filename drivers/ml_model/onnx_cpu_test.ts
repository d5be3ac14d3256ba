import { assertEquals, assertRejects } from "@std/assert";
import { resolve } from "node:path";
import type { Tensors } from "../../lib/api/services/ml_model.ts";
import { SvcError } from "../../lib/base/error.ts";
import { boxesModel, colorsModel } from "../../tests/support/onnx_models.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { OnnxCpuMlModel } from "./onnx_cpu.ts";

const COLORS = "tests/data/ml_model/colors";

async function withFolder(
  files: { [name: string]: string | Uint8Array },
  work: (folder: string) => Promise<void>,
) {
  const folder = await Deno.makeTempDir({ prefix: "svc_onnx_" });
  try {
    for (const [name, content] of Object.entries(files)) {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      await Deno.writeFile(`${folder}/${name}`, bytes);
    }
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A 6 x 4 picture of one colour. */
function picture(...color: number[]): Tensors {
  const data = Uint8Array.from({ length: 72 }, (_, index) => color[index % 3]);
  return { image: { shape: [1, 4, 6, 3], data } };
}

Deno.test("the models in tests/data equal the models that tests/support/onnx_models.ts builds", async () => {
  assertEquals(await Deno.readFile(`${COLORS}/model.onnx`), colorsModel());
  assertEquals(await Deno.readFile("tests/data/ml_model/boxes/model.onnx"), boxesModel());
});

Deno.test("onnx_cpu: a folder gives model, labels and metadata, and infer() checks its input", async () => {
  const model = await construct(OnnxCpuMlModel, { model_path: COLORS });
  const labels = resolve(COLORS, "labels.txt");
  assertEquals(await model.getMetadata(), {
    name: "colors",
    type: "classifier",
    description: "how bright a picture is in red, green and blue",
    inputs: [{
      name: "image",
      description: "a picture",
      dataType: "uint8",
      shape: [1, 4, 6, 3],
      associatedFiles: [],
      extra: undefined,
    }],
    outputs: [{
      name: "probability",
      description: "brightness of each colour",
      dataType: "float32",
      shape: [1, 3],
      associatedFiles: [{ name: labels, description: "names of the classes", labelType: "tensor_axis" }],
      extra: { unit: "share", labels },
    }],
  });
  const { probability } = await model.infer(picture(255, 51, 0));
  assertEquals(probability.shape, [1, 3]);
  assertEquals([...probability.data as Float32Array].map((value) => Math.round(value * 100)), [100, 20, 0]);
  const wrong = { image: { shape: [1, 4, 6, 3], data: new Float32Array(72) } };
  await assertRejects(() => model.infer(wrong), SvcError, "wanted uint8 [1, 4, 6, 3]");
  await model.close();
});

Deno.test("onnx_cpu: a single file is described from its graph", async () => {
  await withFolder({ "boxes.onnx": boxesModel(), "names.txt": "a\nb\nc" }, async (folder) => {
    const attributes = {
      model_path: `${folder}/boxes.onnx`,
      label_path: `${folder}/names.txt`,
      num_threads: 1,
    };
    const model = await construct(OnnxCpuMlModel, attributes);
    const { name, type, inputs, outputs } = await model.getMetadata();
    assertEquals([name, type, inputs[0].shape], ["boxes", "object_detector", [1, 3, 4, 6]]);
    assertEquals(outputs.map(({ name }) => name), ["location", "category", "score"]);
    assertEquals(outputs[0].extra, { labels: `${folder}/names.txt` });
    await model.close();
  });
});

Deno.test("onnx_cpu: labels that metadata.json names are found beside it", async () => {
  const described = {
    output_info: [{ name: "probability", extra: { labels: "classes.txt" } }],
    training: { seed: 1 },
  };
  const files = {
    "model.onnx": colorsModel(),
    "classes.txt": "a\nb\nc",
    "metadata.json": JSON.stringify(described),
  };
  await withFolder(files, async (folder) => {
    const model = await construct(OnnxCpuMlModel, { model_path: folder });
    assertEquals((await model.getMetadata()).outputs[0].extra, { labels: `${folder}/classes.txt` });
    await model.close();
  });
});

Deno.test("onnx_cpu: a folder's only .onnx file is used, and model.onnx among several", async () => {
  await withFolder({ "net.onnx": boxesModel() }, async (folder) => {
    const model = await construct(OnnxCpuMlModel, { model_path: folder });
    assertEquals((await model.getMetadata()).outputs[0].extra, undefined);
    await model.close();
    await Deno.writeFile(`${folder}/other.onnx`, colorsModel());
    const attributes = { model_path: folder };
    await assertRejects(
      () => construct(OnnxCpuMlModel, attributes),
      SvcError,
      "holds net.onnx, other.onnx, wanted",
    );
    await Deno.writeFile(`${folder}/model.onnx`, colorsModel());
    const chosen = await construct(OnnxCpuMlModel, attributes);
    assertEquals((await chosen.getMetadata()).type, "classifier");
    await chosen.close();
  });
});

Deno.test("onnx_cpu: unusable files are refused with their path", async () => {
  const files = { "text.onnx": "hello", "model.onnx": colorsModel(), "metadata.json": '{"output_info": 3}' };
  await withFolder(files, async (folder) => {
    const refused = (attributes: { [name: string]: string }, message: string) =>
      assertRejects(() => construct(OnnxCpuMlModel, attributes), SvcError, message);
    await refused({ model_path: folder }, "metadata.json at output_info: found 3, wanted an array");
    await Deno.writeTextFile(`${folder}/metadata.json`, "{");
    await refused({ model_path: folder }, "cannot read the model's");
    await Deno.remove(`${folder}/metadata.json`);
    await refused({ model_path: `${folder}/text.onnx` }, "text.onnx: cannot load the ONNX model");
    await refused({ model_path: `${folder}/none.onnx` }, "none.onnx: there is no such file");
    await refused(
      { model_path: folder, label_path: "/no/labels" },
      "label_path /no/labels: there is no such file",
    );
  });
  assertEquals(problemsOf(OnnxCpuMlModel, { num_threads: 0 }), [
    "model_path: missing required field, wanted a string",
    "num_threads: found 0, wanted an integer from 1 to 256",
  ]);
});
