/**
 * Models of a module keep the promises of their APIs as built-in models do: the same models and the same promises,
 * through svc-server and a module of our own library.
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import machineJson from "../contract/machine.json" with { type: "json" };
import { keepContract } from "../contract/contract.ts";
import { CONTRACTS } from "../contract/mod.ts";
import { fromSource, withModules } from "./sdk_bench.ts";

/** What stays built in, and why. */
const BUILT_IN: Readonly<Record<string, string>> = {
  arm_moved: "is only a part of the frame system",
  tool_moved: "is only a part of the frame system",
  gantry_placed: "is only a part of the frame system",
  data_manager_builtin: "sees the other resources of its machine",
  motion_builtin: "sees the frame system of its machine",
  vision_fake_any_camera: "sees the cameras of its machine",
  base_building: "drives lidars of the same program",
  lidar_fake: "rides on a base in the same program",
  movement_sensor_building: "rides on a base in the same program",
  encoder_fake: "is turned by a motor in the same program",
  encoder_left: "is turned by a motor in the same program",
  encoder_right: "is turned by a motor in the same program",
  motor_left: "turns an encoder in the same program",
  motor_right: "turns an encoder in the same program",
  encoder_single: "is told the direction by a motor in the same program",
  motor_gpio_single: "tells the direction to an encoder in the same program",
  motor_fake_encoded: "turns an encoder in the same program",
};

interface Entry extends JsonObject {
  name: string;
  api: string;
  model: string;
}

const MACHINE = machineJson as unknown as { components: Entry[]; services: Entry[] };

Deno.test("models of a module pass the contracts of their APIs", async (t) => {
  const [components, services] = [MACHINE.components, MACHINE.services].map((section) => {
    return section.map((entry) => entry.name in BUILT_IN ? entry : { ...entry, model: modelOf(entry) });
  });
  const entries = [...components, ...services].filter(({ name }) => !(name in BUILT_IN));
  const config = { ...machineJson as unknown as JsonObject, components, services };
  await withModules({ contract: fromSource("tests/modules/contract_module.ts") }, config, async (machine) => {
    await machine.ready();
    const { models } = await machine.robot.getModelsFromModules({});
    const offered = new Set(models.map(({ api, model }) => `${api} ${model}`));
    assertEquals(entries.filter((entry) => !offered.has(`${entry.api} ${entry.model}`)), []);
    for (const { name, api } of entries) {
      const contract = CONTRACTS.find((one) => one.api.name === api)!;
      const resource = contract.api.client(ResourceName.of(api, name), machine.channel);
      await t.step(`${api}/${name}`, (step) => keepContract(contract, resource, step));
    }
  });
});

function modelOf({ model }: Entry): string {
  const full = model.includes(":") ? model : `rdk:builtin:${model}`;
  return `test:contract:${full.replaceAll(":", "_")}`;
}
