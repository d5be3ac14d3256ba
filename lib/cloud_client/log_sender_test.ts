import { assertEquals, assertNotEquals } from "@std/assert";
import { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../base/error.ts";
import { DenoHost } from "../base/host_deno.ts";
import { Logs } from "../base/log/log.ts";
import type { QueuedLog } from "../base/log/buffer.ts";
import { create, fromBinary, type MessageInitShape, toBinary } from "../wire/rpc/proto.ts";
import { logEntryMessage } from "./log_message.ts";
import { sendLogs } from "./log_sender.ts";
import { readLogEntry } from "../machine/serve/log_entry.ts";
import { trafficOf } from "./changes/traffic.ts";

const ENTRY: QueuedLog = {
  id: "1a2b3c4d-17",
  timeMs: 1_700_000_000_123,
  level: "warn",
  logger: "rdk.x",
  caller: "drivers/motor.ts:12",
  message: "hello",
  fields: {
    text: "a",
    whole: -3,
    part: 1.5,
    yes: true,
    no: false,
    list: [1, "b"],
    object: { c: null },
  },
};

/** As it arrives. */
function sent(entry: MessageInitShape<typeof LogEntrySchema>) {
  return fromBinary(LogEntrySchema, toBinary(LogEntrySchema, create(LogEntrySchema, entry)));
}

Deno.test("logEntryMessage: readLogEntry restores level, logger, caller, message and fields", () => {
  const message = sent(logEntryMessage(ENTRY, "pi"));
  const { level, logger, caller, message: text, fields } = ENTRY;
  assertEquals(readLogEntry(message, ENTRY.timeMs), { level, logger, caller, message: text, fields });
  assertEquals([message.host, message.time?.seconds, message.time?.nanos], [
    "pi",
    1_700_000_000n,
    123_000_017,
  ]);
});

Deno.test("logEntryMessage: gives the same message every time, and another for another id", () => {
  assertEquals(logEntryMessage(ENTRY, "pi"), logEntryMessage(ENTRY, "pi"));
  assertNotEquals(logEntryMessage(ENTRY, "pi"), logEntryMessage({ ...ENTRY, id: "1a2b3c4d-18" }, "pi"));
});

Deno.test("log sender: sends entries, and the next run sends entries left by the previous run", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-" });
  const clock = new FakeClock();
  const arrived: string[] = [];
  let away = true;
  const client = {
    partId: "../part",
    log: (entries: MessageInitShape<typeof LogEntrySchema>[] = []) => {
      if (away) return Promise.reject(new SvcError("unavailable", "nobody there"));
      arrived.push(...entries.map(({ message }) => message!));
      return Promise.resolve();
    },
  };
  const run = async (message: string) => {
    const logs = new Logs(clock, []);
    const queue = await sendLogs({
      client,
      home,
      host: new DenoHost(),
      clock,
      logs,
      traffic: trafficOf(false),
    });
    logs.logger("rdk").info(message);
    await clock.advance(1_000);
    const closed = queue.close();
    await clock.advance(20_000);
    await closed;
  };
  await run("first");
  assertEquals(arrived, []);
  away = false;
  await run("second");
  assertEquals(arrived, ["first", "second"]);
  assertEquals((await Array.fromAsync(Deno.readDir(`${home}/cloud_logs`))).map(({ name }) => name), [
    "___part",
  ]);
  await Deno.remove(home, { recursive: true });
});
