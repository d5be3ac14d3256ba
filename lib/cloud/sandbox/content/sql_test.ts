import { assert, assertEquals, assertThrows } from "@std/assert";
import { deserialize } from "bson";
import { SvcError } from "../../../base/error.ts";
import type { ReadingBatch } from "../../data/tabular_data.ts";
import { celsius, FIRST_MS, HOUR_MS, readingBatch } from "../../../../tests/support/reading_batch.ts";
import { Pipeline } from "./pipeline.ts";

const INDOORS = readingBatch("indoors", celsius(20, 21, 25), ["warm"]);
const OUTDOORS = readingBatch("outdoors", celsius(3, 4, null));

function answer(sql: string, batches: readonly ReadingBatch[] = [INDOORS, OUTDOORS]) {
  const pipeline = Pipeline.readSql(sql);
  for (const one of batches) if (!pipeline.take(one)) break;
  return pipeline.answer().map((one) => deserialize(one));
}

/** The value of a query of one row and one column. */
function value(sql: string, batches?: readonly ReadingBatch[]) {
  const [row, ...more] = answer(sql, batches);
  assertEquals([more.length, Object.keys(row).length], [0, 1], sql);
  return Object.values(row)[0];
}

const counted = (where: string) => value(`SELECT COUNT(*) FROM readings WHERE ${where}`);

Deno.test("SQL selects all columns, or columns by their paths under the last name or an alias", () => {
  const all = answer("SELECT * FROM readings LIMIT 2");
  assertEquals(all.map(({ component_name, data }) => [component_name, data]), [
    ["indoors", { readings: { celsius: 20 } }],
    ["indoors", { readings: { celsius: 21 } }],
  ]);
  assertEquals(Object.keys(all[0]).includes("sorted by"), false);
  const one = { component_name: "indoors", celsius: 25 };
  const rest = "FROM readings ORDER BY data.readings.celsius DESC LIMIT 1";
  assertEquals(answer(`SELECT component_name, data.readings.celsius ${rest}`), [one]);
  assertEquals(answer(`SELECT readings.component_name, readings.data.readings.celsius ${rest}`), [one]);
  assertEquals(
    answer("SELECT r.component_name AS what FROM readings AS r ORDER BY time_received DESC LIMIT 1 OFFSET 1"),
    [{ what: "outdoors" }],
  );
  assertEquals(answer('SELECT `data`.`readings`."celsius" AS avgTemp FROM readings LIMIT 1'), [{
    avgTemp: 20,
  }]);
  assertEquals(answer("select Data from readings limit 1"), [{}]);
});

Deno.test("SQL compares as WHERE says, and never with a missing value", () => {
  assertEquals(counted("component_name = 'indoors'"), 3);
  assertEquals(counted("component_name <> 'indoors'"), 3);
  assertEquals(counted("data.readings.celsius > 4 AND data.readings.celsius <= 21"), 2);
  assertEquals(counted("data.readings.celsius != 3"), 4);
  assertEquals(counted("NOT data.readings.celsius = 3"), 4);
  assertEquals(counted("NOT (data.readings.celsius = 3 OR component_name = 'indoors')"), 1);
  assertEquals(counted("data.readings.celsius IS NULL"), 1);
  assertEquals(counted("data.readings.celsius IS NOT NULL"), 5);
  assertEquals(counted("data.readings.celsius BETWEEN 4 AND 21"), 3);
  assertEquals(counted("data.readings.celsius NOT BETWEEN 4 AND 21"), 2);
  assertEquals(counted("data.readings.celsius IN (3, 25)"), 2);
  assertEquals(counted("data.readings.celsius NOT IN (3, 25)"), 3);
  assertEquals(counted("data.readings.celsius > -1"), 5);
  assertEquals(counted("4 < data.readings.celsius"), 3);
  assertEquals(counted("component_name LIKE 'in%'"), 3);
  assertEquals(counted("component_name LIKE 'IN%'"), 0);
  assertEquals(counted("component_name ILIKE 'IN%'"), 3);
  assertEquals(counted("component_name NOT LIKE '%door_'"), 0);
  assertEquals(counted("component_name LIKE '(.*'"), 0);
  assertEquals(counted("component_name = 'it''s'"), 0);
  assertEquals(counted("tags = 'warm'"), 3);
  assertEquals(counted("UPPER(component_name) = 'OUTDOORS' OR data.readings.celsius * 2 = 40"), 4);
  assertEquals(counted("component_name = 'indoors' AND component_name = 'outdoors'"), 0);
});

