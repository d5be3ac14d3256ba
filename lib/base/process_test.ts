import { assert, assertEquals, assertThrows } from "@std/assert";
import { SystemClock } from "./clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "./error.ts";
import { FakeProcesses } from "../../tests/support/fake_processes.ts";
import { DenoHost } from "./host_deno.ts";
import {
  endProcess,
  EXIT_UNKNOWN,
  LINE_CHARS_MAX,
  linesOf,
  type ProcessCommand,
  type RunningProcess,
} from "./process.ts";
import { C_LIBRARY } from "./native/reader_worker.ts";
import { until } from "../../tests/support/until.ts";

const host = new DenoHost();
const posix = { ignore: Deno.build.os === "windows" };

async function all(lines: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const line of lines) found.push(line);
  return found;
}

async function finished(process: RunningProcess) {
  const [out, err, exit] = await Promise.all([all(process.stdout), all(process.stderr), process.exited]);
  return { out, err, ...exit };
}

async function first(lines: AsyncIterable<string>): Promise<string> {
  const { value } = await lines[Symbol.asyncIterator]().next();
  return value;
}

Deno.test("linesOf: splits lines across chunks, handles carriage returns, long lines and a missing end", async () => {
  async function* bytes() {
    const text = "one\ntwö\r\n10%\r50%\r100%\n" + "x".repeat(LINE_CHARS_MAX + 2) + "\n\nlast";
    for (const byte of new TextEncoder().encode(text)) yield Uint8Array.of(byte);
  }
  assertEquals(await all(linesOf(bytes())), [
    "one",
    "twö",
    "100%",
    "x".repeat(LINE_CHARS_MAX),
    "xx",
    "",
    "last",
  ]);
});

Deno.test({
  ...posix,
  name: "spawn: returns output, environment and exit code of a process",
  fn: async () => {
    const args = ["-c", `echo "$A $HOME"; echo bad >&2; exit 3`];
    const bare = await finished(host.spawn({ command: "sh", args, env: { A: "a" }, bare: true, cwd: "/" }));
    assertEquals(bare, { out: ["a "], err: ["bad"], code: 3, signal: undefined });
    const error = assertThrows(() => host.spawn({ command: "/no/such/program" }), SvcError);
    assertEquals(error.code, "not_found");
  },
});

Deno.test({
  ...posix,
  name: "a process gets our own environment and the added variables",
  fn: async () => {
    const args = ["-c", `echo "$A"; echo "$PATH"`];
    const { out } = await finished(host.spawn({ command: "sh", args, env: { A: "a" } }));
    assertEquals(out, ["a", host.env("PATH")!]);
  },
});

Deno.test({
  ...posix,
  name: "endProcess: kills a group that ignores SIGTERM, with its children",
  fn: async () => {
    const script = `trap '' TERM; sleep 1000 & echo $!; wait; wait`;
    const process = host.spawn({ command: "sh", args: ["-c", script], ownGroup: true });
    const reading = all(process.stderr);
    const inner = Number(await first(process.stdout));
    assertEquals((await endProcess(process, new SystemClock(), 20)).signal, "SIGKILL");
    await reading;
    await gone(inner);
  },
});

Deno.test({
  ...posix,
  name: "spawn: with leash, no child outlives the process or the parent",
  fn: async () => {
    const script = `sleep 1000 >/dev/null 2>&1 & echo $!; test -z "$(cat)" && exit 5`;
    const own = await finished(host.spawn({ command: "sh", args: ["-c", script], leash: true }));
    assertEquals([own.code, own.err], [5, []]);
    await gone(Number(own.out[0]));

    const us = await program(`
      const p = new DenoHost().spawn({ command: "sh", args: ["-c", "echo $$; sleep 1000"], leash: true });
      for await (const line of p.stdout) console.log(line);`);
    const inner = Number(await first(linesOf(us.stdout)));
    assert(inner > 0);
    Deno.kill(-us.pid, "SIGKILL");
    await us.status;
    await gone(inner);
  },
});

