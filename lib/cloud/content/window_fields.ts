/**
 * MongoDB's `$setWindowFields`. Mingo's own one lets 31 March less a month be 3 March, finds no documents in a range over
 * a field of an object, and ends a range at the current document in place of its value. Pure.
 */

import { firstIndex } from "../../base/collections/first_index.ts";
import { isPlainObject } from "./answer.ts";
import { later, unitIn } from "./date_operators.ts";
import { fieldsIn, withField } from "./fields.ts";
import { valuesOfPath } from "./sorting.ts";
import { orderOf } from "./value_operators.ts";

type Document = { [name: string]: unknown };
type Bound = number | "current" | "unbounded";

/** Operators that need an order, and those that always see their whole partition. */
const ORDERED = ["$denseRank", "$documentNumber", "$linearFill", "$rank", "$shift"];
const WHOLE = ["$denseRank", "$documentNumber", "$expMovingAvg", "$linearFill", "$locf", "$rank", "$shift"];

/** Computes a value for the document at an index of its sorted partition. */
type Compute = (window: readonly Document[], index: number, partition: readonly Document[]) => unknown;

interface Output {
  readonly path: readonly string[];
  readonly compute: Compute;
  readonly window: (partition: readonly Document[], index: number) => readonly Document[];
}

/** Finds the computation of an operator; `undefined` if there is no such operator. */
export type FindCompute = (operator: string, argument: unknown, field: string) => Compute | undefined;

/** The outputs of the stage. Throws if its arguments are unusable. */
export function outputsIn(expression: unknown, find: FindCompute): readonly Output[] {
  const { sortBy, output } = isPlainObject(expression) ? expression : {};
  if (!isPlainObject(output)) throw new Error("$setWindowFields wants an output");
  const [sortedBy, ...others] = Object.entries(isPlainObject(sortBy) ? sortBy : {});
  return Object.entries(output).map(([field, given]) => {
    const { window, ...operators } = isPlainObject(given) ? given : {};
    const [[operator, argument] = [""], ...more] = Object.entries(operators);
    const compute = more.length === 0 ? find(operator, argument, field) : undefined;
    if (!compute) throw new Error(`$setWindowFields: "${field}" wants one operator of windows`);
    if (ORDERED.includes(operator) && !sortedBy) {
      throw new Error(`$setWindowFields: ${operator} wants a sortBy`);
    }
    if (window !== undefined && WHOLE.includes(operator)) {
      throw new Error(`$setWindowFields: ${operator} wants no window`);
    }

    const { documents, range, unit } = isPlainObject(window) ? window : {};
    if (documents !== undefined && range !== undefined) {
      throw new Error("$setWindowFields wants either documents or a range in a window");
    }
    const path = fieldsIn({ [field]: { $literal: 0 } })[0]?.[0] ?? [];
    const bounds = boundsIn(documents ?? range);
    if (!bounds) return { path, compute, window: (partition) => partition };
    if (!sortedBy) throw new Error("$setWindowFields wants a sortBy for a window");
    if (documents !== undefined) return { path, compute, window: (...at) => documentsIn(bounds, ...at) };
    if (others.length > 0 || sortedBy[1] !== 1) {
      throw new Error("$setWindowFields wants one ascending field as sortBy for a range");
    }
    const names = sortedBy[0].split(".");
    const name = unit === undefined ? undefined : unitIn(unit);
    return { path, compute, window: (...at) => rangeIn(bounds, names, name, ...at) };
  });
}

/** Adds the outputs to the documents of a sorted partition. */
export function withOutputs(partition: readonly Document[], outputs: readonly Output[]): Document[] {
  return partition.map((document, index) =>
    outputs.reduce(
      (result, { path, compute, window }) =>
        withField(result, path, compute(window(partition, index), index, partition)),
      document,
    )
  );
}

/** `undefined` stands for all documents. */
function boundsIn(given: unknown): readonly [Bound, Bound] | undefined {
  if (given === undefined) return undefined;
  const isBound = (one: unknown) => one === "current" || one === "unbounded" || Number.isFinite(one);
  if (!Array.isArray(given) || given.length !== 2 || !given.every(isBound)) {
    throw new Error('$setWindowFields wants two bounds, each a number, "current" or "unbounded"');
  }
  const [from, to] = given as [Bound, Bound];
  return from === "unbounded" && to === "unbounded" ? undefined : [from, to];
}

function documentsIn([from, to]: readonly [Bound, Bound], partition: readonly Document[], index: number) {
  const [first, last] = [placeOf(from, index, 0), placeOf(to, index, partition.length - 1)];
  return partition.slice(Math.max(first, 0), Math.max(last + 1, 0));
}

function placeOf(bound: Bound, index: number, end: number): number {
  if (bound === "unbounded") return end;
  return bound === "current" ? index : index + bound;
}

/** A document without a value is in the range of others without one only. */
function rangeIn(
  [from, to]: readonly [Bound, Bound],
  names: readonly string[],
  unit: string | undefined,
  partition: readonly Document[],
  index: number,
): readonly Document[] {
  const valueOf = (document: Document | undefined) => valuesOfPath(document, names)[0] ?? null;
  const value = valueOf(partition[index]);
  const boundAt = (bound: Bound) => {
    if (typeof bound !== "number" || value === null) return value;
    if (unit === undefined ? typeof value !== "number" : !(value instanceof Date)) {
      const wanted = unit === undefined ? "numbers, or a unit for dates" : "dates, or no unit for numbers";
      throw new Error(`$setWindowFields: the range wants ${wanted}, found ${JSON.stringify(value)}`);
    }
    return unit === undefined ? Number(value) + bound : later(value as Date, unit, bound, undefined);
  };

  const [lower, upper] = [boundAt(from), boundAt(to)];
  const first = from === "unbounded"
    ? 0
    : firstIndex(partition.length, (at) => orderOf(valueOf(partition[at]), lower) >= 0);
  const after = to === "unbounded"
    ? partition.length
    : firstIndex(partition.length, (at) => orderOf(valueOf(partition[at]), upper) > 0);
  return partition.slice(first, Math.max(first, after));
}
