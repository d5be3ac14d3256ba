import { assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { randomFrom } from "../../geometry/random.ts";
import { ModuleWorld, readyWith } from "../../../tests/support/fake_module.ts";
import { until, within } from "../../../tests/support/until.ts";

/** `deno task kill:modules` kills real processes, and more often. */
const KILLS = 25;

Deno.test("resources of modules are built with what modules and the machine have, and closed before their module", async () => {
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
  // What depends on a resource that was lost is built anew with it, though its own module never ended.
  await until(() => world.module("top").diary.length === 3);
  await until(() => world.states.high === "ready");
  assertEquals((await world.readings("high")).run, before.run);
  assertEquals(world.module("top").diary.slice(1), ["remove high", "add high rdk:component:sensor/low"]);
});

Deno.test("a module that ends takes its resources down with the reason, and brings them back; others stay", async () => {
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

Deno.test("a change of a module replaces its process, when its resources are closed; a change of a resource does not", async () => {
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

Deno.test("a module is killed at any moment: its resources return every time, and no call hangs", async () => {
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

Deno.test("50 modules start at once and each serves its own", async () => {
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
