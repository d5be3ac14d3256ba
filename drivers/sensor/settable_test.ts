import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { READINGS_LENGTH_MAX, SettableSensor } from "./settable.ts";

Deno.test("settable sensor: set changes its readings, and reset restores the attributes", async () => {
  const sensor = await construct(SettableSensor, { readings: { open: false, level: 3 } });
  assertEquals(await sensor.getReadings(), { open: false, level: 3 });
  const set = { open: true, level: 3, why: { who: "me" } };
  assertEquals(await sensor.doCommand({ set: { open: true, why: { who: "me" } } }), set);
  assertEquals(await sensor.getReadings(), set);
  assertEquals(await sensor.doCommand({ reset: true }), { open: false, level: 3 });
  assertEquals(await sensor.getReadings(), { open: false, level: 3 });
});

const long = "x".repeat(READINGS_LENGTH_MAX);

const REFUSED: [command: JsonObject, why: string][] = [
  [{}, "found no reading to set"],
  [{ set: true }, "found no reading to set"],
  [{ reset: false }, "found no reading to set"],
  [{ set: {}, reset: true }, "found no reading to set"],
  [{ open: true }, 'found "open", wanted {"set"'],
  [{ set: { long } }, "longer than 64 KiB"],
];

for (const [command, why] of REFUSED) {
  Deno.test(`settable sensor: refuses ${JSON.stringify(command).slice(0, 40)} and keeps its readings`, async () => {
    const sensor = await construct(SettableSensor, { readings: { open: false } });
    const error = await assertRejects(() => sensor.doCommand(command), SvcError, why);
    assertEquals([error.code, await sensor.getReadings()], ["invalid_argument", { open: false }]);
  });
}

Deno.test("settable sensor: readings are required and limited to 64 KiB", () => {
  assertEquals(problemsOf(SettableSensor, {}), ["readings: missing required field, wanted an object"]);
  assertEquals(problemsOf(SettableSensor, { readings: { long } }), [
    "readings: the readings are longer than 64 KiB as JSON",
  ]);
});
