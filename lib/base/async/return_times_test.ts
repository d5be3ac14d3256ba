import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { ReturnTimes } from "./return_times.ts";

function bench() {
  const clock = new FakeClock();
  const times = new ReturnTimes({ firstMs: 1_000, mostMs: 60_000 }, clock, () => 0);
  return { clock, times };
}

/** Lets `count` pieces of work end within a second. */
async function work({ clock, times }: ReturnType<typeof bench>, count: number): Promise<void> {
  for (let ended = 0; ended < count; ended++) times.ended();
  await clock.advance(1_000);
  times.ended();
}

Deno.test("ReturnTimes: refused callers come back at the rate at which work ends", async () => {
  const one = bench();
  await work(one, 99);
  const pauses = Array.from({ length: 500 }, (_, number) => one.times.pauseMs("org", `key ${number}`));
  assertEquals([pauses[0], pauses[1], pauses[100], pauses[499]], [1_000, 1_010, 2_000, 5_990]);
  await one.clock.advance(3_000);
  assertEquals(one.times.pauseMs("org", "another"), 3_040, "behind those who are still away");
});

Deno.test("ReturnTimes: a caller that asks again and again moves nobody's time", async () => {
  const one = bench();
  await work(one, 99);
  for (let count = 0; count < 1_000; count++) one.times.pauseMs("org", "impatient");
  assertEquals(one.times.pauseMs("org", "patient"), 1_010);
  await one.clock.advance(5_000);
  assertEquals(one.times.pauseMs("org", "impatient"), 1_000, "its time was over");
});

Deno.test("ReturnTimes: each group has its own line", async () => {
  const one = bench();
  await work(one, 99);
  for (let number = 0; number < 1_000; number++) one.times.pauseMs("crowd", `key ${number}`);
  assertEquals(one.times.pauseMs("quiet", "key"), 1_000);
});

Deno.test("ReturnTimes: no pause is longer than the longest, and those beyond it are spread", () => {
  const clock = new FakeClock();
  let random = 0;
  const times = new ReturnTimes({ firstMs: 1_000, mostMs: 10_000 }, clock, () => random = (random + 0.1) % 1);
  const pauses = Array.from({ length: 30_000 }, (_, number) => times.pauseMs("org", `key ${number}`));
  assert(pauses.every((ms) => Number.isInteger(ms) && ms >= 1_000 && ms <= 11_000));
  const late = new Set(pauses.slice(-100));
  assert(late.size >= 10 && Math.min(...late) >= 5_000);
});

Deno.test("ReturnTimes: one group leaves room for others", async () => {
  const one = bench();
  await work(one, 999);
  for (let number = 0; number < 30_000; number++) one.times.pauseMs("crowd", `key ${number}`);
  assertEquals(one.times.pauseMs("crowd", "another"), 30_000);
  assertEquals(one.times.pauseMs("quiet", "key"), 1_000);
});

Deno.test("ReturnTimes: callers that are refused no longer take no room from others", async () => {
  const one = bench();
  for (let number = 0; number < 30_000; number++) one.times.pauseMs(`address ${number}`, "");
  assertEquals(one.times.pauseMs("org", "key"), 30_000, "more callers than are remembered");
  await one.clock.advance(60_000);
  assertEquals(one.times.pauseMs("org", "key"), 1_000);
});
