import { assertEquals } from "@std/assert";
import { KeyCounts } from "./key_counts.ts";

Deno.test("KeyCounts: counts for each key, and keeps nothing of keys without any", () => {
  const counts = new KeyCounts();
  assertEquals([counts.of("a"), counts.sum, counts.keys], [0, 0, 0]);
  counts.add("a", 2);
  counts.add("b", 1);
  counts.add("a", 1);
  assertEquals([counts.of("a"), counts.of("b"), counts.sum, counts.keys], [3, 1, 4, 2]);
  counts.add("a", -2);
  counts.add("b", -1);
  assertEquals([counts.of("a"), counts.of("b"), counts.sum, counts.keys], [1, 0, 1, 1]);
  counts.add("a", -1);
  assertEquals([counts.of("a"), counts.sum, counts.keys], [0, 0, 0]);
});
