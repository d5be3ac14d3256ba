import { assertEquals, assertThrows } from "@std/assert";
import { aggregate, type PipelineStage } from "./aggregation.ts";

type Fields = { [name: string]: unknown };

const run = (stages: PipelineStage[], ...documents: Fields[]) => aggregate(stages, documents);
const valueOf = (expression: unknown, document: Fields = {}) =>
  run([{ $project: { is: expression } }], document)[0]?.is;
const failureOf = (expression: unknown, wanted: string, document: Fields = {}) =>
  void assertThrows(() => valueOf(expression, document), Error, wanted);

Deno.test("aggregate: $set of a field of an object leaves documents alone that share the object", () => {
  const document = { tags: ["a", "b"], data: { x: 1 } };
  assertEquals(run([{ $unwind: "$tags" }, { $set: { "data.tag": "$tags" } }], document), [
    { tags: "a", data: { x: 1, tag: "a" } },
    { tags: "b", data: { x: 1, tag: "b" } },
  ]);
  assertEquals(run([{ $set: { before: "$data" } }, { $addFields: { "data.x": 2 } }], document), [
    { ...document, data: { x: 2 }, before: { x: 1 } },
  ]);
  assertEquals(document.data, { x: 1 });
});

Deno.test("aggregate: $unset, $project and $fill leave documents alone that share an object", () => {
  const document = { tags: [1, 2], data: { x: 1, list: [{ x: 1, y: 2 }, 5] } };
  for (
    const stage of [{ $unset: ["data.x", "data.list.x"] }, {
      $project: { "data.x": 0, "data.list.x": false },
    }]
  ) {
    assertEquals(run([{ $set: { before: "$data" } }, stage], document), [
      { tags: [1, 2], data: { list: [{ y: 2 }, 5] }, before: document.data },
    ]);
  }
  const output = { "data.n": { value: "$tags" }, "data.m": { method: "locf" } };
  const stages = [{ $unwind: "$tags" }, { $set: { "data.m": { $cond: [{ $eq: ["$tags", 1] }, 7, null] } } }];
  assertEquals(
    run([...stages, { $fill: { sortBy: { tags: 1 }, output } }, { $unset: "data.list" }], document),
    [
      { tags: 1, data: { x: 1, n: 1, m: 7 } },
      { tags: 2, data: { x: 1, n: 2, m: 7 } },
    ],
  );
  assertThrows(
    () => run([{ $fill: { output: { x: { method: "locf" } } } }], document),
    Error,
    "and a sortBy",
  );
  assertThrows(
    () => run([{ $fill: { sortBy: { x: 1 }, output: { x: { method: "toString" } } } }]),
    Error,
    "linear",
  );
});

Deno.test("aggregate: $set of a field inside of lists sets it in each element", () => {
  const document = { a: [{ b: 1 }, 5, [{}]], o: { p: 1 } };
  assertEquals(run([{ $set: { "a.c": "$o.p" } }], document), [
    { a: [{ b: 1, c: 1 }, { c: 1 }, [{ c: 1 }]], o: { p: 1 } },
  ]);
  assertEquals(run([{ $set: { o: { q: 2 }, "n.m": 3, "a.b": "$nothing" } }], document), [
    { a: [{}, 5, [{}]], o: { p: 1, q: 2 }, n: { m: 3 } },
  ]);
  assertEquals(run([{ $set: { o: {}, a: [1, "$o.p"] } }], document), [{ a: [1, 1], o: {} }]);
  assertThrows(() => run([{ $set: { $a: 1 } }], document), Error, 'found the field "$a"');
});

