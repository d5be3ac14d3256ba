/** A map whose entries come and go: it behaves as a map, and holds nothing that was deleted. */

import { assert, assertEquals } from "@std/assert";
import { bytesHeld } from "../../../tests/support/minor_collections.ts";
import { BriefMap } from "./brief_map.ts";

Deno.test("BriefMap: set, get, delete, clear and values behave as in a Map", () => {
  const map = new BriefMap<string, { n: number }>();
  const one = { n: 1 }, two = { n: 2 }, three = { n: 3 };
  map.set("a", one);
  map.set("b", two);
  map.set("a", three);
  assertEquals([map.size, map.get("a"), map.get("b"), map.get("c")], [2, three, two, undefined]);
  assertEquals(map.values(), [three, two]);
  map.delete("a");
  map.delete("a");
  assertEquals([map.size, map.get("a"), map.values()], [1, undefined, [two]]);
  map.clear();
  assertEquals([map.size, map.values()], [0, []]);
  assertEquals([map.getOrInsertComputed("a", () => one), map.getOrInsertComputed("a", () => two)], [
    one,
    one,
  ]);
});

Deno.test("BriefMap: a minor garbage collection frees deleted values, unlike in an old Map", async () => {
  const [plain = 0, brief = 0] = await bytesHeld(
    `const { BriefMap } = await import("${new URL("brief_map.ts", import.meta.url)}");`,
    `[new Map(), new BriefMap()].map((map) => [(key, value) => map.set(key, value), (key) => map.delete(key)])`,
  );
  assert(brief < plain / 4, `${brief} bytes in place of ${plain}`);
});
