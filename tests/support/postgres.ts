/**
 * A PostgreSQL server for tests, Debian's, in a folder of its own.
 *
 * A run of all tests starts one for all of its processes and names it in `SVC_TEST_POSTGRES`. A process without that
 * variable starts its own when a test first needs it, and ends it at its own end.
 */

import { statfsSync } from "node:fs";
import { freePort } from "./free_port.ts";
import type { Needed } from "./needing.ts";
import { until } from "./until.ts";

/** A server that was started here. */
export interface PostgresServer {
  readonly port: number;
  readonly folder: string;
  /** Kills the server (SIGKILL) without a chance to end its connections. */
  kill(): void;
  /** Kills one of the processes that work for connections of svc-cloud; `choice` from 0 to 1 says which. */
  killProcess(choice: number): void;
  /** Starts a killed server again, on the same port. */
  start(): Promise<void>;
  /** Restarts it on the same port: ends its connections, or all its processes at once. */
  restart(mode: "fast" | "immediate"): Promise<void>;
  stop(): void;
}

/** Names the port of a server that already runs. */
export const POSTGRES_VARIABLE = "SVC_TEST_POSTGRES";
const CONNECTIONS_MAX = 400;
const START_MS = 60_000;
/** A folder in memory. A disk's file system takes several times as long to create and drop databases of 300 files each. */
const MEMORY = "/dev/shm";
/** What the databases of all tests that run at once, and the log of their changes, stay far below. */
const MEMORY_BYTES = 2e9;
/** PostgreSQL does not run as root. */
const NOBODY = { uid: 65_534, gid: 65_534 };
const OTHER = Deno.uid() === 0 ? NOBODY : undefined;

/** The server outlives pg_ctl, so it must not inherit our pipes. */
const QUIET = { cwd: "/", stdin: "null", stdout: "null", stderr: "inherit" } as const;

let own: PostgresServer | undefined;

export interface PostgresDatabase {
  readonly url: string;
  /** Removes it, and the connections to it. */
  drop(): void;
}

/** Creates an empty database, or a copy of another one to which nobody is connected. */
export function createPostgresDatabase(
  { name = `test_${crypto.randomUUID().replaceAll("-", "")}`, template = "template1" } = {},
): PostgresDatabase {
  runPsql("postgres", `CREATE DATABASE ${name} TEMPLATE ${template} ${copyStrategy()}`);
  return {
    url: `postgres://svc@127.0.0.1:${serverPort()}/${name}`,
    drop: () => runPsql("postgres", `DROP DATABASE ${name} WITH (FORCE)`),
  };
}

/** Copies whole files, which takes a fifth less here than to log every block. Before version 15 there is no other way. */
function copyStrategy(): string {
  const [, version] = /\/(\d+)[^/]*\/bin$/.exec(postgresPrograms()!) ?? [];
  return Number(version) >= 15 ? "STRATEGY file_copy" : "";
}

/** Runs statements as the server's superuser, as people do with psql. */
export function runPsql(database: string, statements: string): void {
  const address = ["-h", "127.0.0.1", "-p", String(serverPort()), "-U", "svc", "-d", database];
  // Each one by itself: CREATE DATABASE does not run in a transaction.
  const commands = statements.split(";").filter((one) => one.trim() !== "").flatMap((one) => ["-c", one]);
  execute(`${postgresPrograms()}/psql`, [...address, "-q", "-v", "ON_ERROR_STOP=1", ...commands]);
}

/** Keeps away from the other processes' server, for tests that change what belongs to a whole server. */
export function useOwnPostgres(): void {
  Deno.env.delete(POSTGRES_VARIABLE);
}

/** Makes the process's own server speak TLS from now on, with this certificate. */
export function giveCertificate(certificate: string, key: string): void {
  const { folder } = ownServer();
  for (const [name, text] of Object.entries({ "server.crt": certificate, "server.key": key })) {
    const path = `${folder}/data/${name}`;
    Deno.writeTextFileSync(path, text, { mode: 0o600 });
    if (Deno.uid() === 0) Deno.chownSync(path, NOBODY.uid, NOBODY.gid);
  }
  runPsql("postgres", "ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()");
}

function serverPort(): number {
  return Number(Deno.env.get(POSTGRES_VARIABLE) ?? ownServer().port);
}

function ownServer(): PostgresServer {
  if (own) return own;
  const started = startPostgres();
  globalThis.addEventListener("unload", () => started.stop());
  return own = started;
}

