/**
 * Many machines on one svc-cloud with SQLite, and on three with PostgreSQL and an object store: how long calls take, and
 * what they cost, as the machines grow.
 *
 * Each machine has a connection and a key of its own. They hear of changes by push, send logs, readings and images, and
 * people change their configurations (`PACE` in `load_machines.ts`). All connect before the measurement begins.
 * The task gives the simulated machines a large heap, so that no collection of their garbage counts as an answer's time.
 *
 * Use: deno task bench:cloud [--machines 100,1000,5000] [--planes 1,3] [--seconds 60]
 */

import { parseArgs } from "node:util";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { openStore, type StoreAddress } from "../../lib/cloud/store/open_store.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { cpuMsOf, processorTicks, residentMibOf } from "../bench/process_time.ts";
import { Planes } from "../chaos/planes.ts";
import { quantile } from "../support/quantile.ts";
import {
  CALLS,
  changeConfigs,
  connectMachine,
  dial,
  Figures,
  type LoadKeys,
  type LoadMachine,
  runMachine,
} from "./load_machines.ts";
import { serveCloud } from "./program.ts";

const { values } = parseArgs({
  args: Deno.args,
  options: {
    machines: { type: "string", default: "100,1000,5000" },
    planes: { type: "string", default: "1,3" },
    seconds: { type: "string", default: "60" },
  },
});
const SECONDS = Number(values.seconds);
/** Connections that are made at once. */
const DIALED_AT_ONCE = 20;
const MACHINES_A_TRANSACTION = 500;
const SAMPLE_MS = 1_000;
/** The control planes are at rest when all calls of such a time were answered within the second one. */
const CALM_MS = 5_000;
const CALM_ANSWER_MS = 500;
const SETTLING_MAX_MS = 90_000;

const clock = new SystemClock();

/** The control planes under load. */
interface Target {
  readonly address: StoreAddress;
  readonly hosts: readonly string[];
  readonly pids: readonly number[];
}

/** One line of the table. */
interface Line {
  readonly planes: number;
  readonly machines: number;
  readonly callsPerSecond: number;
  /** Processor time of the control planes with their processes, per second and per call. */
  readonly cores: number;
  readonly msPerCall: number;
  /** Of a control plane with its processes, the largest. */
  readonly mib: number;
  readonly configMs: number;
  readonly writeMs: number;
}

async function makeMachines(
  { address, hosts }: Target,
  count: number,
): Promise<{ machines: LoadMachine[]; keys: LoadKeys }> {
  const store = await openStore(address, clock);
  // The same secret for all: making one takes a while.
  const secret = await newKeySecret();
  const nowMs = clock.nowMs();
  const machines: LoadMachine[] = [];
  const { location, ownerId } = await store.transaction(async (sql) => {
    const organization = await new Organizations(sql).create(`load ${count}`, nowMs);
    const grant = { role: "owner", kind: "organization", resourceId: organization } as const;
    const { id: ownerId } = await new Keys(sql).create(secret, "owner", [grant], nowMs);
    return { location: await new Locations(sql).create(organization, "hall", "", nowMs), ownerId };
  });
  for (let from = 0; from < count; from += MACHINES_A_TRANSACTION) {
    const until = Math.min(count, from + MACHINES_A_TRANSACTION);
    machines.push(
      ...await store.transaction(async (sql) => {
        const some: LoadMachine[] = [];
        for (let number = from; number < until; number++) {
          const { id, partId } = await new Machines(sql).create(location, `m${number}`, nowMs);
          const grant = { role: "operator", kind: "machine", resourceId: id } as const;
          const { id: keyId } = await new Keys(sql).create(secret, "m", [grant], nowMs);
          some.push({ partId, keyId, host: hosts[number % hosts.length] });
        }
        return some;
      }),
    );
  }
  await store.close();
  return { machines, keys: { secret: secret.key, ownerId } };
}

/** Connects all machines, and begins the work of each once it is connected. */
async function connectAll(
  machines: readonly LoadMachine[],
  connect: (machine: LoadMachine) => Promise<Channel | undefined>,
  run: (machine: LoadMachine, channel: Channel) => Promise<void>,
): Promise<{ channels: Channel[]; running: Promise<void>[] }> {
  const [channels, running]: [Channel[], Promise<void>[]] = [[], []];
  const left = [...machines];
  const dialSome = async () => {
    for (let machine = left.pop(); machine; machine = left.pop()) {
      const channel = await connect(machine);
      if (!channel) continue;
      channels.push(channel);
      running.push(run(machine, channel));
    }
  };
  await Promise.all(Array.from({ length: DIALED_AT_ONCE }, dialSome));
  return { channels, running };
}

