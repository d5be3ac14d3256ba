import { assert, assertEquals } from "@std/assert";
import { LinkedList } from "./linked_list.ts";

Deno.test("LinkedList: keeps the order in which items came, and gives any of them up", () => {
  const list = new LinkedList<string>();
  const [a, b, c] = ["a", "b", "c"].map((item) => list.add(item));
  assertEquals([list.size, list.first, list.values()], [3, "a", ["a", "b", "c"]]);
  assertEquals([list.delete(b), list.delete(b), b.item], [true, false, undefined]);
  assertEquals([list.size, list.values()], [2, ["a", "c"]]);
  assertEquals([list.delete(a), list.first], [true, "c"]);
  list.add("d");
  assertEquals([list.delete(c), list.values()], [true, ["d"]]);
});

Deno.test("LinkedList: the first item is taken out, until there is none", () => {
  const list = new LinkedList<number>();
  const [one] = [1, 2].map((item) => list.add(item));
  assertEquals([list.shift(), list.delete(one), list.shift(), list.shift()], [1, false, 2, undefined]);
  assertEquals([list.size, list.first, list.values()], [0, undefined, []]);
});

Deno.test("LinkedList: a link of another list is not taken out", () => {
  const [one, other] = [new LinkedList<number>(), new LinkedList<number>()];
  const link = one.add(1);
  other.add(2);
  assertEquals([other.delete(link), one.values(), other.values()], [false, [1], [2]]);
});

/** Lets items come and go in a set and a list that have become old, and prints how many bytes more there are then. */
const CHURN = `
  const { LinkedList } = await import(${JSON.stringify(new URL("linked_list.ts", import.meta.url).href)});
  const set = new Set([{}]), list = new LinkedList();
  list.add({});
  const ways = [
    [(item) => set.add(item), (item) => set.delete(item)],
    [(item) => (item[0] = list.add(item)), (item) => list.delete(item[0])],
  ];
  for (const [add, remove] of ways) {
    for (let age = 0; age < 2; age++) gc({ type: "major" });
    const before = Deno.memoryUsage().heapUsed;
    for (let round = 1, last = []; round <= 10_000; round++) {
      const item = Array(1000).fill(round);
      add(item);
      if (round > 1) remove(last);
      last = item;
      if (round % 500 === 0) gc({ type: "minor" });
    }
    gc({ type: "minor" });
    console.log(Deno.memoryUsage().heapUsed - before);
  }
`;

Deno.test("LinkedList: a minor garbage collection frees what was taken out, unlike from an old Set", async () => {
  const args = ["eval", "--v8-flags=--expose-gc", CHURN];
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const [plain, linked] = new TextDecoder().decode(stdout).trim().split("\n").map(Number);
  assert(linked < plain / 4, `${linked} bytes in place of ${plain}; ${new TextDecoder().decode(stderr)}`);
});
