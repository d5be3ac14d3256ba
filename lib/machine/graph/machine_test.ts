import { assertEquals, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { GenericApi } from "../../api/actuators/generic.ts";
import { GenericServiceApi } from "../../api/services/generic_service.ts";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { anyObject, type JsonObject } from "../../base/schema/schema.ts";
import { ResourceName } from "../../resource/name.ts";
import { type Dependencies, model, Registry } from "../../resource/registry.ts";
import { BaseComponent } from "../../resource/resource.ts";
import type { MachineConfig, ResourceConfig } from "../config/config.ts";
import { Machine } from "./machine.ts";
import { GraphNode } from "./pass/node.ts";
import { EMPTY_CONFIG } from "../../../tests/support/configs.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";

const API = "rdk:component:generic";
const SERVICE = "rdk:service:generic";

/** A machine of two models, `part` and `watcher`, and a diary of what happened. */
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
  class Mover extends Part {
    constructor(name: ResourceName, private readonly hangs: unknown) {
      super(name);
    }

    stop(): Promise<void> {
      diary.push(`stop ${this.name.short}`);
      return Promise.resolve();
    }

    isMoving(): Promise<boolean> {
      return Promise.resolve(true);
    }

    override close(): Promise<void> {
      const closed = super.close();
      return this.hangs === true ? new Promise(() => {}) : closed;
    }
  }
  class Watcher extends Part {
    constructor(name: ResourceName, private readonly dependencies: Dependencies) {
      super(name);
    }

    weakDependenciesChanged(): Promise<void> {
      diary.push(`${this.name.short} sees ${this.dependencies.weak.map(({ name }) => name.short).join("+")}`);
      return Promise.resolve();
    }
  }
  const doc = "for tests";
  const attributes = anyObject().default({});
  const part = model({
    api: GenericApi,
    name: "rdk:builtin:part",
    doc,
    attributes,
    construct: async ({ name, attributes, clock, dependencies }) => {
      for (const need of attributes.needs as string[] ?? []) dependencies.get(GenericApi, need);
      if (typeof attributes.slowMs === "number") await clock.sleep(attributes.slowMs);
      if (faults.has(name.short)) throw new SvcError("unavailable", `${name.short} is broken`);
      const has = dependencies.all(GenericApi).map((one) => one.name.short).join("+");
      diary.push(`build ${name.short}${has === "" ? "" : `(${has})`}`);
      return "moves" in attributes ? new Mover(name, attributes.hangs) : new Part(name);
    },
  });
  const single = { ...GenericServiceApi, instancesMax: 1 };
  const watcher = model({
    api: single,
    name: "rdk:builtin:watcher",
    doc,
    attributes,
    weakDependencies: (api) => api === API,
    construct: ({ name, dependencies }) => new Watcher(name, dependencies),
  });
  const logs = new Logs(clock, [memorySink(records)]);
  const registry = new Registry([GenericApi, single], [part, watcher]);
  const machine = new Machine({ registry, logs, clock, host: new FakeHost(), limits });
  const took = () => diary.splice(0).join(", ");
  const output = (level: string) =>
    records.filter((record) => record.level === level).map((one) => one.message);
  return { machine, clock, took, faults, output, records, logs };
}

/** `{ a: {}, b: { needs: ["a"], may: ["c"] } }` as a configuration. */
function configOf(parts: Record<string, JsonObject>, revision = "r"): MachineConfig {
  const resources = Object.entries(parts).map(([short, attributes]): ResourceConfig => {
    const api = attributes.watches ? SERVICE : API;
    return {
      name: ResourceName.of(api, short),
      path: `components.${short}`,
      kind: "component",
      api,
      model: attributes.watches ? "rdk:builtin:watcher" : attributes.model as string ?? "rdk:builtin:part",
      attributes,
      decoded: attributes,
      dependsOn: attributes.needs as string[] ?? [],
      implicit: (attributes.may as string[] ?? []).map((name) => ({
        name,
        optional: true,
        type: "",
        path: "",
      })),
      serviceConfigs: [],
      problems: [],
    };
  });
  return { ...EMPTY_CONFIG, resources, revision };
}

function states(machine: Machine): Record<string, string> {
  return Object.fromEntries([...machine.nodes].map((node) => [node.name.short, node.state]));
}

function nodeOf(machine: Machine, short: string) {
  return [...machine.nodes].find(({ name }) => name.short === short)!;
}

