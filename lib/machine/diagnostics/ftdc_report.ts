/**
 * Captures for people: a table of every metric, all values as CSV, and a plot.
 *
 * A metric with `_total` in its name only grows, so the table and the plot show its rate per second. All others appear
 * as captured.
 */

import { csvText } from "../../base/collections/csv.ts";
import type { MetricCapture } from "./ftdc_format.ts";

export const REPORT_FORMATS = ["table", "csv", "svg"] as const;
export type ReportFormat = typeof REPORT_FORMATS[number];

/** The metrics of a plot by default. */
const PLOTTED = "process.*,loop.*,resources.*,calls.open";
const PANELS_MAX = 60;

/** The metrics that match one of the patterns: separated by commas, `*` matches anything. */
export function selectMetrics(capture: MetricCapture, patterns: string): MetricCapture {
  const expressions = patterns.split(",").map((pattern) => {
    const literal = pattern.trim().replace(/[.+?^${}()|[\]\\]/g, "\\$&");
    return new RegExp(`^${literal.replaceAll("*", ".*")}$`);
  });
  const chosen = [...capture.metrics].filter(([name]) => expressions.some((one) => one.test(name)));
  return { ...capture, metrics: new Map(chosen) };
}

/** `patterns`: the metrics to show; if it is empty, all, or those of a plot by default. */
export function formatCapture(capture: MetricCapture, format: ReportFormat, patterns: string): string {
  const wanted = patterns === "" && format === "svg" ? PLOTTED : patterns;
  const chosen = wanted === "" ? capture : selectMetrics(capture, wanted);
  return { table, csv, svg }[format](chosen);
}

function table(capture: MetricCapture): string {
  const { timesMs, damaged } = capture;
  const header = ["metric", "unit", "min", "mean", "max", "last"];
  const rows = series(capture).map(({ name, unit, values }) => {
    const { min, mean, max, last } = summary(values);
    return [name, unit, ...[min, mean, max, last].map(shown)];
  });
  const cells = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  const pad = (cell: string, column: number) => {
    const width = widths[column] ?? 0;
    return column < 2 ? cell.padEnd(width) : cell.padStart(width);
  };
  const lines = cells.map((row) => row.map(pad).join("  ").trimEnd());

  const [firstMs, lastMs] = [timesMs[0], timesMs.at(-1)];
  const when = firstMs === undefined || lastMs === undefined ? "" : ` from ${iso(firstMs)} to ${iso(lastMs)}`;
  const torn = damaged === 0
    ? ""
    : `; ${damaged} damaged or unfinished ${damaged === 1 ? "block" : "blocks"} left out`;
  return [`${timesMs.length} samples${when}${torn}`, "", ...lines, ""].join("\n");
}

/** Every value as captured; unmeasured ones are empty. */
function csv({ timesMs, metrics }: MetricCapture): string {
  const columns = [...metrics.values()];
  const lines = [["time", ...metrics.keys()].map(csvText).join(",")];
  for (const [row, timeMs] of timesMs.entries()) {
    const cells = columns.map((values) => Number.isNaN(values[row]) ? "" : String(values[row]));
    lines.push([iso(timeMs), ...cells].join(","));
  }
  return `${lines.join("\n")}\n`;
}

interface Series {
  readonly name: string;
  readonly unit: string;
  readonly values: readonly number[];
}

const UNIT = /_(us|ms|bytes|pct)$/;

/** The shown form of each metric, sorted by name. */
function series({ timesMs, metrics }: MetricCapture): Series[] {
  const names = [...metrics.keys()].sort();
  return names.map((name) => {
    const unit = UNIT.exec(name)?.[1] ?? "";
    const values = metrics.get(name)!;
    if (!/_total(_|$)/.test(name)) return { name, unit, values };
    return { name, unit: `${unit}/s`, values: rates(values, timesMs) };
  });
}

/** Growth per second; unknown at a restart of the program or a jump back in time. */
function rates(values: readonly number[], timesMs: readonly number[]): number[] {
  let [before, beforeMs] = [NaN, NaN];
  return values.map((value, at) => {
    const timeMs = timesMs[at] ?? NaN;
    const grown = value - before, ms = timeMs - beforeMs;
    [before, beforeMs] = [value, timeMs];
    return grown >= 0 && ms > 0 ? grown * 1_000 / ms : NaN;
  });
}

