/**
 * Expressions of SQL, as expressions of an aggregation pipeline.
 */

import { badSql, type Expr, type ExprCall, type ExprRef, shown } from "./sql_parser.ts";

export const COMPARISONS: { readonly [operator: string]: string } = {
  "=": "$eq",
  "!=": "$ne",
  "<": "$lt",
  "<=": "$lte",
  ">": "$gt",
  ">=": "$gte",
};

const AGGREGATES = ["avg", "count", "max", "min", "sum"];
const ARITHMETIC: { readonly [operator: string]: string } = {
  "+": "$add",
  "-": "$subtract",
  "*": "$multiply",
  "/": "$divide",
  "%": "$mod",
  "||": "$concat",
};
const FUNCTIONS: { readonly [name: string]: string } = {
  abs: "$abs",
  ceil: "$ceil",
  ceiling: "$ceil",
  char_length: "$strLenCP",
  coalesce: "$ifNull",
  concat: "$concat",
  floor: "$floor",
  length: "$strLenCP",
  lower: "$toLower",
  power: "$pow",
  round: "$round",
  sqrt: "$sqrt",
  upper: "$toUpper",
};
const CASTS: { readonly [type: string]: string } = {
  bigint: "long",
  boolean: "bool",
  "double precision": "double",
  double: "double",
  float: "double",
  int: "int",
  integer: "int",
  numeric: "double",
  real: "double",
  string: "string",
  text: "string",
  timestamp: "date",
  timestamptz: "date",
  varchar: "string",
};
/** Parts of a time, and the operators that take them out. */
const TIME_PARTS: { readonly [part: string]: string } = {
  year: "$year",
  month: "$month",
  week: "$isoWeek",
  day: "$dayOfMonth",
  hour: "$hour",
  minute: "$minute",
  second: "$second",
};
/** Columns that hold times; a text beside them is one, too. */
const TIMES = ["time_requested", "time_received", "capture_day"];
const OPPOSITES: { readonly [operator: string]: string } = {
  "=": "!=",
  "!=": "=",
  "<": ">=",
  "<=": ">",
  ">": "<=",
  ">=": "<",
  "IN": "NOT IN",
  "NOT IN": "IN",
  "LIKE": "NOT LIKE",
  "NOT LIKE": "LIKE",
  "ILIKE": "NOT ILIKE",
  "NOT ILIKE": "ILIKE",
  "BETWEEN": "NOT BETWEEN",
  "NOT BETWEEN": "BETWEEN",
  "IS NULL": "IS NOT NULL",
  "IS NOT NULL": "IS NULL",
};

type Binary = Expr & { type: "binary" };
type Accumulator = { readonly field: string; readonly make: unknown; readonly empty: unknown };

/** The values in the readings, or with `keys` in the groups of a GROUP BY. */
export class SqlValues {
  readonly #keys: readonly string[];
  readonly #accumulators = new Map<string, Accumulator>();

  /** `tables`: the names that may stand before a column. */
  constructor(private readonly tables: readonly string[], private readonly keys?: readonly Expr[]) {
    this.#keys = (keys ?? []).map((key) => JSON.stringify(key));
  }

