import { assertEquals, assertThrows } from "@std/assert";
import { aggregate, type PipelineStage } from "./aggregation.ts";

type Fields = { [name: string]: unknown };

const run = (stages: PipelineStage[], ...documents: Fields[]) => aggregate(stages, documents);
const valueOf = (expression: Fields, document: Fields = {}) =>
  run([{ $project: { is: expression } }], document)[0]?.is;

Deno.test("values: rounding is by the nearest number, and halves go to the even one", () => {
  const all: [unknown[], number][] = [
    [[2.51], 3],
    [[2.5, 0], 2],
    [[-3.5], -4],
    [[19.35, 1], 19.4],
    [[19.25, 1], 19.2],
    [[10.55, 1], 10.6],
    [[1290, -2], 1300],
    [[1250, -2], 1200],
    [[1.26e-7, 8], 1.3e-7],
    [[1e300, 2], 1e300],
  ];
  for (const [given, wanted] of all) assertEquals(valueOf({ $round: given }), wanted, String(given));
  assertEquals([
    valueOf({ $trunc: [0.999, 1] }),
    valueOf({ $trunc: [-2.57, 1] }),
    valueOf({ $trunc: [1290, -2] }),
  ], [
    0.9,
    -2.5,
    1200,
  ]);
  assertEquals([valueOf({ $round: "$x" }), valueOf({ $round: "$x" }, { x: 2.51 })], [null, 3]);
  assertThrows(() => valueOf({ $round: ["$x", 1] }, { x: "2" }), Error, "$round wants a number");
});

Deno.test("values: expressions compare values of all types, and a list with a list", () => {
  const found = (condition: Fields) =>
    run(
      [{ $match: { $expr: condition } }, { $project: { n: 1 } }],
      { n: 0 },
      { n: 1, x: null },
      { n: 2, x: 5 },
      {
        n: 3,
        x: NaN,
      },
      { n: 4, x: "a" },
      { n: 5, x: ["a"] },
      { n: 6, x: new Date(0) },
    ).map(({ n }) => n);
  assertEquals(found({ $gt: ["$x", null] }), [2, 3, 4, 5, 6]);
  assertEquals(found({ $lt: ["$x", 1] }), [0, 1, 3]);
  assertEquals(found({ $gte: ["$x", 5] }), [2, 4, 5, 6]);
  assertEquals([found({ $eq: ["$x", "a"] }), found({ $eq: ["$x", ["a"]] })], [[4], [5]]);
  assertEquals([found({ $eq: ["$x", null] }), found({ $ne: ["$x", null] })], [[1], [0, 2, 3, 4, 5, 6]]);
  assertEquals(valueOf({ $cmp: [{ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] }] }), -1);
  assertThrows(() => found({ $gt: ["$x"] }), Error, "$gt wants two values");
});

Deno.test("values: texts in parts, and texts that are missing", () => {
  const text = "h\u00e9llo";
  assertEquals(valueOf({ $substr: ["$x", 0, 99] }, { x: "abc" }), "abc");
  assertEquals([
    valueOf({ $substrBytes: [text, 3, -1] }),
    valueOf({ $substr: ["$x", 0, 4] }, { x: new Date(0) }),
  ], [
    "llo",
    "1970",
  ]);
  assertThrows(() => valueOf({ $substrBytes: [text, 2, 1] }), Error, "inside a character");
  assertEquals([valueOf({ $indexOfCP: [text, "l"] }), valueOf({ $indexOfCP: [text, "l", 3] })], [2, 3]);
  assertEquals([valueOf({ $indexOfCP: [text, "x"] }), valueOf({ $indexOfCP: ["$x", "x"] })], [-1, null]);
  assertEquals([valueOf({ $toLower: "$x" }), valueOf({ $toUpper: "a" })], ["", "A"]);
});

Deno.test("values: lists of groups have no element for a missing value, and a single top is no list", () => {
  const group = (fields: Fields, ...documents: Fields[]) =>
    run([{ $group: { _id: null, ...fields } }, { $project: { _id: 0 } }], ...documents);
  const some = [{ v: null }, {}, { v: 1 }, { v: 1 }];
  assertEquals(group({ all: { $push: "$v" }, set: { $addToSet: "$v" } }, ...some), [{
    all: [null, 1, 1],
    set: [null, 1],
  }]);
  const sorted = { sortBy: { v: 1 }, output: "$v" };
  assertEquals(group({ top: { $top: sorted }, bottom: { $bottom: sorted } }, { v: 3 }, { v: 1 }), [{
    top: 1,
    bottom: 3,
  }]);
  assertEquals([run([{ $count: "n" }]), run([{ $count: "n" }], {})], [[], [{ n: 1 }]]);
  const kept = { $redact: { $cond: ["$k", "$$KEEP", "$$PRUNE"] } };
  assertEquals(run([kept], { k: true }, { k: false }), [{ k: true }]);
});
