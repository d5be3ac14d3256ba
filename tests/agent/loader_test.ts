/**
 * The loader script beside the rule that it has to follow: the same links and counts, the same version started and
 * the same left behind. The script is run by `sh`.
 */

import { assert, assertEquals } from "@std/assert";
import { installLoader } from "../../lib/agent/update/loader.ts";
import { agentUnit, LOADER, RUNTIME_MARK } from "../../lib/agent/system/service_unit.ts";
import { bootPlan, type Count, type PassingCount, type VersionLinks } from "../../lib/agent/update/boot.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { UpdateRecord } from "../../lib/agent/update/record.ts";
import { until } from "../support/until.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";

const CASES = 40;
const POSIX = Deno.build.os !== "windows";

interface Case {
  readonly links: VersionLinks;
  readonly count?: Count;
  readonly passing?: PassingCount;
  readonly files: readonly string[];
}

function draw(random: () => number): Case {
  const pick = <T>(...all: T[]): T => all[Math.floor(random() * all.length)];
  const file = () => pick(undefined, "svc-agent-1-a", "svc-agent-2-b", "svc-agent-3-c");
  const links = { current: file() ?? file(), previous: file(), broken: file() };
  const count = () => ({
    file: file() ?? "svc-agent-1-a",
    starts: pick(0, 1, 2, 3, 4),
    failures: pick(0, 1, 5, 12),
  });
  return {
    links,
    count: pick(undefined, count(), { ...count(), file: links.current ?? "svc-agent-1-a" }),
    passing: pick(
      undefined,
      { ...count(), over: links.current },
      { ...count(), over: file() },
      { ...count(), file: links.current ?? "svc-agent-1-a", over: links.current },
    ),
    files: ["svc-agent-1-a", "svc-agent-2-b", "svc-agent-3-c"].filter(() => random() < 0.8),
  };
}

Deno.test({
  name: "the loader follows the boot rule",
  ignore: !POSIX,
  fn: async () => {
    const seed = Number(Deno.env.get("SVC_SIM_SEED") ?? 7);
    const random = randomFrom(seed);
    for (let number = 0; number < CASES; number++) {
      const one = draw(random);
      const base = await Deno.makeTempDir({ prefix: "svc-" });
      try {
        await lay(base, one);
        const { code, stdout } = await run(base, { SVC_LOADER_DRY: "1" });
        const { links, count, passing, files } = one;
        const planned = bootPlan({ links, count, passing, runnable: (file) => files.includes(file) });
        const logged = `seed ${seed}, case ${number}: ${JSON.stringify(one)}`;
        const started = planned.file === undefined ? "" : `${planned.file} ${planned.delayMs / 1000}`;
        assertEquals([code, stdout.trim()], [planned.file === undefined ? 1 : 0, started], logged);
        assertEquals(await left(base), expected(one, planned), logged);
      } finally {
        await Deno.remove(base, { recursive: true });
      }
    }
  },
});

Deno.test({
  name: "the loader script runs svc-agent with its arguments unchanged",
  ignore: !POSIX,
  fn: async () => {
    const base = await Deno.makeTempDir({ prefix: "svc " });
    try {
      await lay(base, { links: { current: "svc-agent-1-a" }, files: ["svc-agent-1-a"] });
      const { stdout } = await run(base, {}, ["--config", "a file", "*", ""]);
      assertEquals(stdout, "svc-agent-1-a[--config][a file][*][]\n");
      assertEquals(await Deno.readLink(`${base}/bin/svc-agent.starts`), "1 1 svc-agent-1-a");
    } finally {
      await Deno.remove(base, { recursive: true });
    }
  },
});

