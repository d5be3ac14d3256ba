/**
 * Commands of `svc-ml`, their exit codes, and the parsing of their words.
 */

import { type Code, SvcError } from "../../lib/base/error.ts";
import { didYouMean } from "../../lib/base/schema/suggest.ts";
import type { Command as AnyCommand, GivenWords } from "../command.ts";
import type { Flag, Values } from "../flags.ts";
import { EXIT as USUAL } from "../program.ts";
import { type CommonValues, MlCommandContext, type MlProgramContext } from "./command_context.ts";

export const ML_EXIT = {
  ...USUAL,
  auth: 3,
  missing: 4,
  conflict: 5,
  timeout: 124,
  detached: 130,
} as const;

const EXITS: { readonly [C in Code]?: number } = {
  invalid_argument: ML_EXIT.usage,
  out_of_range: ML_EXIT.usage,
  unauthenticated: ML_EXIT.auth,
  permission_denied: ML_EXIT.auth,
  not_found: ML_EXIT.missing,
  already_exists: ML_EXIT.conflict,
  failed_precondition: ML_EXIT.conflict,
  aborted: ML_EXIT.conflict,
  deadline_exceeded: ML_EXIT.timeout,
  canceled: ML_EXIT.detached,
};

export function exitCodeOf(error: unknown): number {
  return EXITS[SvcError.from(error).code] ?? ML_EXIT.failed;
}

export type MlCommand = AnyCommand<MlProgramContext>;

/** A command of `svc-ml`. Ctrl-C ends it with `canceled`, and never ends a job. */
export function mlCommand<const T extends readonly string[], const F extends readonly Flag[]>(
  words: string,
  takes: T,
  summary: string,
  flags: F,
  run: (context: MlCommandContext, words: GivenWords<T>, flags: Values<F>) => Promise<number | void>,
): MlCommand {
  const inSession = async (
    program: MlProgramContext,
    given: GivenWords<T>,
    values: Values<F> & CommonValues,
  ) => {
    const stop = new AbortController();
    const ignore = program.host.onTermination(() => stop.abort(new SvcError("canceled", "interrupted")));
    let context: MlCommandContext | undefined;
    try {
      context = new MlCommandContext(program, values, stop.signal);
      return await run(context, given, values);
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : error;
    } finally {
      context?.close();
      ignore();
    }
  };
  return { words, takes, summary, flags, run: inSession };
}

/** The labels of list flags, which commas may separate, too; `\,` is a comma in a label. Without repetitions. */
export function commaWords(...lists: readonly (readonly string[])[]): string[] {
  const words = lists.flat().map((one) =>
    one.split(/(?<!\\),/).map((word) => word.trim().replaceAll("\\,", ",")).filter(Boolean)
  );
  // A variable of a script that is empty by mistake is not to mean all labels.
  if (words.some((some) => some.length === 0)) {
    throw new SvcError("invalid_argument", "--tags or --labels: found no label, wanted one or more");
  }
  return [...new Set(words.flat())];
}

/** The number of a flag. Throws `invalid_argument` for one below 0. */
export function countOf(flag: string, number: number): number {
  if (number >= 0) return number;
  throw new SvcError("invalid_argument", `--${flag}: found ${number}, wanted 0 or more`);
}

/** A flag's value that is none of the known words. */
export function unknownWord(flag: string, found: string, wanted: readonly string[]): SvcError {
  const hint = didYouMean(found, wanted);
  return new SvcError("invalid_argument", `--${flag}: found "${found}", wanted ${wanted.join(", ")}${hint}`);
}

/** `key=value`, split at the first `=`. Keys are options of scripts. */
export function pairsOf(flag: string, given: readonly string[]): { [key: string]: string } {
  const pairs = given.map((one): [string, string] => {
    const [, key, value = ""] = /^([A-Za-z0-9_-]+)=([^]*)$/.exec(one) ?? [];
    if (key !== undefined) return [key, value];
    const wanted = "key=value, with letters, digits, - and _ in the key";
    throw new SvcError("invalid_argument", `--${flag}: found "${one}", wanted ${wanted}`);
  });
  return Object.fromEntries(pairs);
}

/** Versions sort by time, and two of the same millisecond differ. */
export function newVersion(nowMs: number): string {
  const suffix = crypto.randomUUID().slice(0, 4);
  return `${new Date(nowMs).toISOString().replace(/[:.]/g, "-").replace("Z", "")}-${suffix}`;
}

/** A text as the name of a package; `otherwise` if no character is usable. */
export function packageName(text: string, otherwise: string): string {
  return text.trim().replace(/[^A-Za-z0-9_.-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "") || otherwise;
}
