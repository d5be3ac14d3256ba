import { assertEquals, assertStringIncludes } from "@std/assert";
import { dependents, levels, wire } from "./graph.ts";

const motor = (name: string) => `rdk:component:motor/${name}`;
const board = (name: string) => `rdk:component:board/${name}`;

function needs(edges: Record<string, string[]>) {
  return new Map(
    Object.entries(edges).map(([full, names]) => [full, names.map((name) => ({ name, optional: false }))]),
  );
}

Deno.test("wire() resolves short and full names", () => {
  const { uses, blocked } = wire(
    needs({ [motor("m")]: ["b", board("c")], [board("b")]: [], [board("c")]: [] }),
  );
  assertEquals([...uses.get(motor("m"))!], [board("b"), board("c")]);
  assertEquals(blocked.size, 0);
});

Deno.test("wire() blocks unknown, ambiguous and self edges, each alone", () => {
  const { uses, blocked } = wire(needs({
    [motor("lost")]: ["nowhere", "b"],
    [motor("two")]: ["x"],
    [motor("x")]: [],
    [board("x")]: [],
    [motor("me")]: ["me"],
    [board("b")]: [],
  }));
  assertStringIncludes(blocked.get(motor("lost"))!, "[nowhere]");
  assertStringIncludes(blocked.get(motor("two"))!, "ambiguous");
  assertStringIncludes(blocked.get(motor("me"))!, "itself");
  assertEquals([...uses.get(motor("lost"))!], [board("b")]);
  assertEquals(blocked.size, 3);
});

Deno.test("wire() refuses one edge of a cycle and names the whole of it", () => {
  const { uses, blocked } = wire(needs({ [motor("a")]: ["b"], [motor("b")]: ["c"], [motor("c")]: ["a"] }));
  assertEquals([...blocked.keys()], [motor("c")]);
  assertStringIncludes(
    blocked.get(motor("c"))!,
    `${motor("a")} -> ${motor("b")} -> ${motor("c")} -> ${motor("a")}`,
  );
  assertEquals(levels(uses.keys(), uses), [[motor("c")], [motor("b")], [motor("a")]]);
});

Deno.test("wire() leaves out a missing optional dependency", () => {
  const { uses, blocked } = wire(new Map([[motor("m"), [{ name: "gone", optional: true }]]]));
  assertEquals([uses.get(motor("m"))!.size, blocked.size], [0, 0]);
});

Deno.test("levels() and dependents() of a chain of 20,000 take no recursion", () => {
  const edges: Record<string, string[]> = {};
  for (let i = 0; i < 20_000; i++) edges[motor(`m${i}`)] = i === 0 ? [] : [`m${i - 1}`];
  const { uses, blocked } = wire(needs(edges));
  assertEquals(blocked.size, 0);
  assertEquals(levels(uses.keys(), uses).length, 20_000);
  assertEquals(dependents([motor("m0")], uses).size, 19_999);
});
