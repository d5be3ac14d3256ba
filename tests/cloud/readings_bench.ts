/**
 * Readings that are stored, moved into files and queried: five usual queries in svc-cloud, with the readings in the
 * database and then in files, beside DuckDB alone on the same files.
 *
 * Use: deno task bench:data [--readings N (100000)] [--parts N (20)]
 *
 * Each part has two sources; those with fewer than 1,000 readings do not move into files.
 */

import { parseArgs } from "node:util";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { ReadingQueries } from "../../lib/cloud/data/queries/queries.ts";
import { storeReadings, TabularData } from "../../lib/cloud/data/tabular_data.ts";
import { ReadingMoves, READINGS_OF_FILE_MIN } from "../../lib/cloud/readings/mover.ts";
import { ReadingPacker } from "../../lib/cloud/readings/packer.ts";
import { type IndexedFile, ReadingFiles } from "../../lib/cloud/readings/reading_files.ts";
import { SqlEngine } from "../../lib/cloud/content/sql/engine.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { CONTENT, newWorld } from "./world.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

const { values } = parseArgs({
  args: Deno.args,
  options: {
    readings: { type: "string", default: "100000" },
    parts: { type: "string", default: "20" },
  },
});
const [READINGS, PARTS] = [Number(values.readings), Number(values.parts)];
const SOURCES_OF_PART = 2;
const AT_ONCE = 500;
const START_MS = Date.UTC(2026, 0, 1);
const STEP_MS = 1_000;
const ROUNDS = 3;

if (!(READINGS >= PARTS * SOURCES_OF_PART * READINGS_OF_FILE_MIN)) {
  const least = PARTS * SOURCES_OF_PART * READINGS_OF_FILE_MIN;
  console.error(`found --readings ${values.readings}, wanted at least ${least} for --parts ${values.parts}`);
  Deno.exit(2);
}

const clock = new SystemClock();
const signal = new AbortController().signal;
const folder = await Deno.makeTempDir({ prefix: "svc-bench-data-" });
const store = await openStore({ sqlite: sqliteIn(`${folder}/cloud.db`, new DenoHost()) }, clock);
const files = await FolderFiles.open(new SystemFiles(), `${folder}/files`, { olderThanMs: 0 });

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

function originOf(
  { organization, location, machine }: Awaited<ReturnType<typeof newWorld>>,
  part: number,
  name: string,
) {
  return {
    ...{ organizationId: organization, locationId: location, machineId: machine, machineName: "rover" },
    ...{ partId: `part-${part}`, partName: `part-${part}`, componentType: "rdk:component:sensor" },
    ...{ componentName: name, methodName: "Readings", parameters: "{}" },
  };
}

async function ingest(world: Awaited<ReturnType<typeof newWorld>>): Promise<void> {
  const each = READINGS / PARTS / SOURCES_OF_PART;
  const warmth: { readonly [name: string]: number } = { indoors: 20, outdoors: 12 };
  for (let from = 0; from < each; from += AT_ONCE) {
    for (let part = 0; part < PARTS; part++) {
      for (const name of Object.keys(warmth)) {
        const readings = Array.from({ length: Math.min(AT_ONCE, each - from) }, (_, index) => {
          const at = from + index;
          const capturedUs = (START_MS + at * STEP_MS) * 1000;
          const celsius = warmth[name] + Math.round(100 * Math.sin((at + part) / 500)) / 10;
          return {
            capturedUs,
            receivedUs: capturedUs + 500,
            payload: { readings: { celsius, humidity: at % 100, state: "on" } },
          };
        });
        await storeReadings(
          { store, files },
          originOf(world, part, name),
          readings,
          [`tag${part % 4}`],
          START_MS,
        );
      }
    }
  }
}

function shownS(time: number): string {
  return time === Infinity ? "too late" : `${time.toFixed(2)} s`;
}

const at = (share: number) =>
  new Date(START_MS + Math.floor(share * READINGS / PARTS / SOURCES_OF_PART) * STEP_MS).toISOString().slice(
    0,
    19,
  );

