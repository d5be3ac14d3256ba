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
import { messageOf } from "../../base/error.ts";
import { isPlainObject } from "./answer.ts";
import { conditionsOver, type PlainConditions } from "./conditions.ts";
import { DATES } from "./date_operators.ts";
import { densified } from "./densify.ts";
import { fieldsIn, withField } from "./fields.ts";
import { sampled, sortedBy } from "./sorting.ts";
import { isNothing, mergedObjects, orderOf, type OwnExpression, VALUES } from "./value_operators.ts";
import { projectionOf, unwindingOf } from "./projection.ts";
import { outputsIn, withOutputs } from "./window_fields.ts";

/** A stage of a pipeline: its operator with its argument. */
export type PipelineStage = { [operator: string]: unknown };

type Document = { [name: string]: unknown };
type Accumulator = typeof accumulators.$push;
type Expression = typeof expressions.$literal;

const { $push } = accumulators;

/** Results of values: of each document in a group or a window, else of the arguments or of the elements of a list. */
const REDUCTIONS: { readonly [name: string]: (values: readonly unknown[]) => unknown } = {
  $sum: ofNumbers(totalOf),
  $avg: ofNumbers((numbers) => numbers.length > 0 ? totalOf(numbers) / numbers.length : null),
  $stdDevPop: ofNumbers((numbers) => deviationOf(numbers, 0)),
  $stdDevSamp: ofNumbers((numbers) => deviationOf(numbers, 1)),
  $max: (values) => farthestOf(values, 1),
  $min: (values) => farthestOf(values, -1),
};
const OWN: { readonly [name: string]: Accumulator } = {
  ...Object.fromEntries(
    Object.entries(REDUCTIONS).map(([name, result]): [string, Accumulator] => [
      name,
      (documents, expression, options) => result($push(documents, expression, options)) as never,
    ]),
  ),
  $top: (...given) => accumulators.$top(...given as Parameters<typeof accumulators.$top>)[0] as never,
  $bottom: (...given) =>
    accumulators.$bottom(...given as Parameters<typeof accumulators.$bottom>)[0] as never,
  $mergeObjects: (documents, expression, options) =>
    mergedObjects($push(documents, expression, options)) as never,
  $covariancePop: ofPairs(0),
  $covarianceSamp: ofPairs(1),
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

/** MongoDB's `$set`, whose expressions all see the document as it was. */
const fieldsSet: typeof stages.$addFields = (documents, expression, options) => {
  const fields = fieldsIn(expression);
  return documents.map((document) =>
    fields.reduce(
      (result, [path, value]) => withField(result, path, evalExpr(document, value, options)),
      document as Document,
    )
  );
};

const ACCUMULATORS = { ...accumulators, ...OWN } as unknown as { readonly [name: string]: Accumulator };
const WINDOWS = { ...windows, $linearFill: interpolated } as unknown as {
  readonly [name: string]: typeof windows.$shift;
};

const windowed: typeof stages.$setWindowFields = (documents, expression, options) => {
  const { sortBy, partitionBy } = expression;
  const parentExpr = { ...expression, sortBy: sortBy ?? {} };
  const outputs = outputsIn(expression, (operator, argument, field) => {
    const accumulate = ownIn(ACCUMULATORS, operator);
    if (accumulate) {
      // A window that is the whole partition has one value for all documents.
      const values = new WeakMap<object, unknown>();
      return (window, _, partition) => {
        if (values.has(window)) return values.get(window);
        const value = accumulate([...window], argument as never, options);
        if (window === partition) values.set(partition, value);
        return value;
      };
    }
    const compute = ownIn(WINDOWS, operator);
    if (!compute) return undefined;
    return (window, index, partition) => {
      const given = { parentExpr, inputExpr: argument, documentNumber: index + 1, field };
      return compute(partition[index] as never, window as never, given as never, options);
    };
  });
  const sorted = sortBy && Object.keys(sortBy).length > 0
    ? ofAll(sortedBy)(documents, sortBy as never, options)
    : documents;
  const group = { _id: partitionBy, items: { $push: "$$CURRENT" } };
  return stages.$group(sorted, group as never, options).transform((groups) =>
    groups.flatMap((one) => withOutputs((one as { items: Document[] }).items, outputs)).values() as never
  );
};

/** MongoDB's `$fill`, by the stages above: mingo's own one changes the parts that documents share. */
const filled: typeof stages.$fill = (documents, expression, options) => {
  const { output, sortBy, partitionBy, partitionByFields: names } = expression;
  if (!isPlainObject(output) || partitionBy && names) {
    throw new Error("$fill wants an output, and at most one of partitionBy and partitionByFields");
  }
  const methods: Document = {};
  const values: Document = {};
  for (const [field, given] of Object.entries(output) as [string, Document][]) {
    const operator = ownIn(FILL_METHODS, String(given.method));
    if ("value" in given) values[field] = { $ifNull: [`$${field}`, given.value] };
    else if (operator && sortBy) methods[field] = { [operator]: `$${field}` };
    else throw new Error(`$fill: "${field}" wants a value, or the method locf or linear and a sortBy`);
  }
  const partition = partitionBy ?? names?.map((name) => `$${name}`);
  const continued = Object.keys(methods).length === 0
    ? documents
    : windowed(documents, { sortBy, partitionBy: partition, output: methods } as never, options);
  return Object.keys(values).length === 0 ? continued : fieldsSet(continued, values as never, options);
};
const FILL_METHODS = { locf: "$locf", linear: "$linearFill" };

/** MongoDB's `$unset`: mingo's own one removes fields from shared parts, too. */
const fieldsLeftOut: typeof stages.$unset = (documents, expression) => {
  const names: readonly unknown[] = [expression].flat();
  if (names.length === 0 || !names.every((name) => typeof name === "string" && name !== "")) {
    throw new Error("$unset wants the name of a field, or a list of them");
  }
  const paths = names.map((name) => String(name).split("."));
  return documents.map((document) =>
    paths.reduce((result, path) => withField(result, path, undefined), document as Document)
  );
};

const projected: typeof stages.$project = (documents, expression, options) => {
  const project = projectionOf(
    expression,
    (document, value) => evalExpr(document, value as never, options),
  );
  return documents.map((document) => project(document as Document));
};

const unwound: typeof stages.$unwind = (documents, expression) => {
  const unwind = unwindingOf(expression);
  return ofAll((all) => all.flatMap(unwind))(documents, expression as never, undefined as never);
};

/** MongoDB's `$group`, which refuses a field without an accumulator; mingo gives a list of its values. */
const grouped: typeof stages.$group = (documents, expression, options) => {
  for (const [name, given] of Object.entries(expression)) {
    const [operator = "", ...others] = isPlainObject(given) ? Object.keys(given) : [];
    const isUsable = !/[.$]/.test(name) && others.length === 0 && ownIn(ACCUMULATORS, operator);
    if (name !== "_id" && !isUsable) {
      throw new Error(
        `$group: "${name}" wants a name without "." and "$", and one accumulator, such as $sum`,
      );
    }
  }
  return stages.$group(documents, expression, options);
};

/** Numbers for which mingo gives infinity, or no number. */
const DOMAINS: { readonly [name: string]: (...numbers: readonly number[]) => boolean } = {
  $ln: (number = 1) => !(number <= 0),
  $log: (number = 1, base = 10) => !(number <= 0) && !(base <= 0) && base !== 1,
  $log10: (number = 1) => !(number <= 0),
  $acos: (number = 0) => !(Math.abs(number) > 1),
  $asin: (number = 0) => !(Math.abs(number) > 1),
  $acosh: (number = 1) => !(number < 1),
  $atanh: (number = 0) => !(Math.abs(number) > 1),
};

/** Expressions of one value, which may be given in a list. */
const UNARY = [
  "$abs",
  "$arrayToObject",
  "$asinh",
  "$atan",
  "$bitNot",
  "$ceil",
  "$cos",
  "$cosh",
  "$degreesToRadians",
  "$exp",
  "$floor",
  "$isNumber",
  "$objectToArray",
  "$radiansToDegrees",
  "$reverseArray",
  "$sin",
  "$sinh",
  "$sqrt",
  "$strLenBytes",
  "$strLenCP",
  "$tan",
  "$tanh",
  "$toBool",
  "$toDecimal",
  "$toDouble",
  "$toInt",
  "$toLong",
  "$toString",
];

/** MongoDB's names for dates as the target of a conversion. */
const DATE_TYPES: readonly unknown[] = ["date", 9];

const PLAIN_EXPRESSIONS = expressions as unknown as { readonly [name: string]: Expression };

const OWN_EXPRESSIONS = {
  ...Object.fromEntries(UNARY.map((name) => [name, ofOne(PLAIN_EXPRESSIONS[name]!)])),
  ...mapped({ ...DATES, ...VALUES }, evaluated),
  ...mapped(REDUCTIONS, reduced),
  ...mapped(DOMAINS, withDomain),
  $convert: converted,
  $slice: sliced,
  $toDate: (...[document, expression, options]: Parameters<Expression>) =>
    converted(document, { input: expression, to: "date" } as never, options),
  $switch: chosen,
};

function ownIn<Value>(values: { readonly [name: string]: Value }, name: string): Value | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

function mapped<Value>(
  values: { readonly [name: string]: Value },
  map: (name: string, value: Value) => Expression,
) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(name, value)]));
}

