/**
 * `deno task wine`: compiles the programs for Windows with the older Deno, and checks them under Wine.
 *
 * Prints a line for each check, `ok …` or `FAILED …`, and the counts at the end; exits with 0 only if no check failed.
 * Leaves no process behind.
 */

import { resolve } from "node:path";
import { messageOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { compileAll, runAll } from "../../cli/build/check.ts";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { choose, EXECUTABLES, exists, ROOT, TARGETS } from "../../cli/build/compiler.ts";
import { Report } from "../../cli/build/report.ts";
import { begin } from "../../cli/program.ts";
import { Computer, type Disk, diskIn } from "./computer.ts";
import { everydayChecks } from "./everyday.ts";
import { faultChecks } from "./faults.ts";
import { machineChecks } from "./machines.ts";
import { serviceChecks } from "./services.ts";
import { within } from "../support/until.ts";
import type { Check, World } from "./world.ts";

const PROGRAM = {
  name: "deno task wine",
  summary: "Runs the programs for Windows under Wine.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    {
      name: "folder",
      type: "string",
      default: "dist/wine",
      value: "FOLDER",
      help: "The folder of the Debian system with Wine, which is made if it is missing: 1.5 GB.",
    },
    {
      name: "only",
      type: "string",
      default: "",
      value: "WORD",
      help:
        "Run only checks whose name contains this word, or those of one group: machine, everyday, cloud, service, faults.",
    },
    {
      name: "kills",
      type: "string",
      default: "30",
      value: "COUNT",
      help: "How many times to cut the power in the middle of an update.",
    },
    { name: "make", type: "bool", default: false, help: "Make the Debian system and exit." },
    {
      name: "short",
      type: "bool",
      default: false,
      help: "Only svc-server and svc-agent, and what needs no service.",
    },
    { name: "reuse", type: "bool", default: false, help: "Take the programs of an earlier run." },
  ],
} as const;

const CHECK_MS = 600_000;
const SHORT = { programs: ["svc-server", "svc-agent"], groups: ["machine", "everyday"] };
const PROGRAMS = "dist/wine/programs";
const [WINDOWS] = choose("target", TARGETS, ["windows-x64"]);

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { folder, only, reuse, kills, make, short } = begun.values;
  const report = new Report(host);
  const run = await Deno.makeTempDir({ prefix: "svc-wine-" });
  try {
    const disk = await diskIn(resolve(folder), (line) => host.writeError(`${line}\n`));
    if (make) return 0;
    const executables = EXECUTABLES.filter(({ name }) => !short || SHORT.programs.includes(name));
    const programs = reuse && await made() ? compiled() : await compileAll(
      report,
      await checkCompiler(WINDOWS),
      WINDOWS,
      PROGRAMS,
      executables,
    );
    if ("compile:check".includes(only)) {
      await asCompileCheck(report, new Computer(disk, `${run}/check`, true), programs, host);
    }
    const checks = [...machineChecks, ...everydayChecks, ...serviceChecks(Number(kills)), ...faultChecks]
      .filter((one) => isWanted(one, only) && (!short || SHORT.groups.includes(one.group)));
    await runChecks(report, disk, run, checks, reuse);
    return report.finish();
  } catch (error) {
    host.writeError(`${PROGRAM.name}: ${messageOf(error)}\n`);
    return 1;
  } finally {
    await Deno.remove(run, { recursive: true });
  }
}

type Programs = Awaited<ReturnType<typeof compileAll>>;

function compiled(): Programs {
  return EXECUTABLES.map(({ name }) => ({ name, path: `${ROOT}${PROGRAMS}/${name}${WINDOWS.suffix}` }));
}

async function made(): Promise<boolean> {
  return (await Promise.all(compiled().map(({ path }) => exists(path)))).every((one) => one);
}

/** Runs the checks of `compile:check`, except the comparison of memory, which would measure Wine's. */
async function asCompileCheck(
  report: Report,
  computer: Computer,
  programs: Programs,
  host: DenoHost,
): Promise<void> {
  try {
    await computer.on();
    report.include(
      await runAll(
        { runner: computer.runner, emulated: false, os: "windows", programs },
        host,
        computer.network,
      ),
    );
  } finally {
    await computer.off();
  }
}

/** Runs each group of checks on a computer of its own. */
async function runChecks(
  report: Report,
  disk: Disk,
  run: string,
  wanted: readonly Check[],
  reuse: boolean,
): Promise<void> {
  const pathOf = (name: string) => compiled().find((one) => one.name === name)!.path;
  const groups = Map.groupBy(wanted, ({ group }) => group);
  for (const [group, checks] of groups) {
    const computer = new Computer(disk, `${run}/${group}`);
    const afterwards: (() => Promise<void>)[] = [];
    try {
      await computer.on();
      const world: World = {
        ...{ computer, pathOf, folder: `${run}/${group}`, reuse },
        after: (work) => void afterwards.push(work),
      };
      for (const { name, run } of checks) await report.check(name, () => inTime(run(world), computer));
    } finally {
      await computer.off();
      for (const work of afterwards) await work();
    }
  }
}

/** Whether `--only` chooses the check. Checks of a service depend on the earlier ones, so only their group counts. */
function isWanted({ name, group }: Check, only: string): boolean {
  return group === only || (group !== "service" && name.includes(only)) || only === "";
}

/** Waits for a check; if it takes too long, switches its computer off and on, which ends it. */
async function inTime<T>(work: Promise<T>, computer: Computer): Promise<T> {
  let ended = false;
  const noted = work.finally(() => ended = true);
  try {
    return await within("the end of the check", noted, CHECK_MS);
  } finally {
    if (!ended) {
      await computer.off();
      await computer.on();
    }
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
