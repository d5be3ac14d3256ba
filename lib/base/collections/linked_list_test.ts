import { assert, assertEquals } from "@std/assert";
import { bytesHeld } from "../../../tests/support/minor_collections.ts";
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

/** A set and a list, with what is in them by number. */
const SET_AND_LIST = `
  const { LinkedList } = await import("${new URL("linked_list.ts", import.meta.url)}");
  const set = new Set(), list = new LinkedList(), items = [], links = [];
  const takeFrom = (all, number) => {
    const one = all[number];
    all[number] = undefined;
    return one;
  };
`;

Deno.test("LinkedList: a minor garbage collection frees what was taken out, unlike from an old Set", async () => {
  const [plain = 0, linked = 0] = await bytesHeld(
    SET_AND_LIST,
    `[
      [(number, item) => set.add(items[number] = item), (number) => set.delete(takeFrom(items, number))],
      [(number, item) => links[number] = list.add(item), (number) => number >= 0 && list.delete(takeFrom(links, number))],
    ]`,
  );
  assert(linked < plain / 4, `${linked} bytes in place of ${plain}`);
});
