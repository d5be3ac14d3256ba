/**
 * A virtual machine as a device of a fleet: its agent, the agent's status, and its releases.
 */

import type { AgentStatus } from "../../lib/agent/control/status.ts";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { compile, EXECUTABLES, exists, ROOT, TARGETS } from "../../cli/build/compiler.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { Machine } from "./machine.ts";
import { Namespaces } from "./namespaces.ts";
import type { TestPlace } from "./place.ts";
import { image, NETWORK_DEVICE, type System } from "./image.ts";
import { freePort } from "../support/free_port.ts";

/** Working versions of both programs. */
export const GOOD = ["1.0.0", "1.1.0"] as const;
/** A version that passes every check and then does not start. */
export const BAD = "1.2.0";
export const NAMES = ["svc-agent", "svc-server"] as const;
export type Name = typeof NAMES[number];

const PROGRAMS = "dist/vm/programs";
/** The emulated processor is about ten times slower, so this agent pauses for a shorter time. */
const HASTY_AGENT = { name: "svc-agent", entry: "tests/agent/hasty_agent.ts" };
const LOOK_MS = 2000;
const START_MS = 300_000;
/** The executables are compiled with an older Deno, whose port cannot serve TLS. */
const NETWORK = { no_tls: true };
const ASK = `perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new("/opt/svc/state/agent.sock") or exit 1;` +
  ` print $s "{\\"do\\": \\"status\\"}\\n"; print <$s>'`;

export interface DeviceOptions {
  /** Whether to reuse the programs of an earlier run. */
  readonly reuse: boolean;
  readonly system?: System;
  /** The programs that are published in the control plane. */
  readonly names?: readonly Name[];
  /** The published versions; the first one is the stable channel's. */
  readonly versions?: readonly string[];
  /** A folder of this computer for the machine to mount. */
  readonly share?: string;
  /** In namespaces of this computer's kernel rather than in an emulated machine. */
  readonly inNamespaces?: boolean;
}

export class VmDevice {
  /** Called with a line of progress whenever the awaited status changes. */
  follow?: (line: string) => void;

  private constructor(
    readonly machine: TestPlace,
    readonly cloud: CloudProcess,
    private readonly folder: string,
    readonly example: Example,
  ) {}

  /** Compiles the programs, publishes them in a new control plane, and starts a machine without an agent. */
  static async make(folder: string, options: DeviceOptions): Promise<VmDevice> {
    const { reuse, system = NETWORK_DEVICE, names = NAMES, versions = GOOD, share, inNamespaces } = options;
    await makePrograms(names, versions, reuse);
    const data = ["--data", `${folder}/cloud`];
    const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
    // The machine must know the address before the control plane starts.
    const port = freePort();
    const disk = await image(system);
    const place = inNamespaces
      ? await Namespaces.make(disk, folder)
      : await Machine.make(disk, folder, { share });
    const url = `http://${place.host}:${port}`;
    const cloud = await serveCloud([...data, "--public-url", url], { listen: `127.0.0.1:${port}` });
    try {
      const device = new VmDevice(place, cloud, folder, example);
      for (const name of names) {
        for (const version of versions) await device.publish(name, version);
        await device.channel(name, versions[0], "stable");
      }
      await device.want({});
      await device.machine.on();
      return device;
    } catch (error) {
      await cloud.stop();
      throw error;
    }
  }

  /** Installs svc-server without an agent as a user would, and checks that it serves again after a power cut. */
  async installRuntime(): Promise<void> {
    const port = 8088;
    const network = { bind_address: `localhost:${port}`, ...NETWORK };
    await this.machine.put("/root/machine.json", JSON.stringify({ network }));
    const program = "/root/downloaded";
    await this.machine.run(`curl -fsSL ${this.url}/releases/svc-server/stable/linux-amd64 -o ${program}`);
    await this.machine.run(
      `chmod +x ${program} && cd /root && ${program} --aix-install -config machine.json`,
      START_MS,
    );
    const serves = `bash -c '</dev/tcp/127.0.0.1/${port}'`;
    await this.machine.eventually(serves, START_MS);
    await this.machine.run(`rm ${program}`);
    await this.machine.cut();
    await this.machine.on();
    await this.machine.eventually(serves, START_MS);
  }

  /** Installs the agent as a user would. */
  async install(): Promise<void> {
    const { partId, config: { cloud: { api_key: { id, key } } } } = this.example;
    const words = `SVC_API_KEY_ID=${id} SVC_API_KEY=${key} SVC_PART_ID=${partId}`;
    await this.machine.run(`curl -fsSL ${this.url}/install.sh | ${words} sh`, 300_000);
  }

  async uninstall(): Promise<void> {
    await this.machine.run("/opt/svc/bin/svc-agent uninstall --yes --purge", 300_000);
    const units = "/etc/systemd/system /usr/local/lib/systemd/system";
    const find =
      `find ${units} -name "svc-*.service"; ls -d /opt/svc /etc/svc* /etc/systemd/journald.conf.d/*svc*`;
    const left = await this.machine.try(`{ ${find}; pgrep -a svc-; } 2>/dev/null`);
    if (left.output !== "") throw new Error(`left: ${left.output}`);
  }

  /** The control plane's address as the machine reaches it. */
  get url(): string {
    return this.cloud.url.replace("127.0.0.1", this.machine.host);
  }

  async svcCloud(...args: string[]): Promise<string> {
    return await svcCloud(...args, "--data", `${this.folder}/cloud`);
  }

  async publish(name: Name, version: string): Promise<void> {
    await this.svcCloud("release", "publish", name, version, programFile(name, version));
  }

  async channel(name: Name, version: string, channel: string): Promise<void> {
    await this.svcCloud("release", "channel", name, version, channel);
  }

