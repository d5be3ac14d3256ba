/**
 * `deno task wine`: the programs for Windows, compiled with the runtime that can be had offline and run under Wine.
 *
 * Promises: one line a check, `ok …` or `FAILED …`, and their count at the end; exit code 0 only if none failed. When it
 * ends, nothing of it runs any more.
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
      help: "Where the Debian system with Wine is, or is made: 1.5 GB.",
    },
    {
      name: "only",
      type: "string",
      default: "",
      value: "WORD",
      help: "Only checks with this word, or of this group: machine, everyday, cloud, service, faults.",
    },
    {
      name: "kills",
      type: "string",
      default: "30",
      value: "COUNT",
      help: "How often everything is killed in the middle of an update.",
    },
    { name: "make", type: "bool", default: false, help: "Only make the Debian system." },
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
const [WINDOWS] = choose("target", TARGETS, "windows-x64");

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

/** Every check of `compile:check`, but for the comparison of memory, which would be that of Wine. */
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

/** Each group of checks has a computer of its own. */
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

/** By a word of its name or by its group; the checks of a service need those before them. */
function isWanted({ name, group }: Check, only: string): boolean {
  return group === only || (group !== "service" && name.includes(only)) || only === "";
}

/** What a check does has ended in time, or with its computer. */
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
