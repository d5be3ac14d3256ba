import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { type Cell, type CellNeeds, NO_SANDBOX, openSandbox, type Sandbox } from "./sandbox.ts";
import { parseStat, type UsageLimits } from "./sandbox_usage.ts";
import { untilGone } from "../../../tests/support/until.ts";

const MIB = 1024 ** 2;
const LIMITS: UsageLimits = {
  memoryBytes: 64 * MIB,
  cpuSeconds: 60,
  processes: 32,
  openFiles: 64,
  fileBytes: 16 * MIB,
  folderBytes: 20 * MIB,
  folderFiles: 100,
};

const onUnix = { ignore: Deno.build.os === "windows" };
const clock = new SystemClock();
const host = new DenoHost();
/** A user other than root; only root can become another user. */
const STRANGER = 12_345;
const stranger = new DenoHost();
stranger.spawn = ({ command, args = [], ...more }) => {
  const as = ["--reuid", `${STRANGER}`, "--regid", `${STRANGER}`, "--clear-groups"];
  return host.spawn({ ...more, command: "setpriv", args: [...as, command, ...args] });
};
stranger.temporaryFolder = async (prefix) => {
  const folder = await host.temporaryFolder(prefix);
  await Deno.chmod(folder, 0o755);
  return folder;
};
const isRoot = Deno.build.os === "linux" && Deno.uid() === 0;
const USERS = [
  { name: "own user", host, uid: undefined },
  ...isRoot ? [{ name: "user without rights", host: stranger, uid: STRANGER }] : [],
];

interface Bench {
  readonly sandbox: Sandbox;
  /** Another folder, which nothing inside is to see. */
  readonly hidden: string;
  readonly folder: string;
  run(cell: Cell, script: string): Promise<Printed>;
  /** Runs it in a cell of its own. */
  alone(script: string, needs?: Partial<CellNeeds>): Promise<Printed>;
}

interface Printed {
  readonly out: string;
  readonly code: number;
  readonly breach?: string;
}

