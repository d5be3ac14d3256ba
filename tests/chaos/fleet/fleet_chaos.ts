/**
 * A whole fleet under faults: three control planes on PostgreSQL and an object store, devices with agents, runtimes and
 * modules, callers over WebRTC and training jobs. What is acknowledged is there in the end, and every device is well.
 */

import { SystemClock } from "../../../lib/base/clock.ts";
import { AppService } from "../../../proto/gen/app_pb.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { judgeWrites } from "../chaos.ts";
import { until, untilNone } from "../../support/until.ts";
import { HASTE } from "../../agent/agent_process.ts";
import { noScripts } from "../../cloud/training_world.ts";
import { Load, loadStartMs, tokensOf } from "../load.ts";
import { pick, Planes } from "../planes.ts";
import {
  checkCaptured,
  checkOrphans,
  checkProcesses,
  checkSecrets,
  type Costs,
  waitForRecovery,
} from "./checks.ts";
import { buildClockLibrary, Device } from "./device.ts";
import { FAULTS, type Random } from "./faults.ts";
import { Trainers, Visitors } from "./users.ts";
import { World } from "./world.ts";

const clock = new SystemClock();
const PLANES = 3;
/** Between two faults, at most. */
const REST_MS = 3_000;
const CALL = { timeoutMs: 60_000 };
/** One more training job ends within this time. */
const JOB_MS = 300_000;
/** One more device starts its runtime within this time. */
const START_MS = 600_000;
/** So many devices for each processor are started at once, and have an agent in the usual haste. */
const DEVICES_OF_PROCESSOR = 2;

export interface FleetChaosOptions {
  readonly devices: number;
  readonly minutes: number;
  readonly seed: number;
  readonly print: (line: string) => void;
}

