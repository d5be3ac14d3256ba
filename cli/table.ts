/**
 * Printing of results: as text for people, in columns, or as one line of JSON for programs.
 *
 * Control characters in a result neither move a terminal's cursor nor begin a new line in a table.
 */

import { toMs } from "../lib/api/shared/time.ts";
import { escaped, escapedLine } from "../lib/base/escape.ts";
import type { Output, Screen } from "../lib/base/host.ts";
import type { Terminal } from "./program.ts";
import { wrap } from "./flags.ts";
import { cutText, padded, textWidth } from "./progress/text_width.ts";

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

const HINT_INDENT = "  ";
/** Cells that say nothing: a column of them is left out before all others. */
const EMPTY = new Set(["", "-", "never"]);
/** Names of up to this width are not cut while another column can be left out. */
const READABLE = 24;

/** A column of a table that fits the terminal. */
export interface Column {
  readonly heading: string;
  /** The width to which cells may be cut; without it the column keeps its width. */
  readonly cutTo?: number;
  /** On a narrow terminal the column with the highest rank is left out first; without a rank it stays. */
  readonly rank?: number;
  /** Its cells are words for states, which have colours. */
  readonly isState?: boolean;
}

/** The result of a command that lists something. */
export interface Listing {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly string[])[];
  /** What to do about an empty list. */
  readonly empty: string;
}

/** Where a table is shown. */
export interface TableForm {
  /** Absent without a terminal: then nothing is cut, so that other programs get all of it. */
  readonly columns?: number;
  readonly coloured?: boolean;
}

/** Prints a list: the value as JSON, or a table that fits the terminal; for an empty list a hint. */
export function printListing(
  host: Output & Screen,
  json: boolean,
  value: unknown,
  { columns, rows, empty }: Listing,
): void {
  if (json) host.write(`${JSON.stringify(value)}\n`);
  else if (rows.length === 0) writeHint(host, empty);
  else {
    printLines(host, fittedTable(columns, rows, { columns: host.columns(), coloured: host.coloured() }));
  }
}

/** A command in a text, with what it takes: `svc-cloud org create NAME`. */
const COMMAND_TEXT =
  /\bsvc-[a-z]+(?: [a-z][a-z-]*(?= ))?(?: [a-z][a-z-]*(?= [A-Z-]{2}))?(?: (?:--?[\w-]+(?: (?!-)\S+)?|[A-Z|]{2,}\b))*/g;
/** Stands for the blanks in a command while its text is wrapped. */
const TIED = "\u2060";

/** Writes a remark for the person to standard error, wrapped where the width is known, with commands in one line. */
export function writeHint(host: Output & Pick<Screen, "columns" | "drawnColumns">, text: string): void {
  const width = host.drawnColumns() ?? host.columns();
  host.writeError(`${width === undefined ? text : hintLines(text, width).join("\n")}\n`);
}

/** The lines of a remark. A text that fits, and what has lines of its own, stays as it is. */
export function hintLines(text: string, width: number): string[] {
  if (text.includes("\n") || textWidth(text) <= width) return [text];
  const tied = text.replaceAll(COMMAND_TEXT, (command) => command.replaceAll(" ", TIED));
  const [first = "", ...more] = wrap(tied, width - HINT_INDENT.length);
  return [first, ...more.map((line) => HINT_INDENT + line)].map((line) => line.replaceAll(TIED, " "));
}

/** Prints lines that may have colours; whatever comes from elsewhere has been escaped. */
export function printLines(host: Output & Screen, lines: readonly string[]): void {
  const text = `${lines.join("\n")}\n`;
  if (host.coloured()) host.show(text);
  else host.write(text);
}

/** Rows under their headings, at most as wide as the terminal. */
export function fittedTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  { columns: width = Infinity, coloured = false }: TableForm,
): string[] {
  const filled = columns.map((column, at) => filledColumn(column, rows.map((row) => row[at] ?? "")));
  const shown = shares(filled, width).map(({ column: { heading, cells, isState }, width }) => {
    const cut = cutAt(cells, width);
    const [head, ...texts] = [heading, ...cells].map((cell) => padded(cutText(cell, width, cut), width));
    return [head, ...coloured && isState ? texts.map(painted) : texts];
  });
  return ["headings", ...rows].map((_, at) => shown.map((texts) => texts[at]).join("  ").trimEnd());
}

/** A column with the cells below its heading. */
interface FilledColumn extends Column {
  readonly cells: readonly string[];
  /** The width of its longest text. */
  readonly widest: number;
}

/** Empty columns are the first to be left out. */
function filledColumn({ rank, ...column }: Column, texts: readonly string[]): FilledColumn {
  const cells = texts.map((text) => escapedLine(text));
  const widest = cells.reduce((most, cell) => Math.max(most, textWidth(cell)), column.heading.length);
  const isEmpty = cells.every((cell) => EMPTY.has(cell));
  return { ...column, rank: rank === undefined ? undefined : rank + (isEmpty ? 100 : 0), cells, widest };
}

/** A column that stays, and its width. */
interface ShownColumn {
  readonly column: FilledColumn;
  readonly floor: number;
  width: number;
}

/** The columns that stay. Names stay readable if leaving out other columns is enough for that. */
function shares(columns: readonly FilledColumn[], width: number): readonly ShownColumn[] {
  const readable = sharesWith(columns, readableWidth, width);
  return readable.over > 0 ? sharesWith(columns, leastWidth, width).shown : readable.shown;
}

