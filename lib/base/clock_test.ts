/** Clocks: order, waiting, deadlines and who wins a race. */

import { assertEquals, assertRejects } from "@std/assert";
import { deadline, race, settle, SystemClock } from "./clock.ts";
import { FakeClock, passing } from "../../tests/support/fake_clock.ts";

Deno.test("FakeClock: runs timers in order of their time, then of their creation", async () => {
  const clock = new FakeClock(0);
  const seen: string[] = [];
  const note = (what: string) => () => void seen.push(`${what}@${clock.nowMs()}`);
  clock.after(20, note("b"));
  clock.after(10, note("a"));
  clock.after(20, note("c"));
  clock.after(15, note("never"))();
  clock.after(5, () => void clock.after(7, note("later")));
  await clock.advance(19);
  assertEquals(seen, ["a@10", "later@12"]);
  await clock.advance(1);
  assertEquals(seen, ["a@10", "later@12", "b@20", "c@20"]);
  assertEquals([clock.pending, clock.monotonicMs()], [0, 20]);
});

Deno.test("FakeClock.sleep: ends at its time or with its signal, and leaves no timer", async () => {
  const clock = new FakeClock();
  const controller = new AbortController();
  const slept = clock.sleep(10);
  const woken = clock.sleep(10, controller.signal);
  controller.abort(new Error("up"));
  await assertRejects(() => woken, Error, "up");
  await clock.advance(10);
  await slept;
  await assertRejects(() => clock.sleep(10, controller.signal), Error, "up");
  assertEquals(clock.pending, 0);
});

Deno.test("passing: time passes for timers, and stands still for work of another thread", async () => {
  const clock = new FakeClock(0);
  const large = new Uint8Array(8 * 1024 * 1024);
  const work = async () => {
    for (let turn = 0; turn < 5; turn++) await crypto.subtle.digest("SHA-256", large);
    await clock.sleep(50);
    await crypto.subtle.digest("SHA-256", large);
    return clock.monotonicMs();
  };
  assertEquals(await passing(clock, 100, work()), 50);

  const late = passing(clock, 100, clock.sleep(1_000));
  await assertRejects(() => late, Error, "not over after 100 ms");
});

Deno.test("deadline: aborts at its time or with its parent, and never after done", async () => {
  const clock = new FakeClock();
  const late = () => new Error("late");
  const first = deadline(clock, 10, late);
  const parent = new AbortController();
  const second = deadline(clock, 10, late, parent.signal);
  const third = deadline(clock, 10, late);
  third.done();
  parent.abort(new Error("gone"));
  await clock.advance(10);
  const reasons = [first, second, third].map(({ signal }) => signal.reason?.message);
  assertEquals(reasons, ["late", "gone", undefined]);
});

Deno.test("race: returns the work or the signal's reason, and passes late results to the callback", async () => {
  const controller = new AbortController();
  assertEquals(await race(Promise.resolve(1), controller.signal), 1);
  await assertRejects(() => race(Promise.reject(new Error("bad")), controller.signal), Error, "bad");
  const work = Promise.withResolvers<number>();
  const late: number[] = [];
  const lost = race(work.promise, controller.signal, (value) => late.push(value));
  controller.abort(new Error("stop"));
  await assertRejects(() => lost, Error, "stop");
  work.resolve(2);
  await settle();
  assertEquals(late, [2]);
});

Deno.test("SystemClock: sleeps, and a canceled timer does not fire", async () => {
  const clock = new SystemClock();
  const before = clock.monotonicMs();
  clock.after(60_000, () => {})();
  await clock.sleep(1);
  assertEquals(clock.monotonicMs() >= before, true);
});
