import { assertEquals, assertMatch } from "@std/assert";
import { decodeCapture, encodeBlock, type MetricCapture } from "./ftdc_format.ts";
import { formatCapture, selectMetrics } from "./ftdc_report.ts";

const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5);

/** Samples a second apart, one value each of every metric; `undefined` was not measured. */
function capture(metrics: { [name: string]: (number | undefined)[] }): MetricCapture {
  const { length } = Object.values(metrics)[0];
  return decodeCapture(encodeBlock(Array.from({ length }, (_, at) => {
    const measured = Object.entries(metrics).flatMap(([name, values]) =>
      values[at] === undefined ? [] : [[name, values[at]]]
    );
    return { timeMs: START_MS + at * 1000, values: Object.fromEntries(measured) };
  })));
}

Deno.test("formatCapture: the table lists each metric with its unit, as values or as a rate", () => {
  const shown = formatCapture(
    capture({
      "process.resident_bytes": [100, 300, 200],
      "calls.S/M.ended_total": [0, 10, 40],
      "process.cpu_total_us": [5_000, 6_000, 0],
      "gone": [1, undefined, undefined],
    }),
    "table",
    "",
  );
  assertEquals(
    shown,
    `3 samples from 2026-01-02T03:04:05.000Z to 2026-01-02T03:04:07.000Z

metric                  unit    min  mean   max  last
calls.S/M.ended_total   /s       10    20    30    30
gone                              1     1     1     1
process.cpu_total_us    us/s   1000  1000  1000  1000
process.resident_bytes  bytes   100   200   300   200
`,
  );
});

Deno.test("formatCapture: the table says how many blocks are left out, and nothing of times without samples", () => {
  const headOf = (damaged: number, samples = [1]) => {
    const times = samples.map((_, at) => START_MS + at * 1000);
    const table = formatCapture({ timesMs: times, metrics: new Map(), damaged }, "table", "");
    return table.split("\n")[0].replace(/ from .* to [^;]*/, "");
  };
  assertEquals(headOf(0), "1 samples");
  assertEquals(headOf(1), "1 samples; 1 damaged or unfinished block left out");
  assertEquals(headOf(2), "1 samples; 2 damaged or unfinished blocks left out");
  assertEquals(headOf(2, []), "0 samples; 2 damaged or unfinished blocks left out");
});

Deno.test("selectMetrics: chooses metrics by name or by pattern with *", () => {
  const some = capture({ "a.b": [1], "a.c": [2], "axb": [3], "d/e+": [4] });
  const chosen = (patterns: string) => [...selectMetrics(some, patterns).metrics.keys()];
  assertEquals(chosen("a.*"), ["a.b", "a.c"]);
  assertEquals(chosen("a.b, d/e+"), ["a.b", "d/e+"]);
  assertEquals(chosen("*"), ["a.b", "a.c", "axb", "d/e+"]);
  assertEquals(chosen("nothing"), []);
});

Deno.test("formatCapture: CSV has a header, and empty fields for missing values", () => {
  assertEquals(
    formatCapture(capture({ 'a,"b"': [1, undefined], "c_total": [10, 12] }), "csv", ""),
    `time,"a,""b""",c_total\n2026-01-02T03:04:05.000Z,1,10\n2026-01-02T03:04:06.000Z,,12\n`,
  );
});

Deno.test("formatCapture: no name of a metric is a formula of a spreadsheet", () => {
  for (const name of ["=1+1", '=HYPERLINK("http://a","b")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]) {
    const [header] = formatCapture(capture({ [name]: [1] }), "csv", "").split("\n");
    assertEquals(/^time,"?'/.test(header), true, header);
  }
});

Deno.test("formatCapture: the SVG plot has a panel per metric and breaks its line at missing values", () => {
  const svg = formatCapture(
    capture({ "loop.<lag>": [1, 2, undefined, 5, 4], "loop.flat": [7, 7, 7, 7, 7] }),
    "svg",
    "",
  );
  assertMatch(svg, /^<svg [^>]+>\n/);
  assertMatch(svg, /loop\.&lt;lag&gt;/);
  const times = [...svg.matchAll(/text-anchor="middle">([^<]+)</g)].map((match) => match[1]);
  assertEquals([times.length > 1, times.filter((time) => !/^\d\d:\d\d:\d\d$/.test(time))], [true, []]);
  const paths = [...svg.matchAll(/<path d="([^"]+)"/g)].map((match) => match[1]);
  assertEquals(
    paths,
    [
      "M90 120.0L288 107.5M683 70.0L880 82.5",
      "M90 185.0L288 185.0L485 185.0L683 185.0L880 185.0",
    ],
  );
});

Deno.test("formatCapture: reports a capture without samples in every format", () => {
  const empty = decodeCapture(new Uint8Array());
  assertEquals(formatCapture(empty, "table", "").split("\n")[0], "0 samples");
  assertEquals(formatCapture(empty, "csv", ""), "time\n");
  assertMatch(formatCapture(empty, "svg", ""), /0 samples/);
});

Deno.test("formatCapture: the SVG plot limits its points and keeps every peak", () => {
  const values = Array.from({ length: 50_000 }, (_, at) => at === 31_234 ? 1_000 : at % 2);
  const timesMs = values.map((_, at) => START_MS + at * 1_000);
  const svg = formatCapture({ timesMs, metrics: new Map([["loop.x", values]]), damaged: 0 }, "svg", "");
  const [path] = [...svg.matchAll(/<path d="([^"]+)"/g)].map((match) => match[1]);
  assertEquals(path.split(/[ML]/).length < 2_000, true);
  assertEquals(path.includes(" 70.0"), true);
});