Deno.test({
  name: "the watchdog of the service does not end the loader during its pause, which may be longer",
  ignore: !POSIX,
  fn: async () => {
    const { text } = agentUnit({
      base: "/opt/svc",
      configPath: "/etc/svc.json",
      defaultsPath: "/etc/d.json",
    });
    const watchdogS = Number(/^WatchdogSec=(\d+)$/m.exec(text)![1]);
    const tools = ["basename", "cut", "dirname", "ln", "mkdir", "mv", "readlink", "rm", "sed", "sh", "sync"];
    for (const [socket, notifies] of [["/run/notify", true], ["/run/notify", false], ["", true]] as const) {
      const base = await Deno.makeTempDir({ prefix: "svc-" });
      try {
        const [file, bin, calls] = ["svc-agent-1-a", `${base}/tools`, `${base}/calls`];
        const passing = { file, over: file, starts: 1, failures: 20 };
        await lay(base, { links: { current: file }, files: [file], passing });
        await Deno.mkdir(bin);
        for (const tool of tools) {
          const folder = await Deno.stat(`/usr/bin/${tool}`).then(() => "/usr/bin", () => "/bin");
          await Deno.symlink(`${folder}/${tool}`, `${bin}/${tool}`);
        }
        for (const fake of ["sleep", ...(notifies ? ["systemd-notify"] : [])]) {
          const script = `#!/bin/sh\necho ${fake} "$@" >>${calls}\n`;
          await Deno.writeTextFile(`${bin}/${fake}`, script, { mode: 0o755 });
        }
        const { stdout } = await run(base, { PATH: bin, NOTIFY_SOCKET: socket });
        assertEquals(stdout, `${file}\n`);
        let [silentS, longestS, pauseS] = [0, 0, 0];
        for (const line of (await Deno.readTextFile(calls)).trim().split("\n")) {
          const [program, what] = line.split(" ");
          if (program === "sleep") [silentS, pauseS] = [silentS + Number(what), pauseS + Number(what)];
          else silentS = 0;
          longestS = Math.max(longestS, silentS);
        }
        if (socket !== "") assert(longestS < watchdogS, `${longestS} s without a sign, ${notifies}`);
        assertEquals(pauseS, socket === "" || notifies ? 300 : 120);
        if (socket !== "" && notifies) assertEquals(silentS, 0, "and the agent has its whole time");
      } finally {
        await Deno.remove(base, { recursive: true });
      }
    }
  },
});

Deno.test({
  name:
    "the service waits before a start whose loader is missing, cut off or not to be run, and not otherwise",
  ignore: !POSIX,
  fn: async () => {
    const base = await Deno.makeTempDir({ prefix: "svc-" });
    const loader = `${base}/bin/${LOADER}`;
    try {
      await lay(base, { links: {}, files: [] });
      const whole = await Deno.readTextFile(loader);
      await Deno.mkdir(`${base}/tools`);
      await Deno.writeTextFile(`${base}/tools/sleep`, '#!/bin/sh\necho "$@"\n', { mode: 0o755 });
      const pause = async () => {
        const { text } = agentUnit({ base, configPath: "/c", defaultsPath: "/d" });
        const [, rule = ""] = /^ExecStartPre=-\/bin\/sh -c "(.*)" \S+$/m.exec(text) ?? [];
        const script = rule.replaceAll("\\", "").replaceAll("$$", "$");
        const env = { PATH: `${base}/tools:${Deno.env.get("PATH")}` };
        const { stdout } = await new Deno.Command("/bin/sh", { args: ["-c", script, loader], env }).output();
        return new TextDecoder().decode(stdout);
      };
      assertEquals(await pause(), "");
      for (const length of [0, 1, whole.length >> 1, whole.lastIndexOf("exec ")]) {
        await Deno.writeTextFile(loader, whole.slice(0, length));
        assertEquals(await pause(), "5\n", `${length} characters`);
      }
      await Deno.writeTextFile(loader, whole);
      await Deno.chmod(loader, 0o644);
      assertEquals(await pause(), "5\n");
      await Deno.remove(loader);
      assertEquals(await pause(), "5\n");
    } finally {
      await Deno.remove(base, { recursive: true });
    }
  },
});

