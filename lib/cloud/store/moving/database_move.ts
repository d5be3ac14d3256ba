/**
 * Copies a whole database into another one: from a file of SQLite into an empty PostgreSQL database.
 *
 * Tables go in the order of their references, rows in small batches, each in a transaction. An interrupted copy
 * continues when it is started again, because rows that are already there stay. At the end both have the same number
 * of rows and the same sums in every table, or the copy fails. The old database is only read.
 */

import { SvcError } from "../../../base/error.ts";
import { queryOne, rowPieces, type Sql, type SqlRow, type SqlValue, type Store } from "../store.ts";

export interface CopiedTable {
  readonly table: string;
  readonly rows: number;
}

export interface MoveProgress {
  /** Rows that have been copied, or were there already. */
  readonly done: number;
  readonly total: number;
  /** The table whose copy is compared now. */
  readonly checking?: string;
}

interface Table {
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly references: readonly { readonly table: string; readonly column: string }[];
}

/** Rows of one batch, and their bytes; a larger row goes alone. */
const ROWS_MAX = 200;
const BYTES_MAX = 8 * 1024 ** 2;
/** Sums are modulo this number, because sums of large numbers would not fit. */
const MODULUS = 1_000_003;
/** The mark of a copy in the target. */
const MARK = "database_move";
const NOT_COPIED = ["schema_version", MARK];

/**
 * Copies every table of `from` into `to`, which has its tables already. `reported` gets the number of copied rows, and
 * each table whose copy is checked. Throws `failed_precondition` if `to` contains data that is not from an earlier,
 * unfinished copy.
 */
export async function copyDatabase(
  from: Store,
  to: Store,
  reported: (progress: MoveProgress) => void,
): Promise<CopiedTable[]> {
  const tables = inOrderOfReferences(await listTables(from));
  await begin(to, tables);
  const total = await rowsIn(from, tables);
  const copied: CopiedTable[] = [];
  let done = 0;
  for (const table of tables) {
    await copyTable(from, to, table, (rows) => reported({ done: done += rows, total }));
    reported({ done, total, checking: table.name });
    const [before, after] = await Promise.all([computeSums(from, table), computeSums(to, table)]);
    if (JSON.stringify(before) !== JSON.stringify(after)) {
      const found = `table ${table.name}: found ${describe(after)}, wanted ${describe(before)}`;
      throw new SvcError("internal", `the copy differs: ${found}; the old database is as it was`);
    }
    copied.push({ table: table.name, rows: before[0] ?? 0 });
  }
  await to.exclusive((sql) => sql.query(`UPDATE ${MARK} SET is_finished = 1`));
  return copied;
}

/** Marks the target, so that nothing but the copy fills it. */
async function begin(to: Store, tables: readonly Table[]): Promise<void> {
  await to.exclusive(async (sql) => {
    const there = await queryOne<{ count: number }>(
      sql,
      "SELECT COUNT(*) AS count FROM information_schema.tables WHERE table_name = ? AND table_schema = current_schema()",
      MARK,
    );
    if (there.count > 0) {
      const [mark] = await sql.query<{ isFinished: number }>(
        `SELECT is_finished AS "isFinished" FROM ${MARK}`,
      );
      if (mark?.isFinished === 1) {
        throw new SvcError(
          "failed_precondition",
          "the target has been filled by an earlier move: serve from it",
        );
      }
      return;
    }
    for (const { name } of tables) {
      const [row] = await sql.query(`SELECT 1 AS found FROM ${quoted(name)} LIMIT 1`);
      if (!row) continue;
      const found = `the target already has rows in table ${name}`;
      throw new SvcError("failed_precondition", `${found}, wanted an empty database`);
    }
    await sql.query(`CREATE TABLE ${MARK} (is_finished BIGINT NOT NULL)`);
    await sql.query(`INSERT INTO ${MARK} (is_finished) VALUES (0)`);
  });
}

async function listTables(from: Sql): Promise<Table[]> {
  const names = await from.query<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
  );
  const tables: Table[] = [];
  for (const { name } of names.filter((one) => !NOT_COPIED.includes(one.name))) {
    tables.push({
      name,
      columns: await from.query("SELECT name, type FROM pragma_table_info(?) ORDER BY cid", name),
      references: await from.query(
        `SELECT "table", "from" AS "column" FROM pragma_foreign_key_list(?)`,
        name,
      ),
    });
  }
  return tables;
}

/** The tables in the order of their references: a table comes after those to which it refers. */
function inOrderOfReferences(tables: readonly Table[]): Table[] {
  const ordered: Table[] = [];
  let left = [...tables];
  while (left.length > 0) {
    const waits = (one: Table) =>
      one.references.some(({ table }) => table !== one.name && left.some(({ name }) => name === table));
    const ready = left.filter((one) => !waits(one));
    if (ready.length === 0) throw new SvcError("internal", "the tables refer to each other in a circle");
    ordered.push(...ready);
    left = left.filter(waits);
  }
  return ordered;
}

