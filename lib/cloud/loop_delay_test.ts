import { assertEquals } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { LoopDelay } from "./loop_delay.ts";

Deno.test("LoopDelay: counts late timers, and logs those above 100 ms once a minute", async () => {
  const clock = new FakeClock();
  const logged: unknown[] = [];
  const logger = {
    info: () => {},
    warn: (_: string, fields?: unknown) => void logged.push(fields),
    error: () => {},
  };
  let [lateMs, cpuMs] = [0, 0];
  const late = { ...lateClock(clock, () => lateMs) };
  const delay = new LoopDelay(late, logger, () => cpuMs);
  assertEquals(clock.pending, 0);
  delay.start();
  await clock.advance(20);
  assertEquals(delay.figures.delay.counts, [1, 0, 0, 0, 0, 0, 0, 0, 0]);
  // The process computes for 150 ms, and the computer keeps it waiting for 30 ms more.
  lateMs = 180;
  cpuMs = 150;
  await clock.advance(20);
  assertEquals(delay.figures, {
    delay: { counts: [1, 0, 0, 0, 1, 0, 0, 0, 0], sumMs: 180 },
    busy: { counts: [1, 0, 0, 0, 1, 0, 0, 0, 0], sumMs: 150 },
    longestMs: 180,
  });
  for (const ms of [0, 180, 0]) {
    lateMs = ms;
    await clock.advance(20);
  }
  assertEquals(logged, [{ times: 1, longest_ms: 180 }], "the second line waits");
  await clock.advance(60_000);
  assertEquals(logged.length, 1, "there is nothing to tell of before the next delay");
  for (const ms of [180, 0]) {
    lateMs = ms;
    await clock.advance(20);
  }
  assertEquals(logged, [{ times: 1, longest_ms: 180 }, { times: 2, longest_ms: 180 }]);
  delay.close();
  assertEquals(clock.pending, 0);
});

Deno.test("LoopDelay: the program is behind for a moment after a long delay", async () => {
  const clock = new FakeClock();
  let lateMs = 0;
  const late = { ...lateClock(clock, () => lateMs) };
  const logger = { warn: () => {} };
  const delay = new LoopDelay(late, logger, () => 0);
  assertEquals(delay.isBehind, false, "it has not begun");
  delay.start();
  const behindAfter = async (ms: number) => {
    lateMs = ms;
    await clock.advance(20);
    return delay.isBehind;
  };
  const found = [];
  for (const ms of [0, 400, 0, 600, 0]) found.push(await behindAfter(ms));
  assertEquals(found, [false, false, false, true, true]);
  await clock.advance(3_000);
  assertEquals(delay.isBehind, false);
  delay.close();
});

/** A clock whose timers seem to come late. */
function lateClock(clock: FakeClock, lateMs: () => number) {
  let isDue = false;
  return {
    nowMs: () => clock.nowMs(),
    monotonicMs: () => clock.monotonicMs() + (isDue ? lateMs() : 0),
    sleep: (ms: number) => clock.sleep(ms),
    after: (ms: number, run: () => void) =>
      clock.after(ms, () => {
        isDue = true;
        run();
        isDue = false;
      }),
  };
}
