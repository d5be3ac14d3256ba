import { assertEquals } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { Logs } from "../../base/log/log.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { component, decodeTest, registryOf } from "../../../tests/support/machine_bench.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { Operations } from "../serve/operations.ts";
import { robotService } from "../serve/service.ts";
import { Sessions } from "../serve/sessions.ts";
import { Machine } from "./machine.ts";
import { Remotes } from "./remotes.ts";
import { relayed, relaysIn } from "./relays.ts";

/** Machines that reach each other by name: remotes that list a machine's resources every 10 s. */
function world() {
  const clock = new FakeClock();
  const tables = new Map<string, ServiceTable>();
  const open: (() => Promise<void>)[] = [];
  const start = async (name: string, remotesOf: Record<string, string>, components: string[]) => {
    const logs = new Logs(clock, []);
    const registry = registryOf({ diary: [], faults: new Set(), joints: new Map() });
    const connect = (address: string) => memoryChannel(tables.get(address.split(":")[0])!);
    const remotes = new Remotes({ registry, clock, logger: logs.logger("remotes"), connect });
    const machine = new Machine({ registry, logs, clock, host: new FakeHost(), remotes });
    const sessions = new Sessions({
      machine,
      clock,
      logger: logs.logger("sessions"),
      heartbeatWindowMs: 2000,
    });
    const operations = new Operations(clock);
    const table = new ServiceTable(clock);
    const parts = { machine, operations, sessions, jobs: { statuses: () => [] }, logs, clock };
    table.add(robotService({ ...parts, version: "1", shutdown: () => {} }));
    tables.set(name, table);
    const apply = async (components: string[]) => {
      const config = await decodeTest({
        remotes: Object.entries(remotesOf).map(([name, prefix]) => ({
          ...{ name, address: `${name}:1`, insecure: true, prefix },
        })),
        components: components.map((name) => component("motor", name)),
      }, registry);
      const applied = machine.apply(config);
      await settle();
      await applied;
    };
    await apply(components);
    open.push(async () => {
      await sessions.close();
      await machine.close();
    });
    return { apply, names: () => machine.names.map(({ simple }) => simple).sort().join(" ") };
  };
  const close = () => Promise.all(open.map((one) => one()));
  return { clock, start, close };
}

Deno.test("relays: machines that are each other's remotes do not list their own resources again", async () => {
  const { clock, start, close } = world();
  const a = await start("a", { b: "b-" }, ["left"]);
  const b = await start("b", { a: "a-" }, ["right"]);
  await clock.advance(100_000);
  assertEquals([a.names(), b.names()], ["b-right left", "a-left right"]);
  await close();
});

Deno.test("relays: a removed resource of machines that are each other's remotes disappears from both", async () => {
  const { clock, start, close } = world();
  const a = await start("a", { b: "" }, ["left", "old"]);
  const b = await start("b", { a: "" }, ["right"]);
  await clock.advance(40_000);
  assertEquals([a.names(), b.names()], ["left old right", "left old right"]);
  await a.apply(["left"]);
  await clock.advance(40_000);
  assertEquals([a.names(), b.names()], ["left right", "left right"]);
  await close();
});

Deno.test("relays: in a ring of machines each resource comes as far as the machine before its own", async () => {
  const { clock, start, close } = world();
  const a = await start("a", { b: "b-" }, ["m"]);
  const b = await start("b", { c: "c-" }, ["m"]);
  const c = await start("c", { a: "a-" }, ["m"]);
  await clock.advance(100_000);
  assertEquals([a.names(), b.names(), c.names()], [
    "b-c-m b-m m",
    "c-a-m c-m m",
    "a-b-m a-m m",
  ]);
  await close();
});

Deno.test("relays: an answer tells at most 64 groups of at most 8 machines; others are left out", () => {
  const header = new Metadata();
  const id = (number: number) => String(number).padStart(12, "0");
  const list = Array.from({ length: 100 }, (_, number) => ({ relays: [id(number)] }));
  const long = { relays: Array.from({ length: 8 }, (_, number) => id(200 + number)) };
  const logged = relayed([long, ...list, list[0]], { own: id(999), asking: id(5), header });
  assertEquals([logged.length, logged.includes(long), logged.includes(list[5])], [65, false, false]);
  assertEquals(relaysIn(header).slice(0, 3), [[id(999), id(0)], [id(999), id(0)], [id(999), id(1)]]);
});

Deno.test("relays: the plain answer of a published machine has none, nor has a malformed header", () => {
  assertEquals(relaysIn(new Metadata()), []);
  assertEquals(relaysIn(Metadata.from([["svc-relays", "1 x"]])), []);
  assertEquals(relaysIn(Metadata.from([["svc-relays", "999999 000000000001"]])), []);
  const many = Array.from({ length: 3 }, () => ["svc-relays", "50000 000000000001"] as const);
  assertEquals(relaysIn(Metadata.from(many)), []);
});
