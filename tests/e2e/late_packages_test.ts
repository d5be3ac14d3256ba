/**
 * Resources whose packages come late: each says what it waits for, and comes up by itself when the package is there.
 */

import { assertMatch } from "@std/assert";
import { dirname } from "node:path";
import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { type ArchiveFile, packed } from "../../lib/base/files/archive.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { startRuntime } from "../../lib/machine/runtime.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { mapFile } from "../../lib/slam/pbstream/map_file.ts";
import { sampleMap } from "../support/map_states.ts";
import { colorsModel } from "../support/onnx_models.ts";
import { bytesIn } from "../support/pieces.ts";
import { until } from "../support/until.ts";

/** The system, with a home of its own. */
class HostAt extends DenoHost {
  constructor(private readonly home: string) {
    super();
  }

  override env(name: string): string | undefined {
    return name === "SVC_HOME" ? this.home : super.env(name);
  }
}

const CONFIG = {
  network: { bind_address: "localhost:0" },
  packages: [
    { name: "colors", package: "acme:colors", version: "1.0.0", type: "ml_model" },
    { name: "hall", package: "acme:hall", version: "latest", type: "slam_map" },
    { name: "tool", package: "acme:tool", version: "1.0.0", type: "module" },
  ],
  components: [
    { name: "base", api: "rdk:component:base", model: "fake", attributes: { building: "office" } },
    {
      name: "lidar",
      api: "rdk:component:camera",
      model: "svc:lidar:fake",
      attributes: { base: "base" },
    },
  ],
  services: [
    {
      name: "colors",
      api: "rdk:service:mlmodel",
      model: "onnx_cpu",
      attributes: { model_path: "${packages.ml_model.colors}/colors.onnx" },
    },
    {
      name: "slam",
      api: "rdk:service:slam",
      model: "svc:slam:cartographer",
      attributes: {
        use_cloud_slam: false,
        camera: { name: "lidar", data_frequency_hz: "5" },
        config_params: { mode: "2d" },
        enable_mapping: false,
        existing_map: "${packages.slam_map.hall}/internalState.pbstream",
      },
    },
  ],
  modules: [
    { name: "local", type: "local", executable_path: "${packages.module.tool}/run.sh" },
    { name: "weather", type: "registry", module_id: "acme:weather", version: "^1.0" },
  ],
};

async function place(home: string, type: string, id: string, files: Record<string, Uint8Array | string>) {
  const entries = Object.entries(files).map(([path, text]): ArchiveFile => {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    return { path, bytes: bytes.length, content: [bytes], executable: path.endsWith(".sh") };
  });
  const archive = await bytesIn(packed(entries));
  const path = `${home}/registry/${type}/${id}/1.0.0.tar.gz`;
  await Deno.mkdir(dirname(path), { recursive: true });
  // As a whole file, or not at all.
  await Deno.writeFile(`${home}/archive`, archive);
  await Deno.rename(`${home}/archive`, path);
}

Deno.test("resources and modules whose packages come late say so, and come up by themselves", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-late-" });
  const configPath = `${home}/machine.json`;
  await Deno.writeTextFile(configPath, JSON.stringify(CONFIG));
  const clock = new SystemClock();
  const logs = silentLogs(clock);
  const runtime = await startRuntime({
    ...{ configPath, debug: false, noTls: true, showConfigDiffs: false, stop: () => {} },
    diagnostics: { ftdc: false, webProfile: false, telemetry: false },
  }, { registry: new Registry(APIS, MODELS), host: new HostAt(home), clock, logs, version: "1.0.0" });
  const { machine } = runtime;
  const stateOf = (name: string) => {
    const node = [...machine.nodes].find((one) => one.name.short === name);
    return node && { state: node.state, error: node.error ?? "" };
  };
  const moduleError = (name: string) =>
    machine.modules?.statuses.find((one) => one.name === name)?.error ?? "";
  const found = () =>
    JSON.stringify([stateOf("colors"), stateOf("slam"), moduleError("local"), moduleError("weather")]);
  try {
    await runtime.ready;
    const waits = (name: string, id: string) =>
      new RegExp(`package "${name}" \\(${id}\\) is not there yet: it is neither in .* nor in .*/registry`);
    assertMatch(stateOf("colors")!.error, waits("colors", "acme:colors 1.0.0"));
    assertMatch(stateOf("slam")!.error, waits("hall", "acme:hall latest"));
    await until(() => moduleError("local") !== "" && moduleError("weather") !== "", { found });
    assertMatch(moduleError("local"), waits("tool", "acme:tool 1.0.0"));
    assertMatch(moduleError("weather"), waits("weather", "acme:weather \\^1.0"));

    await place(home, "ml_model", "acme:colors", { "colors.onnx": colorsModel() });
    await until(() => stateOf("colors")?.state === "ready", { found });
    assertMatch(stateOf("slam")!.error, waits("hall", "acme:hall latest"));

    const map = await bytesIn(mapFile(sampleMap(), MAPPER_DEFAULTS));
    await place(home, "slam_map", "acme:hall", { "internalState.pbstream": map });
    await until(() => stateOf("slam")?.state === "ready", { found });

    await place(home, "module", "acme:tool", { "run.sh": "#!/bin/sh\necho the tool runs >&2\nexit 3\n" });
    await until(() => moduleError("local").includes("the tool runs"), { found });
    assertMatch(moduleError("weather"), /package "weather"/);
  } finally {
    await runtime.close();
    await Deno.remove(home, { recursive: true });
  }
});
