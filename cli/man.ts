/**
 * The manual page of a program that consists of commands, generated from its table. Pure except for the command that
 * prints it.
 */

import { type Command, type CommandContext, type CommandProgram } from "./command.ts";
import { type Flag, placeholderOf } from "./flags.ts";

/** The program includes this command, too. */
export function manualCommand<W extends CommandContext>(
  name: string,
  program: () => CommandProgram<W>,
): Command<W> {
  return {
    words: "man",
    takes: [],
    summary: `Prints the manual page, for: ${name} man | man -l -`,
    flags: [],
    run: ({ host }) => {
      host.write(manualPage(program()));
      return Promise.resolve();
    },
  };
}

/** The page in roff, with the macros of man. */
function manualPage<W extends CommandContext>(program: CommandProgram<W>): string {
  const { name, summary, variables = [], exits = [] } = program;
  const { purpose = "", description = [], files = [], examples = [] } = program.manual ?? {};
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [`.SH ${title}`, ...lines];
  return [
    `.\\" Made by ${name} man.`,
    `.TH ${name.toUpperCase()} 1`,
    ".SH NAME",
    `${escaped(name)} \\- ${escaped(purpose)}`,
    ".SH SYNOPSIS",
    `.B ${escaped(name)}`,
    program.commands.some(({ words }) => words === "") ? "[\\fICOMMAND\\fR]" : ".I COMMAND",
    "[\\fIflags\\fR]",
    ".SH DESCRIPTION",
    escaped(summary),
    ...description,
    ".SH COMMANDS",
    ...program.commands.flatMap((command) => commandText(name, command)),
    ".SH FLAGS OF EVERY COMMAND",
    ...program.flags.flatMap(flagText),
    ...section("EXIT STATUS", exits.flatMap(pairText)),
    ...section("ENVIRONMENT", variables.flatMap(pairText)),
    ...section("FILES", files.flatMap(pairText)),
    ...section("EXAMPLES", examples.flatMap(exampleText)),
    "",
  ].join("\n");
}

function commandText(
  name: string,
  { words, takes, summary, flags }: Pick<Command<CommandContext>, "words" | "takes" | "summary" | "flags">,
): string[] {
  const taken = takes.map((one) => ` \\fI${escaped(one)}\\fR`).join("");
  return [
    `.SS ${escaped(`${name} ${words}`.trimEnd())}${taken}`,
    escaped(summary),
    ...flags.flatMap(flagText),
  ];
}

function flagText(flag: Flag): string[] {
  const { name, short, type, help, env } = flag;
  const shown = placeholderOf(flag);
  const names = [...short ? [`\\fB\\-${short}\\fR`] : [], `\\fB\\-\\-${escaped(name)}\\fR`].join(", ");
  const notes = [...type === "list" ? ["May be repeated."] : [], ...env ? [`Environment: ${env}.`] : []];
  return [
    ".TP",
    shown === "" ? names : `${names} \\fI${escaped(shown)}\\fR`,
    escaped([help, ...notes].join(" ")),
  ];
}

function pairText([name, meaning]: readonly [string, string]): string[] {
  return [".TP", `\\fB${escaped(name)}\\fR`, escaped(meaning)];
}

function exampleText([line, about]: readonly [string, string]): string[] {
  return [".PP", escaped(about), ".PP", ".RS", ".EX", escaped(line), ".EE", ".RE"];
}

/** Writes dashes as they are typed, and keeps a line from beginning like a roff request. */
function escaped(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^([.'])/, "\\&$1");
}
