import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeServo } from "./fake.ts";

Deno.test("begins at 0 and is at once where it is told to go, however far", async () => {
  const servo = await construct(FakeServo);
  assertEquals(await servo.getPosition(), 0);
  await servo.move(720);
  assertEquals([await servo.getPosition(), await servo.isMoving()], [720, false]);
});