/** A group gives its documents, as a list, to the expression of the same name. */
function evaluated(name: string, own: OwnExpression): Expression {
  return (document, expression, options) => {
    const accumulate = Array.isArray(document) ? ownIn(ACCUMULATORS, name) : undefined;
    if (accumulate) return accumulate(document as never, expression as never, options) as never;
    return own(evalExpr(document, expression, options), expression, (given) => {
      const literals = Object.entries(given).map(([name, value]) => [name, { $literal: value }]);
      return expressions.$dateFromString({}, Object.fromEntries(literals), options);
    }) as never;
  };
}

function reduced(name: string, result: (values: readonly unknown[]) => unknown): Expression {
  return (document, expression, options) => {
    if (Array.isArray(document)) return OWN[name]?.(document, expression as never, options) as never;
    const value = evalExpr(document, expression, options);
    const given: unknown = Array.isArray(expression) && expression.length === 1
      ? (value as unknown[])[0]
      : value;
    return result(Array.isArray(given) ? given : [given]) as never;
  };
}

function withDomain(name: string, isIn: (...numbers: readonly number[]) => boolean): Expression {
  const compute = ofOne(PLAIN_EXPRESSIONS[name]!);
  return (document, expression, options) => {
    const values = [evalExpr(document, expression, options)].flat();
    if (values.every((one) => typeof one === "number") && !isIn(...values)) {
      throw new Error(`${name} is not defined for ${values.join(", ")}`);
    }
    return compute(document, expression, options);
  };
}

