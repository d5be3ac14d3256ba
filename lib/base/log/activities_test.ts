import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogRecord, Logs, memorySink } from "./log.ts";
import { Activities, shutdownReason } from "./activities.ts";

Deno.test("Activities: log the begin and end of an activity, with its duration", async () => {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  const activities = new Activities(logs.logger("rdk.activity"), clock);
  activities.begin("startup")();
  assertEquals(records, [], "only the debug log tells");
  logs.configure([{ pattern: "rdk.activity", level: "debug" }], false);
  const ended = activities.begin("reconfigure", { revision: "7" });
  await clock.advance(12);
  ended({ overtaken: false });
  assertEquals(records.map(({ message, fields }) => [message, fields]), [
    ["reconfigure begin", { activity: "reconfigure", event: "begin", revision: "7" }],
    ["reconfigure end", {
      activity: "reconfigure",
      event: "end",
      revision: "7",
      overtaken: false,
      duration_us: 12_000,
    }],
  ]);
  assertEquals(["SIGTERM", "app_restart"].map(shutdownReason), ["signal", "app_restart"]);
});
