/**
 * A query in SQL as DuckDB's own parser sees it: one SELECT over the table `readings`.
 *
 * DuckDB checks the grammar, and its settings isolate the query (`engine.ts`). This file reads the tree of DuckDB's
 * parser: it checks which tables the query uses, finds the paths into documents (`data.readings.celsius`), and gives
 * them types, because JSON columns have none.
 */

import { SvcError } from "../../../base/error.ts";
import { pointerPart } from "../../readings/path_types.ts";

export const TABLE = "readings";

/** The columns with documents. */
const DOCUMENTS = ["data", "additional_parameters"];
/** The allowed table functions. Others read files, settings or other databases, which the engine refuses, too. */
const TABLE_FUNCTIONS = ["generate_series", "json_each", "json_tree", "range", "unnest"];
const SOURCES = ["BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "TABLE_FUNCTION"];
/** A condition with more or longer texts does not narrow the readings, because the head of the answer is limited. */
const TEXTS_MAX = 1_000;
const TEXT_LENGTH_MAX = 100;
/** Functions that a bound of time may call; a later call returns a later time. */
const CLOCKS = [
  ...["-", "now", "get_current_timestamp", "trunc"],
  ...["to_seconds", "to_minutes", "to_hours", "to_days", "to_weeks", "to_months"],
];

/** Keeps numbers as they are written. The engine supports this, TypeScript's types do not yet. */
const SOURCE = JSON as unknown as {
  rawJSON(text: string): unknown;
  isRawJSON(value: unknown): boolean;
};

/** A node of the tree. */
export type TreeNode = { [name: string]: unknown };

/** The type of all values under a path; `NULL` if there are none. */
export type PathType = "DOUBLE" | "VARCHAR" | "BOOLEAN" | "JSON" | "TEXT" | "NULL";

/** A path into documents, which a query uses in some places. */
export interface DataPath {
  readonly column: string;
  /** In the notation of JSON pointers. */
  readonly pointer: string;
  readonly uses: readonly PathUse[];
}

interface PathUse {
  readonly node: TreeNode;
  /** The column, as the query names it. */
  readonly names: readonly string[];
  /** Whether its value goes into the answer unchanged. */
  readonly isAnswer: boolean;
}

/** A bound of a time, as an expression. */
export interface TimeBound {
  readonly field: string;
  readonly side: "from" | "until";
  readonly node: TreeNode;
}

export function badSql(why: string): SvcError {
  return new SvcError("invalid_argument", `sql_query: ${why}`);
}

/** A list of the tree; every list may be missing. */
function listOf(value: unknown): readonly TreeNode[] {
  return Array.isArray(value) ? value : [];
}

function isTreeNode(value: unknown): value is TreeNode {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !SOURCE.isRawJSON(value);
}

/** A node and all nodes in it. */
function* nodesIn(value: unknown): Generator<TreeNode> {
  if (Array.isArray(value)) { for (const one of value) yield* nodesIn(one); }
  if (!isTreeNode(value)) return;
  yield value;
  for (const inner of Object.values(value)) yield* nodesIn(inner);
}

function lower(value: unknown): string {
  return String(value).toLowerCase();
}

export class SqlStatement {
  readonly #tree: TreeNode;
  readonly #select: TreeNode;
  /** All table names in the query, in lower case. */
  readonly #tables: ReadonlySet<string>;
  readonly paths: readonly DataPath[];
  /** Whether the query can depend on `data`. */
  readonly usesData: boolean;

  /** `serialized` is the result of `json_serialize_sql`. Throws `invalid_argument`. */
  constructor(serialized: string) {
    const tree: TreeNode = JSON.parse(serialized, exactNumbers);
    if (tree.error === true) throw badSql(wordsOf(tree));
    const statements = listOf(tree.statements);
    const [only, ...more] = statements;
    if (!only || more.length > 0) throw badSql(`found ${statements.length} statements, wanted one SELECT`);
    this.#tree = tree;
    this.#select = only.node as TreeNode;

    const own = new Set([...nodesIn(tree)].flatMap(({ cte_map: common }) => {
      return listOf((common as TreeNode | undefined)?.map).map(({ key }) => lower(key));
    }));
    const tables = new Set(own);
    for (const node of nodesIn(tree)) {
      if (node.class !== undefined) continue;
      checkSource(node, own);
      for (const name of [node.alias, node.table_name]) {
        if (typeof name === "string" && name !== "") tables.add(lower(name));
      }
    }
    this.#tables = tables;
    this.paths = this.#findPaths();
    this.usesData = this.#findsData(serialized);
    this.#nameColumns();
  }

  /** Applies types to the paths, and returns the tree. Call it only once. */
  typed(types: readonly PathType[]): string {
    for (const [at, { pointer, uses }] of this.paths.entries()) {
      for (const { node, names, isAnswer } of uses) {
        const alias = node.alias;
        for (const name of Object.keys(node)) delete node[name];
        Object.assign(node, valueAt(names, pointer, types[at]!, isAnswer), { alias });
      }
    }
    return JSON.stringify(this.#tree);
  }

  /** The number of readings that its answer needs, if any readings will do. */
  get wanted(): number {
    const { where_clause: where, group_expressions: groups, having, qualify, sample } = this.#select;
    const [cut, ...others] = listOf(this.#select.modifiers);
    const isPlain = this.#isSimple && !where && !having && !qualify && !sample &&
      listOf(groups).length === 0 &&
      listOf(this.#select.select_list).every((one) => one.class === "COLUMN_REF" || one.class === "STAR");
    if (!isPlain || others.length > 0 || cut?.type !== "LIMIT_MODIFIER") return Infinity;
    const limit = wholeNumber(cut.limit), offset = cut.offset ? wholeNumber(cut.offset) : 0;
    return limit === undefined || offset === undefined ? Infinity : limit + offset;
  }

  /** The simple conditions that every reading in the answer fulfils. */
  conditions(fields: readonly string[]) {
    const sources: { [field: string]: readonly string[] } = {};
    const bounds: TimeBound[] = [];
    if (this.#isSimple) {
      for (const one of conjuncts(this.#select.where_clause)) {
        const [ref, ...values] = operandsOf(one);
        const field = ref && this.#columnOf(ref);
        if (field === undefined) continue;
        const texts = fields.includes(field) ? textsOf(one, values) : undefined;
        if (texts) sources[field] = texts;
        if (field.startsWith("time_re")) bounds.push(...boundsOf(field, one, values));
      }
    }
    const joined = this.#isSimple ? undefined : this.#joined();
    if (joined) Object.assign(sources, joinedSources(joined, fields));
    return { sources, bounds };
  }

  /** The inner joins that are all that the query reads. */
  #joined(): InnerJoins | undefined {
    const { type, from_table: from, cte_map: common, where_clause: where } = this.#select;
    const found: InnerJoins = { names: [], conditions: conjuncts(where) };
    const uses = [...nodesIn(this.#tree)].filter(({ type }) => type === "BASE_TABLE").length;
    const isAll = type === "SELECT_NODE" && listOf((common as TreeNode).map).length === 0 &&
      addJoined(from, found);
    return isAll && found.names.length === uses ? found : undefined;
  }

  /** Whether the query reads the table only once, at its top level. */
  get #isSimple(): boolean {
    const { type, from_table: from, cte_map: common } = this.#select;
    const uses = [...nodesIn(this.#tree)].filter(({ type }) => type === "BASE_TABLE").length;
    const { type: kind, sample, column_name_alias: renamed } = (from ?? {}) as TreeNode;
    const isTop = type === "SELECT_NODE" && kind === "BASE_TABLE" && !sample && listOf(renamed).length === 0;
    return isTop && uses === 1 && listOf((common as TreeNode).map).length === 0;
  }

  #columnOf({ class: kind, column_names: names }: TreeNode): string | undefined {
    if (kind !== "COLUMN_REF" || !Array.isArray(names)) return undefined;
    const qualified = names.length === 2 && this.#tables.has(lower(names[0]));
    return names.length === 1 || qualified ? lower(names.at(-1)) : undefined;
  }

  #findPaths(): DataPath[] {
    const answers = listOf(this.#select.group_expressions).length === 0
      ? new Set(listOf(this.#select.select_list))
      : new Set<TreeNode>();
    const found = new Map<string, DataPath & { uses: PathUse[] }>();
    for (const node of nodesIn(this.#tree)) {
      const names = node.class === "COLUMN_REF" ? node.column_names as string[] : [];
      const at = this.#documentAt(names);
      if (at === undefined || at === names.length - 1) continue;
      const column = lower(names[at]);
      const pointer = names.slice(at + 1).map(pointerPart).join("");
      const path = found.get(column + pointer) ?? { column, pointer, uses: [] };
      found.set(column + pointer, path);
      // In the answer the column has the last name of the path.
      if (answers.has(node) && node.alias === "") node.alias = names.at(-1);
      path.uses.push({ node, names: names.slice(0, at + 1), isAnswer: answers.has(node) });
    }
    return [...found.values()];
  }

  /** The index of the document column in a qualified name. */
  #documentAt(names: readonly string[]): number | undefined {
    const isDocument = (at: number) => DOCUMENTS.includes(lower(names[at]));
    const isQualified = names.length > 1 && this.#tables.has(lower(names[0]));
    if (isQualified) return isDocument(1) ? 1 : undefined;
    return names.length > 0 && isDocument(0) ? 0 : undefined;
  }

  #findsData(serialized: string): boolean {
    if (/data/i.test(serialized)) return true;
    return [...nodesIn(this.#tree)].some((node) => {
      if (node.class === "STAR") return true;
      // A table name used as a value.
      const names = node.class === "COLUMN_REF" ? node.column_names as string[] : [];
      return names.length > 0 && this.#tables.has(lower(names.at(-1)));
    });
  }

  /** As the published service calls expressions without a name: _1, _2… */
  #nameColumns(): void {
    let select = this.#select;
    while (isTreeNode(select.left)) select = select.left;
    let unnamed = 0;
    for (const column of listOf(select.select_list)) {
      const isNamed = column.alias !== "" || column.class === "COLUMN_REF" || column.class === "STAR";
      const isUnpacked = column.class === "FUNCTION" && lower(column.function_name) === "unnest";
      if (!isNamed && !isUnpacked && isTreeNode(column)) column.alias = `_${++unnamed}`;
    }
  }
}

/** Throws `invalid_argument` for a source of rows that is neither the table nor derived from it. */
function checkSource(node: TreeNode, own: ReadonlySet<string>): void {
  const { type } = node;
  if (type === "BASE_TABLE") {
    const isPlain = node.schema_name === "" && node.catalog_name === "";
    const name = lower(node.table_name);
    if (isPlain && (name === TABLE || own.has(name))) return;
    throw badSql(`found the table "${node.table_name}", wanted FROM ${TABLE}, which is the only table`);
  }
  if (type === "TABLE_FUNCTION") {
    const name = lower((node.function as TreeNode).function_name);
    if (TABLE_FUNCTIONS.includes(name)) return;
    throw badSql(`the table function ${name} is not allowed; there are ${TABLE_FUNCTIONS.join(", ")}`);
  }
  // Every source of rows has these two members.
  const isSource = typeof node.alias === "string" && "sample" in node;
  if (isSource && !SOURCES.includes(String(type))) {
    throw badSql(`found ${lower(type).replaceAll("_", " ")}, wanted one SELECT FROM ${TABLE}`);
  }
}

function wordsOf({ error_type: type, error_message: message }: TreeNode): string {
  if (type === "not implemented") return "wanted one SELECT";
  const [line = ""] = String(message).split("\n", 1);
  return line;
}

/** Numbers that JavaScript cannot hold stay as they are written. */
function exactNumbers(_name: string, value: unknown, context?: { source?: string }): unknown {
  const isInexact = typeof value === "number" && !Number.isSafeInteger(value) &&
    context?.source !== undefined;
  return isInexact ? SOURCE.rawJSON(context.source!) : value;
}

/** The value under a path, as a node. */
function valueAt(names: readonly string[], pointer: string, type: PathType, isAnswer: boolean): TreeNode {
  const column = {
    class: "COLUMN_REF",
    type: "COLUMN_REF",
    alias: "",
    query_location: 0,
    column_names: names,
  };
  // A constant would be refused in ORDER BY.
  if (type === "NULL") {
    return {
      class: "OPERATOR",
      type: "OPERATOR_COALESCE",
      query_location: 0,
      children: [nothing(), nothing()],
    };
  }
  const isJson = type === "JSON" || type === "TEXT" && isAnswer;
  const value = {
    ...{ class: "FUNCTION", type: "FUNCTION", alias: "", query_location: 0 },
    ...{ function_name: isJson ? "json_extract" : "json_extract_string", schema: "", catalog: "" },
    children: [column, constant("VARCHAR", pointer)],
    ...{ filter: null, order_bys: { type: "ORDER_MODIFIER", orders: [] }, distinct: false },
    ...{ is_operator: false, export_state: false },
  };
  if (isJson || type === "VARCHAR" || type === "TEXT") return value;
  const cast = { id: type, type_info: null };
  return {
    ...{ class: "CAST", type: "OPERATOR_CAST", query_location: 0 },
    ...{ child: value, cast_type: cast, try_cast: false },
  };
}

function nothing(): TreeNode {
  return { ...constant("NULL", null), value: { type: { id: "NULL", type_info: null }, is_null: true } };
}

function constant(id: string, value: unknown): TreeNode {
  const content = { type: { id, type_info: null }, is_null: false, value };
  return { class: "CONSTANT", type: "VALUE_CONSTANT", alias: "", query_location: 0, value: content };
}

function wholeNumber(node: unknown): number | undefined {
  const value = isTreeNode(node) && node.class === "CONSTANT" && isTreeNode(node.value)
    ? node.value.value
    : undefined;
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The conditions that hold together. */
function conjuncts(where: unknown): TreeNode[] {
  if (!isTreeNode(where)) return [];
  if (where.type === "CONJUNCTION_AND") return listOf(where.children).flatMap(conjuncts);
  return [where];
}

/** Several uses of the table, each by its name in the query, and the conditions that all rows fulfil. */
interface InnerJoins {
  readonly names: string[];
  readonly conditions: TreeNode[];
}

/** Returns whether `from` has nothing but the table and inner joins of it. */
function addJoined(from: unknown, found: InnerJoins): boolean {
  if (!isTreeNode(from) || from.sample) return false;
  const { type, join_type: join, ref_type: kind } = from;
  if (type === "BASE_TABLE") {
    found.names.push(lower(from.alias || from.table_name));
    return listOf(from.column_name_alias).length === 0;
  }
  const isInner = type === "JOIN" && join === "INNER" && (kind === "REGULAR" || kind === "CROSS");
  if (!isInner) return false;
  found.conditions.push(...conjuncts(from.condition));
  return addJoined(from.left, found) && addJoined(from.right, found);
}

/**
 * The values that each of these fields has in every reading that the joins need: those that conditions allow in any use
 * of the table, if they limit it in each, also by a field that is the same in another one.
 */
function joinedSources({ names, conditions }: InnerJoins, fields: readonly string[]) {
  const columnOf = (node?: TreeNode) => {
    const words = node?.class === "COLUMN_REF" ? node.column_names as string[] : [];
    const [table = "", field = "", ...more] = words.map(lower);
    const isKnown = names.includes(table) && fields.includes(field) && more.length === 0;
    return isKnown ? `${table}.${field}` : undefined;
  };
  const allowed = new Map<string, readonly string[]>();
  const same: [string, string][] = [];
  for (const one of conditions) {
    const [ref, ...values] = operandsOf(one);
    const column = columnOf(ref);
    if (column === undefined) continue;
    const texts = textsOf(one, values);
    const other = one.type === "COMPARE_EQUAL" ? columnOf(values[0]) : undefined;
    if (texts) allowed.set(column, texts);
    if (other !== undefined) same.push([column, other], [other, column]);
  }

  // A value may go from one use to the next.
  for (const _ of names) {
    for (const [from, to] of same) {
      const texts = allowed.get(from);
      if (texts && !allowed.has(to)) allowed.set(to, texts);
    }
  }
  const sources: { [field: string]: readonly string[] } = {};
  for (const field of fields) {
    const lists = names.map((name) => allowed.get(`${name}.${field}`));
    const all = [...new Set(lists.flatMap((texts) => texts ?? []))];
    if (lists.every((texts) => texts !== undefined) && all.length <= TEXTS_MAX) sources[field] = all;
  }
  return sources;
}

/** The column first, if the condition compares one with values. */
function operandsOf({ class: kind, ...node }: TreeNode): TreeNode[] {
  if (kind === "BETWEEN") return [node.input, node.lower, node.upper] as TreeNode[];
  if (kind === "OPERATOR" && node.type === "COMPARE_IN") return [...listOf(node.children)];
  if (kind !== "COMPARISON") return [];
  return [node.left, node.right] as TreeNode[];
}

function textsOf({ type }: TreeNode, values: readonly TreeNode[]): string[] | undefined {
  if (type !== "COMPARE_EQUAL" && type !== "COMPARE_IN") return undefined;
  const texts = values.map(({ class: kind, value }) =>
    kind === "CONSTANT" ? (value as TreeNode).value : undefined
  );
  const isShort = (one: unknown): one is string => typeof one === "string" && one.length <= TEXT_LENGTH_MAX;
  return texts.length > 0 && texts.length <= TEXTS_MAX && texts.every(isShort) ? texts : undefined;
}

function boundsOf(field: string, { type }: TreeNode, values: readonly TreeNode[]): TimeBound[] {
  const bound = (side: TimeBound["side"], node: TreeNode): TimeBound[] => {
    const nodes = [...nodesIn(node)];
    const isFixed = nodes.every(({ class: kind }) =>
      kind === undefined || kind === "CONSTANT" || kind === "CAST"
    );
    const isClock = nodes.every(({ class: kind, function_name: name }) => {
      return kind !== "FUNCTION"
        ? kind !== "COLUMN_REF" && kind !== "SUBQUERY"
        : CLOCKS.includes(lower(name));
    });
    return isFixed || isClock && side === "from" ? [{ field, side, node }] : [];
  };
  const [value, upper] = values;
  if (!value) return [];
  if (/^COMPARE_GREATERTHAN/.test(String(type))) return bound("from", value);
  if (/^COMPARE_LESSTHAN/.test(String(type))) return bound("until", value);
  if (type === "COMPARE_EQUAL") return [...bound("from", value), ...bound("until", value)];
  if (type === "COMPARE_BETWEEN" && upper) return [...bound("from", value), ...bound("until", upper)];
  return [];
}
