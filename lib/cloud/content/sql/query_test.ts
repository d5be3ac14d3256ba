import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { deserialize } from "bson";
import { SvcError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import type { ReadingBatch } from "../../data/tabular_data.ts";
import { celsius, FIRST_MS, HOUR_MS, readingBatch } from "../../../../tests/support/reading_batch.ts";
import { buildFile, type MadeFile } from "../../readings/reading_file.ts";
import { SqlEngine } from "./engine.ts";
import { SqlQuery } from "./query.ts";

const INDOORS = readingBatch("indoors", celsius(20, 21, 25), ["warm"]);
const OUTDOORS = readingBatch("outdoors", celsius(3, 4, null));

async function answer(sql: string, batches: readonly ReadingBatch[] = [INDOORS, OUTDOORS]) {
  const query = await SqlQuery.read(sql);
  for (const one of batches) if (!await query.take(one)) break;
  return (await query.answer()).map((one) => deserialize(one));
}

/** The value of a query of one row and one column. */
async function value(sql: string, batches?: readonly ReadingBatch[]) {
  const [row, ...more] = await answer(sql, batches);
  assertEquals([more.length, Object.keys(row).length], [0, 1], sql);
  return Object.values(row)[0];
}

const counted = (where: string) => value(`SELECT COUNT(*) FROM readings WHERE ${where}`);

Deno.test("SQL selects all columns, or columns by their paths under the last name or an alias", async () => {
  const all = await answer("SELECT * FROM readings ORDER BY component_name, time_requested LIMIT 2");
  assertEquals(all.map(({ component_name, data }) => [component_name, data]), [
    ["indoors", { readings: { celsius: 20 } }],
    ["indoors", { readings: { celsius: 21 } }],
  ]);
  assertEquals(Object.keys(all[0]).includes("sorted by"), false);
  const one = { component_name: "indoors", celsius: 25 };
  const rest = "FROM readings ORDER BY data.readings.celsius DESC LIMIT 1";
  assertEquals(await answer(`SELECT component_name, data.readings.celsius ${rest}`), [one]);
  assertEquals(await answer(`SELECT readings.component_name, readings.data.readings.celsius ${rest}`), [one]);
  assertEquals(
    await answer(
      "SELECT r.component_name AS what FROM readings AS r ORDER BY time_received DESC LIMIT 1 OFFSET 1",
    ),
    [{ what: "outdoors" }],
  );
  assertEquals(await answer('SELECT `data`.`readings`."celsius" AS avgTemp FROM readings LIMIT 1'), [{
    avgTemp: 20,
  }]);
  assertEquals(await answer("select Component_Name from readings limit 1"), [{ component_name: "indoors" }]);
});

Deno.test("SQL compares as WHERE says, and never with a missing value", async () => {
  assertEquals(await counted("component_name = 'indoors'"), 3);
  assertEquals(await counted("component_name <> 'indoors'"), 3);
  assertEquals(await counted("data.readings.celsius > 4 AND data.readings.celsius <= 21"), 2);
  assertEquals(await counted("data.readings.celsius != 3"), 4);
  assertEquals(await counted("NOT data.readings.celsius = 3"), 4);
  assertEquals(await counted("NOT (data.readings.celsius = 3 OR component_name = 'indoors')"), 1);
  assertEquals(await counted("data.readings.celsius IS NULL"), 1);
  assertEquals(await counted("data.readings.celsius IS NOT NULL"), 5);
  assertEquals(await counted("data.readings.celsius BETWEEN 4 AND 21"), 3);
  assertEquals(await counted("data.readings.celsius NOT BETWEEN 4 AND 21"), 2);
  assertEquals(await counted("data.readings.celsius IN (3, 25)"), 2);
  assertEquals(await counted("data.readings.celsius NOT IN (3, 25)"), 3);
  assertEquals(await counted("data.readings.celsius > -1"), 5);
  assertEquals(await counted("4 < data.readings.celsius"), 3);
  assertEquals(await counted("component_name LIKE 'in%'"), 3);
  assertEquals(await counted("component_name LIKE 'IN%'"), 0);
  assertEquals(await counted("component_name ILIKE 'IN%'"), 3);
  assertEquals(await counted("component_name NOT LIKE '%door_'"), 0);
  assertEquals(await counted("component_name LIKE '(.*'"), 0);
  assertEquals(await counted("component_name = 'it''s'"), 0);
  assertEquals(await counted("'warm' = ANY(tags)"), 3);
  assertEquals(await counted("UPPER(component_name) = 'OUTDOORS' OR data.readings.celsius * 2 = 40"), 4);
  assertEquals(await counted("component_name = 'indoors' AND component_name = 'outdoors'"), 0);
});

Deno.test("SQL compares times with timestamps, and with texts", async () => {
  assertEquals(await counted("time_received >= CAST('2000-01-01T00:00:00.000Z' AS TIMESTAMP)"), 6);
  assertEquals(await counted("time_requested > CAST('2026-03-15T14:00:00Z' AS TIMESTAMP)"), 4);
  assertEquals(await counted("time_requested > TIMESTAMP '2026-03-15 15:00:00'"), 2);
  assertEquals(await counted("time_requested > '2026-03-15T15:00:00+00:00'"), 2);
  assertEquals(await counted("time_requested BETWEEN '2026-03-15T15:00:00Z' AND '2026-03-15T15:30:00Z'"), 2);
  assertEquals(await counted("capture_day = '2026-03-15'"), 6);
  assertEquals(await counted("EXTRACT(HOUR FROM time_requested) = 16"), 2);
  assertEquals(await counted("time_received < CURRENT_TIMESTAMP OR time_received >= NOW()"), 6);
  const sql =
    "SELECT time_received FROM readings WHERE part_id = 'part' AND time_received < '2026-03-15T15:00:00Z'";
  assertEquals((await SqlQuery.read(sql)).narrowing(), {
    sources: { part_id: ["part"] },
    requested: {},
    received: { untilMs: FIRST_MS + HOUR_MS },
  });
});

Deno.test("SQL reads no sources that an inner join leaves out", async () => {
  const sourcesOf = async (from: string) =>
    (await SqlQuery.read(`SELECT COUNT(*) FROM ${from}`)).narrowing().sources;
  const indoors = "a.component_name = 'indoors'";
  const both = ["indoors", "outdoors"];
  assertEquals(
    await sourcesOf(
      `readings a JOIN readings b ON a.part_id = b.part_id
       WHERE ${indoors} AND b.component_name = 'outdoors' AND b.part_id IN ('p', 'q')`,
    ),
    { component_name: both, part_id: ["p", "q"] },
  );
  assertEquals(
    await sourcesOf(
      `readings a, readings b, readings c
       WHERE a.part_id = b.part_id AND b.part_id = c.part_id AND C.part_id = 'p' AND ${indoors}`,
    ),
    { part_id: ["p"] },
  );
  const all = [
    `readings a LEFT JOIN readings b ON a.part_id = b.part_id WHERE ${indoors} AND b.component_name = 'outdoors'`,
    `readings a SEMI JOIN readings b ON a.part_id = b.part_id WHERE ${indoors}`,
    `readings a JOIN readings b ON a.part_id = b.part_id WHERE ${indoors} OR a.part_id = 'p'`,
    `readings a JOIN readings b ON a.part_id <> b.part_id WHERE a.part_id = 'p'`,
    `readings a JOIN readings b ON a.part_id = b.robot_id WHERE a.part_id = 'p'`,
    `readings a JOIN (SELECT * FROM readings) b ON a.part_id = b.part_id WHERE a.part_id = 'p'`,
    `readings a, readings b WHERE a.part_id = 'p' AND b.part_id = (SELECT MAX(part_id) FROM readings)`,
    `readings a JOIN readings b USING (part_id) WHERE part_id = 'p'`,
  ];
  for (const from of all) assertEquals(await sourcesOf(from), {}, from);
});

Deno.test("SQL groups, and filters and sorts the groups", async () => {
  const sums = "COUNT(*) AS n, COUNT(data.readings.celsius) AS known, AVG(data.readings.celsius) AS mean";
  assertEquals(
    await answer(`SELECT component_name, ${sums} FROM readings GROUP BY component_name ORDER BY mean`),
    [
      { component_name: "outdoors", n: 3, known: 2, mean: 3.5 },
      { component_name: "indoors", n: 3, known: 3, mean: 22 },
    ],
  );
  const hours = "DATE_TRUNC('hour', time_requested)";
  assertEquals(
    await answer(
      `SELECT ${hours} AS hour, MAX(data.readings.celsius) - MIN(data.readings.celsius) AS spread
       FROM readings GROUP BY ${hours} HAVING COUNT(data.readings.celsius) > 1 ORDER BY hour DESC`,
    ),
    [
      { hour: new Date(FIRST_MS + HOUR_MS), spread: 17 },
      { hour: new Date(FIRST_MS), spread: 17 },
    ],
  );
  assertEquals(
    await answer("SELECT component_name, COUNT(*) FROM readings GROUP BY 1 ORDER BY 1 DESC LIMIT 1"),
    [
      { component_name: "outdoors", _1: 3 },
    ],
  );
  assertEquals(
    await answer(
      "SELECT COUNT(*), component_name AS name, MAX(data.readings.celsius) FROM readings GROUP BY 2 LIMIT 1",
    ),
    [
      { _1: 3, name: "indoors", _2: 25 },
    ],
  );
  assertEquals(await value("SELECT COUNT(DISTINCT component_name) FROM readings"), 2);
  assertEquals(await value("SELECT SUM(data.readings.celsius) FROM readings"), 73);
  assertEquals(await answer("SELECT DISTINCT component_name FROM readings ORDER BY component_name DESC"), [
    { component_name: "outdoors" },
    { component_name: "indoors" },
  ]);
});

Deno.test("SQL gives one row of aggregates without GROUP BY, also for no readings", async () => {
  assertEquals(await answer("SELECT COUNT(*) AS n, MAX(data.readings.celsius) AS most FROM readings", []), [
    { n: 0, most: null },
  ]);
  assertEquals(await value("SELECT COUNT(DISTINCT tags) FROM readings", []), 0);
  assertEquals(await answer("SELECT component_name, COUNT(*) FROM readings GROUP BY component_name", []), []);
});

Deno.test("SQL computes with functions, CASE and casts", async () => {
  const of = (expression: string) => value(`SELECT ${expression} AS x FROM readings LIMIT 1`);
  assertEquals(await of("ROUND(data.readings.celsius / 3, 1)"), 6.7);
  assertEquals(await of("COALESCE(data.readings.none, data.readings.celsius)"), 20);
  assertEquals(await of("component_name || '!'"), "indoors!");
  assertEquals(await of("CONCAT(LOWER(method_name), '-', component_name)"), "readings-indoors");
  assertEquals(await of("LENGTH(component_name)"), 7);
  assertEquals(await of("CASE WHEN data.readings.celsius > 18 THEN 'warm' ELSE 'cold' END"), "warm");
  assertEquals(await of("CASE component_name WHEN 'indoors' THEN 1 ELSE 2 END"), 1);
  assertEquals(await of("CAST(data.readings.celsius AS VARCHAR)"), "20.0");
  assertEquals(await of("'$part_id'"), "$part_id");
  assertEquals(await of("-data.readings.celsius + 1"), -19);
  assertEquals(await of("NULLIF(component_name, 'indoors')"), null);
});

Deno.test("SQL that is wrong, writes or reads elsewhere is refused with the reason", async () => {
  const cases: readonly [sql: string, words: string][] = [
    ["SELEC x", 'sql_query: syntax error at or near "SELEC"'],
    ["", "found 0 statements, wanted one SELECT"],
    ["DELETE FROM readings", "wanted one SELECT"],
    ["SELECT * FROM readings; SELECT * FROM readings", "found 2 statements, wanted one SELECT"],
    ["SELECT * FROM parts", 'found the table "parts", wanted FROM readings, which is the only table'],
    ["SELECT * FROM stored", 'found the table "stored"'],
    ["SELECT * FROM main.readings", "wanted FROM readings"],
    ["SELECT * FROM duckdb_settings", 'found the table "duckdb_settings"'],
    ["SELECT * FROM readings JOIN parts ON true", "wanted FROM readings"],
    ["SELECT (SELECT max(x) FROM other) FROM readings", 'found the table "other"'],
    ["DESCRIBE readings", "wanted one SELECT"],
    ["FROM (DESCRIBE readings)", "found show ref, wanted one SELECT"],
    ["SELECT foo(part_id) FROM readings", "Scalar Function with name foo does not exist"],
    ["SELECT x FROM readings", 'Referenced column "x" not found'],
    ["SELECT part_id, COUNT(*) FROM readings", "must appear in the GROUP BY clause"],
    ["SELECT part_id FROM readings WHERE COUNT(*) > 1", "WHERE clause cannot contain aggregates"],
    ["SELECT data.a.t, data.b.t FROM readings", 'two columns are called "t"'],
    ["SELECT * FROM readings a JOIN readings b ON true", 'two columns are called "organization_id"'],
    ['SELECT part_id AS "$x" FROM readings', 'a column cannot be called "$x"'],
    ["SELECT part_id FROM readings LIMIT -1", "sql_query: "],
    ["SELECT part_id FROM readings ORDER BY 2", "ORDER term out of range"],
    ["SELECT part_id FROM readings WHERE time_received > 'soon'", "soon"],
    ["SELECT part_id FROM readings WHERE part_id = $1", "sql_query: "],
    [`SELECT ${"(".repeat(500)}`, "sql_query: "],
    [`SELECT '${"x".repeat(20_000)}' FROM readings`, "characters, wanted at most 20000"],
  ];
  for (const [sql, words] of cases) {
    const error = await assertRejects(() => answer(sql), SvcError);
    assert(
      error.code === "invalid_argument" && error.message.includes(words),
      `${sql.slice(0, 100)}: ${error.message}`,
    );
  }
});

Deno.test("SQL answers with what BSON and JSON do not have: names with a null character, and no numbers", async () => {
  const odd = readingBatch("odd", [{ readings: { "a\0b": { "\0": 1 }, list: [{ "\0c": 2 }], celsius: 0 } }]);
  const named = { "a\ufffdb": { "\ufffd": 1 }, list: [{ "\ufffdc": 2 }], celsius: 0 };
  assertEquals(await answer("SELECT data FROM readings", [odd]), [{ data: { readings: named } }]);
  const numbers = `json_object('none', c / 0, 'text', 'NaN "Infinity', 'all', [1 / c, -1 / c])`;
  assertEquals(
    await answer(`SELECT ${numbers} AS j FROM (SELECT data.readings.celsius AS c FROM readings)`, [odd]),
    [{ j: { none: null, text: 'NaN "Infinity', all: [null, null] } }],
  );
  assertEquals(await answer("SELECT json_array('x', 0 / 0) AS j FROM readings", [odd]), [{ j: ["x", null] }]);
});

Deno.test("SQL joins, ranks, and reads its own tables", async () => {
  assertEquals(
    await answer(
      `SELECT i.data.readings.celsius - o.data.readings.celsius AS warmer FROM readings i
       JOIN readings o ON i.time_requested = o.time_requested
       WHERE i.component_name = 'indoors' AND o.component_name = 'outdoors' ORDER BY warmer`,
    ),
    [{ warmer: 17 }, { warmer: 17 }, { warmer: null }],
  );
  assertEquals(
    await answer(
      `WITH hours AS (SELECT component_name AS name, data.readings.celsius AS celsius,
         row_number() OVER (PARTITION BY component_name ORDER BY time_requested DESC) AS rank FROM readings)
       SELECT name, celsius FROM hours WHERE rank = 1 ORDER BY name`,
    ),
    [{ name: "indoors", celsius: 25 }, { name: "outdoors", celsius: null }],
  );
  assertEquals(
    await answer("SELECT part_id FROM readings UNION SELECT 'none' ORDER BY part_id"),
    [{ part_id: "none" }, { part_id: "part" }],
  );
  assertEquals(
    await answer("WITH data AS (SELECT 7 AS celsius) SELECT data.celsius FROM data"),
    [{ celsius: 7 }],
  );
  assertEquals(
    await value(
      "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 9) SELECT MAX(x) FROM n",
    ),
    9,
  );
});

Deno.test("SQL gives values under a path the type that they have in the readings", async () => {
  const mixed = readingBatch("mixed", [
    { readings: { value: 5, list: [1, 2], "it's": { "a/b": true } } },
    { readings: { value: "broken", list: [], on: true } },
  ]);
  const of = async (columns: string) =>
    await answer(`SELECT ${columns} FROM readings ORDER BY time_requested`, [mixed]);
  assertEquals(await of("data.readings.value"), [{ value: 5 }, { value: "broken" }]);
  assertEquals(await of("data.readings.value = 'broken' AS x"), [{ x: false }, { x: true }]);
  assertEquals(await of("data.readings.list"), [{ list: [1, 2] }, { list: [] }]);
  assertEquals(await of("list_sum(CAST(data.readings.list AS DOUBLE[])) AS x"), [{ x: 3 }, { x: null }]);
  assertEquals(await of("NOT data.readings.on AS x"), [{ x: null }, { x: false }]);
  assertEquals(await of(`data.readings."it's"."a/b" AS x`), [{ x: true }, { x: null }]);
  assertEquals(await of("additional_parameters.deep AS x"), [{ x: true }, { x: true }]);
  assertEquals(await of("data->>'$.readings.value' AS x"), [{ x: "5" }, { x: "broken" }]);
  const [values] = await answer(
    `SELECT 9007199254740993 AS big, 0.5 AS half, DATE '2026-01-02' AS day, INTERVAL 1 HOUR AS span, [1, 2] AS list,
       {'a': TRUE} AS object, 1::UTINYINT AS small, NULL AS nothing`,
  );
  assertEquals(String(values.big), "9007199254740993");
  assertEquals({ ...values, big: 0 }, {
    ...{
      big: 0,
      half: 0.5,
      day: new Date("2026-01-02"),
      span: "01:00:00",
      list: [1, 2],
      object: { a: true },
    },
    ...{ small: 1, nothing: null },
  });
});

Deno.test("SQL has no way to files, the network, extensions, settings or memory without end", async () => {
  const refused = [
    ...["read_csv('/etc/passwd')", "read_text('/etc/passwd')", "read_blob('/etc/passwd')", "glob('/*')"],
    ...["read_parquet('http://127.0.0.1/x')", "read_json('/etc/passwd')", "sniff_csv('/etc/passwd')"],
    ...["duckdb_settings()", "duckdb_secrets()", "query('SELECT 1')", "query_table('readings')"],
    ...["pragma_version()", "'/etc/passwd'", "'x.parquet'", "information_schema.tables"],
  ];
  for (const source of refused) {
    const error = await assertRejects(() => answer(`SELECT * FROM ${source}`), SvcError);
    assertMatch(error.message, /^sql_query: (the table function \w+ is not allowed|found the table)/);
  }
  const statements = [
    ...["ATTACH '/tmp/x.db'", "COPY readings TO '/tmp/x'", "EXPORT DATABASE '/tmp/x'", "INSTALL httpfs"],
    ...[
      "LOAD httpfs",
      "PRAGMA database_list",
      "SET memory_limit = '10GB'",
      "RESET memory_limit",
      "CHECKPOINT",
    ],
    ...[
      "SET lock_configuration = false",
      "CALL pragma_version()",
      "CREATE TABLE x (y INTEGER)",
      "EXPLAIN SELECT 1",
    ],
  ];
  for (const statement of statements) {
    const error = await assertRejects(() => answer(statement), SvcError);
    assertMatch(error.message, /^sql_query: (wanted one SELECT|syntax error)/, statement);
  }
  await assertRejects(
    () => answer("SELECT getenv('HOME') AS x FROM readings"),
    SvcError,
    "getenv does not exist",
  );
  const endless = "SELECT list(range) AS x FROM range(1000000000)";
  const error = await assertRejects(() => answer(endless), SvcError, "a query has 384 MiB");
  assertEquals(error.code, "resource_exhausted");
});

Deno.test("SQL's engine alone refuses what its statements would not be allowed", async () => {
  const engine = await SqlEngine.open();
  await engine.lock();
  for (
    const sql of [
      ...["SELECT * FROM read_text('/etc/passwd')", "ATTACH '/tmp/x.db'", "INSTALL httpfs", "LOAD httpfs"],
      ...["COPY (SELECT 1) TO '/tmp/x'", "SET memory_limit = '10GB'", "SET enable_external_access = true"],
      ...["SELECT * FROM glob('/*')", "SELECT * FROM '/etc/passwd'", "SET temp_directory = '/tmp'"],
    ]
  ) {
    const error = await assertRejects(() => engine.run(sql), SvcError);
    assertMatch(error.message, /disabled|locked|Cannot|does not exist/);
  }
});

Deno.test("SQL's engine reads the files of its folder, and no others", async () => {
  const outer = await Deno.makeTempDir();
  const folder = `${outer}/own`;
  try {
    await Deno.mkdir(folder);
    for (const path of [`${folder}/0.parquet`, `${outer}/other.parquet`, `${outer}/own.parquet`]) {
      await Deno.writeFile(path, (await fileOf(INDOORS)).content);
    }
    const engine = await SqlEngine.open(folder);
    await engine.lock();
    assertEquals(
      await engine.row(`SELECT CAST(COUNT(*) AS INTEGER) FROM read_parquet('${folder}/0.parquet')`),
      [3],
    );
    const reading = (path: string) => `SELECT * FROM read_parquet('${path}')`;
    for (
      const sql of [
        ...[
          reading(`${outer}/other.parquet`),
          reading(`${folder}/../other.parquet`),
          reading(`${folder}.parquet`),
        ],
        ...[
          reading(`${outer}/*.parquet`),
          "SELECT * FROM read_text('/etc/passwd')",
          "SELECT * FROM glob('/*')",
        ],
        ...[
          "SET allowed_directories = ['/']",
          "SET allowed_paths = ['/etc/passwd']",
          "COPY (SELECT 1) TO '/tmp/x'",
        ],
      ]
    ) {
      const error = await assertRejects(() => engine.run(sql), SvcError);
      assertMatch(error.message, /disabled|locked|Cannot/);
    }
  } finally {
    await Deno.remove(outer, { recursive: true });
  }
});

Deno.test("SQL finds the same in files as in readings that are handed over", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const times = { captured: { fromUs: (FIRST_MS + HOUR_MS) * 1000 }, received: {} };
    const rows = INDOORS.rows.slice(1);
    const { origin } = INDOORS;
    const statements = [
      "SELECT component_name, tags, time_requested, time_received, capture_day, data FROM readings ORDER BY ALL",
      "SELECT AVG(data.readings.celsius) AS mean, COUNT(*) AS n FROM readings WHERE component_name = 'indoors'",
      "SELECT a.component_name AS a, b.component_name AS b FROM readings a JOIN readings b USING (time_requested) ORDER BY ALL",
      "SELECT component_name FROM readings LIMIT 1",
    ];
    for (const sql of statements) {
      const query = await SqlQuery.read(sql, folder);
      await Deno.writeFile(`${folder}/a`, (await fileOf(INDOORS)).content);
      const isTaken = await query.takeFile({ origin, tags: '["warm"]', sha256: "a", pathTypes: null }, times);
      assertEquals(isTaken, !sql.includes("LIMIT"));
      if (!isTaken) await query.take({ origin, rows });
      await query.take(OUTDOORS);
      const found = (await query.answer()).map((one) => deserialize(one));
      assertEquals(found, await answer(sql, [{ origin, rows }, OUTDOORS]), sql);
      for await (const { name } of Deno.readDir(folder)) await Deno.remove(`${folder}/${name}`);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("SQL gives paths the same types in files as in readings that are handed over", async () => {
  const folder = await Deno.makeTempDir();
  const long = Object.fromEntries(Array.from({ length: 600 }, (_, at) => [`n${at}`, at]));
  const contents: readonly JsonObject[][] = [
    [{ a: 1, b: { c: "x" } }, { a: 2.5, b: { c: null } }],
    // Values of several types; those within the query's times have one.
    [{ a: "text", b: 7 }, { a: 1, b: { c: "y" } }],
    // Lists, empty documents, and names with the signs of paths.
    [{ a: [1, "x"], b: {} }, { a: null, "b/c": { "~": true } }],
    // More names than a file tells of.
    [{ ...long, a: 3, b: { c: "z" } }, { a: 4, b: [true] }],
  ];
  const statements = [
    "SELECT data.readings.a AS a, data.readings.b.c AS c, data.readings.b AS b FROM readings ORDER BY component_name, time_requested",
    'SELECT data.readings.a."1" AS item, data.readings."b/c"."~" AS sign FROM readings ORDER BY component_name, time_requested',
    "SELECT COUNT(*) AS n FROM readings WHERE data.readings.a > 0.5 OR data.readings.a IS NULL",
    "SELECT MAX(data.readings.a) AS a, MIN(data.readings.missing) AS m, MAX(additional_parameters.x) AS x FROM readings",
  ];
  // From a time on, and with types in the index, or in the file alone.
  const laterUs = (FIRST_MS + HOUR_MS) * 1000;
  const cases = [[0, true], [0, false], [laterUs, true]] as const;
  try {
    const found: unknown[] = [];
    for (const readings of contents) {
      for (const sql of statements) {
        for (const [fromUs, isIndexed] of cases) {
          const batch = readingBatch("indoors", readings.map((one) => ({ readings: one })));
          const query = await SqlQuery.read(sql, folder);
          const { content, pathTypes } = await fileOf(batch);
          await Deno.writeFile(`${folder}/a`, content);
          const times = { captured: { fromUs }, received: {} };
          const { origin } = batch;
          const file = { origin, tags: "[]", sha256: "a", pathTypes: isIndexed ? pathTypes : null };
          await query.takeFile(file, times);
          await query.take(OUTDOORS);
          const rows = batch.rows.filter(({ capturedUs }) => capturedUs >= fromUs);
          const ours = await outcome(async () => (await query.answer()).map((one) => deserialize(one)));
          const theirs = await outcome(() => answer(sql, [{ origin, rows }, OUTDOORS]));
          assertEquals(ours, theirs, `${sql} of ${JSON.stringify(readings).slice(0, 80)}`);
          found.push(ours);
          for await (const { name } of Deno.readDir(folder)) await Deno.remove(`${folder}/${name}`);
        }
      }
    }
    assertEquals(found.filter((one) => Array.isArray(one)).length > 20, true);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** What it returns, or the message of its error. */
async function outcome(work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    return SvcError.from(error).message;
  }
}

Deno.test("SQL reads many files", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const { content, pathTypes } = await fileOf(INDOORS);
    const query = await SqlQuery.read(
      "SELECT COUNT(*) AS n, SUM(data.readings.celsius) AS sum FROM readings",
      folder,
    );
    const times = { captured: {}, received: {} };
    for (let at = 0; at < 600; at++) {
      await Deno.writeFile(`${folder}/${at}`, content);
      // Some were moved by a version that had no types in its index.
      const file = {
        ...{ origin: INDOORS.origin, tags: "[]", sha256: String(at) },
        pathTypes: at % 2 === 0 ? pathTypes : null,
      };
      assertEquals(await query.takeFile(file, times), true);
    }
    // Two sources have the same readings.
    const again = { origin: OUTDOORS.origin, tags: "[]", sha256: "7", pathTypes };
    assertEquals(await query.takeFile(again, times), true);
    const [{ n, sum }] = (await query.answer()).map((one) => deserialize(one));
    assertEquals([n, sum], [1_803, 601 * 66]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

async function fileOf({ rows }: ReadingBatch): Promise<MadeFile> {
  const readings = rows.map((one, at) => ({ ...one, storedMs: 0, entryId: String(at).padStart(32, "0") }));
  return await buildFile(readings);
}