function leastWidth({ cutTo }: FilledColumn): number {
  return Math.max(cutTo ?? Infinity, 1);
}

function readableWidth(column: FilledColumn): number {
  const { heading, rank, cutTo, widest } = column;
  const isName = rank === undefined && cutTo !== undefined && !/\bID$/.test(heading);
  const least = leastWidth(column);
  return isName ? Math.max(least, Math.min(widest, READABLE)) : least;
}

/** Leaves out the column with the highest rank until the others fit, each cut to its floor at most. */
function sharesWith(
  columns: readonly FilledColumn[],
  floorOf: (column: FilledColumn) => number,
  width: number,
): { readonly shown: readonly ShownColumn[]; readonly over: number } {
  for (let kept = columns;;) {
    const shown = kept.map((column) => ({ column, floor: floorOf(column), width: column.widest }));
    let over = shown.reduce((sum, { width }) => sum + width + 2, -2) - width;
    while (over > 0) {
      // The widest first, so that no column is cut while a longer one is whole.
      const [longest] = shown.filter(({ width, floor }) => width > floor).sort((a, b) => b.width - a.width);
      if (longest === undefined) break;
      longest.width--;
      over--;
    }

    const [last] = kept.filter(({ rank }) => rank !== undefined).sort((a, b) => b.rank! - a.rank!);
    if (over <= 0 || last === undefined) return { shown, over };
    kept = kept.filter((column) => column !== last);
  }
}

/** Names that differ at their ends only, such as `rover-1` and `rover-2`, are cut in the middle. */
function cutAt(cells: readonly string[], width: number): "end" | "middle" {
  const distinct = new Set(cells);
  const shown = new Set([...distinct].map((cell) => cutText(cell, width)));
  return shown.size < distinct.size ? "middle" : "end";
}

const STATE_COLOURS: readonly (readonly [colour: number, words: RegExp])[] = [
  [31, /^(unhealthy|failed|offline|refused|error|gone|expired|disconnected)/i],
  [
    33,
    /^(configuring|starting|pending|running|in.progress|awaiting|waiting|unconfigured|removing|closing|cancel)/i,
  ],
  [32, /^(ready|online|completed|ok|applied|active|current)/i],
];

/** A word for a state in its colour. */
function painted(text: string): string {
  const [colour] = STATE_COLOURS.find(([, words]) => words.test(text)) ?? [];
  return colour === undefined ? text : `\x1b[${colour}m${text}\x1b[0m`;
}

/** Rows as columns of text; the first row may be a header. */
export function table(cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(escapedLine));
  const widths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((most, row) => Math.max(most, textWidth(row[column] ?? "")), 0)
  );
  return rows.map((row) => row.map((cell, column) => padded(cell, widths[column] ?? 0)).join("  ").trimEnd());
}

/** Names and values below each other, without empty values. */
export function facts(pairs: readonly (readonly [name: string, value: string])[]): string[] {
  const shown = pairs.filter(([, value]) => value !== "");
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}

/** Names of fields with instants; in JSON for programs they are ISO times without the ending of their unit. */
const INSTANTS =
  /^(captured|created|seen|at|ended|from|made|until|updated|expires|last_?used|used|time|reported)(Ms|_ms)$/i;
/** Any other number of milliseconds from here on is an instant, too: no length of time is three years. */
const LEAST_INSTANT_MS = 1e11;
const MILLISECONDS = /^(.+?)(Ms|_ms)$/;

/** The same value with ISO times in place of milliseconds. */
export function isoTimes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(isoTimes);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => {
      const isLarge = typeof one === "number" && one >= LEAST_INSTANT_MS;
      const [, stem] = (isLarge ? MILLISECONDS : INSTANTS).exec(key) ?? [];
      if (stem === undefined || (typeof one !== "number" && one !== null)) return [key, isoTimes(one)];
      return [stem, one === null ? null : isoTime(one)];
    }),
  );
}

/** The user's own: nothing in it is looked at. */
const OWN_WORDS = new Set(["config", "metadata", "details", "attributes"]);

/** Names by their ids. */
export type Names = ReadonlyMap<string, string>;

/** `partName` for `partId`; `undefined` for anything else, and where the name is there already. */
function missingName(key: string, value: unknown, beside: object): string | undefined {
  const [, stem] = /^([a-z]\w*)Id$/.exec(key) ?? [];
  if (stem === undefined || typeof value !== "string") return undefined;
  return Object.hasOwn(beside, stem) || Object.hasOwn(beside, `${stem}Name`) ? undefined : `${stem}Name`;
}

/** Whether an id in it has no name beside it. */
export function lacksNames(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(lacksNames);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, one]) =>
    !OWN_WORDS.has(key) && (missingName(key, one, value) !== undefined || lacksNames(one))
  );
}

/** The same value with a name beside each id whose bearer is known. */
export function withNames(value: unknown, names: Names): unknown {
  if (Array.isArray(value)) return value.map((one) => withNames(one, names));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, one]) => {
      const entry = [key, OWN_WORDS.has(key) ? one : withNames(one, names)] as const;
      const missing = missingName(key, one, value);
      const name = missing && names.get(one);
      return name === undefined ? [entry] : [entry, [missing, name]];
    }),
  );
}

function isoTime(ms: number): string | null {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** `2024-01-02 03:04:05` in UTC; `never` without a time. */
export function shownMs(ms: number | null | undefined): string {
  const text = ms === null || ms === undefined ? undefined : isoTime(ms);
  return text?.slice(0, 19).replace("T", " ") ?? "never";
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