Deno.test("aggregate: conditions take missing values for null, and types of numbers for double", () => {
  const documents = [
    { n: 0 },
    { n: 1, x: null },
    { n: 2, x: 1 },
    { n: 3, x: [null, 7.5] },
    { n: 4, x: ["s"] },
    { n: 5, x: {} },
  ];
  const found = (x: unknown) => run([{ $match: { x } }], ...documents).map(({ n }) => n);
  assertEquals([found({ $gte: null }), found({ $lte: null }), found({ $gt: null })], [
    [0, 1, 3],
    [0, 1, 3],
    [],
  ]);
  assertEquals(found({ $not: { $gte: null } }), [2, 4, 5]);
  assertEquals([found({ $gte: 7 }), found({ $lte: 1 })], [[3], [2]]);
  assertEquals([found({ $type: "double" }), found({ $type: 1 }), found({ $type: "number" })], [
    [2, 3],
    [2, 3],
    [2, 3],
  ]);
  assertEquals([found({ $type: "int" }), found({ $type: "array" }), found({ $type: "null" })], [[], [3, 4], [
    1,
    3,
  ]]);
  assertEquals(found({ $type: ["string", "object"] }), [4, 5]);
  assertThrows(() => found({ $type: "integer" }), Error, "$type wants the name or number of a type");
  assertEquals([found({ $mod: [4, 3] }), found({ $mod: [2, 1] })], [[3], [2, 3]]);
  assertThrows(() => found({ $mod: [0, 0] }), Error, "$mod wants another divisor than 0");
});

Deno.test("aggregate: an element of a list without the field has null there", () => {
  const documents = [
    { n: 0 },
    { n: 1, a: [{ x: 1 }, { y: 2 }] },
    { n: 2, a: [{ y: 1 }] },
    { n: 3, a: [1] },
    { n: 4, a: [] },
    { n: 5, a: { x: 1 } },
    { n: 6, a: [{ y: null }, { y: 3 }] },
    { n: 7, a: { y: [{ z: 1 }, { w: 1 }] } },
    { n: 8, a: [{ y: { z: 1 } }] },
  ];
  const found = (condition: { [path: string]: unknown }) =>
    run([{ $match: condition }], ...documents).map(({ n }) => n);
  const without = [0, 1, 5, 6];
  for (const asked of [null, { $eq: null }, { $in: [2, null] }, { $gte: null }, { $lte: null }]) {
    assertEquals(found({ "a.y": asked }), without, JSON.stringify(asked));
  }
  for (const asked of [{ $ne: null }, { $nin: [null] }, { $not: { $eq: null } }]) {
    assertEquals(found({ "a.y": asked }), [2, 3, 4, 7, 8], JSON.stringify(asked));
  }
  assertEquals(found({ "a.y.z": null }), [0, 1, 2, 5, 6, 7]);
  assertEquals([found({ "a.1.y": 2 }), found({ "a.y": { $in: [2] } }), found({ a: null })], [[1], [1], [0]]);
  assertEquals(found({ "a.y": { $ne: 2 } }), [0, 2, 3, 4, 5, 6, 7, 8]);
});

Deno.test("aggregate: the greatest and the least are in MongoDB's order, of one list or of several values", () => {
  assertEquals([valueOf({ $max: "$x" }, { x: [3, 1] }), valueOf({ $max: ["$x"] }, { x: [3, 1] })], [3, 3]);
  assertEquals([valueOf({ $min: ["$x", 7] }, { x: [3] }), valueOf({ $max: ["$x", 7] }, { x: [3] })], [7, [
    3,
  ]]);
  assertEquals([valueOf({ $max: "$x" }, { x: 5 }), valueOf({ $min: "$x" }), valueOf({ $min: [null, 2] })], [
    5,
    null,
    2,
  ]);
  assertEquals([valueOf({ $sum: "$x" }, { x: 5 }), valueOf({ $avg: ["$x"] }, { x: [2, 4] })], [5, 3]);
  const group = { _id: null, most: { $max: "$x" }, least: { $min: "$x" } };
  const ofAll = (...values: unknown[]) => run([{ $group: group }], ...values.map((x) => ({ x })))[0];
  assertEquals(ofAll([3, 1], 2, [9, 0], null), { _id: null, most: [9, 0], least: 2 });
  assertEquals(ofAll(4, NaN, 2), { _id: null, most: 4, least: NaN });
  assertEquals(ofAll(null), { _id: null, most: null, least: null });
});