/** Mingo takes a list with one argument for the argument: `[0, 1]` is a value there, `["$x"]` none. */
function ofOne(compute: Expression): Expression {
  return (document, expression, options) => {
    const [only, ...others] = Array.isArray(expression) ? expression as unknown[] : [expression, expression];
    return compute(document, (others.length === 0 ? only : expression) as never, options);
  };
}

/** MongoDB's `$convert`, which takes texts without a time zone as UTC; mingo takes them in that of this computer. */
function converted(...[document, expression, options]: Parameters<Expression>): ReturnType<Expression> {
  const { input, to, ...rest } = expression as unknown as Document;
  const only: unknown = Array.isArray(input) && input.length === 1 ? input[0] : input;
  const value = evalExpr(document, only as never, options) as unknown;
  const wanted = evalExpr(document, to as never, options) as unknown;
  if (typeof value === "string" && DATE_TYPES.includes(wanted)) {
    const given = { ...rest, dateString: { $literal: value } };
    return evalExpr(document, { $dateFromString: given } as never, options) as never;
  }
  const plain = { ...rest, input: { $literal: value }, to: { $literal: wanted } };
  return expressions.$convert(document, plain as never, options) as never;
}

/** MongoDB's `$slice`: without a list or a number there is no part. */
function sliced(...[document, expression, options]: Parameters<Expression>): ReturnType<Expression> {
  const given = evalExpr(document, expression, options) as unknown;
  if (Array.isArray(given) && given.length > 1 && given.some(isNothing)) return null as never;
  return expressions.$slice(document, expression, options);
}

