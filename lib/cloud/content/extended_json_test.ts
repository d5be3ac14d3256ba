import { assertEquals, assertThrows } from "@std/assert";
import { serialize } from "bson";
import { SvcError } from "../../base/error.ts";
import { celsius, FIRST_MS, HOUR_MS, readingBatch } from "../../../tests/support/reading_batch.ts";
import { withTypes } from "./extended_json.ts";
import { Pipeline } from "./pipeline.ts";

Deno.test("a query as the documentation writes it finds the readings of its time, and only reads those", () => {
  const range = {
    $gte: { $date: new Date(FIRST_MS).toISOString() },
    $lt: { $date: { $numberLong: String(FIRST_MS + 2 * HOUR_MS) } },
  };
  const stages = [
    { $match: { time_received: range, "data.readings.celsius": { $gt: { $numberDouble: "20.5" } } } },
    { $count: "found" },
  ];
  const pipeline = Pipeline.read(stages.map((stage) => serialize(stage)));
  assertEquals(pipeline.narrowing().received, { fromMs: FIRST_MS, untilMs: FIRST_MS + 2 * HOUR_MS });
  pipeline.take(readingBatch("indoors", celsius(20, 21, 25), []));
  assertEquals(pipeline.answer(), [serialize({ found: 1 })]);
});

Deno.test("withTypes: reads times in all their forms, numbers, and leaves everything else", () => {
  const day = new Date("2026-01-15T00:00:00Z");
  for (
    const written of [
      "2026-01-15T00:00:00Z",
      "2026-01-15T01:00:00.000+01:00",
      "2026-01-15T00:00:00",
      "2026-01-15",
      day.getTime(),
      { $numberLong: String(day.getTime()) },
    ]
  ) assertEquals(withTypes({ a: [{ $date: written }] }), { a: [day] });
  assertEquals(withTypes([{ $numberInt: "-3" }, { $numberDecimal: "1.5" }, { $numberDouble: "NaN" }]), [
    -3,
    1.5,
    NaN,
  ]);
  const kept = { $match: { a: /x/, b: { $regex: "y", $options: "i" }, c: { $in: [null, day] } }, $date: 1 };
  assertEquals(withTypes(kept), kept);
});

Deno.test("withTypes: names the value that cannot be read, and the stage", () => {
  const refused = (value: unknown) => assertThrows(() => withTypes(value), SvcError).message;
  assertEquals(
    refused({ $date: "yesterday" }),
    'found "yesterday" in $date, wanted for example "2026-01-15T00:00:00Z"',
  );
  assertEquals(refused({ $date: {} }), 'found {} in $date, wanted for example "2026-01-15T00:00:00Z"');
  assertEquals(refused({ $numberLong: "" }), 'found "" in $numberLong, wanted for example "42"');
  const stages = [{ $match: {} }, { $match: { time_received: { $gte: { $date: "soon" } } } }];
  const error = assertThrows(() => Pipeline.read(stages.map((stage) => serialize(stage))), SvcError);
  assertEquals(
    [error.code, error.message],
    ["invalid_argument", 'mql_binary[1]: found "soon" in $date, wanted for example "2026-01-15T00:00:00Z"'],
  );
});
