/**
 * A Windows computer as a device of a fleet: the agent as a service, its status, and its releases. The control plane runs
 * outside, from source.
 */

import type { AgentStatus } from "../../lib/agent/control/status.ts";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { choose, compile, EXECUTABLES, exists, ROOT, TARGETS } from "../../cli/build/compiler.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { BAD, GOOD, hasSettled, isInService, type Name, NAMES, stages } from "../vm/device.ts";
import type { Computer } from "./computer.ts";

export const FOLDER = "C:\\ProgramData\\svc";
export const AGENT = `${FOLDER}\\agent\\bin\\svc-agent-service.exe`;
const PROGRAMS = "dist/wine/programs";
const HASTY_AGENT = { name: "svc-agent", entry: "tests/agent/hasty_agent.ts" };
/** How much shorter the agent's pauses, trials and limits are. */
const HASTE = 20;
const LOOK_MS = 1_000;
const ENVIRONMENT = "HKLM\\SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Environment";

export class WineDevice {
  private constructor(
    readonly computer: Computer,
    readonly cloud: CloudProcess,
    private readonly folder: string,
    private readonly example: Example,
  ) {}

  /** Publishes the programs in a new control plane, and starts a computer that has only its credentials. */
  static async make(computer: Computer, folder: string, reuse: boolean): Promise<WineDevice> {
    await makePrograms(reuse);
    const data = ["--data", `${folder}/cloud`];
    const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
    const device = new WineDevice(computer, await serveCloud(data), folder, example);
    try {
      for (const name of NAMES) {
        for (const version of [...GOOD, BAD]) await device.publish(name, version);
        await device.channel(name, GOOD[0], "stable");
      }
      await device.want({});
      await Deno.mkdir(computer.path(FOLDER), { recursive: true });
      const { config: { cloud: { api_key } }, partId: id } = example;
      const credentials = { cloud: { app_address: device.cloud.url, id, api_key } };
      await Deno.writeTextFile(computer.path(`${FOLDER}\\svc.json`), JSON.stringify(credentials));
      const haste = ["/v", "SVC_TEST_HASTE", "/d", String(HASTE), "/f"];
      await computer.succeed("reg", ["add", ENVIRONMENT, ...haste]);
      return device;
    } catch (error) {
      await device.cloud.stop();
      throw error;
    }
  }

  /** The agent's executable, as a user downloads it. */
  downloaded(name: Name, version: string): string {
    return `${ROOT}${PROGRAMS}/${version}/${name}.exe`;
  }

  async svcCloud(...args: string[]): Promise<string> {
    return await svcCloud(...args, "--data", `${this.folder}/cloud`);
  }

  async publish(name: Name, version: string): Promise<void> {
    const file = this.downloaded(name, version);
    await this.svcCloud("release", "publish", name, version, file, "--platform", "windows/amd64");
  }

  async channel(name: Name, version: string, channel: string): Promise<void> {
    await this.svcCloud("release", "channel", name, version, channel);
  }

  /** Sets the machine's configuration in the control plane. A program without a version follows the stable channel. */
  async want(versions: { readonly [N in Name]?: string }): Promise<void> {
    const path = `${this.folder}/config.json`;
    // The executables are compiled with an older Deno, whose port cannot serve TLS.
    const network = { bind_address: "localhost:0", no_tls: true };
    await Deno.writeTextFile(path, JSON.stringify({ network, agent: { version_control: versions } }));
    await this.svcCloud("config", "set", this.example.partId, path);
  }

  /** The agent's status, or `undefined` if no agent answers. */
  async status(): Promise<AgentStatus | undefined> {
    const { code, output } = await this.computer.run(AGENT, ["status", "--json"], { withinMs: 60_000 })
      .catch(() => ({ code: 1, output: "" }));
    return code === 0 ? JSON.parse(output) : undefined;
  }

  /** Waits until the agent's status fulfils the condition; a failure shows the last status and the service's log. */
  async until(
    what: string,
    withinMs: number,
    hoped: (status: AgentStatus) => boolean,
  ): Promise<AgentStatus> {
    const endMs = performance.now() + withinMs;
    for (;;) {
      const status = await this.status();
      if (status && hoped(status)) return status;
      if (performance.now() > endMs) {
        const found = status
          ? `${stages(status)}; ${JSON.stringify(status.runtime)}`
          : "no agent that answers";
        throw new Error(`not ${what} within ${withinMs / 1000} s; found ${found}\n${await this.log()}`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** The end of the service's log. */
  async log(): Promise<string> {
    const path = this.computer.path(`${FOLDER}\\agent\\logs\\svc-agent-service.log`);
    return (await Deno.readTextFile(path).catch(() => "")).slice(-4000);
  }

  inService(withinMs: number): Promise<AgentStatus> {
    return this.until("in service", withinMs, isInService);
  }

  /** Waits until these versions are in service and no longer on trial. */
  runs(versions: { readonly [N in Name]?: string }, withinMs: number): Promise<AgentStatus> {
    const words = Object.entries(versions).map((one) => one.join(" ")).join(" and ");
    return this.until(`running ${words}`, withinMs, (status) => hasSettled(status, versions));
  }

  /** The state of a service, such as `4 RUNNING`, or `undefined` if Windows has no such service. */
  async state(): Promise<string | undefined> {
    const { output } = await this.computer.run("sc", ["query", "svc-agent"]);
    const [, number, name] = /STATE\s+:\s+(\d)\s+(\w+)/.exec(output) ?? [];
    return number && `${number} ${name}`;
  }

  async close(): Promise<void> {
    await this.cloud.stop();
  }
}

async function makePrograms(reuse: boolean): Promise<void> {
  const [target] = choose("target", TARGETS, ["windows-x64"]);
  for (const version of [...GOOD, BAD]) {
    for (const name of NAMES) {
      if (reuse && await exists(`${ROOT}${PROGRAMS}/${version}/${name}.exe`)) continue;
      const good = [HASTY_AGENT, ...EXECUTABLES].find((one) => one.name === name)!;
      const executable = version === BAD ? { name, entry: "tests/wine/broken.ts" } : good;
      await compile(await checkCompiler(target), executable, target, `${PROGRAMS}/${version}`, version);
    }
  }
}