/** A loader that is stopped where `ready` says so, beside svc-servers that its agent and another have left running. */
async function stopsWhatIsLeft(
  one: Case,
  env: { readonly [name: string]: string },
  ready?: (loader: Deno.ChildProcess, base: string) => Promise<void>,
): Promise<void> {
  const base = await Deno.makeTempDir({ prefix: "svc " });
  await lay(base, one);
  const ours = `${base}/../of the unit`;
  const left = [ours, base].map((mark) =>
    new Deno.Command("sleep", { args: ["1000"], env: { [RUNTIME_MARK]: mark } }).spawn()
  );
  const [runtime, other] = left;
  try {
    if (env.PATH) {
      // It comes while the loader counts.
      await Deno.mkdir(`${base}/tools`);
      await Deno.writeTextFile(`${base}/tools/ln`, "#!/bin/sh\nkill -TERM $PPID\n", { mode: 0o755 });
    }
    const loader = new Deno.Command(`${base}/bin/${LOADER}`, {
      args: ["--dir", ours, "--config", "--dir"],
      env: { RUNTIME_DIRECTORY: `${base}/run`, ...env.PATH ? { PATH: `${base}/tools:${env.PATH}` } : {} },
      ...{ stdin: "null", stdout: "null", stderr: "null" },
    }).spawn();
    if (ready) {
      await ready(loader, base);
      await until(() => childrenOf(loader.pid).then((names) => names.includes("sleep")));
      loader.kill("SIGTERM");
    }
    assertEquals((await loader.status).code, 0);
    assertEquals((await runtime.status).signal, "SIGTERM");
    assertEquals(await Deno.stat(`/proc/${other.pid}`).then(() => true), true, "of another agent");
    const [file] = one.files;
    if (!file) return;
    const { stdout } = await run(base, { SVC_LOADER_DRY: "1" });
    assertEquals(stdout, `${file} 0\n`);
  } finally {
    for (const one of left) {
      try {
        one.kill("SIGKILL");
      } catch {
        // It has ended.
      }
      await one.status;
    }
    await Deno.remove(base, { recursive: true });
  }
}

Deno.test({
  name: "who stops the service in the loader's pause stops svc-server, too, and the next start has no pause",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const file = "svc-agent-1-a";
    const passing = { file, over: file, starts: 1, failures: 20 };
    await stopsWhatIsLeft({ links: { current: file }, files: [file], passing }, {}, async (_, base) => {
      const counted = () => Deno.readLink(`${base}/run/svc-agent.starts`).catch(() => "");
      await until(async () => (await counted()).startsWith("2 21 "));
    });
  },
});

Deno.test({
  name: "who stops the service just after a crash, or without an agent to start, stops svc-server, too",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const file = "svc-agent-1-a";
    await stopsWhatIsLeft({ links: { current: file }, files: [file] }, { PATH: Deno.env.get("PATH")! });
    await stopsWhatIsLeft({ links: {}, files: [] }, {}, () => Promise.resolve());
  },
});

/** How the service ended, as systemd tells it, and what of its svc-server is left after `ExecStopPost`. */
async function leftAfter(end: string, program = "exec sleep 1000"): Promise<string> {
  const base = await Deno.makeTempDir({ prefix: "svc 100% $x " });
  const mark = { [RUNTIME_MARK]: base };
  const [exitCode, exitStatus, serviceResult] = end.split(" ");
  const child = new Deno.Command("sh", { args: ["-c", program], env: mark, detached: true }).spawn();
  try {
    await until(async () => /sleep/.test(await Deno.readTextFile(`/proc/${child.pid}/cmdline`)));
    const { text } = agentUnit({ base, configPath: "/etc/svc.json", defaultsPath: "/etc/defaults.json" });
    const [, line] = /^ExecStopPost=-(.*)$/m.exec(text)!;
    const words = [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, bare]) =>
      (quoted?.replaceAll(/\\(.)/g, "$1") ?? bare).replaceAll("%%", "%").replaceAll("$$", "$")
    );
    const env = { EXIT_CODE: exitCode, EXIT_STATUS: exitStatus, SERVICE_RESULT: serviceResult };
    const { code } = await new Deno.Command(words[0], { args: words.slice(1), env }).output();
    assertEquals(code, 0);
    const runs = await Deno.readTextFile(`/proc/${child.pid}/stat`).then(
      (stat) => !/\) Z /.test(stat),
      () => false,
    );
    if (runs) return "runs";
    return (await child.status).signal ?? "ended";
  } finally {
    await Deno.remove(base);
    try {
      Deno.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    await child.status;
  }
}

