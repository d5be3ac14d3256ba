/**
 * A query in SQL over the readings of an organization, which DuckDB runs.
 *
 * Readings are handed over once, as they come, or in files, which DuckDB reads itself; the process holds nothing else.
 * `data` and `additional_parameters` are documents; the values under a path have the type that they have in these
 * readings.
 *
 * The room owns queries in SQL: which of them run, on which data, and DuckDB.
 */

import { assert, SvcError } from "../../../base/error.ts";
import { type DataOrigin, SOURCE_COLUMNS } from "../../capture/origins.ts";
import { payloadJson } from "../../capture/payload_json.ts";
import type { ReadingBatch } from "../../data/tabular_data.ts";
import { PATH_TYPES_KEY, pathKinds, typesAt } from "../../readings/path_types.ts";
import type { FileTimes } from "../../readings/reading_file.ts";
import { AnswerWriter } from "../answer.ts";
import type { Narrowing, PlacedFile, TimeRange } from "../../data/queries/query_requests.ts";
import { quoted, type SqlAppender, SqlEngine } from "./engine.ts";
import { badSql, type DataPath, type PathType, SqlStatement, TABLE, type TimeBound } from "./statement.ts";

const TEXT_MAX = 20_000;

/** The readings, and a table of the facts that are common to all readings of a source with the same tags. */
const TABLES = `
  CREATE TABLE origins (origin INTEGER, organization_id VARCHAR, location_id VARCHAR, robot_id VARCHAR,
    part_id VARCHAR, component_type VARCHAR, component_name VARCHAR, method_name VARCHAR,
    additional_parameters JSON, tags VARCHAR);
  CREATE TABLE stored (origin INTEGER, requested_ms BIGINT, received_ms BIGINT, data JSON);
  CREATE TABLE files (filename VARCHAR, origin INTEGER)`;
const FACTS = `(SELECT * REPLACE (from_json(CAST(tags AS JSON), '["VARCHAR"]') AS tags) FROM origins)`;
const STORED = `SELECT * FROM stored JOIN ${FACTS} USING (origin)`;
const viewOf = (rows: string) => `
  CREATE OR REPLACE VIEW ${TABLE} AS SELECT organization_id, location_id, robot_id, part_id, component_type,
    component_name, method_name, epoch_ms(requested_ms) AS time_requested, epoch_ms(received_ms) AS time_received,
    CAST(date_trunc('day', epoch_ms(requested_ms)) AS TIMESTAMP) AS capture_day, tags, additional_parameters, data
    FROM (${rows})`;
/** A multiple of 1000 that no time comes near: division rounds towards zero, and the sum is positive. */
const FAR_US = 10n ** 18n;
/** Whole milliseconds, also before 1970. */
const msOf = (us: string) => `(${us} + ${FAR_US}) // 1000 - ${FAR_US / 1000n}`;
/** Limit of what files tell of their types: beyond, reading the documents does not take longer. */
const TYPES_CHARS_MAX = 16 * 1024 ** 2;

/** Names of types in JSON that are numbers. */
const NUMBERS = ["BIGINT", "DOUBLE", "HUGEINT", "UBIGINT", "UHUGEINT"];

export class SqlQuery {
  #origins = 0;
  #readings = 0;
  /** What the index has of their types, by path. */
  readonly #files = new Map<string, string | null>();
  #times: FileTimes = { captured: {}, received: {} };

  private constructor(
    private readonly engine: SqlEngine,
    private readonly statement: SqlStatement,
    private readonly bounds: Pick<Narrowing, "requested" | "received">,
    private readonly tables: Readonly<Record<"origins" | "stored" | "files", SqlAppender>>,
    private readonly folder: string | undefined,
  ) {}

