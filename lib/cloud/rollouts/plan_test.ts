import { assertEquals, assertThrows } from "@std/assert";
import { checkedPlan, dividedParts, type GivenPlan, isWithin } from "./plan.ts";

const GIVEN: GivenPlan = {
  steps: [],
  soakSeconds: 0,
  takeSeconds: 0,
  lateSeconds: 0,
  atOnce: 0,
  unhealthyMax: 0,
  errorsMax: 0,
  windows: [],
  readings: [],
};

function partsOf(count: number) {
  return Array.from({ length: count }, (_, at) => ({
    id: `p${at}`,
    locationIds: [at < 5 ? "hall" : "yard"],
    tags: at === 7 ? ["canary"] : [],
  }));
}

Deno.test("shares are of all parts, tags and locations come as they stand, the rest is last", () => {
  const sizes = (steps: string[], count: number) => {
    const divided = dividedParts({ steps }, partsOf(count), "r");
    assertEquals(new Set(divided.map(({ id }) => id)).size, count);
    return Array.from(
      { length: steps.length + 1 },
      (_, at) => divided.filter(({ step }) => step === at).length,
    );
  };
  assertEquals(sizes(["10%", "50%"], 20), [2, 8, 10]);
  assertEquals(sizes(["1%"], 3), [1, 2]);
  assertEquals(sizes(["tag:canary", "location:hall", "50%"], 20), [1, 5, 4, 10]);
  assertEquals(sizes(["100%"], 4), [4, 0]);
  assertEquals(sizes(["10%"], 0), [0, 0]);
  const one = dividedParts({ steps: ["50%"] }, partsOf(20), "one").map(({ id }) => id);
  assertEquals(one, dividedParts({ steps: ["50%"] }, partsOf(20).reverse(), "one").map(({ id }) => id));
});

Deno.test("windows are of days and minutes in UTC, also over midnight", () => {
  const at = (text: string) => Date.parse(`${text}Z`);
  const friday = "2026-11-27T";
  assertEquals(isWithin([], at(`${friday}12:00`)), true);
  assertEquals(isWithin(["10:00-12:00"], at(`${friday}11:59`)), true);
  assertEquals(isWithin(["10:00-12:00"], at(`${friday}12:00`)), false);
  assertEquals(isWithin(["fri 22:00-05:00"], at(`${friday}22:00`)), true);
  assertEquals(isWithin(["fri 22:00-05:00"], at("2026-11-28T04:59")), true);
  assertEquals(isWithin(["fri 22:00-05:00"], at("2026-11-28T22:00")), false);
  assertEquals(isWithin(["fri 22:00-05:00"], at(`${friday}04:00`)), false);
  assertEquals(isWithin(["sat-mon 00:00-24:00"], at("2026-11-29T13:00")), true);
  assertEquals(isWithin(["sat-mon 00:00-24:00"], at(`${friday}13:00`)), false);
});

Deno.test("a plan that makes no sense is refused with its field", () => {
  const refused = (part: Partial<GivenPlan>, field: string) =>
    assertThrows(() => checkedPlan({ ...GIVEN, ...part }), Error, field);
  refused({ steps: ["50%", "10%"] }, "plan.steps[1]");
  refused({ steps: ["0%"] }, "plan.steps[0]");
  refused({ steps: ["101%"] }, "plan.steps[0]");
  refused({ steps: ["tag:"] }, "plan.steps[0]");
  refused({ steps: Array(21).fill("tag:a") }, "plan.steps");
  refused({ windows: ["25:00-26:00"] }, "plan.windows[0]");
  refused({ windows: ["10:00-10:00"] }, "plan.windows[0]");
  refused({ windows: ["10:60-11:00"] }, "plan.windows[0]");
  refused({ windows: ["10:00-11:60"] }, "plan.windows[0]");
  refused({ windows: ["foo 10:00-11:00"] }, "plan.windows[0]");
  refused({ soakSeconds: 1e9 }, "plan.soakSeconds");
  refused({ readings: [{ component: "cpu", operator: "regex", value: '{"a": 1}' }] }, "plan.readings[0]");
  refused({ readings: [{ component: "cpu", operator: "lt", value: "5" }] }, "plan.readings[0]");
  refused({ readings: [{ component: "", operator: "lt", value: '{"a": 1}' }] }, "plan.readings[0]");
  assertEquals(checkedPlan(GIVEN).steps, ["10%", "50%"]);
  assertEquals(checkedPlan(GIVEN).soakMs, 300_000);
});
