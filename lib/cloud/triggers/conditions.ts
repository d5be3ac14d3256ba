/**
 * The conditions of triggers, checked against readings.
 *
 * Runs in a separate thread with a time limit, because a regular expression may take forever.
 */

import { comparableJson, isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import { payloadIn } from "../capture/payload.ts";
import { operandsOf, type TriggerEvals } from "./settings.ts";

/** Readings of one source, and the conditions to find in them. */
export interface ConditionJob {
  /** Results of `payloadBytes`, oldest first. */
  readonly payloads: readonly Uint8Array[];
  readonly conditions: readonly TriggerEvals[];
}

/** For each of the conditions the index of the first reading that fulfils it; -1 if none does. */
export function judge({ payloads, conditions }: ConditionJob): number[] {
  const readings = payloads.map(payloadIn);
  return conditions.map((evals) => readings.findIndex((reading) => fulfils(reading, evals)));
}

/** Whether a reading fulfils all of the conditions. */
export function fulfils(reading: JsonObject, evals: TriggerEvals): boolean {
  return evals.every(({ operator, value }) => {
    const { path, right } = operandsOf(value);
    // The values of a sensor are one level down, and people write paths relative to them.
    const { readings } = reading;
    const within = isObject(readings) ? valuesAt(readings as JsonObject, path) : [];
    const found = within.length > 0 ? within : valuesAt(reading, path);
    return found.some((left) => holds(left, operator, right));
  });
}

/** The values at a path; for a list those of each entry, unless the path names an index. */
function valuesAt(value: Json, path: readonly string[]): Json[] {
  const [key, ...rest] = path;
  if (key === undefined) return [value];
  if (Array.isArray(value)) {
    const element = /^\d+$/.test(key) ? value[Number(key)] : undefined;
    return element === undefined ? value.flatMap((one) => valuesAt(one, path)) : valuesAt(element, rest);
  }
  if (!isObject(value)) return [];
  const members = value as JsonObject;
  const member = Object.hasOwn(members, key) ? members[key] : undefined;
  if (member !== undefined) return valuesAt(member, rest);
  const dot = key.indexOf(".");
  return dot < 0 ? [] : valuesAt(value as Json, [key.slice(0, dot), key.slice(dot + 1), ...rest]);
}

function holds(left: Json, operator: TriggerEvals[number]["operator"], right: Json): boolean {
  if (operator === "eq") return isSame(left, right);
  if (operator === "neq") return !isSame(left, right);
  if (operator === "regex") return typeof left === "string" && new RegExp(right as string, "u").test(left);
  const both = typeof left === typeof right && ["number", "string"].includes(typeof left);
  if (!both) return false;
  const [one, other] = [left as number, right as number];
  if (operator === "lt") return one < other;
  if (operator === "lte") return one <= other;
  return operator === "gt" ? one > other : one >= other;
}

function isSame(left: Json, right: Json): boolean {
  return comparableJson(left) === comparableJson(right);
}
