/**
 * Streams that wait for calls: the interval of their heartbeats, when a server counts as silent, and how long a call that
 * it brings may take.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { AnswerRequestSchema, SignalingService } from "../../../proto/gen/signaling_pb.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { client } from "../rpc/channel.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { Metadata } from "../rpc/metadata.ts";
import { create } from "../rpc/proto.ts";
import { service, ServiceTable } from "../rpc/service.ts";
import { nextCall } from "./answer_stream.ts";
import { CallQueue } from "./call_queue.ts";
import { HEARTBEAT_SECONDS, heartbeatMsIn, signalingService } from "./service.ts";

/** The times of heartbeats to an answerer in an hour, in seconds, and why it ended. */
async function beats(heartbeatMs?: number, stopsAfterMs = Infinity) {
  const clock = new FakeClock();
  // A server whose heartbeats cease counts on a clock that stands still.
  const server = new FakeClock();
  const queue = new CallQueue({ clock: server });
  const table = new ServiceTable(server);
  table.add(signalingService({
    queue,
    clock: server,
    hostOf: (name) => name,
    answering: { hosts: (names) => [...names] },
  }));
  const over = new AbortController();
  const seen: number[] = [];
  const began = clock.nowMs();
  const call = nextCall({
    signaling: client(SignalingService, memoryChannel(table)),
    hosts: ["rover"],
    clock,
    heartbeatMs,
    call: { signal: over.signal },
    alive: () => seen.push((clock.nowMs() - began) / 1000),
  }).then(() => "a call", (error) => SvcError.from(error).message);
  for (let ms = 0; ms < 3600_000; ms += 15_000) {
    await clock.advance(15_000);
    if (ms < stopsAfterMs) await server.advance(15_000);
  }
  over.abort(new SvcError("canceled", "the test ends"));
  const why = await call;
  queue.close();
  return { seen, why };
}

Deno.test("heartbeats: every 15 s, or at the interval that the answerer asks our server for", async () => {
  const usual = await beats();
  assertEquals([usual.seen.length, usual.why], [240, "the test ends"]);
  const rare = await beats(300_000);
  assertEquals([rare.seen.slice(0, 3), rare.why], [[15, 315, 615], "the test ends"]);
});

Deno.test("heartbeats: a silent server is left after 45 s, or after the interval and 45 s", async () => {
  assertStringIncludes((await beats(undefined, 60_000)).why, "said nothing for 45 s");
  assertStringIncludes((await beats(300_000, 60_000)).why, "said nothing for 345 s");
});

Deno.test("heartbeats: an interval is taken between 15 s and an hour, and nonsense is none", () => {
  const asked = (text: string) => heartbeatMsIn(Metadata.from([[HEARTBEAT_SECONDS, text]]));
  assertEquals(["1", "0", "60", "999999"].map(asked), [15_000, 15_000, 60_000, 3_600_000]);
  assertEquals(["", "-5", "1e9", "12345678", "x"].map(asked), Array(5).fill(undefined));
});

Deno.test("nextCall: a call may take until its deadline, but at least 5 s and at most 10 s", async () => {
  const clock = new FakeClock(1_700_000_000_250);
  const limitOf = async (deadline?: { seconds: bigint; nanos: number }) => {
    const table = new ServiceTable(clock);
    table.add(service(SignalingService, {
      answer: async function* () {
        yield create(AnswerRequestSchema, { uuid: "u", stage: { case: "heartbeat", value: {} } });
        yield create(AnswerRequestSchema, {
          uuid: "u",
          stage: { case: "init", value: { sdp: "offer", deadline } },
        });
      },
    }));
    const signaling = client(SignalingService, memoryChannel(table));
    const { call, over } = await nextCall({ signaling, hosts: ["rover"], clock, call: {} });
    await over;
    return call.deadlineMs - clock.monotonicMs();
  };
  assertEquals(await limitOf(), 10_000, "without a deadline");
  const cases: [seconds: bigint, nanos: number, ms: number][] = [
    [1_700_000_007n, 500_000_000, 7_250],
    [1_700_000_007n, 0, 6_750],
    [1_700_000_005n, 251_000_000, 5_001],
    [1_700_000_005n, 0, 5_000],
    [1_600_000_000n, 999_999_999, 5_000],
    [1_700_000_010n, 249_000_000, 9_999],
    [1_800_000_000n, 0, 10_000],
  ];
  for (const [seconds, nanos, ms] of cases) {
    assertEquals(await limitOf({ seconds, nanos }), ms, `${seconds} s and ${nanos} ns`);
  }
});
