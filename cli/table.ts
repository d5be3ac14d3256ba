/**
 * Printing of results: as text for people, in columns, or as one line of JSON for programs.
 *
 * Control characters in a result neither move a terminal's cursor nor begin a new line in a table.
 */

import { toMs } from "../lib/api/shared/time.ts";
import { escaped, escapedLine } from "../lib/base/escape.ts";
import type { Terminal } from "./program.ts";

/** Prints a result: the value as JSON, or the lines. */
export function printResult(
  terminal: Pick<Terminal, "write">,
  json: boolean,
  value: unknown,
  lines: readonly string[],
): void {
  if (json) terminal.write(`${JSON.stringify(value)}\n`);
  else if (lines.length > 0) terminal.write(`${escaped(lines.join("\n"))}\n`);
}

/** Rows as columns of text; the first row may be a header. */
export function table(cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(escapedLine));
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd());
}

/** Names and values below each other, without empty values. */
export function facts(pairs: readonly (readonly [name: string, value: string])[]): string[] {
  const told = pairs.filter(([, value]) => value !== "");
  const width = Math.max(0, ...told.map(([name]) => name.length));
  return told.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}

type Instant = Parameters<typeof toMs>[0];

/** `2024-01-02 03:04:05` in UTC; a dash without a time. */
export function timeText(instant: Instant): string {
  const time = new Date(toMs(instant));
  // A server may write a time that no calendar has.
  if (!instant || Number.isNaN(time.getTime())) return "-";
  return time.toISOString().slice(0, 19).replace("T", " ");
}

/** `1h 2m`, `3m 4s`, `5.6s`. */
export function lengthText(ms: number): string {
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours}h ${minutes}m` : `${minutes}m ${seconds % 60}s`;
}

/** `12.3 MB` */
export function sizeText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB", "TB"];
  const unit = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** unit).toFixed(1)} ${units[unit - 1]}`;
}
