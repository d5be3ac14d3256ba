import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { CopyToMachine, FilePart, Shell, ShellInput } from "../../lib/api/services/shell.ts";
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

async function* always(): AsyncGenerator<void> {
  for (;;) yield;
}

/** The files that arrive from `path`, folders included, and the error at the end. */
async function copied(path: string): Promise<{ names: string[]; error?: SvcError }> {
  const names: string[] = [];
  return await withShell(async (shell) => {
    try {
      const { parts } = await shell.copyFromMachine(
        { paths: [path], recursive: true, preserve: false },
        always(),
      );
      for await (const { file, isLast } of parts) {
        if (file) names.push(file.name);
        if (file && !isLast) names.push("…");
      }
      return { names };
    } catch (error) {
      return { names, error: SvcError.from(error) };
    }
  });
}

Deno.test("shell: copyFromMachine leaves out what cannot be copied, and names it after the rest has arrived", async () => {
  await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/tree/inner`, { recursive: true });
    await Deno.symlink("..", `${folder}/tree/inner/back`);
    await Deno.symlink("nowhere", `${folder}/tree/broken`);
    await new Deno.Command("mkfifo", { args: [`${folder}/tree/pipe`] }).output();
    await Deno.writeTextFile(`${folder}/tree/zebra`, "z");
    const { names, error } = await copied(`${folder}/tree`);
    assertEquals(names, ["tree/inner", "tree/zebra", "…", "tree"]);
    assertEquals(error?.code, "failed_precondition");
    for (const part of ["everything else is copied", "/broken", "/pipe", "it leads back to"]) {
      assertStringIncludes(error!.message, part);
    }
  });
});

Deno.test("shell: copyFromMachine tells the permissions always, and the times only to a caller that keeps them", async () => {
  await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/tree`, { mode: 0o700 });
    for (const [name, mode] of [["program", 0o755], ["secret", 0o600]] as const) {
      await Deno.writeTextFile(`${folder}/tree/${name}`, "", { mode });
      await Deno.chmod(`${folder}/tree/${name}`, mode);
    }
    await withShell(async (shell) => {
      for (const preserve of [false, true]) {
        const { parts } = await shell.copyFromMachine(
          { paths: [`${folder}/tree`], recursive: true, preserve },
          always(),
        );
        const modes: Record<string, string> = {};
        for await (const { file } of parts) {
          if (!file) continue;
          modes[file.name] = (file.mode! & 0o777).toString(8);
          assertEquals(file.modifiedMs !== undefined, preserve, file.name);
        }
        assertEquals(modes, { "tree/program": "755", "tree/secret": "600", tree: "700" });
      }
    });
  });
});

Deno.test("shell: copyFromMachine names the folder that a point means, and a link as it is called", async () => {
  await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/tree`);
    await Deno.writeTextFile(`${folder}/tree/zebra`, "z");
    await Deno.symlink("tree", `${folder}/link`);
    for (const path of ["tree", "tree/.", "link/."]) {
      assertEquals((await copied(`${folder}/${path}`)).names, ["tree/zebra", "…", "tree"], path);
    }
    assertEquals((await copied(`${folder}/link`)).names, ["link/zebra", "…", "link"]);
  });
});

Deno.test("shell: copyFromMachine names at most five of many files that were left out", async () => {
  await withFolder(async (folder) => {
    for (let index = 0; index < 8; index++) await Deno.symlink("nowhere", `${folder}/link${index}`);
    await Deno.writeTextFile(`${folder}/there`, "");
    const { names, error } = await copied(folder);
    assertEquals(names.filter((name) => name.endsWith("/there")).length, 1);
    assertEquals(error?.message.match(/link\d/g), ["link0", "link1", "link2", "link3", "link4"]);
    assertStringIncludes(error!.message, "and 3 more");
  });
});

Deno.test("shell: copyFromMachine fails at once on a pipe that the caller names", async () => {
  await withFolder(async (folder) => {
    await new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).output();
    const { names, error } = await copied(`${folder}/pipe`);
    assertEquals([names, error?.code], [[], "failed_precondition"]);
  });
});

Deno.test("shell: copyToMachine replaces a file as scp does: through a link, with its permissions and owner", async () => {
  await withFolder(async (folder) => {
    const [path, link] = [`${folder}/secret`, `${folder}/link`];
    await Deno.writeTextFile(path, "old and long");
    await Deno.chmod(path, 0o600);
    const isRoot = Deno.uid() === 0;
    if (isRoot) await Deno.chown(path, 1234, 2345);
    await Deno.symlink("secret", link);
    for (const destination of [path, link]) {
      await withShell(async (shell) => {
        const to: CopyToMachine = { source: "file", destination, preserve: false };
        const data = new TextEncoder().encode("new");
        const file = { name: "any", sizeBytes: 3, isFolder: false };
        await Array.fromAsync(shell.copyToMachine(to, stream([{ file, data, isLast: true }])));
      });
      const { mode, uid, gid } = await Deno.stat(path);
      assertEquals([await Deno.readTextFile(path), mode! & 0o777], ["new", 0o600]);
      if (isRoot) assertEquals([uid, gid], [1234, 2345]);
    }
    assertEquals(await Deno.readLink(link), "secret");
  });
});

Deno.test("shell: copyToMachine does not put a file in the place of a pipe or a device", async () => {
  await withFolder(async (folder) => {
    await new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).output();
    await Deno.symlink("/dev/null", `${folder}/null`);
    for (const name of ["pipe", "null"]) {
      const to: CopyToMachine = { source: "file", destination: `${folder}/${name}`, preserve: false };
      const code = await withShell((shell) =>
        codeOf(() => Array.fromAsync(shell.copyToMachine(to, stream([part("a", true)]))))
      );
      assertEquals(code, "failed_precondition");
    }
    assertEquals((await Deno.lstat(`${folder}/pipe`)).isFifo, true);
    assertEquals((await Deno.stat(`${folder}/null`)).isCharDevice, true);
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
