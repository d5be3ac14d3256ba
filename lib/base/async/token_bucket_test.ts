import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { TokenBucket } from "./token_bucket.ts";

Deno.test("TokenBucket: what is taken comes back with time, up to the burst, and a debt first", async () => {
  const clock = new FakeClock();
  const bucket = new TokenBucket(clock, { burst: 4, perSecond: 2 });
  assertEquals([bucket.take(3), bucket.left], [true, 1]);
  assertEquals([bucket.take(2), bucket.left], [false, -1]);
  await clock.advance(1000);
  assertEquals(bucket.left, 1);
  bucket.put(1);
  assertEquals(bucket.left, 2);
  await clock.advance(60_000);
  assertEquals(bucket.left, 4);
});

Deno.test("TokenBucket: follows limits that change", async () => {
  const clock = new FakeClock();
  const limits = { burst: 4, perSecond: 1 };
  const bucket = new TokenBucket(clock, limits);
  limits.burst = 2;
  assertEquals(bucket.left, 2);
  limits.burst = 3;
  await clock.advance(5000);
  assertEquals(bucket.left, 3);
});
