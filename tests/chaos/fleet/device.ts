/**
 * A device of the fleet: an agent with its runtime and a module, on a small disk, behind a link of its own and with a
 * clock of its own.
 */

import { SystemClock } from "../../../lib/base/clock.ts";
import { AgentProcess, type MachineCredentials } from "../../agent/agent_process.ts";
import { outputOf } from "../../support/needing.ts";
import { lastingPort } from "../../support/free_port.ts";
import { Link } from "../link.ts";

const clock = new SystemClock();
const MODULE = new URL("../../../examples/modules/typescript/run.sh", import.meta.url).pathname;
const OFFSET_SOURCE = new URL("clock_offset.c", import.meta.url).pathname;
/** An agent keeps 32 MiB free. */
const DISK_MIB = 64;
/** No jump of a clock is a whole number of its periods, so that no two readings have the same time. */
const CAPTURE_HZ = 1.7;
const FILLING = new Uint8Array(1 << 16);
/** Names a device in the environment of its processes. */
export const DEVICE_VARIABLE = "SVC_CHAOS_DEVICE";

export interface DeviceOptions {
  readonly name: string;
  readonly folder: string;
  readonly credentials: MachineCredentials;
  readonly hostOfMachine: string;
  /** The port of the control planes' balancer. */
  readonly balancerPort: number;
  /** What shifts a program's clock; left out where it cannot be made. */
  readonly clockLibrary: string | undefined;
  /** Whether it has the resources of another device as its own. */
  readonly hasRemote: boolean;
  /** The factor by which its agent's clock is faster. */
  readonly haste: number;
}

/** The roles of the processes of a device. */
export type Role = "agent" | "runtime" | "module";

/** What in a process's command line tells its role. */
const ROLES: readonly (readonly [Role, string])[] = [
  ["agent", "hasty_agent.ts"],
  ["runtime", "cli/server/main.ts"],
  ["module", "examples/modules/typescript"],
];

export class Device {
  readonly link: Link;
  readonly agent: AgentProcess;
  /** Of its svc-server. */
  readonly port = lastingPort();
  /** Every key that it has had. */
  readonly keys: string[] = [];
  /** Of the motor in its configuration. */
  maxRpm = 100;
  #restarting: Promise<void> | undefined;

  private constructor(readonly options: DeviceOptions, readonly hasOwnDisk: boolean) {
    const address = { hostname: "127.0.0.1", port: options.balancerPort };
    this.link = new Link(() => Deno.connect(address));
    this.agent = new AgentProcess(options.folder);
  }

  /** A device that does not run yet. */
  static async make(options: DeviceOptions): Promise<Device> {
    const { folder, credentials } = options;
    await Deno.mkdir(folder, { recursive: true });
    const mounted = await outputOf("mount", "-t", "tmpfs", "-o", `size=${DISK_MIB}m`, "svc", folder);
    const device = new Device(options, mounted !== undefined);
    await Deno.mkdir(`${folder}/home`);
    await device.setKey(credentials.api_key);
    await device.shiftClock(0);
    return device;
  }

  get name(): string {
    return this.options.name;
  }

  get hasRemote(): boolean {
    return this.options.hasRemote;
  }

  get partId(): string {
    return this.options.credentials.id;
  }

  /** @param other the device whose resources it has as its own, if it has a remote */
  configuration(other: Device, ownerKey: MachineCredentials["api_key"]) {
    const { id: entity, key: payload } = ownerKey;
    const auth = { entity, credentials: { type: "api-key", payload } };
    const capture_methods = [{ method: "Readings", capture_frequency_hz: CAPTURE_HZ }];
    return {
      network: { bind_address: `localhost:${this.port}` },
      modules: [{ name: "greenhouse", executable_path: MODULE }],
      components: [
        { name: "m", api: "rdk:component:motor", model: "fake", attributes: { max_rpm: this.maxRpm } },
        {
          name: "air",
          api: "rdk:component:sensor",
          model: "example:greenhouse:thermometer",
          service_configs: [{ type: "data_manager", attributes: { capture_methods } }],
        },
      ],
      services: [{
        name: "data",
        api: "rdk:service:data_manager",
        model: "builtin",
        attributes: { sync_interval_mins: 0.1 },
      }],
      remotes: this.hasRemote
        ? [{ name: "near", address: `localhost:${other.port}`, prefix: "near-", auth }]
        : [],
    };
  }

