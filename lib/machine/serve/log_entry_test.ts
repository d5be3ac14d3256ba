/** What modules send as log entries. */

import { assertEquals, assertThrows } from "@std/assert";
import { LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { SvcError } from "../../base/error.ts";
import { create } from "../../wire/rpc/proto.ts";
import { readLogEntry } from "./log_entry.ts";

const NOW_MS = 1_700_000_000_000;

Deno.test("readLogEntry: reads a module's entry with its fields and source position", () => {
  const entry = create(LogEntrySchema, {
    level: "WARN",
    loggerName: "rdk.modmanager.m",
    message: "hot",
    time: { seconds: BigInt(NOW_MS / 1000) },
    caller: { Defined: true, File: "/home/me/src/m/arm.py", Line: 7 },
    fields: [
      { Key: "text", Type: 15, String: "a" },
      { Key: "on", Type: 4, Integer: 1 },
      { Key: "count", Type: 11, Integer: 3 },
      { Key: "hidden", Type: 27 },
    ],
  });
  assertEquals(readLogEntry(entry, NOW_MS), {
    level: "warn",
    logger: "rdk.modmanager.m",
    caller: "m/arm.py:7",
    message: "hot",
    fields: { text: "a", on: true, count: 3 },
  });
});

Deno.test("readLogEntry: a late entry gets the field log_ts, and an entry without a caller has none", () => {
  const time = { seconds: BigInt(NOW_MS / 1000 - 2) };
  const { fields, caller } = readLogEntry(create(LogEntrySchema, { level: "info", time }), NOW_MS);
  assertEquals(fields, { log_ts: new Date(NOW_MS - 2_000).toISOString() });
  assertEquals(caller, undefined);
});

Deno.test("readLogEntry: refuses an unknown level", () => {
  assertThrows(
    () => readLogEntry(create(LogEntrySchema, { level: "loud" }), NOW_MS),
    SvcError,
    'LogRequest received with invalid level "loud"',
  );
});
