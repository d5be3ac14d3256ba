/**
 * MongoDB's expressions of dates, in its time zones. Mingo's own ones shift a bin of a time zone by a day, know no zone
 * such as `UTC`, take the offset of another season, and let 31 January plus a month be 3 March.
 *
 * A date without a value gives null, as in MongoDB. Pure.
 */

import { isPlainObject } from "./answer.ts";
import { isNothing, type OwnExpression } from "./value_operators.ts";

type ReadText = Parameters<OwnExpression>[2];
/** The arguments of an expression, with their values. */
type Given = { readonly [name: string]: unknown };
/** A wall clock, whose fields in UTC are those of the time zone. */
type Wall = Date;

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Units of one length, and the months of the others. */
const LENGTHS_MS: { readonly [unit: string]: number } = {
  millisecond: 1,
  second: SECOND_MS,
  minute: MINUTE_MS,
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
};
const MONTHS: { readonly [unit: string]: number } = { month: 1, quarter: 3, year: 12 };
/** Bins are counted from here, in the time zone. */
const REFERENCE_MS = Date.UTC(2000, 0, 1);
const BIN_MAX = 1e11;
const WEEKDAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
/** The names of UTC, which needs no look-up. */
const UTC = ["UTC", "GMT", "Z", "Etc/UTC"];
const ISO_TEXT =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?(?: ?(Z|[+-]\d\d(?::?\d\d)?))?$/i;

const MONTH_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/** What the specifiers of a day stand for in a text. */
const DAY_FIELDS: { readonly [specifier: string]: string } = {
  "%Y": "(?<year>\\d{4})",
  "%m": "(?<month>\\d\\d?)",
  "%d": "(?<day>\\d\\d?)",
  "%b": "(?<monthName>[A-Za-z]{3})",
};

/** The fields of a date, by their expressions. */
const FIELDS: { readonly [name: string]: (wall: Wall) => number } = {
  $year: (wall) => wall.getUTCFullYear(),
  $month: (wall) => wall.getUTCMonth() + 1,
  $dayOfMonth: (wall) => wall.getUTCDate(),
  $hour: (wall) => wall.getUTCHours(),
  $minute: (wall) => wall.getUTCMinutes(),
  $second: (wall) => wall.getUTCSeconds(),
  $millisecond: (wall) => wall.getUTCMilliseconds(),
  $dayOfYear: dayOfYear,
  $dayOfWeek: (wall) => wall.getUTCDay() + 1,
  $isoDayOfWeek: (wall) => wall.getUTCDay() || 7,
  $week: (wall) => Math.floor((dayOfYear(wall) + 6 - wall.getUTCDay()) / 7),
  $isoWeek: (wall) => Math.ceil(dayOfYear(thursdayOf(wall)) / 7),
  $isoWeekYear: (wall) => thursdayOf(wall).getUTCFullYear(),
};

/** The specifiers of a format: the field and its number of digits. */
const DIGITS: { readonly [specifier: string]: readonly [string, number] } = {
  Y: ["$year", 4],
  G: ["$isoWeekYear", 4],
  m: ["$month", 2],
  d: ["$dayOfMonth", 2],
  H: ["$hour", 2],
  M: ["$minute", 2],
  S: ["$second", 2],
  L: ["$millisecond", 3],
  j: ["$dayOfYear", 3],
  w: ["$dayOfWeek", 1],
  u: ["$isoDayOfWeek", 1],
  U: ["$week", 2],
  V: ["$isoWeek", 2],
};

const OTHERS: { readonly [name: string]: (given: Given, readText: ReadText) => unknown } = {
  $dateAdd: (given) => moved(given, 1),
  $dateSubtract: (given) => moved(given, -1),
  $dateDiff: difference,
  $dateFromParts: fromParts,
  $dateFromString: fromText,
  $dateToParts: toParts,
  $dateToString: toText,
  $dateTrunc: truncated,
};

export const DATES: { readonly [name: string]: OwnExpression } = {
  ...Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [name, fieldOf(name, field)])),
  ...Object.fromEntries(
    Object.entries(OTHERS).map(([name, run]): [string, OwnExpression] => [
      name,
      (given, expression, readText) => {
        if (!isPlainObject(expression)) throw new Error(`${name} wants an object of its arguments`);
        return run(given as Given, readText);
      },
    ]),
  ),
};

