import { assertEquals } from "@std/assert";
import { pathKinds, PathTypes, typesAt } from "./path_types.ts";

Deno.test("path types: a path has all types of its values, and what is below a list is not told", () => {
  const types = new PathTypes();
  types.add({ a: 1, b: { c: "x", d: [1] } });
  types.add({ a: null, b: { c: true }, "a/b~": {} });
  const kinds = pathKinds(types.text!);
  assertEquals(typesAt(kinds, "/a"), ["DOUBLE", "NULL"]);
  assertEquals(typesAt(kinds, "/b"), ["OBJECT"]);
  assertEquals(typesAt(kinds, "/b/c"), ["VARCHAR", "BOOLEAN"]);
  assertEquals(typesAt(kinds, "/b/d/0"), undefined);
  assertEquals(typesAt(kinds, "/a~1b~0"), ["OBJECT"]);
  for (const absent of ["/x", "/a/x", "/b/x/y", "/__proto__", "/constructor"]) {
    assertEquals(typesAt(kinds, absent), [], absent);
  }
});

Deno.test("path types: documents with too many or too long paths have none, and one named like a prototype has its own", () => {
  const [many, long, own] = [new PathTypes(), new PathTypes(), new PathTypes()];
  many.add(Object.fromEntries(Array.from({ length: 501 }, (_, at) => [`n${at}`, at])));
  long.add({ ["n".repeat(201)]: 1 });
  own.add(JSON.parse('{"__proto__": {"toString": 1}}'));
  assertEquals([many.text, long.text], [undefined, undefined]);
  assertEquals(typesAt(pathKinds(own.text!), "/__proto__/toString"), ["DOUBLE"]);
});

Deno.test("path types: the index has no long text", () => {
  const [few, many] = [new PathTypes(), new PathTypes()];
  few.add({ a: 1 });
  many.add(Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`n${at}`, at])));
  assertEquals([few.indexedText, many.indexedText], [few.text, null]);
  assertEquals(Object.keys(pathKinds(many.text!)).length, 400);
});
