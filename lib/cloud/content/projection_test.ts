import { assertEquals, assertThrows } from "@std/assert";
import { aggregate, type PipelineStage } from "./aggregation.ts";

type Fields = { [name: string]: unknown };

const run = (stage: PipelineStage, ...documents: Fields[]) => aggregate([stage], documents);
const refused = (stage: PipelineStage, wanted: string) =>
  void assertThrows(() => run(stage, { a: 1 }), Error, wanted);

Deno.test("projectionOf: a computed field inside of a list is one of each element", () => {
  const document = { n: 7, a: [{ x: 1, y: 2 }, { y: 3 }, 5, [{ x: 4 }]], o: { x: 1, y: 2 }, t: "text" };
  assertEquals(run({ $project: { "a.z": "$n" } }, document), [
    { a: [{ z: 7 }, { z: 7 }, { z: 7 }, [{ z: 7 }]] },
  ]);
  assertEquals(run({ $project: { a: { x: 1, z: "$n" }, o: { x: true, z: "$n" } } }, document), [
    { a: [{ x: 1, z: 7 }, { z: 7 }, { z: 7 }, [{ x: 4, z: 7 }]], o: { x: 1, z: 7 } },
  ]);
  assertEquals(run({ $project: { "t.z": "$n", "none.z": "$n", "o.z": "$none" } }, document), [
    { o: {}, t: { z: 7 }, none: { z: 7 } },
  ]);
  assertEquals(document.a[0], { x: 1, y: 2 });
});

Deno.test("projectionOf: parts of objects and of the objects in lists are kept, other values left out", () => {
  const document = { t: "text", a: [{ x: 1, y: 2 }, 5, {}], o: { p: { q: null, r: 1 } }, d: new Date(0) };
  assertEquals(run({ $project: { "a.x": 1, o: { p: { q: 5 } }, "t.x": 1, "d.x": 1 } }, document), [
    { a: [{ x: 1 }, {}], o: { p: { q: null } } },
  ]);
  assertEquals(run({ $project: { "a.x": 0, o: { p: { q: false } }, t: 0 } }, document), [
    { a: [{ y: 2 }, 5, {}], o: { p: { r: 1 } }, d: new Date(0) },
  ]);
});

Deno.test("projectionOf: fields come in the document's order, then computed ones as written, the id first", () => {
  const document = { b: 1, a: 2, _id: 3 };
  const namesOf = (expression: unknown) =>
    Object.keys(run({ $project: expression }, document)[0] ?? {}).join(" ");
  assertEquals(namesOf({ z: "$a", a: 1, c: ["$a", "$none"], b: 1 }), "_id b a z c");
  assertEquals(namesOf({ a: 1, _id: 0, b: 1 }), "b a");
  assertEquals(namesOf({ _id: 0 }), "b a");
  assertEquals(namesOf({ a: 0, _id: 1 }), "b _id");
  assertEquals(namesOf({ a: 1, _id: "$b" }), "_id a");
  assertEquals(run({ $project: { c: ["$a", 1], a: "$$REMOVE" } }, document), [{ _id: 3, c: [2, 1] }]);
});

Deno.test("projectionOf: refuses what MongoDB refuses", () => {
  refused({ $project: {} }, "at least one field");
  refused({ $project: { a: {} } }, "without fields");
  refused({ $project: { a: 1, b: 0 } }, "either leaves fields out");
  refused({ $project: { a: "$b", b: false } }, "either leaves fields out");
  refused({ $project: { a: 1, "a.b": 1 } }, "a.b");
  refused({ $project: { "a.b": "$x", a: { b: 1 } } }, "twice");
  refused({ $project: { "a.b": 0, a: 0 } }, "in parts");
});

Deno.test("unwindingOf: the index goes into a field of an object", () => {
  const document = { o: { list: ["a", null], x: 1 } };
  assertEquals(run({ $unwind: { path: "$o.list", includeArrayIndex: "o.at" } }, document), [
    { o: { list: "a", x: 1, at: 0 } },
    { o: { list: null, x: 1, at: 1 } },
  ]);
  assertEquals(document, { o: { list: ["a", null], x: 1 } });
});

Deno.test("unwindingOf: documents without elements are kept on demand, a path through a list has none", () => {
  const documents = [{ a: [] }, { a: null }, {}, { a: 5 }, { a: [{ b: [1] }] }];
  const kept = { path: "$a", preserveNullAndEmptyArrays: true, includeArrayIndex: "at" };
  assertEquals(run({ $unwind: kept }, ...documents), [
    { at: null },
    { a: null, at: null },
    { at: null },
    { a: 5, at: null },
    { a: { b: [1] }, at: 0 },
  ]);
  assertEquals(run({ $unwind: "$a" }, ...documents), [{ a: 5 }, { a: { b: [1] } }]);
  assertEquals(run({ $unwind: "$a.b" }, ...documents), []);
  assertEquals(run({ $unwind: { path: "$a.b", preserveNullAndEmptyArrays: true } }, ...documents), documents);
});

Deno.test("unwindingOf: refuses a path without $, and an index that is none", () => {
  refused({ $unwind: "a" }, "$unwind wants the path");
  refused({ $unwind: { path: "$$ROOT" } }, "$unwind wants the path");
  refused({ $unwind: { path: "$a", includeArrayIndex: "$at" } }, "includeArrayIndex");
});
