import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { LogLimit } from "./log_limit.ts";

Deno.test("LogLimit: admits 500 lines per connection and second, and counts the lines it left out", async () => {
  const clock = new FakeClock();
  const limit = new LogLimit(clock);
  const [loud, quiet] = [{ kind: "grpc" }, { kind: "grpc" }] as const;
  const admitted = Array.from({ length: 700 }, () => limit.enter(loud)).filter((one) => one.admitted).length;
  assertEquals(admitted, 500);
  assertEquals(limit.enter(quiet), { admitted: true, leftOut: 0 });
  await clock.advance(1_000);
  assertEquals(limit.enter(loud), { admitted: true, leftOut: 200 });
  assertEquals(limit.enter(loud), { admitted: true, leftOut: 0 });
});
