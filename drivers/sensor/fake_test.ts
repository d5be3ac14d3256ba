import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeSensor } from "./fake.ts";

Deno.test("fake sensor: readings are always a 1, b 2 and c 3", async () => {
  const sensor = await construct(FakeSensor);
  assertEquals(await sensor.getReadings(), { a: 1, b: 2, c: 3 });
});