Deno.test("Machine builds dependencies first and closes dependents first", async () => {
  const { machine, took, output, logs } = bench();
  logs.configure([], true);
  await machine.apply(configOf({ a: { needs: ["b"] }, b: { needs: ["c"] }, c: {} }));
  assertEquals(took(), "build c, build b(c), build a(b)");
  await machine.close();
  assertEquals(took(), "close a, close b, close c");
  const names = ["a", "b", "c"].map((short) => `${API}/${short}`);
  assertEquals(output("debug"), names.flatMap((name) => [`closing ${name}`, `closed ${name}`]));
});

Deno.test("Machine leaves equal resources alone and rebuilds what changed with its users", async () => {
  const { machine, took } = bench();
  await machine.apply(configOf({ a: { needs: ["b"] }, b: {}, c: {} }));
  const untouched = machine.find(API, "c");
  took();
  await machine.apply(configOf({ a: { needs: ["b"] }, b: { changed: true }, c: {} }, "r2"));
  assertEquals(took(), "close a, close b, build b, build a(b)");
  assertStrictEquals(machine.find(API, "c"), untouched);
  assertEquals([...machine.nodes].map(({ revision }) => revision), ["r2", "r2", "r2"]);
  await machine.apply(configOf({ c: {} }));
  assertEquals(took(), "close a, close b");
  assertThrows(() => machine.find(API, "a"), SvcError, `no node found with api ${API} and name a`);
  await machine.close();
});

Deno.test("Machine leaves a resource alone whose attributes come in another order, and builds for another list", async () => {
  const { machine, took } = bench();
  await machine.apply(configOf({ a: { speed: 1, pins: { dir: "1", pwm: "2" }, list: [{ x: 1, y: 2 }, 3] } }));
  took();
  await machine.apply(
    configOf({ a: { list: [{ y: 2, x: 1 }, 3], pins: { pwm: "2", dir: "1" }, speed: 1 } }, "r2"),
  );
  assertEquals([took(), nodeOf(machine, "a").revision], ["", "r2"]);
  await machine.apply(configOf({ a: { speed: 1, pins: { dir: "1", pwm: "2" }, list: [3, { x: 1, y: 2 }] } }));
  assertEquals(took(), "close a, build a");
  await machine.close();
});

Deno.test("Machine: a failing resource is unhealthy, its dependents report the whole chain, and others run", async () => {
  const { machine, faults, output, clock } = bench();
  faults.add("c");
  await machine.apply(configOf({ a: { needs: ["b"] }, b: { needs: ["c"] }, c: {}, d: {} }));
  assertEquals(states(machine), { a: "unhealthy", b: "unhealthy", c: "unhealthy", d: "ready" });
  const chain = `resource build error: dependency ${API}/b is not ready: ` +
    `resource build error: dependency ${API}/c is not ready: resource build error: c is broken`;
  assertEquals(nodeOf(machine, "a").error, chain);
  const error = assertThrows(() => machine.find(API, "a"), SvcError);
  assertEquals([error.code, error.message], ["unknown", `resource ${API}/a not available; reason=${chain}`]);
  await clock.advance(60_000);
  assertEquals(output("error").length, 3);
  assertStringIncludes(output("error")[2], chain);
  await machine.close();
});

Deno.test("Machine: the error of a long dependency chain shows its beginning and its root cause", async () => {
  const { machine, faults } = bench();
  faults.add("p0");
  const chain = Array.from(
    { length: 40 },
    (_, index) => [`p${index}`, index ? { needs: [`p${index - 1}`] } : {}],
  );
  await machine.apply(configOf(Object.fromEntries(chain)));
  const { error } = nodeOf(machine, "p39");
  assertStringIncludes(error!, "(24 more)");
  assertStringIncludes(error!, "p0 is broken");
  await machine.close();
});

Deno.test("Machine: retries a failed resource and its dependents, and rebuilds nothing else", async () => {
  const { machine, faults, clock, output, took } = bench();
  faults.add("b");
  await machine.apply(configOf({ a: { needs: ["b"] }, b: {}, c: {}, lost: { needs: ["gone"] } }));
  took();
  await clock.advance(20_000);
  assertEquals([output("error").length, took()], [3, ""]);
  faults.clear();
  await clock.advance(5_000);
  assertEquals(states(machine), { a: "ready", b: "ready", c: "ready", lost: "unhealthy" });
  assertEquals(took(), "build b, build a(b)");
  assertEquals(output("info"), [`${API}/b is healthy again`, `${API}/a is healthy again`]);
  assertEquals(clock.pending, 0, "nobody waits to try what the configuration makes impossible");
  await machine.close();
});

