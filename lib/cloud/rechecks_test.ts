import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../base/error.ts";
import type { CallContext } from "../wire/rpc/service.ts";
import { Rechecks } from "./rechecks.ts";
import { OwnNotices } from "./store/notices.ts";

const GONE = new SvcError("unauthenticated", "the API key no longer exists");

const audit = { keysChangedSince: () => Promise.resolve([]) };
const changes = { notices: new OwnNotices(), audit };

/** Long calls of a group, each of a key of its own, and how often each has been checked. */
function watchedCalls(rechecks: Rechecks, group: string, count: number, check = () => Promise.resolve()) {
  const checks = new Array<number>(count).fill(0);
  const ended: unknown[] = [];
  const cancel: CallContext["cancel"] = (reason) => void ended.push(reason);
  const stops = checks.map((_, at) =>
    rechecks.watch({ entity: `${group} ${at}`, cancel }, group, () => {
      checks[at] = (checks[at] ?? 0) + 1;
      return check();
    })
  );
  return { checks, ended, stop: () => stops.forEach((stop) => stop()) };
}

Deno.test("Rechecks: each call of a small group is checked every 5 s, and ends once it is refused", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks({ clock, ...changes });
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
  const rechecks = new Rechecks({ clock, ...changes });
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
  const rechecks = new Rechecks({ clock, ...changes });
  const calls = watchedCalls(rechecks, "hostile", 20_000);
  for (let at = 0; at < 61; at++) await clock.advance(1_000);
  assert(calls.checks.every((count) => count >= 1));
  calls.stop();
});

function rechecksOf({ checks }: { readonly checks: readonly number[] }): number {
  return checks.reduce((sum, count) => sum + count, 0);
}

Deno.test("Rechecks: a notice of a key checks its calls at once, at most once a second, and no others", async () => {
  const clock = new FakeClock();
  const notices = new OwnNotices();
  const rechecks = new Rechecks({ clock, notices, audit });
  let gone = false;
  const calls = watchedCalls(rechecks, "fleet", 5_000, () => gone ? Promise.reject(GONE) : Promise.resolve());
  // From the first check on it listens.
  while (!calls.checks.includes(1)) await clock.advance(10);
  const before = [...calls.checks];
  for (let time = 0; time < 30; time++) {
    await notices.tell("changes", "key fleet 17");
    await notices.tell("changes", "machine fleet");
    await clock.advance(100);
  }
  const own = calls.checks[17]! - before[17]!;
  assert(own >= 3 && own <= 4, `${own} checks in 3 s`);
  assert(calls.checks.every((count, at) => at === 17 || count - before[at]! <= 1));
  await clock.advance(1_000);
  gone = true;
  const [ended, checked] = [calls.ended.length, calls.checks[17]!];
  await notices.tell("changes", "key fleet 17");
  await clock.advance(1);
  assertEquals([calls.checks[17], calls.ended.at(-1)], [checked + 1, GONE]);
  assert(calls.ended.length > ended);
  calls.stop();
  await rechecks.close();
});

Deno.test("Rechecks: after a change by another process the keys that have changed are looked up", async () => {
  const clock = new FakeClock();
  const notices = new OwnNotices();
  let lookups = 0;
  const answers: PromiseWithResolvers<string[]>[] = [];
  const keysChangedSince = () => {
    lookups++;
    const answer = Promise.withResolvers<string[]>();
    answers.push(answer);
    return answer.promise;
  };
  const rechecks = new Rechecks({ clock, notices, audit: { keysChangedSince } });
  const calls = watchedCalls(rechecks, "fleet", 1_000);
  while (!calls.checks.includes(1)) await clock.advance(10);
  const before = [...calls.checks];
  await notices.tell("changes", "the database");
  await clock.advance(10);
  // The one under way may have begun before this change.
  await notices.tell("changes", "the database");
  answers[0]!.resolve(["fleet 3"]);
  await clock.advance(10);
  answers[1]!.resolve(["fleet 999", "no call"]);
  await clock.advance(10);
  assertEquals([lookups, calls.checks[3]! - before[3]!, calls.checks[999]! - before[999]!], [2, 1, 1]);
  calls.stop();
  await rechecks.close();
});