/** Each query for svc-cloud; DuckDB alone gets the same over a view with the same columns. */
const QUERIES: { readonly [name: string]: string } = {
  "last value":
    "SELECT data.readings.celsius AS c FROM readings WHERE part_id = 'part-1' AND component_name = 'indoors' ORDER BY time_requested DESC LIMIT 1",
  "average an hour":
    `SELECT date_trunc('hour', time_requested) AS hour, AVG(data.readings.celsius) AS mean FROM readings
    WHERE time_requested >= TIMESTAMP '${at(0.25)}' AND time_requested < TIMESTAMP '${
      at(0.75)
    }' GROUP BY ALL`,
  "count by part": "SELECT part_id, COUNT(*) AS n FROM readings GROUP BY ALL",
  "by tag and time":
    `SELECT COUNT(*) AS n FROM readings WHERE 'tag1' = ANY(tags) AND time_requested >= TIMESTAMP '${
      at(0.9)
    }'`,
  "join": `SELECT a.part_id AS part, AVG(a.data.readings.celsius - b.data.readings.celsius) AS difference
    FROM readings a JOIN readings b ON a.part_id = b.part_id AND a.time_requested = b.time_requested
    WHERE a.component_name = 'indoors' AND b.component_name = 'outdoors' AND a.part_id = 'part-2' GROUP BY ALL`,
};

/** DuckDB with these files and nothing else. */
async function alone(all: readonly IndexedFile[]): Promise<SqlEngine> {
  const engine = await SqlEngine.open(`${folder}/files`);
  const paths = all.map(({ sha256 }) => `${folder}/files/${sha256.slice(0, 2)}/${sha256}`);
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

const queries = new ReadingQueries(store, files, { ...CONTENT, workFolder: `${folder}/work` });

try {
  let rssMib = 0;
  const watching = setInterval(() => rssMib = Math.max(rssMib, Deno.memoryUsage().rss / 1024 ** 2), 50);
  const world = await newWorld(store);
  const emptyBytes = await store.bytes();
  const ingestS = await seconds(() => ingest(world));
  const rowBytes = (await store.bytes() - emptyBytes) / READINGS;
  console.log(
    `${READINGS} readings of ${PARTS} parts: ${Math.round(READINGS / ingestS)} stored a second, ${
      rowBytes.toFixed(0)
    } bytes each`,
  );

  const ask = (sql: string) => queries.run([world.organization, "bench"], { sql }, signal);
  const inRows = new Map<string, number>();
  for (const [name, sql] of Object.entries(QUERIES)) {
    inRows.set(name, await secondsUnlessLate(() => ask(sql)));
  }

  const logger = silentLogs(clock).logger("bench");
  const moves = new ReadingMoves({ store, files, clock, logger, packer: new ReadingPacker(clock, CONTENT) });
  const moveS = await seconds(() => moves.run(signal));
  const all = await new ReadingFiles(store, files).list(new Conditions());
  const moved = all.reduce((sum, { readings }) => sum + readings, 0);
  const bytes = all.reduce((sum, { fileBytes }) => sum + fileBytes, 0);
  console.log(
    `${moved} moved into ${all.length} files, ${Math.round(moved / moveS)} a second, ${
      (bytes / moved).toFixed(0)
    } bytes each`,
  );

  const [nothing] = await best(() => ask("SELECT COUNT(*) AS n FROM readings WHERE part_id = 'none'"));
  console.log(`a query of nothing takes ${nothing.toFixed(2)} s: the start of its process`);
  console.log(
    `${"query".padEnd(18)}${"rows".padStart(9)}${"files".padStart(9)}${
      "alone".padStart(9)
    }  rows/files  (files-start)/alone`,
  );
  for (const sql of Object.values(QUERIES)) await ask(sql);
  clearInterval(watching);
  // From here on DuckDB runs in this process, too.
  const engine = await alone(all);
  for (const [name, sql] of Object.entries(QUERIES)) {
    const [ours, theirs] = await best(() => ask(sql), () => drained(engine, sql));
    const rows = inRows.get(name)!;
    const shown = [rows, ours, theirs].map((one) => shownS(one).padStart(9)).join("");
    const ratios = [
      rows === Infinity ? "" : (rows / ours).toFixed(1),
      ((ours - nothing) / theirs).toFixed(1),
    ];
    console.log(`${name.padEnd(18)}${shown}  ${ratios[0].padStart(10)}  ${ratios[1].padStart(19)}`);
  }
  const query = { partId: "part-1", resourceName: "indoors", resourceSubtype: "", methodName: "Readings" };
  const [latest] = await best(() =>
    new TabularData(store, files).page(
      new Conditions().only("o.part_id = ?", query.partId),
      { limit: 1, order: "newest first", last: "" },
    )
  );
  console.log(`the last reading of a part, from a file: ${(1000 * latest).toFixed(0)} ms`);
  console.log(`resident memory of svc-cloud's process at most ${rssMib.toFixed(0)} MiB`);
} finally {
  await queries.close();
  await store.close();
  await Deno.remove(folder, { recursive: true });
}