Deno.test("Machine: rebuilds a resource when its optional dependency appears or disappears", async () => {
  const { machine, faults, clock, took } = bench();
  faults.add("b");
  const parts = { a: { may: ["b"] }, b: {}, user: { needs: ["a"] }, c: {} };
  await machine.apply(configOf(parts));
  assertEquals(took(), "build c, build a, build user(a)");
  await clock.advance(15_000);
  assertEquals(took(), "");
  faults.clear();
  await clock.advance(5_000);
  assertEquals(took(), "build b, close user, close a, build a(b), build user(a)");
  await machine.apply(configOf({ a: parts.a, user: parts.user, c: {} }));
  assertEquals(took(), "close user, close a, close b, build a, build user(a)");
  await machine.close();
});

Deno.test("Machine: calls weakDependenciesChanged of a watching resource instead of rebuilding it", async () => {
  const { machine, faults, clock, took } = bench();
  faults.add("b");
  await machine.apply(configOf({ w: { watches: true }, a: {}, b: {} }));
  await settle();
  assertEquals(took(), "build a, w sees a");
  faults.clear();
  await clock.advance(5_000);
  assertEquals(took(), "build b, w sees a+b");
  await machine.apply(configOf({ w: { watches: true }, a: {}, b: {} }));
  await settle();
  assertEquals(took(), "");
  await machine.apply(configOf({ w: { watches: true }, b: {} }));
  await settle();
  assertEquals(took(), "close a, w sees b");
  await machine.close();
});

Deno.test("Machine: builds at most instancesMax resources of an API, the first of the configuration", async () => {
  const { machine } = bench();
  await machine.apply(configOf({ v: { watches: true }, w: { watches: true } }));
  assertEquals(states(machine), { v: "ready", w: "unhealthy" });
  assertEquals(nodeOf(machine, "w").error, `a machine has at most 1 of ${SERVICE}`);
  await machine.apply(configOf({ w: { watches: true } }));
  assertEquals(states(machine), { w: "ready" });
  await machine.close();
});

Deno.test("Machine builds a limited number of resources at once", async () => {
  const { machine, clock, took } = bench({ limits: { concurrentBuilds: 2 } });
  const slow = { slowMs: 1_000 };
  const applied = machine.apply(configOf({ a: slow, b: slow, c: slow, d: slow, e: {} }));
  await clock.advance(1_000);
  assertEquals(took(), "build a, build b");
  await clock.advance(1_000);
  await applied;
  assertEquals(took(), "build c, build e, build d");
  await machine.close();
});

Deno.test("Machine: warns about a slow build, and marks it unhealthy after buildTimeoutMs", async () => {
  const { machine, clock, took, output } = bench({ limits: { buildTimeoutMs: 12_000 } });
  const applied = machine.apply(configOf({ slow: { slowMs: 13_000 } }));
  await clock.advance(11_000);
  assertEquals(output("warn").map((text) => text.split("after ")[1]), ["2s", "5s", "10s"]);
  await clock.advance(1_000);
  await applied;
  assertStringIncludes(nodeOf(machine, "slow").error!, "was not built within 12s");
  await clock.advance(1_000);
  assertEquals(took(), "build slow, close slow", "what comes late is closed");
  await machine.close();
});

Deno.test("Machine: hanging builds free their places after the timeout and take at most half of them later", async () => {
  const { machine, clock, took } = bench({ limits: { buildTimeoutMs: 60_000 } });
  const never = { slowMs: 1e9 };
  const hanging = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`h${index}`, never]));
  const applied = machine.apply(configOf({ ...hanging, x: {} }));
  await clock.advance(59_999);
  assertEquals(took(), "", "all places are taken");
  await clock.advance(1);
  await applied;
  assertEquals([took(), states(machine).h0], ["build x", "unhealthy"]);
  await clock.advance(6_000);
  void machine.apply(configOf({ ...hanging, x: {}, y: {} }));
  await settle();
  assertEquals(took(), "build y", "they are being tried again, and are in nobody's way");
  const closing = machine.close();
  await clock.advance(10_000);
  await closing;
});

Deno.test("Machine: a newer configuration does not wait for builds of the previous configuration", async () => {
  const { machine, clock, took } = bench();
  void machine.apply(configOf({ slow: { slowMs: 60_000 }, a: {}, user: { needs: ["a"] } }));
  await clock.advance(1_000);
  took();
  const applied = machine.apply(configOf({ slow: { slowMs: 60_000, changed: true }, a: { changed: true } }));
  await clock.advance(60_000);
  await applied;
  assertEquals(took(), "close a, build a, build slow, close slow, build slow");
  assertEquals(machine.resources.length, 2);
  await machine.close();
});

