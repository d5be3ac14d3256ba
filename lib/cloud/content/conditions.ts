/**
 * MongoDB's conditions of `$match` where mingo's own ones differ: a missing value is at least and at most null, `$type`
 * looks into lists and takes numbers for doubles, and `$mod` cuts decimals. Pure.
 */

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
  return {
    $gte: (selector, value, options) => (value === null ? plain.$eq : plain.$gte)(selector, value, options),
    $lte: (selector, value, options) => (value === null ? plain.$eq : plain.$lte)(selector, value, options),
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

function typesIn(given: unknown): readonly string[] {
  if (given === "number") return NUMBERS;
  const name = typeof given === "number" ? TYPE_NAMES[given] : given;
  if (typeof name === "string" && Object.values(TYPE_NAMES).includes(name)) return [name];
  throw new Error(`$type wants the name or number of a type, found ${JSON.stringify(given)}`);
}