Deno.test("aggregate: what is not defined is an error", () => {
  failureOf({ $switch: { branches: [{ case: "$x", then: 1 }] } }, "$switch found no branch that matches");
  assertEquals(
    valueOf({ $switch: { branches: [{ case: "$x", then: "$y" }], default: 3 } }, { x: "", y: 2 }),
    2,
  );
  assertEquals(valueOf({ $switch: { branches: [{ case: 0, then: 1 }], default: null } }), null);
  failureOf({ $mod: [5, "$x"] }, "$mod wants another divisor than 0", { x: 0 });
  assertEquals([valueOf({ $mod: ["$x", 2] }), valueOf({ $mod: [-5.5, 2] })], [null, -1.5]);
  failureOf({ $size: "$x" }, "$size wants a list, found missing");
  failureOf({ $size: "$x" }, "$size wants a list, found double", { x: 1 });
  assertEquals(valueOf({ $size: ["$x"] }, { x: [1, 2] }), 2);
  failureOf({ $divide: [1, "$x"] }, "cannot divide by zero", { x: 0 });
  failureOf({ $sqrt: "$x" }, "non-negative", { x: -1 });
  failureOf({ $ln: "$x" }, "$ln is not defined for 0", { x: 0 });
  failureOf({ $log: [10, 1] }, "$log is not defined for 10, 1");
  failureOf({ $acos: 2 }, "$acos is not defined for 2");
  assertEquals([valueOf({ $ln: "$x" }), valueOf({ $log10: 100 }), valueOf({ $log: [8, 2] })], [null, 2, 3]);
  failureOf({ $mergeObjects: [{ a: 1 }, "$x"] }, "$mergeObjects wants objects", { x: "text" });
  assertEquals(valueOf({ $mergeObjects: [{ a: 1 }, "$x", { b: 2 }] }), { a: 1, b: 2 });
  failureOf({ $toObjectId: "$x" }, "the operator $toObjectId is not supported");
  failureOf({ $bsonSize: "$$ROOT" }, "the operator $bsonSize is not supported");
  for (const stage of [{ $limit: 0 }, { $limit: 1.5 }, { $skip: -1 }, { $skip: 0.5 }]) {
    assertThrows(() => run([stage], { x: 1 }), Error, "wants a whole number");
  }
  assertEquals(run([{ $skip: 0 }, { $limit: 1 }], { x: 1 }, { x: 2 }), [{ x: 1 }]);
});

Deno.test("aggregate: the first and the last element may be a list, and groups have their own of each operator", () => {
  const document = { x: [[1, 2], [3, 4]] };
  assertEquals([valueOf({ $first: "$x" }, document), valueOf({ $last: ["$x"] }, document)], [[1, 2], [3, 4]]);
  assertEquals([valueOf({ $first: "$x" }), valueOf({ $last: "$x" }, { x: [] })], [null, undefined]);
  failureOf({ $first: "$x" }, "$first wants a list, found double", { x: 1 });
  const group = { _id: null, first: { $first: "$x" }, last: { $last: "$x" }, all: { $mergeObjects: "$o" } };
  assertEquals(run([{ $group: group }], { x: 1, o: { a: 1 } }, { x: 2 }, { x: [3], o: { a: 2, b: 3 } }), [
    { _id: null, first: 1, last: [3], all: { a: 2, b: 3 } },
  ]);
});

Deno.test("aggregate: types of values have MongoDB's names", () => {
  const names = [1, 1.5, "s", null, [1], {}, true, new Date(0)].map((x) => valueOf({ $type: "$x" }, { x }));
  assertEquals(names, ["double", "double", "string", "null", "array", "object", "bool", "date"]);
  assertEquals(valueOf({ $type: "$x" }), "missing");
});

