import { assertEquals, assertThrows } from "@std/assert";
import { aggregate } from "./aggregation.ts";

type Fields = { [name: string]: unknown };

const sort = (keys: Fields, ...values: unknown[]) =>
  aggregate([{ $sort: keys }], values.map((t, n) => t === undefined ? { n } : { t, n })).map(({ n }) => n);

Deno.test("$sort puts NaN before all numbers, and what is missing with null", () => {
  assertEquals(sort({ t: 1 }, 2, NaN, 1, null, undefined, -Infinity), [3, 4, 1, 5, 2, 0]);
  assertEquals(sort({ t: -1 }, 2, NaN, 1, null, undefined), [0, 2, 1, 3, 4]);
  assertEquals(sort({ t: 1 }, new Date(2), true, "b", "a", 7, new Date(1)), [4, 3, 2, 1, 5, 0]);
});

Deno.test("$sort takes a list by its least element upwards, and by its greatest downwards", () => {
  assertEquals(sort({ t: 1 }, [5, 1], 3, [], [2, 9]), [2, 0, 3, 1]);
  assertEquals(sort({ t: -1 }, [3], [5, 1], 4), [1, 2, 0]);
  assertEquals(sort({ "t.b": 1 }, [{ b: 3 }, { b: 1 }], { b: 2 }, { b: 0 }), [2, 0, 1]);
});

Deno.test("$sort by several fields keeps the order of equals, and refuses other ways", () => {
  const documents = [{ a: 1, b: 1, n: 0 }, { a: 0, b: 1, n: 1 }, { a: 1, b: 2, n: 2 }, { a: 1, b: 1, n: 3 }];
  assertEquals(aggregate([{ $sort: { a: 1, b: -1 } }], documents).map(({ n }) => n), [1, 2, 0, 3]);
  for (const keys of [{ t: 2 }, { t: "up" }, {}]) assertThrows(() => sort(keys, 1), Error, "1 or -1");
});

Deno.test("$sample takes each document at most once", () => {
  const documents = Array.from({ length: 20 }, (_, n) => ({ n }));
  const sample = (size: number) => aggregate([{ $sample: { size } }], documents).map(({ n }) => n as number);
  assertEquals(sample(50).toSorted((a, b) => a - b), documents.map(({ n }) => n));
  assertEquals(new Set(sample(8)).size, 8);
  assertThrows(() => sample(0), Error, "above 0");
});

Deno.test("$fill leaves values before the first one and after the last one empty", () => {
  const fill = (method: string, ...values: unknown[]) =>
    aggregate(
      [{ $fill: { sortBy: { t: 1 }, output: { v: { method } } } }],
      values.map((v, t) => v === undefined ? { t } : { t, v }),
    ).map(({ v }) => v);
  assertEquals(fill("linear", undefined, 5, undefined, null, 8, undefined), [null, 5, 6, 7, 8, null]);
  assertEquals(fill("linear", undefined, undefined), [null, null]);
  assertEquals(fill("linear", 1, undefined, 3), [1, 2, 3]);
  assertEquals(fill("locf", undefined, 5, undefined), [null, 5, 5]);
});
