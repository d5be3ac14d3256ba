/**
 * Programs whose folders are on a read-only or a full disk: each says what it cannot keep, where and what to do about it,
 * and works as far as it can.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { type Example, serveCloud, svcCloud } from "./cloud/program.ts";
import { run } from "./interop/programs.ts";
import { answers, statusOf, text } from "./e2e/bench.ts";
import { keptCode } from "./support/from_source.ts";
import { startServer } from "./support/server.ts";
import { type Needed, needingTest } from "./support/needing.ts";
import { until } from "./support/until.ts";

const PROGRAM = new URL("e2e/program.ts", import.meta.url).pathname;
const AGENT = new URL("../cli/agent/main.ts", import.meta.url).pathname;
const CLOUD = new URL("../cli/cloud/main.ts", import.meta.url).pathname;
const ML = new URL("../cli/ml/main.ts", import.meta.url).pathname;

/** `$1` becomes a small disk of its own with `home` in it, on which the program can write nothing. */
const DISK = `set -e
mount -t tmpfs -o size=64k tmpfs "$1"
mkdir "$1/home"
if [ "$2" = full ]; then cat /dev/zero > "$1/filled" 2>/dev/null || true
else mount -o remount,ro "$1"; fi
shift 2
exec "$@"`;

const ADVICE = {
  "read-only": "its disk is read-only: mount it writable \\(mount -o remount,rw\\)",
  full: "full: make room on it",
} as const;

type DiskKind = keyof typeof ADVICE;

async function needs(): Promise<Needed<true>> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return { missing: "namespaces need root on Linux" };
  const { code } = await run(["unshare", "--mount", "true"]).catch(() => ({ code: -1 }));
  return code === 0 ? { found: true } : { missing: "the system makes no namespaces" };
}

const here = await needs();

/** Runs `work` with the beginning of a command on such a disk, and its environment. */
async function onDisk(
  kind: DiskKind,
  work: (command: string[], env: Record<string, string>, folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-disk-" });
  const env = { ...keptCode(), HOME: `${folder}/home` };
  const command = ["unshare", "--mount", "sh", "-c", DISK, "sh", folder, kind, Deno.execPath(), "run", "-A"];
  try {
    await work(command, env, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function withCloud(work: (url: string, key: Example["ownerKey"]) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", folder];
  const { ownerKey }: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  const cloud = await serveCloud(data);
  try {
    await work(cloud.url, ownerKey);
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs a program until it has written a text, and ends it; returns its output. */
async function outputUntil(
  command: readonly string[],
  env: Record<string, string>,
  wanted: RegExp,
): Promise<string> {
  const child = new Deno.Command(command[0], {
    args: command.slice(1),
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  const reading = [child.stdout, child.stderr].map(async (stream) => {
    for await (const piece of stream.pipeThrough(new TextDecoderStream())) output += piece;
  });
  try {
    await until(() => wanted.test(output), { found: () => output });
  } finally {
    try {
      child.kill("SIGTERM");
    } catch {
      // It has ended by itself.
    }
    await child.status;
    await Promise.all(reading);
  }
  return output;
}

for (const kind of Object.keys(ADVICE) as DiskKind[]) {
  needingTest(
    `svc-server works with its home on a ${kind} disk, and warns once`,
    here,
    () =>
      onDisk(kind, async (command, env, folder) => {
        const path = `${folder}.json`;
        await Deno.writeTextFile(
          path,
          text({ components: [{ name: "part", api: "rdk:component:generic", model: "part" }] }),
        );
        const server = await startServer(path, { command: [...command, PROGRAM], env });
        try {
          await server.wrote("machine is running");
          assertEquals((await statusOf(server.url)).resources.part, "ready");
          assertEquals(await answers(server.url, "part"), true);
          await server.wrote("no diagnostics are kept");

          // The next configuration applies, too.
          await Deno.writeTextFile(
            path,
            text({ components: [{ name: "next", api: "rdk:component:generic", model: "part" }] }),
          );
          await until(() => answers(server.url, "next"));
          assertEquals(await server.stop(), 0);
          const lines = server.output().split("\n").filter((line) => line.includes("diagnostics"));
          assertEquals(lines.length, 1, lines.join("\n"));
          assertMatch(lines[0], new RegExp(`\tWARN\t.*${folder}/home/.svc/.*${ADVICE[kind]}`));
          assertEquals(server.output().match(/\tERROR\t.*/)?.[0], undefined);
        } finally {
          await server.stop();
          await Deno.remove(path);
        }
      }),
  );

  needingTest(
    `svc-agent, svc-cloud and svc-ml name the ${kind} disk and what to do about it`,
    here,
    () =>
      onDisk(kind, async (command, env, folder) => {
        const advice = new RegExp(`${folder}/home/\\S*.*${ADVICE[kind]}`);
        const agent = [AGENT, "--dev-mode", "--dir", `${folder}/home`, "--config", `${folder}/none.json`];
        const looked = await outputUntil([...command, ...agent], env, /this machine cannot work yet/);
        assertMatch(looked, advice);

        const cloud = [CLOUD, "serve", "--listen", "127.0.0.1:0", "--data", `${folder}/home`];
        assertMatch(await outputUntil([...command, ...cloud], env, new RegExp(ADVICE[kind])), advice);

        await withCloud(async (url, key) => {
          const keyEnv = { SVC_API_KEY_ID: key.id, SVC_API_KEY: key.key };
          const login = [ML, "login", "--base-url", url];
          const output = await outputUntil([...command, ...login], { ...env, ...keyEnv }, /svc-ml login: /);
          assertMatch(output.split("svc-ml login: ")[1], advice);
        });
      }),
  );
}
