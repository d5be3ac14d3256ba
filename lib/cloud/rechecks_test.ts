import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../base/error.ts";
import type { CallContext } from "../wire/rpc/service.ts";
import { Rechecks } from "./rechecks.ts";
import type { Audit, AuditedChange } from "./access/audit.ts";
import { OwnNotices } from "./store/notices.ts";

type Found = Awaited<ReturnType<Audit["changesSince"]>>;

const GONE = new SvcError("unauthenticated", "the API key no longer exists");

const audit = {
  changesSince: () => Promise.resolve<Found>({ changes: [], hasMore: false }),
};
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

function checksOf({ checks }: { readonly checks: readonly number[] }): number {
  return checks.reduce((sum, count) => sum + count, 0);
}

async function pass(clock: FakeClock, seconds: number): Promise<void> {
  for (let at = 0; at < seconds; at++) await clock.advance(1_000);
}

Deno.test("Rechecks: each call of a small group is checked every 5 s, and ends once it is refused", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks({ clock, ...changes });
  let gone = false;
  const calls = watchedCalls(rechecks, "few", 50, () => gone ? Promise.reject(GONE) : Promise.resolve());
  await pass(clock, 20);
  assert(calls.checks.every((count) => count >= 4 && count <= 5), String(calls.checks));
  gone = true;
  await pass(clock, 6);
  assertEquals(calls.ended, calls.checks.map(() => GONE));
  calls.stop();
});

Deno.test("Rechecks: a large group is checked at a steady rate, and takes nothing from a small one", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks({ clock, ...changes });
  const [many, few] = [watchedCalls(rechecks, "many", 2_000), watchedCalls(rechecks, "few", 10)];
  await pass(clock, 10);
  assert(many.checks.every((count) => count === 1), "each has its first turn");
  const first = checksOf(many);
  await pass(clock, 60);
  const sum = checksOf(many) - first;
  assert(sum >= 2_000 && sum < 2_800, `${sum} checks in a minute without changes`);
  assert(few.checks.every((count) => count >= 12));
  many.stop();
  const before = checksOf(many);
  await pass(clock, 10);
  assertEquals(checksOf(many), before);
  few.stop();
});

for (const resource of ["machine m", "location l", "organization o"]) {
  Deno.test(`Rechecks: after a change of ${resource} each call is checked within seconds, and then rests`, async () => {
    const clock = new FakeClock();
    const notices = new OwnNotices();
    const rechecks = new Rechecks({ clock, notices, audit });
    const calls = watchedCalls(rechecks, "fleet", 2_000);
    await pass(clock, 12);
    const before = checksOf(calls);
    await notices.tell("changes", "part p");
    await pass(clock, 10);
    assertEquals(checksOf(calls), before);
    await notices.tell("changes", resource);
    await pass(clock, 10);
    assertEquals(checksOf(calls), before + 2_000);
    await pass(clock, 10);
    assertEquals(checksOf(calls), before + 2_000);
    calls.stop();
    await rechecks.close();
  });
}

Deno.test("Rechecks: a check that cannot be made is made again an interval later", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks({ clock, ...changes });
  let isDown = true;
  const down = () => isDown ? Promise.reject(new SvcError("unavailable", "no database")) : Promise.resolve();
  const calls = watchedCalls(rechecks, "fleet", 1_000, down);
  await pass(clock, 11);
  const before = [...calls.checks];
  assert(before.every((count) => count >= 2 && count <= 3), "at each interval");
  isDown = false;
  await pass(clock, 20);
  assert(
    calls.checks.every((count, at) => count === before[at]! + 1),
    "it was made, and the next one has time",
  );
  assertEquals(calls.ended, []);
  calls.stop();
});

Deno.test("Rechecks: however many calls a group has, each is checked within a minute", async () => {
  const clock = new FakeClock();
  const rechecks = new Rechecks({ clock, ...changes });
  const calls = watchedCalls(rechecks, "hostile", 20_000);
  await pass(clock, 61);
  assert(calls.checks.every((count) => count >= 1));
  calls.stop();
});

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

Deno.test("Rechecks: after a change by another process what has changed is looked up, each change once", async () => {
  const clock = new FakeClock();
  const notices = new OwnNotices();
  const answers: PromiseWithResolvers<Found>[] = [];
  const changesSince = () => {
    const answer = Promise.withResolvers<Found>();
    answers.push(answer);
    return answer.promise;
  };
  const rechecks = new Rechecks({ clock, notices, audit: { changesSince } });
  const calls = watchedCalls(rechecks, "fleet", 1_000);
  while (!calls.checks.includes(1)) await clock.advance(10);
  const before = [...calls.checks];
  await notices.tell("changes", "the database");
  await clock.advance(10);
  // The one under way may have begun before this change.
  await notices.tell("changes", "the database");
  const third = { id: "a", resource: "key fleet 3" };
  answers[0]!.resolve({ changes: [third], hasMore: false });
  await clock.advance(10);
  const last = { id: "b", resource: "key fleet 999" };
  answers[1]!.resolve({ changes: [third, last, { id: "c", resource: "key no call" }], hasMore: false });
  await clock.advance(2_000);
  assertEquals(answers.length, 2);
  assertEquals([3, 999].map((at) => calls.checks[at]! - before[at]!), [1, 1]);
  calls.stop();
  await rechecks.close();
});

Deno.test("Rechecks: what a lost notice would have told is found in the audit log of a shared database", async () => {
  const clock = new FakeClock();
  const notices = Object.assign(new OwnNotices(), { shared: true });
  const found: AuditedChange[] = [];
  const changesSince = () => Promise.resolve({ changes: [...found], hasMore: false });
  const rechecks = new Rechecks({ clock, notices, audit: { changesSince } });
  const calls = watchedCalls(rechecks, "fleet", 2_000);
  await pass(clock, 12);
  const before = [...calls.checks];
  found.push({ id: "a", resource: "key fleet 3" });
  await pass(clock, 6);
  assertEquals(calls.checks.map((count, at) => count - before[at]!).indexOf(1), 3);
  const sum = checksOf(calls);
  found.push({ id: "b", resource: "machine m" });
  await pass(clock, 16);
  assertEquals(checksOf(calls), sum + 2_000);
  calls.stop();
  await rechecks.close();
});
