import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { userInfo } from "node:os";
import { dirname } from "node:path";
import { DenoHost } from "./host_deno.ts";

const host = new DenoHost();

/** Resolves when a watch of `path` that begins now hears of `change`. */
async function heard(path: string, change: () => Promise<void>, promptly = true): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = host.watchFile(path, resolve, { promptly });
  try {
    await change();
    await promise;
  } finally {
    stop();
  }
}

async function withFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const write = (path: string, text: string) => Deno.writeTextFile(path, text);

Deno.test("env: without a variable, HOME is the home folder of the user's account", () => {
  const before = Deno.env.get("HOME");
  try {
    for (const value of ["", undefined]) {
      if (value === undefined) Deno.env.delete("HOME");
      else Deno.env.set("HOME", value);
      assertEquals(host.env("HOME"), userInfo().homedir);
    }
    Deno.env.set("HOME", "/another");
    assertEquals(host.env("HOME"), "/another");
  } finally {
    if (before === undefined) Deno.env.delete("HOME");
    else Deno.env.set("HOME", before);
  }
});

Deno.test("watchFile: reports creation, writes, replacement and removal", () =>
  withFolder(async (folder) => {
    const file = `${folder}/f`;
    await heard(file, () => write(file, "made"));
    await heard(file, () => write(file, "written in place"));
    await write(`${folder}/f.new`, "replaced");
    await heard(file, () => Deno.rename(`${folder}/f.new`, file));
    await heard(file, () => Deno.remove(file));
    await heard(file, () => host.writeFile(file, "as the host writes"));
    await heard(file, () => write(file, "while nobody waits for it"), false);
  }));

Deno.test({
  name: "watchFile: follows links of a Kubernetes volume and reports their change",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      for (const version of ["..1", "..2"]) {
        await Deno.mkdir(`${folder}/${version}`);
        await write(`${folder}/${version}/f`, version);
      }
      await Deno.symlink("..1", `${folder}/..data`);
      await Deno.symlink("..data/f", `${folder}/f`);
      await Deno.symlink("..2", `${folder}/..data_tmp`);
      await heard(`${folder}/f`, () => write(`${folder}/..1/f`, "in place"));
      await heard(`${folder}/f`, () => Deno.rename(`${folder}/..data_tmp`, `${folder}/..data`));
      assertEquals(await Deno.readTextFile(`${folder}/f`), "..2");
      await heard(`${folder}/f`, () => write(`${folder}/..2/f`, "in place"));
    }),
});

Deno.test({
  name: "a pipe beside a watched file, or in its place, holds nothing up",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const file = `${folder}/f`;
      const pipe = async (path: string) => {
        const { code } = await new Deno.Command("mkfifo", { args: [path] }).output();
        assertEquals(code, 0);
      };
      await heard(file, async () => {
        await pipe(`${folder}/beside`);
        await write(file, "made");
      });
      await Deno.remove(file);
      await heard(file, () => pipe(file));
    }),
});

Deno.test("watchFile: circular links and missing folders do not throw", () =>
  withFolder(async (folder) => {
    await Deno.symlink("b", `${folder}/a`);
    await Deno.symlink("a", `${folder}/b`);
    for (const path of [`${folder}/a`, `${folder}/none/f`]) host.watchFile(path, () => {})();
  }));

Deno.test("DenoHost: write escapes control characters, and draw does not", async () => {
  const code = `
    const { DenoHost } = await import(${JSON.stringify(import.meta.resolve("./host_deno.ts"))});
    const host = new DenoHost();
    host.write("a\\x1b[2J\\u202eb\\n");
    host.writeError("c\\r\\x9bd\\n");
    host.draw("\\r\\x1b[2K");
  `;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args: ["eval", "--quiet", code] })
    .output();
  const text = new TextDecoder();
  assertEquals(text.decode(stdout), "a\\u001b[2J\\u202eb\n");
  assertEquals(text.decode(stderr), "c\\u000d\\u009bd\n\r\x1b[2K");
});

const TAKES_NONE = `
  const { DenoHost } = await import(${JSON.stringify(import.meta.resolve("./host_deno.ts"))});
  const { consoleSink, Logs } = await import(${JSON.stringify(import.meta.resolve("./log/log.ts"))});
  const { SystemClock } = await import(${JSON.stringify(import.meta.resolve("./clock.ts"))});
  const host = new DenoHost();
  await new Response(Deno.stdin.readable).text();
  const logger = new Logs(new SystemClock(), [consoleSink({ report: (one) => host.writeError(one + "\\n") })]).logger("x");
  logger.info("one");
  logger.info("two");
  try {
    host.write("data\\n");
  } catch (error) {
    host.writeError(error.message + ", unread: " + error.unread + "\\n");
  }
`;

