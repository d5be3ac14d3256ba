import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { REPEAT_CHARS_MAX, REPEATS_WATCHED } from "./dedup.ts";
import { type LogRecord, Logs, memorySink } from "./log.ts";

const NOTICE = "Message logged 3 times; suppressing for rest of window (10s): ";

function logging() {
  const clock = new FakeClock(0);
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)], { everyLineOf: ["rdk.activity", "*.StdErr"] });
  const messages = () => records.map(({ message }) => message);
  return { clock, logs, records, messages };
}

function repeat(times: number, run: () => void): void {
  for (let time = 0; time < times; time++) run();
}

Deno.test("three repeats are written, the fourth becomes a notice, the rest are counted; the next line brings the count", async () => {
  const { clock, logs, records, messages } = logging();
  const logger = logs.logger("rdk.a");
  repeat(57, () => logger.warn("hot", { celsius: 80 }));
  assertEquals(messages(), ["hot", "hot", "hot", `${NOTICE}hot`]);
  await clock.advance(9_999);
  logs.logger("rdk.b").info("other");
  assertEquals(records.length, 5);
  await clock.advance(30_000);
  logs.logger("rdk.b").info("other again");
  assertEquals(messages().slice(5), ["Message logged 57 times in past 10s: hot", "other again"]);
  const { level, logger: name, fields, timeMs } = records[5];
  assertEquals({ level, name, fields, timeMs }, {
    level: "warn",
    name: "rdk.a",
    fields: { celsius: 80 },
    timeMs: 10_000,
  });
});

Deno.test("dedup: a message after its window starts a new count", async () => {
  const { clock, logs, messages } = logging();
  const logger = logs.logger("rdk.a");
  repeat(3, () => logger.info("x"));
  await clock.advance(10_000);
  repeat(3, () => logger.info("x"));
  assertEquals(messages(), ["x", "x", "x", "x", "x", "x"]);
});

Deno.test("dedup: the window starts with the first message", async () => {
  const { clock, logs, messages } = logging();
  const logger = logs.logger("rdk.a");
  for (let second = 0; second < 20; second += 4) {
    logger.info("x");
    await clock.advance(4_000);
  }
  assertEquals(messages(), ["x", "x", "x", "x", "x"]);
});

Deno.test("dedup: logger, message and fields identify a message, but level and time fields do not", () => {
  const { logs, records } = logging();
  const [a, b] = [logs.logger("rdk.a"), logs.logger("rdk.b")];
  repeat(3, () => [a.info("x"), b.info("x"), a.info("y"), a.info("x", { n: 1 }), a.info("x", { n: 2 })]);
  assertEquals(records.length, 15);
  a.warn("x");
  assertEquals(records.at(-1)!.message, `${NOTICE}x`);
  let n = 0;
  repeat(4, () => b.info("call", { "grpc.time_ms": ++n, "grpc.start_time": n, log_ts: n, method: "Move" }));
  assertEquals(records.at(-1)!.message, `${NOTICE}call`);
});

Deno.test("dedup: flush writes the total of suppressed messages with its duration", async () => {
  const { clock, logs, messages } = logging();
  repeat(9, () => logs.logger("rdk.a").info("x"));
  await clock.advance(2_500);
  logs.flush();
  assertEquals(messages().at(-1), "Message logged 9 times in past 3s: x");
  logs.flush();
  assertEquals(messages().length, 5);
});

Deno.test("without de-duplication every line is written; levels and debug make no difference", () => {
  const { logs, messages } = logging();
  logs.configure([{ pattern: "rdk.a", level: "debug" }], false);
  repeat(5, () => logs.logger("rdk.a").debug("a"));
  repeat(5, () => logs.logger("rdk.activity").info("b"));
  repeat(5, () => logs.write("info", "rdk.modmanager.m.StdErr", "c", {}));
  logs.configure([], true);
  repeat(5, () => logs.logger("rdk.d").info("d"));
  logs.configure([], true, false);
  repeat(5, () => logs.logger("rdk.e").info("e"));
  const held = (message: string) => [message, message, message, `${NOTICE}${message}`];
  const switched = "Noisy log deduplication is now disabled";
  const logged = messages().filter((one) => one !== switched && !one.startsWith("Message logged 5 times"));
  assertEquals(logged, [...held("a"), ..."bbbbbccccc", ...held("d"), ..."eeeee"]);
});

Deno.test("dedup: suppresses repeated records of other processes", () => {
  const { logs, messages } = logging();
  repeat(5, () => logs.write("info", "rdk.modmanager.m", "x", {}));
  assertEquals(messages(), ["x", "x", "x", `${NOTICE}x`]);
});

Deno.test("dedup: configure switches it on and off, with a log line and without loss", () => {
  const { logs, messages } = logging();
  const logger = logs.logger("rdk.a");
  repeat(5, () => logger.info("x"));
  logs.configure([], false, false);
  repeat(5, () => logger.info("x"));
  logs.configure([], false, false);
  logs.configure([], false, true);
  assertEquals(messages().slice(4), [
    "Message logged 5 times in past 1s: x",
    "Noisy log deduplication is now disabled",
    ...["x", "x", "x", "x", "x"],
    "Noisy log deduplication is now enabled",
  ]);
});

Deno.test("dedup: the oldest window closes when too many are open, and very long records have none", () => {
  const { logs, records, messages } = logging();
  const logger = logs.logger("rdk.a");
  repeat(5, () => logger.info("x"));
  for (let other = 0; other < REPEATS_WATCHED; other++) logger.info(`other ${other}`);
  assertEquals(messages()[4 + REPEATS_WATCHED - 1], "Message logged 5 times in past 1s: x");
  const long = "l".repeat(REPEAT_CHARS_MAX);
  const before = records.length;
  repeat(5, () => logger.info(long));
  assertEquals(records.length - before, 5);
});