export function startPostgres(): PostgresServer {
  const programs = postgresPrograms()!;
  const folder = ownedFolder();
  execute(`${programs}/initdb`, ["-D", `${folder}/data`, "-A", "trust", "-U", "svc", "-N"], OTHER);
  return startIn(folder);
}

/** Starts a standby that follows another server. `promote` makes it a server that takes writes. */
export function startStandby(of: PostgresServer): PostgresServer & { promote(): void } {
  const programs = postgresPrograms()!;
  const folder = ownedFolder();
  const address = ["-h", "127.0.0.1", "-p", String(of.port), "-U", "svc"];
  execute(`${programs}/pg_basebackup`, [...address, "-D", `${folder}/data`, "-R", "-c", "fast"], OTHER);
  const server = startIn(folder);
  const promote = () => execute(`${programs}/pg_ctl`, ["-D", `${folder}/data`, "-w", "-s", "promote"], OTHER);
  return { ...server, promote };
}

function ownedFolder(): string {
  const dir = bytesFree(MEMORY) >= MEMORY_BYTES ? MEMORY : undefined;
  const folder = Deno.makeTempDirSync({ dir, prefix: "svc-postgres-" });
  if (OTHER) Deno.chownSync(folder, OTHER.uid, OTHER.gid);
  return folder;
}

function bytesFree(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

/** Starts the server whose data lie in a folder. */
function startIn(folder: string): PostgresServer {
  const programs = postgresPrograms()!;
  const port = freePort();
  const settings = `-c listen_addresses=127.0.0.1,127.0.0.2 -p ${port} -k ${folder} -c fsync=off ` +
    `-c max_connections=${CONNECTIONS_MAX}`;
  const control = ["-D", `${folder}/data`, "-w", "-s"];
  const start = () =>
    execute(`${programs}/pg_ctl`, [...control, "-l", `${folder}/log`, "-o", settings, "start"], OTHER);
  start();
  return {
    port,
    folder,
    kill: () => {
      const [pid] = Deno.readTextFileSync(`${folder}/data/postmaster.pid`).split("\n");
      Deno.kill(Number(pid), "SIGKILL");
    },
    killProcess: (choice) => {
      const query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'svc-cloud'";
      const address = ["-h", "127.0.0.1", "-p", String(port), "-U", "svc", "-d", "postgres"];
      const { stdout } = new Deno.Command(`${programs}/psql`, { args: [...address, "-Atc", query], cwd: "/" })
        .outputSync();
      const pids = new TextDecoder().decode(stdout).trim().split("\n").map(Number);
      Deno.kill(pids[Math.floor(choice * pids.length)], "SIGKILL");
    },
    // Processes of the killed one may still use its memory.
    start: () => until(() => succeeds(start), { withinMs: START_MS }).then(() => {}),
    restart: async (mode) => {
      const args = [...control, "-l", `${folder}/log`, "-m", mode, "restart"];
      const command = new Deno.Command(`${programs}/pg_ctl`, { ...QUIET, ...OTHER, args });
      if (!(await command.output()).success) throw new Error(`pg_ctl ${args.join(" ")} failed`);
    },
    stop: () => {
      execute(`${programs}/pg_ctl`, [...control, "-m", "immediate", "stop"], OTHER);
      Deno.removeSync(folder, { recursive: true });
    },
  };
}

/** A test's need of PostgreSQL: the folder of its programs. */
export function neededPostgres(): Needed<string> {
  const programs = postgresPrograms();
  return programs === undefined ? { missing: "PostgreSQL is not installed here" } : { found: programs };
}

/** The folder of the newest installed server's programs. */
export function postgresPrograms(): string | undefined {
  const root = "/usr/lib/postgresql";
  try {
    const versions = [...Deno.readDirSync(root)].map(({ name }) => name).sort((a, b) =>
      Number(b) - Number(a)
    );
    return versions.map((version) => `${root}/${version}/bin`).find((folder) => {
      return Deno.statSync(`${folder}/initdb`).isFile;
    });
  } catch {
    return undefined;
  }
}

function succeeds(work: () => void): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}

function execute(program: string, args: string[], options: Deno.CommandOptions = {}): void {
  const { success } = new Deno.Command(program, { ...QUIET, args, ...options }).outputSync();
  if (!success) throw new Error(`${program} ${args.join(" ")} failed`);
}
