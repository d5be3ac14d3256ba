import { assertEquals } from "@std/assert";
import { toDuration, toMs, toTimestamp } from "./time.ts";

Deno.test("toTimestamp: splits a time into whole seconds and non-negative nanoseconds", () => {
  assertEquals(toTimestamp(1_700_000_000_123.5), { seconds: 1_700_000_000n, nanos: 123_500_000 });
  assertEquals(toTimestamp(-1500), { seconds: -2n, nanos: 500_000_000 });
  assertEquals(toTimestamp(1999.9999999), { seconds: 2n, nanos: 0 });
});

Deno.test("toDuration: seconds and nanoseconds have the same sign", () => {
  assertEquals(toDuration(1500), { seconds: 1n, nanos: 500_000_000 });
  assertEquals(toDuration(-1500), { seconds: -1n, nanos: -500_000_000 });
});

Deno.test("times that no message can hold become the nearest that one can", () => {
  const most = 2 ** 63 * 1000;
  const written = [most, -most, Infinity, -Infinity, 253_402_300_800_000].map(toTimestamp);
  assertEquals(written.map(({ seconds }) => seconds), [
    253_402_300_799n,
    -62_135_596_800n,
    253_402_300_799n,
    -62_135_596_800n,
    253_402_300_799n,
  ]);
  assertEquals([most, -most].map((ms) => toDuration(ms).seconds), [315_576_000_000n, -315_576_000_000n]);
});

Deno.test("toMs: restores milliseconds from timestamps and durations", () => {
  for (const ms of [0, 0.5, -1500, 1_700_000_000_123]) assertEquals(toMs(toTimestamp(ms)), ms);
  for (const ms of [0, 0.5, -1500]) assertEquals(toMs(toDuration(ms)), ms);
  assertEquals(toMs(undefined), 0);
});
