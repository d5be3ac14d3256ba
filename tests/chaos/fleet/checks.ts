/** What must hold when the faults are over. */

import { assert, assertEquals } from "@std/assert";
import { deserialize, serialize } from "bson";
import { AppService } from "../../../proto/gen/app_pb.ts";
import { DataService } from "../../../proto/gen/data_pb.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { processorMs, residentBytes } from "../../support/server.ts";
import { untilNone } from "../../support/until.ts";
import { type Device, DEVICE_VARIABLE, processesWith } from "./device.ts";
import { visit } from "./users.ts";
import type { World } from "./world.ts";

const clock = new SystemClock();
const CALL = { timeoutMs: 60_000 };
/** One more device is well within this time, however many there are. */
const STUCK_MS = 600_000;
const LOOK_MS = 2_000;
/** The time over which the work of devices at rest is measured. */
const REST_MS = 10_000;
/** Devices that are not well, and lines of the log of each, that a failure shows. */
const SHOWN_MAX = 3;
const LINES_MAX = 30;
const MIB = 1024 * 1024;
const LIMITS = { handles: 200, residentBytes: 400 * MIB, folderBytes: 16 * MIB };

interface FleetRow {
  readonly part: string;
  readonly partId: string;
  readonly state: string;
  readonly unhealthy: readonly unknown[];
  readonly config: { readonly state: string };
}

/** Waits until the fleet is as it should be, and returns how long that took. */
export async function waitForRecovery(world: World): Promise<number> {
  const startMs = clock.monotonicMs();
  const latest = world.good.at(-1)!;
  const visited = new Set<Device>();
  let found: string[] = [];
  const look = async () => {
    const before = found.join("; ");
    found = await troubles(world, latest, visited);
    if (found.length > 0 && found.join("; ") !== before) world.print(`not yet: ${found.join("; ")}`);
    return found.length;
  };
  await untilNone(look, {
    stuckMs: STUCK_MS,
    pauseMs: LOOK_MS,
    found: async () => {
      const unwell = world.devices.filter(({ name }) => found.some((one) => one.startsWith(name)));
      const logs = unwell.slice(0, SHOWN_MAX).map(async ({ name, agent }) =>
        `${name}:\n${ending(await agent.log())}`
      );
      return [found.join("; "), ...await Promise.all(logs)].join("\n");
    },
  });
  return clock.monotonicMs() - startMs;
}

function ending(log: string): string {
  return log.trimEnd().split("\n").slice(-LINES_MAX).join("\n");
}

/** What is not yet right about the fleet, for people: a line for each device. `visited`: those that have answered. */
async function troubles(
  { devices, planes }: World,
  version: string,
  visited: Set<Device>,
): Promise<string[]> {
  const found: string[] = [];
  const { machines }: { machines: FleetRow[] } = JSON.parse(await planes.command("fleet", "--json"));
  for (const device of devices) {
    const row = machines.find(({ partId }) => partId === device.partId);
    const trouble = await agentTrouble(device, version) ?? rowTrouble(row);
    if (trouble !== undefined) {
      visited.delete(device);
      found.push(`${device.name} ${trouble}`);
    } else if (!visited.has(device)) {
      const visiting = visit(planes, device).then(() => void visited.add(device));
      await visiting.catch((error) => found.push(`${device.name} does not answer: ${error.message}`));
    }
  }
  return found;
}

async function agentTrouble({ agent }: Device, version: string): Promise<string | undefined> {
  const status = await agent.status().catch(() => undefined);
  if (!status?.online) return `is offline: ${status?.offlineWhy ?? "its agent does not answer"}`;
  const { good, trial, refused } = status.versions["svc-server"];
  const { phase, lastFailure } = status.runtime;
  if (good?.version === version && !trial && phase === "running") return undefined;
  const why = [
    lastFailure && `it ${lastFailure}`,
    refused && `refused ${refused.version}: ${refused.reason}`,
  ];
  return [`runs ${good?.version}, ${phase}`, ...why.filter((one) => one)].join(", ");
}

function rowTrouble(row: FleetRow | undefined): string | undefined {
  if (!row) return "is not in the fleet";
  const { state, config, unhealthy } = row;
  const isWell = state === "online" && config.state !== "behind" && unhealthy.length === 0;
  return isWell ? undefined : `is ${state}, ${config.state}, ${JSON.stringify(unhealthy)}`;
}

