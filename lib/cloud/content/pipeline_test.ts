import { aggregate } from "./aggregation.ts";
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Binary, deserialize, Double, Long, ObjectId, serialize } from "bson";
import { SvcError } from "../../base/error.ts";
import type { ReadingBatch } from "../data/tabular_data.ts";
import { celsius, FIRST_MS, HOUR_MS, readingBatch } from "../../../tests/support/reading_batch.ts";
import { Pipeline } from "./pipeline.ts";

type Stage = { readonly [operator: string]: unknown };

const INDOORS = readingBatch("indoors", celsius(20, 21, 25), ["warm"]);
const OUTDOORS = readingBatch("outdoors", celsius(3, 4));

const pipelineOf = (stages: readonly Stage[]) => Pipeline.read(stages.map((stage) => serialize(stage)));

function answer(stages: readonly Stage[], batches: readonly ReadingBatch[] = [INDOORS, OUTDOORS]) {
  const pipeline = pipelineOf(stages);
  for (const one of batches) pipeline.take(one);
  return pipeline.answer().map((one) => deserialize(one));
}

Deno.test("Pipeline gives a reading the published fields", () => {
  assertEquals(answer([{ $match: { component_name: "indoors" } }, { $limit: 1 }]), [{
    organization_id: "org",
    location_id: "place",
    robot_id: "machine",
    part_id: "part",
    component_type: "rdk:component:sensor",
    component_name: "indoors",
    method_name: "Readings",
    time_requested: new Date(FIRST_MS),
    time_received: new Date(FIRST_MS + 5),
    capture_day: new Date(Date.UTC(2026, 2, 15)),
    tags: ["warm"],
    additional_parameters: { deep: true },
    data: { readings: { celsius: 20 } },
  }]);
  assertEquals(answer([]).length, 5);
});

Deno.test("Pipeline answers with readings whose names have a null character, which BSON has not", () => {
  const odd = readingBatch("odd", [{ readings: { "a\0b": 1 } }, { readings: { "a": 2 } }]);
  assertEquals(answer([{ $project: { data: 1 } }], [odd]), [
    { data: { readings: { "a\ufffdb": 1 } } },
    { data: { readings: { a: 2 } } },
  ]);
});

Deno.test("Pipeline puts a value at a boundary into the bucket that begins there, and leaves empty buckets out", () => {
  const groupBy = "$data.readings.celsius";
  const all = { $push: groupBy };
  const bucket = (more: Stage, boundaries: unknown[] = [0, 4, 10, 20, 25]) =>
    answer([{ $bucket: { groupBy, boundaries, ...more } }]);
  assertEquals(bucket({ default: "rest", output: { all } }), [
    { _id: 0, all: [3] },
    { _id: 4, all: [4] },
    { _id: 20, all: [20, 21] },
    { _id: "rest", all: [25] },
  ]);
  assertEquals(bucket({}, [0, 100]), [{ _id: 0, count: 5 }]);
  assertThrows(() => bucket({}), SvcError, "$bucket requires a default");
  assertThrows(() => bucket({}, [4, 4]), SvcError, "ascending");
  assertThrows(() => bucket({}, [4]), SvcError, "at least two boundaries");
  const words = { groupBy: "$component_name", boundaries: ["a", "o", "z"] };
  assertEquals(answer([{ $bucket: words }]), [{ _id: "a", count: 3 }, { _id: "o", count: 2 }]);
});

