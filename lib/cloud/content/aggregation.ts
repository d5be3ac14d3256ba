/**
 * Aggregations by mingo, with MongoDB's rule for NaN: it counts as a number, so a sum, a mean or a deviation over a NaN
 * is NaN. Other values than numbers do not count.
 */

import { Aggregator } from "mingo/aggregator";
import { Context, evalExpr } from "mingo/core";
import * as accumulators from "mingo/operators/accumulator";
import * as expressions from "mingo/operators/expression";
import * as stages from "mingo/operators/pipeline";
import * as projections from "mingo/operators/projection";
import * as queries from "mingo/operators/query";
import * as windows from "mingo/operators/window";
import { DATES } from "./date_operators.ts";
import { densified } from "./densify.ts";
import { sampled, sortedBy } from "./sorting.ts";
import { type OwnExpression, VALUES } from "./value_operators.ts";

/** A stage of a pipeline: its operator with its argument. */
export type PipelineStage = { [operator: string]: unknown };

type Document = { [name: string]: unknown };
type Accumulator = typeof accumulators.$push;

const { $push } = accumulators;
const OWN: { readonly [name: string]: Accumulator } = {
  $sum: ofNumbers(totalOf),
  $avg: ofNumbers((numbers) => numbers.length > 0 ? totalOf(numbers) / numbers.length : null),
  $stdDevPop: ofNumbers((numbers) => deviationOf(numbers, 0)),
  $stdDevSamp: ofNumbers((numbers) => deviationOf(numbers, 1)),
  $top: (...given) => accumulators.$top(...given as Parameters<typeof accumulators.$top>)[0] as never,
  $bottom: (...given) =>
    accumulators.$bottom(...given as Parameters<typeof accumulators.$bottom>)[0] as never,
  $push: presentOf,
  $addToSet: (documents, expression, options) => {
    const values = presentOf(documents, expression, options).map((value: unknown) => ({ value }));
    return accumulators.$addToSet(values as never, "$value", options);
  },
};

/** The group of documents outside of all boundaries, if the stage has no default. */
const OUTSIDE = "outside of the boundaries";

/**
 * MongoDB's `$bucket`: a value at a boundary belongs to the bucket that begins there, and a bucket without documents is
 * left out. Mingo's own stage puts such a value into the previous bucket and shows empty buckets; here it only checks
 * the arguments.
 */
const bucketed: typeof stages.$bucket = (documents, expression, options) => {
  stages.$bucket(documents, expression, options);
  const { groupBy, boundaries, default: rest = OUTSIDE, output = { count: { $sum: 1 } } } = expression;
  const bucketIn = (first: number, last: number): unknown => {
    if (last - first === 1) return { $literal: boundaries[first] };
    const middle = (first + last) >> 1;
    const isBefore = { $lt: [groupBy, { $literal: boundaries[middle] }] };
    return { $cond: [isBefore, bucketIn(first, middle), bucketIn(middle, last)] };
  };
  const [lower, upper] = [boundaries[0], boundaries.at(-1)];
  const isWithin = {
    $and: [{ $gte: [groupBy, { $literal: lower }] }, { $lt: [groupBy, { $literal: upper }] }],
  };
  const bucket = { $cond: [isWithin, bucketIn(0, boundaries.length - 1), { $literal: rest }] };
  const groups = stages.$group(
    documents,
    { _id: bucket, ...output } as Parameters<typeof stages.$group>[1],
    options,
  );
  return stages.$sort(groups, { _id: 1 }, options).map((group) => {
    const { _id: id } = group as { _id: unknown };
    if (id !== OUTSIDE) return group;
    throw new Error("$bucket requires a default for values outside of its boundaries");
  });
};

/** MongoDB's `$count`: no documents give no answer. */
const counted: typeof stages.$count = (documents, expression, options) => {
  return stages.$count(documents, expression, options).filter((one) =>
    (one as Document)[String(expression)] !== 0
  );
};

/** A stage that needs all documents. */
function ofAll(
  result: (documents: readonly Document[], expression: unknown) => Document[],
): typeof stages.$sample {
  return (documents, expression) => {
    return documents.transform<Document>((all) => result(all, expression).values() as never);
  };
}

