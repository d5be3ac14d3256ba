/**
 * `module restart` and `module reload`: starts a module of a running machine again; reload builds it before.
 */

import { resolve } from "node:path";
import { MachinePageService } from "../../../proto/gen/machine_page_pb.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { didYouMean } from "../../../lib/base/schema/suggest.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import type { Flag } from "../../flags.ts";
import { EXIT } from "../../program.ts";
import { printResult } from "../../table.ts";
import type { MachineClient } from "./reach.ts";
import { machineReport } from "./status.ts";
import { machineCommand, type MachineContext } from "./machine_command.ts";

/** A module may take this long to get ready. */
const RESTART_MS = 10 * 60_000;
const PAUSE_MS = 200;

export const MODULE_RESTART = machineCommand({
  words: "module restart",
  takes: ["NAME"],
  summary: "Restarts a module of the machine, and waits until its resources are back.",
  flags: [],
  run: (context, [name]) => restart(context, name),
});

const FLAGS = [
  {
    name: "build",
    type: "string",
    default: "",
    value: "COMMAND",
    help: "The command that builds the module; by default ./build.sh, if the folder has one.",
  },
  {
    name: "path",
    type: "string",
    default: ".",
    value: "FOLDER",
    help: "The module's folder on this computer.",
  },
] as const satisfies readonly Flag[];

export const MODULE_RELOAD = machineCommand({
  words: "module reload",
  takes: ["NAME"],
  summary:
    "Builds a module that this computer has, then restarts it on the machine. Nothing restarts if the build " +
    "fails.",
  flags: FLAGS,
  run: async (context, [name], { build, path }) => {
    const { host } = context;
    const folder = resolve(host.cwd(), path);
    // An unknown module is an error before the build.
    await requireModule(context, name);
    const script = await host.findFile(resolve(folder, "build.sh"));
    const command = build || (script ? "./build.sh" : "");
    if (command !== "") await runBuild(context, command, folder);
    else host.writeError(`${folder} has no build.sh: the module starts again as it is\n`);
    return await restart(context, name);
  },
});

async function restart(context: MachineContext, name: string): Promise<number> {
  const machine = await context.machine();
  await requireModule(context, name);
  const { signal } = context;
  await machine.robot.restartModule(
    { idOrName: { case: "moduleName", value: name } },
    { timeoutMs: RESTART_MS, signal },
  );
  for (;;) {
    const { modules, resources } = await machineReport(machine);
    const own = modules.find((one) => one.name === name);
    if (own?.state === "ready") {
      const brought = await fetchResources(machine, name);
      const bad = resources.filter((one) =>
        one.state === "unhealthy" && (brought?.has(`${one.api}/${one.name}`) ?? true)
      );
      const lines = [`${name} is ready`, ...bad.map((one) => `${one.name} is unhealthy: ${one.error}`)];
      printResult(context.host, context.json, { module: own, unhealthy: bad }, lines);
      return bad.length === 0 ? EXIT.ok : EXIT.failed;
    }
    if (own?.state === "unhealthy") {
      throw new SvcError(
        "failed_precondition",
        `${name} is ${own.state}: ${own.error ?? "it gives no reason"}`,
      );
    }
    await context.clock.sleep(PAUSE_MS, signal);
  }
}

/** The full names of the module's resources; `undefined` if the machine's program does not tell. */
async function fetchResources(
  { robot, channel, limits }: MachineClient,
  module: string,
): Promise<ReadonlySet<string> | undefined> {
  try {
    const { models } = await robot.getModelsFromModules({}, limits);
    const own = new Set(models.filter(({ moduleName }) => moduleName === module).map(({ model }) => model));
    const { nodes } = await client(MachinePageService, channel).getGraph({}, limits);
    return new Set(nodes.filter(({ model }) => own.has(model)).map(({ id }) => id));
  } catch (error) {
    if (SvcError.from(error).code === "unimplemented") return undefined;
    throw error;
  }
}

async function requireModule(context: MachineContext, name: string): Promise<void> {
  const { modules } = await machineReport(await context.machine());
  const names = modules.map((one) => one.name);
  if (names.includes(name)) return;
  const known = names.length === 0 ? "it has none" : `it has ${names.join(", ")}`;
  const hint = didYouMean(name, names) || `; ${known}`;
  throw new SvcError("not_found", `the machine has no module "${name}"${hint}`);
}

/** Runs the build in its folder; its output goes to standard error. */
async function runBuild({ host, signal }: MachineContext, command: string, folder: string): Promise<void> {
  const [program, args] = host.platform().os === "windows"
    ? ["cmd", ["/c", command]]
    : ["/bin/sh", ["-c", command]];
  const process = host.spawn({
    command: program as string,
    args: args as string[],
    cwd: folder,
    leash: true,
  });
  const stop = () => process.signal("SIGTERM", { group: true });
  signal.addEventListener("abort", stop, { once: true });
  const show = async (lines: AsyncIterable<string>) => {
    for await (const line of lines) host.writeError(`${line}\n`);
  };
  try {
    const [{ code }] = await Promise.all([process.exited, show(process.stdout), show(process.stderr)]);
    signal.throwIfAborted();
    if (code !== 0) {
      throw new SvcError(
        "failed_precondition",
        `${command} ended with ${code}: the module was not restarted`,
      );
    }
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
