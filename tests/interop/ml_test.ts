/**
 * The published TypeScript SDK asks ONNX models, the vision service over them, and discovery.
 */

import { assert, assertEquals } from "@std/assert";
import { startServer, writeConfig } from "../support/server.ts";
import { run } from "./programs.ts";

const HERE = new URL("./", import.meta.url).pathname;
const MODELS = new URL("../data/ml_model/", import.meta.url).pathname;

const MACHINE = {
  components: [{
    name: "camera",
    api: "rdk:component:camera",
    model: "image_file",
    attributes: { color_image_file_path: new URL("../data/camera/color.png", import.meta.url).pathname },
  }],
  services: [
    {
      name: "colors",
      api: "rdk:service:mlmodel",
      model: "onnx_cpu",
      attributes: { model_path: `${MODELS}colors` },
    },
    {
      name: "boxes",
      api: "rdk:service:mlmodel",
      model: "onnx_cpu",
      attributes: { model_path: `${MODELS}boxes` },
    },
    {
      name: "classifier",
      api: "rdk:service:vision",
      model: "mlmodel",
      attributes: { mlmodel_name: "colors" },
    },
    {
      name: "detector",
      api: "rdk:service:vision",
      model: "mlmodel",
      attributes: {
        mlmodel_name: "boxes",
        input_image_mean_value: [0, 0, 0],
        label_path: `${MODELS}boxes/labels.txt`,
      },
    },
    { name: "discovery", api: "rdk:service:discovery", model: "webcam" },
  ],
  network: {},
};

Deno.test("the published TypeScript SDK infers, classifies, detects and discovers resources", async () => {
  const configPath = await writeConfig(MACHINE);
  const server = await startServer(configPath);
  try {
    await server.wrote("machine is running");
    const options = ["-A", "--no-lock", "--config", `${HERE}packages.json`];
    const { code, stdout, stderr } = await run([
      Deno.execPath(),
      "run",
      ...options,
      `${HERE}ml_tour.mjs`,
      server.url,
    ]);
    assertEquals(code, 0, `${stderr}\nthe server wrote:\n${server.output()}`);
    const { discovered, classes, ...seen } = JSON.parse(stdout.trim().split("\n").at(-1)!);
    assertEquals(seen, {
      input: { name: "image", type: "uint8", shape: [1, 4, 6, 3] },
      output: "probability",
      probability: { shape: [1, 3], values: [0, 1, 0] },
      properties: [true, false],
      fromCamera: 2,
      boxes: seen.boxes,
      captured: [seen.boxes.length, true],
    });
    assertEquals(classes.toSorted(), ["blue", "green", "red"]);
    assert(
      seen.boxes.length > 0 &&
        seen.boxes.every((label: string) => label.includes("half") || label === "nothing"),
    );
    assert(discovered);
  } finally {
    assertEquals(await server.stop(), 0);
    await Deno.remove(configPath);
  }
});
