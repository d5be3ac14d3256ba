/**
 * Every built-in model keeps the promises of its API, used directly and through a client and a server.
 *
 * The models run in one machine, described by machine.json; a model without an entry there fails the test.
 */

import { assertEquals } from "@std/assert";
import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { HostWithDevices } from "../support/host_with_devices.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { Machine } from "../../lib/machine/graph/machine.ts";
import type { CaptureMethods } from "../../lib/resource/facets.ts";
import { type AnyApi, Registry } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import { ServiceTable } from "../../lib/wire/rpc/service.ts";
import capabilitiesJson from "./capabilities.json" with { type: "json" };
import machineJson from "./machine.json" with { type: "json" };
import { type Contract, keepContract } from "./contract.ts";
import { CONTRACTS } from "./mod.ts";

const registry = new Registry(APIS, MODELS);

Deno.test("every model has an entry in machine.json, and every API with models has a contract", () => {
  const key = ({ api, model }: { api: string; model: string }) => `${api} ${model}`;
  const entries = [...machineJson.components, ...machineJson.services] as { api: string; model: string }[];
  const configured = new Set(
    entries.map(({ api, model }) =>
      key({ api, model: model.includes(":") ? model : `rdk:builtin:${model}` })
    ),
  );
  const models = registry.names;
  assertEquals(models.map(key).filter((one) => !configured.has(one)), []);
  const contracts = new Set(CONTRACTS.map(({ api }) => api.name));
  assertEquals([...new Set(models.map(({ api }) => api))].filter((api) => !contracts.has(api)), []);
});

Deno.test("every built-in model passes its API's contract directly and through a client", async (t) => {
  const clock = new SystemClock();
  const host = new HostWithDevices(clock);
  const surroundings = { env: (name: string) => host.env(name), packages: () => "" };
  const { config, problems } = await decodeConfig(machineJson, registry, surroundings);
  assertEquals(problems, []);
  const machine = new Machine({ registry, logs: silentLogs(clock), clock, host });
  await machine.apply(config);
  const sick = [...machine.nodes].filter((node) => node.state !== "ready");
  assertEquals(sick.map((node) => `${node.name}: ${node.error}`), []);

  const table = new ServiceTable(clock);
  for (const api of registry.apis) table.add(api.serve((name) => machine.find(api.name, name)));
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });

  const capabilities: Record<string, string[]> = {};
  for (const { name, instance } of [...machine.nodes]) {
    const contract = CONTRACTS.find(({ api }) => api.name === name.api);
    if (!contract) continue;
    const found = await capabilitiesOf(contract, instance!);
    if (found.length > 0) capabilities[`${name}`] = found;
    await t.step(`${name} directly`, (step) => keepContract(contract, instance!, step));
    await t.step(
      `${name} through a client`,
      (step) => keepContract(contract, contract.api.client(name, channel), step),
    );
  }
  await t.step("each model has the capabilities that are listed for it", () => {
    assertEquals(capabilities, capabilitiesJson);
  });
  await t.step("captured readings have the same shape directly and through a client", async () => {
    for (const { name, instance } of [...machine.nodes]) {
      const api = registry.api(name.api)!;
      const near = await capturedShapes(api, instance!);
      assertEquals(await capturedShapes(api, api.client(name, channel)), near, `${name}`);
    }
  });
  channel.close();
  await port.close(0);
  await machine.close();
  await host.close();
});

/** By method: the keys of a reading, the kinds of files, or that the model cannot do it. */
async function capturedShapes({ captured }: AnyApi, resource: Resource): Promise<Record<string, unknown>> {
  const methods: CaptureMethods = captured === "none" ? {} : captured;
  const shapes: Record<string, unknown> = {};
  const parameters = { reader_name: "analog", pin_name: "1", camera_name: "" };
  for (const [method, capture] of Object.entries(methods)) {
    try {
      const taken = await capture(resource, parameters, {});
      shapes[method] = "reading" in taken
        ? Object.keys(taken.reading).sort()
        : taken.files.map(({ mimeType }) => mimeType);
    } catch (error) {
      shapes[method] = SvcError.from(error).code;
    }
  }
  return shapes;
}

/** The capabilities of a resource that its API's cases depend on. */
async function capabilitiesOf(contract: Contract<Resource>, resource: Resource): Promise<string[]> {
  const found: string[] = [];
  for (const one of Object.values(contract.cases)) {
    if (typeof one !== "function" && await one.has(resource)) found.push(one.capability);
  }
  return found.sort();
}
