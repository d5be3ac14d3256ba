/**
 * Readings that are stored, moved into files and queried: five usual queries in svc-cloud, over SQLite and over
 * PostgreSQL, beside DuckDB alone on the same files, and beside the same grouping in JavaScript.
 *
 * The first readings of each source are stored as uploads are, queried in the database, and moved. The others go into
 * files at once (`readings_load.ts`), because ten million uploaded readings take an hour.
 *
 * Use: deno task bench:data [--readings N (100000)] [--parts N (20)] [--stored N (200000)] [--database sqlite|postgres]
 *
 * Each part has two sources; those with fewer than 1,000 stored readings do not move into files.
 *
 * Each database has a process of its own, which stands for svc-cloud's and has its options of V8: at the end DuckDB runs
 * in it, too, whose memory is not svc-cloud's.
 */

import { serialize } from "bson";
import { parseArgs } from "node:util";
import { CLOUD_V8_FLAGS } from "../../cli/v8_flags.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { type Query, ReadingQueries } from "../../lib/cloud/data/queries/queries.ts";
import { TabularData } from "../../lib/cloud/data/tabular_data.ts";
import { ReadingMoves, READINGS_OF_FILE_MIN } from "../../lib/cloud/readings/mover.ts";
import { ReadingPacker } from "../../lib/cloud/readings/packer.ts";
import { type IndexedFile, ReadingFiles } from "../../lib/cloud/readings/reading_files.ts";
import { SqlEngine } from "../../lib/cloud/content/sql/engine.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { residentMibOf } from "../bench/process_time.ts";
import { fileRest, SOURCES_OF_PART, START_MS, STEP_MS, storeFirst } from "./readings_load.ts";
import { KINDS, type TestDatabase, withDatabase } from "./stores.ts";
import { CONTENT, newWorld } from "./world.ts";

const { values } = parseArgs({
  args: Deno.args,
  options: {
    readings: { type: "string", default: "100000" },
    parts: { type: "string", default: "20" },
    stored: { type: "string", default: "200000" },
    database: { type: "string", multiple: true, default: [...KINDS] },
    /** Measures here, not in a process of its own. */
    here: { type: "boolean", default: false },
  },
});
const [READINGS, PARTS] = [Number(values.readings), Number(values.parts)];
const SOURCES = PARTS * SOURCES_OF_PART;
/** Readings of each source, and those of them that are stored as uploads are. */
const EACH = Math.floor(READINGS / SOURCES);
const STORED_OF_EACH = Math.min(EACH, Math.floor(Number(values.stored) / SOURCES));
const STORED = STORED_OF_EACH * SOURCES;
const ROUNDS = 3;
const SAMPLE_MS = 50;

if (!(STORED_OF_EACH >= READINGS_OF_FILE_MIN)) {
  console.error(
    `found ${STORED_OF_EACH} stored readings of each source, wanted at least ${READINGS_OF_FILE_MIN}: ` +
      `--readings and --stored of at least ${SOURCES * READINGS_OF_FILE_MIN} for --parts ${PARTS}`,
  );
  Deno.exit(2);
}

const clock = new SystemClock();
const signal = new AbortController().signal;

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const startMs = clock.monotonicMs();
  await work();
  return (clock.monotonicMs() - startMs) / 1000;
}

/** The fastest of some rounds of each, which take turns: other programs only add to it. */
async function best(...works: readonly (() => Promise<unknown>)[]): Promise<number[]> {
  const least = works.map(() => Infinity);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [at, work] of works.entries()) least[at] = Math.min(least[at], await seconds(work));
  }
  return least;
}

/** The time of a query; infinite if it takes longer than queries may. */
async function secondsUnlessLate(work: () => Promise<unknown>): Promise<number> {
  try {
    return await seconds(work);
  } catch (error) {
    if (SvcError.from(error).code !== "deadline_exceeded") throw error;
    return Infinity;
  }
}

function shownS(time: number): string {
  return time === Infinity ? "too late" : `${time.toFixed(2)} s`;
}

function perSecond(count: number, time: number): string {
  return `${Math.round(count / time)} a second`;
}

/** The time of a reading, by its share of a source's readings. */
function timeAt(share: number, each: number): Date {
  return new Date(START_MS + Math.floor(share * each) * STEP_MS);
}

