import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SharedInterval } from "./shared_interval.ts";

Deno.test("SharedInterval: many callbacks come at the interval with few timers, and end one by one", async () => {
  const clock = new FakeClock(0);
  const interval = new SharedInterval(clock, 6_400);
  const times = new Map<number, number[]>();
  const stops: (() => void)[] = [];
  for (let number = 0; number < 1_000; number++) {
    times.set(number, []);
    stops.push(interval.every(() => times.get(number)!.push(clock.monotonicMs())));
    await clock.advance(1);
  }
  assertEquals(clock.pending, 10);
  await clock.advance(3 * 6_400 - 1_000);
  assertEquals(times.get(0), [6_400, 12_800, 19_200]);
  // It began in the midst of its slot.
  assertEquals(times.get(250), [6_600, 13_000]);
  for (const stop of stops) stop();
  for (const stop of stops) stop();
  assertEquals(clock.pending, 0);
  await clock.advance(100_000);
  assertEquals(times.get(0)?.length, 3);
});

Deno.test("SharedInterval: callbacks end others and begin new ones, and the interval keeps its phase", async () => {
  const clock = new FakeClock(0);
  const interval = new SharedInterval(clock, 1_000);
  const calls: string[] = [];
  const stopFirst = interval.every(() => {
    calls.push(`first ${clock.monotonicMs()}`);
    stopSecond();
    stopFirst();
    interval.every(() => calls.push(`third ${clock.monotonicMs()}`));
  });
  const stopSecond = interval.every(() => calls.push("second"));
  await clock.advance(1_000);
  assertEquals(calls, ["first 1000"]);
  await clock.advance(2_000);
  assertEquals(calls.slice(1), ["third 2000", "third 3000"]);
});
