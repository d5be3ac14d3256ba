/**
 * `deno task vm:agent`: the agent on a whole system, a Debian in a virtual machine, with all that may happen to it.
 *
 * Promises: one line a scenario, `ok …` or `FAILED …`, and their count at the end; exit code 0 only if none failed.
 * With the same `--seed` the power of each machine goes at the same moments.
 */

import { messageOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Report } from "../../cli/build/report.ts";
import { begin } from "../../cli/program.ts";
import { exists, ROOT } from "../../cli/build/compiler.ts";
import {
  BAD,
  GOOD,
  isInService,
  makeBadPrograms,
  makePrograms,
  type Name,
  NAMES,
  stages,
  VmDevice,
} from "./device.ts";
import { image, NETWORK_DEVICE } from "./image.ts";

const PROGRAM = {
  name: "deno task vm:agent",
  summary: "Installs, updates and breaks svc-agent on a Debian system in a virtual machine.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "cuts", type: "string", default: "30", value: "COUNT", help: "How often the power is cut." },
    { name: "seed", type: "string", default: "1", value: "NUMBER", help: "Decides when it is." },
    {
      name: "machines",
      type: "string",
      default: "2",
      value: "COUNT",
      help: "How many virtual machines share the power cuts. The first one plays the scenarios, too.",
    },
    {
      name: "only",
      type: "string",
      default: "",
      value: "WORD",
      help: "Besides the installation, only scenarios with this word.",
    },
    {
      name: "namespaces",
      type: "bool",
      default: false,
      help:
        "In namespaces of this computer's kernel: minutes instead of an hour, but without the clock of 1970.",
    },
    { name: "verbose", type: "bool", default: false, help: "Tell how far it is, on standard error." },
    { name: "reuse", type: "bool", default: false, help: "Take the programs of an earlier run." },
  ],
} as const;

/** On an emulated processor, of which others want their part too. */
const SERVICE_MS = 300_000;
const UPDATE_MS = 600_000;
/** Sets the clock to some minutes after 1970 began: no earlier than the boot, which Linux refuses. */
const CLOCK_AT_START = "date -s @$(($(cut -d. -f1 /proc/uptime) + 60))";
/** An update takes about as long; the power goes at any moment of it, or shortly after. */
const CUT_WITHIN_MS = 70_000;
const [OLD, NEW] = GOOD;

/** In the names of scenarios that need a clock of their own. */
const OWN_CLOCK = "a clock of 1970";

type Scenario = readonly [name: string, run: (device: VmDevice) => Promise<string | void>];