/**
 * MongoDB's `$linearFill`: there is no value before the first one, and none after the last one. Mingo's own one fails if
 * the first document has none. The values of a window are computed for its first document.
 */
const interpolated: typeof windows.$linearFill = (
  _,
  documents,
  { parentExpr, inputExpr, field, documentNumber },
  options,
) => {
  const kept = lines.get(documents) ?? new Map<string, (number | null)[]>();
  lines.set(documents, kept);
  let line = kept.get(field);
  if (!line || documentNumber === 1) {
    const place = `$${Object.keys(parentExpr.sortBy ?? {})[0]}`;
    const places = $push(documents, place, options).map(Number);
    line = lineOf(places, $push(documents, inputExpr, options));
    kept.set(field, line);
  }
  return line[documentNumber - 1] ?? null;
};
const lines = new WeakMap<object, Map<string, (number | null)[]>>();

/** MongoDB's `$redact`: a document that is cut away leaves nothing. */
const redacted: typeof stages.$redact = (...given) =>
  stages.$redact(...given).filter((one) => one !== undefined);

const OWN_EXPRESSIONS = Object.fromEntries(
  Object.entries({ ...DATES, ...VALUES }).map(([name, own]) => [name, evaluated(own)]),
);

function evaluated(own: OwnExpression): typeof expressions.$literal {
  return (document, expression, options) =>
    own(evalExpr(document, expression, options), expression, (given) => {
      const literals = Object.entries(given).map(([name, value]) => [name, { $literal: value }]);
      return expressions.$dateFromString({}, Object.fromEntries(literals), options);
    }) as never;
}

/** Runs stages over documents. `scriptEnabled` is for the library itself, which creates functions for windows. */
export function aggregate(pipeline: readonly PipelineStage[], documents: Document[]): Document[] {
  const context = Context.init(
    {
      accumulator: { ...accumulators, ...OWN },
      expression: { ...expressions, ...OWN_EXPRESSIONS },
      pipeline: {
        ...stages,
        $bucket: bucketed,
        $count: counted,
        $densify: ofAll(densified),
        $redact: redacted,
        $sample: ofAll(sampled),
        $sort: ofAll(sortedBy),
      },
      projection: projections,
      query: queries,
      window: { ...windows, $linearFill: interpolated },
    } as Parameters<typeof Context.init>[0],
  );
  return new Aggregator([...pipeline], { context, scriptEnabled: true }).run(documents);
}

/** The values that are there, also nulls: a list of MongoDB has no element for a document without the value. */
function presentOf(...[documents, expression, options]: Parameters<Accumulator>): ReturnType<Accumulator> {
  if (expression === undefined || expression === null) return $push(documents, expression, options);
  const found = $push(documents, { value: expression } as never, options) as Document[];
  return found.flatMap(({ value }) => value === undefined ? [] : [value]) as never;
}

function ofNumbers(result: (numbers: readonly number[]) => number | null): Accumulator {
  return (documents, expression, options) => {
    const values = $push(documents, expression, options);
    return result(values.filter((one) => typeof one === "number")) as never;
  };
}

/** The values at their places, with those between two numbers on the line between them. */
function lineOf(places: readonly number[], values: readonly unknown[]): (number | null)[] {
  const line = values.map((one) => typeof one === "number" ? one : null);
  let before = -1;
  for (const [at, value] of values.entries()) {
    if (typeof value !== "number") continue;
    const [first, from, until] = [line[before] ?? null, places[before] ?? NaN, places[at] ?? NaN];
    for (let between = before + 1; first !== null && between < at; between++) {
      line[between] = first + (value - first) * ((places[between] ?? NaN) - from) / (until - from);
    }
    before = at;
  }
  return line;
}

function totalOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}

/** The deviation of a population, or of a sample if `less` is 1; null if there are too few numbers. */
function deviationOf(numbers: readonly number[], less: 0 | 1): number | null {
  if (numbers.length <= less) return null;
  const mean = totalOf(numbers) / numbers.length;
  const squares = numbers.map((one) => (one - mean) ** 2);
  return Math.sqrt(totalOf(squares) / (numbers.length - less));
}
