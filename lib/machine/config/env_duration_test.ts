import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { envDurationMs } from "./env_duration.ts";

Deno.test("envDurationMs: reads a Go duration from the first set variable, and logs an invalid value", () => {
  const records: LogRecord[] = [];
  const logger = new Logs(new FakeClock(), [memorySink(records)]).logger("t");
  const from = (env: Record<string, string>, fallbackMs: number | undefined = 120_000) =>
    envDurationMs(["SVC_LIMIT", "VIAM_LIMIT"], fallbackMs, (name) => env[name], logger);
  assertEquals([from({}), from({ VIAM_LIMIT: "1m30s" })], [120_000, 90_000]);
  assertEquals(from({ SVC_LIMIT: "3s", VIAM_LIMIT: "1m" }), 3_000);
  assertEquals(records, []);
  for (const bad of ["soon", "-1s", "0s", "10"]) assertEquals(from({ SVC_LIMIT: bad }), 120_000, bad);
  assertEquals(envDurationMs(["SVC_LIMIT"], undefined, () => "x", logger), undefined);
  assertEquals(records.length, 5);
  assertEquals(records[0].message, 'SVC_LIMIT is "soon", wanted a duration such as 90s; 2m is used');
  assertEquals(records[4].message, 'SVC_LIMIT is "x", wanted a duration such as 90s; it is ignored');
});
