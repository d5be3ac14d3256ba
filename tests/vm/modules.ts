/**
 * `deno task vm:modules`: checks the limits of modules on a real kernel with control groups of version 2, in a Debian
 * in a virtual machine.
 *
 * Promises: one line a check, `ok …` or `FAILED …`, and their count at the end; exit code 0 only if none failed.
 */

import { chainOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { compile, EXECUTABLES, exists, ROOT, TARGETS } from "../../cli/build/compiler.ts";
import { Report } from "../../cli/build/report.ts";
import { begin } from "../../cli/program.ts";
import { image, type System } from "./image.ts";
import { Machine } from "./machine.ts";

const PROGRAM = {
  name: "deno task vm:modules",
  summary: "Tries the limits of modules on the kernel of a virtual machine.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "reuse", type: "bool", default: false, help: "Take the program of an earlier run." },
  ],
} as const;

/** The small kernel cannot mount this computer's folder. */
const SYSTEM: System = { name: "modules-system", packages: ["linux-image-amd64"] };
const FOLDER = "dist/vm/modules";
/** The group of the only svc-server here. */
const GROUPS = "/sys/fs/cgroup/svc-modules/[0-9]*-[0-9]*";
const SETUP_MS = 180_000;
const WAIT_MS = 180_000;
const MEMORY_MB = 48;
const PROCESSES = 10;
const CPU_PERCENT = 20;
/** The time over which a module's share of the processor is measured, and the largest share that passes. */
const CPU_SECONDS = 20;
const CPU_PERCENT_MAX = 25;

/** The misbehaviour of each module. */
const SCRIPTS = {
  eater: 'echo eats; x=$(head -c 200000000 /dev/zero | tr "\\0" x); echo has eaten; sleep 100000',
  forker: "echo forks; for i in $(seq 40); do sleep 100000 & done; echo has forked; sleep 100000",
  spinner: "echo spins; while :; do :; done & while :; do :; done",
  free: "echo is free; sleep 100000",
} as const;

const LIMITS = {
  eater: { memory_mb: MEMORY_MB },
  forker: { processes: PROCESSES },
  spinner: { cpu_percent: CPU_PERCENT },
  free: undefined,
} as const;

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const report = new Report(host);
  let machine: Machine | undefined;
  try {
    const system = await image(SYSTEM);
    const share = `${ROOT}${FOLDER}/share`;
    await prepare(share, begun.values.reuse);
    machine = await Machine.make(system, `${ROOT}${FOLDER}/run`, { share });
    await machine.on();
    await install(machine);
    await checks(machine, report);
  } catch (error) {
    host.writeError(`${PROGRAM.name}: ${chainOf(error)}\n`);
    return 1;
  } finally {
    await machine?.cut();
  }
  return report.finish();
}

