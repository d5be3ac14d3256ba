/**
 * What a command is, what a program that consists of commands is, and which command a command line calls.
 *
 * Such a program is a table: its parsing and help (`dispatch.ts`), completion and manual page all come from it.
 *
 * The room owns what all programs share: flags, commands and how they are called, help, completion, manual pages,
 * tables, exit codes, and where logs go.
 */

import { type Flag, leadingFlags } from "./flags.ts";
import type { Terminal } from "./program.ts";

/** What a command of any program works with. */
export interface World {
  readonly host: Terminal;
}

export interface Command<W extends World> {
  /** `dataset create`; empty where the program does this without being told a command. */
  readonly words: string;
  /** The words that follow, as they stand in the usage line: `ID`, `[ID]`, `FILE...`. */
  readonly takes: readonly string[];
  readonly summary: string;
  readonly flags: readonly Flag[];
  /** Gives the exit code where it is not 0. `values` are those of its flags and of the flags of every command. */
  run(world: W, words: readonly string[], values: never): Promise<number | void>;
}

export type Pair = readonly [name: string, meaning: string];

/** What the last word of a command line may become. */
export interface Candidate {
  readonly word: string;
  readonly about?: string;
}

/** A place of a command line that is to be filled in. */
export interface Blank {
  /** What the usage line has there: `JOB`. */
  readonly placeholder: string;
  /** The words of the command. */
  readonly command: string;
  /** The name of the flag whose value it is. */
  readonly flag?: string;
}

/** What the manual page tells beside the commands. */
export interface Manual {
  /** What the program does, as after its name. */
  readonly purpose: string;
  /** Lines that follow the summary, in roff. */
  readonly description: readonly string[];
  readonly files: readonly Pair[];
  readonly examples: readonly (readonly [line: string, about: string])[];
}

export interface CommandProgram<W extends World> {
  readonly name: string;
  /** What it is for; a paragraph. */
  readonly summary: string;
  /** Of every command. */
  readonly flags: readonly Flag[];
  readonly commands: readonly Command<W>[];
  readonly variables?: readonly Pair[];
  readonly exits?: readonly Pair[];
  /** A program that has one has the commands `completion` and `man`. */
  readonly manual?: Manual;
  /** Which exit code an error is; 1 where it does not say. */
  readonly exitCodeOf?: (error: unknown) => number;
  /** The words that may stand at a blank. `values` are those of the flags of every command. */
  candidates?(world: W, values: never, blank: Blank): Promise<readonly Candidate[]>;
}

/** The command that a command line calls, where its words stand, and the words up to the next flag. */
export function calledIn<W extends World>(
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

/** How many words call it. */
export function lengthOf({ words }: Pick<Command<World>, "words">): number {
  return words === "" ? 0 : words.split(" ").length;
}