async function measure(target: Target, count: number): Promise<Line> {
  const { machines, keys } = await makeMachines(target, count);
  const [figures, pushedAt, over] = [new Figures(), new Map<string, number>(), new AbortController()];
  const { signal } = over;
  const startMs = clock.monotonicMs();
  const { channels, running } = await connectAll(
    machines,
    (machine) => connectMachine(machine, keys.secret, figures, signal),
    (machine, channel) => runMachine(machine, channel, figures, pushedAt, signal),
  );
  const connectS = (clock.monotonicMs() - startMs) / 1000;
  const owner = await dial({ host: target.hosts[0], keyId: keys.ownerId }, keys.secret, figures, signal);
  console.log(
    `\n${target.hosts.length} control planes, ${count} machines, connected in ${connectS.toFixed(0)} s`,
  );

  running.push(changeConfigs(machines, owner!, figures, pushedAt, signal));
  const settledS = await settled(figures);
  console.log(`at rest after another ${settledS.toFixed(0)} s`);
  const sample = await measured(target, figures);
  figures.end();
  over.abort();
  await Promise.all(running);
  for (const channel of [owner!, ...channels]) channel.close();
  print(figures);
  const { elapsedS, cpuMs, ownCpuMs, mib, busy } = sample;
  const own = (ownCpuMs / elapsedS / 1000).toFixed(2);
  console.log(`all processors: ${(busy * 100).toFixed(0)} % busy; the simulated machines take ${own} cores`);
  const writes = [...figures.times("log"), ...figures.times("readings")];
  return {
    planes: target.hosts.length,
    machines: count,
    callsPerSecond: figures.calls / elapsedS,
    cores: cpuMs / elapsedS / 1000,
    msPerCall: cpuMs / figures.calls,
    mib,
    configMs: quantile(figures.times("config"), 0.99),
    writeMs: quantile(writes, 0.99),
  };
}

/** Waits until the calls of some seconds have all been answered soon. Returns how long that took, in seconds. */
async function settled(figures: Figures): Promise<number> {
  const startMs = clock.monotonicMs();
  const failures = () => figures.failures.values().reduce((sum, count) => sum + count, 0);
  for (let isCalm = false; !isCalm && clock.monotonicMs() - startMs < SETTLING_MAX_MS;) {
    figures.begin();
    const before = failures();
    await clock.sleep(CALM_MS);
    const slowest = Math.max(...CALLS.flatMap((call) => figures.times(call)));
    isCalm = failures() === before && slowest < CALM_ANSWER_MS;
  }
  return (clock.monotonicMs() - startMs) / 1000;
}

/** Lets the time of the measurement pass; returns the processor time and the memory meanwhile. */
async function measured({ pids }: Target, figures: Figures) {
  const cpuOf = () => pids.reduce((sum, pid) => sum + cpuMsOf(pid).all, 0);
  const own = () => cpuMsOf(Deno.pid).own;
  figures.begin();
  const [startMs, before, ownBefore, allBefore] = [clock.monotonicMs(), cpuOf(), own(), processorTicks()];
  let mib = 0;
  while (clock.monotonicMs() - startMs < SECONDS * 1000) {
    await clock.sleep(SAMPLE_MS);
    const sums = pids.map((pid) => residentMibOf(pid).reduce((sum, one) => sum + one, 0));
    mib = Math.max(mib, ...sums);
  }
  const elapsedS = (clock.monotonicMs() - startMs) / 1000;
  const all = processorTicks();
  const busy = (all.busy - allBefore.busy) / (all.sum - allBefore.sum);
  return { elapsedS, cpuMs: cpuOf() - before, ownCpuMs: own() - ownBefore, mib, busy };
}

function print(figures: Figures): void {
  for (const call of CALLS.filter((call) => figures.times(call).length > 0)) {
    const times = figures.times(call);
    const [p50, p99, max] = [0.5, 0.99, 1].map((share) => quantile(times, share).toFixed(1));
    const shown = `p50 ${p50} ms   p99 ${p99} ms   max ${max} ms`;
    console.log(`${call.padEnd(14)} ${String(times.length).padStart(6)} calls   ${shown}`);
  }
  for (const [failure, count] of figures.failures) console.log(`  failed ${count} times: ${failure}`);
}

function printTable(table: readonly Line[]): void {
  console.log(
    "\nplanes  machines  calls/s  cores  ms/call  MiB of one  p99 configuration  p99 small write",
  );
  for (const line of table) {
    console.log([
      String(line.planes).padStart(6),
      String(line.machines).padStart(8),
      line.callsPerSecond.toFixed(0).padStart(7),
      line.cores.toFixed(2).padStart(5),
      line.msPerCall.toFixed(2).padStart(7),
      line.mib.toFixed(0).padStart(10),
      `${line.configMs.toFixed(0)} ms`.padStart(17),
      `${line.writeMs.toFixed(0)} ms`.padStart(15),
    ].join("  "));
  }
}

async function onOne(count: number): Promise<Line> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  try {
    const cloud = await serveCloud(["--data", folder]);
    try {
      const address = { sqlite: sqliteIn(`${folder}/cloud.db`, new DenoHost()) };
      return await measure({ address, hosts: [new URL(cloud.url).host], pids: [cloud.pid] }, count);
    } finally {
      await cloud.stop();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function onSeveral(planesCount: number, count: number): Promise<Line> {
  let line: Line | undefined;
  await Planes.run({ count: planesCount }, async (planes) => {
    const sqlite = sqliteIn("/nowhere/cloud.db", new DenoHost());
    const address = { sqlite, url: `postgres://svc@127.0.0.1:${planes.database.port}/postgres` };
    const { serving } = planes;
    const hosts = serving.map((number) => planes.hostOf(number));
    line = await measure({ address, hosts, pids: serving.map((number) => planes.pidOf(number)) }, count);
  });
  return line!;
}

const table: Line[] = [];
for (const planes of values.planes.split(",").map(Number)) {
  for (const count of values.machines.split(",").map(Number)) {
    table.push(await (planes === 1 ? onOne(count) : onSeveral(planes, count)));
  }
}
printTable(table);
Deno.exit(0);
