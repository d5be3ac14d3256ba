import { assertEquals } from "@std/assert";
import { ChangeService } from "../../proto/gen/changes_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../base/error.ts";
import type { CallContext } from "../wire/rpc/service.ts";
import { CallTurns } from "./call_turns.ts";

const LIMITS = {
  turnsMax: 2,
  turnsOfGroupMax: 1,
  waiting: [3, 2, 2],
  waitMs: 5_000,
  crowdedMs: 1_000,
  holdMs: 8_000,
} as const;

interface Call {
  readonly ended: Promise<string>;
  /** Whether it has begun. */
  readonly begun: () => boolean;
  readonly leave: () => void;
  readonly abandon: () => void;
}

function bench() {
  const clock = new FakeClock();
  const turns = new CallTurns(clock, ({ entity }) => entity!.charAt(0), LIMITS);
  const call = (entity: string, method: CallContext["method"] = RobotService.method.config): Call => {
    const over = new AbortController();
    const cancel = (reason: SvcError) => over.abort(reason);
    let leave: (() => void) | undefined;
    const peer = { kind: "memory" } as const;
    const ended = turns.take({ entity, method, path: method.name, peer, signal: over.signal, cancel }).then(
      (end) => {
        leave = end;
        return "begun";
      },
      (error) => `${SvcError.from(error).code}${SvcError.from(error).retryMs ? " later" : ""}`,
    );
    const abandon = () => cancel(new SvcError("canceled", "its caller has gone"));
    return { ended, begun: () => leave !== undefined, leave: () => leave!(), abandon };
  };
  return { clock, turns, call };
}

const settle = (clock: FakeClock) => clock.advance(0);

Deno.test("CallTurns: an organization waits for its own turns, and others do not", async () => {
  const { clock, turns, call } = bench();
  const [a1, a2, b1] = [call("a1"), call("a2"), call("b1")];
  await settle(clock);
  assertEquals([a1, a2, b1].map(({ begun }) => begun()), [true, false, true]);
  assertEquals(turns.waiting, 1);
  a1.leave();
  assertEquals(await a2.ended, "begun");
  assertEquals(turns.waiting, 0);
});

Deno.test("CallTurns: a call whose caller has gone does not begin, and the next one does", async () => {
  const { clock, call } = bench();
  const [a1, a2, a3] = [call("a1"), call("a2"), call("a3")];
  await settle(clock);
  a2.abandon();
  assertEquals(await a2.ended, "canceled");
  a1.leave();
  assertEquals(await a3.ended, "begun");
});

Deno.test("CallTurns: a call that waits too long, or for which there is no place, is refused with a time", async () => {
  const { clock, turns, call } = bench();
  const a1 = call("a1");
  await settle(clock);
  const waiting = [call("a2"), call("a3")];
  assertEquals(await call("a4").ended, "unavailable later");
  await clock.advance(LIMITS.waitMs);
  for (const one of waiting) assertEquals(await one.ended, "unavailable later");
  assertEquals(turns.waiting, 0);
  const late = call("a5");
  a1.leave();
  assertEquals(await late.ended, "begun");
});

Deno.test("CallTurns: a slow call gives its turn to another, and a stream needs none", async () => {
  const { clock, call } = bench();
  const slow = call("a1");
  await clock.advance(LIMITS.holdMs - LIMITS.waitMs);
  const next = call("a2");
  const stream = call("a3", ChangeService.method.follow);
  await settle(clock);
  assertEquals([slow, next, stream].map(({ begun }) => begun()), [true, false, true]);
  await clock.advance(LIMITS.waitMs);
  assertEquals(next.begun(), true);
  slow.leave();
});

Deno.test("CallTurns: once calls have waited for a while, further ones wait for a shorter time", async () => {
  const { clock, call } = bench();
  const running = call("a1");
  await settle(clock);
  const first = call("a2");
  await clock.advance(LIMITS.crowdedMs);
  const second = call("a3");
  await clock.advance(LIMITS.crowdedMs);
  assertEquals(await second.ended, "unavailable later");
  running.leave();
  assertEquals(await first.ended, "begun");
  first.leave();
  const [third, fourth] = [call("a4"), call("a5")];
  await clock.advance(LIMITS.waitMs - LIMITS.crowdedMs);
  third.leave();
  assertEquals(await fourth.ended, "begun", "nobody had waited when it came");
});
