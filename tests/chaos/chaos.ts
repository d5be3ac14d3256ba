/**
 * Kills random control planes among several under load, and what they share: PostgreSQL, single processes of it, and the
 * object store. Judges afterwards: nothing acknowledged is lost or there twice, every window of a pipeline counts once
 * and right, every event of a trigger was delivered.
 */

import { assert, assertEquals, assertGreaterOrEqual } from "@std/assert";
import { deserialize, serialize } from "bson";
import { AppService } from "../../proto/gen/app_pb.ts";
import { DataService, TabularDataSourceType } from "../../proto/gen/data_pb.ts";
import { DataPipelinesService } from "../../proto/gen/data_pipelines_pb.ts";
import { PackageService } from "../../proto/gen/packages_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { until } from "../support/until.ts";
import { Load, loadStartMs, MARKED_EVERY, packageContent, tokensOf } from "./load.ts";
import { pick, Planes, takeAway } from "./planes.ts";

const clock = new SystemClock();
const PLANES = 3;
/** The longest wait before a kill. */
const REST_MS = 1_000;
/** A killed control plane's claims on runs and deliveries end after a minute. */
const SETTLE_MS = 240_000;
const CALL = { timeoutMs: 60_000 };
const MINUTE_MS = 60_000;

export interface ChaosOptions {
  readonly kills: number;
  readonly seed: number;
  /** Acknowledged between two kills, at least. */
  readonly lifeWrites: number;
  /** Also what goes on by itself: a pipeline over the readings, whose last windows take minutes. */
  readonly withPipeline: boolean;
  /** Whether what the control planes share is killed, too. */
  readonly withShared: boolean;
  readonly print: (line: string) => void;
}

/** What a run has done, for people. */
export interface ChaosResult {
  readonly kills: number;
  readonly logs: number;
  readonly readings: number;
  readonly pictures: number;
  readonly packages: number;
  readonly configs: number;
  readonly repeated: number;
  readonly notices: number;
  readonly windows: number;
}

/** One kill of so many hits something that the control planes share, in this order. */
const SHARED_EVERY = 2;
const SHARED = ["a process of PostgreSQL", "the object store", "PostgreSQL"] as const;
/** How long the database and the store stay away, at most. */
const AWAY_MS = 3_000;

/** Kills a random control plane, or something that they share; returns what it was, for people. */
async function killOne(
  planes: Planes,
  kill: number,
  withShared: boolean,
  random: () => number,
  returning: Promise<void>[],
): Promise<string> {
  if (!withShared || kill % SHARED_EVERY !== 0) {
    // Another one may still be on its way back, but never are all of them away.
    await until(() => planes.serving.length > 1, { withinMs: SETTLE_MS });
    const number = pick(planes.serving, random);
    await planes.kill(number);
    returning.push(planes.start(number));
    return `control plane ${number}`;
  }

  // A control plane does not start without its database.
  await Promise.all(returning);
  const what = SHARED[(kill / SHARED_EVERY - 1) % SHARED.length];
  if (what === "a process of PostgreSQL") {
    planes.database.killProcess(random());
    return what;
  }
  const shared = what === "PostgreSQL" ? planes.database : planes.store;
  return `${what}, ${await takeAway(shared, random() * AWAY_MS)}`;
}

