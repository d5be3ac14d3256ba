/**
 * Two tenants that work while a third one attacks, at the control plane under attack and at a calm one beside it, and
 * the memory of the attacked processes.
 */

import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { svcCloud } from "../../cloud/program.ts";
import type { BystanderReport, BystanderWork } from "./bystander.ts";
import type { Credentials, Place } from "./tenant.ts";

const PROGRAM = new URL("./bystander.ts", import.meta.url).pathname;
const TENANTS = 2;
const MACHINES = 2;

/** A tenant of each, made on the control plane's host, with tokens for its programs. */
async function newBystander(name: string, { address, flags }: Place): Promise<BystanderWork> {
  const host = async (...words: string[]) => JSON.parse(await svcCloud(...words, "--json", ...flags));
  const organization: string = (await host("org", "create", name)).id;
  const on = ["--on", `organization:${organization}`];
  const owner: Credentials = await host("key", "create", "--role", "owner", ...on);
  const location: string = (await host("location", "create", "hall", "--org", organization)).id;
  const machines = [];
  for (let number = 0; number < MACHINES; number++) {
    const place = ["--org", organization, "--location", location];
    const { partId, key } = await host("machine", "create", `rover-${number}`, ...place);
    machines.push({ part: partId as string, token: await tokenOf(address, key) });
  }
  return { name, address, organization, location, ownerToken: await tokenOf(address, owner), machines };
}

async function tokenOf(address: string, { id, key }: Credentials): Promise<string> {
  const channel = connectGrpc(address, { clock: new SystemClock() });
  try {
    const credentials = { type: "api-key", payload: key };
    return (await client(AuthService, channel).authenticate({ entity: id, credentials })).accessToken;
  } finally {
    channel.close();
  }
}

export class Bystanders {
  /** `places`: control planes by what is said of them. */
  static async begin(places: Readonly<Record<string, Place>>): Promise<Bystanders> {
    const works: BystanderWork[] = [];
    for (const [where, place] of Object.entries(places)) {
      for (let number = 1; number <= TENANTS; number++) {
        works.push(await newBystander(`tenant ${number} ${where}`, place));
      }
    }
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", PROGRAM, JSON.stringify(works)],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    return new Bystanders(child);
  }

  private constructor(private readonly child: Deno.ChildProcess) {}

  async end(): Promise<readonly BystanderReport[]> {
    await this.child.stdin.close();
    return JSON.parse(await new Response(this.child.stdout).text());
  }
}

const SAMPLE_MS = 1_000;

export interface MemoryPeaks {
  /** Of svc-cloud itself, and with the processes of its database. */
  readonly ownBytes: number;
  readonly withDatabaseBytes: number;
  /** Of everything else together that it has started: models, pictures, scripts. */
  readonly othersBytes: number;
}

/** Samples the memory of a process and of what it starts; on Linux alone. */
export class MemoryWatch {
  #peaks = { ownBytes: 0, withDatabaseBytes: 0, othersBytes: 0 };
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(private readonly pid: number) {
    this.#timer = setInterval(() => this.#look(), SAMPLE_MS);
  }

  end(): MemoryPeaks {
    clearInterval(this.#timer);
    this.#look();
    return this.#peaks;
  }

  #look(): void {
    const own = residentOf(this.pid, "VmRSS");
    let [withDatabase, others] = [own, 0];
    for (const pid of descendantsOf(this.pid)) {
      // It is the same program: the code of both is in memory once.
      const bytes = residentOf(pid, "RssAnon");
      if (commandOf(pid).includes("sqlite")) withDatabase += bytes;
      else others += bytes;
    }
    const { ownBytes, withDatabaseBytes, othersBytes } = this.#peaks;
    this.#peaks = {
      ownBytes: Math.max(ownBytes, own),
      withDatabaseBytes: Math.max(withDatabaseBytes, withDatabase),
      othersBytes: Math.max(othersBytes, others),
    };
  }
}

function descendantsOf(pid: number): number[] {
  const children = fileOf(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);
  return children.flatMap((child) => [child, ...descendantsOf(child)]);
}

function commandOf(pid: number): string {
  return fileOf(`/proc/${pid}/cmdline`);
}

function residentOf(pid: number, kind: "VmRSS" | "RssAnon"): number {
  const status = fileOf(`/proc/${pid}/status`);
  return Number(new RegExp(`${kind}:\\s*(\\d+)`).exec(status)?.[1] ?? 0) * 1024;
}

/** Empty if the process has ended. */
function fileOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
