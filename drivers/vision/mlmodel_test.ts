import { assertEquals, assertRejects } from "@std/assert";
import type { MlModel, Tensor, TensorInfo, Tensors } from "../../lib/api/services/ml_model.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { BaseResource } from "../../lib/resource/resource.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { ImageFileCamera } from "../camera/image_file.ts";
import { OnnxCpuMlModel } from "../ml_model/onnx_cpu.ts";
import { MlModelVision } from "./mlmodel.ts";

/** Returns the given outputs and remembers its inputs. */
class Answering extends BaseResource implements MlModel {
  given: Tensors = {};

  constructor(
    private readonly outputs: Tensors,
    private readonly input: Partial<TensorInfo> = {},
    private readonly extra?: JsonObject,
  ) {
    super(ResourceName.of("rdk:service:mlmodel", "model"));
  }

  infer(inputs: Tensors): Promise<Tensors> {
    this.given = inputs;
    return Promise.resolve(this.outputs);
  }

  getMetadata() {
    const plain = { description: "", dataType: "uint8", associatedFiles: [] };
    const outputs = Object.entries(this.outputs).map(([name, { shape }], index) => ({
      ...plain,
      name,
      shape,
      extra: index === 0 ? this.extra : undefined,
    }));
    const input = { ...plain, name: "image", shape: [1, -1, -1, 3], ...this.input };
    return Promise.resolve({ name: "", type: "", description: "", inputs: [input], outputs });
  }
}

function floats(shape: readonly number[], ...values: number[]) {
  return { shape, data: Float32Array.from(values) };
}

/** A picture of `width` x `height` pixels, with the colours that `color` returns. */
function picture(width: number, height: number, color: (x: number, y: number) => readonly number[]) {
  const pixels = Array.from(
    { length: width * height },
    (_, at) => [...color(at % width, Math.floor(at / width)), 255],
  );
  const image = { width, height, rgba: Uint8Array.from(pixels.flat()) };
  return { image: encodeImage({ kind: "color", image }, MIME.png), mimeType: MIME.png };
}

const ORANGE = picture(12, 8, () => [255, 102, 0]);

function visionOf(model: MlModel, attributes: JsonObject = {}, logged: LogRecord[] = []) {
  return construct(MlModelVision, { mlmodel_name: "model", ...attributes }, {
    dependencies: [model],
    logged,
  });
}

