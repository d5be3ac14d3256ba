import { assert, assertEquals, assertRejects } from "@std/assert";
import type { CopyToMachine, FilePart, Shell, ShellInput } from "../../lib/api/shell.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { construct } from "../../tests/support/construct.ts";
import { until } from "../../tests/support/until.ts";
import { BuiltinShell } from "./builtin.ts";

const NOTHING = new Uint8Array(0);

Deno.test("shell: its environment has the variables of a login and no others", async () => {
  Deno.env.set("SVC_TEST_SECRET", "hunter2");
  try {
    const output = await withShell((shell) => outputOf(shell, "env; exit\n"));
    assert(output.includes("TERM=xterm-256color") && output.includes("PATH="), output);
    assert(!output.includes("SVC_TEST_SECRET"), output);
  } finally {
    Deno.env.delete("SVC_TEST_SECRET");
  }
});

Deno.test("shell: a character in two pieces is sent whole, and bad bytes are replaced", async () => {
  const half = "printf '\\303'; sleep 0.3; printf '\\244\\377x'; exit\n";
  const output = await withShell((shell) => outputOf(shell, half));
  assert(output.includes("ä\ufffdx"), output);
});

Deno.test("shell: a ninth shell is refused, and close() ends all shells", async () => {
  const shell = await built();
  const endings: Promise<string>[] = [];
  let running = 0;
  for (let index = 0; index < 8; index++) {
    endings.push(codeOf(async () => {
      for await (const _ of shell.shell(endless("echo\n"))) running++;
    }));
  }
  await until(() => running >= 8);
  assertEquals(await codeOf(() => outputOf(shell, "exit\n")), "resource_exhausted");
  await shell.close();
  assertEquals(await Promise.all(endings), Array(8).fill("canceled"));
});

Deno.test("shell: a program that cannot run is reported in the output", async () => {
  const output = await withShell((shell) => outputOf(shell, ""), { SHELL: "/nowhere/sh" });
  assert(output.includes("/nowhere/sh"), output);
});

/** Refused parts of a copy to the machine. */
const REFUSED: [what: string, parts: FilePart[], code: string][] = [
  ["a file without a name", [{ data: NOTHING, isLast: true }], "invalid_argument"],
  ["a file within a file", [part("a", false), part("b", true)], "invalid_argument"],
  ["a copy that ends within a file", [part("a", false)], "data_loss"],
  ["a file larger than the disk", [part("a", true, 2 ** 60)], "resource_exhausted"],
  ["a name of 5000 letters", [part("a".repeat(5000), true)], "invalid_argument"],
  ["a hundred nested folders", [part("a/".repeat(100) + "a", true)], "invalid_argument"],
];

for (const [what, parts, code] of REFUSED) {
  Deno.test(`shell: copyToMachine refuses ${what} and leaves no files`, async () => {
    await withFolder(async (folder) => {
      const to: CopyToMachine = { source: "file", destination: folder, preserve: false };
      const found = await withShell((shell) =>
        codeOf(() => Array.fromAsync(shell.copyToMachine(to, stream(parts))))
      );
      assertEquals([found, [...Deno.readDirSync(folder)]], [code, []]);
    });
  });
}

Deno.test("shell: copyFromMachine fails on a link to its own folder and on a pipe", async () => {
  await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/loop`);
    await Deno.symlink("..", `${folder}/loop/back`);
    await new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).output();
    await withShell(async (shell) => {
      const copy = (path: string) =>
        codeOf(async () => {
          const from = { paths: [path], recursive: true, preserve: false };
          const always = async function* () {
            for (;;) yield;
          };
          const { parts } = await shell.copyFromMachine(from, always());
          await Array.fromAsync(parts);
        });
      assertEquals(await copy(`${folder}/loop`), "failed_precondition");
      assertEquals(await copy(`${folder}/pipe`), "failed_precondition");
    });
  });
});

Deno.test("shell: paths start in the home folder, and VIAM_HOME and .viam mean the folder of svc-server", async () => {
  await withFolder(async (home) => {
    await Deno.mkdir(`${home}/.svc/trace`, { recursive: true });
    await withShell(async (shell) => {
      const own = ["$VIAM_HOME/c", "$SVC_HOME", "~/.viam/trace/d"];
      for (const destination of ["", "~", "a", "~/b", "~/.viam", ...own]) {
        const to: CopyToMachine = { source: "file", destination, preserve: false };
        await Array.fromAsync(shell.copyToMachine(to, stream([part("name", true)])));
      }
    }, { HOME: home, SVC_HOME: `${home}/.svc` });
    const names = (folder: string) => [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
    assertEquals([names(home), names(`${home}/.svc`)], [
      [".svc", ".viam", "a", "b", "name"],
      ["c", "name", "trace"],
    ]);
  });
});

function part(name: string, isLast: boolean, sizeBytes = 0): FilePart {
  return { file: { name, sizeBytes, isFolder: false }, data: NOTHING, isLast };
}

/** A plain shell, which reads no files of the user who runs the tests. */
function built(env: Readonly<Record<string, string>> = {}): Promise<Shell> {
  class Host extends DenoHost {
    override env(name: string) {
      return { SHELL: "/bin/sh", ...env }[name] ?? super.env(name);
    }
  }
  return construct(BuiltinShell, {}, { clock: new SystemClock(), host: new Host() });
}

async function withShell<T>(
  use: (shell: Shell) => Promise<T>,
  env?: Readonly<Record<string, string>>,
): Promise<T> {
  const shell = await built(env);
  try {
    return await use(shell);
  } finally {
    await shell.close();
  }
}

async function outputOf(shell: Shell, text: string): Promise<string> {
  return (await Array.fromAsync(shell.shell(stream([{ text }])))).map(({ text }) => text).join("");
}

async function* endless(text: string): AsyncGenerator<ShellInput> {
  yield { text };
  await new Promise(() => {});
}

async function* stream<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values;
}

async function codeOf(run: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(run, SvcError)).code;
}

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-shell-" });
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