/** The argument is a date, a list of one, or an object with a date and a time zone. */
function fieldOf(name: string, field: (wall: Wall) => number): OwnExpression {
  return (found, expression) => {
    const only = Array.isArray(found) ? found[0] : found;
    const { date, timezone }: Given = isPlainObject(expression) && "date" in expression
      ? only as Given
      : { date: only };
    return isNothing(date) || timezone === null ? null : field(wallOf(dateIn(date, name), timezone));
  };
}

function moved({ startDate, unit, amount, timezone }: Given, sign: 1 | -1): Date | null {
  if ([startDate, unit, amount].some(isNothing) || timezone === null) return null;
  if (!Number.isInteger(amount)) throw new Error(`$dateAdd and $dateSubtract want a whole amount`);
  return later(dateIn(startDate, "startDate"), unitIn(unit), sign * (amount as number), timezone);
}

/** Moves a date. Days and longer units keep the time of the day; a month's last day replaces one that the month has not. */
export function later(date: Date, unit: string, amount: number, zone: unknown): Date {
  const months = MONTHS[unit];
  const length = LENGTHS_MS[unit] ?? 0;
  if (months === undefined && length < DAY_MS) return new Date(date.getTime() + amount * length);
  const wall = wallOf(date, zone);
  return atWall(
    months === undefined ? new Date(wall.getTime() + amount * length) : withMonths(wall, amount * months),
    zone,
  );
}

function withMonths(wall: Wall, months: number): Wall {
  const moved = new Date(wall);
  moved.setUTCDate(1);
  moved.setUTCMonth(wall.getUTCMonth() + months);
  const last = new Date(moved);
  last.setUTCMonth(moved.getUTCMonth() + 1, 0);
  moved.setUTCDate(Math.min(wall.getUTCDate(), last.getUTCDate()));
  return moved;
}

/** The number of the unit's boundaries between the dates. */
function difference({ startDate, endDate, unit, timezone, startOfWeek }: Given): number | null {
  if ([startDate, endDate, unit].some(isNothing) || timezone === null) return null;
  const [start, end] = [dateIn(startDate, "startDate"), dateIn(endDate, "endDate")];
  const [from, to] = [wallOf(start, timezone), wallOf(end, timezone)];
  const name = unitIn(unit);
  const months = MONTHS[name];
  if (months !== undefined) return binOf(monthsOf(to), months) - binOf(monthsOf(from), months);
  const length = LENGTHS_MS[name] ?? 1;
  if (name === "day") return binOf(to.getTime(), DAY_MS) - binOf(from.getTime(), DAY_MS);
  if (name === "week") return binOf(daysFrom(to, startOfWeek), 7) - binOf(daysFrom(from, startOfWeek), 7);
  // Where the clocks were changed in between, the wall's boundaries are not those of the time that has passed.
  const changed = (to.getTime() - end.getTime()) - (from.getTime() - start.getTime());
  return Math.round(binOf(to.getTime(), length) - binOf(from.getTime(), length) - changed / length);
}

function truncated({ date, unit, binSize = 1, timezone, startOfWeek }: Given): Date | null {
  if (isNothing(date) || isNothing(unit) || binSize === null || timezone === null) return null;
  if (typeof binSize !== "number" || !Number.isInteger(binSize) || binSize < 1 || binSize > BIN_MAX) {
    throw new Error("$dateTrunc wants a whole binSize above 0");
  }
  const name = unitIn(unit);
  const given = dateIn(date, "date");
  const months = MONTHS[name];
  const length = LENGTHS_MS[name] ?? 1;
  if (months === undefined && length < DAY_MS) {
    const reference = atWall(new Date(REFERENCE_MS), timezone).getTime();
    return new Date(reference + binOf(given.getTime() - reference, length * binSize) * length * binSize);
  }
  const wall = wallOf(given, timezone);
  if (months !== undefined) {
    const size = months * binSize;
    const reference = new Date(REFERENCE_MS);
    const bins = binOf(monthsOf(wall) - monthsOf(reference), size);
    return atWall(withMonths(reference, bins * size), timezone);
  }
  // The first day of a week at or after the reference.
  const ahead = name === "week" ? 7 - (daysFrom(new Date(REFERENCE_MS), startOfWeek) % 7 || 7) : 0;
  const reference = REFERENCE_MS + ahead * DAY_MS;
  const size = length * binSize;
  return atWall(new Date(reference + binOf(wall.getTime() - reference, size) * size), timezone);
}

