import { assertEquals, assertThrows } from "@std/assert";
import { aggregate } from "./aggregation.ts";

type Fields = { [name: string]: unknown };

const densify = (range: Fields, documents: Fields[], more: Fields = {}) =>
  aggregate([{ $densify: { field: "t", range, ...more } }], documents);

Deno.test("$densify fills fixed bounds up to the upper one, beyond the last document", () => {
  const bounds = [0, 4];
  assertEquals(densify({ step: 1, bounds }, [{ t: 2, v: 7 }, { t: 1 }]).map(({ t }) => t), [0, 1, 2, 3]);
  assertEquals(densify({ step: 2, bounds }, [{ v: 1 }, { t: 1.5 }, { t: 9 }]), [
    { v: 1 },
    { t: 0 },
    { t: 1.5 },
    { t: 2 },
    { t: 9 },
  ]);
  const hours = [new Date("2025-01-01T00:00:00Z"), new Date("2025-01-01T03:00:00Z")];
  assertEquals(densify({ step: 1, unit: "hour", bounds: hours }, []).length, 3);
});

Deno.test("$densify steps by months that end on their last day", () => {
  const days = ["2025-01-31", "2025-02-28", "2025-03-31", "2025-04-30"].map((day) => ({ t: new Date(day) }));
  const range = { step: 1, unit: "month", bounds: "full" };
  assertEquals(densify(range, [{ ...days[0] }, { ...days[3] }]), days);
});

Deno.test("$densify fills each partition, whose values may be of any type", () => {
  const some = () => [{ p: 2, t: 2 }, { p: 1, t: 3 }, { p: 1, t: 1 }];
  const more = { partitionByFields: ["p"] };
  const own = [{ p: 1, t: 1 }, { p: 1, t: 2 }, { p: 1, t: 3 }, { p: 2, t: 2 }];
  assertEquals(densify({ step: 1, bounds: "partition" }, some(), more), own);
  assertEquals(densify({ step: 1, bounds: "full" }, some(), more), [
    ...own.slice(0, 3),
    ...[1, 2, 3].map((t) => ({ p: 2, t })),
  ]);
});

Deno.test("$densify refuses a range that it cannot fill", () => {
  const wrong: [Fields, string][] = [
    [{ step: 0, bounds: "full" }, "a step above 0"],
    [{ step: 1, bounds: [4, 0] }, "ascending"],
    [{ step: 1, bounds: "partition" }, "partitionByFields"],
    [{ step: 1, unit: "fortnight", bounds: "full" }, "unit"],
    [{ step: 1, unit: "hour", bounds: "full" }, "wants dates"],
    [{ step: 1e-6, bounds: [0, 4] }, "more than 500000"],
  ];
  for (const [range, reason] of wrong) assertThrows(() => densify(range, [{ t: 1 }]), Error, reason);
});
