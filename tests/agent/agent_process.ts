/**
 * An agent from source, or an executable of it, in a folder of its own. Minutes of its time limits are seconds here.
 */

import { relative } from "node:path";
import { askStatus, socketOf } from "../../lib/agent/control/control.ts";
import type { AgentStatus } from "../../lib/agent/control/status.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SOURCE = `${ROOT}cli/agent/main.ts`;
const HASTY = `${ROOT}tests/agent/hasty_agent.ts`;
export const HASTE = 30;
/** Long, for the computer may be very busy. */
const PATIENCE_MS = 90_000;
const LOOK_MS = 50;

/** The section `cloud` of a machine's file. */
export interface MachineCredentials {
  readonly app_address: string;
  readonly id: string;
  readonly api_key: { readonly id: string; readonly key: string };
}

export class AgentProcess {
  readonly #clock = new SystemClock();
  #agent: Deno.ChildProcess | undefined;
  /** An agent to use in place of the one from source. */
  executable: string | undefined;

  constructor(readonly folder: string) {}

  get base(): string {
    return `${this.folder}/svc`;
  }

  /** The beginning of the agent's command line: from source, or the executable if there is one. */
  get command(): string[] {
    return [...this.executable ? [this.executable] : [Deno.execPath(), "run", "-A", SOURCE], ...this.#flags];
  }

  get #flags(): string[] {
    const config = relative(Deno.cwd(), this.#credentials);
    return ["--dev-mode", "--dir", this.base, "--config", config];
  }

  get #credentials(): string {
    return `${this.folder}/machine.json`;
  }

  async writeCredentials({ app_address, id, api_key }: MachineCredentials): Promise<void> {
    await Deno.writeTextFile(this.#credentials, JSON.stringify({ cloud: { app_address, id, api_key } }));
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

  /** Waits until the agent's status fulfils the condition. */
  async until(
    what: string,
    hoped: (status: AgentStatus) => boolean,
    withinMs = PATIENCE_MS,
  ): Promise<AgentStatus> {
    const endMs = this.#clock.monotonicMs() + withinMs;
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

  /** Ends the agent and the runtime, also one that outlives it. */
  async end(): Promise<void> {
    const pid = (await this.status().catch(() => undefined))?.runtime.pid;
    await this.stop();
    try {
      if (pid !== undefined) Deno.kill(pid, "SIGKILL");
    } catch {
      // The agent has ended it.
    }
  }
}