function fromParts(given: Given): Date | null {
  const { timezone, ...parts } = given;
  if (timezone === null || Object.values(parts).some(isNothing)) return null;
  const partOf = (name: string, usual: number) => {
    const part = parts[name] ?? usual;
    if (typeof part !== "number" || !Number.isInteger(part)) {
      throw new Error(`$dateFromParts wants a whole ${name}`);
    }
    return part;
  };
  const isIso = "isoWeekYear" in parts;
  const wall = new Date(0);
  if (isIso) {
    // 4 January is always in the first week.
    wall.setUTCFullYear(partOf("isoWeekYear", 1970), 0, 4);
    const monday = wall.getUTCDate() - (wall.getUTCDay() || 7) + 1;
    wall.setUTCDate(monday + (partOf("isoWeek", 1) - 1) * 7 + partOf("isoDayOfWeek", 1) - 1);
  } else wall.setUTCFullYear(partOf("year", 1970), partOf("month", 1) - 1, partOf("day", 1));
  wall.setUTCHours(partOf("hour", 0), partOf("minute", 0), partOf("second", 0), partOf("millisecond", 0));
  return atWall(wall, timezone);
}

function toParts({ date, timezone, iso8601 }: Given): Given | null {
  if (isNothing(date) || timezone === null) return null;
  const wall = wallOf(dateIn(date, "date"), timezone);
  const names = iso8601 === true
    ? ["isoWeekYear", "isoWeek", "isoDayOfWeek", "hour", "minute", "second", "millisecond"]
    : ["year", "month", "day", "hour", "minute", "second", "millisecond"];
  return Object.fromEntries(
    names.map((name) => [name, FIELDS[name === "day" ? "$dayOfMonth" : `$${name}`]?.(wall)]),
  );
}

/** Texts of ISO 8601 without a format, and others by mingo, in UTC. */
function fromText(given: Given, readText: ReadText): unknown {
  const { dateString, format, timezone } = given;
  if (isNothing(dateString)) return given.onNull ?? null;
  if (timezone === null) return null;
  const iso = isNothing(format) && typeof dateString === "string" ? ISO_TEXT.exec(dateString.trim()) : null;
  if (iso) {
    const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = "", zone] = iso;
    if (zone !== undefined && timezone !== undefined) {
      throw new Error(`$dateFromString: "${dateString}" has a time zone, and there is a timezone too`);
    }
    const wall = new Date(
      Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second)),
    );
    const isReal = wall.getUTCMonth() === Number(month) - 1 && Number(hour) < 24 && Number(minute) < 60;
    if (isReal) {
      return atWall(
        new Date(wall.getTime() + Math.floor(Number(`0.${fraction || 0}`) * 1000)),
        zone?.toUpperCase() ?? timezone,
      );
    }
    return noDate(given);
  }
  if (typeof dateString === "string" && typeof format === "string" && !hasRealDay(dateString, format)) {
    return noDate(given);
  }
  const { timezone: _, ...rest } = given;
  const read = readText(rest);
  if (read === undefined) return noDate(given);
  return read instanceof Date ? atWall(read, timezone) : read;
}

/** Whether the month has the day; mingo takes 30 February for 1 or 2 March. */
function hasRealDay(text: string, format: string): boolean {
  const left = new Map(Object.entries(DAY_FIELDS));
  const pattern = format.split(/(%.)/).map((part, at) => {
    if (at % 2 === 0) return part.replaceAll(/[^\w\s]/g, "\\$&");
    const field = left.get(part) ?? ".+?";
    left.delete(part);
    return field;
  });
  const { year, month, monthName = "", day } = new RegExp(`^${pattern.join("")}`).exec(text)?.groups ?? {};
  const number = month ?? MONTH_NAMES.indexOf(monthName.slice(0, 3).toLowerCase()) + 1;
  const wall = new Date(Date.UTC(Number(year), Number(number) - 1, Number(day)));
  return Number.isNaN(wall.getTime()) || Number(number) === 0 || wall.getUTCDate() === Number(day);
}

function noDate(given: Given): unknown {
  if ("onError" in given) return given.onError;
  throw new Error(`$dateFromString: ${JSON.stringify(given.dateString)} is no date`);
}

