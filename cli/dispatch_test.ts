/** A program of a few commands, called in every way: which command it is, its words, its exit code, its help. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SvcError } from "../lib/base/error.ts";
import type { Command, CommandContext, CommandProgram } from "./command.ts";
import { CLOUD_PROGRAM } from "./cloud/program.ts";
import { runCommand } from "./dispatch.ts";
import { leadingFlags } from "./flags.ts";

const FLAGS = [
  { name: "place", short: "p", type: "string", default: "", value: "PLACE", help: "Where." },
  { name: "loud", short: "l", type: "bool", default: false, help: "Tell more." },
] as const;

/** A command that prints its words and values. */
function echo(words: string, takes: readonly string[]): Command<CommandContext> {
  const run: Command<CommandContext>["run"] = ({ host }, given, values) => {
    host.write(JSON.stringify([words, given, values]));
    return Promise.resolve();
  };
  return { words, takes, summary: `Does ${words || "what it is for"}.`, flags: [], run };
}

const broken: Command<CommandContext> = {
  ...echo("break", []),
  run: () => Promise.reject(new SvcError("not_found", "there is no \x1b[31mhammer")),
};

const NO_COMMAND = "tool: no command; there are box, box open, put, take, break, give; see --help\n";

const PROGRAM: CommandProgram<CommandContext> = {
  name: "tool",
  summary: "Does things.",
  flags: FLAGS,
  commands: [
    echo("box", []),
    echo("box open", ["BOX", "[KEY]"]),
    echo("put", ["FILE..."]),
    echo("take", ["BOX", "[FILE...]"]),
    broken,
    { ...broken, words: "give", run: () => Promise.resolve(7) },
  ],
};
const BARE: CommandProgram<CommandContext> = { ...PROGRAM, commands: [echo("", []), ...PROGRAM.commands] };

async function run(program: CommandProgram<CommandContext>, line: string) {
  let [output, errors] = ["", ""];
  const host = {
    write: (text: string) => void (output += text),
    writeError: (text: string) => void (errors += text),
    env: () => undefined,
  };
  const code = await runCommand(program, line === "" ? [] : line.split(" "), { host });
  return { code, output, errors };
}

Deno.test("global flags are accepted before, after and between a command's words", async () => {
  const values = { place: "x", loud: true, version: false, licenses: false };
  for (
    const line of [
      "--place x -l box open a",
      "-lp x box open a",
      "box open -px a --loud",
      "box open a --place=x -l",
    ]
  ) {
    assertEquals(await run(PROGRAM, line), {
      code: 0,
      output: JSON.stringify(["box open", ["a"], values]),
      errors: "",
    });
  }
});

Deno.test("leadingFlags() counts leading flags with their values up to the first other word", () => {
  const counted = (line: string) => leadingFlags(FLAGS, line.split(" "));
  assertEquals(["box", "-l box", "-p x box", "--place=x box", "-lp x box", "-l -- -l", "-p"].map(counted), [
    0,
    1,
    2,
    1,
    2,
    2,
    1,
  ]);
});

Deno.test("the longest matching command runs, and a wrong number of words is refused", async () => {
  assertStringIncludes((await run(PROGRAM, "box")).output, '["box",[]');
  assertStringIncludes((await run(PROGRAM, "box open a b")).output, '["box open",["a","b"]');
  assertStringIncludes((await run(PROGRAM, "put a b c")).output, '["put",["a","b","c"]');
  const wrong = async (line: string) => {
    const { code, output, errors } = await run(PROGRAM, line);
    assertEquals([code, output], [2, ""]);
    return errors;
  };
  assertEquals(
    await wrong("box open"),
    "tool box open: found no BOX, wanted tool box open BOX [KEY] [flags]\n",
  );
  assertEquals(await wrong("put"), "tool put: found no FILE, wanted tool put FILE... [flags]\n");
  const more = 'tool box open: found "c" more than it takes, wanted tool box open BOX [KEY] [flags]\n';
  assertEquals(await wrong("box open a b c"), more);
  assertEquals(
    await wrong("bxo open"),
    'tool: unknown command "bxo open"; did you mean box open?; see --help\n',
  );
  assertEquals(await wrong(""), NO_COMMAND);
  assertEquals(await wrong("--loud -p x"), NO_COMMAND);
  assertEquals(await wrong("--loud --zebra"), "tool: Unknown flag --zebra; see --help\n");
});

Deno.test("the first word of several commands alone tells which commands they are", async () => {
  const program = { ...PROGRAM, commands: PROGRAM.commands.filter(({ words }) => words !== "box") };
  const { code, output } = await run(program, "box --help");
  assertEquals(code, 0);
  assertStringIncludes(output, "Usage: tool box COMMAND [flags]");
  assertStringIncludes(output, "\n  open BOX [KEY]");
  assertEquals(output.includes("put"), false);
  const errors = "tool box: found no command, wanted open; see --help\n";
  assertEquals(await run(program, "box"), { code: 2, output: "", errors });
  assertEquals(await run(program, "-l box"), { code: 2, output: "", errors });
  assertStringIncludes((await run(program, "box opne")).errors, "did you mean box open?");
  assertStringIncludes((await run(program, "open")).errors, 'unknown command "open"; did you mean box open?');
});

