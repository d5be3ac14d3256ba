import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/schema/schema.ts";
import { changed, HAS_IT, type RolloutChange, undone } from "./change.ts";

const CHANGES: readonly RolloutChange[] = [
  { kind: "fragment", id: "f", version: "5" },
  { kind: "module", id: "acme:arm", version: "1.2.3" },
  { kind: "svc-server", id: "", version: "2.0.0" },
  { kind: "svc-agent", id: "", version: "2.0.0" },
];

const CONFIGS: readonly JsonObject[] = [
  {
    fragments: ["f"],
    modules: [{ name: "m", module_id: "acme:arm", version: "1.0.0", type: "registry" }],
    agent: {
      version_control: { agent: "1.0.0", "svc-server": "stable" },
      advanced_settings: { debug: true },
    },
  },
  {
    components: [],
    fragments: ["g", { version: "4", id: "f", variables: { a: 1 } }, "h", { id: "f", variables: { a: 2 } }],
    modules: [
      { name: "other", module_id: "acme:base" },
      { module_id: "acme:arm", type: "registry", name: "a" },
      { name: "b", version: "latest", module_id: "acme:arm" },
    ],
    agent: { version_control: { "viam-server": "1.0.0", "viam-agent": "1.0.0" } },
    network: {},
  },
  { fragments: ["f"], modules: [{ module_id: "acme:arm" }] },
  { agent: {}, fragments: ["f"], modules: [{ module_id: "acme:arm" }], debug: true },
  { agent: { version_control: {} }, fragments: ["f"], modules: [{ module_id: "acme:arm" }], debug: true },
];

Deno.test("a change taken back gives exactly the text from before", () => {
  for (const config of CONFIGS) {
    for (const change of CHANGES) {
      const made = changed(config, change);
      assert(typeof made !== "string", `${change.kind}: ${made}`);
      assert(JSON.stringify(made.config) !== JSON.stringify(config));
      assertEquals(changed(made.config, change), HAS_IT);
      const undo = JSON.parse(JSON.stringify(made.undo));
      assertEquals(JSON.stringify(undone(made.config, change, undo)), JSON.stringify(config), change.kind);
    }
  }
});

Deno.test("what a person has edited meanwhile stays, and the same setting is not taken back", () => {
  for (const config of CONFIGS) {
    for (const change of CHANGES) {
      const made = changed(config, change);
      assert(typeof made !== "string");
      const edited = { ...made.config, components: [{ name: "new" }] };
      assertEquals(undone(edited, change, made.undo), { ...config, components: [{ name: "new" }] });
      const other = changed(made.config, { ...change, version: "9.9.9" });
      assert(typeof other !== "string");
      assertEquals(undone(other.config, change, made.undo), undefined);
    }
  }
  const [, , server] = CHANGES;
  const made = changed({}, server);
  assert(typeof made !== "string");
  const more = { agent: { ...made.config.agent as JsonObject, tags: ["x"] } };
  assertEquals(undone(more, server, made.undo), { agent: { tags: ["x"] } });
});

Deno.test("a configuration without the thing is left alone, whatever stands there", () => {
  const [fragment, module, server] = CHANGES;
  for (const fragments of [undefined, "f", [], [7, null, "g"], {}] as never[]) {
    assertEquals(typeof changed({ fragments }, fragment), "string");
    assertEquals(typeof changed({ modules: fragments }, module), "string");
    assertEquals(undone({ fragments }, fragment, { entries: ["f"] }), undefined);
  }
  assert(typeof changed({ agent: 5, x: 1 }, server) !== "string");
  assertEquals(undone({ agent: 5 }, server, { version: null, had: "nothing" }), undefined);
});