Deno.test("aggregate: a window of months ends at the last day of a shorter month", () => {
  const days = [[1, 31], [2, 27], [2, 28], [3, 31]].map(([month = 0, day = 0]) => ({
    at: new Date(Date.UTC(2026, month - 1, day)),
    name: `${month}-${day}`,
  }));
  const names = { $push: "$name", window: { range: [-1, 0], unit: "month" } };
  const stage = { $setWindowFields: { sortBy: { at: 1 }, output: { names } } };
  assertEquals(run([stage], ...days).map((one) => one.names), [
    ["1-31"],
    ["1-31", "2-27"],
    ["1-31", "2-27", "2-28"],
    ["2-28", "3-31"],
  ]);
  assertThrows(() => run([stage], { at: 5 }), Error, "the range wants dates");
});

Deno.test("aggregate: a window is a range of values, also of a field of an object", () => {
  const documents = [4, 1, 2, 2].map((x, at) => ({ part: at === 0 ? "b" : "a", data: { x } }));
  const windowed = (window: unknown, partitionBy?: string) =>
    run(
      [{
        $setWindowFields: {
          partitionBy,
          sortBy: { "data.x": 1 },
          output: { "out.sum": { $sum: "$data.x", window } },
        },
      }],
      ...documents,
    ).map(({ out }) => (out as { sum: number }).sum);
  assertEquals(windowed({ range: [-1, 0] }), [1, 5, 5, 4]);
  assertEquals(windowed({ range: ["unbounded", "current"] }), [1, 5, 5, 9]);
  assertEquals(windowed({ range: [1, "unbounded"] }), [8, 4, 4, 0]);
  assertEquals(windowed({ documents: ["unbounded", "current"] }, "$part"), [1, 3, 5, 4]);
  assertEquals(windowed({ documents: [1, 1] }), [2, 2, 4, 0]);
  assertEquals(windowed(undefined), [9, 9, 9, 9]);
  assertThrows(() => windowed({ range: [0, 0], documents: [0, 0] }), Error, "either documents or a range");
  assertThrows(() => windowed({ range: [0] }), Error, "two bounds");
  const unsorted = { $setWindowFields: { output: { n: { $sum: 1, window: { documents: [0, 0] } } } } };
  assertThrows(() => run([unsorted], ...documents), Error, "wants a sortBy");
  const unknown = { $setWindowFields: { sortBy: { x: 1 }, output: { n: { $nope: 1 } } } };
  assertThrows(() => run([unknown], ...documents), Error, '"n" wants one operator');
});

Deno.test("aggregate: operators of windows see the place of their document", () => {
  const output = {
    n: { $documentNumber: {} },
    rank: { $rank: {} },
    before: { $shift: { output: "$x", by: -1, default: 0 } },
    change: { $derivative: { input: "$x" }, window: { documents: [-1, 0] } },
  };
  assertEquals(
    run([{ $setWindowFields: { sortBy: { t: 1 }, output } }, { $unset: "t" }], { t: 2, x: 7 }, {
      t: 0,
      x: 1,
    }),
    [
      { x: 1, n: 1, rank: 1, before: 0, change: null },
      { x: 7, n: 2, rank: 2, before: 1, change: 3 },
    ],
  );
});

Deno.test("aggregate: an expression of one value takes it in a list, too", () => {
  const document = { n: -4, list: [1, 2], object: { k: 1 }, time: new Date(5), text: "abc" };
  const values: [operator: string, field: string, value: unknown][] = [
    ["$abs", "$n", 4],
    ["$isNumber", "$n", true],
    ["$reverseArray", "$list", [2, 1]],
    ["$objectToArray", "$object", [{ k: "k", v: 1 }]],
    ["$toInt", "$none", null],
    ["$toDate", "$time", new Date(5)],
    ["$toString", "$n", "-4"],
    ["$strLenCP", "$text", 3],
    ["$cos", "$none", null],
    ["$acos", "$none", null],
  ];
  for (const [operator, field, value] of values) {
    assertEquals(valueOf({ [operator]: field }, document), value, operator);
    assertEquals(valueOf({ [operator]: [field] }, document), value, operator);
  }
  assertEquals(valueOf({ $arrayToObject: [[["k", 1], ["l", "$n"]]] }, document), { k: 1, l: -4 });
  assertEquals(valueOf({ $arrayToObject: [[{ k: "k", v: 1 }, { k: "l", v: 2 }]] }), { k: 1, l: 2 });
  assertEquals(valueOf({ $reverseArray: { $literal: [[1, 2]] } }), [[1, 2]]);
  failureOf({ $acos: [2] }, "$acos is not defined for 2");
});

