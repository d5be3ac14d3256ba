import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeServo } from "./fake.ts";

Deno.test("fake servo: it starts at 0 and reaches any angle at once", async () => {
  const servo = await construct(FakeServo);
  assertEquals(await servo.getPosition(), 0);
  await servo.move(720);
  assertEquals([await servo.getPosition(), await servo.isMoving()], [720, false]);
});