const SCENARIOS: readonly Scenario[] = [
  ["svc-server is updated through its release channel", async (device) => {
    await device.channel("svc-server", NEW, "stable");
    await device.takeReady(NEW, UPDATE_MS);
    await device.runs({ "svc-server": NEW }, UPDATE_MS);
  }],
  ["svc-agent is updated through its release channel while svc-server runs on", async (device) => {
    const before = await device.inService(SERVICE_MS);
    await device.channel("svc-agent", NEW, "stable");
    const after = await device.runs({ "svc-agent": NEW }, UPDATE_MS);
    if (after.runtime.pid !== before.runtime.pid) throw new Error("the runtime was started again");
  }],
  ["svc-agent rolls back a svc-server that does not start", async (device) => {
    await goneBackFrom(device, "svc-server");
  }],
  ["a svc-agent that does not start is rolled back", async (device) => {
    await goneBackFrom(device, "svc-agent");
  }],
  ["a killed svc-server and a killed svc-agent are started again", async (device) => {
    const { runtime } = await device.inService(SERVICE_MS);
    await device.machine.run(`kill -9 ${runtime.pid}`);
    const { runtime: second } = await device.until("started again", SERVICE_MS, (status) => {
      return isInService(status) && status.runtime.pid !== runtime.pid;
    });
    await device.machine.run("systemctl kill -s KILL --kill-whom=main svc-agent");
    const { runtime: third } = await device.inService(SERVICE_MS);
    if (third.pid !== second.pid) throw new Error("the runtime was not taken over by the next agent");
  }],
  ["a device survives a full disk during an update", async (device) => {
    const fill = "fallocate -l $(($(df --output=avail -B1 / | tail -n 1) - 30000000)) /full && sync";
    await device.machine.run(`rm -f /opt/svc/cache/svc-server-${OLD}-* ; ${fill}`);
    await device.want({ "svc-server": OLD });
    const { versions } = await device.until("told that the disk is full", UPDATE_MS, (status) => {
      return isInService(status) && status.versions["svc-server"].problem !== undefined;
    });
    await device.machine.run("head -c 100M /dev/zero > /fuller || sync");
    await device.machine.cut();
    await device.machine.on();
    await device.inService(SERVICE_MS);
    await device.machine.run("rm -f /full /fuller && sync && systemctl restart svc-agent");
    await device.runs({ "svc-server": OLD }, UPDATE_MS);
    return versions["svc-server"].problem;
  }],
  ["a device starts and updates with a clock of 1970", async (device) => {
    await device.machine.cut();
    await device.machine.on({ clock: "1970-01-01" });
    // systemd starts no earlier than it was made: the clock is set under the agent, too, and before it starts.
    await device.machine.run(CLOCK_AT_START);
    await device.inService(SERVICE_MS);
    await device.machine.run(
      `systemctl stop svc-agent; ${CLOCK_AT_START}; systemctl start svc-agent`,
      240_000,
    );
    await device.inService(SERVICE_MS);
    await device.want({ "svc-server": NEW });
    await device.runs({ "svc-server": NEW }, UPDATE_MS);
    const year = await device.machine.run("date +%Y");
    await device.machine.cut();
    await device.machine.on();
    await device.inService(SERVICE_MS);
    return `an update in ${year}`;
  }],
  ["svc-agent works again after damage of its configuration and records", async (device) => {
    const spoil = 'for file in /opt/svc/state/*.json; do printf "\\0\\0{" > "$file"; done';
    await device.machine.run(`systemctl kill -s KILL --kill-whom=main svc-agent; ${spoil}; sync`);
    await device.inService(SERVICE_MS);
  }],
];

/** The stable channel gets a version that is broken; the device refuses it and stays in service. */
async function goneBackFrom(device: VmDevice, name: Name): Promise<string> {
  await device.publish(name, BAD);
  await device.channel(name, BAD, "stable");
  if (name === "svc-server") await device.takeReady(BAD, UPDATE_MS);
  const { versions } = await device.until(`${name} ${BAD} refused`, UPDATE_MS, (status) => {
    return isInService(status) && status.versions[name].refused?.version === BAD;
  });
  await device.channel(name, BAD, "none");
  await device.runs({ [name]: NEW }, UPDATE_MS);
  return versions[name].refused!.reason;
}

/** Wants other versions, and cuts the power at some moment of the way there. */
async function cutPower(device: VmDevice, random: () => number): Promise<string> {
  const some = random();
  const wanted: { [N in Name]?: string } = {};
  for (const [at, name] of NAMES.entries()) {
    const version = GOOD[Math.floor(random() * GOOD.length)];
    // Mostly both, sometimes one of them.
    if (some < 0.6 || (some < 0.8) === (at === 0)) wanted[name] = version;
  }
  await device.want(wanted);
  const afterMs = random() * CUT_WITHIN_MS;
  await new Promise((resolve) => setTimeout(resolve, afterMs));
  const before = stages(await device.status());
  await new Promise((resolve) => setTimeout(resolve, random() * 1000));
  await device.machine.cut();
  const began = performance.now();
  await device.machine.on();
  const booted = performance.now();
  await device.inService(SERVICE_MS);
  const seconds = (from: number) => ((performance.now() - from) / 1000).toFixed(0);
  return `after ${(afterMs / 1000).toFixed(1)} s (${before}); in service ${
    seconds(began)
  } s after power-on, ${seconds(booted)} s after the boot`;
}

