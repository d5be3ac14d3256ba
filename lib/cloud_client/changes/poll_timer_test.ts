import { assertEquals } from "@std/assert";
import { FakeChanges } from "../../../tests/support/fake_changes.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { PollTimer } from "./poll_timer.ts";

const USUAL_MS = 10_000;
const RARE_MS = 1_800_000;

Deno.test("PollTimer: polls rarely while changes are announced, and at the usual interval from the end on", async () => {
  const clock = new FakeClock();
  const changes = new FakeChanges();
  const timer = new PollTimer({ changes, what: ["config"], rareMs: RARE_MS, clock, random: () => 0.5 });
  let polls = 0;
  const polling = (async () => {
    for (; polls < 4; polls++) await timer.next(USUAL_MS);
  })();
  changes.open();
  await clock.advance(USUAL_MS);
  assertEquals(polls, 1, "nothing is known of what changed before the connection");
  await clock.advance(60_000);
  assertEquals(polls, 1);

  changes.end();
  await clock.advance(USUAL_MS - 1);
  assertEquals(polls, 1, "a control plane that goes away gets no poll of every machine at once");
  await clock.advance(1);
  assertEquals(polls, 2);

  changes.open();
  await clock.advance(USUAL_MS);
  assertEquals(polls, 3);
  changes.tell("config");
  await clock.advance(0);
  await polling;
  timer.close();
  assertEquals([polls, changes.listeners, clock.pending], [4, 0, 0]);
});
