/**
 * svc-server in places that hardened, small and old systems have: a folder of temporary files and a folder of programs
 * that run none, hidden processes, no control groups, an unknown time zone and language, a strict umask, blanks and links
 * in paths, the first process of a container, and a disk that was full.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { run } from "./interop/programs.ts";
import { answers, statusOf } from "./e2e/bench.ts";
import { keptCode } from "./support/from_source.ts";
import { type Needed, needingTest } from "./support/needing.ts";
import { type ServerProcess, startServer } from "./support/server.ts";
import { until } from "./support/until.ts";

const PROGRAM = new URL("e2e/program.ts", import.meta.url).pathname;

async function needs(): Promise<Needed<true>> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return { missing: "namespaces need root on Linux" };
  const { code } = await run(["unshare", "--mount", "--pid", "--fork", "true"]).catch(() => ({ code: -1 }));
  return code === 0 ? { found: true } : { missing: "the system makes no namespaces" };
}

const here = await needs();

/** Runs `work` with a server that starts in such a place: `prepare` is a script, `$1` the folder. */
async function inPlace(
  prepare: string,
  modules: (folder: string) => readonly object[],
  work: (server: ServerProcess, folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-place-" });
  const config = {
    network: { bind_address: "localhost:0" },
    modules: modules(folder),
    components: [{ name: "part", api: "rdk:component:generic", model: "part" }],
  };
  await Deno.writeTextFile(`${folder}/machine.json`, JSON.stringify(config));
  const script = `set -e\n${prepare}\nshift\nexec "$@"`;
  const unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const command = [...unshare, "sh", "-c", script, "sh", folder, Deno.execPath(), "run", "-A", PROGRAM];
  const server = await startServer(`${folder}/machine.json`, {
    command,
    env: { HOME: folder, ...keptCode() },
  });
  try {
    await server.wrote("machine is running");
    assertEquals(await answers(server.url, "part"), true);
    await work(server, folder);
  } finally {
    // unshare itself takes no signal.
    Deno.kill(await firstProcess(server), "SIGTERM");
    await server.ended;
    await Deno.remove(folder, { recursive: true });
  }
}

/** The server, which is the first process of its namespace. */
async function firstProcess({ pid }: ServerProcess): Promise<number> {
  const [child] = (await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`)).split(" ");
  return Number(child);
}

needingTest(
  "a machine works on a hardened system, with odd paths, languages and time zones",
  here,
  () =>
    inPlace(
      `mount -t proc -o hidepid=2 proc /proc
mkdir "$1/tmp" && mount -t tmpfs -o noexec tmpfs "$1/tmp"
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir "$1/home of mé" && ln -s "home of mé" "$1/link"
printf '#!/bin/sh\\necho "the module runs, $TZ"\\nexit 1\\n' > "$1/link/a module.sh"
chmod 755 "$1/link/a module.sh"
umask 077
export SVC_HOME="$1/link" TMPDIR="$1/tmp" TZ=Nowhere/City LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8`,
      (folder) => [{ name: "mod", executable_path: `${folder}/link/a module.sh` }],
      async (server) => {
        await server.wrote("the module runs, Nowhere/City");
        assertEquals((await statusOf(server.url)).resources.part, "ready");
      },
    ),
);

needingTest("a module in a folder where no program may run says what to do", here, () =>
  inPlace(
    `mkdir "$1/programs" && mount -t tmpfs -o noexec tmpfs "$1/programs"
printf '#!/bin/sh\\nexit 1\\n' > "$1/programs/run.sh" && chmod 755 "$1/programs/run.sh"`,
    (folder) => [{ name: "mod", executable_path: `${folder}/programs/run.sh` }],
    async (server) => {
      await until(() => /\tERROR\t.*mod/.test(server.output()), { found: () => server.output() });
      const [line] = server.output().match(/\tERROR\trdk.modmanager.mod\t.*/) ?? [];
      assertMatch(line ?? "", /noexec.*programs\/run\.sh/);
    },
  ));

needingTest("the first process of a container leaves no dead processes behind", here, () =>
  inPlace(
    // Only the first run leaves processes behind, which are nobody's and end.
    `cat > "$1/forking.sh" <<'end'
#!/bin/sh
[ -e "$0.once" ] || for _ in 1 2 3 4 5 6 7 8; do (setsid sleep 1 &); done
touch "$0.once"
echo has forked
exit 1
end
chmod 755 "$1/forking.sh"`,
    (folder) => [{ name: "mod", executable_path: `${folder}/forking.sh` }],
    async (server) => {
      await server.wrote("has forked");
      const child = await firstProcess(server);
      const dead = () => deadChildren(child);
      await until(async () => await dead() >= 5, { found: () => server.output() });
      await until(async () => await dead() === 0, { found: async () => `${await dead()} are left` });
      assertEquals(await answers(server.url, "part"), true);
    },
  ));

/** Children of a process that have ended and for which nobody has waited. */
async function deadChildren(parent: number): Promise<number> {
  let count = 0;
  for await (const { name } of Deno.readDir("/proc")) {
    const stat = await Deno.readTextFile(`/proc/${name}/stat`).catch(() => "");
    const [state, of] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (state === "Z" && Number(of) === parent) count++;
  }
  return count;
}

needingTest(
  "a machine whose disk was full keeps its diagnostics again when there is room",
  here,
  () =>
    inPlace(
      `mkdir "$1/small" && mount -t tmpfs -o size=64k tmpfs "$1/small"
cat /dev/zero > "$1/small/filled" 2>/dev/null || true
export SVC_HOME="$1/small/home"`,
      () => [],
      async (server, folder) => {
        await server.wrote("no diagnostics are kept");
        const child = await firstProcess(server);
        await Deno.remove(`/proc/${child}/root${folder}/small/filled`);
        await server.wrote("diagnostics are kept again");
        assert(!server.output().includes("\tERROR\t"), server.output());
      },
    ),
);
