/**
 * A device for tests: an agent from source in a folder of its own, with a control plane that has releases for it.
 *
 * The releases are real programs, made with the system's C compiler, because an agent installs only programs. Minutes
 * of the agent's time limits are seconds here.
 */

import { relative } from "node:path";
import { askRollback, askStatus, socketOf } from "../../lib/agent/supervise/control.ts";
import type { BinaryName } from "../../lib/agent/update/release.ts";
import type { AgentStatus } from "../../lib/agent/supervise/status.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { outputOf } from "../support/needing.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SOURCE = `${ROOT}cli/agent/main.ts`;
const HASTY = `${ROOT}tests/agent/hasty_agent.ts`;
const HASTE = 30;
/** Long, for the computer may be very busy. */
const PATIENCE_MS = 90_000;
const LOOK_MS = 50;

/** A release's behaviour: serves like svc-server, ends at once, or does nothing. */
export type Kind = "serves" | "ends" | "hangs";

const WORKS: { readonly [K in Kind]: string } = {
  serves: "execv(words[0], words);",
  ends: 'fputs("this version is broken\\n", stderr);',
  hangs: "for (;;) pause();",
};

export class TestDevice {
  readonly #clock = new SystemClock();
  #agent: Deno.ChildProcess | undefined;
  /** An agent to use in place of the one from source. */
  executable: string | undefined;

  private constructor(
    readonly folder: string,
    readonly cloud: CloudProcess,
    readonly example: Example,
  ) {}

  /** A device and its cloud, which wants nothing of it yet. The agent does not run. */
  static async make(): Promise<TestDevice> {
    const folder = await Deno.makeTempDir({ prefix: "svc-agent-" });
    const data = ["--data", `${folder}/data`];
    const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
    const cloud = await serveCloud(data);
    const device = new TestDevice(folder, cloud, example);
    const { api_key } = example.config.cloud;
    const own = { app_address: cloud.url, id: example.partId, api_key };
    await Deno.writeTextFile(`${folder}/machine.json`, JSON.stringify({ cloud: own }));
    await device.configure({});
    return device;
  }

  get base(): string {
    return `${this.folder}/svc`;
  }

  async svcCloud(...args: string[]): Promise<string> {
    return await svcCloud(...args, "--data", `${this.folder}/data`);
  }

  /** Sets the `agent` section of the cloud's configuration. */
  async configure(agent: Record<string, unknown>): Promise<void> {
    const path = `${this.folder}/config.json`;
    await Deno.writeTextFile(path, JSON.stringify({ network: { bind_address: "localhost:0" }, agent }));
    await this.svcCloud("config", "set", this.example.partId, path);
  }

  /** Makes a version of svc-server and puts it into the stable channel. */
  async release(version: string, kind: Kind): Promise<void> {
    const program = `${this.folder}/svc-server-${version}`;
    await build(program, version, kind);
    await this.svcCloud("release", "publish", "svc-server", version, program, "--channel", "stable");
  }

  /** The beginning of the agent's command line: from source, or the executable if there is one. */
  get command(): string[] {
    return [...this.executable ? [this.executable] : [Deno.execPath(), "run", "-A", SOURCE], ...this.#flags];
  }

  get #flags(): string[] {
    const config = relative(Deno.cwd(), `${this.folder}/machine.json`);
    return ["--dev-mode", "--dir", this.base, "--config", config];
  }

  /** With a `haste` of 1 it is the product, whose minutes are minutes. */
  start(haste = HASTE, env: Record<string, string> = {}): void {
    const hasty = [Deno.execPath(), "run", "-A", HASTY, ...this.#flags];
    // To a file: the agent's children write there too, and may outlive it.
    const script = `exec "$@" >> "${this.folder}/log" 2>&1`;
    this.#agent = new Deno.Command("sh", {
      args: ["-c", script, "sh", ...haste === 1 ? this.command : hasty],
      env: { SVC_TEST_HASTE: String(haste), SVC_HOME: `${this.folder}/home`, ...env },
      stdin: "null",
    }).spawn();
  }

  /** Of the agent that was started last. */
  get pid(): number {
    return this.#agent!.pid;
  }

  /** Ends the agent; gives its exit code. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<number> {
    const agent = this.#agent;
    this.#agent = undefined;
    try {
      agent?.kill(signal);
    } catch {
      // It has ended already.
    }
    return (await agent?.status)?.code ?? 0;
  }

  status(): Promise<AgentStatus> {
    return askStatus(new SystemFiles(), socketOf(this.base, "linux"), this.#clock);
  }

  rollback(name: BinaryName): Promise<void> {
    return askRollback(new SystemFiles(), socketOf(this.base, "linux"), name, this.#clock);
  }

  /** Waits until the agent's status fulfils the condition. */
  async until(what: string, hoped: (status: AgentStatus) => boolean): Promise<AgentStatus> {
    const endMs = this.#clock.monotonicMs() + PATIENCE_MS;
    let last: AgentStatus | undefined;
    for (;;) {
      last = await this.status().catch(() => last);
      if (last && hoped(last)) return last;
      if (this.#clock.monotonicMs() > endMs) {
        throw new Error(`not ${what} in time: ${JSON.stringify(last)}\n${await this.log()}`);
      }
      await this.#clock.sleep(LOOK_MS);
    }
  }

  /** Waits until a version has proved itself and runs. */
  async runsWell(version: string): Promise<AgentStatus> {
    return await this.until(
      `good: ${version}`,
      ({ runtime, versions: { "svc-server": { good, trial } } }) => {
        return runtime.phase === "running" && runtime.file === good?.file && good?.version === version &&
          !trial;
      },
    );
  }

  async log(): Promise<string> {
    return await Deno.readTextFile(`${this.folder}/log`).catch(() => "");
  }

  /** Ends everything, also where a test has failed half-way. */
  async close(): Promise<void> {
    const pid = (await this.status().catch(() => undefined))?.runtime.pid;
    await this.stop();
    try {
      if (pid !== undefined) Deno.kill(pid, "SIGKILL");
    } catch {
      // The agent has ended it.
    }
    await this.cloud.stop();
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** Whether programs can be made here. */
export async function canBuild(): Promise<boolean> {
  if (Deno.build.os !== "linux") return false;
  return await outputOf("cc", "--version") !== undefined;
}

async function build(path: string, version: string, kind: Kind): Promise<void> {
  const begin = [Deno.execPath(), "run", "-A", "--config", `${ROOT}deno.json`, `${ROOT}cli/server/main.ts`];
  const text = `#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **args) {
  char *words[64] = {${begin.map((word) => JSON.stringify(word)).join(", ")}};
  if (count > 1 && !strcmp(args[1], "--version")) return puts("svc-server ${version}") < 0;
  for (int at = 1; at < count && at < 50; at++) words[${begin.length - 1} + at] = args[at];
  ${WORKS[kind]}
  return 1;
}
`;
  await Deno.writeTextFile(`${path}.c`, text);
  const { success, stderr } = await new Deno.Command("cc", { args: ["-O", "-o", path, `${path}.c`] })
    .output();
  if (!success) throw new Error(`cannot make ${path}: ${new TextDecoder().decode(stderr)}`);
}
