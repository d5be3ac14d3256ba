/**
 * The control plane vanishes for an hour: the machine's logs and captures of that time arrive once, and in order.
 *
 * The machine and the control plane share the test's clock and disk. Calls travel over a real port, which is closed for
 * the hour.
 */

import { assert, assertEquals } from "@std/assert";
import { BuiltinDataManager } from "../../drivers/data_manager/builtin.ts";
import { FakeSensor } from "../../drivers/sensor/fake.ts";
import { DataManagerApi } from "../../lib/api/services/data_manager.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { Secret } from "../../lib/base/secret.ts";
import { CloudClient } from "../../lib/cloud_client/client.ts";
import { uploaderOf } from "../../lib/cloud_client/data_uploader.ts";
import { sendLogs } from "../../lib/cloud_client/log_sender.ts";
import { LogStore } from "../../lib/cloud/logs/logs.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { Machine } from "../../lib/machine/graph/machine.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { newWorld, ownKey, withCloud, type World } from "./world.ts";
import type { NewKey } from "../../lib/cloud/access/keys.ts";
import { storeTest } from "./stores.ts";
import { FakeHost } from "../support/fake_host.ts";
import { moving, until } from "../support/until.ts";
import { trafficOf } from "../../lib/cloud_client/changes/traffic.ts";

const SECOND_MS = 1_000;
const HOUR_MS = 3_600 * SECOND_MS;
const START_MS = 1_700_000_000_000;

storeTest(
  "logs and readings of an hour's outage of the control plane arrive once and in order",
  async (database) => {
    const clock = new FakeClock(START_MS);
    const store = await database.open();
    const world = await newWorld(store, START_MS);
    let port = 0;
    let rover!: Awaited<ReturnType<typeof startRover>>;
    try {
      await withCloud(database, async ({ url }) => {
        port = Number(new URL(url).port);
        rover = await startRover(world, await ownKey(store, world), port, clock);
        await until(() => arrived(store, 3), { meanwhile: moving(clock, SECOND_MS / 4) });
      }, { clock });
      const before = await counts(store);
      // An entry and a reading every ten seconds; the machine restarts half-way.
      for (let second = 0; second < HOUR_MS / SECOND_MS; second += 10) {
        rover.log();
        await clock.advance(10 * SECOND_MS);
        if (second === 1_800) await rover.restart();
      }
      assertEquals(await counts(store), before, "the cloud is away");
      await withCloud(database, async () => {
        await until(() => arrived(store, rover.logged), { meanwhile: moving(clock, SECOND_MS) });
        await until(async () => (await counts(store)).readings >= before.readings + 360, {
          meanwhile: moving(clock, SECOND_MS),
        });
        await rover.close();
      }, { clock, port });
    } finally {
      await rover?.close();
    }
    const { logs, readings } = await everything(store, world.part, clock);
    assertEquals(logs, Array.from({ length: rover.logged }, (_, index) => `entry ${index}`));
    const times = readings.map(({ captured }) => captured);
    assertEquals(new Set(times).size, times.length, "each reading once");
    const late = readings.filter(({ stored }, index) => stored < (readings[index - 1]?.stored ?? 0));
    assertEquals([...late], [], "none before an earlier one");
    const gaps = times.slice(1).map((time, index) => time - times[index]);
    // Where the machine restarted it captured nothing for a moment.
    assert(gaps.every((gap) => gap >= 10 * SECOND_MS && gap < 25 * SECOND_MS), `gaps: ${[...new Set(gaps)]}`);
  },
);

/** A machine that logs when told to and captures a sensor every ten seconds. */
async function startRover({ part }: World, own: NewKey, port: number, clock: FakeClock) {
  const host = new FakeHost({ env: { SVC_HOME: "/home" }, hostname: "rover" });
  const registry = new Registry([SensorApi, DataManagerApi], [FakeSensor, BuiltinDataManager]);
  const { config, problems } = await decodeConfig(CONFIG, registry, { env: () => undefined });
  assertEquals(problems, []);
  const begin = async () => {
    const client = new CloudClient({
      address: `http://127.0.0.1:${port}`,
      partId: part,
      credentials: { type: "api-key", entity: own.id, payload: new Secret(own.key) },
      allowInsecureCredentials: true,
      agent: undefined,
      clock,
    });
    const logs = new Logs(clock, []);
    const queue = await sendLogs({ client, home: "/home", host, clock, logs, traffic: trafficOf(false) });
    const machine = new Machine({
      registry,
      logs: new Logs(clock, []),
      clock,
      host,
      uploader: uploaderOf(client),
    });
    await machine.apply(config);
    return {
      logger: logs.logger("rover"),
      close: async () => {
        await machine.close();
        await beside(clock, queue.close());
        client.close();
      },
    };
  };
  let running: Awaited<ReturnType<typeof begin>> | undefined = await begin();
  let logged = 0;
  const close = async () => {
    await running?.close();
    running = undefined;
  };
  const log = () => running!.logger.info(`entry ${logged++}`);
  for (let number = 0; number < 3; number++) log();
  return {
    log,
    get logged() {
      return logged;
    },
    close,
    restart: async () => {
      await close();
      running = await begin();
    },
  };
}

const CONFIG = {
  components: [{
    name: "thermometer",
    api: "rdk:component:sensor",
    model: "fake",
    service_configs: [{
      type: "data_manager",
      attributes: { capture_methods: [{ method: "Readings", capture_frequency_hz: 0.1 }] },
    }],
  }],
  services: [{ name: "data", api: "rdk:service:data_manager", model: "builtin", attributes: {} }],
};

/** Waits for something that waits for the clock. */
async function beside(clock: FakeClock, work: Promise<void>): Promise<void> {
  let over = false;
  const done = work.finally(() => over = true);
  await until(() => Promise.resolve(over), { meanwhile: moving(clock, SECOND_MS / 4) });
  await done;
}

async function counts(store: Store): Promise<{ logs: number; readings: number }> {
  const [row] = await store.query<{ logs: number; readings: number }>(
    "SELECT (SELECT COUNT(*) FROM logs) AS logs, (SELECT COUNT(*) FROM tabular_data) AS readings",
  );
  return row;
}

async function arrived(store: Store, entries: number): Promise<boolean> {
  const { logs, readings } = await counts(store);
  return logs >= entries && readings > 0;
}

async function everything(store: Store, part: string, clock: FakeClock) {
  const { entries } = await new LogStore(store, clock).find(part, { order: "oldest first", limit: 10_000 });
  const readings = await store.query<{ captured: number; stored: number }>(
    "SELECT captured_us / 1000 AS captured, stored_ms AS stored FROM tabular_data ORDER BY captured_us",
  );
  return { logs: entries.map(({ entry }) => entry.message), readings };
}
