import { assertEquals, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { GenericApi } from "../api/generic.ts";
import { FakeClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { Host } from "../base/host.ts";
import { type LogRecord, Logs, memorySink } from "../base/log.ts";
import { anyObject, type JsonObject } from "../base/schema.ts";
import { ResourceName } from "../resource/name.ts";
import { model, Registry } from "../resource/registry.ts";
import { BaseComponent } from "../resource/resource.ts";
import type { MachineConfig, ResourceConfig } from "./config.ts";
import { Machine } from "./machine.ts";

const API = "rdk:component:generic";

/** A machine of one model, `part`, whose attributes say how it behaves, and a diary of what happened. */
function bench({ limits = {} } = {}) {
  const clock = new FakeClock();
  const diary: string[] = [];
  const records: LogRecord[] = [];
  const faults = new Set<string>();
  class Part extends BaseComponent {
    override close(): Promise<void> {
      diary.push(`close ${this.name.short}`);
      return Promise.resolve();
    }
  }
  const part = model({
    api: GenericApi,
    name: "rdk:builtin:part",
    doc: "a part",
    attributes: anyObject().default({}),
    construct: async ({ name, attributes, clock, dependencies }) => {
      for (const need of attributes.needs as string[] ?? []) dependencies.get(GenericApi, need);
      if (typeof attributes.slowMs === "number") await clock.sleep(attributes.slowMs);
      if (faults.has(name.short)) throw new SvcError("unavailable", `${name.short} is broken`);
      diary.push(`build ${name.short}`);
      return new Part(name);
    },
  });
  const logs = new Logs(clock, [memorySink(records)]);
  const registry = new Registry([GenericApi], [part]);
  const machine = new Machine({ registry, logs, clock, host: {} as Host, limits });
  const took = () => diary.splice(0).join(", ");
  return { machine, clock, took, faults, records };
}

/** `{ a: {}, b: { needs: ["a"] } }` as a configuration. */
function configOf(parts: Record<string, JsonObject>): MachineConfig {
  const resources = Object.entries(parts).map(([short, attributes]): ResourceConfig => ({
    name: ResourceName.of(API, short),
    path: `components.${short}`,
    kind: "component",
    api: API,
    model: attributes.model as string ?? "rdk:builtin:part",
    attributes,
    decoded: attributes,
    dependsOn: attributes.needs as string[] ?? [],
    implicit: [],
    serviceConfigs: [],
    problems: [],
  }));
  return { resources, revision: "r" } as unknown as MachineConfig;
}

function states(machine: Machine): Record<string, string> {
  return Object.fromEntries([...machine.nodes].map((node) => [node.name.short, node.state]));
}

Deno.test("Machine builds dependencies first and closes dependents first", async () => {
  const { machine, took } = bench();
  await machine.apply(configOf({ a: { needs: ["b"] }, b: { needs: ["c"] }, c: {} }));
  assertEquals(took(), "build c, build b, build a");
  await machine.close();
  assertEquals(took(), "close a, close b, close c");
});

Deno.test("Machine leaves equal resources alone and rebuilds what changed with its users", async () => {
  const { machine, took } = bench();
  await machine.apply(configOf({ a: { needs: ["b"] }, b: {}, c: {} }));
  const untouched = machine.find(API, "c");
  took();
  await machine.apply(configOf({ a: { needs: ["b"] }, b: { changed: true }, c: {} }));
  assertEquals(took(), "close a, close b, build b, build a");
  assertStrictEquals(machine.find(API, "c"), untouched);
  await machine.apply(configOf({ c: {} }));
  assertEquals(took(), "close a, close b");
  assertThrows(() => machine.find(API, "a"), SvcError, `no node found with api ${API} and name a`);
  await machine.close();
});

Deno.test("a failing resource is unhealthy with its reason, its users tell the chain, the others run", async () => {
  const { machine, faults, records } = bench();
  faults.add("b");
  await machine.apply(configOf({ a: { needs: ["b"] }, b: {}, c: {} }));
  assertEquals(states(machine), { a: "unhealthy", b: "unhealthy", c: "ready" });
  const error = assertThrows(() => machine.find(API, "a"), SvcError);
  assertEquals(error.code, "unknown");
  assertStringIncludes(error.message, "not available; reason=resource build error: dependency");
  assertStringIncludes(error.message, "b is broken");
  assertEquals(records.filter((record) => record.level === "error").length, 2);
  await machine.close();
});

Deno.test("what is unhealthy is tried again until it works; its reason is logged once", async () => {
  const { machine, faults, clock, records, took } = bench();
  faults.add("b");
  await machine.apply(configOf({ a: { needs: ["b"] }, b: {}, c: {} }));
  await clock.advance(20_000);
  assertEquals(records.filter((record) => record.level === "error").length, 2);
  faults.clear();
  took();
  await clock.advance(5_000);
  assertEquals(states(machine), { a: "ready", b: "ready", c: "ready" });
  assertEquals(took(), "build b, build a");
  assertEquals(clock.pending, 0);
  await machine.close();
});

Deno.test("a resource that is not built in time is unhealthy; what comes late is closed", async () => {
  const { machine, clock, took } = bench({ limits: { buildTimeoutMs: 1_000 } });
  const applied = machine.apply(configOf({ slow: { slowMs: 3_000 } }));
  await clock.advance(1_000);
  await applied;
  assertStringIncludes([...machine.nodes][0].error!, "was not built within 1000 ms");
  await clock.advance(2_000);
  assertEquals(took(), "build slow, close slow");
  const closed = machine.close();
  await clock.advance(10_000);
  await closed;
});

Deno.test("an unknown model is unhealthy with what is likely meant", async () => {
  const { machine } = bench();
  await machine.apply(configOf({ a: { model: "rdk:builtin:prat" } }));
  assertStringIncludes([...machine.nodes][0].error!, "did you mean rdk:builtin:part?");
  await machine.close();
});
