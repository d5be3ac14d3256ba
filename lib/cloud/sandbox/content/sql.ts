/**
 * A query in SQL, as a MongoDB aggregation pipeline over the table `readings`.
 *
 * One SELECT: columns by their paths (`data.readings.celsius`), expressions, aggregates, WHERE, GROUP BY, HAVING,
 * ORDER BY, LIMIT and OFFSET. As in every SQL, a comparison with a missing value does not hold, nor does its opposite.
 */

import { conditionOf } from "./sql_condition.ts";
import { badSql, type Expr, parsedSelect, type SelectFromStatement } from "./sql_parser.ts";
import { hasAggregate, SqlValues } from "./sql_values.ts";

export type PipelineStage = { [operator: string]: unknown };

export interface SqlPipeline {
  readonly stages: readonly PipelineStage[];
  /** Of aggregates without GROUP BY: takes the place of the group if there are no readings. */
  readonly emptyGroup?: PipelineStage;
}

/** A column of the answer. */
interface Column {
  readonly name: string;
  readonly expr: Expr;
}

interface Sorting {
  readonly expr: Expr;
  readonly direction: 1 | -1;
}

const TABLE = "readings";

/** Reads a query. Throws `invalid_argument` with what is wrong, or what is not supported. */
export function pipelineOfSql(text: string): SqlPipeline {
  const select = parsedSelect(text);
  try {
    return translated(select);
  } catch (error) {
    if (error instanceof RangeError) throw badSql("its expressions are nested too deeply");
    throw error;
  }
}

function translated(select: SelectFromStatement): SqlPipeline {
  const { where, having, distinct } = select;
  const [table, ...joined] = select.from ?? [];
  if (!table || joined.length > 0 || table.type !== "table" || table.name.name !== TABLE) {
    throw badSql(`wanted FROM ${TABLE}, which is the only table`);
  }
  const { columns, takesAll } = columnsOf(select);
  const keys = (select.groupBy ?? []).map((expr) => named(expr, columns));
  const order: readonly Sorting[] = (select.orderBy ?? []).map(({ by, order }) => {
    return { expr: named(by, columns), direction: order === "DESC" ? -1 : 1 };
  });
  const isGrouped = keys.length > 0 || having !== undefined ||
    [...columns, ...order].some(({ expr }) => hasAggregate(expr));
  if (isGrouped && takesAll) throw badSql("* does not go with GROUP BY and aggregates: name the columns");

  const tables = [TABLE, table.name.alias].filter((name) => name !== undefined);
  const values = new SqlValues(tables, isGrouped ? keys : undefined);
  const kept: PipelineStage[] = having ? [{ $match: { $expr: values.of(having) } }] : [];
  const shown = projection(columns, takesAll, values);
  const sorted = distinct ? sortedAnswer(order, columns) : sortedReadings(order, values);
  const cut = cutOf(select);
  const rest = distinct
    ? [...kept, ...shown, { $group: { _id: "$$ROOT" } }, { $replaceWith: "$_id" }, ...sorted, ...cut]
    : [...kept, ...sorted, ...cut, ...shown];
  const matched: PipelineStage[] = where ? [{ $match: conditionOf(where, new SqlValues(tables)) }] : [];
  if (!isGrouped) return { stages: [...matched, ...rest] };
  const stages = [...matched, { $group: values.group() }, ...rest];
  return keys.length > 0 ? { stages } : { stages, emptyGroup: values.emptyGroup() };
}

function columnsOf({ columns: list, distinct }: SelectFromStatement) {
  if (distinct && distinct !== "all" && distinct !== "distinct") {
    throw badSql("DISTINCT ON is not supported");
  }
  const isStar = (expr: Expr) => expr.type === "ref" && expr.name === "*";
  const columns: Column[] = [];
  let unnamed = 0;
  for (const { expr, alias } of list ?? []) {
    if (isStar(expr)) continue;
    // As the published service calls expressions without a name: _1, _2…
    const name = alias?.name ?? fieldName(expr) ?? `_${++unnamed}`;
    if (!/^[^$.][^.]*$/.test(name) || name === "__proto__") {
      throw badSql(`a column cannot be called "${name}"; give it another name with AS`);
    }
    if (columns.some((one) => one.name === name)) {
      throw badSql(`two columns are called "${name}"; give one another name with AS`);
    }
    columns.push({ name, expr });
  }
  return { columns, takesAll: (list ?? []).some(({ expr }) => isStar(expr)) };
}

/** The last part of a field's name; `undefined` for any other expression. */
function fieldName(expr: Expr): string | undefined {
  return expr.type === "ref" ? expr.name.split(".").at(-1)! : undefined;
}

/** The expression behind a column's name or number, or the expression itself. */
function named(expr: Expr, columns: readonly Column[]): Expr {
  if (expr.type === "integer") {
    const column = columns[expr.value - 1];
    if (column) return column.expr;
    throw badSql(`found column number ${expr.value} of ${columns.length}`);
  }
  const found = expr.type === "ref" && columns.find(({ name }) => name === expr.name);
  return found ? found.expr : expr;
}

function projection(columns: readonly Column[], takesAll: boolean, values: SqlValues): PipelineStage[] {
  const shown = Object.fromEntries(columns.map(({ name, expr }) => [name, values.of(expr)]));
  if (!takesAll) return [{ $replaceWith: shown }];
  const helpers = { $unset: [SORT_FIELD] };
  return columns.length > 0 ? [{ $set: shown }, helpers] : [helpers];
}

/** Holds the values of a sort that are no fields. */
const SORT_FIELD = "sorted by";

function sortedReadings(order: readonly Sorting[], values: SqlValues): PipelineStage[] {
  if (order.length === 0) return [];
  const computed = order.map(({ expr }, index) => [`by${index}`, values.of(expr)]);
  const sort = order.map(({ direction }, index) => [`${SORT_FIELD}.by${index}`, direction]);
  return [{ $set: { [SORT_FIELD]: Object.fromEntries(computed) } }, { $sort: Object.fromEntries(sort) }];
}

function sortedAnswer(order: readonly Sorting[], columns: readonly Column[]): PipelineStage[] {
  if (order.length === 0) return [];
  const sort = order.map(({ expr, direction }) => {
    const column = columns.find((one) => JSON.stringify(one.expr) === JSON.stringify(expr));
    if (column) return [column.name, direction];
    throw badSql("with DISTINCT, ORDER BY takes only columns of the answer");
  });
  return [{ $sort: Object.fromEntries(sort) }];
}

function cutOf({ limit }: SelectFromStatement): PipelineStage[] {
  const count = (what: string, expr: Expr) => {
    if (expr.type === "integer" && expr.value >= 0) return expr.value;
    throw badSql(`${what} wants a whole number`);
  };
  return [
    ...limit?.offset ? [{ $skip: count("OFFSET", limit.offset) }] : [],
    ...limit?.limit ? [{ $limit: count("LIMIT", limit.limit) }] : [],
  ];
}
