/**
 * MongoDB's `$sort` and `$sample`. Mingo's own ones leave documents about a NaN unsorted, sort lists down by their least
 * element, and take a document into a sample several times. Pure, but for the random numbers.
 */

import { isPlainObject } from "./answer.ts";
import { orderOf } from "./value_operators.ts";

type Document = { [name: string]: unknown };

/** A list counts with its least element upwards, and its greatest downwards; a missing value as null. Stable. */
export function sortedBy(documents: readonly Document[], expression: unknown): Document[] {
  const keys = Object.entries(isPlainObject(expression) ? expression : {});
  if (keys.length === 0 || !keys.every(([, way]) => way === 1 || way === -1)) {
    throw new Error("$sort wants fields, each with 1 or -1");
  }
  const ways = keys.map(([path, way]) => ({ names: path.split("."), way: Number(way) }));
  const rows = documents.map((document) => ({
    document,
    values: ways.map(({ names, way }) => {
      const found = valuesOfPath(document, names);
      return found.reduce((best, one) => orderOf(one, best) * way < 0 ? one : best, found[0]) ?? null;
    }),
  }));
  rows.sort((a, b) => {
    // Without an iterator: it runs some million times.
    for (let at = 0; at < ways.length; at++) {
      const order = orderOf(a.values[at], b.values[at]);
      if (order !== 0) return order * (ways[at]?.way ?? 1);
    }
    return 0;
  });
  return rows.map(({ document }) => document);
}

/** Each document at most once. */
export function sampled(documents: readonly Document[], expression: unknown): Document[] {
  const size = isPlainObject(expression) ? expression.size : undefined;
  if (typeof size !== "number" || !(size > 0)) throw new Error("$sample wants a size above 0");
  const left = [...documents];
  const taken = Math.min(Math.floor(size), left.length);
  for (let at = 0; at < taken; at++) {
    const other = at + Math.floor(Math.random() * (left.length - at));
    [left[at], left[other]] = [left[other]!, left[at]!];
  }
  return left.slice(0, taken);
}

/** The values at a path, of all elements of the lists on it. */
export function valuesOfPath(value: unknown, names: readonly string[]): unknown[] {
  const [name, ...others] = names;
  if (name === undefined) return Array.isArray(value) ? value : [value];
  if (isPlainObject(value)) return valuesOfPath(value[name], others);
  if (!Array.isArray(value)) return [];
  const elements = value.filter(isPlainObject).flatMap((one) => valuesOfPath(one, names));
  return elements.length === 0 && /^\d+$/.test(name) ? valuesOfPath(value[Number(name)], others) : elements;
}
