import { assertEquals, assertThrows } from "@std/assert";
import { aggregate } from "./aggregation.ts";

type Fields = { readonly [name: string]: unknown };

const at = (text: string) => new Date(text);
const dateOf = (expression: Fields, document: Fields = {}) =>
  aggregate([{ $project: { is: expression } }], [{ ...document }])[0]?.is;
const truncated = (text: string, more: Fields) => dateOf({ $dateTrunc: { date: at(text), ...more } });

Deno.test("dates: bins begin at the time zone's own days, months and hours, in summer and winter", () => {
  const berlin = { unit: "day", timezone: "Europe/Berlin" };
  assertEquals(truncated("2025-07-17T23:30:00Z", berlin), at("2025-07-17T22:00:00Z"));
  assertEquals(truncated("2025-01-17T23:30:00Z", berlin), at("2025-01-17T23:00:00Z"));
  assertEquals(
    truncated("2025-07-17T02:30:00Z", { ...berlin, timezone: "America/New_York" }),
    at("2025-07-16T04:00:00Z"),
  );
  const south = "America/Argentina/Buenos_Aires";
  assertEquals(truncated("2025-07-17T02:30:00Z", { ...berlin, timezone: south }), at("2025-07-16T03:00:00Z"));
  assertEquals(
    truncated("2025-07-01T02:30:00Z", { unit: "month", timezone: "America/New_York" }),
    at("2025-06-01T04:00:00Z"),
  );
  assertEquals(
    truncated("2025-07-01T02:45:00Z", { unit: "hour", timezone: "+05:30" }),
    at("2025-07-01T02:30:00Z"),
  );
  assertEquals(truncated("2026-12-15T12:34:56.789Z", { unit: "day", timezone: "UTC" }), at("2026-12-15"));
  assertThrows(
    () => truncated("2025-07-01T02:45:00Z", { unit: "day", timezone: "Mars/Base" }),
    Error,
    "no time zone",
  );
});

Deno.test("dates: bins of several units are counted from the year 2000, also before it", () => {
  assertEquals(
    truncated("2021-03-20T11:37:05Z", { unit: "minute", binSize: 15 }),
    at("2021-03-20T11:30:00Z"),
  );
  const weeks = { unit: "week", binSize: 2, startOfWeek: "Monday" };
  assertEquals(truncated("2021-03-20T11:30:05Z", weeks), at("2021-03-15"));
  assertEquals(truncated("2024-02-07T12:34:56Z", { unit: "week", startOfWeek: "sat" }), at("2024-02-03"));
  assertEquals(truncated("2024-02-07T12:34:56Z", { unit: "week" }), at("2024-02-04"));
  assertEquals(truncated("1999-12-31T23:59:59.999Z", { unit: "month", binSize: 2 }), at("1999-11-01"));
  assertEquals(truncated("2021-05-20T11:30:05Z", { unit: "quarter" }), at("2021-04-01"));
  assertEquals(dateOf({ $dateTrunc: { date: "$none", unit: "day" } }), null);
  for (const wrong of [{ unit: "days" }, { unit: "day", binSize: 0 }, { unit: "week", startOfWeek: "x" }]) {
    assertThrows(() => truncated("2021-05-20", wrong), Error, "want");
  }
});

Deno.test("dates: fields of a time zone, of weeks, and of a date that is missing", () => {
  const date = at("2025-10-17T16:10:00Z");
  assertEquals(dateOf({ $hour: { date, timezone: "Europe/Berlin" } }), 18);
  assertEquals(dateOf({ $hour: { date: at("2025-07-17T00:10:00Z"), timezone: "-00:30" } }), 23);
  const sunday = at("2025-01-05"), monday = at("2024-12-30");
  assertEquals([dateOf({ $week: sunday }), dateOf({ $week: at("2025-01-04") })], [1, 0]);
  assertEquals([dateOf({ $isoWeek: monday }), dateOf({ $isoWeekYear: monday })], [1, 2025]);
  assertEquals([dateOf({ $dayOfWeek: [sunday] }), dateOf({ $isoDayOfWeek: sunday })], [1, 7]);
  assertEquals([dateOf({ $hour: "$none" }), dateOf({ $year: { date: "$none", timezone: "UTC" } })], [
    null,
    null,
  ]);
  assertThrows(() => dateOf({ $hour: "noon" }), Error, "$hour wants a date");
});