function toText({ date, format, timezone, onNull = null }: Given): unknown {
  if (isNothing(date)) return onNull;
  if (timezone === null || format === null) return null;
  const given = dateIn(date, "date");
  const zone = zoneIn(timezone);
  const usual = `%Y-%m-%dT%H:%M:%S.%L${zone === undefined ? "Z" : ""}`;
  if (format !== undefined && typeof format !== "string") {
    throw new Error("$dateToString wants a text as its format");
  }
  const wall = wallOf(given, timezone);
  const offset = Math.round((wall.getTime() - given.getTime()) / MINUTE_MS);
  const sign = offset < 0 ? "-" : "+";
  const padded = (number: number, digits: number) => String(Math.abs(number)).padStart(digits, "0");
  return (format ?? usual).replace(/%(.?)/gs, (whole, specifier: string) => {
    const [field, digits] = DIGITS[specifier] ?? [];
    if (field !== undefined && digits !== undefined) return padded(FIELDS[field]?.(wall) ?? 0, digits);
    if (specifier === "%") return "%";
    if (specifier === "z") return sign + padded(Math.trunc(offset / 60), 2) + padded(offset % 60, 2);
    if (specifier === "Z") return sign + padded(offset, 3);
    if (specifier === "b" || specifier === "B") {
      return wall.toLocaleString("en-US", { month: specifier === "b" ? "short" : "long", timeZone: "UTC" });
    }
    throw new Error(`$dateToString: the format has "${whole}", which is no specifier`);
  });
}

function dateIn(value: unknown, name: string): Date {
  if (value instanceof Date && Number.isFinite(value.getTime())) return value;
  throw new Error(`${name} wants a date, found ${JSON.stringify(value)}`);
}

export function unitIn(unit: unknown): string {
  if (typeof unit === "string" && (unit in LENGTHS_MS || unit in MONTHS)) return unit;
  throw new Error(`found the unit ${JSON.stringify(unit)}, wanted one such as "day"`);
}

/** The name of a time zone; `undefined` is UTC. Throws if there is no such zone. */
function zoneIn(zone: unknown): string | undefined {
  if (zone === undefined || typeof zone === "string" && UTC.includes(zone)) return undefined;
  if (typeof zone !== "string") throw new Error(`found the time zone ${JSON.stringify(zone)}, wanted a text`);
  return zone;
}

function wallOf(date: Date, zone: unknown): Wall {
  const name = zoneIn(zone);
  if (name === undefined) return date;
  const { offsetNanoseconds } = zoned(
    () => Temporal.Instant.fromEpochMilliseconds(date.getTime()).toZonedDateTimeISO(name),
    name,
  );
  return new Date(date.getTime() + offsetNanoseconds / 1e6);
}

/** The date at which a time zone's clocks show this, the later one where they skip it. */
function atWall(wall: Wall, zone: unknown): Date {
  const name = zoneIn(zone);
  if (name === undefined) return new Date(wall);
  const plain = Temporal.Instant.fromEpochMilliseconds(wall.getTime()).toZonedDateTimeISO("UTC")
    .toPlainDateTime();
  return new Date(zoned(() => plain.toZonedDateTime(name), name).epochMilliseconds);
}

function zoned<T>(run: () => T, name: string): T {
  try {
    return run();
  } catch (cause) {
    throw new Error(`there is no time zone "${name}"`, { cause });
  }
}

function dayOfYear(wall: Wall): number {
  return Math.floor((wall.getTime() - new Date(wall).setUTCMonth(0, 1)) / DAY_MS) + 1;
}

/** The Thursday of the week that begins on Monday: its year is the week's. */
function thursdayOf(wall: Wall): Wall {
  return new Date(wall.getTime() + (4 - (wall.getUTCDay() || 7)) * DAY_MS);
}

function monthsOf(wall: Wall): number {
  return wall.getUTCFullYear() * 12 + wall.getUTCMonth();
}

/** Days since a first day of a week. */
function daysFrom(wall: Wall, startOfWeek: unknown = "sunday"): number {
  const first = WEEKDAYS.findIndex((day) => {
    const name = String(startOfWeek).toLowerCase();
    return name === day || name === day.slice(0, 3);
  });
  if (first < 0) {
    throw new Error(`found the startOfWeek ${JSON.stringify(startOfWeek)}, wanted a day of the week`);
  }
  // 1 January 1970 was a Thursday.
  return Math.floor(wall.getTime() / DAY_MS) + 4 - first;
}

function binOf(value: number, size: number): number {
  return Math.floor(value / size);
}
