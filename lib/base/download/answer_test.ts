import { assertEquals } from "@std/assert";
import { retryAfterMs } from "./answer.ts";

Deno.test("a server names the time to wait in seconds, or as a date by its own clock", () => {
  const nowMs = Date.parse("2026-03-15T12:00:00Z");
  const of = (after?: string, date?: string) => {
    const headers = new Headers();
    if (after !== undefined) headers.set("retry-after", after);
    if (date !== undefined) headers.set("date", date);
    return retryAfterMs({ headers }, nowMs);
  };
  assertEquals([of(), of(""), of("0"), of("soon"), of("NaN")], Array(5).fill(undefined));
  assertEquals([of("120"), of(" 7 "), of("999999999")], [120_000, 7_000, 24 * 3600_000]);
  assertEquals(of("Sun, 15 Mar 2026 12:01:30 GMT"), 90_000);
  assertEquals(of("Sun, 15 Mar 2026 11:00:00 GMT"), undefined);
  // The server's clock is an hour behind.
  assertEquals(of("Sun, 15 Mar 2026 11:01:00 GMT", "Sun, 15 Mar 2026 11:00:00 GMT"), 60_000);
});