Deno.test("Machine: a build in progress continues if the newer configuration has the same resource", async () => {
  const { machine, clock, took } = bench();
  const slow = { slowMs: 10_000 };
  void machine.apply(configOf({ slow, user: { needs: ["slow"] } }));
  await clock.advance(9_000);
  const applied = machine.apply(configOf({ slow, user: { needs: ["slow"], changed: true }, other: {} }));
  await clock.advance(999);
  assertEquals([took(), states(machine).slow], ["build other", "configuring"]);
  await clock.advance(1);
  await applied;
  assertEquals(took(), "build slow, build user(slow)");
  await machine.close();
});

Deno.test("Machine: closes every resource it built if a configuration arrives at any turn of a build", async () => {
  for (let turns = 0; turns < 60; turns++) {
    const { machine, took, output } = bench({ limits: { concurrentBuilds: 1 } });
    void machine.apply(configOf({ a: {}, b: {}, c: { needs: ["b"] }, d: { may: ["c"] } }));
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    await machine.apply(configOf({ a: { changed: true }, b: { changed: true }, c: { needs: ["b"] } }));
    assertEquals(states(machine), { a: "ready", b: "ready", c: "ready" }, `after ${turns} turns`);
    await machine.close();
    const diary = took().replace(/\(.*?\)/g, "").split(", ");
    const [built, closed] = ["build ", "close "].map((word) =>
      diary.filter((line) => line.startsWith(word)).length
    );
    assertEquals([built, output("error")], [closed, []], `after ${turns} turns: ${diary.join(", ")}`);
  }
});

Deno.test("Machine: close waits at most 5 s for builds in progress, and closes late ones", async () => {
  const { machine, clock, took } = bench();
  void machine.apply(configOf({ slow: { slowMs: 3_000 }, never: { slowMs: 100_000 } }));
  await clock.advance(1_000);
  let closed = false;
  const closing = machine.close().then(() => closed = true);
  await clock.advance(2_000);
  assertEquals([took(), closed], ["build slow, close slow", false]);
  await clock.advance(3_000);
  await closing;
  await clock.advance(100_000);
  assertEquals(took(), "build never, close never");
});

Deno.test("Machine: what moves stops before a configuration closes anything, also below a dependent that hangs", async () => {
  const { machine, took, clock } = bench();
  const motor = { moves: true };
  const frozen = { moves: true, hangs: true };
  const chain = { service: { needs: ["base"] }, base: { needs: ["motor"], ...frozen }, motor, other: motor };
  await machine.apply(configOf(chain));
  took();
  // The motor changes, with everything above it.
  const changed = machine.apply(configOf({ ...chain, motor: { ...motor, pin: 2 } }, "r2"));
  await settle();
  assertEquals(took(), "stop base, stop motor, close service, close base");
  await clock.advance(30_000);
  await changed;
  assertEquals(took(), "close motor, build motor, build base(motor), build service(base)");

  // The motor goes, below a base that hangs.
  const gone = machine.apply(configOf({ other: motor }, "r3"));
  await settle();
  assertEquals(took(), "stop base, stop motor, close service, close base");
  await clock.advance(30_000);
  await gone;
  took();
  await machine.close();
});

Deno.test("Machine: what moves stops before a dependency that comes or goes has its users rebuilt", async () => {
  const { machine, took, clock, faults } = bench();
  faults.add("light");
  const parts = {
    top: { needs: ["arm"], moves: true, hangs: true },
    arm: { may: ["light"], moves: true },
    light: {},
  };
  await machine.apply(configOf(parts));
  took();
  faults.clear();
  await clock.advance(5_000);
  await settle();
  assertEquals(took(), "build light, stop top, stop arm, close top");
  await clock.advance(30_000);
  await settle();
  assertEquals(took(), "close arm, build arm(light), build top(arm)");
  const ending = machine.close();
  await clock.advance(60_000);
  await ending;
});

Deno.test("a resource with an unknown model is unhealthy, and the error suggests a similar model", async () => {
  const { machine } = bench();
  await machine.apply(configOf({ a: { model: "rdk:builtin:prat" } }));
  assertStringIncludes(nodeOf(machine, "a").error!, "did you mean rdk:builtin:part?");
  await machine.close();
});

Deno.test("GraphNode: reports an illegal state change and performs it", () => {
  const bugs: string[] = [];
  const { config } = { config: configOf({ a: {} }).resources[0] };
  const node = new GraphNode(config, 0, (message) => bugs.push(message));
  node.remove(1);
  assertEquals(bugs, []);
  node.remove(2);
  assertEquals(bugs, [`${API}/a moves from removing to removing`]);
});
