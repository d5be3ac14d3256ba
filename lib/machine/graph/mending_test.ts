import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/schema/schema.ts";
import { Registry } from "../../resource/registry.ts";
import { decodeConfig, type MachineConfig } from "../config/config.ts";
import { mendingOf } from "./mending.ts";

const SENSOR = "rdk:component:sensor/door";
const registry = new Registry([], []);

const part = (name: string, note: string, depends_on: string[] = [], api = "rdk:component:generic") => {
  return { name, api, model: "acme:demo:part", attributes: { note }, depends_on };
};

async function config(components: JsonObject[], more: JsonObject = {}) {
  const { config, fatal, problems } = await decodeConfig({ components, ...more }, registry, {
    env: () => undefined,
  });
  assertEquals(fatal, false, JSON.stringify(problems));
  return config;
}

/** `name note` of every resource of the mended configuration, in order of names. */
function mended(old: MachineConfig, newer: MachineConfig, sensor = SENSOR) {
  const found = mendingOf(old, newer, sensor);
  return found?.resources.filter(({ kind }) => kind === "component")
    .map(({ name, attributes }) => `${name.short} ${attributes.note}`).sort();
}

Deno.test("mendingOf: changes only the maintenance sensor and its dependencies", async () => {
  const sensor = (note: string, needs: string[]) => part("door", note, needs, "rdk:component:sensor");
  const old = await config([sensor("old", ["board"]), part("board", "old"), part("arm", "old")]);
  assertEquals(mended(old, old), undefined);
  assertEquals(
    mended(old, await config([sensor("old", ["board"]), part("board", "old"), part("arm", "new")])),
    undefined,
  );
  const all = await config([
    part("arm", "new"),
    part("more", "new"),
    part("bus", "new"),
    part("board", "new", ["rdk:component:generic/bus"]),
    sensor("new", ["board"]),
  ]);
  assertEquals(mended(old, all), ["arm old", "board new", "bus new", "door new"]);
  assertEquals(
    mended(old, await config([part("arm", "new")])),
    ["arm old"],
    "it may be given up with what it needs",
  );
});

Deno.test("mendingOf: ends at dependency cycles and missing resources", async () => {
  const sensor = (note: string) => part("door", note, ["a", "nothing"], "rdk:component:sensor");
  const circle = [part("a", "x", ["b"]), part("b", "x", ["a"])];
  assertEquals(mended(await config([sensor("old"), ...circle]), await config([sensor("new"), ...circle])), [
    "a x",
    "b x",
    "door new",
  ]);
});

Deno.test("mendingOf: a sensor of a remote includes the remote, and its new secret is a change", async () => {
  const remote = (name: string, address: string, secret: string) => ({ name, address, secret });
  const far = "rdk:component:sensor/far:door";
  const old = await config([], { remotes: [remote("far", "a:1", "x"), remote("other", "b:1", "x")] });
  const newer = await config([], { remotes: [remote("far", "a:1", "y"), remote("other", "b:2", "x")] });
  const found = mendingOf(old, newer, far);
  assertEquals(found?.remotes.map(({ address, secret }) => [address, secret?.reveal()]), [["b:1", "x"], [
    "a:1",
    "y",
  ]]);
  assertEquals(mendingOf(old, old, far), undefined);
});
