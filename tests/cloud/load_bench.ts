/**
 * Many machines on one svc-cloud: its speed, and its resource use.
 *
 * Each machine has a connection and a key of its own; it polls, asks whether to restart and sends logs at the pace of a
 * real one, beginning at a random moment. The control plane is a process of its own, in a folder of its own.
 *
 * Use: deno task bench:cloud [machines (1000)] [seconds (30)]
 */

import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { cpuMsOf } from "../bench/process_time.ts";
import { serveCloud } from "./program.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

const [machines = 1000, seconds = 30] = Deno.args.map(Number);
const POLL_MS = 10_000;
const RESTART_CHECK_MS = 5_000;
const LOG_MS = 5_000;
const LOG_ENTRIES = 5;
/** All machines have started after this. */
const START_MS = 20_000;

const LIMITS = { timeoutMs: 30_000 };

const clock = new SystemClock();
const failures = new Map<string, number>();
const took: { [call: string]: number[] } = { authenticate: [], config: [], needsRestart: [], log: [] };

interface Machine {
  readonly partId: string;
  readonly keyId: string;
}

async function makeMachines(folder: string): Promise<{ machines: Machine[]; key: string }> {
  const store = await openStore({ sqlite: sqliteIn(`${folder}/cloud.db`, new DenoHost()) }, clock);
  // The same secret for all: making a thousand takes a while.
  const secret = await newKeySecret();
  const made: Machine[] = [];
  await store.transaction(async (sql) => {
    const organization = await new Organizations(sql).create("load", 0);
    const location = await new Locations(sql).create(organization, "hall", "", 0);
    for (let number = 0; number < machines; number++) {
      const { id, partId } = await new Machines(sql).create(location, `m${number}`, 0);
      const grant = { role: "operator", kind: "machine", resourceId: id } as const;
      made.push({ partId, keyId: (await new Keys(sql).create(secret, "m", [grant], 0)).id });
    }
  });
  await store.close();
  return { machines: made, key: secret.key };
}

/** Calls until it succeeds, as a machine does; gives nothing when the time is over before. */
async function timed<T>(call: string, work: () => Promise<T>, until: AbortSignal): Promise<T | undefined> {
  while (!until.aborted) {
    const start = performance.now();
    try {
      const value = await work();
      took[call].push(performance.now() - start);
      return value;
    } catch (error) {
      const { code, message } = SvcError.from(error);
      const failure = `${call}: ${code}: ${message}`;
      failures.set(failure, (failures.get(failure) ?? 0) + 1);
      await clock.sleep(1000, until).catch(() => {});
    }
  }
}

async function run(
  host: string,
  { partId: id, keyId }: Machine,
  key: string,
  until: AbortSignal,
): Promise<Channel> {
  await clock.sleep(Math.random() * START_MS, until).catch(() => {});
  const first = connectGrpc(host, { clock });
  const credentials = { type: "api-key", payload: key };
  const { authenticate } = client(AuthService, first);
  const login = await timed(
    "authenticate",
    () => authenticate({ entity: keyId, credentials }, LIMITS),
    until,
  );
  if (!login) return first;
  first.close();
  const header = Metadata.from([["authorization", `Bearer ${login.accessToken}`]]);
  const channel = connectGrpc(host, { clock, header });
  const robot = client(RobotService, channel);
  let number = 0;
  const log = () => {
    const entry = () => ({
      message: `the motor turned ${number++} times and is at ${Math.random().toFixed(3)}`,
      level: "info",
      loggerName: "rdk.resource_manager.rdk:component:motor/left",
      time: toTimestamp(Date.now()),
    });
    const logs = () => Array.from({ length: LOG_ENTRIES }, entry);
    return timed("log", () => robot.log({ id, logs: logs() }, LIMITS), until);
  };
  const every = async (ms: number, call: () => Promise<unknown>) => {
    await clock.sleep(Math.random() * ms, until).catch(() => {});
    while (!until.aborted) {
      await call();
      await clock.sleep(ms, until).catch(() => {});
    }
  };
  await Promise.all([
    every(POLL_MS, () => timed("config", () => robot.config({ id }, LIMITS), until)),
    every(RESTART_CHECK_MS, () => timed("needsRestart", () => robot.needsRestart({ id }, LIMITS), until)),
    every(LOG_MS, log),
  ]);
  return channel;
}