/** Throws if anything acknowledged is lost or there twice. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const random = randomFrom(options.seed);
  await using receiver = new Receiver();
  let result: ChaosResult | undefined;
  await Planes.run({ count: PLANES, flags: ["--trigger-allow", "127.0.0.1"] }, async (planes) => {
    const tokens = await tokensOf(planes);
    const token = tokens.owner;
    const startMs = loadStartMs(clock.nowMs());
    const load = new Load(planes, tokens, { triggers: [triggerTo(receiver.url)] }, startMs);
    const pipeline = options.withPipeline ? await createPipeline(planes, token) : undefined;
    const returning: Promise<void>[] = [];
    try {
      for (let kill = 1; kill <= options.kills; kill++) {
        const before = load.written;
        await until(() => load.written >= before + options.lifeWrites, { withinMs: SETTLE_MS });
        await clock.sleep(random() * REST_MS);
        const what = await killOne(planes, kill, options.withShared, random, returning);
        options.print(`kill ${kill}: ${what}, ${load.written} writes acknowledged`);
      }
    } finally {
      await Promise.all(returning);
      await load.stop();
    }
    const channel = planes.connect(token);
    try {
      // The last kill may have been of the database, which then repairs itself.
      const { getRobotPart } = client(AppService, channel);
      const { partId: id } = planes.example;
      await until(() => getRobotPart({ id }, CALL).then(() => true, () => false), { withinMs: SETTLE_MS });
      const notices = await judge(channel, planes, load, receiver);
      const windows = pipeline === undefined ? 0 : await judgePipeline(channel, planes, load, pipeline);
      const { known: { logs, readings, pictures, packages, configs }, repeated } = load;
      result = {
        ...{ kills: options.kills, logs: logs.size, readings: readings.size, pictures: pictures.size },
        ...{ packages: packages.size, configs: configs.length, repeated, notices, windows },
      };
    } finally {
      channel.close();
    }
  });
  assert(result);
  return result;
}

/** All that the load knows to be acknowledged is there, once. */
export async function judgeWrites(channel: Channel, planes: Planes, { known }: Load): Promise<void> {
  const { partId, organizationId } = planes.example;
  const app = client(AppService, channel);
  same("log entries", known.logs, await logsOf(channel, partId));
  same("readings", known.readings, await readingsOf(channel, organizationId));
  same("pictures", known.pictures, await picturesOf(channel, organizationId));
  await judgePackages(channel, organizationId, known.packages);
  const { configJson } = await app.getRobotPart({ id: partId }, CALL);
  assertGreaterOrEqual(JSON.parse(configJson).components[0].attributes.max_rpm, known.configs.at(-1)!);
  assertEquals(known.configs, known.configs.map((_, at) => at + 1));
}

async function judge(channel: Channel, planes: Planes, load: Load, receiver: Receiver): Promise<number> {
  const { known } = load;
  await judgeWrites(channel, planes, load);

  // The trigger is in the configuration from the first change on, and readings before it are nobody's event.
  const [first] = [...receiver.marked].sort((a, b) => a - b);
  const wanted = [...known.readings].filter((n) => n % MARKED_EVERY === 0 && n >= (first ?? 0));
  await until(() => wanted.every((n) => receiver.marked.has(n)), {
    withinMs: SETTLE_MS,
    found: () => `untold: ${wanted.filter((n) => !receiver.marked.has(n))}`,
  });
  assertGreaterOrEqual(receiver.marked.size, 1);
  return receiver.marked.size;
}

/** Each acknowledged one is there, once. A write that was never acknowledged may be there, too. */
function same<T>(what: string, acknowledged: ReadonlySet<T>, found: readonly T[]): void {
  const all = new Set(found);
  assertEquals([...acknowledged].filter((one) => !all.has(one)), [], `${what} that are lost`);
  assertEquals(found.length, all.size, `${what} that are there twice`);
}

async function logsOf(channel: Channel, id: string): Promise<string[]> {
  const app = client(AppService, channel);
  const found: string[] = [];
  for (let pageToken = "";;) {
    const page = await app.getRobotPartLogs({ id, pageToken, limit: 1000n }, CALL);
    const own = page.logs.filter(({ loggerName }) => loggerName === "load");
    found.push(...own.map(({ message }) => message));
    if ((pageToken = page.nextPageToken) === "") return found;
  }
}

async function readingsOf(channel: Channel, organizationId: string): Promise<number[]> {
  const stages = [
    { $match: { component_name: "thermo" } },
    { $group: { _id: "$data.readings.n", count: { $sum: 1 } } },
  ];
  const mqlBinary = stages.map((one) => serialize(one));
  const { rawData } = await client(DataService, channel).tabularDataByMQL(
    { organizationId, mqlBinary },
    CALL,
  );
  return rawData.map((one) => deserialize(one)).flatMap(({ _id, count }) => Array(count).fill(_id));
}