Deno.test("Pipeline matches, groups, sorts, unwinds and computes over windows", () => {
  const count = (match: Stage) => answer([{ $match: match }, { $count: "found" }])[0]?.found ?? 0;
  assertEquals(count({ component_name: /^OUT/i }), 2);
  assertEquals(count({ tags: "warm" }), 3);
  assertEquals(count({ "data.readings.celsius": { $gte: 4, $lt: 21 } }), 2);
  assertEquals(count({ $or: [{ component_name: "outdoors" }, { "data.readings.celsius": 25 }] }), 3);
  assertEquals(count({ capture_day: new Date(Date.UTC(2026, 2, 15)) }), 5);
  assertEquals(count({ $expr: { $gt: ["$time_received", "$time_requested"] } }), 5);

  const mean = { $avg: "$data.readings.celsius" };
  assertEquals(answer([{ $group: { _id: "$component_name", mean } }, { $sort: { _id: 1 } }]), [
    { _id: "indoors", mean: 22 },
    { _id: "outdoors", mean: 3.5 },
  ]);
  const hour = { $dateTrunc: { date: "$time_requested", unit: "hour" } };
  assertEquals(answer([{ $group: { _id: hour, n: { $sum: 1 } } }, { $sort: { _id: 1 } }]).map(({ n }) => n), [
    2,
    2,
    1,
  ]);
  const smooth = { $avg: "$data.readings.celsius", window: { documents: [-1, 0] } };
  assertEquals(
    answer([{ $setWindowFields: { sortBy: { time_requested: 1 }, output: { smooth } } }], [INDOORS])
      .map((one) => one.smooth),
    [20, 20.5, 23],
  );
  assertEquals(
    answer([{ $unwind: "$tags" }, { $project: { _id: 0, tags: 1 } }, { $skip: 1 }, { $limit: 1 }]),
    [{ tags: "warm" }],
  );
  assertEquals(answer([{ $sortByCount: "$component_name" }]).map(({ _id }) => _id), ["indoors", "outdoors"]);
});

Deno.test("Pipeline wants no more readings once it has as many as $limit", () => {
  const pipeline = pipelineOf([{ $match: { component_name: "indoors" } }, { $limit: 3 }]);
  assertEquals(pipeline.take(OUTDOORS), true);
  assertEquals(pipeline.take(INDOORS), false);
  assertEquals(pipelineOf([{ $sort: { time_received: 1 } }, { $limit: 1 }]).take(INDOORS), true);
  assertEquals(pipelineOf([{ $limit: Long.fromNumber(1) }]).take(INDOORS), false);
});

Deno.test("Pipeline narrows by what its first $match alone says", () => {
  const narrowing = (...stages: Stage[]) => pipelineOf(stages).narrowing();
  const [from, until] = [new Date(FIRST_MS), new Date(FIRST_MS + HOUR_MS)];
  const match = {
    part_id: "part",
    component_name: { $in: ["indoors", "attic"] },
    robot_id: { $eq: "machine" },
    time_received: { $gt: from, $lte: until },
    time_requested: { $gte: from },
    "data.readings.celsius": 3,
  };
  assertEquals(narrowing({ $match: match }), {
    sources: { part_id: ["part"], component_name: ["indoors", "attic"], robot_id: ["machine"] },
    requested: { fromMs: FIRST_MS, untilMs: undefined },
    received: { fromMs: FIRST_MS, untilMs: FIRST_MS + HOUR_MS },
  });
  const nothing = { sources: {}, requested: {}, received: {} };
  const many = Array.from({ length: 1_001 }, (_, index) => `sensor${index}`);
  const wide = [
    {},
    { component_name: /in/ },
    { component_name: { $ne: "indoors" } },
    { component_name: { $in: ["indoors", /out/] } },
    { component_name: { $in: many } },
    { component_name: "x".repeat(101) },
    { component_name: null },
    { component_name: {} },
    { $or: [{ component_name: "indoors" }] },
    { time_received: from },
  ];
  for (const one of wide) assertEquals(narrowing({ $match: one }), nothing);
  assertEquals(narrowing({ $set: { part_id: "other" } }, { $match: { part_id: "other" } }), nothing);
  assertEquals(narrowing(), nothing);
});

Deno.test("Pipeline writes the numbers of `data` as doubles, and whole numbers elsewhere as integers", () => {
  const [document] = pipelineFed([]);
  const { data } = deserialize(document, { promoteValues: false });
  assert(data.readings.celsius instanceof Double);
  const [counted] = pipelineFed([{ $count: "found" }]);
  assertEquals(deserialize(counted, { promoteValues: false }).found.constructor.name, "Int32");

  function pipelineFed(stages: readonly Stage[]): Uint8Array[] {
    const pipeline = pipelineOf(stages);
    pipeline.take(INDOORS);
    return pipeline.answer();
  }
});

Deno.test("Pipeline keeps numbers that have no JSON form, and other types of BSON in a query", () => {
  const [odd] = answer([], [
    readingBatch("odd", [{ readings: { celsius: NaN, none: null, list: [1, "two", true] } }]),
  ]);
  assertEquals(odd.data, { readings: { celsius: NaN, none: null, list: [1, "two", true] } });
  const id = new ObjectId();
  const [set] = answer([{ $set: { id, bytes: new Binary(new Uint8Array([1, 2])) } }, { $limit: 1 }]);
  assertEquals(String(set.id), String(id));
});