Deno.test("an error of a command is printed without control characters and sets the exit code", async () => {
  const errors = "tool break: there is no \\u001b[31mhammer\n";
  assertEquals(await run(PROGRAM, "break"), { code: 1, output: "", errors });
  const coded = {
    ...PROGRAM,
    exitCodeOf: (error: unknown) => SvcError.from(error).code === "not_found" ? 4 : 1,
  };
  assertEquals(await run(coded, "break"), { code: 4, output: "", errors });
  assertEquals((await run(PROGRAM, "give")).code, 7);
});

Deno.test("the help of a program without a command lists the global flags", async () => {
  assertStringIncludes((await run(BARE, "-p x")).output, '["",[],{"place":"x"');
  assertEquals((await run(BARE, "bxo")).code, 2);
  const { output } = await run(BARE, "--help");
  assertStringIncludes(output, "Usage: tool [COMMAND] [flags]");
  assertStringIncludes(output, "-p, --place PLACE");
  assertStringIncludes(output, "(none)");
  assertEquals((await run(PROGRAM, "--help")).output.includes("--place"), false);
  assertStringIncludes((await run(PROGRAM, "box --help")).output, "-p, --place PLACE");
});

Deno.test("help is a word, too: of the program, of a group, of a command", async () => {
  const twins = [
    ["help", "--help"],
    ["help box open", "box open --help"],
    ["help box --loud", "box --help"],
    ["help put", "put --help"],
  ];
  for (const [line, same] of twins) {
    const { code, output, errors } = await run(PROGRAM, line);
    assertEquals([code, errors], [0, ""], line);
    assertEquals(output, (await run(PROGRAM, same)).output, line);
  }
  assertStringIncludes((await run(PROGRAM, "help bxo")).errors, "did you mean box?");
  const own = { ...PROGRAM, commands: [...PROGRAM.commands, echo("help", ["[WORD...]"])] };
  assertStringIncludes((await run(own, "help box")).output, '["help",["box"]');
});

Deno.test("an unknown command suggests a flag of that name, a group with a near name, and its list", async () => {
  const commands = ["key create", "key list", "uninstall", "box open"].map((words) => echo(words, []));
  const install = { name: "install", type: "bool", default: false, help: "Install." } as const;
  const program = { ...BARE, flags: [...FLAGS, install], commands: [echo("", []), ...commands] };
  const complaint = async (line: string) => (await run(program, line)).errors;
  assertStringIncludes(await complaint("install"), 'unknown command "install"; did you mean --install?');
  assertStringIncludes(await complaint("instal"), "did you mean uninstall?");
  assertStringIncludes(await complaint("keys"), "did you mean key list?");
  assertStringIncludes(await complaint("keys create"), "did you mean key create?");
  assertStringIncludes(await complaint("boxes"), "; there are ");
  assertStringIncludes(await complaint("uninstal x"), 'unknown command "uninstal"; did you mean uninstall?');
});

Deno.test("words that may be left out may also be many", async () => {
  const words = async (line: string) => JSON.parse((await run(PROGRAM, line)).output)[1];
  assertEquals([await words("take b"), await words("take b c d")], [["b"], ["b", "c", "d"]]);
  assertStringIncludes((await run(PROGRAM, "take")).errors, "found no BOX");
});

Deno.test("a misspelt flag before a word is named, and a misspelt command below another one", async () => {
  assertStringIncludes(
    (await run(PROGRAM, "--loude bxo")).errors,
    "Unknown flag --loude; did you mean --loud?",
  );
  const commands = [
    { ...PROGRAM.commands.find(({ words }) => words === "box")!, takes: [] },
    PROGRAM.commands.find(({ words }) => words === "box open")!,
  ];
  const inner = (await run({ ...PROGRAM, commands }, "box opne a")).errors;
  assertStringIncludes(inner, 'found "opne" more than it takes');
  assertStringIncludes(inner, "did you mean box open?");
  const few = (await run({ ...PROGRAM, commands }, "xylophone")).errors;
  assertEquals(few, 'tool: unknown command "xylophone"; there are box, box open; see --help\n');
});

Deno.test("every help text of svc-cloud, and of its groups of commands, fits into 80 columns", async () => {
  const words = CLOUD_PROGRAM.commands.flatMap(({ words }) => [words, words.split(" ")[0]!]);
  let output = "";
  const host = { env: () => undefined, write: (text: string) => void (output += text), writeError: () => {} };
  for (const one of new Set(["", ...words])) {
    const before = output.length;
    await runCommand(CLOUD_PROGRAM, [...one.split(" ").filter(Boolean), "--help"], { host } as never);
    assert(output.length > before, one);
  }
  assertEquals(output.split("\n").filter((line) => line.length > 80), []);
});