Deno.test({
  name: "a stop that finds the agent not listening yet, or hanging, stops svc-server, too; a crash does not",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    for (const stopped of ["killed TERM success", "killed KILL timeout"]) {
      assertEquals(await leftAfter(stopped), "SIGTERM", stopped);
    }
    const others = ["exited 0 success", "exited 1 exit-code", "killed SEGV signal", "dumped ABRT watchdog"];
    for (const crashed of [...others, "killed KILL oom-kill"]) {
      assertEquals(await leftAfter(crashed), "runs", crashed);
    }
  },
});

Deno.test({
  name: "a start that cannot be counted has a pause, and so has one that fails",
  ignore: !POSIX,
  fn: async () => {
    const base = await Deno.makeTempDir({ prefix: "svc-" });
    const file = "svc-agent-1-a";
    try {
      await lay(base, { links: { current: file }, files: [file] });
      const counted = await run(base, { SVC_LOADER_DRY: "1" });
      const uncounted = await run(base, { SVC_LOADER_DRY: "1" }, [], "/dev/null/run");
      assertEquals([counted.stdout, uncounted.stdout], [`${file} 0\n`, `${file} 5\n`]);
      await Deno.remove(`${base}/cache/${file}`);
      const { code, slept } = await runQuickly(base);
      assertEquals([code, slept], [1, "5\n"]);
    } finally {
      await Deno.remove(base, { recursive: true });
    }
  },
});

/** The names of the programs that a process runs now. */
async function childrenOf(pid: number): Promise<string[]> {
  const text = await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`).catch(() => "");
  const name = (child: string) => Deno.readTextFile(`/proc/${child}/comm`).catch(() => "");
  return (await Promise.all(text.trim().split(" ").map(name))).map((one) => one.trim());
}

Deno.test({
  name: "missing, empty and non-executable files do not run",
  ignore: !POSIX,
  fn: async () => {
    for (const spoil of ["missing", "empty", "mode"]) {
      const base = await Deno.makeTempDir({ prefix: "svc-" });
      try {
        const links = { current: "svc-agent-2-b", previous: "svc-agent-1-a" };
        await lay(base, { links, files: ["svc-agent-1-a", "svc-agent-2-b"] });
        const path = `${base}/cache/svc-agent-2-b`;
        if (spoil === "missing") await Deno.remove(path);
        else if (spoil === "empty") await Deno.truncate(path);
        else await Deno.chmod(path, 0o644);
        const { stdout, stderr } = await run(base, {});
        assertEquals(stdout, "svc-agent-1-a\n");
        assertEquals(stderr, "svc-agent-loader: svc-agent-2-b was given up, back to svc-agent-1-a\n");
      } finally {
        await Deno.remove(base, { recursive: true });
      }
    }
  },
});

Deno.test({
  name: "without a link to a program, the good version of the record starts, or the one before it",
  ignore: !POSIX,
  fn: async () => {
    const build = (file: string) => ({
      key: file,
      version: "1",
      file,
      sha256: "0".repeat(64),
      sizeBytes: 99,
    });
    const [previous, good, trial] = ["svc-agent-1-a", "svc-agent-2-b", "svc-agent-3-c"];
    const slot = {
      trial: { build: build(trial), stage: "downloaded" as const },
      good: build(good),
      previous: build(previous),
    };
    for (
      const [links, files, wanted] of [
        ["none", [previous, good, trial], good],
        ["files", [previous, good, trial], good],
        ["dangling", [previous, good, trial], good],
        ["none", [previous, trial], previous],
        // Nobody has checked it yet.
        ["none", [trial], undefined],
      ] as const
    ) {
      const base = await Deno.makeTempDir({ prefix: "svc-" });
      try {
        await lay(base, { links: links === "dangling" ? { current: "svc-agent-9-x" } : {}, files });
        if (links === "files") await Deno.copyFile(`${base}/cache/${good}`, `${base}/bin/svc-agent`);
        const parts = { name: "svc-agent", base, run: `${base}/run`, files: new SystemFiles() } as const;
        const record = new UpdateRecord({ ...parts, sumOf: () => Promise.resolve("") });
        await record.open();
        await record.apply({ op: "save", slot });
        const { code, stdout } = await runQuickly(base);
        assertEquals([code, stdout], wanted ? [0, `${wanted}\n`] : [1, ""], `${links} ${files}`);
        if (!wanted) continue;
        assertEquals((await record.links()).current, wanted);
        assertEquals((await record.counts()).count, { file: wanted, starts: 1, failures: 1 });
      } finally {
        await Deno.remove(base, { recursive: true });
      }
    }
  },
});

async function lay(base: string, { links, count, passing, files }: Case): Promise<void> {
  await installLoader(new SystemFiles(), base);
  await Deno.mkdir(`${base}/cache`, { recursive: true });
  await Deno.mkdir(`${base}/run`, { recursive: true });
  for (const file of files) {
    const script = '#!/bin/sh\nprintf %s "$(basename "$0")"\nfor one; do printf "[%s]" "$one"; done\necho\n';
    await Deno.writeTextFile(`${base}/cache/${file}`, script, { mode: 0o755 });
  }
  const names = { current: "svc-agent", previous: "svc-agent.previous", broken: "svc-agent.broken" } as const;
  for (const [link, name] of Object.entries(names)) {
    const file = links[link as keyof VersionLinks];
    if (file !== undefined) await Deno.symlink(`../cache/${file}`, `${base}/bin/${name}`);
  }
  const text = ({ starts, failures, file }: Count) => `${starts} ${failures} ${file}`;
  if (count) await Deno.symlink(text(count), `${base}/bin/svc-agent.starts`);
  if (passing) await Deno.symlink(`${text(passing)} ${passing.over ?? ""}`, `${base}/run/svc-agent.starts`);
}

/** Runs the loader without its pauses, and tells how long each would be. */
async function runQuickly(base: string) {
  const tools = `${base}/tools`;
  await Deno.mkdir(tools, { recursive: true });
  await Deno.writeTextFile(`${tools}/sleep`, `#!/bin/sh\necho "$@" >>"${base}/slept"\n`, { mode: 0o755 });
  const outcome = await run(base, { PATH: `${tools}:${Deno.env.get("PATH")}` });
  return { ...outcome, slept: await Deno.readTextFile(`${base}/slept`).catch(() => "") };
}