  /** Sets the machine's configuration in the control plane. A program without a version follows the stable channel. */
  async want(versions: { readonly [N in Name]?: string }, sections: object = {}): Promise<void> {
    const path = `${this.folder}/config.json`;
    const network = { bind_address: "localhost:0", ...NETWORK };
    await Deno.writeTextFile(
      path,
      JSON.stringify({ network, agent: { version_control: versions, ...sections } }),
    );
    await this.svcCloud("config", "set", this.example.partId, path);
  }

  /** The agent's status, or `undefined` if no agent answers. */
  async status(): Promise<AgentStatus | undefined> {
    const { code, output } = await this.machine.try(ASK).catch(() => ({ code: 1, output: "" }));
    try {
      return code === 0 ? JSON.parse(output).value : undefined;
    } catch {
      return undefined;
    }
  }

  /** Waits until a release of the stable channel is ready, and restarts the service, which then starts it. */
  async takeReady(version: string, withinMs: number): Promise<void> {
    const ready = ({ versions }: AgentStatus) => {
      return versions["svc-server"].waiting?.startsWith(`${version} is ready for the next start`) === true;
    };
    const { runtime: before } = await this.inService(withinMs);
    const { runtime } = await this.until(`ready to start ${version}`, withinMs, ready);
    if (runtime.pid !== before.pid) throw new Error("a runtime that works was stopped for a release");
    await this.machine.run("systemctl restart svc-agent", 240_000);
  }

  /** Waits until the agent's status fulfils the condition; a failure shows the last status and the journal. */
  async until(
    what: string,
    withinMs: number,
    hoped: (status: AgentStatus) => boolean,
  ): Promise<AgentStatus> {
    const endMs = performance.now() + withinMs;
    for (let logged = "";;) {
      const status = await this.status();
      const doing = `${stages(status)}; runtime ${status?.runtime.phase}`;
      if (doing !== logged) this.follow?.(doing);
      logged = doing;
      if (status && hoped(status)) return status;
      if (performance.now() > endMs) {
        const journal = await this.machine.try("journalctl -u svc-agent -o cat --no-pager | tail -n 80");
        const found = status ? JSON.stringify(status) : "no agent that answers";
        throw new Error(`not ${what} within ${withinMs / 1000} s; found ${found}\n${journal.output}`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** Waits until the agent is online and the runtime serves. */
  inService(withinMs: number): Promise<AgentStatus> {
    return this.until("in service", withinMs, isInService);
  }

  /** Waits until these versions are in service and no longer on trial. */
  runs(versions: { readonly [N in Name]?: string }, withinMs: number): Promise<AgentStatus> {
    const words = Object.entries(versions).map((one) => one.join(" ")).join(" and ");
    return this.until(`running ${words}`, withinMs, (status) => hasSettled(status, versions));
  }

  async close(): Promise<void> {
    await this.machine.cut();
    await this.cloud.stop();
  }
}

export function isInService({ online, runtime }: AgentStatus): boolean {
  return online && runtime.phase === "running" && runtime.url !== undefined;
}

/** Whether these versions are in service and no longer on trial. */
export function hasSettled(status: AgentStatus, versions: { readonly [N in Name]?: string }): boolean {
  const settled = Object.entries(versions).every(([name, version]) => {
    const { good, trial } = status.versions[name as Name];
    return good?.version === version && !trial;
  });
  const { "svc-agent": agent = status.version } = versions;
  return isInService(status) && settled && status.version === agent &&
    status.runtime.file === status.versions["svc-server"].good?.file;
}

/** The stage of each program's update, in a few words. */
export function stages(status: AgentStatus | undefined): string {
  if (!status) return "no agent yet";
  return NAMES.map((name) => {
    const { good, trial, progress } = status.versions[name];
    const resting = progress ? "downloading" : "at rest";
    const stage = trial ? `${trial.build.version} ${trial.stage}` : resting;
    return `${name} ${good?.version ?? "none"}: ${stage}`;
  }).join(", ");
}

/** The file of a compiled program. */
function programFile(name: Name, version: string): string {
  return `${ROOT}${PROGRAMS}/${version}/${name}`;
}

/** Compiles the programs; `reuse` leaves those of an earlier run as they are. */
export async function makePrograms(
  names: readonly Name[],
  versions: readonly string[],
  reuse: boolean,
): Promise<void> {
  for (const version of versions) for (const name of names) await makeProgram(name, version, reuse);
}

async function makeProgram(name: Name, version: string, reuse: boolean): Promise<void> {
  if (reuse && await exists(programFile(name, version))) return;
  const [target] = TARGETS;
  const executable = [HASTY_AGENT, ...EXECUTABLES].find((one) => one.name === name)!;
  console.log(`compiling ${name} ${version}`);
  const compiler = await checkCompiler(target);
  await compile(compiler, executable, target, `${PROGRAMS}/${version}`, version);
}

/** Makes programs that print their version, as every check asks, and then do not start. */
export async function makeBadPrograms(): Promise<void> {
  const folder = `${ROOT}${PROGRAMS}/${BAD}`;
  await Deno.mkdir(folder, { recursive: true });
  for (const name of NAMES) {
    const says = `puts("${name} ${BAD}")`;
    const text =
      `#include <stdio.h>\nint main(int count, char **args) { return count == 2 ? ${says} < 0 : 1; }\n`;
    await Deno.writeTextFile(`${folder}/${name}.c`, text);
    const args = ["-static", "-o", `${folder}/${name}`, `${folder}/${name}.c`];
    const { success, stderr } = await new Deno.Command("cc", { args }).output();
    if (!success) throw new Error(`cc: ${new TextDecoder().decode(stderr)}`);
  }
}
