import { assertEquals, assertThrows } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../error.ts";
import { FairQueue } from "./fair_queue.ts";

const OWN_GROUP = "";
const LIMITS = {
  turnsOfGroupMax: 2,
  waitingMax: 6,
  waitingOfGroupMax: 4,
  what: "queries",
  ownGroup: OWN_GROUP,
};

Deno.test("FairQueue: a group has few turns at once, and the group with least recent use is next", async () => {
  const clock = new FakeClock();
  const queue = new FairQueue<string>(LIMITS, clock);
  for (const item of ["a1", "a2", "a3"]) queue.add(["a"], item);
  queue.add(["b"], "b1");
  const [a1, a2, b1] = [queue.next()!, queue.next()!, queue.next()!];
  assertEquals([a1, a2, b1].map(({ item }) => item), ["a1", "a2", "b1"]);
  assertEquals(queue.next(), undefined, "a has its two turns");
  await clock.advance(1_000);
  a1.leave();
  a1.leave();
  b1.leave();
  queue.add(["c"], "c1");
  queue.add([OWN_GROUP], "own");
  assertEquals(queue.next()!.item, "c1", "c came before svc-cloud's own, and both had nothing");
  assertEquals(queue.next()!.item, "own");
  assertEquals(queue.next()!.item, "a3");
  assertEquals(queue.size, 0);
});

Deno.test("FairQueue: use counts half after a minute, so that nobody is behind for ever", async () => {
  const clock = new FakeClock();
  const queue = new FairQueue<string>(LIMITS, clock);
  const useOf = async (group: string, ms: number) => {
    queue.add([group], group);
    const turn = queue.next()!;
    await clock.advance(ms);
    turn.leave();
  };
  await useOf("old", 8_000);
  await clock.advance(240_000);
  await useOf("new", 1_000);
  queue.add(["new"], "new");
  queue.add(["old"], "old");
  assertEquals([queue.next()!.item, queue.next()!.item], ["old", "new"]);
});

Deno.test("FairQueue: limits waiting places per group and in total; an item can be taken back", () => {
  const queue = new FairQueue<number>(LIMITS, new FakeClock());
  const takeBack = [1, 2, 3, 4].map((item) => queue.add(["a"], item));
  const refused = assertThrows(() => queue.add(["a"], 5), SvcError, "4 queries of this organization wait");
  assertEquals(refused.code, "resource_exhausted");
  takeBack[1]();
  takeBack[1]();
  for (const group of ["a", "b", "c"]) queue.add([group], 6);
  assertThrows(() => queue.add(["d"], 7), SvcError, "6 queries wait already");
  assertEquals(queue.drain(), [1, 3, 4, 6, 6, 6]);
  assertEquals(queue.next(), undefined);
});

Deno.test("FairQueue: by turns, a group with fewer turns under way is next, whatever time it had", async () => {
  const clock = new FakeClock();
  const queue = new FairQueue<string>({ turnsOfGroupMax: 9, what: "queries", byTurns: true }, clock);
  queue.add(["old", "x"], "old 1");
  const first = queue.next()!;
  await clock.advance(5_000);
  first.leave();
  for (const item of ["new 1", "new 2"]) queue.add(["new", "y"], item);
  queue.add(["old", "x"], "old 2");
  queue.add(["old", "z"], "old 3");
  const order = [1, 2, 3, 4].map(() => queue.next()!.item);
  assertEquals(order, ["new 1", "old 3", "new 2", "old 2"], "z of the old group had no time yet");
});
