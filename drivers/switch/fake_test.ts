import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeSwitch } from "./fake.ts";

Deno.test("fake switch: it has two positions without labels by default", async () => {
  const plain = await construct(FakeSwitch);
  assertEquals(await plain.getNumberOfPositions(), { count: 2, labels: [] });
  assertEquals(await plain.getPosition(), 0);
  const labelled = await construct(FakeSwitch, { position_count: 3, labels: ["off", "low", "high"] });
  assertEquals(await labelled.getNumberOfPositions(), { count: 3, labels: ["off", "low", "high"] });
});

Deno.test("fake switch: labels are ignored if their number differs from position_count", async () => {
  const one = await construct(FakeSwitch, { position_count: 3, labels: ["off", "on"] });
  assertEquals(await one.getNumberOfPositions(), { count: 3, labels: [] });
});

Deno.test("fake switch: a position out of range is refused with the published error", async () => {
  const one = await construct(FakeSwitch, {}, { name: "s" });
  const text = "switch component rdk:component:switch/s position 2 is invalid (valid range: 0-1)";
  await assertRejects(() => one.setPosition(2), SvcError, text);
  await assertRejects(() => one.setPosition(-1), SvcError);
});

Deno.test("fake switch: a position_count of 0 is refused", () => {
  const [problem] = problemsOf(FakeSwitch, { position_count: 0 });
  assertEquals(problem, "position_count: found 0, wanted an integer of at least 1");
});