Deno.test("dates: months end on their last day, and days keep their hour where clocks change", () => {
  const moved = (name: string, text: string, more: Fields) =>
    dateOf({ [name]: { startDate: at(text), ...more } });
  const month = { unit: "month", amount: 1 };
  assertEquals(moved("$dateAdd", "2021-01-31T10:00:00Z", month), at("2021-02-28T10:00:00Z"));
  assertEquals(moved("$dateSubtract", "2021-03-31T10:00:00Z", month), at("2021-02-28T10:00:00Z"));
  const berlin = { amount: 1, timezone: "Europe/Berlin" };
  assertEquals(
    moved("$dateAdd", "2025-03-29T11:00:00Z", { unit: "day", ...berlin }),
    at("2025-03-30T10:00:00Z"),
  );
  assertEquals(
    moved("$dateAdd", "2025-03-30T00:30:00Z", { unit: "hour", ...berlin }),
    at("2025-03-30T01:30:00Z"),
  );
  assertEquals(dateOf({ $dateAdd: { startDate: "$none", unit: "day", amount: 1 } }), null);

  const between = (start: string, end: string, unit: string, more: Fields = {}) =>
    dateOf({ $dateDiff: { startDate: at(start), endDate: at(end), unit, ...more } });
  const zone = { timezone: "Europe/Berlin" };
  assertEquals(between("2025-03-30T00:30:00Z", "2025-03-30T01:30:00Z", "hour", zone), 1);
  assertEquals(between("2025-07-01T21:00:00Z", "2025-07-01T23:00:00Z", "day", zone), 1);
  assertEquals(between("2025-07-01T21:00:00.100Z", "2025-07-01T21:00:00.900Z", "second"), 0);
  assertEquals(between("2025-01-05", "2025-01-06", "week", { startOfWeek: "monday" }), 1);
  assertEquals(between("2025-03-31", "2025-04-01", "quarter"), 1);
});

Deno.test("dates: texts and parts, to and from a date", () => {
  const date = at("2024-12-31T01:02:03.004Z");
  const text = (more: Fields) => dateOf({ $dateToString: { date, ...more } });
  assertEquals(text({}), "2024-12-31T01:02:03.004Z");
  assertEquals(text({ format: "%j %u %w %U %V %G %b %%" }), "366 2 3 52 01 2025 Dec %");
  assertEquals(text({ timezone: "America/St_Johns", format: "%d %H:%M%z" }), "30 21:32-0330");
  assertThrows(() => text({ format: "%Q" }), Error, "no specifier");

  const read = (dateString: string, more: Fields = {}) =>
    dateOf({ $dateFromString: { dateString, ...more } });
  assertEquals(read("2024-07-01T00:00:00", { timezone: "America/New_York" }), at("2024-07-01T04:00:00Z"));
  assertEquals(read("2025-07-01T12:00:00.5+02:00"), at("2025-07-01T10:00:00.500Z"));
  assertEquals(
    read("01/07/2025", { format: "%d/%m/%Y", timezone: "Europe/Berlin" }),
    at("2025-06-30T22:00:00Z"),
  );
  assertEquals(read("2025-13-01", { onError: "bad" }), "bad");
  for (
    const [text, format] of [
      ["30/02/2025", "%d/%m/%Y"],
      ["31 Apr 2025", "%d %b %Y"],
      ["at 2025-06-31 (10:00)", "at %Y-%m-%d (%H:%M)"],
    ]
  ) {
    assertEquals(read(text, { format, onError: "bad" }), "bad", text);
    assertThrows(() => read(text, { format }), Error, "is no date");
  }
  assertEquals(read("29/02/2024 23:30", { format: "%d/%m/%Y %H:%M" }), at("2024-02-29T23:30:00Z"));
  assertEquals(read("31 Jan 2025", { format: "%d %b %Y" }), at("2025-01-31T00:00:00Z"));

  assertEquals(dateOf({ $dateFromParts: { year: 2025, month: 14 } }), at("2026-02-01"));
  assertEquals(dateOf({ $dateFromParts: { isoWeekYear: 2025, isoWeek: 1 } }), at("2024-12-30"));
  assertEquals(dateOf({ $dateToParts: { date, timezone: "+01:00" } }), {
    year: 2024,
    month: 12,
    day: 31,
    hour: 2,
    minute: 2,
    second: 3,
    millisecond: 4,
  });
});