for (const user of USERS) {
  const found = Deno.build.os === "linux" ? await openSandbox(user.host, clock) : "not on Linux";
  const reason = typeof found === "string" ? found : "";
  const test = (name: string, run: (bench: Bench) => Promise<void>) =>
    Deno.test({
      name: `sandbox as ${user.name}: ${name}${reason && ` (no sandbox: ${reason})`}`,
      ignore: reason !== "",
      fn: () => withBench(user, run),
    });

  test("sees no files of the computer and writes only to its folder", async ({ alone, hidden }) => {
    const { out } = await alone(`
      cat ${hidden}/secret /etc/passwd /etc/shadow 2>&1 | grep -c "No such file"
      for at in / /usr /etc /dev ${hidden} "$HOME/.."; do touch $at/x 2>/dev/null && echo "wrote to $at"; done
      echo x >in && ls; ls /proc | grep -c '^[0-9]' | awk '{ print ($1 < 10) }'; echo "$KEY $PWD"
    `);
    assertEquals(out.split("\n"), ["3", "in", "1", "the key /job"]);
  });

  test("makes none of the system calls that lead out, and sees no settings of pip", async ({ alone }) => {
    const { out } = await alone(`cat >try.py <<'END'
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
calls = {"x86_64": (250, 101, 321, 298, 165, 272, 246), "aarch64": (219, 117, 280, 241, 40, 97, 104)}
def code(*call):
    ctypes.set_errno(0)
    return errno.errorcode.get(ctypes.get_errno(), "ok") if libc.syscall(*call) == -1 else "ok"
# keyctl (a session keyring), ptrace, bpf, perf_event_open, mount, unshare, kexec_load
print(*[code(number, 0, 0, 0, 0, 0) for number in calls[platform.machine()]])
# io_uring_setup; clone in a user namespace
print(code(425, 1, 0), code({"x86_64": 56, "aarch64": 220}[platform.machine()], 0x10000011, 0, 0, 0, 0))
print(os.path.exists("/etc/pip.conf"), os.fork() >= 0 and "forks")
END
python3 try.py`);
    assertEquals(out.split("\n").slice(0, 3), [
      Array(7).fill("EPERM").join(" "),
      "ENOSYS EPERM",
      "False forks",
    ]);
  });

  test("sees what it is given below a hidden folder, and nothing else there", async ({ alone, hidden }) => {
    await Deno.mkdir(`${hidden}/work/given`, { recursive: true });
    await Deno.writeTextFile(`${hidden}/work/given/one`, "given\n");
    await Deno.mkdir(`${hidden}/work/other`);
    for (const readable of [[`${hidden}/work/given`], [`${hidden}/..`, `${hidden}/work/given`]]) {
      const { out } = await alone(
        `cat ${hidden}/work/given/one; ls ${hidden}/work 2>&1; cat ${hidden}/secret 2>&1 | grep -c "No such file"
         for at in ${hidden} ${hidden}/work ${hidden}/work/given; do touch $at/x 2>/dev/null; done`,
        { readable },
      );
      assertEquals(out, "given\ngiven\n1");
      for (const path of [hidden, `${hidden}/work`, `${hidden}/work/given`]) {
        assertEquals(await Deno.stat(`${path}/x`).catch(() => "not written"), "not written");
      }
    }
    await Deno.remove(`${hidden}/work`, { recursive: true });
  });

  test("does not see a hidden folder inside a readable folder", async ({ alone, hidden }) => {
    const above = hidden.replace(/\/[^/]+$/, "");
    const { out } = await alone(
      `cat ${above}/open; ls -A ${hidden} 2>&1 | wc -l; touch ${above}/x ${hidden}/x`,
      {
        readable: [above],
      },
    );
    assertEquals(out.split("\n")[0], "open");
    assert(!out.includes("secret"), out);
    assertEquals(await Array.fromAsync(Deno.readDir(hidden), ({ name }) => name), ["secret"]);
  });

  test("cannot connect to, signal or inspect outside processes", async ({ alone }) => {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    const connect = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}' 2>/dev/null && echo connected`;
    const { out } = await alone(`
      ${connect}; kill -9 ${Deno.pid} 2>/dev/null && echo killed; kill -9 1 2>/dev/null; echo here
      cat /proc/${Deno.pid}/environ 2>/dev/null; cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' | grep '^HOST_'
      unshare -Ur id 2>/dev/null; mount -t tmpfs x /tmp 2>/dev/null && echo mounted
      grep -E '^Cap(Prm|Eff|Bnd|Amb)' /proc/self/status | grep -cv 0000000000000000; true
    `);
    assertEquals(out.split("\n"), ["here", "0"]);
    assertEquals((await alone(connect, { network: true })).out, "connected");
  });

  test("child processes and daemons end with the program", async ({ alone }) => {
    const mark = `${100_000 + Math.floor(Math.random() * 1e6)}.25`;
    await alone(
      `setsid -f sleep ${mark}; setsid sh -c 'sleep ${mark} & sleep ${mark}' >/dev/null 2>&1 & true`,
    );
    await untilGone(mark);
  });

  test("killing its process group ends all its processes", async ({ sandbox, folder }) => {
    const mark = `${100_000 + Math.floor(Math.random() * 1e6)}.75`;
    const cell = await sandbox.cell({ folder, limits: LIMITS });
    const script = `setsid -f sleep ${mark}; echo begun; sleep ${mark}`;
    const process = user.host.spawn(cell.command({ command: "/bin/sh", args: ["-c", script] }));
    const guard = cell.guard(process);
    for await (const line of process.stdout) if (line === "begun") process.signal("SIGKILL", { group: true });
    for await (const _ of process.stderr) { /* to its end */ }
    assertEquals(await guard, undefined);
    await untilGone(mark);
    cell.close();
  });

  test("limits processes, files and file sizes", async ({ alone }) => {
    const { out } = await alone(`
      for i in $(seq 100); do sleep 1 & done 2>&1 | grep -c "fork" | awk '{ print ($1 > 0) }'
      head -c 17000000 /dev/zero >big 2>/dev/null; stat -c %s big; rm big
      head -c 2000000000 /dev/zero >/dev/shm/x 2>/dev/null; stat -c %s /dev/shm/x | awk '{ print ($1 <= 16777216) }'
    `);
    assertEquals(out.split("\n").slice(-2), [`${16 * MIB}`, "1"]);
  });

  test("exceeding the memory limit in total ends it", async ({ alone }) => {
    const { breach = "" } = await alone(`
      for i in 1 2 3; do (head -c 40000000 /dev/zero; sleep 20) | tail -c 40000000 >/dev/null & done; wait
    `);
    assertStringIncludes(breach, "of memory, wanted at most 64 MiB");
  });

  test("exceeding the disk limit ends it, in few files or many", async ({ alone, folder }) => {
    const few = await alone("for i in 1 2 3 4; do head -c 15000000 /dev/zero >$i; done; sleep 20");
    assertStringIncludes(few.breach ?? "", "to its folder, wanted at most 20 MiB");
    await Deno.remove(folder, { recursive: true });
    await Deno.mkdir(folder);
    if (user.uid) await Deno.chown(folder, user.uid, user.uid);
    const many = await alone("for i in $(seq 300); do : >$i; done; sleep 20");
    assertStringIncludes(many.breach ?? "", "files, wanted at most 100");
  });

  test("exceeding the processor time in total ends it", async ({ alone }) => {
    const limits = { ...LIMITS, cpuSeconds: 1 };
    const { breach = "", code } = await alone("for i in 1 2 3; do (while :; do :; done) & done; wait", {
      limits,
    });
    assert(code !== 0);
    assertStringIncludes(breach, "of processor time, wanted at most 1 s");
  });
}

