/**
 * DuckDB, which runs queries in SQL.
 *
 * A database is in memory and has no way out of it: no network, no extensions, no files but those of one folder, and no
 * query changes that. Its memory is limited; the time is limited by the end of the process.
 */

import { messageOf, SvcError } from "../../../base/error.ts";
import { badSql } from "./statement.ts";
import { bsonRows } from "./values.ts";
import {
  type DuckDb,
  type DuckDBConnection,
  type DuckDBDataChunk,
  type DuckDBInstance,
  type DuckDBResult,
  loadDuckDb,
} from "./duckdb.ts";

/** Memory limit of a database, in a process with at least `MEMORY_BYTES_MIN`. */
const MEMORY_MIB = 384;
/** Rows that are passed on together. */
const ROWS_AT_ONCE = 2_048;

const SETTINGS = {
  // Comes first, because it cannot be set without access to files.
  temp_directory: "",
  autoload_known_extensions: "false",
  autoinstall_known_extensions: "false",
  allow_community_extensions: "false",
  allow_unsigned_extensions: "false",
  memory_limit: `${MEMORY_MIB}MiB`,
  threads: "2",
};

/** The type of a column. */
export type ColumnType = "INTEGER" | "BIGINT" | "VARCHAR";
type Value = number | bigint | string;

/** A database of one query. */
export class SqlEngine {
  private constructor(
    private readonly duckDb: DuckDb,
    private readonly instance: DuckDBInstance,
    private readonly connection: DuckDBConnection,
  ) {}

  /** @param folder with files that are read; by default none. Throws `unavailable` if DuckDB cannot be loaded. */
  static async open(folder?: string): Promise<SqlEngine> {
    const duckDb = await loadDuckDb();
    const instance = await duckDb.DuckDBInstance.create(":memory:", SETTINGS);
    const engine = new SqlEngine(duckDb, instance, await instance.connect());
    await engine.run("SET TimeZone = 'UTC'");
    if (folder !== undefined) await engine.run(`SET allowed_directories = [${quoted(`${folder}/`)}]`);
    await engine.run("SET enable_external_access = false");
    return engine;
  }

  /** Ends the database. */
  close(): void {
    this.connection.closeSync();
    this.instance.closeSync();
  }

  /** From now on no statement changes a setting. */
  async lock(): Promise<void> {
    await this.run("SET lock_configuration = true");
  }

  async run(sql: string): Promise<void> {
    await this.#tried(() => this.connection.run(sql));
  }

  /** Binds a statement without running it. Throws the errors of `rows`. */
  async check(sql: string): Promise<void> {
    await this.#tried(async () => (await this.connection.prepare(sql)).destroySync());
  }

  /** The first value of the first row. */
  async value(sql: string, ...values: readonly string[]): Promise<unknown> {
    const reader = await this.#tried(() => this.connection.runAndReadAll(sql, [...values]));
    return reader.getRowsJS()[0]?.[0];
  }

  /** The first row. */
  async row(sql: string): Promise<readonly unknown[]> {
    const reader = await this.#tried(() => this.connection.runAndReadAll(sql));
    return reader.getRowsJS()[0] ?? [];
  }

  /** The names of an answer's columns, and its rows as a stream. Throws `invalid_argument` with the reason. */
  async rows(sql: string): Promise<{ readonly names: readonly string[]; rows: AsyncIterable<unknown[][]> }> {
    const result = await this.#tried(() => this.connection.stream(sql));
    return { names: result.columnNames(), rows: this.#chunks(result) };
  }

  async *#chunks(result: DuckDBResult): AsyncGenerator<unknown[][]> {
    const types = result.columnTypes();
    for (;;) {
      const chunk = await this.#tried(() => result.fetchChunk());
      if (!chunk || chunk.rowCount === 0) return;
      yield bsonRows(this.duckDb, chunk, types);
    }
  }

  /** Opens a table for rows of these types. */
  async appender(table: string, types: readonly ColumnType[]): Promise<SqlAppender> {
    const appender = await this.connection.createAppender(table);
    const { DuckDBDataChunk: Chunk, ...all } = this.duckDb;
    const chunkOf = (columns: readonly Value[][], rows: number): DuckDBDataChunk => {
      const chunk = Chunk.create(types.map((one) => all[one]), rows);
      chunk.setColumns(columns);
      return chunk;
    };
    return new SqlAppender(types.length, {
      append: (columns, rows) => this.#tried(() => appender.appendDataChunk(chunkOf(columns, rows))),
      close: () => this.#tried(() => appender.closeSync()),
    });
  }

  async #tried<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw refusal(messageOf(error));
    }
  }
}

/** A text in SQL. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** Fills a table; collects a few rows, and passes them on together. */
export class SqlAppender {
  #columns: Value[][];
  #rows = 0;

  constructor(
    private readonly width: number,
    private readonly table: {
      append(columns: readonly Value[][], rows: number): Promise<void>;
      close(): Promise<void>;
    },
  ) {
    this.#columns = this.#empty();
  }

  async add(...row: readonly Value[]): Promise<void> {
    for (const [at, value] of row.entries()) this.#columns[at]?.push(value);
    if (++this.#rows >= ROWS_AT_ONCE) await this.#flush();
  }

  async close(): Promise<void> {
    await this.#flush();
    await this.table.close();
  }

  async #flush(): Promise<void> {
    const [columns, rows] = [this.#columns, this.#rows];
    this.#columns = this.#empty();
    this.#rows = 0;
    if (rows > 0) await this.table.append(columns, rows);
  }

  #empty(): Value[][] {
    return Array.from({ length: this.width }, () => []);
  }
}

/** The first paragraph of DuckDB's message, which shows its own form of the query below. */
function refusal(message: string): SvcError {
  const [paragraph = ""] = message.split(/\n\n|\nLINE |\nStack Trace|\nCandidate bindings/, 1);
  const words = paragraph.replaceAll(/\s*\n\s*/g, " ");
  if (!/out of memory/i.test(words)) return badSql(words);
  const hint =
    `a query has ${MEMORY_MIB} MiB for its readings and for its work: restrict it with WHERE by names or times`;
  return new SvcError("resource_exhausted", `sql_query: ${hint}`);
}
