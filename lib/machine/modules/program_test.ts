import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { packed } from "../../base/files/archive.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import type { ModuleConfig } from "../config/config.ts";
import { moduleField } from "../config/settings.ts";
import { DecodeContext } from "../../base/schema/schema.ts";
import type { Json } from "../../base/schema/schema.ts";
import { findProgram, firstRun, packagedProgram } from "./program.ts";

const clock = new SystemClock();
const host = new DenoHost();

Deno.test("programOf: unpacks an archive once per content and runs the entrypoint of its meta.json", async () => {
  await using home = await Home.make();
  const archive = await home.archive({ "meta.json": { entrypoint: "bin/run" }, "bin/run": "#!/bin/sh\n" });
  const config = home.config({ executable_path: archive });
  const first = await findProgram(config, home.path, host);
  assertMatch(first.path, /\/packages-local\/probe-[0-9a-f]{16}\/bin\/run$/);
  assertEquals(first.path, `${first.root}/bin/run`);
  assertEquals(await findProgram(config, home.path, host), first);
  await home.archive({ "meta.json": { entrypoint: "bin/run" }, "bin/run": "#!/bin/sh\n# newer\n" });
  const second = await findProgram(config, home.path, host);
  assertEquals(await host.readFolder(`${home.path}/packages-local`), [second.root.split("/").at(-1)!]);
});

Deno.test("programOf: a program that cannot run gives an error with a remedy", async () => {
  await using home = await Home.make();
  await Deno.writeTextFile(`${home.path}/plain`, "text", { mode: 0o644 });
  await Deno.writeTextFile(`${home.path}/broken.tgz`, "no archive");
  const refused = async (entry: Record<string, Json>, message: RegExp) => {
    const error = await assertRejects(() => findProgram(home.config(entry), home.path, host), SvcError);
    assertMatch(error.message, message);
  };
  await refused({ executable_path: `${home.path}/missing` }, /there is no file .*missing/);
  await refused({ executable_path: home.path }, /is not a file, wanted a program/);
  await refused({ executable_path: `${home.path}/plain` }, /is not executable; run chmod \+x on it/);
  const scripts = {
    windows: ["#!/bin/sh\r\nexit\r\n", /the lines of .*windows end as on Windows; run sed/],
    marked: ["\ufeff#!/bin/sh\n", /marked begins with a byte order mark; run sed/],
    lost: [
      "#! /opt/none/python9 -u\n",
      /interpreter of .*lost is not there: \/opt\/none\/python9; install it/,
    ],
  } as const;
  for (const [name, [text, why]] of Object.entries(scripts)) {
    await Deno.writeTextFile(`${home.path}/${name}`, text, { mode: 0o755 });
    await refused({ executable_path: `${home.path}/${name}` }, why);
  }
  await refused({ executable_path: `${home.path}/broken.tgz` }, /cannot unpack .*broken.tgz/);
  await refused(
    { type: "registry", module_id: "acme:probe", version: "1.2.0" },
    /is not installed, wanted it in .*acme:probe-1_2_0/,
  );
  const bad = async (meta: Json) => await home.archive({ "meta.json": meta });
  await refused({ executable_path: await bad({}) }, /names no program/);
  await refused({ executable_path: await bad({ entrypoint: "../../bin/sh" }) }, /leads out of the package/);
  await refused({ executable_path: await bad({ entrypoint: "run" }) }, /there is no file .*run/);
  await refused({ executable_path: await bad([]) }, /meta.json/);
});

Deno.test("programOf: runs a registry module from its package folder", async () => {
  await using home = await Home.make();
  const folder = `${home.path}/packages/data/module/acme:probe-1_2_0`;
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(
    `${folder}/meta.json`,
    JSON.stringify({ entrypoint: "run.sh", first_run: "setup.sh" }),
  );
  await Deno.writeTextFile(`${folder}/run.sh`, "#!/bin/sh\n", { mode: 0o755 });
  const config = home.config({ type: "registry", module_id: "acme:probe", version: "1.2.0" });
  const found = await findProgram(config, home.path, host);
  assertEquals(found, { path: `${folder}/run.sh`, root: folder, firstRun: `${folder}/setup.sh` });
});

Deno.test("first_run: runs until it succeeds once, and its output and result are logged", async () => {
  await using home = await Home.make();
  const script = (body: string) =>
    home.archive({
      "meta.json": { entrypoint: "run", first_run: "setup" },
      run: "#!/bin/sh\n",
      setup: `#!/bin/sh\n${body}\n`,
    });
  const { signal } = new AbortController();
  const run = async (more: Record<string, Json> = {}) => {
    const config = home.config({ executable_path: `${home.path}/probe.tgz`, ...more });
    const program = await findProgram(config, home.path, host);
    const command = { command: program.path, env: { WORD: "from the environment" } };
    const within = <T>(command: T) => Promise.resolve(command);
    const logger = home.logs.logger("m");
    await firstRun(program, command, config, { host, clock, logger, within }, signal);
  };
  await script("echo no luck >&2; exit 3");
  await assertRejects(
    () => run(),
    SvcError,
    'the first run of module "probe" ended with exit code 3: no luck',
  );
  await script("exec sleep 600");
  await assertRejects(() => run({ first_run_timeout: "100ms" }), SvcError, "took longer than 100ms");
  await script('echo "$WORD"; pwd > done');
  await run();
  await run();
  const output = home.records.map(({ message }) => message);
  assertEquals(output.filter((one) => one === "from the environment").length, 1);
  assertEquals(output.filter((one) => one.endsWith("has succeeded")).length, 1);
});

