/**
 * Commands, programs that consist of commands, and finding the command that a command line calls.
 *
 * Such a program is a table: its parsing and help (`dispatch.ts`), completion and manual page all come from it.
 *
 * The room owns the code that all programs share: flags, commands and how they are called, help, completion, manual
 * pages, tables, exit codes, and where logs go.
 */

import type { Right } from "../lib/base/native/permissions.ts";
import { type Flag, leadingFlags } from "./flags.ts";
import type { Terminal } from "./program.ts";

/** The outside of a command, in any program. */
export interface CommandContext {
  readonly host: Terminal & {
    /** Gives up the rights of this process except these. */
    giveUpRights?(kept: readonly Right[]): void;
  };
}

export interface Command<W extends CommandContext> {
  /** `dataset create`; empty for the work that the program does without a command. */
  readonly words: string;
  /** The words after the command, as the usage line shows them: `ID`, `[ID]`, `FILE...`. */
  readonly takes: readonly string[];
  readonly summary: string;
  readonly flags: readonly Flag[];
  /** Returns the exit code unless it is 0. `values` has the values of its own flags and of the shared ones. */
  run(context: W, words: readonly string[], values: never): Promise<number | void>;
}

/**
 * The words that a command is given, by what it takes: `ID` is there, `[ID]` may be missing, `FILE...` are one or more,
 * `[FILE...]` any number. `runCommand` calls it with no others.
 */
export type GivenWords<T extends readonly string[]> = string[] extends T ? readonly string[]
  : T extends readonly [infer First, ...infer Rest extends readonly string[]]
    ? First extends `[${string}...]` ? readonly string[]
    : First extends `${string}...` ? readonly [string, ...string[]]
    : First extends `[${string}]` ? readonly [word?: string, ...more: GivenWords<Rest>]
    : readonly [word: string, ...more: GivenWords<Rest>]
  : readonly [];

export type Pair = readonly [name: string, meaning: string];

/** A completion of a command line's last word. */
export interface Candidate {
  readonly word: string;
  readonly about?: string;
}

/** The place in a command line to complete. */
export interface Blank {
  /** Its name in the usage line: `JOB`. */
  readonly placeholder: string;
  /** The words of the command. */
  readonly command: string;
  /** The name of the flag, if the place is a flag's value. */
  readonly flag?: string;
}

/** The parts of the manual page beside the commands. */
export interface Manual {
  /** The program's purpose, as the page shows it after the name. */
  readonly purpose: string;
  /** Lines that follow the summary, in roff. */
  readonly description: readonly string[];
  readonly files: readonly Pair[];
  readonly examples: readonly (readonly [line: string, about: string])[];
}

export interface CommandProgram<W extends CommandContext> {
  readonly name: string;
  /** Its purpose, in a paragraph. */
  readonly summary: string;
  /** The flags of every command. */
  readonly flags: readonly Flag[];
  readonly commands: readonly Command<W>[];
  readonly variables?: readonly Pair[];
  readonly exits?: readonly Pair[];
  /** A program with a manual has the commands `completion` and `man`. */
  readonly manual?: Manual;
  /** The rights that a command needs, with the values of its flags; all of them if it is `undefined`. */
  rightsOf?(command: Command<W>, values: { readonly [flag: string]: unknown }): readonly Right[] | undefined;
  /** The exit code for an error; without it 2 for a `UsageError`, else 1. */
  readonly exitCodeOf?: (error: unknown) => number;
  /** The candidates for a blank. `values` has the values of the shared flags. */
  candidates?(context: W, values: never, blank: Blank): Promise<readonly Candidate[]>;
}

/** The command that a command line calls, the positions of its words, and the words up to the next flag. */
export function calledIn<W extends CommandContext>(
  { flags, commands }: CommandProgram<W>,
  args: readonly string[],
): { readonly command?: Command<W>; readonly at: number; readonly words: readonly string[] } {
  const at = leadingFlags(flags, args);
  const end = args.findIndex((word, index) => index >= at && word.startsWith("-"));
  const words = args.slice(at, end < 0 ? args.length : end);
  const bare = commands.find((one) => one.words === "");
  if (words.length === 0) return { command: bare, at, words };
  const fitting = commands.filter((one) =>
    one !== bare && one.words.split(" ").every((word, index) => word === words[index])
  );
  // `profiles use` before `profiles`.
  const [command] = fitting.sort((a, b) => b.words.length - a.words.length);
  return { command, at, words };
}

/** The number of its words. */
export function lengthOf({ words }: Pick<Command<CommandContext>, "words">): number {
  return words === "" ? 0 : words.split(" ").length;
}

/** The rights of a command that starts no programs and loads no native code. */
export const USUAL_RIGHTS: readonly Right[] = ["read", "write", "net", "env", "sys"];

const PATHS = /FILE|FOLDER|PATH/;

/**
 * Whether a command opens files that its caller names. Such a file may be `/dev/stdin` or `/dev/fd/63`, which the
 * runtime opens only for a process with all rights.
 */
export function opensNamedFiles(
  { takes, flags }: Pick<Command<CommandContext>, "takes" | "flags">,
  shared: readonly unknown[],
): boolean {
  const named = [...takes, ...flags.map(({ value = "" }: { readonly value?: string }) => value)];
  return named.some((one) => PATHS.test(one)) || shared.some((one) => /^\/(dev|proc)\//.test(String(one)));
}