  /** Reads a query. `folder` has files of readings. Throws `invalid_argument`. */
  static async read(text: string, folder?: string): Promise<SqlQuery> {
    if (text.length > TEXT_MAX) throw badSql(`it has ${text.length} characters, wanted at most ${TEXT_MAX}`);
    const engine = await SqlEngine.open(folder);
    await engine.run(TABLES);
    await engine.run(viewOf(STORED));
    await engine.lock();
    const statement = await readStatement(engine, text);
    const bounds = {
      requested: await findTimeRange(engine, statement, "time_requested"),
      received: await findTimeRange(engine, statement, "time_received"),
    };
    const texts = Array.from({ length: 9 }, () => "VARCHAR" as const);
    const tables = {
      origins: await engine.appender("origins", ["INTEGER", ...texts]),
      stored: await engine.appender("stored", ["INTEGER", "BIGINT", "BIGINT", "VARCHAR"]),
      files: await engine.appender("files", ["VARCHAR", "INTEGER"]),
    };
    return new SqlQuery(engine, statement, bounds, tables, folder);
  }

  /** The simple conditions of the query on the readings. */
  narrowing(): Narrowing {
    return { sources: this.statement.conditions(Object.keys(SOURCE_COLUMNS)).sources, ...this.bounds };
  }

  /** Adds readings; returns whether the answer can depend on further ones. */
  async take({ origin, rows }: ReadingBatch): Promise<boolean> {
    const ids = new Map<string, number>();
    for (const { capturedUs, receivedUs, tags, payload } of rows) {
      const id = ids.get(tags) ?? await this.#origin(origin, tags);
      ids.set(tags, id);
      const times = [capturedUs, receivedUs].map((us) => BigInt(Math.floor(us / 1000)));
      const data = this.statement.usesData ? payloadJson(payload) : "{}";
      await this.tables.stored.add(id, ...times, data);
    }
    this.#readings += rows.length;
    return this.#readings < this.statement.wanted;
  }

  /** Takes readings of these times in a file of the folder as they are. Returns whether it does. */
  async takeFile({ origin, tags, sha256, pathTypes, after }: PlacedFile, times: FileTimes): Promise<boolean> {
    // What a query wants is counted.
    if (this.folder === undefined || after || this.statement.wanted !== Infinity) return false;
    const path = `${this.folder}/${sha256}`;
    // Sources with the same readings have one file, which is read once, and joined with each of them.
    this.#files.set(path, pathTypes);
    this.#times = times;
    await this.tables.files.add(path, await this.#origin(origin, tags));
    return true;
  }

  async #origin(origin: DataOrigin, tags: string): Promise<number> {
    const { organizationId, locationId, machineId, partId, componentType, componentName, methodName } =
      origin;
    const id = ++this.#origins;
    const places = [organizationId, locationId, machineId, partId];
    const names = [componentType, componentName, methodName];
    await this.tables.origins.add(id, ...places, ...names, origin.parameters, tags);
    return id;
  }

  /** Lets the view have the readings of the files, too. */
  async #addFiles(): Promise<void> {
    if (this.#files.size === 0) return;
    const { captured, received } = this.#times;
    const bounds = Object.entries({ captured_us: captured, received_us: received }).flatMap(
      ([column, { fromUs, untilUs }]) => [
        ...fromUs === undefined ? [] : [`${column} >= ${fromUs}`],
        ...untilUs === undefined ? [] : [`${column} <= ${untilUs}`],
      ],
    );
    // The files that a query's conditions on the facts leave out are not opened.
    await this.engine.run(viewOf(
      `${STORED} UNION ALL BY NAME
       SELECT ${msOf("captured_us")} AS requested_ms, ${msOf("received_us")} AS received_ms,
         CAST(data AS JSON) AS data, f.* EXCLUDE (filename)
       FROM read_parquet(${listOf(this.#files.keys())}, filename = true)
         JOIN (SELECT * FROM files JOIN ${FACTS} USING (origin)) f USING (filename)
       WHERE ${["true", ...bounds].join(" AND ")}`,
    ));
  }

  takeDocuments(): never {
    throw new SvcError("unimplemented", "results of data pipelines are queried in MQL");
  }

