import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import { Rechecks } from "./access.ts";

const GONE = new SvcError("unauthenticated", "the API key no longer exists");

/** Long calls of a group, and how often each has been checked. */
function watchedCalls(rechecks: Rechecks, group: string, count: number, check = () => Promise.resolve()) {
  const checks = new Array<number>(count).fill(0);
  const ended: unknown[] = [];
  const ctx = { cancel: (reason: SvcError) => void ended.push(reason) } as Partial<
    CallContext
  > as CallContext;
  const stops = checks.map((_, at) =>
    rechecks.watch(ctx, group, () => {
      checks[at] = (checks[at] ?? 0) + 1;
      return check();
    })
  );
  return { checks, ended, stop: () => stops.forEach((stop) => stop()) };
}

Deno.test("Rechecks: each call of a small group is checked every 5 s, and ends once it is refused", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks(clock);
  let gone = false;
  const calls = watchedCalls(rechecks, "few", 50, () => gone ? Promise.reject(GONE) : Promise.resolve());
  for (let at = 0; at < 20; at++) await clock.advance(1_000);
  assert(calls.checks.every((count) => count >= 4 && count <= 5), String(calls.checks));
  gone = true;
  for (let at = 0; at < 6; at++) await clock.advance(1_000);
  assertEquals(calls.ended, calls.checks.map(() => GONE));
  calls.stop();
});

Deno.test("Rechecks: a large group is checked at a steady rate, and takes nothing from a small one", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks(clock);
  const [many, few] = [watchedCalls(rechecks, "many", 2_000), watchedCalls(rechecks, "few", 10)];
  for (let at = 0; at < 30; at++) await clock.advance(1_000);
  const sum = many.checks.reduce((sum, count) => sum + count, 0);
  assert(sum > 5_000 && sum < 8_000, `${sum} checks in 30 s`);
  assert(many.checks.every((count) => count >= 2), "each has its turn");
  assert(few.checks.every((count) => count >= 5));
  many.stop();
  const before = rechecksOf(many);
  for (let at = 0; at < 10; at++) await clock.advance(1_000);
  assertEquals(rechecksOf(many), before);
  few.stop();
});

Deno.test("Rechecks: however many calls a group has, each is checked within a minute", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks(clock);
  const calls = watchedCalls(rechecks, "hostile", 20_000);
  for (let at = 0; at < 61; at++) await clock.advance(1_000);
  assert(calls.checks.every((count) => count >= 1));
  calls.stop();
});

function rechecksOf({ checks }: { readonly checks: readonly number[] }): number {
  return checks.reduce((sum, count) => sum + count, 0);
}