Deno.test("standard output without a reader is an error of its own for data, and nothing for logs", async () => {
  const args = ["eval", "--quiet", TAKES_NONE];
  const child = new Deno.Command(Deno.execPath(), {
    args,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  await child.stdout.cancel();
  await child.stdin.close();
  const errors = await new Response(child.stderr).text();
  assertEquals(errors, "cannot write to standard output, unread: true\n");
  assertEquals((await child.status).code, 0);
});

Deno.test({
  name: "a full disk behind standard output is an error for data, and for logs one remark",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const run = async (script: string) => {
      const args = ["-c", script, "sh", Deno.execPath(), "eval", "--quiet", TAKES_NONE];
      const { code, stderr } = await new Deno.Command("sh", { args, stdin: "null" }).output();
      return { code, errors: new TextDecoder().decode(stderr) };
    };
    const { code, errors } = await run('exec "$@" >/dev/full');
    assertEquals([code, errors.split("\n").length], [0, 3]);
    assertStringIncludes(errors, "standard output takes no log lines, they are lost: No space left");
    assertStringIncludes(errors, "cannot write to standard output, unread: false\n");
    assertEquals((await run('exec "$@" >/dev/full 2>&1')).code, 0);
  },
});

Deno.test({
  name: "the end of its terminal ends a program in order, unless nohup started it",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const code = `
      const { DenoHost } = await import(${JSON.stringify(import.meta.resolve("./host_deno.ts"))});
      const host = new DenoHost();
      host.onTermination((signal) => {
        host.write(signal + "\\n");
        Deno.exit(0);
      });
      for (const signal of Deno.args) Deno.kill(Deno.pid, signal);
      setTimeout(() => {}, 10_000);
    `;
    const run = async (script: string, ...signals: Deno.Signal[]) => {
      const args = ["-c", script, "sh", Deno.execPath(), "eval", "--quiet", code, ...signals];
      const { stdout } = await new Deno.Command("sh", { args, stdin: "null" }).output();
      return new TextDecoder().decode(stdout);
    };
    assertEquals(await run('exec "$@"', "SIGHUP"), "SIGHUP\n");
    assertEquals(await run("trap '' HUP; exec \"$@\"", "SIGHUP", "SIGTERM"), "SIGTERM\n");
  },
});

Deno.test({
  name: "DenoHost: files and folders whose names are not UTF-8 are refused with the reason",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      const make = `cd '${folder}' && : > "$(printf 'h\\344.png')" && mkdir "$(printf 'd\\377')"`;
      assertEquals((await new Deno.Command("sh", { args: ["-c", make] }).output()).code, 0);
      const host = new DenoHost();
      const names = (await host.readFolder(folder)).sort();
      assertEquals(names, ["d\ufffd", "h\ufffd.png"]);
      await assertRejects(
        () => host.readFolder(`${folder}/${names[0]}`),
        Error,
        "or its name is not UTF-8 text",
      );
      await assertRejects(
        () => host.readFile(`${folder}/${names[1]}`),
        Error,
        "or its name is not UTF-8 text",
      );
      const { message } = await assertRejects(() => host.readFile(`${folder}/none`), Error);
      assertEquals(message.endsWith("it does not exist"), true);
    } finally {
      await Deno.remove(folder, { recursive: true }).catch(() =>
        new Deno.Command("rm", { args: ["-rf", folder] }).output()
      );
    }
  },
});

Deno.test({
  name: "DenoHost: an appended file that others move or remove is no longer at its path",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    const [host, path] = [new DenoHost(), `${folder}/a.log`];
    const [first, second] = [host.openAppend(path), host.openAppend(path)];
    try {
      first.append(new TextEncoder().encode("one\n"));
      assertEquals([first.look(), second.look()], [4, 4]);
      host.emptyFile(path);
      assertEquals(first.look(), 0);
      host.moveFile(path, `${folder}/a.log.1`);
      assertEquals(first.look(), undefined);
      const third = host.openAppend(path);
      assertEquals([first.look(), third.look()], [undefined, 0]);
      host.removeFile(path);
      assertEquals(third.look(), undefined);
      third.close();
    } finally {
      first.close();
      second.close();
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "DenoHost: a temporary folder for sockets has a short path, and a wrong TMPDIR is named",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const long = `${await Deno.makeTempDir()}/${"long".repeat(20)}`;
    await Deno.mkdir(long);
    const made = async (use?: "sockets") => {
      const folder = await new DenoHost().temporaryFolder("svc-test-", use);
      await Deno.remove(folder);
      return dirname(folder);
    };
    const before = Deno.env.get("TMPDIR");
    try {
      Deno.env.set("TMPDIR", long);
      assertEquals([await made(), await made("sockets")], [long, "/tmp"]);
      assertEquals([...Deno.readDirSync(long)], []);
      // As an address of a socket, each would be another one.
      for (const name of ["tmp:8080", "100%25", "a b#c"]) {
        const odd = `${dirname(long)}/${name}`;
        await Deno.mkdir(odd);
        Deno.env.set("TMPDIR", odd);
        assertEquals([await made(), await made("sockets")], [odd, "/tmp"]);
      }
      Deno.env.set("TMPDIR", `${long}/none`);
      await assertRejects(() => made("sockets"), Error, `in "${long}/none": it does not exist`);
    } finally {
      if (before === undefined) Deno.env.delete("TMPDIR");
      else Deno.env.set("TMPDIR", before);
      await Deno.remove(dirname(long), { recursive: true });
    }
  },
});