/** Each query for svc-cloud; DuckDB alone gets the same over a view with the same columns. */
function queriesOf(each: number): ReadonlyMap<string, string> {
  const at = (share: number) => `TIMESTAMP '${timeAt(share, each).toISOString().slice(0, 19)}'`;
  return new Map([
    [
      "last value",
      "SELECT data.readings.celsius AS c FROM readings WHERE part_id = 'part-1' AND component_name = 'indoors' ORDER BY time_requested DESC LIMIT 1",
    ],
    [
      "average an hour",
      `SELECT date_trunc('hour', time_requested) AS hour, AVG(data.readings.celsius) AS mean FROM readings
       WHERE time_requested >= ${at(0.25)} AND time_requested < ${at(0.75)} GROUP BY ALL`,
    ],
    ["count by part", "SELECT part_id, COUNT(*) AS n FROM readings GROUP BY ALL"],
    [
      "by tag and time",
      `SELECT COUNT(*) AS n FROM readings WHERE 'tag1' = ANY(tags) AND time_requested >= ${at(0.9)}`,
    ],
    [
      "join",
      `SELECT a.part_id AS part, AVG(a.data.readings.celsius - b.data.readings.celsius) AS difference
       FROM readings a JOIN readings b ON a.part_id = b.part_id AND a.time_requested = b.time_requested
       WHERE a.component_name = 'indoors' AND b.component_name = 'outdoors' AND a.part_id = 'part-2' GROUP BY ALL`,
    ],
  ]);
}

/** The average an hour in JavaScript, which runs pipelines of stages. */
function hourlyStages(each: number): Query {
  const requested = { $gte: timeAt(0.25, each), $lt: timeAt(0.75, each) };
  const hour = { $dateTrunc: { date: "$time_requested", unit: "hour" } };
  const stages = [
    { $match: { time_requested: requested } },
    { $group: { _id: hour, mean: { $avg: "$data.readings.celsius" } } },
  ];
  return { mql: stages.map((one) => serialize(one)) };
}

/** DuckDB with these files and nothing else. */
async function alone(folder: string, all: readonly IndexedFile[]): Promise<SqlEngine> {
  const engine = await SqlEngine.open(folder);
  const paths = all.map(({ sha256 }) => `${folder}/${sha256.slice(0, 2)}/${sha256}`);
  const rows = all.map((one, index) =>
    `('${paths[index]}', '${one.partId}', '${one.componentName}', ${one.tags.replaceAll('"', "'")})`
  );
  await engine.run(
    `CREATE TABLE files AS SELECT * FROM (VALUES ${
      rows.join(", ")
    }) t(filename, part_id, component_name, tags)`,
  );
  await engine.run(
    `CREATE VIEW readings AS SELECT part_id, component_name, tags, make_timestamp(captured_us) AS time_requested, data
     FROM read_parquet([${
      paths.map((path) => `'${path}'`).join(", ")
    }], filename = true) JOIN files USING (filename)`,
  );
  return engine;
}

function plainly(sql: string): string {
  return sql.replaceAll(
    /(\b[ab]\.)?data\.readings\.celsius/g,
    (_, alias = "") => `CAST(json_extract(${alias}data, '$.readings.celsius') AS DOUBLE)`,
  );
}

async function drained(engine: SqlEngine, sql: string): Promise<void> {
  for await (const _ of (await engine.rows(plainly(sql))).rows);
}

/** The most memory that this process and the largest of its processes have had. */
class MemoryWatch {
  #own = 0;
  #largest = 0;
  readonly #timer = setInterval(() => {
    const [own, ...others] = residentMibOf(Deno.pid);
    this.#own = Math.max(this.#own, own);
    this.#largest = Math.max(this.#largest, ...others);
  }, SAMPLE_MS);

  end(): void {
    clearInterval(this.#timer);
    console.log(
      `resident memory of svc-cloud at most ${this.#own.toFixed(0)} MiB, of one of its processes ${
        this.#largest.toFixed(0)
      } MiB`,
    );
  }
}