  /** The group that makes all values asked for so far. */
  group(): { [field: string]: unknown } {
    const rows = new SqlValues(this.tables);
    const keys = (this.keys ?? []).map((key, index) => [`key${index}`, rows.of(key)]);
    const made = [...this.#accumulators.values()].map(({ field, make }) => [field, make]);
    return { _id: keys.length > 0 ? Object.fromEntries(keys) : null, ...Object.fromEntries(made) };
  }

  /** The same group, of no readings. */
  emptyGroup(): { [field: string]: unknown } {
    const empty = [...this.#accumulators.values()].map(({ field, empty }) => [field, empty]);
    return { _id: null, ...Object.fromEntries(empty) };
  }

  of(expr: Expr): unknown {
    const key = this.#keys.indexOf(JSON.stringify(expr));
    if (key >= 0) return `$_id.key${key}`;
    switch (expr.type) {
      case "ref":
        return `$${this.path(expr)}`;
      case "integer":
      case "numeric":
      case "boolean":
      case "string":
        return { $literal: expr.value };
      case "null":
        return null;
      case "cast":
        return this.#cast(expr.operand, expr.to);
      case "binary":
        return this.#binary(expr);
      case "unary":
        return this.#unary(expr);
      case "ternary":
        return this.#between(expr.value, expr.lo, expr.hi, expr.op === "NOT BETWEEN");
      case "call":
        return this.#call(expr);
      case "case": {
        const branches = expr.whens.map(({ when, value }) => {
          const is = expr.value ? { type: "binary", op: "=", left: expr.value, right: when } as Binary : when;
          return { case: this.of(is), then: this.of(value) };
        });
        return { $switch: { branches, default: expr.else ? this.of(expr.else) : null } };
      }
      case "extract":
        return { [this.#timePart(expr.field.name)]: this.of(expr.from) };
      case "keyword":
        if (/^(current_timestamp|localtimestamp)$/.test(expr.keyword)) return "$$NOW";
    }
    throw badSql(`${shown(expr)} is not supported`);
  }

  /** `data.readings.celsius`, without the table's name. */
  path({ name, table }: ExprRef): string {
    const path = table ? `${table.name}.${name}` : name;
    const own = this.tables.find((one) => path.startsWith(`${one}.`));
    const short = own ? path.slice(own.length + 1) : path;
    if (short.split(".").some((part) => part === "" || part.startsWith("$") || part === "*")) {
      throw badSql(`found the column "${path}", wanted a path such as data.readings.celsius`);
    }
    if (this.keys) throw badSql(`the column "${path}" wants to be in GROUP BY or in an aggregate`);
    return short;
  }

  /** A literal's value; beside a column of times, a text is a time. `undefined` for any other expression. */
  literal(expr: Expr, beside?: Expr): unknown {
    const isTime = expr.type === "cast" && CASTS[typeName(expr.to)] === "date";
    const text = isTime ? expr.operand : expr;
    const besideTime = beside?.type === "ref" && TIMES.includes(this.path(beside));
    if (text.type === "string" && (isTime || besideTime)) return timeIn(text.value);
    if (expr.type === "unary" && expr.op === "-") {
      const value = this.literal(expr.operand);
      return typeof value === "number" ? -value : undefined;
    }
    const isLiteral = ["integer", "numeric", "boolean", "string"].includes(expr.type);
    return isLiteral ? (expr as { value: unknown }).value : undefined;
  }

  #cast(operand: Expr, type: unknown): unknown {
    const to = CASTS[typeName(type)];
    if (!to) {
      throw badSql(`CAST to ${typeName(type)} is not supported, only to ${Object.keys(CASTS).join(", ")}`);
    }
    if (to === "date" && operand.type === "string") return timeIn(operand.value);
    return { $convert: { input: this.of(operand), to, onError: null, onNull: null } };
  }

  #unary({ op, operand }: Expr & { type: "unary" }): unknown {
    if (op === "NOT") return this.#not(operand);
    if (op === "IS NULL") return { $not: [present(this.of(operand))] };
    if (op === "IS NOT NULL") return present(this.of(operand));
    if (op === "IS TRUE" || op === "IS NOT FALSE") return { $eq: [this.of(operand), true] };
    if (op === "IS FALSE" || op === "IS NOT TRUE") return { $eq: [this.of(operand), false] };
    if (op === "-") return { $multiply: [-1, this.of(operand)] };
    if (op === "+") return this.of(operand);
    throw badSql(`${op} is not supported`);
  }

  /** The opposite, which does not hold for a missing value either. */
  #not(expr: Expr): unknown {
    if (expr.type === "binary" && (expr.op === "AND" || expr.op === "OR")) {
      const both = [this.#not(expr.left), this.#not(expr.right)];
      return expr.op === "AND" ? { $or: both } : { $and: both };
    }
    if (expr.type === "unary" && expr.op === "NOT") return this.of(expr.operand);
    const isOperation = expr.type === "binary" || expr.type === "ternary" || expr.type === "unary";
    const opposite = isOperation ? OPPOSITES[expr.op] : undefined;
    return opposite ? this.of({ ...expr, op: opposite } as Expr) : { $not: [this.of(expr)] };
  }

  #binary({ left, right, op }: Binary): unknown {
    if (op === "AND" || op === "OR") {
      return { [op === "AND" ? "$and" : "$or"]: [this.of(left), this.of(right)] };
    }
    if (op in COMPARISONS) return this.#compared(COMPARISONS[op], left, right);
    if (op in ARITHMETIC) return { [ARITHMETIC[op]]: [this.of(left), this.of(right)] };
    const like = /^(NOT )?(I)?LIKE$/.exec(op);
    if (like) {
      const input = this.of(left);
      const matches = { $regexMatch: { input, regex: likePattern(right, like[2] === "I") } };
      return { $and: [{ $eq: [{ $type: input }, "string"] }, like[1] ? { $not: [matches] } : matches] };
    }
    if (op === "IN" || op === "NOT IN") {
      const list = right.type === "list" ? right.expressions : [right];
      const value = this.of(left);
      const among = { $in: [value, list.map((one) => this.#beside(one, left))] };
      return { $and: [present(value), op === "IN" ? among : { $not: [among] }] };
    }
    throw badSql(`the operator ${op} is not supported`);
  }

  #between(value: Expr, lo: Expr, hi: Expr, isOutside: boolean): unknown {
    const [low, high] = isOutside ? ["$lt", "$gt"] : ["$gte", "$lte"];
    const both = [this.#compared(low, value, lo), this.#compared(high, value, hi)];
    return isOutside ? { $or: both } : { $and: both };
  }

  #compared(operator: string, left: Expr, right: Expr): unknown {
    const [one, other] = [this.#beside(left, right), this.#beside(right, left)];
    return { $and: [present(one), present(other), { [operator]: [one, other] }] };
  }

  #beside(expr: Expr, other: Expr): unknown {
    const time = expr.type === "string" ? this.literal(expr, this.keys ? undefined : other) : undefined;
    return time instanceof Date ? time : this.of(expr);
  }

  #call(call: ExprCall): unknown {
    const { name } = call.function;
    const { args } = call;
    if (AGGREGATES.includes(name)) return this.#aggregate(call);
    if (name === "now" && args.length === 0) return "$$NOW";
    if (name === "date_trunc" || name === "datetrunc") {
      const [unit, date] = args;
      const part = unit?.type === "string" || unit?.type === "ref" ? unit : undefined;
      if (!part || !date || args.length > 2) throw badSql(`${name} wants a unit and a time`);
      const named = (part.type === "string" ? part.value : part.name).toLowerCase();
      this.#timePart(named);
      return { $dateTrunc: { date: this.of(date), unit: named } };
    }
    if (name === "nullif" && args.length === 2) {
      const [value, other] = args.map((one) => this.of(one));
      return { $cond: [{ $eq: [value, other] }, null, value] };
    }
    if (name in FUNCTIONS && args.length > 0) {
      const values = args.map((one) => this.of(one));
      return { [FUNCTIONS[name]]: values.length === 1 ? values[0] : values };
    }
    const known = [...AGGREGATES, ...Object.keys(FUNCTIONS), "date_trunc", "nullif", "now"].sort().join(", ");
    throw badSql(`the function ${name} with ${args.length} arguments is not supported; there are ${known}`);
  }

  #timePart(name: string): string {
    const operator = TIME_PARTS[name.toLowerCase()];
    if (operator) return operator;
    throw badSql(`found the part "${name}" of a time, wanted one of ${Object.keys(TIME_PARTS).join(", ")}`);
  }

  #aggregate(call: ExprCall): unknown {
    const { args, distinct, filter } = call;
    const { name } = call.function;
    if (!this.keys) throw badSql(`${name} does not go into WHERE, GROUP BY or another aggregate`);
    if (args.length !== 1 || filter || (distinct === "distinct" && name !== "count")) {
      throw badSql(`${shown(call)} is not supported`);
    }
    const [arg] = args;
    const isStar = arg.type === "ref" && arg.name === "*";
    const rows = new SqlValues(this.tables);
    const id = JSON.stringify(call);
    const field = this.#accumulators.get(id)?.field ?? `value${this.#accumulators.size}`;
    const value = isStar ? undefined : rows.of(arg);
    if (isStar && name !== "count") throw badSql(`${name} wants a column`);
    if (distinct === "distinct") {
      this.#accumulators.set(id, { field, make: { $addToSet: value }, empty: [] });
      return { $size: { $setDifference: [`$${field}`, [null]] } };
    }
    const make = name !== "count"
      ? { [`$${name}`]: value }
      : { $sum: isStar ? 1 : { $cond: [present(value), 1, 0] } };
    this.#accumulators.set(id, { field, make, empty: name === "count" ? 0 : null });
    return `$${field}`;
  }
}

