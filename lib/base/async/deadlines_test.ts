/** Deadlines of many calls: exact, called off, and with few timers. */

import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { Deadlines } from "./deadlines.ts";

const LENGTHS_MS = [0, 1, 20, 63, 64, 65, 100, 999, 1000, 1024, 19_999.5, 20_000, 600_000, 86_400_000];

Deno.test("Deadlines: each deadline fires at its exact time although deadlines share timers", async () => {
  const clock = new FakeClock(), deadlines = new Deadlines(clock);
  const passed: [wantedMs: number, ms: number][] = [];
  for (let round = 0; round < 3; round++) {
    const beganMs = clock.monotonicMs();
    for (const ms of LENGTHS_MS) {
      deadlines.after(ms, () => passed.push([beganMs + ms, clock.monotonicMs()]));
    }
    await clock.advance(37.5);
  }
  await clock.advance(86_400_000);
  assertEquals(passed.length, 3 * LENGTHS_MS.length);
  for (const [wantedMs, ms] of passed) assertEquals(ms, wantedMs);
  assertEquals(clock.pending, 0);
});

Deno.test("Deadlines: a stopped deadline never fires, before or after its timer has fired", async () => {
  const clock = new FakeClock(), deadlines = new Deadlines(clock);
  let passed = 0;
  const stops = [1000, 1000, 1001].map((ms) => deadlines.after(ms, () => passed++));
  stops[0]();
  await clock.advance(999.5);
  stops[1]();
  stops[1]();
  await clock.advance(1000);
  assertEquals([passed, clock.pending], [1, 0]);
  const stop = deadlines.after(60_000, () => passed++);
  stop();
  assertEquals(clock.pending, 0);
});

Deno.test("Deadlines.around: what comes often has no timers of its own, and comes a little earlier at most", async () => {
  const clock = new FakeClock(), deadlines = new Deadlines(clock);
  const passed: number[] = [];
  const beganMs = clock.monotonicMs();
  let most = 0;
  const watch = (ms: number) => deadlines.around(ms, () => passed.push(clock.monotonicMs() - beganMs - ms));
  const stops = Array.from({ length: 1000 }, (_, at) => watch(8_000 + at));
  // The first of a timer ends the second.
  const last = deadlines.around(20_000, () => stopLast());
  const stopLast = deadlines.around(20_000, () => passed.push(NaN));
  stops[1]!();
  for (let ms = 0; ms < 30_000; ms += 10) {
    await clock.advance(10);
    most = Math.max(most, clock.pending);
  }
  assertEquals(passed.length, 999);
  assert(passed.every((lateMs) => lateMs <= 0 && lateMs > -9_000 / 32), `${Math.min(...passed)} ms`);
  assert(most < 10, `${most} timers`);
  last();
  stops[0]!();
  assertEquals(clock.pending, 0);
});

Deno.test("Deadlines: 4000 deadlines use fewer than 10 timers", async () => {
  const clock = new FakeClock(), deadlines = new Deadlines(clock);
  const stops: (() => void)[] = [];
  for (let call = 0; call < 2000; call++) {
    stops.push(deadlines.after(600_000, () => {}), deadlines.after(20_000 - call % 100, () => {}));
    if (call % 100 === 0) await clock.advance(10);
  }
  assert(clock.pending < 10, `${clock.pending} timers`);
  for (const stop of stops) stop();
  assertEquals(clock.pending, 0);
});

Deno.test("Deadlines: NaN, a negative time and Infinity each set a timer", () => {
  const clock = new FakeClock(), deadlines = new Deadlines(clock);
  const stops = [NaN, -1, Infinity].map((ms) => deadlines.after(ms, () => {}));
  assertEquals(clock.pending, 3);
  for (const stop of stops) stop();
  assertEquals(clock.pending, 0);
});