/** Throws if anything that must hold does not. */
export async function runFleetChaos(options: FleetChaosOptions): Promise<void> {
  const without = await noScripts();
  if (without) options.print(`without training: ${without}`);
  const training = without ? [] : ["--training", "scripts"];
  const folder = await Deno.makeTempDir({ prefix: "svc-fleet-" });
  try {
    const flags = ["--localhost-certificates", ...training];
    await Planes.run({ count: PLANES, flags }, (planes) => runOn(planes, folder, options, !without));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function runOn(
  planes: Planes,
  folder: string,
  options: FleetChaosOptions,
  withTraining: boolean,
): Promise<void> {
  const { print } = options;
  const tokens = await tokensOf(planes);
  const world = new World(planes, [], folder, print);
  const devices = world.devices as Device[];
  try {
    await addDevices(world, devices, options.devices, tokens.owner);
    print(`${devices.length} devices are well after ${seconds(await waitForRecovery(world))}`);

    const load = new Load(planes, tokens, {}, loadStartMs(clock.nowMs()));
    const visitors = new Visitors(planes, devices);
    const trainers = withTraining ? new Trainers(planes, tokens.owner) : undefined;
    const counts = await doFaults(world, options);
    print(Object.entries(counts).map(([fault, count]) => `${count} ${fault}`).join(", "));
    await Promise.all([load.stop(), visitors.stop(), trainers?.stop()]);

    await wantLatest(world);
    print(`every device is well again after ${seconds(await waitForRecovery(world))}`);
    print(costLine(await checkProcesses(world)));
    const channel = planes.connect(tokens.owner);
    try {
      await judgeWrites(channel, planes, load);
      const { logs, readings, pictures, packages, configs } = load.known;
      print(
        `acknowledged and there once: ${logs.size} log entries, ${readings.size} readings, ${pictures.size} pictures, ` +
          `${packages.size} packages, ${configs.length} configurations`,
      );
      print(`${await checkCaptured(channel, world)} readings captured by devices, none twice`);
      if (trainers) print(await judgeJobs(trainers));
      await checkSecrets(channel, world);
      print(`no key in a log; ${visitors.visits} visits over WebRTC, ${visitors.failed} failed meanwhile`);
    } finally {
      channel.close();
    }
  } finally {
    await Promise.allSettled([...world.returning]);
    await Promise.all(devices.map((device) => device.close()));
  }
  checkOrphans(devices);
  print("no process is left");
}

async function addDevices(world: World, devices: Device[], count: number, token: string): Promise<void> {
  const { planes, folder } = world;
  const clockLibrary = await buildClockLibrary(`${folder}/clock_offset.so`);
  const balancerPort = Number(planes.host.split(":")[1]);
  await world.release("serves");
  const atOnce = DEVICES_OF_PROCESSOR * navigator.hardwareConcurrency;
  // With more devices each has less of the computer: its agent's minutes are longer.
  const haste = Math.max(1, HASTE * Math.min(1, atOnce / count));
  for (let at = 0; at < count; at++) {
    const name = `device-${String(at).padStart(2, "0")}`;
    const { partId, config } = JSON.parse(await world.command("machine", "create", name, "--json"));
    devices.push(
      await Device.make({
        name: `${name}-${crypto.randomUUID().slice(0, 8)}`,
        folder: `${folder}/${name}`,
        credentials: { ...config.cloud, id: partId },
        hostOfMachine: await hostOf(planes.connect(token), partId),
        balancerPort,
        clockLibrary,
        hasRemote: at % 2 === 1,
        haste,
      }),
    );
    await world.configure(devices[at]);
    devices[at].start();
    await until(async () => await starting(devices) < atOnce, { withinMs: START_MS });
  }
}

/** How many devices have no runtime that serves yet. */
async function starting(devices: readonly Device[]): Promise<number> {
  const states = await Promise.all(devices.map(({ agent }) => agent.status().catch(() => undefined)));
  return states.filter((state) => state?.runtime.phase !== "running").length;
}

async function hostOf(channel: Channel, id: string): Promise<string> {
  try {
    return (await client(AppService, channel).getRobotPart({ id }, CALL)).part!.fqdn;
  } finally {
    channel.close();
  }
}

/** Lets things happen until the time is over and all has returned; returns how often each kind did. */
async function doFaults(
  world: World,
  { minutes, seed, print }: FleetChaosOptions,
): Promise<Record<string, number>> {
  const random: Random = randomFrom(seed);
  const endMs = clock.monotonicMs() + minutes * 60_000;
  const counts: Record<string, number> = {};
  while (clock.monotonicMs() < endMs) {
    const kind = pick(Object.keys(FAULTS), random);
    const what = await FAULTS[kind](world, random);
    counts[kind] = (counts[kind] ?? 0) + 1;
    print(`${kind}: ${what}`);
    await clock.sleep(random() * REST_MS);
  }
  await Promise.all(world.returning);
  return counts;
}

/** Whatever the devices run by now: they all get a new version that works. */
async function wantLatest(world: World): Promise<void> {
  const version = await world.release("serves");
  for (const device of world.devices) {
    await world.configure(device, { version_control: { "svc-server": version } });
  }
}

/** Every job has ended: it is completed, or says that it was interrupted; and a new one completes. */
async function judgeJobs(trainers: Trainers): Promise<string> {
  await trainers.submit();
  let [completed, interrupted] = [0, 0];
  await untilNone(async () => {
    const ended = await trainers.ended();
    if (ended.others.length > 0) throw new Error(ended.others.join("\n"));
    ({ completed, interrupted } = ended);
    return trainers.jobs.length - completed - interrupted;
  }, { stuckMs: JOB_MS, pauseMs: REST_MS });
  return `${completed} training jobs completed, ${interrupted} interrupted, none lost`;
}

function costLine({ handlesMax, residentMax, folderMax, processorShare }: Costs): string {
  const mb = (bytes: number) => (bytes / 1e6).toFixed(1);
  return `at rest: one agent, runtime and module at each device, at most ${handlesMax} handles and ${
    mb(residentMax)
  } MB ` +
    `each; at most ${mb(folderMax)} MB on a disk; ${
      (100 * processorShare).toFixed(1)
    } % of a processor for a device`;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
