/**
 * MongoDB's conditions of `$match` where mingo's own ones differ: a missing value is at least and at most null, an
 * element of a list without a field has null there, `$type` looks into lists and takes numbers for doubles, and `$mod`
 * cuts decimals. Pure.
 */

import { isPlainObject } from "./answer.ts";
import { valuesOfPath } from "./sorting.ts";
import { typeNameOf } from "./value_operators.ts";

type Condition = (
  selector: string,
  value: unknown,
  options: unknown,
) => (document: { readonly [name: string]: unknown }) => boolean;

/** Conditions of the library that some of these end in. */
export interface PlainConditions {
  readonly $eq: Condition;
  readonly $ne: Condition;
  readonly $in: Condition;
  readonly $nin: Condition;
  readonly $gte: Condition;
  readonly $lte: Condition;
  readonly $type: Condition;
}

/** MongoDB's names and numbers of types. */
const TYPE_NAMES: { readonly [number: number]: string } = {
  1: "double",
  2: "string",
  3: "object",
  4: "array",
  5: "binData",
  6: "undefined",
  7: "objectId",
  8: "bool",
  9: "date",
  10: "null",
  11: "regex",
  16: "int",
  17: "timestamp",
  18: "long",
  19: "decimal",
};
const NUMBERS = ["double", "int", "long", "decimal"];

export function conditionsOver(plain: PlainConditions): { readonly [name: string]: Condition } {
  const $eq = orMissing(plain.$eq, (value) => value === null);
  const $in = orMissing(plain.$in, (value) => Array.isArray(value) && value.includes(null));
  return {
    $eq,
    $in,
    $ne: (selector, value, options) => (value === null ? not($eq) : plain.$ne)(selector, value, options),
    $nin: not($in),
    $gte: (selector, value, options) => (value === null ? $eq : plain.$gte)(selector, value, options),
    $lte: (selector, value, options) => (value === null ? $eq : plain.$lte)(selector, value, options),
    $type: (selector, value, options) => {
      const wanted = (Array.isArray(value) ? value : [value]).flatMap(typesIn);
      const isList = plain.$type(selector, "array", options);
      const names = selector.split(".");
      return (document) =>
        wanted.includes("array") && isList(document) ||
        valuesOfPath(document, names).some((one) => !Array.isArray(one) && wanted.includes(typeNameOf(one)));
    },
    $mod: (selector, value) => {
      const [divisor, rest] = Array.isArray(value) ? value.map((one) => Math.trunc(Number(one))) : [];
      if (
        divisor === undefined || rest === undefined || !Number.isFinite(divisor) || !Number.isFinite(rest)
      ) {
        throw new Error("$mod wants a divisor and a remainder");
      }
      if (divisor === 0) throw new Error("$mod wants another divisor than 0");
      const names = selector.split(".");
      return (document) =>
        valuesOfPath(document, names).some((one) =>
          typeof one === "number" && Math.trunc(one) % divisor === rest
        );
    },
  };
}

/** The condition, which also holds for documents in which a list has an element without the field if null is wanted. */
function orMissing(plain: Condition, wantsNull: (value: unknown) => boolean): Condition {
  return (selector, value, options) => {
    const holds = plain(selector, value, options);
    if (!wantsNull(value) || !selector.includes(".")) return holds;
    const names = selector.split(".");
    return (document) => holds(document) || isMissingInList(document, names);
  };
}

function not(condition: Condition): Condition {
  return (selector, value, options) => {
    const holds = condition(selector, value, options);
    return (document) => !holds(document);
  };
}

/** Whether an element of a list on the path has nothing at the rest of it. Elements that are no objects do not count. */
function isMissingInList(value: unknown, [name, ...others]: readonly string[], inList = false): boolean {
  if (name === undefined) return inList && value === undefined;
  if (isPlainObject(value)) return isMissingInList(value[name], others, inList);
  if (!Array.isArray(value)) return inList;
  // A number means an element; then it is a name in none of the others.
  if (/^\d+$/.test(name) && Number(name) < value.length) {
    return isMissingInList(value[Number(name)], others, inList);
  }
  return value.some((one) => isPlainObject(one) && isMissingInList(one, [name, ...others], true));
}

function typesIn(given: unknown): readonly string[] {
  if (given === "number") return NUMBERS;
  const name = typeof given === "number" ? TYPE_NAMES[given] : given;
  if (typeof name === "string" && Object.values(TYPE_NAMES).includes(name)) return [name];
  throw new Error(`$type wants the name or number of a type, found ${JSON.stringify(given)}`);
}
