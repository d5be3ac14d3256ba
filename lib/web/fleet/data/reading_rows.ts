/** Readings from the control plane's answers: their sources, points of a plot, and a file. Pure functions. */

import { csvText } from "../../../base/collections/csv.ts";
import { shownNames } from "../../../base/collections/value_paths.ts";
import { readingLeaves } from "../../shared/flat_readings.ts";

/** What one resource sends by one method. */
export interface ReadingSource {
  readonly partId: string;
  readonly componentType: string;
  readonly componentName: string;
  readonly methodName: string;
  readonly count: number;
  readonly lastMs: number;
}

export interface ReadingPoint {
  readonly timeMs: number;
  readonly values: unknown;
}

/** What tells sources apart, and what a search looks at. */
export function sourceKey({ partId, componentType, componentName, methodName }: ReadingSource): string {
  return [componentName, methodName, componentType, partId].join(" ");
}

/** The pipeline whose answer `sourcesOf` reads: the sources that sent something since a time, the latest first. */
export function sourcesSince(since: Date, limit: number): object[] {
  const _id = {
    part_id: "$part_id",
    component_type: "$component_type",
    component_name: "$component_name",
    method_name: "$method_name",
  };
  return [
    { $match: { time_received: { $gte: since } } },
    { $group: { _id, count: { $sum: 1 }, last: { $max: "$time_received" } } },
    { $sort: { last: -1 } },
    { $limit: limit },
  ];
}

/** Of the groups of that pipeline. */
export function sourcesOf(groups: readonly unknown[]): ReadingSource[] {
  return groups.flatMap((group) => {
    const { _id: id, count, last } = group as {
      _id?: Record<string, unknown>;
      count?: unknown;
      last?: unknown;
    };
    if (typeof id !== "object" || id === null) return [];
    const textAt = (name: string) => String(id[name] ?? "");
    const lastMs = last instanceof Date ? last.getTime() : Date.parse(String(last)) || 0;
    return [{
      partId: textAt("part_id"),
      componentType: textAt("component_type"),
      componentName: textAt("component_name"),
      methodName: textAt("method_name"),
      count: Number(count),
      lastMs,
    }];
  });
}

/** Oldest first. A sensor's readings are the values themselves. */
export function readingPoints(
  answers: readonly { readonly data?: unknown; readonly timeRequested?: Date }[],
): ReadingPoint[] {
  return answers.map(({ data, timeRequested }) => ({
    timeMs: timeRequested?.getTime() ?? 0,
    values: (data as { readings?: unknown } | undefined)?.readings ?? data,
  })).sort((a, b) => a.timeMs - b.timeMs);
}

/** A table with a column for each name that any reading has. */
export function readingsCsv(points: readonly ReadingPoint[]): string {
  const rows = points.map(({ timeMs, values }) => ({ timeMs, leaves: readingLeaves(values) }));
  const names = [...shownNames(rows.flatMap(({ leaves }) => leaves.map(([path]) => path)))];
  const lines = rows.map(({ timeMs, leaves }) => {
    const values = new Map(leaves.map(([{ exact }, value]) => [exact, value]));
    return [new Date(timeMs).toISOString(), ...names.map(([exact]) => values.get(exact))];
  });
  const head = ["time", ...names.map(([, shown]) => shown)];
  return [head, ...lines].map((cells) => cells.map(cellOf).join(",")).join("\r\n") + "\r\n";
}

/** A text that a spreadsheet would run as a formula is marked as text. */
function cellOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return csvText(typeof value === "string" ? value : JSON.stringify(value));
}