Deno.test({
  ignore: Deno.build.os !== "linux",
  name: "on a leash: a process that was asked to end right after its start does not outlive us either",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-" });
    try {
      const slow =
        `#!/bin/sh\nuntil test -e ${folder}/go; do sleep 0.01; done\nexec ${await setsid()} "$@"\n`;
      await Deno.writeTextFile(`${folder}/setsid`, slow, { mode: 0o700 });
      const deaf = { command: "sh", args: ["-c", "trap '' TERM; echo $$; sleep 1000"], leash: true };
      const env = { PATH: `${folder}:${Deno.env.get("PATH")}` };
      const us = await program(`const p = new DenoHost().spawn(${JSON.stringify({ ...deaf, env })});
        for await (const line of p.stdout) {
          p.signal("SIGTERM", { group: true });
          console.log(line);
        }`);
      const inner = Number(await first(linesOf(us.stdout)));
      await Deno.writeTextFile(`${folder}/go`, "");
      Deno.kill(-us.pid, "SIGKILL");
      await us.status;
      await gone(inner);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("endProcess: sends SIGTERM, and SIGKILL after the timeout", async () => {
  const clock = new FakeClock();
  const processes = new FakeProcesses();
  assertEquals(await endProcess(processes.spawn({ command: "a" }), clock, 1000), {
    code: 143,
    signal: "SIGTERM",
  });
  const deaf = processes.spawn({ command: "b" });
  deaf.onSignal = () => {};
  const ending = endProcess(deaf, clock, 1000);
  await clock.advance(999);
  assertEquals(deaf.signals, ["SIGTERM group"]);
  await clock.advance(1);
  assertEquals((await ending).signal, "SIGKILL");
});

/** Runs code with a `DenoHost`, as the leader of its group. */
async function program(code: string): Promise<Deno.ChildProcess> {
  const args = ["run", "-A", "--ext=ts", "-"];
  const us = new Deno.Command(Deno.execPath(), { args, stdin: "piped", stdout: "piped", detached: true })
    .spawn();
  const writer = us.stdin.getWriter();
  const host = import.meta.resolve("./host_deno.ts");
  await writer.write(new TextEncoder().encode(`import { DenoHost } from "${host}";\n${code}`));
  await writer.close();
  return us;
}

async function setsid(): Promise<string> {
  const { stdout } = await new Deno.Command("sh", { args: ["-c", "command -v setsid"] }).output();
  return new TextDecoder().decode(stdout).trim();
}

/** Resolves when there is no such process any more; one that is dead and not yet buried counts as gone. */
async function gone(pid: number): Promise<void> {
  await until(async () => {
    const { stdout } = await new Deno.Command("ps", { args: ["-o", "stat=", "-p", String(pid)] }).output();
    const state = new TextDecoder().decode(stdout).trim();
    return state === "" || state.startsWith("Z");
  });
}

Deno.test({
  name: "a process that outlived its parent is found by its mark, and its exit is seen",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const clock = new SystemClock();
    const looking = new AbortController();
    const mark = crypto.randomUUID();
    const errorFile = await Deno.makeTempFile();
    const parent = host.spawn({
      command: "sh",
      args: ["-c", "echo lost >&2; setsid -f sleep 1000"],
      env: { SVC_TEST_MARK: mark },
      inheritOutput: true,
      errorFile,
    });
    assertEquals((await parent.exited).code, 0);
    const find = async () => (await host.findMarked("SVC_TEST_MARK", mark, clock, looking.signal)).at(0);
    const found = await until(find);
    assertEquals(found.env.SVC_TEST_MARK, mark);
    found.process.signal("SIGKILL", { group: true });
    assertEquals((await found.process.exited).code, EXIT_UNKNOWN);
    assertEquals(await find(), undefined);
    assertEquals(await Deno.readTextFile(errorFile), "lost\n");
    await Deno.remove(errorFile);
  },
});

Deno.test({
  name: "listensMarked: finds whether a marked process listens on a port",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const mark = crypto.randomUUID();
    const listen = "const listener = Deno.listen({ port: 0, hostname: '127.0.0.1' });" +
      "console.log(listener.addr.port); await listener.accept();";
    const process = host.spawn({
      command: Deno.execPath(),
      args: ["eval", listen],
      env: { SVC_TEST_MARK: mark },
      ownGroup: true,
    });
    const port = Number(await first(process.stdout));
    using stranger = Deno.listen({ port: 0, hostname: "127.0.0.1" });
    const listens = (port: number) => host.listensMarked("SVC_TEST_MARK", mark, port);
    assertEquals(await listens(port), true);
    assertEquals(await listens((stranger.addr as Deno.NetAddr).port), false);
    process.signal("SIGKILL", { group: true });
    await finished(process);
    assertEquals(await listens(port), false);
  },
});

Deno.test({
  name: "figuresOf: includes the memory and CPU time of child processes",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const alone = host.spawn({ command: "sleep", args: ["1000"], ownGroup: true });
    const family = host.spawn({ command: "sh", args: ["-c", "sleep 1000 & sleep 1000"], ownGroup: true });
    const bytesOf = (pid: number) => host.figuresOf(pid)?.residentBytes ?? 0;
    await until(() => bytesOf(alone.pid) > 0 && bytesOf(family.pid) > 1.5 * bytesOf(alone.pid));
    for (const process of [alone, family]) {
      process.signal("SIGKILL", { group: true });
      await finished(process);
    }
    assertEquals(host.figuresOf(alone.pid), undefined);
    assert(host.figuresOf(Deno.pid)!.cpuUs > 0);
  },
});

Deno.test({
  name: "spawn: a program can be ended for its memory before this one, with its children",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const own = Number(await Deno.readTextFile("/proc/self/oom_score_adj"));
    const args = ["-c", 'cat /proc/self/oom_score_adj; echo "$0" "$@"', "a b", "$c"];
    const scoreOf = async (options: Partial<ProcessCommand>) => {
      const { out, code } = await finished(host.spawn({ command: "sh", args, ...options }));
      assertEquals([out[1], code], ["a b $c", 0]);
      return Number(out[0]);
    };
    for (const more of [{}, { leash: true }, { ownGroup: true }]) {
      assertEquals(await scoreOf({ ...more, oomScoreMin: own + 7 }), own + 7);
      assertEquals(await scoreOf({ ...more, oomScoreMin: own - 7 }), own, "never less than this program's");
      assertEquals(await scoreOf(more), own);
    }
  },
});

Deno.test({
  name: "spawn, pipe: a program inherits no descriptor that a native library has opened",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const library = Deno.dlopen(C_LIBRARY, {
      dup: { parameters: ["i32"], result: "i32" },
      close: { parameters: ["i32"], result: "i32" },
    });
    const { dup, close } = library.symbols;
    const opened = [dup(2), dup(2)];
    try {
      const command = { command: "sh", args: ["-c", "cd /proc/self/fd && echo *"] };
      const inherited = (text: string) =>
        text.trim().split(" ").filter((one) => opened.includes(Number(one)));
      const { out } = await finished(host.spawn({ ...command, leash: true }));
      assertEquals(inherited(out.join(" ")), []);
      const piped = host.pipe(command);
      const texts = piped.output[Symbol.asyncIterator]();
      const { value } = await texts.next();
      assertEquals(inherited(new TextDecoder().decode(value)), []);
      while (!(await texts.next()).done);
      await all(piped.stderr);
      await piped.exited;
    } finally {
      for (const one of opened) close(one);
      library.close();
    }
  },
});