Deno.test("aggregate: $slice of nothing is null", () => {
  assertEquals(valueOf({ $slice: ["$none", 1] }), null);
  assertEquals(valueOf({ $slice: [[1, 2, 3], 1, "$none"] }), null);
  assertEquals(valueOf({ $slice: [[1, 2, 3], 1, 5] }), [2, 3]);
  failureOf({ $slice: ["text", 1] }, "$slice");
});

Deno.test("aggregate: $group refuses a field without an accumulator", () => {
  assertEquals(run([{ $group: { _id: "$a", n: { $sum: 1 } } }], { a: 1 }), [{ _id: 1, n: 1 }]);
  for (
    const field of [{ n: "$a" }, { n: { $sum: 1, $avg: 1 } }, { n: { $toString: 1 } }, { "n.m": { $sum: 1 } }]
  ) {
    assertThrows(() => run([{ $group: { _id: null, ...field } }], { a: 1 }), Error, "one accumulator");
  }
});

Deno.test("aggregate: a covariance is over the documents that have both numbers", () => {
  const documents = [{ a: 1, b: 1 }, { a: 2, b: 5 }, { a: 3, b: null }, { b: 4 }];
  const of = (operator: string) =>
    run([{ $setWindowFields: { output: { is: { [operator]: ["$a", "$b"] } } } }], ...documents)[0]?.is;
  assertEquals(of("$covariancePop"), 1);
  assertEquals(of("$covarianceSamp"), 2);
});

Deno.test("aggregate: conversions take texts without a time zone as UTC, and no days that are none", () => {
  const before = Deno.env.get("TZ");
  // The time zone of the process, which a control plane has from its computer.
  Deno.env.set("TZ", "America/New_York");
  try {
    const time = new Date("2024-02-20T10:00:00Z");
    for (
      const text of [
        "2024-02-20T10:00:00",
        "2024-02-20 10:00",
        "2024-02-20T10:00:00Z",
        "2024-02-20T11:00+01:00",
      ]
    ) {
      assertEquals(valueOf({ $toDate: text }), time, text);
      assertEquals(valueOf({ $toDate: ["$t"] }, { t: text }), time, text);
      assertEquals(valueOf({ $convert: { input: text, to: "date" } }), time, text);
    }
    assertEquals(valueOf({ $toDate: 5 }), new Date(5));
    assertEquals(valueOf({ $toDate: "$none" }), null);
    assertEquals(valueOf({ $convert: { input: "7", to: "int" } }), 7);
    assertEquals(valueOf({ $convert: { input: null, to: "date", onNull: "none" } }), "none");
    assertEquals(valueOf({ $convert: { input: "2024-02-30", to: 9, onError: "no date" } }), "no date");
    assertEquals(valueOf({ $convert: { input: "x", to: "int", onError: "no number" } }), "no number");
    for (const text of ["2024-02-30", "2023-02-29T10:00:00Z", "2024-13-01", "tomorrow"]) {
      assertThrows(() => valueOf({ $toDate: text }), Error);
      assertThrows(() => valueOf({ $dateFromString: { dateString: text } }), Error);
    }
  } finally {
    if (before === undefined) Deno.env.delete("TZ");
    else Deno.env.set("TZ", before);
  }
});
