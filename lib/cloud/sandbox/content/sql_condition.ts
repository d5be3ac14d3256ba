/**
 * The condition of WHERE, as one of `$match`: as far as it can, by the values of fields, which narrow what is read.
 */

import type { Expr } from "./sql_parser.ts";
import { COMPARISONS, likePattern, type SqlValues } from "./sql_values.ts";

type Condition = { [field: string]: unknown };

export function conditionOf(where: Expr, values: SqlValues): Condition {
  const fields: { [path: string]: Condition } = {};
  const others: unknown[] = [];
  for (const one of conjuncts(where)) {
    const [path, condition] = fieldCondition(one, values) ?? [];
    const known = path === undefined ? undefined : fields[path] ?? {};
    if (known && condition && !Object.keys(condition).some((operator) => operator in known)) {
      fields[path!] = { ...known, ...condition };
    } else others.push(values.of(one));
  }
  return { ...fields, ...others.length > 0 && { $expr: { $and: others } } };
}

function conjuncts(expr: Expr): Expr[] {
  const isAnd = expr.type === "binary" && expr.op === "AND";
  return isAnd ? [...conjuncts(expr.left), ...conjuncts(expr.right)] : [expr];
}

/** A condition on one field with fixed values. */
function fieldCondition(expr: Expr, values: SqlValues): [path: string, condition: Condition] | undefined {
  if (expr.type === "ternary" && expr.op === "BETWEEN" && expr.value.type === "ref") {
    const low = values.literal(expr.lo, expr.value), high = values.literal(expr.hi, expr.value);
    const isFixed = low !== undefined && high !== undefined;
    return isFixed ? [values.path(expr.value), { $gte: low, $lte: high }] : undefined;
  }
  if (expr.type !== "binary" || expr.left.type !== "ref") return undefined;
  const { left, right, op } = expr;
  if (op === "IN" && right.type === "list") {
    const list = right.expressions.map((one) => values.literal(one, left));
    return list.includes(undefined) ? undefined : [values.path(left), { $in: list }];
  }
  if (op === "LIKE" || op === "ILIKE") {
    return [values.path(left), { $regex: likePattern(right, op === "ILIKE") }];
  }
  const value = op in COMPARISONS ? values.literal(right, left) : undefined;
  if (value === undefined) return undefined;
  return [values.path(left), op === "!=" ? { $nin: [value, null] } : { [COMPARISONS[op]]: value }];
}
