/**
 * MongoDB's comparisons, roundings, texts and elements. Mingo compares no values of different types, takes a missing value
 * for null and a list for each of its elements, rounds 2.51 to 2 and 19.35 to 19.3, and takes the first element of the
 * first element. Pure.
 */

import { isPlainObject } from "./answer.ts";

/** The value of an expression: of its argument's value, of the argument itself, and of a reader of texts as dates. */
export type OwnExpression = (
  given: unknown,
  expression: unknown,
  readText: (given: { readonly [name: string]: unknown }) => unknown,
) => unknown;

/** The decimals that a number can have in `toFixed`, and above which it has none. */
const DECIMALS_MAX = 100;
const WHOLE_FROM = 1e21;
const PLACE_MIN = -20;

/** Types in MongoDB's order. */
const TYPES = [
  undefined,
  "null",
  "number",
  "string",
  "object",
  "array",
  "other",
  "boolean",
  "date",
  "regexp",
];

export const VALUES: { readonly [name: string]: OwnExpression } = {
  $cmp: (given, expression) => Math.sign(orderOf(...pairIn("$cmp", given, expression))),
  $eq: comparison("$eq", (order) => order === 0),
  $ne: comparison("$ne", (order) => order !== 0),
  $gt: comparison("$gt", (order) => order > 0),
  $gte: comparison("$gte", (order) => order >= 0),
  $lt: comparison("$lt", (order) => order < 0),
  $lte: comparison("$lte", (order) => order <= 0),
  $round: rounding("$round", false),
  $trunc: rounding("$trunc", true),
  $type: (given, expression) => typeNameOf(onlyOf(given, expression)),
  $mod: remainder,
  $size: (given, expression) => {
    const list = onlyOf(given, expression);
    if (Array.isArray(list)) return list.length;
    throw new Error(`$size wants a list, found ${typeNameOf(list)}`);
  },
  $first: (given, expression) => elementOf("$first", onlyOf(given, expression), 0),
  $last: (given, expression) => elementOf("$last", onlyOf(given, expression), -1),
  $mergeObjects: (given, expression) =>
    mergedObjects(Array.isArray(expression) ? given as unknown[] : [given]),
  $toLower: (given) => textOf("$toLower", given).toLowerCase(),
  $toUpper: (given) => textOf("$toUpper", given).toUpperCase(),
  $indexOfCP: indexOfText,
  $substr: partOfText,
  $substrBytes: partOfText,
};

/**
 * In MongoDB's order of all types: a missing value is the least, then null, numbers (NaN first), texts, objects, lists,
 * truths, dates.
 */
export function orderOf(one: unknown, other: unknown): number {
  if (typeof one === "string" && typeof other === "string") return inOrder(one, other);
  const type = typeOf(one);
  const difference = TYPES.indexOf(type) - TYPES.indexOf(typeOf(other));
  if (difference !== 0) return difference;
  if (type === "array") return orderOfLists(one as unknown[], other as unknown[]);
  if (type === "object") {
    const [fields, others] = [one, other].map((each) => Object.entries(each as object)) as [
      unknown[],
      unknown[],
    ];
    return orderOfLists(fields, others);
  }
  if (type === "number" && (Number.isNaN(one) || Number.isNaN(other))) {
    return Number(Number.isNaN(other)) - Number(Number.isNaN(one));
  }
  if (type === "other" || type === "regexp") return inOrder(String(one), String(other));
  return inOrder(one as number, other as number);
}

function inOrder<Value extends number | string>(one: Value, other: Value): number {
  return Number(one > other) - Number(one < other);
}

function orderOfLists(list: readonly unknown[], others: readonly unknown[]): number {
  for (const [at, one] of list.entries()) {
    if (at >= others.length) return 1;
    const order = orderOf(one, others[at]);
    if (order !== 0) return order;
  }
  return list.length - others.length;
}

function typeOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (value instanceof Date) return "date";
  if (value instanceof RegExp) return "regexp";
  if (typeof value === "bigint") return "number";
  if (typeof value === "object") return isPlainObject(value) ? "object" : "other";
  return TYPES.includes(typeof value) ? typeof value : "other";
}

/** MongoDB's name of the type of a value. All numbers of readings are doubles. */
export function typeNameOf(value: unknown): string {
  const type = typeOf(value);
  if (typeof value === "bigint") return "long";
  const others: { readonly [kind: string]: string } = { Binary: "binData", ObjectId: "objectId" };
  const kind = type === "other" ? String((value as { readonly _bsontype?: unknown })._bsontype) : "";
  const names: { readonly [type: string]: string } = {
    number: "double",
    boolean: "bool",
    regexp: "regex",
    other: others[kind] ?? kind.toLowerCase(),
  };
  return type === undefined ? "missing" : names[type] ?? type;
}