  start(): void {
    const { clockLibrary, name, haste } = this.options;
    const shifted = clockLibrary
      ? { LD_PRELOAD: clockLibrary, SVC_TEST_CLOCK_FILE: this.#clockFile }
      : {} as Record<string, string>;
    this.agent.start(haste, { ...shifted, [DEVICE_VARIABLE]: name, DENO: Deno.execPath() });
  }

  /** Kills the agent, and starts it again after a while; once at a time. */
  restart(afterMs: number): Promise<void> {
    return this.#restarting ??= this.#restart(afterMs).finally(() => this.#restarting = undefined);
  }

  async #restart(afterMs: number): Promise<void> {
    await this.agent.stop("SIGKILL");
    await clock.sleep(afterMs);
    this.start();
  }

  async setKey(key: MachineCredentials["api_key"]): Promise<void> {
    this.keys.push(key.key);
    const { credentials } = this.options;
    await this.agent.writeCredentials({
      ...credentials,
      app_address: `http://${this.link.host}`,
      api_key: key,
    });
  }

  get #clockFile(): string {
    return `${this.options.folder}.clock`;
  }

  /** Its clock is as many seconds ahead of this computer's; its programs notice at once. */
  async shiftClock(seconds: number): Promise<void> {
    using file = await Deno.open(this.#clockFile, { create: true, write: true });
    await file.write(new Uint8Array(BigInt64Array.of(BigInt(seconds)).buffer));
  }

  /** Until `empty`. */
  async fillDisk(): Promise<void> {
    using file = await Deno.open(this.#filling, { create: true, append: true });
    try {
      for (;;) await file.write(FILLING);
    } catch {
      // It is full.
    }
  }

  async emptyDisk(): Promise<void> {
    await Deno.remove(this.#filling).catch(() => {});
  }

  get #filling(): string {
    return `${this.options.folder}/filling`;
  }

  /** Its processes that run now. */
  processes(): { readonly role: Role; readonly pid: number }[] {
    return processesWith(`${DEVICE_VARIABLE}=${this.name}`).flatMap(({ pid, command }) => {
      const found = ROLES.find(([, word]) => command.includes(word));
      return found ? [{ role: found[0], pid }] : [];
    });
  }

  /** Kills processes of these roles at once. */
  kill(...roles: Role[]): void {
    for (const { role, pid } of this.processes()) {
      if (roles.includes(role)) killQuietly(pid);
    }
  }

  /** Bytes of its folder. */
  async usedBytes(): Promise<number> {
    const { stdout } = await new Deno.Command("du", { args: ["-sb", this.options.folder] }).output();
    return Number(new TextDecoder().decode(stdout).split("\t")[0]);
  }

  async close(): Promise<void> {
    await this.agent.end();
    await this.link.close();
    const { folder } = this.options;
    if (this.hasOwnDisk) await outputOf("umount", "-l", folder);
    await Deno.remove(this.#clockFile);
  }
}

/** Compiles what shifts a program's clock. */
export async function buildClockLibrary(path: string): Promise<string | undefined> {
  const compiled = await outputOf("cc", "-O", "-shared", "-fPIC", "-o", path, OFFSET_SOURCE, "-ldl");
  return compiled === undefined ? undefined : path;
}

/** The processes of this computer that have a variable in their environment. */
export function processesWith(variable: string): { readonly pid: number; readonly command: string }[] {
  const found: { pid: number; command: string }[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      if (!Deno.readTextFileSync(`/proc/${name}/environ`).split("\0").includes(variable)) continue;
      const command = Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ");
      // A process that has ended, and for whose end nobody has asked yet, has no command.
      if (command !== "") found.push({ pid: Number(name), command });
    } catch {
      // It has ended.
    }
  }
  return found;
}

export function killQuietly(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