async function measure({ kind, folder, open }: TestDatabase): Promise<void> {
  console.log(`\n${kind}: ${EACH * SOURCES} readings of ${PARTS} parts`);
  const store = await open();
  const files = await FolderFiles.open(new SystemFiles(), `${folder}/files`, { olderThanMs: 0 });
  const queries = new ReadingQueries(store, files, { ...CONTENT, workFolder: `${folder}/work` });
  const memory = new MemoryWatch();
  try {
    const world = await newWorld(store);
    const place = { store, files, world, parts: PARTS };
    const packer = new ReadingPacker(clock, CONTENT);
    const ask = (query: Query) => queries.run([world.organization, "bench"], query, signal);

    const emptyBytes = await store.bytes();
    const storedS = await seconds(() => storeFirst(place, STORED_OF_EACH));
    const rowBytes = (await store.bytes() - emptyBytes) / STORED;
    console.log(`${STORED} stored, ${perSecond(STORED, storedS)}, ${rowBytes.toFixed(0)} bytes each`);
    const inRows = new Map<string, number>();
    for (const [name, sql] of queriesOf(STORED_OF_EACH)) {
      inRows.set(name, await secondsUnlessLate(() => ask({ sql })));
    }
    const [inScript] = await best(() => ask(hourlyStages(STORED_OF_EACH)));

    const logger = silentLogs(clock).logger("bench");
    const moves = new ReadingMoves({ store, files, clock, logger, packer });
    const movedS = await seconds(() => moves.run(signal));
    console.log(`${STORED} moved into files, ${perSecond(STORED, movedS)}`);
    if (EACH > STORED_OF_EACH) {
      const filedS = await seconds(() => fileRest(place, packer, STORED_OF_EACH, EACH));
      const rest = (EACH - STORED_OF_EACH) * SOURCES;
      console.log(`${rest} put into files at once, ${perSecond(rest, filedS)}`);
    }
    const all = await new ReadingFiles(store, files).list(new Conditions());
    const filed = all.reduce((sum, { readings }) => sum + readings, 0);
    const bytes = all.reduce((sum, { fileBytes }) => sum + fileBytes, 0);
    console.log(`${filed} in ${all.length} files, ${(bytes / filed).toFixed(0)} bytes each`);

    const [nothing] = await best(() =>
      ask({ sql: "SELECT COUNT(*) AS n FROM readings WHERE part_id = 'none'" })
    );
    console.log(`a query of nothing takes ${nothing.toFixed(2)} s`);
    for (const sql of queriesOf(EACH).values()) await ask({ sql });
    const latest = await latestS(new TabularData(store, files));
    console.log(`the last reading of a part, from a file: ${(1000 * latest).toFixed(0)} ms`);
    memory.end();
    // From here on DuckDB runs in this process, too.
    const hourlyS = await compare(await alone(`${folder}/files`, all), (sql) => ask({ sql }), inRows);
    const scaled = inScript * EACH / STORED_OF_EACH;
    console.log(
      `average an hour in JavaScript: ${shownS(inScript)} over ${STORED} readings in the database, so ${
        shownS(scaled)
      } over all of them: ${(scaled / hourlyS).toFixed(0)} times as long as in files`,
    );
  } finally {
    await queries.close();
  }
}

async function latestS(data: TabularData): Promise<number> {
  const ofPart = new Conditions().only("o.part_id = ?", "part-1");
  const [latest] = await best(() => data.page(ofPart, { limit: 1, order: "newest first", last: "" }));
  return latest;
}

/** Prints each query's times; returns that of the grouping by hours in files. */
async function compare(
  engine: SqlEngine,
  ask: (sql: string) => Promise<unknown>,
  inRows: ReadonlyMap<string, number>,
): Promise<number> {
  const names = [`${STORED} rows`, "files", "alone"].map((name) => name.padStart(15)).join("");
  console.log(`${"query".padEnd(18)}${names}  files/alone`);
  let hourlyS = Infinity;
  for (const [name, sql] of queriesOf(EACH)) {
    const [ours, theirs] = await best(() => ask(sql), () => drained(engine, sql));
    const shown = [inRows.get(name)!, ours, theirs].map((one) => shownS(one).padStart(15)).join("");
    console.log(`${name.padEnd(18)}${shown}  ${(ours / theirs).toFixed(1).padStart(11)}`);
    if (name === "average an hour") hourlyS = ours;
  }
  return hourlyS;
}

async function measureElsewhere(kind: string): Promise<void> {
  const { readings, parts, stored } = values;
  const flags = ["--readings", readings, "--parts", parts, "--stored", stored, "--database", kind, "--here"];
  const command = ["run", "-A", CLOUD_V8_FLAGS, import.meta.filename!, ...flags];
  const { success } = await new Deno.Command(Deno.execPath(), { args: command }).spawn().status;
  if (!success) Deno.exit(1);
}

for (const kind of KINDS.filter((one) => values.database.includes(one))) {
  await (values.here ? withDatabase(kind, measure) : measureElsewhere(kind));
}
Deno.exit(0);