async function childrenOf(pid: number): Promise<number[]> {
  const text = await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`);
  return text.trim().split(" ").filter(Boolean).map(Number);
}

/** The processor time so far of a process, and then of each of its children. */
async function cpuSecondsOf(pid: number): Promise<Map<number, number>> {
  const seconds = new Map<number, number>();
  for (const one of [pid, ...await childrenOf(pid)]) {
    seconds.set(one, cpuMsOf(one).own / 1000);
  }
  return seconds;
}

async function residentMib(pid: number): Promise<number> {
  const kib = /VmRSS:\s*(\d+)/.exec(await Deno.readTextFile(`/proc/${pid}/status`))?.[1];
  return Math.round(Number(kib) / 1024);
}

const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
const { machines: all, key } = await makeMachines(folder);
const sizeOf = async () =>
  (await Promise.all(
    ["", "-wal"].map((end) => Deno.stat(`${folder}/cloud.db${end}`).catch(() => ({ size: 0 }))),
  ))
    .reduce((sum, { size }) => sum + size, 0);
const before = await sizeOf();
const cloud = await serveCloud(["--data", folder]);
const over = new AbortController();
const startedCpu = await cpuSecondsOf(cloud.pid);
const started = performance.now();
const running = all.map((machine) => run(new URL(cloud.url).host, machine, key, over.signal));
await Promise.race([clock.sleep(seconds * 1000), Promise.all(running)]);
over.abort();
for (const channel of await Promise.all(running)) channel.close();
const elapsed = (performance.now() - started) / 1000;
const [ownCpu, ...processes] = [...await cpuSecondsOf(cloud.pid)].map(([pid, seconds]) =>
  seconds - (startedCpu.get(pid) ?? 0)
);
const cpuSeconds = processes.reduce((sum, one) => sum + one, ownCpu);
const memory = await Promise.all([cloud.pid, ...await childrenOf(cloud.pid)].map(residentMib));
await cloud.stop();

const at = (sorted: number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
for (const [call, times] of Object.entries(took)) {
  const sorted = times.toSorted((a, b) => a - b);
  const [p50, p99, max] = [at(sorted, 0.5), at(sorted, 0.99), sorted.at(-1)!].map((ms) => ms?.toFixed(1));
  console.log(
    `${call.padEnd(14)} ${
      String(times.length).padStart(6)
    } calls   p50 ${p50} ms   p99 ${p99} ms   max ${max} ms`,
  );
}
const calls = Object.values(took).reduce((sum, { length }) => sum + length, 0);
const entries = took.log.length * LOG_ENTRIES;
console.log(
  `${machines} machines, ${elapsed.toFixed(0)} s: ${(calls / elapsed).toFixed(0)} requests/s, ${
    [...failures.values()].reduce((sum, count) => sum + count, 0)
  } failed`,
);
for (const [failure, count] of failures) console.log(`  ${count} times ${failure}`);
const share = (seconds: number) => `${(seconds / calls * 1000).toFixed(2)} ms`;
console.log(
  `processor ${cpuSeconds.toFixed(1)} s since its start, ${share(cpuSeconds)} a request: ` +
    `${share(ownCpu)} of svc-cloud, ${processes.map(share).join(" and ") || "0 ms"} of its processes`,
);
console.log(
  `memory of svc-cloud ${memory[0]} MiB, of its processes ${memory.slice(1).join(" and ") || 0} MiB`,
);
const grown = await sizeOf() - before;
console.log(
  `database grew ${(grown / 1e6).toFixed(1)} MB for ${entries} log entries (${
    (grown / entries).toFixed(0)
  } bytes each)`,
);
await Deno.remove(folder, { recursive: true });
