/**
 * Several control planes on one PostgreSQL database and one object store, behind a balancer of TCP connections, as
 * docs/scaling.md describes them. Any of them may be killed, and comes back on a port of its own.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { type Channel } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { Link } from "./link.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { type S3Server, withS3Environment } from "../support/s3_server.ts";

const clock = new SystemClock();

/** Connects to the next one of the control planes that answers; those away have no port. */
function connectInTurn(ports: readonly (number | undefined)[]): () => Promise<Deno.TcpConn | undefined> {
  let next = 0;
  return async () => {
    for (let tried = 0; tried < ports.length; tried++) {
      const port = ports[next++ % ports.length];
      if (port === undefined) continue;
      try {
        return await Deno.connect({ hostname: "127.0.0.1", port });
      } catch {
        // It has just been killed.
      }
    }
    return undefined;
  };
}

/** What the control planes share. */
interface Shared {
  kill(): void | Promise<void>;
  start(): Promise<void>;
}

/** Kills something that the control planes share, and starts it again after a while; returns that, for people. */
export async function takeAway(shared: Shared, ms: number): Promise<string> {
  await shared.kill();
  await clock.sleep(ms);
  await shared.start();
  return `away for ${Math.round(ms)} ms`;
}

/** One of a list, at random. */
export function pick<T>(list: readonly T[], random: () => number): T {
  return list[Math.floor(random() * list.length)];
}

export interface PlanesOptions {
  readonly count: number;
  /** Flags of each beside those that they share. */
  readonly flags?: readonly string[];
}

export class Planes {
  readonly #planes: (CloudProcess | undefined)[];
  readonly #ports: (number | undefined)[];
  readonly #balancer: Link;
  readonly #flags: readonly string[];
  /** All that have run, also those that were killed. */
  readonly #all: CloudProcess[] = [];

  private constructor(
    readonly example: Example,
    private readonly folder: string,
    /** PostgreSQL, its one database, and the object store: they may be killed, too. */
    readonly database: PostgresServer,
    readonly store: S3Server,
    private readonly shared: readonly string[],
    { count, flags = [] }: PlanesOptions,
  ) {
    this.#planes = Array(count).fill(undefined);
    this.#ports = Array(count).fill(undefined);
    this.#balancer = new Link(connectInTurn(this.#ports));
    this.#flags = [...shared, "--public-url", `http://${this.host}`, ...flags];
  }

  /** The balancer's address. */
  get host(): string {
    return this.#balancer.host;
  }

  /** The address of one control plane. */
  hostOf(number: number): string {
    return `127.0.0.1:${this.#ports[number]}`;
  }

  /** The process of one control plane that serves. */
  pidOf(number: number): number {
    return this.#planes[number]!.pid;
  }

  /** The numbers of those that serve. */
  get serving(): number[] {
    return this.#planes.flatMap((plane, number) => plane ? [number] : []);
  }

  /** Starts one that does not run. */
  async start(number: number): Promise<void> {
    const plane = await serveCloud(["--data", `${this.folder}/data${number}`, ...this.#flags]);
    this.#all.push(plane);
    this.#planes[number] = plane;
    this.#ports[number] = Number(new URL(plane.url).port);
  }

  /** Runs a command of svc-cloud on the database, beside the control planes; returns its output. */
  command(...args: string[]): Promise<string> {
    return svcCloud(...args, "--data", `${this.folder}/data0`, ...this.shared);
  }

  /** The output of all control planes, also of those that were killed. */
  output(): string {
    return this.#all.map((plane) => plane.output()).join("\n");
  }

  async kill(number: number): Promise<void> {
    const plane = this.#planes[number];
    this.#planes[number] = this.#ports[number] = undefined;
    await plane?.stop("SIGKILL");
  }

  /** A connection by way of the balancer, or to one control plane. */
  connect(token?: string, host = this.host): Channel {
    const header = token ? Metadata.from([["authorization", `Bearer ${token}`]]) : undefined;
    return connectGrpc(host, { clock, header });
  }

  /** Runs with all of them serving; needs PostgreSQL and Node.js. */
  static async run(options: PlanesOptions, work: (planes: Planes) => Promise<void>): Promise<void> {
    const folder = await Deno.makeTempDir({ prefix: "svc-chaos-" });
    const database = startPostgres();
    const url = `postgres://svc@127.0.0.1:${database.port}/postgres`;
    try {
      await withS3Environment(async (store) => {
        const shared = ["--database", url, "--files", store.address, "--keys", `${folder}/keys`];
        const example: Example = JSON.parse(
          await svcCloud("init", "--data", `${folder}/data0`, ...shared, "--json"),
        );
        const planes = new Planes(example, folder, database, store, shared, options);
        try {
          await Promise.all(Array.from({ length: options.count }, (_, number) => planes.start(number)));
          await work(planes);
        } finally {
          await planes.#close();
        }
      });
    } finally {
      database.stop();
      await Deno.remove(folder, { recursive: true });
    }
  }

  async #close(): Promise<void> {
    await Promise.all(this.#planes.map((plane) => plane?.stop()));
    await this.#balancer.close();
  }
}
