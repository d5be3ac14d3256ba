/**
 * Runs programs that consist of commands: finds the called command, prints its help, and returns the exit code.
 *
 * Flags of every command may also precede the command. A failing command throws; its program maps the error to an exit
 * code.
 */

import { SystemClock } from "../lib/base/clock.ts";
import { escaped } from "../lib/base/escape.ts";
import { didYouMean, suggest } from "../lib/base/schema/suggest.ts";
import {
  calledIn,
  type Command,
  type CommandContext,
  type CommandProgram,
  lengthOf,
  type Pair,
} from "./command.ts";
import { complete, completionCommand } from "./completion.ts";
import { columns, type Flag } from "./flags.ts";
import { manualCommand } from "./man.ts";
import { begin, EXIT, failed, type Program, type Terminal } from "./program.ts";
import { withWaitingLine } from "./progress/waiting_line.ts";
import { onlyOf } from "./lookup.ts";

/** Commands that a message names. */
const NAMED_MAX = 8;
/** The word with which shells ask for candidates. */
const COMPLETE = "__complete";
/** The word for those who expect a command of this name. */
const HELP = "help";

/** Runs the command that `args` call; returns the exit code. */
export async function runCommand<W extends CommandContext>(
  program: CommandProgram<W>,
  args: readonly string[],
  context: W,
): Promise<number> {
  const whole = withManual(program);
  if (whole.manual && args[0] === COMPLETE) {
    await complete(whole, args.slice(args[1] === "--" ? 2 : 1), context);
    return EXIT.ok;
  }
  const asked = helpWords(whole, args);
  if (asked) return runCommand({ ...whole, manual: undefined }, [...asked, "--help"], context);
  const { command, at, words } = calledIn(whole, args);
  if (!command) return noCommand(whole, words, args, at, context.host);
  const own = lengthOf(command);
  const shape = own === 0 ? wholeShape(whole) : commandShape(whole, command);
  const begun = begin(shape, [...args.slice(0, at), ...args.slice(at + own)], context.host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const fail = (text: string) => context.host.writeError(`${shape.name}: ${text}\n`);
  const wrong = wrongWords(command, begun.rest, `${shape.name} ${shape.usage}`, whole);
  if (wrong !== undefined) {
    fail(wrong);
    return EXIT.usage;
  }
  const rights = program.rightsOf?.(command, begun.values);
  if (rights) context.host.giveUpRights?.(rights);
  try {
    const work = async () => await command.run(context, begun.rest, begun.values as never) ?? EXIT.ok;
    return await withWaitingLine(context.host, new SystemClock(), work);
  } catch (error) {
    const code = failed(shape.name, error, context.host);
    return program.exitCodeOf?.(error) ?? code;
  }
}

/** The words after `help`, as in `svc-ml help dataset add`; a command may have the name itself. */
function helpWords<W extends CommandContext>(
  { commands }: Pick<CommandProgram<W>, "commands">,
  args: readonly string[],
): readonly string[] | undefined {
  if (args[0] !== HELP || commands.some(({ words }) => words.split(" ")[0] === HELP)) return undefined;
  const end = args.findIndex((word) => word.startsWith("-"));
  return args.slice(1, end < 0 ? args.length : end);
}

/** The program with the commands that a manual brings. */
function withManual<W extends CommandContext>(program: CommandProgram<W>): CommandProgram<W> {
  if (!program.manual) return program;
  const man = manualCommand<W>(program.name, () => whole);
  const whole: CommandProgram<W> = {
    ...program,
    commands: [...program.commands, completionCommand(program.name), man],
  };
  return whole;
}

/** The problem with the number of words after a command, if there is one. */
function wrongWords(
  { words, takes }: Pick<Command<CommandContext>, "words" | "takes">,
  given: readonly string[],
  usage: string,
  program: Pick<CommandProgram<never>, "commands">,
): string | undefined {
  const least = takes.filter((one) => !one.startsWith("[")).length;
  const most = takes.some((one) => /\.\.\.\]?$/.test(one)) ? Infinity : takes.length;
  if (given.length >= least && given.length <= most) return undefined;
  const surplus = given[most];
  if (surplus !== undefined) {
    const inner = program.commands.map((one) => one.words).filter((one) => one.startsWith(`${words} `));
    const hint = most === 0 ? didYouMean(`${words} ${given[0]}`, inner) : "";
    return `found "${escaped(surplus)}" more than it takes, wanted ${usage}${hint}`;
  }
  return `found no ${takes[given.length]?.replace("...", "")}, wanted ${usage}`;
}

