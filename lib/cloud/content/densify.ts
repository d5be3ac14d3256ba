/**
 * MongoDB's `$densify`. Mingo's own one ends at the last document in place of the upper bound, lets months end on other
 * days, and wants a text as the value of a partition. Pure.
 */

import { later, unitIn } from "./date_operators.ts";
import { withField } from "./fields.ts";
import { isNothing, orderOf } from "./value_operators.ts";
import { isPlainObject } from "./answer.ts";

type Document = { [name: string]: unknown };
type Value = number | Date;

/** MongoDB's own limit. */
const MADE_MAX = 500_000;

interface Wanted {
  readonly field: string;
  readonly partitions: readonly string[];
  readonly step: number;
  readonly unit: string | undefined;
  readonly bounds: "full" | "partition" | readonly [Value, Value];
}

/** Documents without the field come first, unchanged; others are sorted by partition and field. */
export function densified(documents: readonly Document[], expression: unknown): Document[] {
  const wanted = wantedIn(expression);
  const { field, partitions, bounds } = wanted;
  const without: Document[] = [];
  const found: { readonly document: Document; readonly value: Value; readonly keys: unknown[] }[] = [];
  for (const document of documents) {
    const value = at(document, field);
    if (isNothing(value)) {
      without.push(document);
      continue;
    }
    const keys = partitions.map((one) => at(document, one));
    found.push({ document, value: checked(value, wanted), keys });
  }
  found.sort((a, b) => orderOf(a.keys, b.keys) || orderOf(a.value, b.value));

  const values = found.map(({ value }) => value).sort(orderOf);
  const [least, most] = [values[0], values.at(-1)];
  const made: Document[] = [];
  let count = 0;
  const groups = Map.groupBy(found, ({ keys }, index) => {
    const before = found[index - 1];
    if (!before || orderOf(before.keys, keys) !== 0) count++;
    return count;
  });
  // Fixed bounds are filled also where there is no document, if there are no partitions.
  if (groups.size === 0 && typeof bounds !== "string" && partitions.length === 0) groups.set(0, []);
  let left = MADE_MAX;
  for (const group of groups.values()) {
    const own = [group[0]?.value, group.at(-1)?.value] as const;
    const named = { full: [least, most] as const, partition: own };
    const [first, last] = typeof bounds === "string" ? named[bounds] : bounds;
    let next = 0;
    for (let n = 0; first !== undefined && last !== undefined; n++) {
      const value = moved(first, n, wanted);
      if (orderOf(value, last) >= 0) break;
      for (; next < group.length && orderOf(group[next]?.value, value) < 0; next++) {
        made.push(group[next]!.document);
      }
      if (next < group.length && orderOf(group[next]?.value, value) === 0) continue;
      if (left-- === 0) {
        throw new Error(`$densify would make more than ${MADE_MAX} documents: use a longer step`);
      }
      made.push(madeOf(wanted, value, group[0]?.keys ?? []));
    }
    for (const { document } of group.slice(next)) made.push(document);
    // The end of a full range is a document of each partition.
    const isOpen = bounds === "full" && last !== undefined && orderOf(group.at(-1)?.value, last) < 0;
    if (isOpen && isOnGrid(first, last, wanted)) made.push(madeOf(wanted, last, group[0]?.keys ?? []));
  }
  return [...without, ...made];
}

function isOnGrid(first: Value | undefined, last: Value, wanted: Wanted): boolean {
  if (first === undefined) return false;
  const away = Number(last) - Number(first);
  const length = Number(moved(first, 1, wanted)) - Number(first);
  const near = Math.round(away / length);
  return [near - 1, near, near + 1].some((n) => orderOf(moved(first, n, wanted), last) === 0);
}

function moved(first: Value, steps: number, { step, unit }: Wanted): Value {
  return first instanceof Date
    ? later(first, unit ?? "millisecond", steps * step, undefined)
    : first + steps * step;
}

function madeOf({ field, partitions }: Wanted, value: Value, keys: readonly unknown[]): Document {
  const document = partitions.reduce<Document>(
    (result, name, index) => withField(result, name.split("."), keys[index]),
    {},
  );
  return withField(document, field.split("."), value);
}

function wantedIn(expression: unknown): Wanted {
  const { field, partitionByFields: partitions = [], range } = isPlainObject(expression) ? expression : {};
  const { step, unit, bounds } = isPlainObject(range) ? range : {};
  if (typeof field !== "string" || field === "") throw new Error("$densify wants a field");
  if (!Array.isArray(partitions) || !partitions.every((one) => typeof one === "string")) {
    throw new Error("$densify wants a list of names as partitionByFields");
  }
  if (typeof step !== "number" || !(step > 0) || unit !== undefined && !Number.isInteger(step)) {
    throw new Error("$densify wants a step above 0, which is whole for a unit");
  }
  const wanted = { field, partitions, step, unit: unit === undefined ? undefined : unitIn(unit) };
  if (bounds === "full" || bounds === "partition") {
    if (bounds === "partition" && partitions.length === 0) {
      throw new Error('$densify wants partitionByFields with the bounds "partition"');
    }
    return { ...wanted, bounds };
  }
  const [lower, upper, ...more] = Array.isArray(bounds) ? bounds : [];
  if (lower === undefined || upper === undefined || more.length > 0 || orderOf(lower, upper) >= 0) {
    throw new Error('$densify wants the bounds "full", "partition", or two ascending ones');
  }
  return { ...wanted, bounds: [checked(lower, wanted), checked(upper, wanted)] };
}

function checked(value: unknown, { unit, field }: Pick<Wanted, "unit" | "field">): Value {
  if (unit === undefined ? typeof value === "number" : value instanceof Date) return value as Value;
  const type = unit === undefined ? "numbers, or a unit for dates" : "dates, or no unit for numbers";
  throw new Error(`$densify of "${field}" wants ${type}, found ${JSON.stringify(value)}`);
}

function at(document: Document, path: string): unknown {
  let found: unknown = document;
  for (const name of path.split(".")) found = isPlainObject(found) ? found[name] : undefined;
  return found;
}
