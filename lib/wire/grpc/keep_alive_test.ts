import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { KeepAlive } from "./keep_alive.ts";

const QUIET_MS = 120_000;

/** A connection that counts pings, and what has become of it. */
function watched() {
  const clock = new FakeClock();
  const answers: (() => void)[] = [];
  const connection = {
    framesReceived: 5,
    ping: () => new Promise<void>((resolve) => void answers.push(resolve)),
  };
  const state = { lost: 0 };
  const keepAlive = new KeepAlive(connection, clock, QUIET_MS, () => void state.lost++);
  return { clock, answers, connection, state, keepAlive };
}

Deno.test("KeepAlive: a quiet server is pinged, and lost without an answer", async () => {
  const { clock, answers, state, keepAlive } = watched();
  await clock.advance(QUIET_MS - 1);
  assertEquals(answers.length, 0);
  await clock.advance(1);
  assertEquals([answers.length, state.lost], [1, 0]);
  await clock.advance(20_000);
  assertEquals(state.lost, 1);
  keepAlive.stop();
  assertEquals(clock.pending, 0);
});

Deno.test("KeepAlive: a server that sends or answers stays", async () => {
  const { clock, answers, connection, state, keepAlive } = watched();
  await clock.advance(QUIET_MS - 1);
  connection.framesReceived++;
  await clock.advance(QUIET_MS - 1);
  assertEquals(answers.length, 0);
  await clock.advance(2);
  assertEquals(answers.length, 1);
  answers[0]();
  await clock.advance(QUIET_MS - 1);
  assertEquals([answers.length, state.lost], [1, 0]);
  keepAlive.stop();
});

Deno.test("KeepAlive: calls without an answer lead to one ping, unless others were answered meanwhile", async () => {
  const { clock, answers, connection, state, keepAlive } = watched();
  keepAlive.doubt(4);
  assertEquals(answers.length, 0, "there was a frame since");
  keepAlive.doubt(5);
  keepAlive.doubt(5);
  assertEquals(answers.length, 1);
  answers[0]();
  connection.framesReceived++;
  await clock.advance(20_000);
  assertEquals(state.lost, 0);

  keepAlive.doubt(6);
  await clock.advance(20_000);
  assertEquals([answers.length, state.lost], [2, 1]);
  keepAlive.stop();
});