/** Numbers from 0 to 1 that a seed decides (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The power cuts that are left; several machines share them. */
class PowerCuts {
  #begun = 0;

  constructor(readonly count: number) {}

  /** The number of the next one, from 1 on. */
  next(): number | undefined {
    return this.#begun < this.count ? ++this.#begun : undefined;
  }
}

interface Play {
  readonly report: Report;
  /** Stands before the names of its checks. */
  readonly label: string;
  readonly scenarios: readonly Scenario[];
  readonly cuts: PowerCuts;
  readonly random: () => number;
}

/** The life of one device, from its installation until nothing is left of it. */
async function play(device: VmDevice, { report, label, scenarios, cuts, random }: Play): Promise<void> {
  const check = (name: string, run: () => Promise<string | void>) => report.check(`${label}${name}`, run);
  await check("svc-server installs itself as a service", () => device.installRuntime());
  const installed = await check(
    "install.sh by curl installs svc-agent, which runs svc-server",
    async () => {
      await device.install();
      await device.runs({ "svc-server": OLD, "svc-agent": OLD }, UPDATE_MS);
      const { code } = await device.machine.try("systemctl cat svc-server");
      if (code === 0) throw new Error("svc-server is still a service of its own");
      const { machines: [part] } = JSON.parse(await device.svcCloud("fleet", "--json"));
      if (part.state !== "online") throw new Error(`the fleet shows it ${part.state}`);
      return `the fleet shows it online, ${part.agent.distro}`;
    },
  );
  if (!installed) return;
  for (const [name, run] of scenarios) await check(name, () => run(device));
  for (let cut; (cut = cuts.next()) !== undefined;) {
    await check(`power cut ${cut} of ${cuts.count}`, () => cutPower(device, random));
  }
  await device.want({ "svc-server": NEW, "svc-agent": NEW });
  await check("after all power cuts the wanted versions run", async () => {
    await device.runs({ "svc-server": NEW, "svc-agent": NEW }, UPDATE_MS);
  });
  await check("uninstall leaves nothing behind", () => device.uninstall());
}

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { only, reuse, verbose, namespaces, ...numbers } = begun.values;
  const report = new Report(host);
  const cuts = new PowerCuts("power cut".includes(only) ? Number(numbers.cuts) : 0);
  const scenarios = SCENARIOS.filter(([name]) => name.includes(only));
  const possible = scenarios.filter(([name]) => !namespaces || !name.includes(OWN_CLOCK));
  for (const [name] of scenarios.filter((one) => !possible.includes(one))) {
    host.write(`left out: ${name}\n`);
  }
  // Namespaces share this computer's network, and without power cuts there is nothing to share.
  const machines = namespaces || cuts.count === 0 ? 1 : Number(numbers.machines);
  const run = async (at: number) => {
    const label = machines === 1 ? "" : `machine ${at + 1}: `;
    const folder = `${ROOT}dist/vm/${namespaces ? "namespaces" : `run-${at + 1}`}`;
    if (await exists(folder)) await Deno.remove(folder, { recursive: true });
    await Deno.mkdir(folder, { recursive: true });
    const device = await VmDevice.make(folder, { reuse: true, inNamespaces: namespaces });
    if (verbose) device.follow = (line) => host.writeError(`  ${label}${line}\n`);
    const random = seeded(Number(numbers.seed) + at);
    try {
      await play(device, { report, label, scenarios: at === 0 ? possible : [], cuts, random });
    } finally {
      await device.close();
    }
  };
  try {
    await makePrograms(NAMES, GOOD, reuse);
    await makeBadPrograms();
    await image(NETWORK_DEVICE);
    const ends = await Promise.allSettled(Array.from({ length: machines }, (_, at) => run(at)));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    return report.finish();
  } catch (error) {
    host.writeError(`${PROGRAM.name}: ${messageOf(error)}\n`);
    return 1;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