  /** Ends the query's database. */
  close(): void {
    this.engine.close();
  }

  /** The documents of the answer, each in BSON. Throws `resource_exhausted` if it is too large. */
  async answer(): Promise<Uint8Array[]> {
    for (const table of Object.values(this.tables)) await table.close();
    await this.#addFiles();
    const tree = this.statement.typed(await this.#types());
    const sql = await this.engine.value("SELECT json_deserialize_sql($1::VARCHAR::JSON)", tree);
    const { names, rows } = await this.engine.rows(String(sql));
    checkNames(names);
    const answer = new AnswerWriter();
    for await (const some of rows) {
      for (const row of some) answer.add(Object.fromEntries(names.map((name, at) => [name, row[at]])));
    }
    return answer.documents;
  }

  /** The types of the paths' values in these readings. */
  async #types(): Promise<PathType[]> {
    const { paths } = this.statement;
    if (paths.length === 0) return [];
    const found = await this.#typesByFiles() ?? await this.#typesIn(TABLE, paths);
    return found.map(typeOf);
  }

  /**
   * The same by what the files tell of their values, and the values that are not in files. `undefined` if a file does
   * not tell, or if values have several types: a file tells of all its readings, not of those in the query's times.
   */
  async #typesByFiles(): Promise<FoundTypes[] | undefined> {
    if (this.#files.size === 0) return undefined;
    const { paths } = this.statement;
    const inData = paths.filter(({ column }) => column === "data");
    const inParameters = paths.filter(({ column }) => column === "additional_parameters");
    const known = await this.#typesOfFiles(inData);
    if (!known) return undefined;

    const stored = await this.#typesIn("stored", inData);
    const ofOrigins = await this.#typesIn("origins", inParameters);
    const found = new Map([
      ...inData.map((path, at) => [path, [...stored[at] ?? [], ...known[at] ?? []]] as const),
      ...inParameters.map((path, at) => [path, ofOrigins[at] ?? []] as const),
    ]);
    const all = paths.map((path) => found.get(path)!);
    return all.every((types) => isOneType(types)) ? all : undefined;
  }

  /** What the files tell of the types of paths; `undefined` if one does not, or they tell too much. */
  async #typesOfFiles(paths: readonly DataPath[]): Promise<FoundTypes[] | undefined> {
    const found = paths.map(() => new Set<string>());
    let [described, chars] = [0, 0];
    for await (const text of this.#textsOfFiles()) {
      described++;
      chars += text.length;
      if (chars > TYPES_CHARS_MAX) return undefined;
      const kinds = pathKinds(text);
      for (const [at, { pointer }] of paths.entries()) {
        const types = typesAt(kinds, pointer);
        if (!types) return undefined;
        for (const type of types) found[at]?.add(type);
      }
    }
    return described < this.#files.size ? undefined : found.map((types) => [...types]);
  }

  /** The text that each file has of its types: those in the index first. */
  async *#textsOfFiles(): AsyncGenerator<string> {
    for (const text of this.#files.values()) if (text !== null) yield text;
    const others = [...this.#files].filter(([_, text]) => text === null).map(([path]) => path);
    if (others.length === 0) return;
    const { rows } = await this.engine.rows(
      `SELECT decode(value) FROM parquet_kv_metadata(${listOf(others)}) WHERE decode(key) = ${
        quoted(PATH_TYPES_KEY)
      }`,
    );
    for await (const some of rows) {
      for (const [text] of some as [text: string][]) yield text;
    }
  }

  async #typesIn(table: string, paths: readonly DataPath[]): Promise<FoundTypes[]> {
    if (paths.length === 0) return [];
    const columns = paths.map(({ column, pointer }) =>
      `list(DISTINCT json_type(${column}, ${quoted(pointer)}))`
    );
    const found = await this.engine.row(`SELECT ${columns.join(", ")} FROM ${table}`);
    return paths.map((_, at) => (found[at] ?? []) as FoundTypes);
  }
}