function comparison(name: string, isWanted: (order: number) => boolean): OwnExpression {
  return (given, expression) => isWanted(orderOf(...pairIn(name, given, expression)));
}

function pairIn(name: string, given: unknown, expression: unknown): [unknown, unknown] {
  if (!Array.isArray(expression) || expression.length !== 2) throw new Error(`${name} wants two values`);
  return given as [unknown, unknown];
}

/** A number and a date as texts, and nothing as an empty one. */
function textOf(name: string, given: unknown): string {
  const value = Array.isArray(given) && given.length === 1 ? given[0] : given;
  if (isNothing(value)) return "";
  if (value instanceof Date) return value.toISOString();
  if (typeof value === "string" || typeof value === "number") return String(value);
  throw new Error(`${name} wants a text, found ${JSON.stringify(value)}`);
}

/** The place of a text in another one, in characters; null without a text, and -1 if it is not there. */
function indexOfText(given: unknown): number | null {
  const [text, part, from = 0, to = Infinity] = Array.isArray(given) ? given as unknown[] : [];
  if (isNothing(text)) return null;
  if (
    typeof text !== "string" || typeof part !== "string" || typeof from !== "number" || typeof to !== "number"
  ) {
    throw new Error("$indexOfCP wants two texts, and numbers of characters");
  }
  const within = [...text].slice(0, to);
  const at = within.slice(from).join("").indexOf(part);
  return at < 0 || from > within.length ? -1 : from + [...within.slice(from).join("").slice(0, at)].length;
}

/** Bytes of a text, number or date. A length below 0, or beyond the end, is that up to the end. */
function partOfText(given: unknown): string {
  const [value, from, length] = Array.isArray(given) ? given as unknown[] : [];
  if (typeof from !== "number" || from < 0 || typeof length !== "number") {
    throw new Error("$substrBytes wants a text, a start and a length");
  }
  const bytes = new TextEncoder().encode(textOf("$substrBytes", value));
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return decoder.decode(bytes.subarray(from, length < 0 ? undefined : from + length));
  } catch {
    throw new Error("$substrBytes begins or ends inside a character: use $substrCP");
  }
}

/** The value of the only argument, which may be in a list. */
function onlyOf(given: unknown, expression: unknown): unknown {
  return Array.isArray(expression) && expression.length === 1 ? (given as unknown[])[0] : given;
}

/** Later ones win; null and missing values do not count. */
export function mergedObjects(values: readonly unknown[]): object {
  const objects = values.filter((one) => !isNothing(one));
  if (objects.every(isPlainObject)) return Object.assign({}, ...objects);
  throw new Error("$mergeObjects wants objects");
}

/** An element that may itself be a list; null without a list. */
function elementOf(name: string, list: unknown, at: 0 | -1): unknown {
  if (isNothing(list)) return null;
  if (Array.isArray(list)) return list.at(at);
  throw new Error(`${name} wants a list, found ${typeNameOf(list)}`);
}

/** A missing value, or null. */
export function isNothing(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

function remainder(given: unknown, expression: unknown): number | null {
  const [value, divisor] = pairIn("$mod", given, expression);
  if (isNothing(value) || isNothing(divisor)) return null;
  if (typeof value !== "number" || typeof divisor !== "number") throw new Error("$mod wants numbers");
  if (divisor === 0) throw new Error("$mod wants another divisor than 0");
  return value % divisor;
}

function rounding(name: string, cuts: boolean): OwnExpression {
  return (given, expression) => {
    const [value, place = 0] = Array.isArray(expression) ? given as unknown[] : [given];
    if (isNothing(value) || place === null) return null;
    if (typeof value !== "number") throw new Error(`${name} wants a number, found ${JSON.stringify(value)}`);
    if (!Number.isInteger(place) || Number(place) < PLACE_MIN || Number(place) > DECIMALS_MAX) {
      throw new Error(`${name} wants a whole place from ${PLACE_MIN} to ${DECIMALS_MAX}`);
    }
    return rounded(value, Number(place), cuts);
  };
}

/** By the exact value of the number, whose halves go to the even neighbour. */
function rounded(value: number, place: number, cuts: boolean): number {
  const size = Math.abs(value);
  if (!(size < WHOLE_FROM) || place >= 0 && Number.isInteger(value)) return value;
  // A number that is not about half-way needs no exact digits.
  if (!cuts && place >= 0 && place < DECIMALS_MAX && !size.toFixed(place + 1).endsWith("5")) {
    return Math.sign(value) * Number(size.toFixed(place));
  }
  const unit = 10n ** BigInt(DECIMALS_MAX - place);
  const exact = BigInt(size.toFixed(DECIMALS_MAX).replace(".", ""));
  let units = exact / unit;
  const rest = 2n * (exact % unit);
  if (!cuts && (rest > unit || rest === unit && units % 2n === 1n)) units++;
  return Math.sign(value) * Number(`${units}e${-place}`);
}
