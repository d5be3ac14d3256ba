import { assertEquals } from "@std/assert";
import { parseSchedule } from "./schedule.ts";

/** The next times in a row, in UTC. */
function times(text: string, from = "2026-01-01T00:00:30Z", count = 3): string[] | undefined {
  const schedule = parseSchedule(text);
  if (schedule?.kind !== "cron") return undefined;
  const found: string[] = [];
  for (
    let ms: number | undefined = Date.parse(from);
    found.length < count;
    found.push(new Date(ms).toISOString())
  ) {
    ms = schedule.nextMs(ms);
    if (ms === undefined) break;
  }
  return found.map((time) => time.replace(/\.000Z$/, ""));
}

Deno.test("parseSchedule: intervals, also as @every, in whole seconds", () => {
  const cases: [string, number | undefined][] = [
    ["5m", 300_000],
    ["1ms", 1],
    ["@every 5m", 300_000],
    ["@every 1h30m10s", 5_410_000],
    ["@every 1500ms", 1_000],
    ["@every 10ms", 1_000],
    ["  @every   2s ", 2_000],
    ["TZ=UTC @every 1m", 60_000],
    ["@every", undefined],
    ["@every five", undefined],
    ["@every 0s", undefined],
    ["@every 1m 2m", undefined],
    ["0s", undefined],
  ];
  for (const [text, everyMs] of cases) {
    assertEquals(parseSchedule(text), everyMs === undefined ? undefined : { kind: "every", everyMs }, text);
  }
  assertEquals(parseSchedule(" Continuous"), { kind: "continuous" });
});

Deno.test("parseSchedule: a cron line may begin with its time zone", () => {
  for (const prefix of ["CRON_TZ=", "TZ="]) {
    assertEquals(times(`${prefix}Asia/Tokyo 0 6 * * *`), [
      "2026-01-01T21:00:00",
      "2026-01-02T21:00:00",
      "2026-01-03T21:00:00",
    ]);
  }
  assertEquals(times("TZ=America/New_York 30 0 6 * * MON", undefined, 1), ["2026-01-05T11:00:30"]);
  assertEquals(times("TZ=UTC @daily", undefined, 1), ["2026-01-02T00:00:00"]);
  assertEquals(times("CRON_TZ=Asia/Kathmandu @hourly", undefined, 1), ["2026-01-01T00:15:00"]);
  // Through the change to summer time.
  assertEquals(times("TZ=Europe/Berlin 0 8 * * *", "2026-03-28T00:00:00Z", 2), [
    "2026-03-28T07:00:00",
    "2026-03-29T06:00:00",
  ]);
  for (const bad of ["TZ=Nowhere/City 0 6 * * *", "TZ=Asia/Tokyo", "TZ=UTC 0 6"]) {
    assertEquals(parseSchedule(bad), undefined, bad);
  }
});

Deno.test("parseSchedule: steps from a start, in ranges, and beyond the end", () => {
  const utc = (line: string, count?: number) => times(`TZ=UTC ${line}`, undefined, count);
  const day = (time: string) => `2026-01-01T${time}`;
  assertEquals(utc("3/15 * * * *"), [day("00:03:00"), day("00:18:00"), day("00:33:00")]);
  assertEquals(utc("50/5 * * * *"), [day("00:50:00"), day("00:55:00"), day("01:50:00")]);
  assertEquals(utc("20/20 * * * * *"), [day("00:00:40"), day("00:01:20"), day("00:01:40")]);
  assertEquals(utc("0 0 3/15 * *"), ["2026-01-03T00:00:00", "2026-01-18T00:00:00", "2026-02-03T00:00:00"]);
  assertEquals(utc("0 0 1 oct/2 *", 2), ["2026-10-01T00:00:00", "2026-12-01T00:00:00"]);
  assertEquals(utc("10-40/15,59 * * * *", 4), ["00:10:00", "00:25:00", "00:40:00", "00:59:00"].map(day));
  assertEquals(utc("*/90 * * * *", 2), [day("01:00:00"), day("02:00:00")]);
  assertEquals(utc("0 12 ? * mon-fri/2", 2), ["2026-01-02T12:00:00", "2026-01-05T12:00:00"]);
  for (const bad of ["*/0 * * * *", "5/x * * * *", "60/5 * * * *", "61 * * * *", "0 0 30 2 *", "1 2 3"]) {
    assertEquals(parseSchedule(bad), undefined, bad);
  }
});
