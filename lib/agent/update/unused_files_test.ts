import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { UnusedFiles } from "./unused_files.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

Deno.test("UnusedFiles: cleans first a quarter of an hour after the start, then once a day", async () => {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const asked: number[] = [];
  const clean = (name: string) => (keepMs: number) => {
    asked.push(keepMs);
    return Promise.resolve(name === "" ? [] : [name]);
  };
  const logger = new Logs(clock, [memorySink(records)]).logger("svc-agent");
  const unused = new UnusedFiles([clean("svc-server-1"), clean("")], clock, logger);
  const runs = async (afterMs: number) => {
    await clock.advance(afterMs);
    asked.length = 0;
    await unused.cleanIfDue();
    return asked.length > 0;
  };
  assertEquals([await runs(0), await runs(14 * MINUTE_MS), await runs(MINUTE_MS)], [false, false, true]);
  assertEquals(asked, [30 * DAY_MS, 30 * DAY_MS]);
  assertEquals([await runs(DAY_MS - MINUTE_MS), await runs(MINUTE_MS)], [false, true]);
  const files = { files: ["svc-server-1"] };
  assertEquals(
    records.map(({ message, fields }) => [message, fields]),
    Array(2).fill(["removed unused files", files]),
  );
});