/** A list of texts in SQL. */
function listOf(texts: Iterable<string>): string {
  return `[${[...texts].map(quoted).join(", ")}]`;
}

/** Names of types, as `json_type` has them; null for no value. */
type FoundTypes = readonly (string | null)[];

async function readStatement(engine: SqlEngine, text: string): Promise<SqlStatement> {
  try {
    const tree = await engine.value("SELECT json_serialize_sql($1::VARCHAR)", standardNames(text));
    return new SqlStatement(String(tree));
  } catch (error) {
    if (error instanceof RangeError) throw badSql("its expressions are nested too deeply");
    throw error;
  }
}

/** Replaces the quotes that other SQL dialects put around names by those of the standard. */
function standardNames(text: string): string {
  const tokens = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[^]*?\*\/|`([^`]*)`/g;
  return text.replace(tokens, (token, name?: string) => {
    return name === undefined ? token : `"${name.replaceAll('"', '""')}"`;
  });
}

async function findTimeRange(engine: SqlEngine, statement: SqlStatement, field: string): Promise<TimeRange> {
  const range: { fromMs?: number; untilMs?: number } = {};
  for (const { side, node } of statement.conditions([]).bounds.filter((one) => one.field === field)) {
    const ms = await evaluateTime(engine, node);
    if (ms === undefined) continue;
    if (side === "from") range.fromMs = Math.max(range.fromMs ?? ms, ms);
    else range.untilMs = Math.min(range.untilMs ?? ms, ms);
  }
  return range;
}

/** The time that an expression denotes; `undefined` if it is not a time. */
async function evaluateTime(engine: SqlEngine, node: TimeBound["node"]): Promise<number | undefined> {
  try {
    const template = String(await engine.value("SELECT json_serialize_sql('SELECT 1'::VARCHAR)"));
    const tree = JSON.parse(template, (name, value) => name === "query_location" ? 0 : value);
    tree.statements[0].node.select_list = [node];
    const sql = await engine.value("SELECT json_deserialize_sql($1::VARCHAR::JSON)", JSON.stringify(tree));
    const expression = String(sql).replace(/;\s*$/, "");
    const ms = await engine.value(`SELECT CAST(epoch_ms(CAST((${expression}) AS TIMESTAMP)) AS DOUBLE)`);
    return typeof ms === "number" && Number.isSafeInteger(ms) ? ms : undefined;
  } catch {
    // This is an error in the query, which DuckDB will report.
    return undefined;
  }
}

/** Whether any of these values have the same `PathType`, or none. */
function isOneType(found: FoundTypes): boolean {
  const names = new Set(found.map((one) => NUMBERS.includes(String(one)) ? "number" : one));
  names.delete(null);
  // A null is a value among documents and lists, and none among others.
  if (!names.has("OBJECT") && !names.has("ARRAY")) names.delete("NULL");
  return names.size <= 1;
}

function typeOf(found: FoundTypes): PathType {
  const types = found.filter((one) => one !== null && one !== "NULL") as string[];
  if (types.length === 0) return "NULL";
  if (types.every((one) => NUMBERS.includes(one))) return "DOUBLE";
  if (types.every((one) => one === "VARCHAR")) return "VARCHAR";
  if (types.every((one) => one === "BOOLEAN")) return "BOOLEAN";
  return types.some((one) => one === "OBJECT" || one === "ARRAY") ? "JSON" : "TEXT";
}

function checkNames(names: readonly string[]): void {
  for (const [at, name] of names.entries()) {
    if (!/^[^$.][^.]*$/.test(name) || name === "__proto__") {
      throw badSql(`a column cannot be called "${name}"; give it another name with AS`);
    }
    if (names.indexOf(name) === at) continue;
    throw badSql(`two columns are called "${name}"; give one another name with AS`);
  }
  assert(names.length > 0, "an answer without columns");
}