/** Whether an expression has an aggregate in it. */
export function hasAggregate(expr: Expr): boolean {
  return JSON.stringify(expr, (_, value) => {
    if (value?.type !== "call") return value;
    return AGGREGATES.includes(value.function.name) ? { isAggregate: true } : value;
  }).includes('{"isAggregate":true}');
}

/** Whether there is a value. */
function present(value: unknown): unknown {
  return { $ne: [{ $ifNull: [value, null] }, null] };
}

function typeName(type: unknown): string {
  return String((type as { name?: string }).name ?? "an array").toLowerCase();
}

function timeIn(text: string): Date {
  const time = new Date(/\d[T ]\d.*(Z|[+-]\d\d:?\d\d)$|^\d{4}(-\d\d){0,2}$/.test(text) ? text : `${text}Z`);
  if (Number.isFinite(time.getTime())) return time;
  throw badSql(`found the time '${text.slice(0, 100)}', wanted one such as 2026-03-15T14:30:00Z`);
}

/** The pattern of LIKE: `%` for any text, `_` for any character. */
export function likePattern(expr: Expr, ignoresCase: boolean): RegExp {
  if (expr.type !== "string") throw badSql("LIKE wants a text on its right side");
  const source = expr.value.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&").replaceAll("%", "[^]*").replaceAll(
    "_",
    "[^]",
  );
  return new RegExp(`^${source}$`, ignoresCase ? "iu" : "u");
}
