import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { SvcError } from "../../base/error.ts";
import { type Dashboard, DashboardStore } from "./dashboards.ts";
import { awaitOutcome } from "../../../tests/support/outcome.ts";

const PATH = "/home/dashboards/local-config.json";
const card = (name: string, isWide = false) => ({ id: `rdk:component:motor/${name}`, isWide });
const dashboard = (name: string, ...cards: string[]): Dashboard => ({
  name,
  cards: cards.map((one) => card(one)),
});

const clock = new FakeClock();
const by = { caller: "alice" };
const storeOn = (host: FakeHost) => new DashboardStore(PATH, host, clock);

function keep(store: DashboardStore, one: Dashboard, formerName = "", caller = "alice"): Promise<void> {
  return store.set(one, formerName, { caller });
}

Deno.test("DashboardStore: keeps dashboards in a file, replaces them by name, renames in place and deletes", async () => {
  const host = new FakeHost();
  const dashboards = storeOn(host);
  assertEquals(await dashboards.list(), []);
  await Promise.all([
    keep(dashboards, dashboard("drive", "a", "b")),
    keep(dashboards, dashboard("debug", "a")),
  ]);
  await keep(dashboards, { name: "drive", cards: [card("a", true)] });
  assertEquals(await storeOn(host).list(), [
    { name: "drive", cards: [card("a", true)] },
    dashboard("debug", "a"),
  ]);
  await keep(dashboards, dashboard("look", "a"), "drive");
  assertEquals((await dashboards.list()).map(({ name }) => name), ["look", "debug"]);
  assertEquals(await awaitOutcome(keep(dashboards, dashboard("debug", "b"), "look")), "already_exists");
  await dashboards.delete("look", by);
  assertEquals(await dashboards.list(), [dashboard("debug", "a")]);
  assertEquals(await awaitOutcome(dashboards.delete("look", by)), "not_found");
});

Deno.test("DashboardStore: refuses unusable dashboards, and keeps nothing of them", async () => {
  const dashboards = storeOn(new FakeHost());
  const wrong: unknown[] = [
    dashboard(""),
    dashboard(" drive"),
    dashboard("a\u0000b"),
    dashboard("x".repeat(61)),
    dashboard("drive", "a", "a"),
    { name: "drive", cards: Array.from({ length: 41 }, (_, at) => card(`m${at}`)) },
    { name: "drive", cards: [{ id: "x".repeat(301), isWide: false }] },
    { name: "drive", cards: [{ id: "", isWide: false }] },
  ];
  for (const one of wrong) {
    const { code } = await assertRejects(async () => await keep(dashboards, one as Dashboard), SvcError);
    assertEquals(code, "invalid_argument", JSON.stringify(one).slice(0, 80));
  }
  assertEquals(await dashboards.list(), []);
});

Deno.test("DashboardStore: bounds the number of dashboards, and the changes that wait, by caller", async () => {
  const dashboards = storeOn(new FakeHost());
  const many = (caller: string) =>
    Array.from({ length: 20 }, (_, at) => keep(dashboards, dashboard(`b${at}`), "", caller));
  // A caller that asks for very much leaves a share to others.
  const [greedy, other] = await Promise.all([
    Promise.allSettled(many("greedy")),
    Promise.allSettled([keep(dashboards, dashboard("b0", "a"), "", "other")]),
  ]);
  assertEquals(greedy.filter(({ status }) => status === "fulfilled").length, 9);
  assertEquals(other[0].status, "fulfilled");
  for (let at = 0; at < 32; at++) await keep(dashboards, dashboard(`b${at}`));
  assertEquals(await awaitOutcome(keep(dashboards, dashboard("one more"))), "resource_exhausted");
  // A dashboard of a name that is there needs no place.
  await keep(dashboards, dashboard("b3", "a"));
});

Deno.test("DashboardStore: never writes a file that it would not read", async () => {
  const dashboards = storeOn(new FakeHost());
  const long = (name: string): Dashboard => ({
    name,
    cards: Array.from({ length: 40 }, (_, at) => ({ id: `${at}${"\u0001".repeat(297)}`, isWide: true })),
  });
  let refused = 0;
  for (let at = 0; at < 32; at++) await keep(dashboards, long(`b${at}`)).catch(() => refused++);
  assertEquals(refused > 0 && refused < 32, true);
  assertEquals((await dashboards.list()).length, 32 - refused);
});

Deno.test("DashboardStore: names a broken file, and does not replace it", async () => {
  for (
    const text of [
      "{",
      "[]",
      '{"dashboards": [{"name": "a"}]}',
      '{"dashboards": [{"name": "a", "cards": [{"id": 3}]}]}',
    ]
  ) {
    const host = new FakeHost();
    await host.makeFolder("/home/dashboards");
    await host.writeFile(PATH, text);
    const dashboards = storeOn(host);
    const error = await assertRejects(() => keep(dashboards, dashboard("drive")), SvcError);
    assertEquals(error.code, "failed_precondition");
    assertStringIncludes(error.message, PATH);
    assertEquals(await host.readTextFile(PATH), text);
  }
});