/** MongoDB's `$switch`: without a matching branch it wants a default. */
function chosen(...[document, expression, options]: Parameters<Expression>): ReturnType<Expression> {
  const given = expression as unknown as { readonly branches?: unknown; readonly default?: unknown };
  if (!Array.isArray(given.branches) || given.branches.length === 0) {
    throw new Error("$switch wants branches");
  }
  for (const { case: condition, then } of given.branches) {
    const value = evalExpr(document, condition, options);
    if (!isNothing(value) && value !== false && value !== 0) {
      return evalExpr(document, then, options) as never;
    }
  }
  if (!("default" in given)) throw new Error("$switch found no branch that matches, and has no default");
  return evalExpr(document, given.default, options) as never;
}

/** A stage whose argument is a whole number from a least one on. */
function ofCount(name: string, least: number, stage: typeof stages.$limit): typeof stages.$limit {
  return (documents, expression, options) => {
    if (Number.isInteger(expression) && expression >= least) return stage(documents, expression, options);
    throw new Error(`${name} wants a whole number from ${least} on, found ${JSON.stringify(expression)}`);
  };
}

/** Runs stages over documents. `scriptEnabled` is for the library itself, which creates functions for windows. */
export function aggregate(pipeline: readonly PipelineStage[], documents: Document[]): Document[] {
  const context = Context.init(
    {
      accumulator: ACCUMULATORS,
      expression: { ...expressions, ...OWN_EXPRESSIONS },
      pipeline: {
        ...stages,
        $addFields: fieldsSet,
        $bucket: bucketed,
        $count: counted,
        $densify: ofAll(densified),
        $fill: filled,
        $group: grouped,
        $limit: ofCount("$limit", 1, stages.$limit),
        $project: projected,
        $redact: redacted,
        $sample: ofAll(sampled),
        $set: fieldsSet,
        $setWindowFields: windowed,
        $skip: ofCount("$skip", 0, stages.$skip),
        $sort: ofAll(sortedBy),
        $unset: fieldsLeftOut,
        $unwind: unwound,
      },
      projection: projections,
      query: { ...queries, ...conditionsOver(queries as unknown as PlainConditions) },
      window: WINDOWS,
    } as Parameters<typeof Context.init>[0],
  );
  try {
    return new Aggregator([...pipeline], { context, scriptEnabled: true }).run(documents);
  } catch (error) {
    const [, missing] = /'(\$\w+)' is not registered/.exec(messageOf(error)) ?? [];
    throw missing ? new Error(`the operator ${missing} is not supported`, { cause: error }) : error;
  }
}

/** The values that are there, also nulls: a list of MongoDB has no element for a document without the value. */
function presentOf(...[documents, expression, options]: Parameters<Accumulator>): ReturnType<Accumulator> {
  if (isNothing(expression)) return $push(documents, expression, options);
  const found = $push(documents, { value: expression } as never, options) as Document[];
  return found.flatMap(({ value }) => value === undefined ? [] : [value]) as never;
}

function ofNumbers(result: (numbers: readonly number[]) => number | null) {
  return (values: readonly unknown[]) => result(values.filter((one) => typeof one === "number"));
}

/** The greatest value, or the least one, in MongoDB's order; null and missing values do not count. */
function farthestOf(values: readonly unknown[], way: 1 | -1): unknown {
  const present = values.filter((one) => !isNothing(one));
  return present.reduce((most, one) => orderOf(one, most) * way > 0 ? one : most, present[0]) ?? null;
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

/** The covariance of a population, or of a sample if `less` is 1, over the pairs of numbers. */
function ofPairs(less: 0 | 1): Accumulator {
  return (documents, expression, options) => {
    const isPair = (one: unknown) =>
      Array.isArray(one) && one.length === 2 && one.every((each) => typeof each === "number");
    const pairs = ($push(documents, expression, options) as [number, number][]).filter(isPair);
    if (pairs.length <= less) return null as never;
    const [first, second] = [0, 1].map((at) => totalOf(pairs.map((pair) => pair[at]!)) / pairs.length);
    const products = pairs.map(([one, other]) => (one - first!) * (other - second!));
    return totalOf(products) / (pairs.length - less) as never;
  };
}

/** The deviation of a population, or of a sample if `less` is 1; null if there are too few numbers. */
function deviationOf(numbers: readonly number[], less: 0 | 1): number | null {
  if (numbers.length <= less) return null;
  const mean = totalOf(numbers) / numbers.length;
  const squares = numbers.map((one) => (one - mean) ** 2);
  return Math.sqrt(totalOf(squares) / (numbers.length - less));
}
