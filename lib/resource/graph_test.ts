import { assertEquals, assertStringIncludes } from "@std/assert";
import { levels, type Need, resolveDependencies, topological, withUsers } from "./graph.ts";

const motor = (name: string) => `rdk:component:motor/${name}`;
const board = (name: string) => `rdk:component:board/${name}`;

/** `{ a: ["b", "c?"] }` means that a needs b, and c if it exists. */
function needs(edges: Record<string, string[]>): Map<string, { needs: Need[] }> {
  const need = (name: string) => ({ name: name.replace("?", ""), optional: name.endsWith("?") });
  return new Map(Object.entries(edges).map(([full, names]) => [full, { needs: names.map(need) }]));
}

Deno.test("wire: resolves short and full names", () => {
  const { uses, usedBy, blocked } = resolveDependencies(
    needs({ [motor("m")]: ["b", board("c")], [board("b")]: [], [board("c")]: [] }),
  );
  assertEquals([...uses.get(motor("m"))!], [board("b"), board("c")]);
  assertEquals(usedBy(board("b")), [motor("m")]);
  assertEquals(blocked.size, 0);
});

Deno.test("wire: blocks unknown, ambiguous and self dependencies, each alone", () => {
  const { uses, blocked } = resolveDependencies(needs({
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

Deno.test("wire: a full name is valid although its short name is ambiguous", () => {
  const { uses, blocked } = resolveDependencies(
    needs({ [motor("a")]: [board("x")], [motor("x")]: [], [board("x")]: [] }),
  );
  assertEquals([[...uses.get(motor("a"))!], blocked.size], [[board("x")], 0]);
});

Deno.test("wire: finds remote resources without prefix, prefers local ones, and reports ambiguity", () => {
  const { uses, blocked } = resolveDependencies(needs({
    [motor("a")]: ["far"],
    [motor("b")]: ["one:far"],
    [motor("c")]: ["near"],
    [motor("d")]: ["twice"],
    [motor("e")]: ["two:twice"],
    [motor("f")]: [board("far"), board("near")],
    [motor("g")]: [motor("far")],
    [motor("h")]: [board("twice")],
    [board("near")]: [],
    [board("one:far")]: [],
    [board("one:near")]: [],
    [board("one:twice")]: [],
    [board("two:twice")]: [],
  }));
  assertEquals([...uses.get(motor("a"))!], [board("one:far")]);
  assertEquals([...uses.get(motor("b"))!], [board("one:far")]);
  assertEquals([...uses.get(motor("c"))!], [board("near")]);
  assertEquals([...uses.get(motor("e"))!], [board("two:twice")]);
  assertEquals([...uses.get(motor("f"))!], [board("one:far"), board("near")]);
  const choice = `name one of ${board("one:twice")}, ${board("two:twice")}`;
  assertEquals(Object.fromEntries(blocked), {
    [motor("d")]: `dependency "twice" is ambiguous, ${choice}`,
    [motor("g")]: `resource has unresolved dependencies not found in machine config or connected remotes: [${
      motor("far")
    }]`,
    [motor("h")]: `dependency "${board("twice")}" is ambiguous, ${choice}`,
  });
});

Deno.test("wire: refuses a single edge of a cycle and names the whole cycle", () => {
  const { uses, blocked } = resolveDependencies(
    needs({ [motor("a")]: ["b"], [motor("b")]: ["c"], [motor("c")]: ["a"] }),
  );
  assertEquals([...blocked.keys()], [motor("c")]);
  assertStringIncludes(
    blocked.get(motor("c"))!,
    `${motor("c")} -> ${motor("a")} -> ${motor("b")} -> ${motor("c")}`,
  );
  assertEquals(levels(uses.keys(), uses), [[motor("c")], [motor("b")], [motor("a")]]);
});

Deno.test("wire: breaks a cycle at an optional dependency, wherever it is", () => {
  const edges = { [motor("a")]: ["b?"], [motor("b")]: ["c"], [motor("c")]: ["a", "d"], [motor("d")]: [] };
  const { uses, optional, blocked, refused } = resolveDependencies(needs(edges));
  assertEquals([blocked.size, [...refused.keys()]], [0, [motor("a")]]);
  assertStringIncludes(refused.get(motor("a"))!, "closes a cycle");
  assertEquals([uses.get(motor("a"))!.length, optional.size], [0, 0]);
  assertEquals(levels(uses.keys(), uses), [[motor("a"), motor("d")], [motor("c")], [motor("b")]]);
});

Deno.test("wire: what a cycle's edge is refused of keeps its other dependencies", () => {
  const { uses, usedBy, blocked } = resolveDependencies(
    needs({ [board("a")]: [], [motor("b")]: ["c"], [motor("c")]: ["a", "b", "d"], [board("d")]: [] }),
  );
  assertEquals([...blocked.keys()], [motor("c")]);
  assertEquals([...uses.get(motor("c"))!], [board("a"), board("d")]);
  assertEquals([...usedBy(board("a")), ...usedBy(board("d"))], [motor("c"), motor("c")]);
});

Deno.test("wire: breaks every cycle of a dense graph", () => {
  const names = [..."abcdefgh"];
  const edges: Record<string, string[]> = {};
  for (const [index, name] of names.entries()) {
    edges[motor(name)] = names.filter((_, other) => other !== index).map((other, at) =>
      (index + at) % 3 === 0 ? `${other}?` : other
    );
  }
  const { uses } = resolveDependencies(needs(edges));
  assertEquals(topological(uses.keys(), uses).length, names.length);
});

Deno.test("wire: drops a missing optional dependency, and a repeated need is optional only if both are", () => {
  const { uses, optional, blocked } = resolveDependencies(needs({
    [motor("m")]: ["gone?", "b?", "b"],
    [motor("n")]: ["b", "b?"],
    [motor("o")]: ["b?", "b?"],
    [board("b")]: [],
  }));
  assertEquals([[...uses.get(motor("m"))!], blocked.size], [[board("b")], 0]);
  assertEquals([...optional].map(([full, all]) => [full, [...all]]), [[motor("o"), [board("b")]]]);
});

Deno.test("withUsers: follows dependents only through names that pass the filter", () => {
  const { usedBy } = resolveDependencies(
    needs({ [motor("a")]: [], [motor("b")]: ["a"], [motor("c")]: ["b"], [motor("d")]: [] }),
  );
  assertEquals([...withUsers([motor("a")], usedBy)], [motor("a"), motor("b"), motor("c")]);
  assertEquals([...withUsers([motor("a")], usedBy, (name) => name !== motor("b"))], [motor("a")]);
});

Deno.test("wire: handles a chain of 20,000 resources without recursion", () => {
  const edges: Record<string, string[]> = {};
  for (let i = 0; i < 20_000; i++) edges[motor(`m${i}`)] = i === 0 ? [] : [`m${i - 1}`];
  const { uses, usedBy, blocked } = resolveDependencies(needs(edges));
  assertEquals(blocked.size, 0);
  assertEquals(levels(uses.keys(), uses).length, 20_000);
  assertEquals(withUsers([motor("m0")], usedBy).size, 20_000);
});

Deno.test("wire: what several resources use is no cycle, also if it uses one", () => {
  const edges = {
    [motor("a")]: ["b", "c"],
    [motor("b")]: ["d"],
    [motor("c")]: ["d"],
    [motor("d")]: ["x"],
    [motor("x")]: ["y"],
    [motor("y")]: ["x"],
  };
  const { uses, blocked, refused } = resolveDependencies(needs(edges));
  assertEquals([[...blocked.keys()], refused.size], [[motor("y")], 0]);
  assertEquals(["a", "b", "c", "d", "x"].map((name) => [...uses.get(motor(name))!]), [
    ["b", "c"].map(motor),
    [motor("d")],
    [motor("d")],
    [motor("x")],
    [motor("y")],
  ]);
});