async function withBench(
  { host, uid }: typeof USERS[number],
  run: (bench: Bench) => Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "svc-sandbox-" });
  const [hidden, folder] = [`${root}/readable/hidden`, `${root}/folder`];
  await Deno.mkdir(hidden, { recursive: true });
  await Deno.mkdir(folder);
  await Deno.writeTextFile(`${hidden}/secret`, "secret\n");
  await Deno.writeTextFile(`${root}/readable/open`, "open\n");
  await Deno.chmod(root, 0o755);
  if (uid) await Deno.chown(folder, uid, uid);
  try {
    const sandbox = await openSandbox(host, clock, [hidden]);
    if (typeof sandbox === "string") throw new Error(sandbox);
    const say = async (cell: Cell, script: string): Promise<Printed> => {
      const command = cell.command({ command: "/bin/sh", args: ["-c", script], env: { KEY: "the key" } });
      const process = host.spawn(command);
      const guard = cell.guard(process);
      const lines: string[] = [];
      const hear = async (from: AsyncIterable<string>) => {
        for await (const line of from) if (line !== "") lines.push(line);
      };
      const [, , exit] = await Promise.all([hear(process.stdout), hear(process.stderr), process.exited]);
      return { out: lines.join("\n"), code: exit.code, breach: (await guard)?.message };
    };
    const alone = async (script: string, needs: Partial<CellNeeds> = {}) => {
      const cell = await sandbox.cell({ folder, limits: LIMITS, ...needs });
      try {
        return await say(cell, script);
      } finally {
        cell.close();
      }
    };
    await run({ sandbox, hidden, folder, run: say, alone });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("NO_SANDBOX: runs a program unchanged in its folder", async () => {
  const cell = await NO_SANDBOX.cell({ folder: "/tmp/job", limits: LIMITS });
  assertEquals(cell.command({ command: "python3", args: ["-V"], env: { A: "a" } }), {
    command: "python3",
    args: ["-V"],
    env: { A: "a" },
    cwd: "/tmp/job",
    bare: true,
    leash: true,
  });
});

Deno.test({
  ...onUnix,
  name: "openSandbox: without bubblewrap explains how to install it",
  fn: async () => {
    const none = new DenoHost();
    none.spawn = () => host.spawn({ command: "no-such-bwrap", leash: true });
    none.platform = () => ({ os: "linux", arch: "x64" });
    const reason = await openSandbox(none, clock);
    assertStringIncludes(String(reason), "apt-get install bubblewrap");
    none.platform = () => ({ os: "windows", arch: "x64" });
    assertEquals(await openSandbox(none, clock), "there is none for windows");
  },
});

Deno.test("parseStat: reads a process whose name contains parentheses", () => {
  const line = "42 (a) R 1 (b) S 7 42 42 0 -1 4194304 1 0 0 0 10 20 30 40 20 0 1 0 5 6 7";
  assertEquals(parseStat(line), { pid: 42, parent: 7, ticks: 100 });
  assertEquals(parseStat(""), undefined);
});

Deno.test({
  name: "sandbox: works for a service that may open low ports, whose capability it gives up inside",
  ignore: !isRoot || typeof await openSandbox(stranger, clock) === "string",
  fn: async () => {
    const service = new DenoHost();
    service.temporaryFolder = stranger.temporaryFolder;
    service.spawn = ({ command, args = [], ...more }) => {
      const low = ["--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service"];
      const as = ["--reuid", `${STRANGER}`, "--regid", `${STRANGER}`, "--clear-groups", ...low];
      return host.spawn({ ...more, command: "setpriv", args: [...as, command, ...args] });
    };
    const sandbox = await openSandbox(service, clock);
    assert(typeof sandbox !== "string", String(sandbox));
    const cell = await sandbox.cell({ limits: LIMITS });
    const script = "grep -c '^Cap\\(Amb\\|Eff\\):.*[1-9a-f]$' /proc/self/status";
    const process = service.spawn(cell.command({ command: "/bin/sh", args: ["-c", script] }));
    const lines = await Array.fromAsync(process.stdout);
    await process.exited;
    cell.close();
    assertEquals(lines, ["0"]);
  },
});
