/**
 * How the agent does, for `svc-agent status`; and what somebody at the device asks of it.
 *
 * Both are files in the agent's folder: they need no port, and the status tells of an agent that is no more, too.
 */

import { SvcError } from "../base/error.ts";
import type { Host } from "../base/host.ts";
import { isObject } from "../base/schema.ts";
import type { RuntimeState } from "./runtime.ts";
import type { BinaryName } from "./release.ts";
import type { Updater } from "./updater.ts";

export interface AgentStatus {
  readonly version: string;
  readonly uptimeMs: number;
  /** The cloud has answered the last question. */
  readonly online: boolean;
  readonly offlineWhy?: string;
  /** Since it last answered. */
  readonly sinceOnlineMs?: number;
  readonly runtime: RuntimeState;
  readonly versions: { readonly [N in BinaryName]: ReturnType<Updater["status"]> };
  /** What is wrong with the settings. */
  readonly problems: readonly string[];
}

/** A status as it was written. */
export interface WrittenStatus extends AgentStatus {
  readonly pid: number;
  readonly writtenMs: number;
}

type StatusHost = Pick<Host, "readTextFile" | "writeFile" | "makeFolder">;

export async function writeStatus(host: StatusHost, base: string, status: WrittenStatus): Promise<void> {
  await host.makeFolder(`${base}/state`);
  await host.writeFile(statusAt(base), `${JSON.stringify(status, null, 2)}\n`);
}

/** The last status; throws `not_found` where no agent has ever worked in `base`. */
export async function readStatus(host: StatusHost, base: string): Promise<WrittenStatus> {
  const path = statusAt(base);
  try {
    const json: unknown = JSON.parse(await host.readTextFile(path));
    if (isObject(json) && isObject(json.runtime) && isObject(json.versions)) {
      return json as unknown as WrittenStatus;
    }
  } catch (error) {
    if (SvcError.from(error).code === "not_found") {
      throw new SvcError("not_found", `no agent has worked in ${base} yet: there is no ${path}`, {
        cause: error,
      });
    }
  }
  throw new SvcError("unknown", `${path} cannot be read as a status; the agent writes it anew while it runs`);
}

/** What somebody at the device has asked for since the last look. */
export interface Requests {
  /** Whose version is to be the one before. */
  rollbacks(): Promise<readonly BinaryName[]>;
}

const NAMES: readonly BinaryName[] = ["svc-agent", "svc-server"];

/** Requests as files: each is one, gone when it has been read. */
export class RequestFiles implements Requests {
  constructor(
    private readonly host: StatusHost & Pick<Host, "fileSize" | "removeFile">,
    private readonly base: string,
  ) {}

  async askRollback(name: BinaryName): Promise<void> {
    await this.host.makeFolder(`${this.base}/state`);
    await this.host.writeFile(this.#at(name), "");
  }

  async rollbacks(): Promise<BinaryName[]> {
    const asked: BinaryName[] = [];
    for (const name of NAMES) {
      if (await this.host.fileSize(this.#at(name)) === undefined) continue;
      this.host.removeFile(this.#at(name));
      asked.push(name);
    }
    return asked;
  }

  #at(name: BinaryName): string {
    return `${this.base}/state/rollback_${name}`;
  }
}

function statusAt(base: string): string {
  return `${base}/state/status.json`;
}
