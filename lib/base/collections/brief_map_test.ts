/**
 * A map whose entries expire: it behaves as a map, and drops expired entries.
 */

import { assert, assertEquals } from "@std/assert";
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
});

/** Lets entries come and go in a map that has become old, and prints how many bytes more there are afterwards. */
const CHURN = `
  const { BriefMap } = await import(${JSON.stringify(new URL("brief_map.ts", import.meta.url).href)});
  for (const map of [new Map(), new BriefMap()]) {
    map.set(0, {});
    for (let age = 0; age < 2; age++) gc({ type: "major" });
    const before = Deno.memoryUsage().heapUsed;
    for (let key = 1; key <= 10_000; key++) {
      map.set(key, Array(1000).fill(key));
      map.delete(key - 8);
      if (key % 500 === 0) gc({ type: "minor" });
    }
    gc({ type: "minor" });
    console.log(Deno.memoryUsage().heapUsed - before);
  }
`;

Deno.test("BriefMap: a minor garbage collection frees deleted values, unlike in an old Map", async () => {
  const args = ["eval", "--v8-flags=--expose-gc", CHURN];
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const [plain, brief] = new TextDecoder().decode(stdout).trim().split("\n").map(Number);
  assert(brief < plain / 4, `${brief} bytes in place of ${plain}; ${new TextDecoder().decode(stderr)}`);
});