async function withLabels(text: string, work: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempFile({ prefix: "svc_labels_" });
  try {
    await Deno.writeTextFile(path, text);
    await work(path);
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("mlmodel: a classifier model classifies a picture and a camera's picture", async () => {
  const model = await construct(OnnxCpuMlModel, { model_path: "tests/data/ml_model/colors" }, {
    name: "model",
  });
  const camera = await construct(ImageFileCamera, { color_image_file_path: "tests/data/camera/color.png" }, {
    name: "camera",
  });
  const attributes = { mlmodel_name: "model", camera_name: "camera" };
  const vision = await construct(MlModelVision, attributes, { dependencies: [model, camera] });
  assertEquals(await vision.getProperties(), {
    classifications: true,
    detections: false,
    objectPointClouds: false,
    detections3D: false,
    defaultCamera: "camera",
  });
  const classes = await vision.getClassifications(ORANGE, 2);
  assertEquals(classes.map(({ className, confidence }) => [className, confidence.toFixed(2)]), [
    ["red", "1.00"],
    ["green", "0.40"],
  ]);
  assertEquals((await vision.getClassificationsFromCamera("", 0)).length, 3);
  const all = await vision.captureAllFromCamera("", { image: true, classifications: true, detections: true });
  assertEquals([all.classifications.length, all.detections.length, all.image?.mimeType], [3, 0, MIME.jpeg]);
  await assertRejects(() => vision.getDetections(ORANGE), SvcError, "does not implement a Detector");
  await model.close();
});

Deno.test("mlmodel: a detector model with planar input finds boxes as published", async () => {
  const attributes = {
    model_path: "tests/data/ml_model/boxes/model.onnx",
    label_path: "tests/data/ml_model/boxes/labels.txt",
  };
  const model = await construct(OnnxCpuMlModel, attributes, { name: "model" });
  const vision = await visionOf(model, {
    input_image_mean_value: [0, 0, 0],
    input_image_std_dev: [255, 255, 255],
  });
  const found = (await vision.getDetections(ORANGE)).map(({ confidence, ...rest }) => ({
    ...rest,
    confidence: confidence.toFixed(2),
  }));
  assertEquals(found, [
    {
      className: "left half",
      box: { xMin: 0, yMin: 0, xMax: 6, yMax: 8 },
      normalized: { xMin: 0, yMin: 0, xMax: 0.5, yMax: 1 },
      confidence: "1.00",
    },
    {
      className: "lower half",
      box: { xMin: 0, yMin: 4, xMax: 12, yMax: 8 },
      normalized: { xMin: 0, yMin: 0.5, xMax: 1, yMax: 1 },
      confidence: "0.40",
    },
  ]);
  assertEquals((await vision.getProperties()).classifications, false);
  const sure = await visionOf(model, { default_minimum_confidence: 0.9, input_image_mean_value: [0, 0, 0] });
  assertEquals((await sure.getDetections(ORANGE)).length, 1);
  await model.close();
});

Deno.test("mlmodel: pictures become tensors in the model's size, channel order and scale", async () => {
  const left = picture(4, 2, (x) => x < 2 ? [10, 20, 30] : [50, 60, 70]);
  const given = async (input: Partial<TensorInfo>, attributes: JsonObject = {}) => {
    const model = new Answering({ probability: floats([1, 2], 0, 1) }, input);
    await (await visionOf(model, attributes)).getClassifications(left, 0);
    const [[name, { shape, data }]] = Object.entries(model.given);
    return { name, shape, data: [...data].map((value) => Math.round(Number(value) * 1000) / 1000) };
  };
  assertEquals(await given({ shape: [1, 1, 2, 3] }), {
    name: "image",
    shape: [1, 1, 2, 3],
    data: [10, 20, 30, 50, 60, 70],
  });
  assertEquals(await given({ shape: [-1, 3, 1, 2], name: "pixels" }, { input_image_bgr: true }), {
    name: "pixels",
    shape: [1, 3, 1, 2],
    data: [30, 70, 20, 60, 10, 50],
  });
  assertEquals((await given({ shape: [1, 1, 3, 3] })).data.slice(3, 6), [30, 40, 50], "between two pixels");
  assertEquals((await given({})).shape, [1, 2, 4, 3], "without a size of its own it is the picture's");
  const float = { dataType: "float32", shape: [1, 1, 2, 3] };
  const near = (value: number) => Math.round((value / 127.5 - 1) * 1000) / 1000;
  assertEquals(
    (await given(float)).data,
    [10, 20, 30, 50, 60, 70].map(near),
    "-1 to 1 where nothing is said",
  );
  const whole = { input_image_mean_value: [10, 20, 30], input_image_std_dev: [10, 10, 10] };
  assertEquals((await given(float, whole)).data, [0, 0, 0, 4, 4, 4]);
  const shares = { input_image_mean_value: [0, 0, 0], input_image_std_dev: [1, 1, 0.5] };
  assertEquals((await given(float, shares)).data, [0.039, 0.078, 0.235, 0.196, 0.235, 0.549]);
});

Deno.test("mlmodel: outputs become confidences by softmax, sigmoid or scaling of bytes", async () => {
  const confidences = async (...values: number[]) => {
    const vision = await visionOf(new Answering({ out: floats([1, values.length], ...values) }));
    const classes = await vision.getClassifications(ORANGE, 0);
    return classes.map(({ className, confidence }) => `${className} ${confidence.toFixed(3)}`);
  };
  assertEquals(await confidences(0.2, 0.7), ["1 0.700", "0 0.200"]);
  assertEquals(await confidences(1000, 1001), ["1 0.731", "0 0.269"], "a softmax of large numbers");
  assertEquals(await confidences(-0.5), ["0 0.378"], "a single number below 0 is no probability");
  const bytes = new Answering({ probability: { shape: [1, 2], data: Uint8Array.of(51, 204) } });
  const classes = await (await visionOf(bytes)).getClassifications(ORANGE, 0);
  assertEquals(classes.map(({ confidence }) => confidence), [0.8, 0.2], "bytes are shares of 255");
});

Deno.test("mlmodel: boxes in pixels are scaled from the model's picture, with edges in a configured order", async () => {
  const outputs = {
    boxes: floats([1, 2, 4], 25, 0, 100, 50, 0, 0, 0, 0),
    scores: floats([1, 2], 0.9, 0),
    ids: { shape: [1, 2], data: BigInt64Array.of(7n, 0n) },
  };
  const remap_output_names = { boxes: "location", scores: "score", ids: "category" };
  const model = new Answering(outputs, { shape: [1, 50, 100, 3] });
  const vision = await visionOf(model, { remap_output_names, xmin_ymin_xmax_ymax_order: [0, 1, 2, 3] });
  const box = { xMin: 3, yMin: 0, xMax: 12, yMax: 8 };
  const normalized = { xMin: 0.25, yMin: 0, xMax: 1, yMax: 1 };
  const [found, ...more] = await vision.getDetections(ORANGE);
  assertEquals(more, [], "what has no confidence at all only fills the tensor");
  assertEquals({ ...found, confidence: 0.9 }, { className: "7", confidence: 0.9, box, normalized });
  const guessed = await visionOf(model, { xmin_ymin_xmax_ymax_order: [0, 1, 2, 3] });
  assertEquals((await guessed.getDetections(ORANGE))[0].box, box, "told apart by what they hold");
});

Deno.test("mlmodel: boxes, confidences and classes in rows of one output are found, and other rows refused", async () => {
  const shape = [1, 50, 100, 3];
  const box = { xMin: 3, yMin: 0, xMax: 12, yMax: 8 };
  const row = [25, 0, 100, 50];
  const forms: { [name: string]: Tensor }[] = [
    { output0: floats([1, 2, 6], ...row, 0.9, 7, 0, 0, 0, 0, 0, 0) },
    { output0: floats([2, 6], ...row, 0.9, 7, 1, 1, 2, 2, 0.2, 3) },
    { output: floats([2, 7], 0, ...row, 7, 0.9, 0, 1, 1, 2, 2, 3, 0.2) },
    {
      dets: floats([1, 2, 5], ...row, 0.9, 0, 0, 0, 0, 0),
      labels: { shape: [1, 2], data: BigInt64Array.of(7n, -1n) },
    },
  ];
  for (const outputs of forms) {
    const vision = await visionOf(new Answering(outputs, { shape }), { default_minimum_confidence: 0.5 });
    const [found, ...more] = await vision.getDetections(ORANGE);
    const { className, confidence } = found!;
    assertEquals([className, confidence.toFixed(2), found!.box, more], ["7", "0.90", box, []]);
  }

  const others: { [name: string]: Tensor }[] = [
    { output0: floats([1, 2, 6], ...row, 0.9, 0.7, ...row, 0.9, 1) },
    { output0: floats([1, 2, 6], ...row, 7, 0.9, 0, 0, 0, 0, 0, 0) },
    { output0: floats([1, 2, 6], 80, 25, 40, 50, 0.9, 1, 0, 0, 0, 0, 0, 0) },
    { dets: floats([1, 2, 5], ...row, 0.9, ...row, 0.8) },
    { output0: floats([1, 2, 8], ...row, 0.9, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) },
  ];
  for (const outputs of others) {
    await assertRejects(() => visionOf(new Answering(outputs, { shape })), SvcError, "remap_output_names");
  }
  const changing = { output0: floats([1, 0, 6]) };
  const vision = await visionOf(new Answering(changing, { shape }));
  assertEquals(await vision.getDetections(ORANGE), [], "an empty room");
  changing.output0 = floats([1, 1, 6], 80, 25, 40, 50, 12, 1);
  await assertRejects(
    () => vision.getDetections(ORANGE),
    SvcError,
    'output "output0" has the row 80, 25, 40, 50, 12, 1',
  );
});

Deno.test("mlmodel: the model's boxOrder applies, and per-class scores choose the class", async () => {
  const outputs = {
    location: floats([1, 2, 4], 0, 0.5, 0, 1, 0, 1, 0.5, 1),
    score: floats([1, 2, 3], 0.1, 0.6, 0.3, 0.2, 0.3, 0.1),
  };
  const model = new Answering(outputs, {}, { boxOrder: [0, 2, 1, 3] });
  const found = await (await visionOf(model)).getDetections(ORANGE);
  assertEquals(found.map(({ className, box }) => [className, box]), [
    ["1", { xMin: 0, yMin: 0, xMax: 6, yMax: 8 }],
    ["1", { xMin: 0, yMin: 4, xMax: 12, yMax: 8 }],
  ]);
});

Deno.test("mlmodel: labels are read from every form of file, and filter by label_confidences", async () => {
  const three = new Answering({ probability: floats([1, 3], 0.5, 0.3, 0.2) });
  const names = async (path: string, attributes: JsonObject = {}) => {
    const vision = await visionOf(three, { label_path: path, ...attributes });
    return (await vision.getClassifications(ORANGE, 0)).map(({ className }) => className);
  };
  const forms = ["cat\r\nbig dog\r\n\r\nbird\r\n", "cat,big dog, bird"];
  for (const form of forms) {
    await withLabels(form, async (path) => assertEquals(await names(path), ["cat", "big dog", "bird"]));
  }
  await withLabels("cat dog bird", async (path) => {
    assertEquals(await names(path), ["cat", "dog", "bird"]);
    assertEquals(await names(path, { label_confidences: { DOG: 0.3, bird: 0.5 } }), ["dog"]);
    assertEquals(await names(path, { default_minimum_confidence: 0.4 }), ["cat"]);
  });
  await withLabels("\ufeffbackground\n\ncat\n\n\n", async (path) => {
    const outputs = {
      location: floats([1, 3, 4], ...Array.from({ length: 3 }, () => [0, 0, 1, 1]).flat()),
      category: floats([1, 3], 0, 1, 2),
      score: floats([1, 3], 0.9, 0.8, 0.7),
    };
    const found = await (await visionOf(new Answering(outputs), { label_path: path })).getDetections(ORANGE);
    assertEquals(found.map(({ className }) => className), ["background", "1", "cat"]);
  });
  await withLabels("traffic cone", async (path) => {
    const outputs = {
      location: floats([1, 1, 4], 0, 0, 1, 1),
      category: floats([1, 1], 0),
      score: floats([1, 1], 1),
    };
    const [found] = await (await visionOf(new Answering(outputs), { label_path: path })).getDetections(
      ORANGE,
    );
    assertEquals(found.className, "traffic cone");
    const beyond = new Answering({ ...outputs, category: floats([1, 1], 4) });
    await assertRejects(
      () => visionOf(beyond, { label_path: path }),
      SvcError,
      "class 4 of the model has no label",
    );
  });
  await withLabels("one\ntwo", async (path) => {
    await assertRejects(() => names(path), SvcError, "has 3 classes and the file of labels 2");
  });
  await assertRejects(() => names("/no/labels.txt"), SvcError, 'label_path: cannot read "/no/labels.txt"');
});

Deno.test("mlmodel: an unreadable label file of the model is logged, and classes are numbers", async () => {
  const logged: LogRecord[] = [];
  const model = new Answering({ probability: floats([1, 2], 0.6, 0.4) }, {}, { labels: "/gone/labels.txt" });
  const classes = await (await visionOf(model, {}, logged)).getClassifications(ORANGE, 0);
  assertEquals(classes.map(({ className }) => className), ["0", "1"]);
  assertEquals(logged.length, 1);
});

Deno.test("mlmodel: a model with unfit inputs or outputs is refused with its shapes", async () => {
  const refused = (model: MlModel, message: string) =>
    assertRejects(() => visionOf(model), SvcError, message);
  const probability = floats([1, 2], 0.5, 0.5);
  await refused(
    new Answering({ probability }, { dataType: "int32" }),
    '"image" is int32 [1, -1, -1, 3], wanted uint8',
  );
  await refused(new Answering({ probability }, { shape: [1, 10] }), "wanted [1, height, width, 3]");
  await refused(
    new Answering({ out: floats([1, 2, 2], 1, 2, 3, 4) }),
    "gives out [1, 2, 2], wanted probability",
  );
  const uneven = {
    location: floats([1, 1, 4], 0, 0, 1, 1),
    category: floats([1, 2], 0, 0),
    score: floats([1, 1], 1),
  };
  await refused(new Answering(uneven), "outputs do not fit");
  assertEquals(
    problemsOf(MlModelVision, {
      mlmodel_name: "m",
      xmin_ymin_xmax_ymax_order: [0, 0, 1, 2],
      input_image_mean_value: [1],
      input_image_std_dev: [1, 0, 1],
    }),
    [
      "xmin_ymin_xmax_ymax_order: found [0, 0, 1, 2], wanted each of 0, 1, 2 and 3 once",
      "input_image_mean_value: found 1 numbers, wanted one for each of 3 colours",
      "input_image_std_dev: found 0, wanted numbers other than 0",
    ],
  );
});
