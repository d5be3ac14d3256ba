import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { ResourceName } from "../../resource/name.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { type Board, BoardApi, type PowerMode } from "../actuators/board.ts";
import { toDuration, toMs, toTimestamp } from "./time.ts";

Deno.test("toTimestamp: splits a time into whole seconds and non-negative nanoseconds", () => {
  assertEquals(toTimestamp(1_700_000_000_123.5), { seconds: 1_700_000_000n, nanos: 123_500_000 });
  assertEquals(toTimestamp(-1500), { seconds: -2n, nanos: 500_000_000 });
  assertEquals(toTimestamp(1999.9999999), { seconds: 2n, nanos: 0 });
});

Deno.test("toDuration: seconds and nanoseconds have the same sign", () => {
  assertEquals(toDuration(1500), { seconds: 1n, nanos: 500_000_000 });
  assertEquals(toDuration(-1500), { seconds: -1n, nanos: -500_000_000 });
});

Deno.test("times that no message can hold become the nearest that one can", () => {
  const most = 2 ** 63 * 1000;
  const written = [most, -most, Infinity, -Infinity, 253_402_300_800_000].map(toTimestamp);
  assertEquals(written.map(({ seconds }) => seconds), [
    253_402_300_799n,
    -62_135_596_800n,
    253_402_300_799n,
    -62_135_596_800n,
    253_402_300_799n,
  ]);
  assertEquals([most, -most].map((ms) => toDuration(ms).seconds), [315_576_000_000n, -315_576_000_000n]);
});

Deno.test("toMs: restores milliseconds from timestamps and durations", () => {
  for (const ms of [0, 0.5, -1500, 1_700_000_000_123]) assertEquals(toMs(toTimestamp(ms)), ms);
  for (const ms of [0, 0.5, -1500]) assertEquals(toMs(toDuration(ms)), ms);
  assertEquals(toMs(undefined), 0);
});

Deno.test("a board's power mode takes its duration through the wire", async () => {
  const table = new ServiceTable(new FakeClock());
  const heard: (number | undefined)[] = [];
  const setPowerMode = (_mode: PowerMode, durationMs?: number) => {
    heard.push(durationMs);
    return Promise.resolve();
  };
  table.add(BoardApi.serve(() => ({ setPowerMode }) as Partial<Board> as Board));
  const board = BoardApi.client(ResourceName.of(BoardApi.name, "b"), memoryChannel(table));
  // No message can hold the last two: they become the longest that one can.
  const wanted = [undefined, 0, 1_500, 0.25, 86_400_000];
  const longestMs = 315_576_000_000_000;
  for (const durationMs of [...wanted, 2 ** 80, Infinity]) await board.setPowerMode("normal", durationMs);
  assertEquals(heard, [...wanted, longestMs, longestMs]);
});