Deno.test("SQL compares times with timestamps, and with texts", () => {
  assertEquals(counted("time_received >= CAST('2000-01-01T00:00:00.000Z' AS TIMESTAMP)"), 6);
  assertEquals(counted("time_requested > CAST('2026-03-15T14:00:00Z' AS TIMESTAMP)"), 4);
  assertEquals(counted("time_requested > TIMESTAMP '2026-03-15 15:00:00'"), 2);
  assertEquals(counted("time_requested > '2026-03-15T15:00:00+00:00'"), 2);
  assertEquals(counted("time_requested BETWEEN '2026-03-15T15:00:00Z' AND '2026-03-15T15:30:00Z'"), 2);
  assertEquals(counted("capture_day = '2026-03-15'"), 6);
  assertEquals(counted("EXTRACT(HOUR FROM time_requested) = 16"), 2);
  assertEquals(counted("time_received < CURRENT_TIMESTAMP OR time_received >= NOW()"), 6);
  const sql =
    "SELECT time_received FROM readings WHERE part_id = 'part' AND time_received < '2026-03-15T15:00:00Z'";
  assertEquals(Pipeline.readSql(sql).narrowing(), {
    sources: { part_id: ["part"] },
    requested: {},
    received: { fromMs: undefined, untilMs: FIRST_MS + HOUR_MS },
  });
});

Deno.test("SQL groups, and filters and sorts the groups", () => {
  const sums = "COUNT(*) AS n, COUNT(data.readings.celsius) AS known, AVG(data.readings.celsius) AS mean";
  assertEquals(answer(`SELECT component_name, ${sums} FROM readings GROUP BY component_name ORDER BY mean`), [
    { component_name: "outdoors", n: 3, known: 2, mean: 3.5 },
    { component_name: "indoors", n: 3, known: 3, mean: 22 },
  ]);
  const hours = "DATE_TRUNC('hour', time_requested)";
  assertEquals(
    answer(
      `SELECT ${hours} AS hour, MAX(data.readings.celsius) - MIN(data.readings.celsius) AS spread
       FROM readings GROUP BY ${hours} HAVING COUNT(data.readings.celsius) > 1 ORDER BY hour DESC`,
    ),
    [
      { hour: new Date(FIRST_MS + HOUR_MS), spread: 17 },
      { hour: new Date(FIRST_MS), spread: 17 },
    ],
  );
  assertEquals(answer("SELECT component_name, COUNT(*) FROM readings GROUP BY 1 ORDER BY 1 DESC LIMIT 1"), [
    { component_name: "outdoors", _1: 3 },
  ]);
  assertEquals(
    answer(
      "SELECT COUNT(*), component_name AS name, MAX(data.readings.celsius) FROM readings GROUP BY 2 LIMIT 1",
    ),
    [
      { _1: 3, name: "indoors", _2: 25 },
    ],
  );
  assertEquals(value("SELECT COUNT(DISTINCT component_name) FROM readings"), 2);
  assertEquals(value("SELECT SUM(data.readings.celsius) FROM readings"), 73);
  assertEquals(answer("SELECT DISTINCT component_name FROM readings ORDER BY component_name DESC"), [
    { component_name: "outdoors" },
    { component_name: "indoors" },
  ]);
});