async function picturesOf(channel: Channel, organizationId: string): Promise<string[]> {
  const data = client(DataService, channel);
  const found: string[] = [];
  for (let last = "";;) {
    const filter = { organizationIds: [organizationId], componentName: "cam" };
    const dataRequest = { filter, limit: 50n, last };
    const page = await data.binaryDataByFilter({ dataRequest, includeBinary: true }, CALL);
    found.push(...page.data.map(({ binary }) => new TextDecoder().decode(binary)));
    if ((last = page.last) === "") return found;
  }
}

async function judgePackages(
  channel: Channel,
  organizationId: string,
  versions: ReadonlySet<string>,
): Promise<void> {
  const packages = client(PackageService, channel);
  const { packages: list } = await packages.listPackages(
    { organizationId, name: "tools", includeUrl: true },
    CALL,
  );
  same("packages", versions, list.map(({ info }) => info!.version));
  for (const { info, url } of list) {
    const answer = await fetch(url);
    assertEquals(answer.status, 200, url);
    assertEquals(await answer.bytes(), packageContent(info!.version), `the content of ${info!.version}`);
  }
}

async function createPipeline(planes: Planes, token: string): Promise<string> {
  const channel = planes.connect(token);
  const { organizationId } = planes.example;
  const stages = [{ $match: { component_name: "thermo" } }, { $group: { _id: null, count: { $sum: 1 } } }];
  const mqlBinary = stages.map((one) => serialize(one));
  const made = { organizationId, name: "minutes", mqlBinary, schedule: "* * * * *", enableBackfill: true };
  try {
    return (await client(DataPipelinesService, channel).createDataPipeline(made, CALL)).id;
  } finally {
    channel.close();
  }
}

/** Waits for the windows; each has one result, which counts the readings of its minute. Returns how many there are. */
async function judgePipeline(
  channel: Channel,
  planes: Planes,
  load: Load,
  pipelineId: string,
): Promise<number> {
  const { organizationId } = planes.example;
  const data = client(DataService, channel);
  const byMinute = async () => {
    const stages = [{
      $group: {
        _id: { $dateTrunc: { date: "$time_received", unit: "minute" } },
        count: { $sum: 1 },
      },
    }];
    const mqlBinary = stages.map((one) => serialize(one));
    const { rawData } = await data.tabularDataByMQL({ organizationId, mqlBinary }, CALL);
    return lines(rawData.map((one) => deserialize(one)).map(({ _id, count }) => [_id as Date, count]));
  };
  const results = async () => {
    const dataSource = { type: TabularDataSourceType.PIPELINE_SINK, pipelineId };
    const mqlBinary = [{ $match: {} }].map((one) => serialize(one));
    const { rawData } = await data.tabularDataByMQL({ organizationId, mqlBinary, dataSource }, CALL);
    const all = rawData.map((one) => deserialize(one));
    return lines(all.map(({ count, _viam_pipeline_run: run }) => [run.interval.start as Date, count]));
  };
  const wanted = await byMinute();
  let found: string[] = [];
  await until(async () => (found = await results()).join() === wanted.join(), {
    withinMs: SETTLE_MS + MINUTE_MS,
    meanwhile: () => clock.sleep(5_000),
    found: () => `found ${found.join("; ")}, wanted ${wanted.join("; ")}, readings from ${load.startMs}`,
  });
  return found.length;
}

function lines(counts: readonly (readonly [Date, number])[]): string[] {
  return counts.filter(([, count]) => count > 0).map(([at, count]) => `${at.toISOString()} ${count}`).sort();
}

function triggerTo(url: string) {
  const conditions = { evals: [{ operator: "eq", value: { marked: true } }] };
  return {
    name: "marked",
    event: {
      type: "conditional_data_ingested",
      conditional: { data_capture_method: "sensor:thermo:Readings", conditions },
    },
    notifications: [{ type: "webhook", value: url, seconds_between_notifications: 0 }],
  };
}

/** Receives webhooks. */
class Receiver {
  /** The numbers of the readings about which it has received a webhook. */
  readonly marked = new Set<number>();
  readonly #server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const n = /"n":\s*(\d+)/.exec(await request.text())?.[1];
    if (n !== undefined) this.marked.add(Number(n));
    return new Response();
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}/told`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** A line for people. */
export function chaosLine(result: ChaosResult): string {
  const { kills, ...counts } = result;
  const words = Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ");
  return `${kills} kills, nothing lost or doubled: ${words}`;
}
