import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../../lib/base/log/log.ts";
import { openPatiently } from "./patient_start.ts";

function parts(signal = new AbortController().signal) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("cloud");
  return { clock, logger, signal, lines: () => records.map(({ message }) => message) };
}

Deno.test("a database that comes up later is waited for, and its reason is logged once", async () => {
  const { lines, ...around } = parts();
  let tries = 0;
  const opened = openPatiently("the database", () => {
    if (++tries < 5) return Promise.reject(new SvcError("unavailable", "connection refused"));
    return Promise.resolve("open");
  }, around);
  assertEquals(await passing(around.clock, 60_000, opened), "open");
  assertEquals(lines(), ["waiting for the database: connection refused", "the database is there"]);
});

Deno.test("what waiting does not mend is refused at once", async () => {
  const { lines, ...around } = parts();
  const refused = () => Promise.reject(new SvcError("internal", "password authentication failed"));
  await assertRejects(() => openPatiently("the database", refused, around), SvcError, "password");
  assertEquals(lines(), []);
});

Deno.test("a signal ends the wait", async () => {
  const stop = new AbortController();
  const { lines: _, ...around } = parts(stop.signal);
  const waiting = openPatiently("the database", () => {
    stop.abort(new Error("SIGTERM"));
    return Promise.reject(new SvcError("unavailable", "connection refused"));
  }, around);
  await assertRejects(() => passing(around.clock, 60_000, waiting), Error, "SIGTERM");
});