/** A computer whose account has this home, which no variable names. */
class AccountHost extends DenoHost {
  constructor(private readonly home: string | undefined, private readonly os = "linux") {
    super();
  }

  override env(name: string): string | undefined {
    return name === "HOME" ? this.home : super.env(name);
  }

  override environment(): Record<string, string> {
    return {};
  }

  override platform() {
    return { ...super.platform(), os: this.os };
  }
}

Deno.test({
  name: "programOf: ~ is the home of the account, on Windows before a backslash, too",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    await using home = await Home.make();
    for (const name of ["tool", "C:\\tool"]) {
      await Deno.writeTextFile(`${home.path}/${name}`, "#!/bin/sh\n", { mode: 0o755 });
    }
    const found = async (path: string, on: AccountHost) =>
      (await findProgram(home.config({ executable_path: path }), home.path, on)).path;
    assertEquals(await found("~/tool", new AccountHost(home.path)), `${home.path}/tool`);
    assertEquals(await found("~/tool", new AccountHost(home.path, "windows")), `${home.path}/tool`);
    const drive = new AccountHost(`${home.path}/C:`, "windows");
    assertEquals(await found("~\\tool", drive), `${home.path}/C:\\tool`);
    // Elsewhere a backslash is a letter of a name; and without an account, ~ stays.
    for (const [path, on] of [["~\\tool", home.path], ["~/tool", undefined]] as const) {
      await assertRejects(
        () => found(path, new AccountHost(on)),
        SvcError,
        `there is no file ${Deno.cwd()}/~`,
      );
    }
  },
});

Deno.test("programOf: the ending of a program for Windows may be missing, and other systems refuse the program", async () => {
  await using home = await Home.make();
  const archive = await home.archive({ "meta.json": { entrypoint: "bin/run" }, "bin/run.exe": "MZ program" });
  const config = home.config({ executable_path: archive });
  if (Deno.build.os === "windows") {
    assertMatch((await findProgram(config, home.path, host)).path, /run\.exe$/);
  } else {await assertRejects(
      () => findProgram(config, home.path, host),
      SvcError,
      "run.exe is neither a program of",
    );}
  await home.archive({
    "meta.json": { entrypoint: "bin/run" },
    "bin/run": "#!/bin/sh\n",
    "bin/run.exe": "MZ",
  });
  assertMatch((await findProgram(config, home.path, host)).path, /bin\/run$/);
  const { path } = await packagedProgram((await findProgram(config, home.path, host)).root, "probe", host);
  assertMatch(path, /bin\/run$/);
});

Deno.test("programOf: a program may be a link in its archive, and a new unpacking has its first run again", async () => {
  await using home = await Home.make();
  const from = `${home.path}/from`, archive = `${home.path}/probe.tgz`;
  await Deno.mkdir(`${from}/bin`, { recursive: true });
  await Deno.writeTextFile(`${from}/meta.json`, JSON.stringify({ entrypoint: "run" }));
  await Deno.writeTextFile(`${from}/bin/run-1.2`, "#!/bin/sh\n", { mode: 0o755 });
  await Deno.symlink("bin/run-1.2", `${from}/run`);
  const { code } = await new Deno.Command("tar", { args: ["-czf", archive, "-C", from, "."] }).output();
  assertEquals(code, 0);
  const config = home.config({ executable_path: archive });
  const { path, root } = await findProgram(config, home.path, host);
  assertEquals(await Deno.readTextFile(path), "#!/bin/sh\n");

  const mark = `${root}.first_run_succeeded`;
  await Deno.writeTextFile(mark, "");
  await findProgram(config, home.path, host);
  assertEquals((await host.stat(mark))?.kind, "file");
  await Deno.remove(root, { recursive: true });
  await findProgram(config, home.path, host);
  assertEquals(await host.stat(mark), undefined);
});

class Home implements AsyncDisposable {
  readonly records: LogRecord[] = [];
  readonly logs = new Logs(clock, [memorySink(this.records)]);

  private constructor(readonly path: string) {}

  static async make(): Promise<Home> {
    return new Home(await Deno.makeTempDir({ prefix: "svc-program-" }));
  }

  config(entry: Record<string, Json>): ModuleConfig {
    const at = new DecodeContext();
    const config = moduleField.required().decode({ name: "probe", ...entry }, at);
    assertEquals(at.problems, []);
    return config;
  }

  /** An archive with these files, all of them programs; gives its path. */
  async archive(files: Record<string, Json>): Promise<string> {
    const entries = Object.entries(files).map(([path, content]) => {
      const bytes = new TextEncoder().encode(typeof content === "string" ? content : JSON.stringify(content));
      return { path, bytes: bytes.length, executable: true, content: [bytes] };
    });
    const archive = `${this.path}/probe.tgz`;
    await host.remove(archive);
    await host.createFile(archive, packed(entries));
    return archive;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}
