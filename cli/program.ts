/**
 * The start of all programs: bad flags, `--help` and `--version`.
 *
 * A program is a value. `begin` either answers the command line itself and returns an exit code, or returns the parsed
 * values. Exit codes: 0 done, 1 failed, 2 the command line is wrong.
 */

import { chainOf } from "../lib/base/error.ts";
import { escaped } from "../lib/base/escape.ts";
import { shownUrlsIn } from "../lib/base/log/shown_url.ts";
import { type Environment, type Output, OutputError } from "../lib/base/host.ts";
import {
  describeFlags,
  describeProblem,
  type Flag,
  parseFlags,
  type Style,
  UsageError,
  type Values,
  wrap,
} from "./flags.ts";
import { licensesText, otherRuntime, versionLine } from "./version.ts";

export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** The part of the host that command lines need. */
export type Terminal = Environment & Output;

export interface Program<T extends readonly Flag[]> {
  /** `svc-server`; for a command `svc-ml dataset create`. */
  readonly name: string;
  /** Its purpose, in a paragraph. */
  readonly summary: string;
  readonly style: Style;
  /** The rest of the usage line, after the name. */
  readonly usage: string;
  /** Without `version` and `help`, which every program has. */
  readonly flags: T;
  /** Flags that it accepts and the help text leaves to others: those of commands. */
  readonly unlisted?: readonly Flag[];
  /** The end of the help text. */
  readonly more?: string;
}

/** The parsed command line, or the exit code if `begin` has answered it. */
export type Begun<T extends readonly Flag[]> =
  | { readonly exitCode: number }
  | { readonly exitCode?: undefined; readonly values: Values<T>; readonly rest: readonly string[] };

export function begin<const T extends readonly Flag[]>(
  program: Program<T>,
  args: readonly string[],
  terminal: Terminal,
): Begun<T> {
  const { name, style } = program;
  const env = (variable: string) => terminal.env(variable);
  const { values, rest, help, problems, warnings } = parseFlags(
    [...tableOf(program), ...program.unlisted ?? []],
    style,
    args,
    env,
  );
  for (const warning of warnings) terminal.writeError(`${name}: ${describeProblem(warning)}\n`);
  if (problems.length > 0) {
    for (const problem of problems) terminal.writeError(`${name}: ${describeProblem(problem)}\n`);
    return { exitCode: EXIT.usage };
  }
  if (help) {
    terminal.write(helpText(program));
    return { exitCode: EXIT.ok };
  }
  const [executable = name] = name.split(" ", 1);
  if ((values as { version: boolean }).version) {
    terminal.write(`${versionLine(executable)}\n`);
    return { exitCode: EXIT.ok };
  }
  if ((values as { licenses: boolean }).licenses) {
    terminal.write(licensesText(executable));
    return { exitCode: EXIT.ok };
  }
  return { values: values as Values<T>, rest };
}

/**
 * Runs a whole program; returns its exit code. Says first if the runtime is not the product's. A program whose reader has gone, as that of `svc-ml list | head -1`,
 * fails without a word.
 */
export async function ended(name: string, terminal: Terminal, run: () => Promise<number>): Promise<number> {
  const other = otherRuntime();
  if (other !== undefined) terminal.writeError(`${name}: ${other}\n`);
  try {
    return await run();
  } catch (error) {
    if (error instanceof OutputError) return failed(name, error, terminal);
    throw error;
  }
}

/** Says why a program or command fails; returns the exit code. */
export function failed(name: string, error: unknown, terminal: Output): number {
  if (!(error instanceof OutputError && error.unread)) {
    terminal.writeError(`${name}: ${escaped(shownUrlsIn(chainOf(error)))}\n`);
  }
  return error instanceof UsageError ? EXIT.usage : EXIT.failed;
}

/** The problem with a word on the command line of a program that takes options only. */
export function unexpected(word: string): string {
  const hint = /^(true|false)$/i.test(word)
    ? `the value of an option without one follows "=", as in -debug=${word}`
    : "every option begins with a dash";
  return `unexpected argument "${word}", ${hint}`;
}

/** Answers a command line that is only `--version`, so that the program need not load its commands for it. */
export function answersVersion(program: string, args: readonly string[], terminal: Output): boolean {
  const [word = "", ...more] = args;
  if (more.length > 0) return false;
  const asked = ["version", "--version", "-version", "-v"].includes(word);
  const licenses = ["--licenses", "-licenses"].includes(word);
  if (asked) terminal.write(`${versionLine(program)}\n`);
  if (licenses) terminal.write(licensesText(program));
  return asked || licenses;
}

/** The complete help text of a program. */
function helpText(program: Program<readonly Flag[]>): string {
  const { name, summary, style, usage, more = "" } = program;
  const about = wrap(summary, 80).join("\n");
  return `${about}\n\nUsage: ${name} ${usage}\n\nFlags:\n${describeFlags(tableOf(program), style)}${more}`;
}

function tableOf({ flags }: Program<readonly Flag[]>): readonly Flag[] {
  return [
    ...flags,
    { name: "version", short: "v", type: "bool", default: false, help: "Print the version and exit." },
    {
      name: "licenses",
      type: "bool",
      default: false,
      help: "Print the licenses of the third-party software in this program and exit.",
    },
  ];
}
