/** Modules of type registry on a machine without a control plane: their versions are in the machine's own folder. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { run } from "../interop/programs.ts";
import { until } from "../support/until.ts";
import { fromSource, type ModuleMachine, withModules } from "./sdk_bench.ts";

const ID = "example:greenhouse";
const COMPONENTS = [{
  name: "air",
  api: "rdk:component:sensor",
  model: "example:greenhouse:thermometer",
  attributes: { celsius: 7 },
}];

Deno.test("a registry module without a control plane runs in its wanted version from the machine's folder", async () => {
  await withModules({}, { components: COMPONENTS }, async (machine) => {
    const configured = (version?: string) => {
      const module: JsonObject = { name: "greenhouse", type: "registry", module_id: ID };
      return { modules: [version === undefined ? module : { ...module, version }], components: COMPONENTS };
    };
    await machine.write(configured());
    await machine.server.wrote("nor in");
    await put(machine, "1.0.0");
    await put(machine, "1.1.0");

    await machine.write(configured("1.0.0"));
    await runs(machine, "1.0.0");
    await machine.write(configured("^1"));
    await runs(machine, "1.1.0");
    await put(machine, "2.0.0");
    await machine.write(configured());
    await runs(machine, "2.0.0");
    const { packages } = await machine.robot.getMachineStatus({});
    assertEquals(packages.map(({ name, version, error }) => [name, version, error]), [[
      "greenhouse",
      "latest",
      "",
    ]]);
  });
});

/** Resolves when the module of this version answers. */
async function runs({ channel, server }: ModuleMachine, version: string): Promise<void> {
  const sensor = SensorApi.client(ResourceName.of(SensorApi.name, "air"), channel);
  await server.wrote(`this is version ${version}`);
  await until(() => sensor.getReadings().then(({ celsius }) => celsius === 7, () => false));
  assertStringIncludes(server.output(), "a package was taken from the registry folder");
}

/** Puts a version of the example module into the machine's folder. */
async function put({ folder }: ModuleMachine, version: string): Promise<void> {
  const content = await Deno.makeTempDir({ prefix: "svc-registry-" });
  try {
    const command = fromSource("examples/modules/typescript/main.ts").map((word) => `'${word}'`).join(" ");
    const script = `#!/bin/sh\necho "this is version ${version}"\nexec ${command} "$@"\n`;
    await Deno.writeTextFile(`${content}/run.sh`, script, { mode: 0o755 });
    await Deno.writeTextFile(`${content}/meta.json`, JSON.stringify({ entrypoint: "run.sh" }));
    const registry = `${folder}/registry/module/${ID}`;
    await Deno.mkdir(registry, { recursive: true });
    const { code, stderr } = await run(["tar", "-czf", `${registry}/${version}.tar.gz`, "-C", content, "."]);
    assertEquals(code, 0, stderr);
  } finally {
    await Deno.remove(content, { recursive: true });
  }
}
