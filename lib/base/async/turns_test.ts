import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../error.ts";
import { CallerTurns, type TurnLimits } from "./turns.ts";

const LIMITS: TurnLimits = { turnsMax: 2, turnsOfGroupMax: 1, waiting: [6, 3, 3], what: "inferences" };
const { signal } = new AbortController();

/** Asks for a turn and tells who has one. */
function asker(turns: CallerTurns, log: string[]) {
  return (group: string, name = group, until = signal) => {
    const ending = Promise.withResolvers<void>();
    const over = turns.enter([group, ""], until).then(async (leave) => {
      log.push(name);
      await ending.promise;
      leave();
      leave();
    });
    return { end: () => (ending.resolve(), over), over };
  };
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

Deno.test("CallerTurns: each group has a single turn, and the group with least recent use is next", async () => {
  const clock = new FakeClock();
  const log: string[] = [];
  const ask = asker(new CallerTurns(LIMITS, clock), log);
  const [a, again, c, d] = [ask("a"), ask("a", "a again"), ask("c"), ask("d")];
  await settle();
  assertEquals(log, ["a", "c"], "the second of a waits, though it came before c");
  await clock.advance(30_000);
  await a.end();
  await settle();
  assertEquals(log, ["a", "c", "d"], "d has had nothing yet");
  await c.end();
  await settle();
  assertEquals(log, ["a", "c", "d", "a again"]);
  const [e, more] = [ask("e"), ask("c", "c again")];
  await d.end();
  await settle();
  assertEquals(log.slice(4), ["e"]);
  await e.end();
  await settle();
  assertEquals(log.slice(5), ["c again"]);
  await Promise.all([again.end(), more.end()]);
});

Deno.test("CallerTurns: forgets a group's use after a while", async () => {
  const clock = new FakeClock();
  const log: string[] = [];
  const ask = asker(new CallerTurns({ ...LIMITS, turnsMax: 1 }, clock), log);
  const first = ask("a");
  await settle();
  await clock.advance(30_000);
  await first.end();
  await clock.advance(600_000);
  const held = ask("x");
  await settle();
  const [a, b] = [ask("a"), ask("b")];
  await clock.advance(1);
  await held.end();
  await settle();
  assertEquals(log, ["a", "x", "a"], "the one that came first");
  await a.end();
  await b.end();
});

Deno.test("CallerTurns: limits waiting places per group and in total, and frees an aborted place", async () => {
  const clock = new FakeClock();
  const turns = new CallerTurns(LIMITS, clock);
  const ask = asker(turns, []);
  const inside = [ask("a"), ask("b")];
  const stop = new AbortController();
  const waiting = [ask("a"), ask("a"), ask("a", "a", stop.signal)];
  const refused = await assertRejects(
    () => turns.enter(["a", ""], signal),
    SvcError,
    "3 waiting inferences of one caller",
  );
  assertEquals(refused.code, "resource_exhausted");
  stop.abort(new SvcError("canceled", "enough"));
  await assertRejects(() => waiting[2].over, SvcError, "enough");
  waiting.push(ask("a"));
  for (const one of [...inside, ...waiting.filter((one) => one !== waiting[2])]) void one.end();
  await Promise.all([...inside, ...waiting].map(({ over }) => over.catch(() => {})));
});

Deno.test("CallerTurns: in a full queue the largest group gives way to a smaller one", async () => {
  const turns = new CallerTurns(LIMITS, new FakeClock());
  const ask = asker(turns, []);
  const inside = [ask("a"), ask("b")];
  const large = [ask("a"), ask("a"), ask("a"), ask("b"), ask("b"), ask("b")];
  const small = ask("c");
  const [gone] = await Promise.allSettled([large[0].over]);
  assertEquals([gone.status, turns.enter.length], ["rejected", 2]);
  for (const one of [...inside, ...large, small]) void one.end();
  await Promise.all([...inside, ...large.slice(1), small].map(({ over }) => over));
});

Deno.test("CallerTurns: among the members of a group, the one with least recent use is next", async () => {
  const clock = new FakeClock();
  const turns = new CallerTurns({ ...LIMITS, turnsMax: 1 }, clock);
  const log: string[] = [];
  const enter = async (member: string) => {
    const leave = await turns.enter(["a", member], signal);
    log.push(member);
    await clock.sleep(1_000, signal);
    leave();
  };
  const all = [enter("busy"), enter("busy"), enter("busy"), enter("quiet")];
  for (let turn = 0; turn < 4; turn++) {
    await settle();
    await clock.advance(1_000);
  }
  await Promise.all(all);
  assertEquals(log, ["busy", "quiet", "busy", "busy"]);
});