async function rowsIn(from: Sql, tables: readonly Table[]): Promise<number> {
  let all = 0;
  for (const { name } of tables) {
    const { rows } = await queryOne<{ rows: number }>(from, `SELECT COUNT(*) AS rows FROM ${quoted(name)}`);
    all += rows;
  }
  return all;
}

type RowsHeard = (rows: number) => void;

async function copyTable(from: Sql, to: Store, table: Table, heard: RowsHeard): Promise<void> {
  const own = table.references.filter((one) => one.table === table.name).map(({ column }) => column);
  // Rows that refer to rows of the same table are copied after these, level by level.
  for (let level = 0;; level++) {
    const isEnd = await copyLevel(from, to, table, { own, level, heard });
    if (isEnd) return;
  }
}

interface Level {
  /** Columns that refer to rows of the same table. */
  readonly own: readonly string[];
  readonly level: number;
  readonly heard: RowsHeard;
}

/** Copies the rows at this depth of references within their table. Returns whether none is deeper. */
async function copyLevel(
  from: Sql,
  to: Store,
  table: Table,
  { own, level, heard }: Level,
): Promise<boolean> {
  const name = quoted(table.name);
  const [column] = own;
  if (own.length > 1) throw new SvcError("internal", `table ${table.name} refers to itself in several ways`);
  // The ids of the levels above, as nested selections.
  let above = `SELECT id FROM ${name} WHERE ${column} IS NULL`;
  for (let at = 1; at < level; at++) above = `SELECT id FROM ${name} WHERE ${column} IN (${above})`;
  const roots = column === undefined ? "1 = 1" : `${column} IS NULL`;
  const where = level === 0 ? roots : `${column} IN (${above})`;
  let last = -1;
  let count = 0;
  for (;;) {
    const sizes = await from.query<{ rowid: number; bytes: number }>(
      `SELECT rowid AS "rowid", ${
        sizeOf(table)
      } AS bytes FROM ${name} WHERE rowid > ? AND ${where} ORDER BY rowid LIMIT ?`,
      last,
      ROWS_MAX,
    );
    if (sizes.length === 0) break;
    let bytes = 0;
    const over = sizes.findIndex((one, index) => (bytes += one.bytes) > BYTES_MAX && index > 0);
    const until = (over < 0 ? sizes : sizes.slice(0, over)).at(-1)!.rowid;
    const rows = await from.query<SqlRow>(
      `SELECT ${columnsOf(table)} FROM ${name} WHERE rowid > ? AND rowid <= ? AND ${where} ORDER BY rowid`,
      last,
      until,
    );
    await to.transaction((sql) => insert(sql, table, rows));
    last = until;
    count += rows.length;
    heard(rows.length);
  }
  return column === undefined || count === 0;
}

async function insert(sql: Sql, { name, columns }: Table, rows: readonly SqlRow[]): Promise<void> {
  const row = `(${columns.map(() => "?").join(", ")})`;
  for (const piece of rowPieces(rows)) {
    await sql.query(
      `INSERT INTO ${quoted(name)} (${columns.map((one) => quoted(one.name)).join(", ")})
       VALUES ${piece.map(() => row).join(", ")} ON CONFLICT DO NOTHING`,
      ...piece.flatMap((one): SqlValue[] => columns.map(({ name }) => one[name] ?? null)),
    );
  }
}

/** The number of rows; then for each column the number of values, and their sum or their length. */
async function computeSums(sql: Sql, table: Table): Promise<number[]> {
  const sums = table.columns.flatMap(({ name, type }, index) => {
    const column = quoted(name);
    const summed = /BIGINT|INT/i.test(type) ? `${column} % ${MODULUS}` : `LENGTH(${column})`;
    const isReal = /DOUBLE|REAL/i.test(type);
    return [
      `COUNT(${column}) AS c${index}`,
      ...isReal ? [] : [`CAST(COALESCE(SUM(${summed}), 0) AS BIGINT) AS s${index}`],
    ];
  });
  const row = await queryOne<{ readonly [name: string]: number }>(
    sql,
    `SELECT COUNT(*) AS n, ${sums.join(", ")} FROM ${quoted(table.name)}`,
  );
  return ["n", ...Object.keys(row).filter((one) => one !== "n").sort()].map((one) => row[one] ?? 0);
}

function sizeOf({ columns }: Table): string {
  const large = columns.filter(({ type }) => /TEXT|BYTEA|BLOB/i.test(type));
  return large.map(({ name }) => `COALESCE(LENGTH(${quoted(name)}), 0)`).join(" + ") || "0";
}

function columnsOf({ columns }: Table): string {
  return columns.map(({ name }) => quoted(name)).join(", ");
}

function describe([rows]: readonly number[]): string {
  return `${rows} rows`;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