Deno.test("SQL gives one row of aggregates without GROUP BY, also for no readings", () => {
  assertEquals(answer("SELECT COUNT(*) AS n, MAX(data.readings.celsius) AS most FROM readings", []), [
    { n: 0, most: null },
  ]);
  assertEquals(value("SELECT COUNT(DISTINCT tags) FROM readings", []), 0);
  assertEquals(answer("SELECT component_name, COUNT(*) FROM readings GROUP BY component_name", []), []);
});

Deno.test("SQL computes with functions, CASE and casts", () => {
  const of = (expression: string) => value(`SELECT ${expression} AS x FROM readings LIMIT 1`);
  assertEquals(of("ROUND(data.readings.celsius / 3, 1)"), 6.7);
  assertEquals(of("COALESCE(data.readings.none, data.readings.celsius)"), 20);
  assertEquals(of("component_name || '!'"), "indoors!");
  assertEquals(of("CONCAT(LOWER(method_name), '-', component_name)"), "readings-indoors");
  assertEquals(of("LENGTH(component_name)"), 7);
  assertEquals(of("CASE WHEN data.readings.celsius > 18 THEN 'warm' ELSE 'cold' END"), "warm");
  assertEquals(of("CASE component_name WHEN 'indoors' THEN 1 ELSE 2 END"), 1);
  assertEquals(of("CAST(data.readings.celsius AS VARCHAR)"), "20");
  assertEquals(of("'$part_id'"), "$part_id");
  assertEquals(of("-data.readings.celsius + 1"), -19);
  assertEquals(of("NULLIF(component_name, 'indoors')"), null);
});

Deno.test("SQL that is wrong, writes or reads elsewhere is refused with the reason", () => {
  const cases: readonly [sql: string, words: string][] = [
    ["SELEC x", "sql_query: Syntax error at line 1 col 7"],
    ["", "sql_query: Unexpected end of input"],
    ["DELETE FROM readings", "found delete, wanted one SELECT"],
    ["SELECT * FROM readings; SELECT * FROM readings", "found select, select, wanted one SELECT"],
    ["SELECT 1", "wanted FROM readings, which is the only table"],
    ["SELECT * FROM parts", "wanted FROM readings"],
    ["SELECT * FROM readings JOIN parts ON true", "wanted FROM readings"],
    ["SELECT (SELECT 1) FROM readings", "is not supported"],
    ["SELECT FOO(x) FROM readings", "the function foo with 1 arguments is not supported; there are abs, avg"],
    ["SELECT x, COUNT(*) FROM readings", 'the column "x" wants to be in GROUP BY or in an aggregate'],
    ["SELECT *, COUNT(*) FROM readings", "* does not go with GROUP BY"],
    ["SELECT x FROM readings WHERE COUNT(*) > 1", "count does not go into WHERE"],
    ["SELECT a.t, b.t FROM readings", 'two columns are called "t"'],
    ['SELECT a AS "$x" FROM readings', 'a column cannot be called "$x"'],
    ['SELECT "a.$where.b" FROM readings', 'found the column "a.$where.b"'],
    ["SELECT a FROM readings LIMIT -1", "sql_query: "],
    ["SELECT a FROM readings LIMIT a", "LIMIT wants a whole number"],
    ["SELECT a FROM readings ORDER BY 2", "found column number 2 of 1"],
    ["SELECT DATE_TRUNC('eon', a) FROM readings", 'found the part "eon" of a time, wanted one of year'],
    ["SELECT a FROM readings WHERE time_received > 'soon'", "found the time 'soon', wanted one such as"],
    ["SELECT CAST(a AS point) FROM readings", "CAST to point is not supported"],
    [`SELECT ${"(".repeat(500)}`, "sql_query: "],
    [`SELECT ${"- ".repeat(9_000)}1 AS x FROM readings`, "its expressions are nested too deeply"],
    [`SELECT '${"x".repeat(20_000)}' FROM readings`, "characters, wanted at most 20000"],
  ];
  for (const [sql, words] of cases) {
    const error = assertThrows(() => answer(sql), SvcError);
    assert(
      error.code === "invalid_argument" && error.message.includes(words),
      `${sql.slice(0, 100)}: ${error.message}`,
    );
  }
});
