/**
 * Aggregations by mingo, with MongoDB's rule for NaN, which counts as a number there: a sum, a mean or a deviation of
 * numbers with a NaN is NaN. Values that are no numbers do not count.
 */

import { Aggregator } from "mingo/aggregator";
import { Context } from "mingo/core";
import * as accumulators from "mingo/operators/accumulator";
import * as expressions from "mingo/operators/expression";
import * as stages from "mingo/operators/pipeline";
import * as projections from "mingo/operators/projection";
import * as queries from "mingo/operators/query";
import * as windows from "mingo/operators/window";
import type { PipelineStage } from "./sql.ts";

type Document = { [name: string]: unknown };
type Accumulator = typeof accumulators.$push;

const { $push } = accumulators;
const OWN: { readonly [name: string]: Accumulator } = {
  $sum: ofNumbers(totalOf),
  $avg: ofNumbers((numbers) => numbers.length > 0 ? totalOf(numbers) / numbers.length : null),
  $stdDevPop: ofNumbers((numbers) => deviationOf(numbers, 0)),
  $stdDevSamp: ofNumbers((numbers) => deviationOf(numbers, 1)),
};

/** Runs stages over documents. `scriptEnabled` is for the library itself, which makes functions for windows. */
export function aggregate(pipeline: readonly PipelineStage[], documents: Document[]): Document[] {
  const context = Context.init(
    {
      accumulator: { ...accumulators, ...OWN },
      expression: expressions,
      pipeline: stages,
      projection: projections,
      query: queries,
      window: windows,
    } as Parameters<typeof Context.init>[0],
  );
  return new Aggregator([...pipeline], { context, scriptEnabled: true }).run(documents);
}

function ofNumbers(result: (numbers: readonly number[]) => number | null): Accumulator {
  return (documents, expression, options) => {
    const values = $push(documents, expression, options);
    return result(values.filter((one) => typeof one === "number")) as never;
  };
}

function totalOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}

/** Of a population, or of a sample with `less` 1; null if there are too few numbers. */
function deviationOf(numbers: readonly number[], less: 0 | 1): number | null {
  if (numbers.length <= less) return null;
  const mean = totalOf(numbers) / numbers.length;
  const squares = numbers.map((one) => (one - mean) ** 2);
  return Math.sqrt(totalOf(squares) / (numbers.length - less));
}
