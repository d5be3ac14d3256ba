import {
  assert,
  assertEquals,
  assertMatch,
  assertObjectMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { DenoHost } from "../../../lib/base/host_deno.ts";
import { type LogRecord, Logs, memorySink } from "../../../lib/base/log/log.ts";
import type { ProcessCommand } from "../../../lib/base/process.ts";
import { CONTENT } from "../../../tests/cloud/world.ts";
import { openSandbox, type Sandbox } from "../../../lib/cloud/sandbox/sandbox.ts";
import { TRAINING_FLAGS } from "./flags.ts";
import { openTraining } from "./training.ts";
import { parseFlags } from "../../flags.ts";

const clock = new SystemClock();

/** What `serve` with these flags makes of it, and says; on a computer with or without bubblewrap. */
async function opened(flags: readonly string[], { bwrap = true } = {}) {
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  const host = new DenoHost();
  const { spawn } = host;
  host.spawn = (command: ProcessCommand) =>
    spawn.call(
      host,
      !bwrap && command.command === "bwrap" ? { ...command, command: "no-such-bwrap" } : command,
    );
  const data = await Deno.makeTempDir();
  try {
    const { values } = parseFlags(TRAINING_FLAGS, "gnu", flags);
    const found = await openSandbox(host, clock, [data]);
    const limits: unknown[] = [];
    const cell: Sandbox["cell"] = (options) => {
      limits.push(options.limits);
      return (found as Sandbox).cell(options);
    };
    const sandbox = typeof found === "string" ? found : {
      confines: found.confines,
      description: found.description,
      inside: (folder: string) => found.inside(folder),
      cell,
    };
    const around = { host, clock, logger: logs.logger("cloud"), sandbox };
    const { training } = await openTraining({ ...values, data, publicUrl: "" }, around, CONTENT);
    return {
      ...training.executors,
      limits,
      output: records.map(({ level, message }) => `${level} ${message}`),
    };
  } finally {
    await Deno.remove(data, { recursive: true });
  }
}

const python = (await opened(["--training", "scripts", "--scripts-without-sandbox"])).custom !== undefined;

const confines = typeof await openSandbox(new DenoHost(), clock, []) !== "string";

Deno.test("serve runs training scripts only with --training scripts", async () => {
  const { managed, custom, noScripts, output } = await opened([]);
  assert(managed && !custom);
  assertStringIncludes(noScripts!, "svc-cloud serve --training embedded,scripts");
  assertEquals(output, []);
});

Deno.test("without a sandbox serve refuses training scripts and names the alternative", async () => {
  const { custom, noScripts, output } = await opened(["--training", "embedded,scripts"], { bwrap: false });
  assertEquals(custom, undefined);
  assertStringIncludes(noScripts!, "apt-get install bubblewrap");
  assertMatch(
    output.join("\n"),
    /^error training scripts are refused .*--scripts-without-sandbox would run them as/,
  );
});

Deno.test({
  name: "--scripts-without-sandbox runs scripts without a sandbox and logs a warning",
  ignore: !python,
  fn: async () => {
    const flags = ["--training", "scripts", "--scripts-without-sandbox"];
    const { custom, output } = await opened(flags, { bwrap: false });
    assertEquals([custom?.reachesUs, custom!.environments.length > 0], [true, true]);
    assertMatch(output.join("\n"), /^warn training scripts run WITHOUT A SANDBOX/);
  },
});

Deno.test({
  name: "serve logs in which sandbox scripts run, and whether with the network, and limits them",
  ignore: !python || !confines,
  fn: async () => {
    for (const [flags, network] of [[[], "without a network"], [["--scripts-network"], "with the network"]]) {
      const { output } = await opened(["--training", "scripts", ...flags]);
      assertMatch(output.join("\n"), new RegExp(`^info training scripts run in .+, ${network}: `));
    }
    const flags = ["--scripts-memory-mib", "2048", "--scripts-disk-mib", "512", "--scripts-cpu-hours", "2"];
    const { limits } = await opened(["--training", "scripts", ...flags]);
    const wanted = { memoryBytes: 2 ** 31, folderBytes: 2 ** 29, cpuSeconds: 7_200 };
    assert(limits.length > 0);
    for (const one of limits) assertObjectMatch(one as Record<string, unknown>, wanted);
  },
});

Deno.test("serve refuses --scripts-memory-mib 0", async () => {
  const flags = ["--training", "scripts", "--scripts-memory-mib", "0"];
  const { message } = await assertRejects(() => opened(flags), SvcError);
  assertEquals(message, "--scripts-memory-mib: found 0, wanted 1 or more");
});

Deno.test("--kubernetes-registries limits the images of organizations to its prefixes", async () => {
  const kubeconfig = await Deno.makeTempFile();
  await Deno.writeTextFile(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: "c", cluster: { server: "http://127.0.0.1:1" } }],
      users: [{ name: "u", user: {} }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
      "current-context": "x",
    }),
  );
  const cluster = ["--training", "kubernetes", "--kubernetes-url", "http://cloud.example.com"];
  const images = async (list: string) => {
    const flags = [...cluster, "--kubeconfig", kubeconfig, "--kubernetes-registries", list];
    return (await opened(flags)).custom?.images;
  };
  try {
    assertEquals(await images(""), []);
    assertEquals(await images("registry.example.com/team/, registry.example.com:5000/"), [
      "registry.example.com/team/",
      "registry.example.com:5000/",
    ]);
    for (const wrong of ["registry.example.com", "registry.example.com/team", "/", "*/"]) {
      const { message } = await assertRejects(() => images(wrong), SvcError);
      assertStringIncludes(
        message,
        `--kubernetes-registries: found "${wrong}", wanted the beginning of names`,
      );
    }
  } finally {
    await Deno.remove(kubeconfig);
  }
});
