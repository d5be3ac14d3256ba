/** Configurations that the published runtime takes although something in them is wrong. */

import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { APIS } from "../../api/mod.ts";
import { MODELS } from "../../../drivers/mod.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject, Problem } from "../../base/schema/schema.ts";
import { Registry } from "../../resource/registry.ts";
import { decodeConfig } from "./config.ts";
import { parseConfig } from "./file.ts";

const registry = new Registry(APIS, MODELS);

async function decoded(json: JsonObject) {
  const { config, problems } = await decodeConfig(json, registry, { env: () => undefined });
  const of = (severity: Problem["severity"]) =>
    problems.filter((one) => one.severity === severity).map(({ path, message }) => `${path}: ${message}`);
  return { config, errors: of("error"), warnings: of("warning") };
}

const component = (api: string, model: string, attributes: JsonObject, more: JsonObject = {}) => ({
  components: [{ name: "one", api: `rdk:component:${api}`, model, attributes, ...more }],
});

Deno.test("a fraction where an integer is wanted is taken as its whole part, but not by obstacles_depth", async () => {
  const service = (model: string, attributes: JsonObject) => ({
    services: [{ name: "one", api: "rdk:service:vision", model, attributes }],
  });
  const pins = { a: "1", b: "2", pwm: "3" };
  const cases: [JsonObject, string, number][] = [
    [component("motor", "gpio", { board: "b", pins, max_rpm: 60, pwm_freq: 800.5 }), "pwmFreq", 800],
    [component("camera", "fake", { width: 64.9, height: 48 }), "width", 64],
    [
      service("color_detector", { detect_color: "#ff0000", hue_tolerance_pct: 0.1, segment_size_px: 100.5 }),
      "segmentSizePx",
      100,
    ],
  ];
  for (const [json, property, taken] of cases) {
    const { config, errors, warnings } = await decoded(json);
    const [{ decoded: attributes }] = config.resources;
    assertEquals([errors, warnings.length], [[], 1], property);
    assertStringIncludes(warnings[0], `taken as ${taken}`);
    assertEquals(
      JSON.stringify(attributes).includes(`"${property}":${taken}`),
      true,
      JSON.stringify(attributes),
    );
  }
  for (const key of ["min_points_in_plane", "min_points_in_segment", "ground_angle_tolerance_degs"]) {
    const { errors } = await decoded(service("obstacles_depth", { [key]: 10.5 }));
    assertStringIncludes(errors[0], `attributes.${key}: found 10.5, wanted an integer`);
  }
});

Deno.test("a mistake in a frame costs the frame, with a warning", async () => {
  const frames: [JsonObject, string][] = [
    [{ parent: "world", geometry: { type: "blob", x: 1 } }, "geometry"],
    [{ parent: "world", geometry: { type: "box", x: 0, y: 1, z: 1 } }, "a box of 0 x 1 x 1 mm"],
    [{ parent: "world", orientation: { type: "ov_degrees" } }, "orientation"],
    [{ parent: "world", translation: { x: "far" } }, 'translation.x: found "far"'],
    [{ parent: 7 }, "parent: found 7"],
    ["world" as unknown as JsonObject, 'found "world"'],
  ];
  for (const [frame, problem] of frames) {
    const { config, errors, warnings } = await decoded(component("arm", "fake", {}, { frame }));
    const [arm] = config.resources;
    assertEquals([errors, arm.frame, arm.problems.every(({ severity }) => severity === "warning")], [
      [],
      undefined,
      true,
    ]);
    assertStringIncludes(warnings.join("\n"), problem);
    assertStringIncludes(warnings.join("\n"), "(the frame is ignored)");
  }
  const good = { parent: "world", translation: { x: 1, y: 2, z: 3 } };
  assertEquals(
    (await decoded(component("arm", "fake", {}, { frame: good }))).config.resources[0].frame,
    good,
  );
  const remotes = [{ name: "far", address: "far:8080", frame: { translation: { x: 1 } } }];
  const { config, errors } = await decoded({ remotes });
  assertEquals([errors, config.remotes.map(({ name, frame }) => [name, frame])], [[], [["far", undefined]]]);
});

Deno.test("zero values of attributes mean the default", async () => {
  const cases: JsonObject[] = [
    component("camera", "webcam", { format: "", video_path: "", width_px: 0 }),
    component("camera", "image_file", { preloaded_image: "", color_image_file_path: "x.png" }),
    component("arm", "fake", { "arm-model": "", "model-path": "" }),
    component("motor", "fake", { max_rpm: 0, encoder: "" }),
  ];
  for (const json of cases) assertEquals((await decoded(json)).errors, [], JSON.stringify(json));
  const power = component("motor", "gpio", {
    board: "b",
    pins: { a: "1", b: "2" },
    max_rpm: 60,
    max_power_pct: 0,
  });
  assertStringIncludes(
    (await decoded(power)).errors[0],
    "max_power_pct: found 0, wanted a number from 0.06 to 1",
  );
});

Deno.test("keys in another letter case are the known ones", async () => {
  const { config, errors, warnings } = await decoded({
    Components: [{
      Name: "one",
      API: "rdk:component:motor",
      Model: "fake",
      Attributes: { Max_RPM: 90 },
      FRAME: { Parent: "world", Translation: { X: 5 } },
      Depends_On: [],
    }],
    SERVICES: [{ NAME: "eyes", Type: "vision", MODEL: "fake" }],
  });
  assertEquals(errors, []);
  assertEquals(config.resources.map(({ name, model }) => `${name.full} ${model}`), [
    "rdk:component:motor/one rdk:builtin:fake",
    "rdk:service:vision/eyes rdk:builtin:fake",
    "rdk:service:motion/builtin rdk:builtin:builtin",
  ]);
  assertEquals((config.resources[0].decoded as { maxRpm: number }).maxRpm, 90);
  assertEquals(config.resources[0].frame !== undefined, true);
  assertEquals(warnings.every((warning) => warning.includes("taken as")), true, warnings.join("\n"));
});

Deno.test("text behind the object, and a byte that is no UTF-8, are warnings", () => {
  const bytes = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const object = '{"components": [{"name": "caf\xe9"}]}';
  const tails = ["\n}\n", "\0\0\0\0", " trailing words", "{}", "/* open", '"', '\n, "debug": true}'];
  for (const tail of ["", ...tails]) {
    const problems: Problem[] = [];
    const json = parseConfig(bytes(object + tail), { file: "a.json", env: () => undefined, problems });
    assertEquals(json, { components: [{ name: "caf\ufffd" }] });
    assertEquals(
      problems.map(({ severity }) => severity),
      tail === "" ? ["warning"] : ["warning", "warning"],
    );
    assertStringIncludes(problems[0].message, "not UTF-8 text in line 1");
    if (tail !== "") assertStringIncludes(problems[1].message, "this and what follows is ignored", tail);
  }
  for (const broken of ['{"a": 1', "", "\xe9{}", "[]"]) {
    assertThrows(
      () => parseConfig(bytes(broken), { file: "a.json", env: () => undefined }),
      SvcError,
      "a.json",
    );
  }
});