export interface Costs {
  readonly handlesMax: number;
  readonly residentMax: number;
  readonly folderMax: number;
  /** Of one processor, by all processes of a device on average. */
  readonly processorShare: number;
}

/** One process of each role runs at each device; none has grown out of bounds. */
export async function checkProcesses({ devices }: World): Promise<Costs> {
  let costs: Costs = { handlesMax: 0, residentMax: 0, folderMax: 0, processorShare: 0 };
  for (const device of devices) {
    const processes = device.processes();
    assertEquals(processes.map(({ role }) => role).sort(), ["agent", "module", "runtime"], device.name);
    for (const { pid } of processes) {
      costs = {
        ...costs,
        handlesMax: Math.max(costs.handlesMax, [...Deno.readDirSync(`/proc/${pid}/fd`)].length),
        residentMax: Math.max(costs.residentMax, await residentBytes(pid)),
      };
    }
    costs = { ...costs, folderMax: Math.max(costs.folderMax, await device.usedBytes()) };
  }
  const pids = devices.flatMap((device) => device.processes().map(({ pid }) => pid));
  const workedMs = async () => (await Promise.all(pids.map(processorMs))).reduce((sum, ms) => sum + ms, 0);
  const beforeMs = await workedMs();
  await clock.sleep(REST_MS);
  costs = { ...costs, processorShare: (await workedMs() - beforeMs) / REST_MS / devices.length };
  assert(costs.handlesMax <= LIMITS.handles, `${costs.handlesMax} open handles`);
  assert(costs.residentMax <= LIMITS.residentBytes, `${costs.residentMax} bytes of memory`);
  assert(costs.folderMax <= LIMITS.folderBytes, `${costs.folderMax} bytes on a device's disk`);
  return costs;
}

/** No device's process is left. */
export function checkOrphans(devices: readonly Device[]): void {
  const left = devices.flatMap(({ name }) => processesWith(`${DEVICE_VARIABLE}=${name}`));
  assertEquals(left, []);
}

/** No reading of a device is there twice, and each device's readings arrive again. Returns how many there are. */
export async function checkCaptured(channel: Channel, { devices, planes }: World): Promise<number> {
  const { organizationId } = planes.example;
  const data = client(DataService, channel);
  const query = async (...stages: Record<string, unknown>[]) => {
    const mqlBinary = stages.map((one) => serialize(one));
    const { rawData } = await data.tabularDataByMQL({ organizationId, mqlBinary }, CALL);
    return rawData.map((one) => deserialize(one));
  };
  const captured = { $match: { component_name: "air" } };
  const count = { $sum: 1 };
  const counted = async () => {
    const rows = await query(captured, { $group: { _id: "$part_id", count } });
    return new Map(rows.map(({ _id, count }) => [String(_id), Number(count)]));
  };
  const before = await counted();
  await untilNone(async () => {
    const now = await counted();
    return devices.filter(({ partId }) => (now.get(partId) ?? 0) <= (before.get(partId) ?? 0)).length;
  }, { stuckMs: STUCK_MS, pauseMs: LOOK_MS });
  const twice = await query(
    captured,
    { $group: { _id: { part: "$part_id", at: "$time_received" }, count } },
    { $match: { count: { $gt: 1 } } },
    { $limit: 5 },
  );
  assertEquals(twice, [], "readings that are there twice");
  return [...(await counted()).values()].reduce((sum, one) => sum + one, 0);
}

/** No key stands in a log: of programs, devices or the control planes' store. */
export async function checkSecrets(channel: Channel, { devices, planes }: World): Promise<void> {
  const { ownerKey, config } = planes.example;
  const secrets = [ownerKey.key, config.cloud.api_key.key, ...devices.flatMap(({ keys }) => keys)];
  const check = (where: string, text: string) => {
    for (const secret of secrets) assert(!text.includes(secret), `a key stands in the log of ${where}`);
  };
  check("the control planes", planes.output());
  for (const device of devices) {
    check(device.name, await device.agent.log());
    check(`${device.name} in the store`, await storedLog(channel, device.partId));
  }
}

async function storedLog(channel: Channel, id: string): Promise<string> {
  const app = client(AppService, channel);
  const found: string[] = [];
  for (let pageToken = "";;) {
    const page = await app.getRobotPartLogs({ id, pageToken, limit: 1000n }, CALL);
    found.push(...page.logs.map(({ message, fields }) => `${message} ${JSON.stringify(fields)}`));
    if ((pageToken = page.nextPageToken) === "") return found.join("\n");
  }
}