function noCommand<W extends CommandContext>(
  program: CommandProgram<W>,
  words: readonly string[],
  args: readonly string[],
  at: number,
  host: Terminal,
): number {
  const only = onlyOf(words);
  const group = only === undefined ? undefined : groupOf(program, only);
  if (group) {
    const { exitCode } = begin({ ...wholeShape(group), unlisted: program.flags }, args.slice(at + 1), host);
    if (exitCode !== undefined) return exitCode;
    const names = group.commands.map((one) => one.words).join(", ");
    host.writeError(`${group.name}: found no command, wanted ${names}; see --help\n`);
    return EXIT.usage;
  }
  const shape = { ...wholeShape(program), unlisted: program.flags };
  // A misspelt flag comes first: the word behind it may be its value.
  const begun = begin(shape, words.length > 0 ? args.slice(0, at) : args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const names = program.commands.map((one) => one.words).filter((name) => name !== "");
  const [first = ""] = words;
  const near = nearCommand(program, words);
  const isOfGroup = groupOf(program, first) !== undefined || near?.includes(" ");
  const shown = isOfGroup ? words.slice(0, 2).join(" ") : first;
  const found = words.length === 0 ? "no command" : `unknown command "${escaped(shown)}"`;
  const few = names.length <= NAMED_MAX ? `; there are ${names.join(", ")}` : "";
  host.writeError(`${program.name}: ${found}${near ? `; did you mean ${near}?` : few}; see --help\n`);
  return EXIT.usage;
}

/**
 * What a person may have meant: a flag of this very name, a command, a command of a group with a near name, or the
 * command of a group without the group's name.
 */
function nearCommand<W extends CommandContext>(
  { commands, flags }: Pick<CommandProgram<W>, "commands" | "flags">,
  words: readonly string[],
): string | undefined {
  const [first = ""] = words;
  const names = commands.map((one) => one.words).filter((name) => name !== "");
  const bare = commands.find((one) => one.words === "");
  if (bare && [...bare.flags, ...flags].some(({ name }) => name === first)) return `--${first}`;
  const near = suggest(words.slice(0, 2).join(" "), names) ?? suggest(first, names);
  if (near !== undefined) return near;
  const group = suggest(first, new Set(names.flatMap((name) => name.split(" ", 1))));
  const within = names.filter((name) => name.split(" ")[0] === group);
  return within.find((name) => name.split(" ")[1] === (words[1] ?? "list")) ?? within[0] ??
    names.find((name) => name.split(" ")[1] === first);
}

/** The commands whose first word is `word`, as a program of their own, such as `svc-ml dataset`. */
function groupOf<W extends CommandContext>(
  program: CommandProgram<W>,
  word: string,
): Pick<CommandProgram<W>, "name" | "summary" | "flags" | "commands"> | undefined {
  const commands = program.commands.filter(({ words }) => words.startsWith(`${word} `));
  if (commands.length === 0) return undefined;
  return {
    name: `${program.name} ${word}`,
    summary: `The commands of ${program.name} that begin with "${word}".`,
    flags: program.flags,
    commands: commands.map((one) => ({ ...one, words: one.words.slice(word.length + 1) })),
  };
}

type Shape = Program<readonly Flag[]>;

function commandShape<W extends CommandContext>(program: CommandProgram<W>, command: Command<W>): Shape {
  return {
    name: `${program.name} ${command.words}`,
    summary: command.summary,
    style: "gnu",
    usage: [...command.takes, "[flags]"].join(" "),
    flags: [...command.flags, ...program.flags],
  };
}

/** For a program that works without a command, its own flags are those of every command. */
function wholeShape<W extends CommandContext>(
  program: Pick<CommandProgram<W>, "name" | "summary" | "flags" | "commands" | "variables" | "exits">,
): Shape {
  const { name, summary, flags, commands, variables = [], exits = [] } = program;
  const bare = commands.find((one) => one.words === "");
  const listed = commands.map(({ words, takes, summary }): Pair => {
    return [[words || "(none)", ...takes].join(" "), summary];
  });
  const section = (title: string, pairs: readonly Pair[]) =>
    pairs.length === 0 ? "" : `\n${title}:\n${columns(pairs.map(([left, right]) => ({ left, right })))}`;
  return {
    name,
    summary,
    style: "gnu",
    usage: bare ? "[COMMAND] [flags]" : "COMMAND [flags]",
    flags: bare ? [...bare.flags, ...flags] : [],
    more: [
      section("Commands (each with --help)", listed),
      section("Environment", variables),
      section("Exit codes", exits),
    ].join(""),
  };
}
