/**
 * `svc-ml`: the client for machine-learning training jobs.
 *
 * Owns its command line. Promises: data on standard output and all else on standard error; the exit code tells what
 * happened (`man.ts` lists them); Ctrl-C ends this program and never a job.
 */

import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import { escaped } from "../../lib/base/escape.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { suggest } from "../../lib/base/schema/suggest.ts";
import { columns, parseFlags } from "../flags.ts";
import { ACCOUNT_COMMANDS } from "./account.ts";
import { type Command, command, commandOf, EXIT, exitCodeOf, wrongWords } from "./command.ts";
import { complete, COMPLETION_COMMANDS } from "./completion.ts";
import { DATASET_COMMANDS } from "./datasets.ts";
import { JOB_COMMANDS } from "./jobs.ts";
import { EXIT_TEXTS, manualPage, VARIABLES } from "./man.ts";
import { MODEL_COMMANDS } from "./models.ts";
import { SCRIPT_COMMANDS } from "./scripts.ts";
import { COMMON, type CommonValues, Session, type World } from "./session.ts";
import { SUBMIT_COMMANDS } from "./submit.ts";
import { begin } from "../program.ts";

const PROGRAM = {
  name: "svc-ml",
  summary:
    "Trains models: submits, follows, lists, cancels and deletes training jobs, and deals with their datasets, scripts and models.",
  style: "gnu",
  usage: "COMMAND [flags]",
  flags: [],
} as const;

/** Of a terminal that does not say how wide it is. */
const USUAL_COLUMNS = 80;
/** How long a line of standard input may take. */
const INPUT_MS = 10_000;
const LINE_CHARS_MAX = 4096;

const MAN = command("man", [], "Prints the manual page, for: svc-ml man | man -l -", [], (session) => {
  session.host.write(manualPage(PROGRAM.summary, COMMANDS));
  return Promise.resolve();
});

const COMMANDS: readonly Command[] = [
  ...SUBMIT_COMMANDS,
  ...JOB_COMMANDS,
  ...DATASET_COMMANDS,
  ...SCRIPT_COMMANDS,
  ...MODEL_COMMANDS,
  ...ACCOUNT_COMMANDS,
  ...COMPLETION_COMMANDS,
  MAN,
];

/** Runs the program; gives its exit code. What is not given of the world is this computer's. */
export async function main(
  args: readonly string[],
  host: DenoHost,
  given: Partial<World> = {},
): Promise<number> {
  const world = { ...worldOf(host), ...given };
  if (args[0] === "__complete") return await completed(args.slice(args[1] === "--" ? 2 : 1), world);
  const { command: found, at, words } = commandOf(COMMANDS, args);
  if (!found) return noCommand(args, words, host);
  const own = found.words.split(" ").length;
  const program = {
    ...PROGRAM,
    name: `svc-ml ${found.words}`,
    summary: found.summary,
    usage: [...found.takes, "[flags]"].join(" "),
    flags: [...found.flags, ...COMMON],
  };
  const begun = begin(program, [...args.slice(0, at), ...args.slice(at + own)], host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const wrong = wrongWords(found, begun.rest);
  if (wrong !== undefined) {
    host.writeError(`${program.name}: ${wrong}\n`);
    return EXIT.usage;
  }
  return await run(found, begun.rest, begun.values as unknown as CommonValues, world);
}

async function run(
  found: Command,
  words: readonly string[],
  values: CommonValues,
  world: World,
): Promise<number> {
  const { host } = world;
  const stop = new AbortController();
  const ignore = host.onTermination(() => stop.abort(new SvcError("canceled", "interrupted")));
  let session: Session | undefined;
  try {
    session = new Session(world, values, stop.signal);
    return await found.run(session, words, values as never) ?? EXIT.ok;
  } catch (error) {
    if (stop.signal.aborted) {
      host.writeError(`svc-ml ${found.words}: interrupted\n`);
      return EXIT.detached;
    }
    host.writeError(`svc-ml ${found.words}: ${escaped(chainOf(error))}\n`);
    return exitCodeOf(error);
  } finally {
    session?.close();
    ignore();
  }
}

async function completed(words: readonly string[], world: World): Promise<number> {
  const { values } = parseFlags(COMMON, "gnu", words, (name) => world.host.env(name));
  const session = new Session(world, { ...values, output: "table" }, new AbortController().signal);
  try {
    await complete(session, COMMANDS, words);
    return EXIT.ok;
  } finally {
    session.close();
  }
}

function noCommand(args: readonly string[], words: readonly string[], host: DenoHost): number {
  const begun = begin({ ...PROGRAM, more: moreHelp() }, words.length > 0 ? [] : args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const names = COMMANDS.map((one) => one.words);
  const told = words.slice(0, 2).join(" ");
  const near = suggest(told, names) ?? suggest(words[0] ?? "", names) ??
    names.find((name) => name.split(" ")[0] === words[0]);
  const found = words.length === 0 ? "no command" : `unknown command "${told}"`;
  host.writeError(`svc-ml: ${found}${near ? `; did you mean ${near}?` : ""}; see --help\n`);
  return EXIT.usage;
}

function moreHelp(): string {
  const commands = COMMANDS.map(({ words, takes, summary }) => ({
    left: [words, ...takes].join(" "),
    right: summary,
  }));
  const pairs = (all: readonly (readonly [string, string])[]) =>
    columns(all.map(([left, right]) => ({ left, right })));
  return [
    `\nCommands (each with --help):\n${columns(commands)}`,
    `\nEnvironment:\n${pairs(VARIABLES)}`,
    `\nExit codes:\n${pairs(EXIT_TEXTS)}`,
  ].join("");
}

function worldOf(host: DenoHost): World {
  const clock = new SystemClock();
  return {
    host,
    clock,
    terminal: {
      input: Deno.stdin.isTerminal(),
      output: Deno.stdout.isTerminal(),
      errors: Deno.stderr.isTerminal(),
    },
    columns: () => (Deno.stderr.isTerminal() ? Deno.consoleSize().columns : 0) || USUAL_COLUMNS,
    ask: (question, { hidden = false } = {}) =>
      hidden ? askHidden(host, question) : prompt(question) ?? undefined,
    firstLine: () => firstLine(clock),
  };
}

/** What a program that is asked for a line has to say within some time. */
async function firstLine(clock: Clock): Promise<string | undefined> {
  const reader = Deno.stdin.readable.pipeThrough(new TextDecoderStream()).getReader();
  const callOff = clock.after(INPUT_MS, () => void reader.cancel().catch(() => {}));
  try {
    let text = "";
    while (!text.includes("\n") && text.length < LINE_CHARS_MAX) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
    }
    return text === "" ? undefined : text.split(/\r?\n/, 1)[0];
  } finally {
    callOff();
    await reader.cancel().catch(() => {});
  }
}

/** Reads a line that is not shown as it is typed. */
function askHidden(host: DenoHost, question: string): string | undefined {
  host.writeError(question);
  Deno.stdin.setRaw(true);
  try {
    let line = "";
    const byte = new Uint8Array(1);
    while (Deno.stdin.readSync(byte) === 1) {
      const letter = String.fromCharCode(byte[0]);
      if (letter === "\r" || letter === "\n") return line;
      // Ctrl-C, Ctrl-D.
      if (byte[0] === 3 || byte[0] === 4) return undefined;
      line = letter === "\x7f" ? line.slice(0, -1) : line + letter;
    }
    return line;
  } finally {
    Deno.stdin.setRaw(false);
    host.writeError("\n");
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