async function run(base: string, env: Record<string, string>, args: string[] = [], folder = `${base}/run`) {
  const command = new Deno.Command(`${base}/bin/${LOADER}`, {
    args,
    env: { ...env, RUNTIME_DIRECTORY: folder },
    stdin: "null",
  });
  const { code, stdout, stderr } = await command.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

/** The links after a run. */
async function left(base: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const folder of ["bin", "run"]) {
    for await (const { name, isSymlink } of Deno.readDir(`${base}/${folder}`)) {
      if (isSymlink) found[`${folder}/${name}`] = (await Deno.readLink(`${base}/${folder}/${name}`)).trim();
    }
  }
  return found;
}

function expected(
  { links, count, passing }: Case,
  { ops }: ReturnType<typeof bootPlan>,
): Record<string, string> {
  const turned: { [link: string]: string | undefined } = { ...links };
  const text = ({ starts, failures, file }: Count) => `${starts} ${failures} ${file}`;
  let starts = count && text(count);
  let passed = passing && `${text(passing)} ${passing.over ?? ""}`.trim();
  for (const op of ops) {
    if (op.op === "link") turned[op.link] = op.file;
    else {
      starts = text(op.count);
      passed = `${starts} ${turned.current ?? ""}`.trim();
    }
  }
  const all: { [path: string]: string | undefined } = {
    "bin/svc-agent": turned.current && `../cache/${turned.current}`,
    "bin/svc-agent.previous": turned.previous && `../cache/${turned.previous}`,
    "bin/svc-agent.broken": turned.broken && `../cache/${turned.broken}`,
    "bin/svc-agent.starts": starts,
    "run/svc-agent.starts": passed,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >;
}
