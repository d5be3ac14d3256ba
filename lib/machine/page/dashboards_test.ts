import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { SvcError } from "../../base/error.ts";
import { type Dashboard, DashboardStore } from "./dashboards.ts";

const PATH = "/home/dashboards/local-config.json";
const card = (name: string, isWide = false) => ({ id: `rdk:component:motor/${name}`, isWide });
const dashboard = (name: string, ...cards: string[]): Dashboard => ({
  name,
  cards: cards.map((one) => card(one)),
});

async function codeOf(work: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => work, SvcError)).code;
}

Deno.test("DashboardStore: are kept in a file, replaced by name, renamed in place and deleted", async () => {
  const host = new FakeHost();
  const dashboards = new DashboardStore(PATH, host);
  assertEquals(await dashboards.list(), []);
  await Promise.all([dashboards.set(dashboard("drive", "a", "b")), dashboards.set(dashboard("debug", "a"))]);
  await dashboards.set({ name: "drive", cards: [card("a", true)] });
  assertEquals(await new DashboardStore(PATH, host).list(), [
    { name: "drive", cards: [card("a", true)] },
    dashboard("debug", "a"),
  ]);
  await dashboards.set(dashboard("look", "a"), "drive");
  assertEquals((await dashboards.list()).map(({ name }) => name), ["look", "debug"]);
  assertEquals(await codeOf(dashboards.set(dashboard("debug", "b"), "look")), "already_exists");
  await dashboards.delete("look");
  assertEquals(await dashboards.list(), [dashboard("debug", "a")]);
  assertEquals(await codeOf(dashboards.delete("look")), "not_found");
});

Deno.test("DashboardStore: unusable ones are refused, and nothing of them is kept", async () => {
  const dashboards = new DashboardStore(PATH, new FakeHost());
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
    const { code } = await assertRejects(async () => await dashboards.set(one as Dashboard), SvcError);
    assertEquals(code, "invalid_argument", JSON.stringify(one).slice(0, 80));
  }
  assertEquals(await dashboards.list(), []);
});

Deno.test("DashboardStore: their number is bounded, and so are the changes that wait", async () => {
  const dashboards = new DashboardStore(PATH, new FakeHost());
  const all = await Promise.allSettled(
    Array.from({ length: 40 }, (_, at) => dashboards.set(dashboard(`b${at}`))),
  );
  assertEquals(all.filter(({ status }) => status === "fulfilled").length, 16);
  for (let at = 0; at < 32; at++) await dashboards.set(dashboard(`b${at}`));
  assertEquals(await codeOf(dashboards.set(dashboard("one more"))), "resource_exhausted");
  // A dashboard of a name that is there needs no place.
  await dashboards.set(dashboard("b3", "a"));
});

Deno.test("DashboardStore: a broken file is named, and not replaced by what is left of it", async () => {
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
    const dashboards = new DashboardStore(PATH, host);
    const error = await assertRejects(() => dashboards.set(dashboard("drive")), SvcError);
    assertEquals(error.code, "failed_precondition");
    assertStringIncludes(error.message, PATH);
    assertEquals(await host.readTextFile(PATH), text);
  }
});