Deno.test("Pipeline refuses programs, other collections and what cannot run, and names the stage", () => {
  const cases: readonly [Stage, string][] = [
    [{ $out: "elsewhere" }, 'mql_binary[0]: found the stage "$out", wanted one of $addFields, $bucket'],
    [{ $lookup: { from: "parts" } }, 'found the stage "$lookup"'],
    [{ $unionWith: "parts" }, 'found the stage "$unionWith"'],
    [{}, "mql_binary[0]: found no operator, wanted one"],
    [{ $match: {}, $limit: 1 }, "found the operators $match, $limit, wanted one"],
    [{ $match: { $where: "true" } }, "mql_binary[0]: $where is not allowed: queries run no code"],
    [{ $match: { $or: [{ $where: "true" }] } }, "$where is not allowed"],
    [{ $set: { x: [{ $function: { body: "", args: [], lang: "js" } }] } }, "$function is not allowed"],
    [{ $group: { _id: 1, x: { $accumulator: {} } } }, "$accumulator is not allowed"],
    [{ $match: { a: { $bogus: 1 } } }, "cannot run the query: unknown query operator $bogus"],
    [{ $limit: -1 }, "cannot run the query: $limit wants a whole number from 1 on, found -1"],
    [{ $set: { "__proto__.polluted": 1 } }, "cannot run the query"],
    [{ $group: { total: { $sum: 1 } } }, "cannot run the query"],
  ];
  for (const [stage, words] of cases) {
    const error = assertThrows(() => answer([stage]), SvcError);
    assertEquals([error.code, error.message.includes(words)], ["invalid_argument", true], error.message);
  }
  for (const damaged of [new Uint8Array(), new Uint8Array(9), serialize({ $limit: 1 }).subarray(1)]) {
    const error = assertThrows(() => Pipeline.read([damaged]), SvcError);
    assertStringIncludes(error.message, "mql_binary[0] is no BSON document");
  }
  const many = Array.from({ length: 101 }, () => serialize({ $match: {} }));
  assertStringIncludes(
    assertThrows(() => Pipeline.read(many), SvcError).message,
    "101 stages, wanted at most 100",
  );
  assertEquals("polluted" in {}, false);
});

Deno.test("Pipeline refuses an answer of more than 32 MiB or 100,000 documents", () => {
  const text = {
    $reduce: { input: { $range: [0, 24] }, initialValue: "x", in: { $concat: ["$$value", "$$value"] } },
  };
  const error = assertThrows(() => answer([{ $set: { text } }]), SvcError);
  assertEquals(error.code, "resource_exhausted");
  const many = [{ $set: { x: { $range: [0, 20_001] } } }, { $unwind: "$x" }, { $project: { _id: 0, x: 1 } }];
  const words = "the answer has 100005 documents, wanted at most 100000";
  assertStringIncludes(assertThrows(() => answer(many), SvcError).message, words);
});

Deno.test("a NaN counts as a number in sums, means and deviations, and other values do not count", () => {
  const documents = [
    { g: 1, v: NaN },
    { g: 1, v: 2 },
    { g: 2, v: 3 },
    { g: 2, v: "x" },
    { g: 2, v: 5 },
    { g: 3, v: null },
  ];
  const v = "$v";
  const group = {
    _id: "$g",
    sum: { $sum: v },
    mean: { $avg: v },
    spread: { $stdDevPop: v },
    of: { $stdDevSamp: v },
  };
  assertEquals(aggregate([{ $group: group }, { $sort: { _id: 1 } }], documents), [
    { _id: 1, sum: NaN, mean: NaN, spread: NaN, of: NaN },
    { _id: 2, sum: 8, mean: 4, spread: 1, of: Math.SQRT2 },
    { _id: 3, sum: 0, mean: null, spread: null, of: null },
  ]);
  const project = { _id: 0, sum: { $sum: ["$v", 1] }, mean: { $avg: ["$v", 1] } };
  assertEquals(aggregate([{ $project: project }], documents.slice(0, 2)), [{ sum: NaN, mean: NaN }, {
    sum: 3,
    mean: 1.5,
  }]);
});
