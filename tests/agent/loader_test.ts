/**
 * The loader script beside the rule that it has to follow: the same links and counts, the same version started and
 * the same left behind. The script is run by `sh`.
 */

import { assert, assertEquals } from "@std/assert";
import { installLoader } from "../../lib/agent/update/loader.ts";
import { agentUnit, LOADER } from "../../lib/agent/system/service_unit.ts";
import { bootPlan, type Count, type PassingCount, type VersionLinks } from "../../lib/agent/update/boot.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { UpdateRecord } from "../../lib/agent/update/record.ts";
import { RUNTIME_MARK } from "../../lib/agent/supervise/runtime.ts";
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
  name: "who stops the service in the loader's pause stops svc-server, too, and the next start has no pause",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const base = await Deno.makeTempDir({ prefix: "svc " });
    const file = "svc-agent-1-a";
    const passing = { file, over: file, starts: 1, failures: 20 };
    await lay(base, { links: { current: file }, files: [file], passing });
    const ours = `${base}/../of the unit`;
    const left = [ours, base].map((mark) =>
      new Deno.Command("sleep", { args: ["1000"], env: { [RUNTIME_MARK]: mark } }).spawn()
    );
    const [runtime, other] = left;
    try {
      const loader = new Deno.Command(`${base}/bin/${LOADER}`, {
        args: ["--dir", ours, "--config", "--dir"],
        env: { RUNTIME_DIRECTORY: `${base}/run` },
        stdin: "null",
        stdout: "null",
      }).spawn();
      const counted = () => Deno.readLink(`${base}/run/svc-agent.starts`).catch(() => "");
      await until(async () => (await counted()).startsWith("2 21 "));
      await until(() => childrenOf(loader.pid).then((names) => names.includes("sleep")));
      loader.kill("SIGTERM");
      assertEquals((await loader.status).code, 0);
      assertEquals((await runtime.status).signal, "SIGTERM");
      assertEquals(await Deno.stat(`/proc/${other.pid}`).then(() => true), true, "of another agent");
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
        const { code, stdout } = await run(base, {});
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

async function run(base: string, env: Record<string, string>, args: string[] = []) {
  const command = new Deno.Command(`${base}/bin/${LOADER}`, {
    args,
    env: { ...env, RUNTIME_DIRECTORY: `${base}/run` },
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
