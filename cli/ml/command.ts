/**
 * What a command of `svc-ml` is, what its exit codes mean, and how its tables look.
 */

import { toMs } from "../../lib/api/shared/time.ts";
import { type Code, SvcError } from "../../lib/base/error.ts";
import { parseDurationMs } from "../../lib/base/schema/schema.ts";
import type { Flag, Values } from "../flags.ts";
import { COMMON, type Session } from "./session.ts";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  auth: 3,
  missing: 4,
  conflict: 5,
  timeout: 124,
  detached: 130,
};

const EXITS: { readonly [C in Code]?: number } = {
  invalid_argument: EXIT.usage,
  out_of_range: EXIT.usage,
  unauthenticated: EXIT.auth,
  permission_denied: EXIT.auth,
  not_found: EXIT.missing,
  already_exists: EXIT.conflict,
  failed_precondition: EXIT.conflict,
  aborted: EXIT.conflict,
  deadline_exceeded: EXIT.timeout,
  canceled: EXIT.detached,
};

export function exitCodeOf(error: unknown): number {
  return EXITS[SvcError.from(error).code] ?? EXIT.failed;
}

export interface Command {
  /** `dataset create` */
  readonly words: string;
  /** The words that follow, as they stand in the usage line: `ID`, `[ID]`, `FILE...`. */
  readonly takes: readonly string[];
  readonly summary: string;
  readonly flags: readonly Flag[];
  /** Gives the exit code where it is not 0. */
  run(session: Session, words: readonly string[], flags: never): Promise<number | void>;
}

export function command<const F extends readonly Flag[]>(
  words: string,
  takes: readonly string[],
  summary: string,
  flags: F,
  run: (session: Session, words: readonly string[], flags: Values<F>) => Promise<number | void>,
): Command {
  return { words, takes, summary, flags, run };
}

/** The command that a command line begins with, after flags of every command, and where its words stand. */
export function commandOf(
  commands: readonly Command[],
  args: readonly string[],
): { readonly command?: Command; readonly at: number; readonly words: readonly string[] } {
  const at = leadingFlags(args);
  const end = args.findIndex((word, index) => index >= at && word.startsWith("-"));
  const words = args.slice(at, end < 0 ? args.length : end);
  const fitting = commands.filter((one) =>
    one.words.split(" ").every((word, index) => word === words[index])
  );
  // `profiles use` before `profiles`.
  const [command] = fitting.sort((a, b) => b.words.length - a.words.length);
  return { command, at, words };
}

function leadingFlags(args: readonly string[]): number {
  let at = 0;
  while (at < args.length && args[at].startsWith("-")) {
    const [name, value] = args[at].replace(/^--?/, "").split("=", 2);
    const flag: Flag | undefined = COMMON.find((one) => one.name === name || (one as Flag).short === name);
    at += flag && flag.type !== "bool" && value === undefined ? 2 : 1;
  }
  return Math.min(at, args.length);
}

/** What is wrong with the number of words after a command, if anything. */
export function wrongWords({ words, takes }: Command, given: readonly string[]): string | undefined {
  const least = takes.filter((one) => !one.startsWith("[")).length;
  const most = takes.some((one) => one.endsWith("...")) ? Infinity : takes.length;
  if (given.length >= least && given.length <= most) return undefined;
  const usage = `svc-ml ${[words, ...takes, "[flags]"].join(" ")}`;
  if (given.length > most) return `found "${given[most]}" more than it takes, wanted ${usage}`;
  return `found no ${takes[given.length].replace("...", "")}, wanted ${usage}`;
}

/** Rows as columns of text, the first one as their names. */
export function table(names: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [names, ...rows];
  const widths = names.map((_, column) => Math.max(...all.map((row) => row[column].length)));
  return all.map((row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd());
}

/** Names and values below each other; what is empty is left out. */
export function facts(pairs: readonly (readonly [name: string, value: string])[]): string[] {
  const told = pairs.filter(([, value]) => value !== "");
  const width = Math.max(0, ...told.map(([name]) => name.length));
  return told.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}

type Instant = Parameters<typeof toMs>[0];

/** `2024-01-02 03:04:05` in UTC; a dash for none. */
export function timeText(instant: Instant): string {
  if (!instant) return "-";
  return new Date(toMs(instant)).toISOString().slice(0, 19).replace("T", " ");
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

/** Words of a list flag, each of which may be several with commas between them; no empty ones, none twice. */
export function commaWords(...lists: readonly (readonly string[])[]): string[] {
  return [...new Set(lists.flat().flatMap((one) => one.split(",")).map((one) => one.trim()).filter(Boolean))];
}

/** `key=value`, split at the first `=`. Keys are what scripts take as options. */
export function pairsOf(flag: string, given: readonly string[]): { [key: string]: string } {
  const pairs = given.map((one): [string, string] => {
    const [, key, value] = /^([A-Za-z0-9_-]+)=([^]*)$/.exec(one) ?? [];
    if (key !== undefined) return [key, value];
    const wanted = "key=value, with letters, digits, - and _ in the key";
    throw new SvcError("invalid_argument", `--${flag}: found "${one}", wanted ${wanted}`);
  });
  return Object.fromEntries(pairs);
}

/** A length of time before `nowMs`, or a time: `10m`, `2024-01-02T03:04:05Z`. */
export function sinceMs(flag: string, text: string, nowMs: number): number {
  const ago = parseDurationMs(text);
  const at = ago === undefined ? Date.parse(text) : nowMs - ago;
  if (Number.isFinite(at)) return at;
  const wanted = "a length of time such as 10m, or a time such as 2024-01-02T03:04:05Z";
  throw new SvcError("invalid_argument", `--${flag}: found "${text}", wanted ${wanted}`);
}

/** Later ones sort behind earlier ones, and two of the same millisecond differ. */
export function newVersion(nowMs: number): string {
  const suffix = crypto.randomUUID().slice(0, 4);
  return `${new Date(nowMs).toISOString().replace(/[:.]/g, "-").replace("Z", "")}-${suffix}`;
}

/** A text turned into a name that a package may have; `otherwise` where nothing of it can be used. */
export function packageName(text: string, otherwise: string): string {
  return text.trim().replace(/[^A-Za-z0-9_.-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "") || otherwise;
}