/** Fills the folder that the machine mounts: svc-server, its configuration and its modules. */
async function prepare(share: string, reuse: boolean): Promise<void> {
  await Deno.mkdir(share, { recursive: true });
  for (const [name, script] of Object.entries(SCRIPTS)) {
    await Deno.writeTextFile(`${share}/${name}.sh`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  const modules = Object.entries(LIMITS).map(([name, limits]) => {
    return { name, executable_path: `/mnt/share/${name}.sh`, limits };
  });
  const config = { network: { bind_address: "localhost:8080" }, modules };
  await Deno.writeTextFile(`${share}/machine.json`, JSON.stringify(config));
  if (reuse && await exists(`${share}/svc-server`)) return;
  const [target] = TARGETS;
  const server = EXECUTABLES.find(({ name }) => name === "svc-server")!;
  await compile(await checkCompiler(target), server, target, `${FOLDER}/share`);
}

async function install(machine: Machine): Promise<void> {
  await machine.run("mkdir -p /mnt/share && mount -t 9p -o trans=virtio,ro,msize=262144 share /mnt/share");
  await machine.run("cp /mnt/share/svc-server /usr/local/bin/svc-server", SETUP_MS);
  await serve(machine, "machine");
}

async function serve(machine: Machine, unit: string): Promise<void> {
  const command =
    `systemd-run --unit=${unit} -p StandardOutput=file:/root/log -p StandardError=file:/root/log`;
  await machine.run(`${command} /usr/local/bin/svc-server -config /mnt/share/machine.json`);
  await wrote(machine, "serving");
}

async function checks(machine: Machine, report: Report): Promise<void> {
  const number = async (path: string, key = "") => {
    const found = await machine.run(key ? `grep '^${key} ' ${path} | cut -d' ' -f2` : `cat ${path}`);
    return Number(found);
  };
  await report.check(`a module beyond its memory limit is killed and started again`, async () => {
    await wrote(machine, 'module "eater" ended');
    await wrote(machine, 'module "eater" starts again');
    const kills = await number(`${GROUPS}/eater/memory.events`, "oom_kill");
    if (kills < 1) throw new Error("nothing was killed for want of memory");
    const peak = await number(`${GROUPS}/eater/memory.peak`) / 2 ** 20;
    if (peak > MEMORY_MB) throw new Error(`it had ${peak} MiB`);
    await never(machine, "has eaten");
    return `at most ${Math.round(peak)} MiB of ${MEMORY_MB}, killed ${kills} times`;
  });
  await report.check("a module cannot exceed its limit of processes", async () => {
    await wrote(machine, "forks");
    await machine.eventually(
      `test $(grep '^max ' ${GROUPS}/forker/pids.events | cut -d' ' -f2) -gt 0`,
      WAIT_MS,
    );
    const refused = await number(`${GROUPS}/forker/pids.events`, "max");
    const now = await number(`${GROUPS}/forker/pids.current`);
    if (now > PROCESSES) throw new Error(`it has ${now}`);
    await never(machine, "has forked");
    return `the kernel refused ${refused} further ones`;
  });
  await report.check("a module cannot exceed its share of processor time", async () => {
    await wrote(machine, "spins");
    const used = `grep '^usage_usec ' ${GROUPS}/spinner/cpu.stat | cut -d' ' -f2; cut -d' ' -f1 /proc/uptime`;
    const [before, after] = (await machine.run(`${used}; sleep ${CPU_SECONDS}; ${used}`)).split(/\s+/).map(
      Number,
    )
      .reduce<number[][]>(
        (pairs, one, at) => (at % 2 ? pairs.at(-1)!.push(one) : pairs.push([one]), pairs),
        [],
      );
    const percent = (after[0] - before[0]) / 1e4 / (after[1] - before[1]);
    if (!(percent > 0 && percent < CPU_PERCENT_MAX)) throw new Error(`it used ${percent} percent`);
    const throttled = await number(`${GROUPS}/spinner/cpu.stat`, "nr_throttled");
    if (throttled < 1) throw new Error("it was never held back");
    return `${percent.toFixed(1)} percent of ${CPU_PERCENT}, held back ${throttled} times`;
  });
  await report.check("a module without limits is in no control group", async () => {
    await wrote(machine, "is free");
    const group = await machine.run("cat /proc/$(pgrep -f '^/bin/sh /mnt/share/free.sh' | head -1)/cgroup");
    if (group.includes("svc-modules")) throw new Error(`it is in ${group}`);
    await machine.run("systemctl is-active machine");
    return group;
  });
  await report.check("the next svc-server removes the control groups of a killed svc-server", async () => {
    const before = await machine.run(`echo ${GROUPS}`);
    await machine.run("systemctl kill --kill-whom=main -s KILL machine; rm /root/log");
    await serve(machine, "again");
    await wrote(machine, "is free");
    await machine.eventually(`test ! -e ${before}`, WAIT_MS);
    return `${before} is gone`;
  });
  await report.check("stopping svc-server ends all modules and removes their control groups", async () => {
    await machine.run("systemctl stop again", SETUP_MS);
    for (const name of Object.keys(LIMITS)) {
      await machine.eventually(`! ls -d ${GROUPS}/${name} && ! pgrep -f share/${name}.sh`, WAIT_MS);
    }
    const left = await machine.run(`ls -d ${GROUPS} || echo none`);
    if (!left.includes("none")) throw new Error(`there is ${left}`);
  });
}

function wrote(machine: Machine, text: string): Promise<string> {
  return machine.eventually(`grep -m1 -F '${text}' /root/log`, WAIT_MS);
}

async function never(machine: Machine, text: string): Promise<void> {
  const { code, output } = await machine.try(`grep -F '${text}' /root/log`);
  if (code === 0) throw new Error(`its log has: ${output}`);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
