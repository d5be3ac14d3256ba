import { assertEquals } from "@std/assert";
import { type NameRank, RankedNames } from "./ranked_names.ts";

/** A small generator of numbers, the same in every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
}

function before([a0, a1, a2]: NameRank, [b0, b1, b2]: NameRank): number {
  return a0 - b0 || a1 - b1 || a2 - b2;
}

Deno.test("RankedNames: the first is the one with the least rank, whatever was added, moved and taken out", () => {
  const random = numbers(7);
  const below = (limit: number) => Math.floor(random() * limit);
  const names = new RankedNames();
  const known = new Map<string, NameRank>();
  for (let step = 0; step < 5_000; step++) {
    const name = `n${below(60)}`;
    if (random() < 0.4) {
      names.delete(name);
      known.delete(name);
    } else {
      // The last number makes every rank unique.
      const rank: NameRank = [below(3), below(5), step];
      names.set(name, rank);
      known.set(name, rank);
    }
    const [least] = [...known].sort(([, a], [, b]) => before(a, b));
    assertEquals(names.first, least?.[0]);
  }
});

Deno.test("RankedNames: nobody is first of none", () => {
  const names = new RankedNames();
  assertEquals(names.first, undefined);
  names.set("a", [0, -Infinity, 1]);
  names.set("b", [0, -Infinity, 0]);
  names.delete("c");
  assertEquals(names.first, "b");
  names.clear();
  assertEquals(names.first, undefined);
});
