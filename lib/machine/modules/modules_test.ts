import { assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { SensorApi } from "../../api/sensors/sensor.ts";
import { ResourceName } from "../../resource/name.ts";
import { BaseResource, type Resource } from "../../resource/resource.ts";
import { type Discovery, DiscoveryApi } from "../../api/services/discovery.ts";
import type { Service } from "../../wire/rpc/service.ts";
import { gizmo } from "../../../tests/support/gizmo.ts";
import { client } from "../../wire/rpc/channel.ts";
import { randomFrom } from "../../geometry/random.ts";
import {
  type Behaviour,
  type FakeModule,
  MODEL,
  ModuleWorld,
  readyWith,
} from "../../../tests/support/fake_module.ts";
import { until, within } from "../../../tests/support/until.ts";

/** `deno task kill:modules` kills real processes, and more often. */
const KILLS = 25;

Deno.test("a module's resources may use other modules and the machine, and close before their module", async () => {
  await using world = await ModuleWorld.open({
    one: { validate: ({ attributes }) => ({ dependencies: (attributes?.uses ?? []) as string[] }) },
  });
  await world.apply(["one"], {
    a: { attributes: { uses: ["b", "built-in"] } },
    b: {},
    "built-in": { model: "fake" },
  });
  assertEquals(world.states, { a: "ready", b: "ready", "built-in": "ready" });
  const one = world.module("one");
  assertEquals(one.diary, ["add b", "add a rdk:component:sensor/b rdk:component:sensor/built-in"]);
  await world.apply([]);
  assertEquals(one.diary.slice(2), ["remove a", "remove b"]);
  await until(() => one.process.over);
  assertEquals(one.process.signals, ["SIGTERM group", "SIGKILL group"]);
});

Deno.test("a resource of one module depends on a resource of another", async () => {
  await using world = await ModuleWorld.open({
    base: { ready: () => readyWith([{ api: "rdk:component:sensor", models: ["acme:base:probe"] }]) },
    top: { validate: () => ({ dependencies: ["low"] }) },
  });
  await world.apply(["top", "base"], { high: {}, low: { model: "acme:base:probe" } });
  assertEquals(world.states, { high: "ready", low: "ready" });
  assertEquals(world.module("top").diary, ["add high rdk:component:sensor/low"]);
  const before = await world.readings("high");
  world.module("base").kill();
  // A dependent of a lost resource is rebuilt with it, though its own module never ended.
  await until(() => world.module("top").diary.length === 3);
  await until(() => world.states.high === "ready");
  assertEquals((await world.readings("high")).run, before.run);
  assertEquals(world.module("top").diary.slice(1), ["remove high", "add high rdk:component:sensor/low"]);
});

Deno.test("Modules: resources of a crashed module fail with the reason, and return after its restart", async () => {
  let held = Promise.resolve();
  await using world = await ModuleWorld.open({
    one: {
      ready: async () => {
        await held;
        return readyWith([{ api: "rdk:component:sensor", models: ["acme:test:probe"] }]);
      },
    },
    two: { ready: () => readyWith([{ api: "rdk:component:sensor", models: ["acme:two:probe"] }]) },
  });
  await world.apply(["one", "two"], { a: {}, b: { model: "acme:two:probe" } });
  const gate = Promise.withResolvers<void>();
  held = gate.promise;
  const { process } = world.module("one");
  process.stderr.write("out of luck");
  process.exit(3);
  const error = await until(() => world.error("a"));
  assertMatch(error, /module "one" ended, exit code 3: out of luck/);
  assertEquals(world.states.b, "ready");
  assertEquals(
    world.machine.modules!.statuses.map((
      { name, state, consecutiveFailures },
    ) => [name, state, consecutiveFailures]),
    [
      ["one", "unhealthy", 1],
      ["two", "ready", 0],
    ],
  );
  const failed = await assertRejects(() => world.readings("a"), SvcError);
  assertMatch(failed.message, /not available; reason=.*out of luck/);
  gate.resolve();
  await until(() => world.states.a === "ready");
  assertEquals((await world.readings("a")).run, world.module("one").process.pid);
  assertEquals(world.module("two").diary, ["add b"]);
});

Deno.test("Modules: a change of a module replaces its process, and a change of a resource does not", async () => {
  await using world = await ModuleWorld.open();
  await world.apply(["one"], { a: {} });
  const first = world.module("one");
  await world.apply(["one"], { a: { attributes: { degrees: 3 } } });
  assertEquals((await world.readings("a")).degrees, 3);
  assertEquals(first.diary, ["add a", "remove a", "add a"]);
  await world.apply([{ name: "one", env: { WORD: "new" } }], { a: { attributes: { degrees: 3 } } });
  const second = world.module("one");
  assertNotEquals(second, first);
  assertEquals(first.diary.at(-1), "remove a");
  assertEquals([first.process.over, second.process.command.env!.WORD], [true, "new"]);
  assertEquals(world.states.a, "ready");
});

Deno.test("Modules: a module and its resources stay where only the order of members has changed", async () => {
  await using world = await ModuleWorld.open();
  await world.apply([{ name: "one", env: { A: "1", B: "2" } }], {
    a: { attributes: { degrees: 3, place: "x" } },
  });
  const first = world.module("one");
  await world.apply([{ name: "one", env: { B: "2", A: "1" } }], {
    a: { attributes: { place: "x", degrees: 3 } },
  });
  assertEquals([world.module("one") === first, first.diary], [true, ["add a"]]);
  assertEquals(world.states.a, "ready");
});

Deno.test("Modules: resources return after a kill at any moment, and no call hangs", async () => {
  await using world = await ModuleWorld.open({}, { settledMs: 0 });
  await world.apply(["one"], { a: {} });
  const random = randomFrom(1);
  for (let kill = 0; kill < KILLS; kill++) {
    const before = world.started.length;
    const calls = Array.from({ length: 5 }, () => world.readings("a").catch(() => {}));
    for (let turn = Math.floor(random() * 40); turn > 0; turn--) await settle();
    world.module("one").kill();
    await within("the end of all calls", Promise.all(calls));
    await until(() => world.started.length > before && world.states.a === "ready");
    assertEquals((await world.readings("a")).run, world.module("one").process.pid);
  }
});

Deno.test("Modules: 50 modules start at once and each serves its own resource", async () => {
  const names = Array.from({ length: 50 }, (_, index) => `m${index}`);
  await using world = await ModuleWorld.open(Object.fromEntries(names.map((name) => [name, {
    ready: () => readyWith([{ api: "rdk:component:sensor", models: [`acme:${name}:probe`] }]),
  }])));
  await world.apply(
    names,
    Object.fromEntries(names.map((name) => [`r-${name}`, { model: `acme:${name}:probe` }])),
  );
  assertEquals(new Set(Object.values(world.states)), new Set(["ready"]));
  assertEquals(world.started.length, 50);
  const runs = await Promise.all(names.map(async (name) => (await world.readings(`r-${name}`)).run));
  assertEquals(new Set(runs).size, 50);
});

Deno.test("Modules: with tcp_mode, the module and the machine talk over loopback addresses", async () => {
  await using world = await ModuleWorld.open();
  await world.apply([{ name: "one", tcp_mode: true }], { a: {} });
  const one = world.module("one");
  assertMatch(one.address, /^127\.0\.0\.1:\d+$/);
  const isWarned = Deno.build.os !== "windows";
  assertEquals(world.output("this module serves on a TCP port").length, isWarned ? 1 : 0);
  assertEquals(one.process.command.args, [one.address, "--tcp-mode"]);
  assertMatch(one.parentAddress, /^127\.0\.0\.1:\d+$/);
  assertEquals((await world.readings("a")).run, one.process.pid);
  await callsTheMachine(one);
  // A page that somebody looks at on this computer reaches these addresses, too.
  const headers = { "content-type": "application/grpc-web+proto" };
  const page = await fetch(`http://${one.parentAddress}/${RobotService.typeName}/ResourceNames`, {
    ...{ method: "POST", headers, body: new Uint8Array(5) },
  });
  assertEquals([page.status, await page.text()], [
    403,
    "this port takes no calls from web pages: it asks nobody for a key\n",
  ]);
  assertEquals(
    world.host.temporaryFolders,
    0,
    "where no Unix socket can be opened, as on Windows, it works too",
  );
});

Deno.test({
  name: "Modules: with tcp_mode, other users of the computer reach neither the machine nor a module's place",
  // Only root may start a program as somebody else.
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0,
  fn: async () => {
    await using world = await ModuleWorld.open();
    await world.apply([{ name: "one", tcp_mode: true }], { a: {} });
    const { parentAddress } = world.module("one");
    const [host, port] = parentAddress.split(":");
    const ask = `exec 3<>/dev/tcp/${host}/${port}; ` +
      `printf 'GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3`;
    const answer = async (command: string, ...args: string[]) => {
      const { stdout } = await new Deno.Command(command, { args, stderr: "null" }).output();
      return new TextDecoder().decode(stdout);
    };
    assertMatch(await answer("bash", "-c", ask), /^HTTP\/1\.1 /);
    const nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    assertEquals(await answer("setsid", "--fork", ...nobody, "bash", "-c", ask), "");
    assertEquals(world.output("refused a connection: a program of the user 65534").length, 1);
  },
});

Deno.test("Modules: a module calls the machine on its socket without a key", async () => {
  await using world = await ModuleWorld.open();
  const auth = { handlers: [{ type: "api-key", config: { b: "second", a: "first", keys: ["a", "b"] } }] };
  await world.apply(["one"], { a: {} }, { auth });
  const one = world.module("one");
  const { VIAM_API_KEY_ID, VIAM_API_KEY, SVC_API_KEY } = one.process.command.env!;
  assertEquals([VIAM_API_KEY_ID, VIAM_API_KEY, SVC_API_KEY], ["a", "first", "first"]);
  await callsTheMachine(one);
});

async function callsTheMachine(module: FakeModule): Promise<void> {
  const parent = module.parent();
  const { resources } = await client(RobotService, parent).resourceNames({});
  assertEquals(resources.map(({ name }) => name).sort(), ["a", "builtin"]);
  parent.close();
}

Deno.test("a module's level comes from its entry, from a pattern with its name, or from the machine", async () => {
  await using world = await ModuleWorld.open();
  const argumentsOf = async (module: JsonObject, more: JsonObject) => {
    await world.apply([{ name: "one", ...module }], {}, more);
    return world.module("one").process.command.args!.slice(1);
  };
  const log = [{ pattern: "o.e", level: "debug" }, { pattern: "other", level: "error" }];
  assertEquals(await argumentsOf({}, {}), []);
  assertEquals(await argumentsOf({}, { log }), ["--log-level=debug"]);
  assertEquals(await argumentsOf({ log_level: "Warning" }, { log, debug: true }), ["--log-level=warn"]);
  assertEquals(await argumentsOf({}, { debug: true }), ["--log-level=debug"]);
});

Deno.test("Machine.restartModule: waits until the module's resources are back, and returns undefined for an unknown module", async () => {
  await using world = await ModuleWorld.open();
  await world.apply(["one"], { a: {} });
  const first = world.module("one");
  const { signal } = new AbortController();
  await world.machine.restartModule(({ name }) => name === "one", signal);
  assertEquals(world.states.a, "ready");
  assertEquals([first.process.over, first.diary], [true, ["add a", "remove a"]]);
  assertEquals((await world.readings("a")).run, world.module("one").process.pid);
  assertEquals(world.machine.restartModule(({ name }) => name === "two", signal), undefined);
});

Deno.test("Modules: retry a failed start, a failed validation and a failed construction", async () => {
  const faults = new Set(["start", "validate", "add"]);
  const fails = (fault: string) => {
    if (faults.has(fault)) throw new Error(`no ${fault} yet`);
  };
  await using world = await ModuleWorld.open({
    one: {
      started: ({ process }) => faults.has("start") && process.exit(1),
      validate: () => {
        fails("validate");
        return {};
      },
      add: () => fails("add"),
    },
  }, { startPauseMaxMs: 5 });
  void world.apply(["one"], { a: {} });
  await until(() => world.machine.modules?.statuses[0].consecutiveFailures! > 3);
  faults.delete("start");
  await until(() => world.error("a")?.includes("no validate yet"));
  faults.delete("validate");
  await until(() => world.error("a")?.includes("no add yet"));
  faults.delete("add");
  await until(() => world.states.a === "ready");
  assertEquals((await world.readings("a")).run, world.module("one").process.pid);
});

Deno.test("Modules: the machine routes all four kinds of calls of an API that only a module knows", async () => {
  const { api, desc } = gizmo();
  const made = new Map<string, Resource>();
  const service = (module: FakeModule): Service =>
    api.serve((name) => {
      if (!module.resources.has(name)) throw new SvcError("not_found", `there is no ${name}`);
      return made.getOrInsertComputed(name, () =>
        api.client(ResourceName.of(api.name, name), module.parent())) as never;
    });
  await using world = await ModuleWorld.open({
    one: {
      ready: () => readyWith([{ api: api.name, models: ["acme:gizmo:real"], service: desc.typeName }]),
      services: (module) => [service(module)],
    },
  });
  await world.apply(["one"], {
    g: { api: api.name, model: "acme:gizmo:real" },
    h: { model: "fake", depends_on: ["g"] },
  });
  assertEquals(world.states.h, "ready");
  assertEquals(world.machine.names.map(({ full }) => full).includes("acme:component:gizmo/g"), true);
  type Turn = { name: string; turns: bigint };
  const methods = client(desc, world.channel) as {
    readonly [method: string]: (request: Turn | AsyncIterable<Turn>) => Promise<Turn> & AsyncIterable<Turn>;
  };
  const each = async function* (...turns: bigint[]) {
    for (const one of turns) yield await Promise.resolve({ name: "g", turns: one });
  };
  const request = { name: "g", turns: 1n };
  assertEquals((await methods.one(request)).turns, 2n);
  assertEquals((await Array.fromAsync(methods.out(request))).length, 2);
  assertEquals((await methods.in(each(1n, 2n, 3n))).turns, 4n);
  assertEquals((await Array.fromAsync(methods.both(each(5n, 6n)))).map(({ turns }) => turns), [6n, 7n]);
  await assertRejects(() => methods.one({ name: "x", turns: 1n }), SvcError, "no node found");
  world.module("one").kill();
  await until(() => world.started.length === 2 && world.states.h === "ready");
  assertEquals((await methods.one(request)).turns, 2n);
});

Deno.test("Modules: a resource answers while its module validates the next configuration", async () => {
  let answer = Promise.withResolvers<void>();
  let asked = 0;
  await using world = await ModuleWorld.open({
    one: {
      validate: async ({ attributes }) => {
        if (attributes?.slow) asked++;
        if (attributes?.slow) await answer.promise;
        if (attributes?.bad) throw new SvcError("invalid_argument", "too bad");
      },
    },
  });
  await world.apply(["one"], { a: { attributes: { step: 1 } }, b: { depends_on: ["a"] } });
  const changed = world.apply(["one"], {
    a: { attributes: { step: 2, slow: true } },
    b: { depends_on: ["a"] },
  });
  await until(() => asked === 1);
  await settle();
  assertEquals((await world.readings("a")).step, 1);
  assertEquals((await world.readings("b")).run, 1000);
  answer.resolve();
  await changed;
  assertEquals((await world.readings("a")).step, 2);
  assertEquals(world.module("one").diary, ["add a", "add b rdk:component:sensor/a", ...[
    "remove b",
    "remove a",
    "add a",
    "add b rdk:component:sensor/a",
  ]]);
  assertEquals(world.records.filter(({ level }) => level === "error"), []);

  answer = Promise.withResolvers<void>();
  const refused = world.apply(["one"], { a: { attributes: { slow: true, bad: true } } });
  await until(() => asked === 2);
  await settle();
  assertEquals((await world.readings("a")).step, 2);
  answer.resolve();
  await refused;
  assertMatch(world.error("a")!, /too bad/);
});

Deno.test("Modules: a dependency on the frame system does not delay a resource", async () => {
  const names = ["framesystem", "$framesystem", "rdk:service:framesystem/$framesystem"];
  const internal = "rdk-internal:service:frame_system/builtin";
  await using world = await ModuleWorld.open({
    one: { validate: () => ({ dependencies: [...names, internal], optionalDependencies: names }) },
  });
  await world.apply(["one"], { a: {} });
  assertEquals(world.states, { a: "ready" });
  assertEquals(world.module("one").diary, ["add a"]);
});

Deno.test("Modules: a module's data folder is removed only when no entry names the module", async () => {
  await using world = await ModuleWorld.open();
  await world.apply(["one", "two"]);
  const { VIAM_MODULE_DATA: one } = world.module("one").process.command.env!;
  const { VIAM_MODULE_DATA: two } = world.module("two").process.command.env!;
  // An entry that is ignored because of an error still counts as wanted.
  await world.apply([{ name: "one", status: { error: "its version is gone" } }]);
  const isThere = (path: string) => Deno.stat(path).then(() => true, () => false);
  await until(async () => !await isThere(two));
  assertEquals([world.module("one").process.over, await isThere(one)], [true, true]);
});

Deno.test("Modules: with -untrusted-env, no module starts", async () => {
  await using world = await ModuleWorld.open({}, { untrusted: true });
  await world.apply(["one"], { a: {}, b: { model: "fake" } });
  assertEquals([world.started.length, world.states.b], [0, "ready"]);
  assertMatch(world.error("a")!, /module "one" is a program, which -untrusted-env disables/);
});

Deno.test("Modules: with reconfigures, resources change in place, or are rebuilt if the module cannot", async () => {
  await using world = await ModuleWorld.open({ one: { reconfigure: () => {} } });
  const modules = (...names: string[]) => names.map((name) => ({ name, reconfigures: true }));
  const degrees = (value: number) => ({ attributes: { degrees: value } });
  await world.apply(modules("one"), { a: degrees(1), b: {} });
  await world.apply(modules("one"), { a: degrees(2), b: {} });
  assertEquals((await world.readings("a")).degrees, 2);
  await world.apply(modules("one"), { b: {} });
  assertEquals(world.module("one").diary.slice(2), ["reconfigure a", "remove a"]);
  // A resource that is removed from the configuration during its change is removed.
  await world.apply(modules("one"), { b: { attributes: { uses: 1 }, depends_on: ["nobody"] } });
  await world.apply(modules("one"), {});
  await until(() => world.module("one").resources.size === 0);

  await using other = await ModuleWorld.open();
  await other.apply(modules("two"), { a: degrees(1) });
  await other.apply(modules("two"), { a: degrees(2) });
  assertEquals(other.module("two").diary, ["add a", "reconfigure a", "remove a", "add a"]);
  assertEquals((await other.readings("a")).degrees, 2);
});

/** A module that changes resources in place, with two models, and refuses `bad` attributes. */
const CHANGING: Behaviour = {
  ready: () => readyWith([{ api: "rdk:component:sensor", models: [MODEL, "acme:test:other"] }]),
  validate: ({ attributes }) => {
    if (attributes?.bad) throw new SvcError("invalid_argument", "too bad");
    return {};
  },
  reconfigure: () => {},
};
const ONE = [{ name: "one", reconfigures: true }];

Deno.test("Modules: with reconfigures, a refused configuration closes the resource in the module, too", async () => {
  await using world = await ModuleWorld.open({ one: CHANGING });
  const { resources, diary } = await world.apply(ONE, { a: {} }).then(() => world.module("one"));
  await world.apply(ONE, { a: { attributes: { bad: true } } });
  assertMatch(world.error("a")!, /too bad/);
  assertEquals([...resources.keys()], []);
  await world.apply(ONE, { a: {} });
  assertEquals([world.states.a, diary], ["ready", ["add a", "remove a", "add a"]]);

  // What has waited for its dependency so far, and is then refused.
  await world.apply(ONE, { a: { attributes: { step: 2 }, depends_on: ["nobody"] } });
  await world.apply(ONE, { a: { attributes: { bad: true } } });
  await until(() => resources.size === 0);
});

Deno.test("Modules: with reconfigures, another model of the module is built, not changed to", async () => {
  await using world = await ModuleWorld.open({ one: CHANGING });
  await world.apply(ONE, { a: {} });
  await world.apply(ONE, { a: { attributes: { step: 2 }, depends_on: ["nobody"] } });
  assertEquals(world.states.a, "unhealthy");
  await world.apply(ONE, { a: { model: "acme:test:other" } });
  assertEquals(world.states.a, "ready");
  assertEquals(world.module("one").diary.filter((one) => one.startsWith("reconfigure")), []);
  assertEquals(world.module("one").resources.get("a")!.model, "acme:test:other");
});

Deno.test("Modules: with reconfigures, the module closes what a built-in model takes over", async () => {
  await using world = await ModuleWorld.open({ one: CHANGING });
  await world.apply(ONE, { a: {} });
  await world.apply(ONE, { a: { attributes: { step: 2 }, depends_on: ["nobody"] } });
  await world.apply(ONE, { a: { model: "fake" } });
  assertEquals(world.states.a, "ready");
  await until(() => world.module("one").resources.size === 0);
});

Deno.test("Machine.restartModule: starts a module that keeps crashing at once, or says why it fails", async () => {
  let isBroken = true;
  await using world = await ModuleWorld.open({
    one: { started: ({ process }) => isBroken && process.exit(4) },
  }, { pauseMs: 600_000, startPauseMaxMs: 600_000 });
  void world.apply(["one"], { a: {} });
  await until(() => world.machine.modules?.statuses[0].consecutiveFailures === 2);
  const { signal } = new AbortController();
  const restart = () => world.machine.restartModule(({ name }) => name === "one", signal)!;
  const error = await assertRejects(restart, SvcError, 'module "one" ended, exit code 4');
  assertEquals(error.code, "unavailable");
  await until(() => world.machine.modules?.statuses[0].consecutiveFailures === 2);
  isBroken = false;
  await restart();
  assertEquals([world.states.a, (await world.readings("a")).run], [
    "ready",
    world.module("one").process.pid,
  ]);
});

Deno.test("Modules: resources of a module are built anew, in order, when an optional dependency of one is rebuilt", async () => {
  const needs: Record<string, { dependencies?: string[]; optionalDependencies?: string[] }> = {
    arm: { optionalDependencies: ["planner"] },
    gripper: { dependencies: ["arm"] },
  };
  await using world = await ModuleWorld.open({ one: { validate: ({ name }) => needs[name] ?? {} } });
  const parts = (step: number) => ({ arm: {}, gripper: {}, planner: { attributes: { step } } });
  await world.apply(["one"], parts(1));
  const { diary } = world.module("one");
  const before = diary.length;
  await world.apply(["one"], parts(2));
  assertEquals(diary.slice(before), [
    ...["remove gripper", "remove arm", "remove planner", "add planner"],
    ...["add arm rdk:component:sensor/planner", "add gripper rdk:component:sensor/arm"],
  ]);
});

Deno.test("Modules: of two modules with the same model the first counts, with a warning, until it is removed", async () => {
  await using world = await ModuleWorld.open();
  const warnings = () => world.records.filter(({ level }) => level === "warn").map(({ message }) => message);
  await world.apply(["one", "two"], { a: {} });
  assertEquals((await world.readings("a")).run, world.module("one").process.pid);
  const of = "acme:test:probe of rdk:component:sensor";
  await until(() => warnings().length > 0);
  const { signal } = new AbortController();
  await world.machine.restartModule(({ name }) => name === "two", signal);
  assertEquals(warnings(), [`modules "one" and "two" both have ${of}; that of "one" is used`]);
  await world.apply(["two"], { a: {} });
  assertEquals((await world.readings("a")).run, world.module("two").process.pid);
});

Deno.test("Modules.figures: contains memory and CPU time of each running module", async () => {
  await using world = await ModuleWorld.open({ two: { serves: false } }, { startTimeoutMs: 3000 });
  await world.apply(["one", "two"]);
  assertEquals(world.machine.modules!.figures, {
    "proc.modules.one.resident_bytes": world.module("one").process.pid,
    "proc.modules.one.cpu_total_us": 7,
  });
});

Deno.test("Modules: AddResource carries the whole configuration entry of a resource", async () => {
  await using world = await ModuleWorld.open();
  const service = { type: "data_manager", attributes: { capture_methods: [] } };
  await world.apply(["one"], {
    b: { model: "fake" },
    c: {},
    a: {
      attributes: { words: ["x", 1, null] },
      depends_on: ["b"],
      frame: { parent: "world", translation: { x: 1, y: 2, z: 3 } },
      log_configuration: { level: "debug" },
      service_configs: [service],
    },
  });
  const { $typeName: _, frame, serviceConfigs, ...logged } = world.module("one").resources.get("a")!;
  assertEquals({ ...logged, logConfiguration: logged.logConfiguration?.level }, {
    name: "a",
    namespace: "rdk",
    type: "sensor",
    api: "rdk:component:sensor",
    model: "acme:test:probe",
    attributes: { words: ["x", 1, null] },
    dependsOn: ["b"],
    logConfiguration: "debug",
  });
  // The published runtime leaves out a level that nobody set; modules in Go and C++ warn of an empty one.
  assertEquals(world.module("one").resources.get("c")!.logConfiguration, undefined);
  const { x, y, z } = frame!.translation!;
  assertEquals([frame!.parent, x, y, z], ["world", 1, 2, 3]);
  assertEquals(serviceConfigs.map(({ type }) => type), ["rdk:service:data_manager"]);
});

Deno.test("Modules: DiscoverResources of a module's discovery service returns its findings", async () => {
  class Finder extends BaseResource implements Discovery {
    discoverResources() {
      const found = { name: "found", api: "rdk:component:sensor", model: MODEL, attributes: { pin: 4 } };
      return Promise.resolve([found]);
    }
  }
  await using world = await ModuleWorld.open({
    one: {
      ready: () =>
        readyWith([{
          api: DiscoveryApi.name,
          models: ["acme:test:finder"],
          service: "viam.service.discovery.v1.DiscoveryService",
        }]),
      services: () => [DiscoveryApi.serve((name) => new Finder(ResourceName.of(DiscoveryApi.name, name)))],
    },
  });
  const services = [{ name: "finder", api: DiscoveryApi.name, model: "acme:test:finder" }];
  await world.apply(["one"], {}, { services });
  const finder = DiscoveryApi.client(ResourceName.of(DiscoveryApi.name, "finder"), world.channel);
  const found = await finder.discoverResources();
  assertEquals(found.map(({ name, model, attributes }) => [name, model, attributes]), [["found", MODEL, {
    pin: 4,
  }]]);
});

Deno.test("Modules.settled: ends as soon as the last module is ready", async () => {
  await using world = await ModuleWorld.open({ slow: { serves: false } });
  const applied = world.apply(["slow", "quick"]);
  await until(() => world.started.length === 2);
  let isSettled = false;
  const { signal } = new AbortController();
  const settled = world.machine.modules!.settled(signal).then(() => isSettled = true);
  await until(() => world.machine.modules!.statuses.some(({ state }) => state === "ready"));
  assertEquals(isSettled, false);
  await world.module("slow").serve();
  await within("the modules are settled", settled);
  assertEquals(world.machine.modules!.statuses.map(({ state }) => state), ["ready", "ready"]);
  await applied;
});

Deno.test("a module finds what it depends on at its machine: a remote's resource without the remote, unless it is hidden", async () => {
  await using far = await ModuleWorld.open();
  await far.apply([], { m: { model: "fake" }, own: { model: "fake" } });
  await using world = await ModuleWorld.open({
    one: { validate: () => ({ dependencies: ["far:m", "far:own"] }) },
  }, { remote: far });
  const remotes = { remotes: [{ name: "far", address: "far:1", insecure: true }] };
  await world.apply(["one"], { a: {} }, remotes);
  const { diary } = world.module("one");
  await until(() => world.states.a === "ready");
  assertEquals(diary, ["add a rdk:component:sensor/m rdk:component:sensor/own"]);

  // The module's "m" would be this machine's from now on.
  const hiding = { a: {}, m: { model: "fake" } };
  await world.apply(["one"], hiding, remotes);
  await until(() => world.states.a === "ready");
  assertEquals(diary.slice(1), ["remove a", "add a rdk:component:sensor/far:m rdk:component:sensor/own"]);
  assertEquals(world.machine.find(SensorApi.name, "far:m").name.far, "m");

  await world.apply(["one"], { a: {} }, remotes);
  await until(() => world.states.a === "ready");
  assertEquals(diary.slice(3), ["remove a", "add a rdk:component:sensor/m rdk:component:sensor/own"]);
});