function summary(values: readonly number[]) {
  let min = Infinity, max = -Infinity, sum = 0, count = 0, last = NaN;
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value;
    count++;
    last = value;
  }
  return count === 0 ? { min: NaN, mean: NaN, max: NaN, last } : { min, mean: sum / count, max, last };
}

function shown(value: number): string {
  if (Number.isNaN(value)) return "-";
  return Number.isInteger(value) || Math.abs(value) >= 1_000
    ? String(Math.round(value))
    : value.toPrecision(3);
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

const WIDTH = 900;
const PANEL_HEIGHT = 90;
const LEFT = 90;
const RIGHT = 20;
const PLOT_WIDTH = WIDTH - LEFT - RIGHT;
const PLOT_HEIGHT = 50;
const TOP = 50;
const TIME_TICKS = 6;

/** One panel per metric, one below the other over the same time. */
function svg(capture: MetricCapture): string {
  const all = series(capture);
  const panels = all.slice(0, PANELS_MAX);
  const { timesMs } = capture;
  const { min: from, max: to } = timesMs.length === 0 ? { min: 0, max: 0 } : summary(timesMs);
  const height = TOP + panels.length * PANEL_HEIGHT + 30;
  const left = all.length > panels.length ? `; the first ${panels.length} of ${all.length} metrics` : "";
  const title = `${timesMs.length} samples from ${iso(from)} to ${iso(to)}${left}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" ` +
    `font-family="sans-serif" font-size="11">`,
    `<rect width="100%" height="100%" fill="white"/>`,
    text(LEFT, 25, title, `font-size="14"`),
    ...panels.map((one, index) => panel(one, TOP + index * PANEL_HEIGHT, timesMs, from, to)),
    timeAxis(from, to, height - 15),
    "</svg>\n",
  ].join("\n");
}

function panel(one: Series, top: number, timesMs: readonly number[], from: number, to: number): string {
  const { name, unit, values } = one;
  const { min, max } = summary(values);
  const bottom = top + 20 + PLOT_HEIGHT;
  const span = max > min ? max - min : 1;
  const y = (value: number) => (bottom - (max > min ? (value - min) / span : 0.5) * PLOT_HEIGHT).toFixed(1);
  return [
    text(LEFT, top + 12, unit === "" ? name : `${name} (${unit})`, `font-weight="bold"`),
    `<rect x="${LEFT}" y="${
      top + 20
    }" width="${PLOT_WIDTH}" height="${PLOT_HEIGHT}" fill="none" stroke="#ccc"/>`,
    text(LEFT - 6, top + 28, shown(max), `text-anchor="end"`),
    max > min ? text(LEFT - 6, bottom, shown(min), `text-anchor="end"`) : "",
    `<path d="${
      line(values, timesMs, (ms) => (ms - from) / Math.max(1, to - from), y)
    }" fill="none" stroke="#1f5fa8"/>`,
  ].join("\n");
}

/** The smallest and largest value at each pixel, so that no peak is lost; a gap where nothing was measured. */
function line(
  values: readonly number[],
  timesMs: readonly number[],
  share: (ms: number) => number,
  y: (value: number) => string,
): string {
  const columns: { readonly x: number; min: number; max: number }[] = [];
  for (const [at, value] of values.entries()) {
    const x = Math.round(share(timesMs[at] ?? NaN) * PLOT_WIDTH);
    let column = columns.at(-1);
    if (column?.x !== x) columns.push(column = { x, min: Infinity, max: -Infinity });
    if (value < column.min) column.min = value;
    if (value > column.max) column.max = value;
  }

  const points: string[] = [];
  let pen = "M";
  for (const { x, min, max } of columns) {
    if (max === -Infinity) {
      pen = "M";
      continue;
    }
    points.push(`${pen}${LEFT + x} ${y(min)}`);
    if (max > min) points.push(`L${LEFT + x} ${y(max)}`);
    pen = "L";
  }

  // A single value becomes a point.
  return points.length === 1 ? `${points[0]}h1` : points.join("");
}

function timeAxis(from: number, to: number, y: number): string {
  const ticks = Array.from({ length: TIME_TICKS }, (_, index) => index / (TIME_TICKS - 1));
  return ticks.map((share) => {
    const time = iso(from + share * (to - from)).slice(11, 19);
    return text(LEFT + share * PLOT_WIDTH, y, time, `text-anchor="middle"`);
  }).join("\n");
}

function text(x: number, y: number, content: string, more = ""): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `<text x="${x}" y="${y}" ${more}>${escaped}</text>`;
}
