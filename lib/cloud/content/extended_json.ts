/**
 * Values of a query that are written as MongoDB's Extended JSON writes them, such as `{ "$date": "2026-01-15T00:00:00Z" }`.
 *
 * The published documentation shows queries in this form. Programs that paste them send documents in their place, which
 * equal no time and no number, so that the query would find nothing.
 */

import { SvcError } from "../../base/error.ts";
import { isPlainObject } from "./answer.ts";

const TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/;
const ZONE = /(Z|[+-]\d\d:?\d\d)$/;
const NUMBERS: readonly string[] = ["$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"];

/** The same with times and numbers in their place. Throws `invalid_argument` for one that cannot be read. */
export function withTypes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withTypes);
  if (!isPlainObject(value)) return value;
  const [[name, inner] = [], ...others] = Object.entries(value);
  if (others.length === 0 && name === "$date") return dateOf(withTypes(inner));
  if (others.length === 0 && name !== undefined && NUMBERS.includes(name)) return numberOf(name, inner);
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withTypes(inner)]));
}

function dateOf(value: unknown): Date {
  if (value instanceof Date) return value;
  if (typeof value === "number" && Math.abs(value) <= 8.64e15) return new Date(value);
  if (typeof value === "string" && TIME.test(value)) {
    // Without a zone, a time is in UTC everywhere in a query.
    const date = new Date(!value.includes("T") || ZONE.test(value) ? value : `${value}Z`);
    if (!Number.isNaN(date.getTime())) return date;
  }
  throw refused("$date", value, '"2026-01-15T00:00:00Z"');
}

function numberOf(name: string, value: unknown): number {
  if (typeof value === "number") return value;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : NaN;
  if (!Number.isNaN(number) || value === "NaN") return number;
  throw refused(name, value, '"42"');
}

function refused(name: string, value: unknown, wanted: string): SvcError {
  const found = JSON.stringify(value)?.slice(0, 80) ?? "nothing";
  return new SvcError("invalid_argument", `found ${found} in ${name}, wanted for example ${wanted}`);
}
