/**
 * Data pipelines and saved queries: each window is computed once in effect, also when something stops in the midst, and
 * what a pipeline has found can be queried.
 */

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { deserialize, serialize } from "bson";
import { TabularDataSourceType } from "../../proto/gen/data_pb.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataPipelinesService } from "../../proto/gen/data_pipelines_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SvcError } from "../../lib/base/error.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { lastRemovedUs, noteRemoved } from "../../lib/cloud/capture/retention_policies.ts";
import {
  DataPipelines,
  lateStatement,
  type PipelineRun,
  RUN_STATUS,
} from "../../lib/cloud/pipelines/pipelines.ts";
import { PipelineWindows } from "../../lib/cloud/pipelines/windows.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { sqliteTest, storeTest } from "./stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const HOUR_MS = 3600 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** At a quarter past an hour. */
const START_MS = Date.parse("2026-03-15T14:15:00Z");
const hour = (number: number) => Date.parse("2026-03-15T14:00:00Z") + number * HOUR_MS;

const AVERAGE = [
  { $match: { component_name: "thermo" } },
  { $group: { _id: "$part_id", average: { $avg: "$data.readings.celsius" }, count: { $sum: 1 } } },
];

async function person({ channel }: ServedCloud, { owner, organization, part }: World) {
  const connection = await channel(owner);
  const data = client(DataService, connection);
  const sync = client(DataSyncService, connection);
  return {
    data,
    pipelines: client(DataPipelinesService, connection),
    async readings(atMs: number, ...values: readonly number[]) {
      await sync.dataCaptureUpload({
        metadata: {
          partId: part,
          componentType: "rdk:component:sensor",
          componentName: "thermo",
          methodName: "Readings",
          type: DataType.TABULAR_SENSOR,
        },
        sensorContents: values.map((celsius, index) => ({
          metadata: { timeRequested: toTimestamp(atMs + index), timeReceived: toTimestamp(atMs + index) },
          data: { case: "struct" as const, value: { readings: { celsius } } },
        })),
      });
    },
    /** What a pipeline has found, by the hour of its window. */
    async found(pipelineId: string, ...stages: object[]) {
      const dataSource = { type: TabularDataSourceType.PIPELINE_SINK, pipelineId };
      const mqlBinary = stages.map((one) => serialize(one));
      const { rawData } = await data.tabularDataByMQL({
        organizationId: organization,
        mqlBinary,
        dataSource,
      });
      return rawData.map((one) => deserialize(one));
    },
  };
}

const short = (documents: readonly ReturnType<typeof deserialize>[]) =>
  documents.map(({ average, count, _viam_pipeline_run: run }) =>
    [(run.interval.start.getTime() - hour(0)) / HOUR_MS, average, count].join(" ")
  );

Deno.test("the windows of a schedule are the times between its ticks, in UTC", () => {
  const at = (schedule: string, time: string) => {
    const { fromMs, untilMs } = new PipelineWindows(schedule).around(Date.parse(time));
    return [fromMs, untilMs].map((ms) => new Date(ms).toISOString().slice(0, 16)).join(" ");
  };
  assertEquals(at("0 * * * *", "2026-03-15T14:15:00Z"), "2026-03-15T14:00 2026-03-15T15:00");
  assertEquals(at("0 * * * *", "2026-03-15T14:00:00Z"), "2026-03-15T14:00 2026-03-15T15:00");
  assertEquals(at("*/15 * * * *", "2026-03-15T14:14:59Z"), "2026-03-15T14:00 2026-03-15T14:15");
  assertEquals(at("0 0 * * *", "2026-03-15T14:15:00Z"), "2026-03-15T00:00 2026-03-16T00:00");
  assertEquals(at("0 0 1 1 *", "2026-03-15T14:15:00Z"), "2026-01-01T00:00 2027-01-01T00:00");
  assertEquals(at("0 0 29 2 *", "2026-03-15T14:15:00Z"), "2024-02-29T00:00 2028-02-29T00:00");
  for (
    const wrong of [
      "",
      "* * * *",
      "0 0 0 * * *",
      "@daily",
      "1m",
      "0 0 30 2 *",
      "x * * * *",
      "TZ=UTC 0 * * * *",
    ]
  ) {
    assertThrows(() => new PipelineWindows(wrong), SvcError, "schedule");
  }
});

sqliteTest(
  "a pipeline computes each window, those before it, and those of late readings again",
  async (database) => {
    const clock = new FakeClock(START_MS);
    await withCloud(database, async (cloud) => {
      const world = await newWorld(cloud.store, START_MS);
      const { organization: organizationId } = world;
      const me = await person(cloud, world);
      await me.readings(hour(-2) + 1, 10);
      const mqlBinary = AVERAGE.map((one) => serialize(one));
      const made = { organizationId, name: "hourly", mqlBinary, schedule: "0 * * * *", enableBackfill: true };
      const { id } = await me.pipelines.createDataPipeline(made);
      await me.readings(hour(0) + 20 * 60_000, 20, 30);
      // The end of a window is not in it.
      await me.readings(hour(1), 90);

      const found = async () => {
        const all = (await Array.fromAsync(new DataPipelines(cloud.store).documents(id))).flat();
        return short(all.map((one) => deserialize(one)));
      };
      const meanwhile = moving(clock, 100);
      await until(async () => (await found()).length === 1, { meanwhile });
      await clock.advance(hour(1) + 3 * 60_000 - clock.nowMs());
      await until(async () => (await found()).length === 2, { meanwhile });
      assertEquals(await found(), ["-2 10 1", "0 25 2"]);
      await me.readings(hour(-2) + 5, 20);
      await until(async () => (await found())[0] === "-2 15 2", { meanwhile });
      assertEquals(await found(), ["-2 15 2", "0 25 2"]);

      // What it has found is a collection like any other.
      assertEquals(await me.found(id, { $match: { average: { $gt: 20 } } }, { $count: "hot" }), [{ hot: 1 }]);
      const { runs, nextPageToken, pipelineId } = await me.pipelines.listDataPipelineRuns({
        id,
        pageSize: 2,
      });
      assertEquals([runs.length, nextPageToken, pipelineId], [2, "2", id]);
      const rest = await me.pipelines.listDataPipelineRuns({ id, pageToken: "2" });
      const windows = [...runs, ...rest.runs].map(({ status, dataStartTime }) =>
        [status, (Number(dataStartTime!.seconds) * 1000 - hour(0)) / HOUR_MS].join(" ")
      );
      assertEquals(windows, ["3 0", "3 -2", "3 -2"]);

      await me.pipelines.disableDataPipeline({ id });
      assertEquals((await me.pipelines.getDataPipeline({ id })).dataPipeline?.enabled, false);
      await clock.advance(2 * HOUR_MS);
      await me.pipelines.enableDataPipeline({ id });
      await me.pipelines.renameDataPipeline({ id, name: "renamed" });
      const { dataPipelines } = await me.pipelines.listDataPipelines({ organizationId });
      assertEquals(dataPipelines.map(({ name }) => name), ["renamed"]);
      await me.pipelines.deleteDataPipeline({ id });
      assertEquals(await found(), []);
    }, { clock });
  },
);

/** Readings of these times have arrived. */
async function noteLate(store: Store, organizationId: string, fromMs: number, untilMs: number) {
  await store.batch([lateStatement(crypto.randomUUID(), organizationId, { fromMs, untilMs })]);
}

storeTest(
  "a run has one runner, a window one result, and an interrupted run another try",
  async (database) => {
    const store = await database.open();
    const other = await database.open();
    const { organization: organizationId } = await newWorld(store, START_MS);
    const change = <T>(from: Store, work: (all: DataPipelines) => Promise<T>) =>
      from.transaction((sql) => work(new DataPipelines(sql)));
    const mql = AVERAGE.map((one) => serialize(one));
    const made = {
      organizationId,
      name: "hourly",
      mql,
      schedule: "0 * * * *",
      hasBackfill: true,
      sourceType: 1,
    };
    const id = await change(store, (all) => all.create(made, START_MS));
    const again = await change(store, (all) => all.create(made, START_MS)).catch((error) =>
      SvcError.from(error).code
    );
    assertEquals(again, "already_exists");

    const nowMs = hour(1) + 3 * 60_000;
    const [due] = await new DataPipelines(store).due(nowMs, 10);
    await Promise.all([store, other].map((one) => change(one, (all) => all.scheduleNext(due, nowMs))));
    const claim = (from: Store, runner: string, atMs: number) =>
      change(from, (all) => all.claim(5, [], runner, { nowMs: atMs, leaseMs: atMs + 60_000 }));
    const claimed = await Promise.all([claim(store, "one", nowMs), claim(other, "other", nowMs)]);
    assertEquals(claimed.flat().length, 1);
    const [run] = claimed.flat();
    assertEquals([run.fromMs, run.untilMs], [hour(0), hour(1)]);

    // Its runner is gone; another one begins the window anew, and the first one comes too late.
    assertEquals(await change(store, (all) => all.recover(nowMs + 1, 10)), 0);
    assertEquals(await change(store, (all) => all.recover(nowMs + 61_000, 10)), 1);
    const [next] = await claim(other, "other", nowMs + 61_000);
    assertEquals([next.fromMs, next.attempts], [hour(0), 1]);
    const document = (count: number) => serialize({ count });
    await change(store, (all) => all.complete(run, [document(1)], nowMs));
    await change(other, (all) => all.complete(next, [document(2), document(3)], nowMs));
    await change(store, (all) => all.complete(run, [document(1)], nowMs));
    await change(store, (all) => all.again(run, "too late", nowMs, nowMs));
    assertEquals(await claim(store, "one", nowMs), []);
    const found = async () => {
      const documents = (await Array.fromAsync(new DataPipelines(store).documents(id))).flat();
      return documents.map((one) => deserialize(one).count);
    };
    assertEquals(await found(), [2, 3]);
    // The window before the pipeline in which there are readings, and no others.
    const origin = {
      organizationId,
      locationId: "",
      machineId: "",
      machineName: "",
      partId: "",
      partName: "",
      componentType: "sensor",
      componentName: "thermo",
      methodName: "Readings",
      parameters: "{}",
    };
    const reading = { capturedUs: (hour(-30) + 1) * 1000, receivedUs: 0, payload: {} };
    await storeReadings({ store }, origin, [reading], [], START_MS);
    // They are late, too: the window is scheduled once all the same.
    assertEquals(await change(store, (all) => all.scheduleLate(nowMs)), true);
    for (const _ of [1, 2]) {
      const [earlier] = await new DataPipelines(store).backfilling(10);
      await change(store, (all) => all.scheduleEarlier(earlier, new Map(), nowMs));
    }
    assertEquals((await new DataPipelines(store).backfilling(10)).length, 0);
    const [before] = await claim(store, "one", nowMs);
    assertEquals(before.fromMs, hour(-30));
    assertEquals((await claim(other, "other", nowMs)).length, 0);
    await change(store, (all) => all.fail(before, "no", nowMs));
    // Late readings: the window again, whose result takes the place of the first.
    await noteLate(store, organizationId, hour(0) + 1, hour(0) + 2);
    await noteLate(store, organizationId, hour(1) + 1, hour(1) + 2);
    assertEquals(await change(store, (all) => all.scheduleLate(nowMs)), true);
    assertEquals(await change(store, (all) => all.scheduleLate(nowMs)), false);
    const [late] = await claim(store, "one", nowMs + 62_000);
    await change(store, (all) => all.complete(late, [document(4)], nowMs));
    assertEquals(await found(), [4]);
    const bytes = await store.query<{ bytes: number }>("SELECT bytes FROM stored_bytes WHERE kind = 'sinks'");
    assertEquals(bytes.map((one) => one.bytes), [document(4).length]);
    const runs = await new DataPipelines(store).runs(id, 0, 10);
    assertEquals(runs.map(({ status }) => status).sort(), [
      RUN_STATUS.completed,
      RUN_STATUS.completed,
      RUN_STATUS.failed,
      RUN_STATUS.failed,
    ]);
    await change(store, (all) => all.forgetRuns());
    await change(store, (all) => all.delete(id));
    assertEquals((await new DataPipelines(store).list(organizationId)).length, 0);
  },
);

sqliteTest("after a stop of weeks, the latest window does not wait for the others", async (database) => {
  const store = await database.open();
  const { organization: organizationId } = await newWorld(store, START_MS);
  const change = <T>(work: (all: DataPipelines) => Promise<T>) =>
    store.transaction((sql) => work(new DataPipelines(sql)));
  const made = {
    ...{ organizationId, name: "by the minute", schedule: "* * * * *", hasBackfill: false, sourceType: 1 },
    mql: AVERAGE.map((one) => serialize(one)),
  };
  await change((all) => all.create(made, hour(0)));
  const nowMs = hour(24);
  let steps = 0;
  for (let due; [due] = await new DataPipelines(store).due(nowMs, 10), due; steps++) {
    await change((all) => all.scheduleNext(due!, nowMs));
  }
  assert(steps < 10, `${steps} steps for the windows of a day`);
  const claim = async (newest: boolean) => {
    const times = { nowMs: nowMs + HOUR_MS, leaseMs: nowMs + 2 * HOUR_MS, newest };
    const [run] = await change((all) => all.claim(1, [], "one", times));
    await change((all) => all.complete(run, [], nowMs));
    return [run.fromMs, run.untilMs].map((ms) => (ms - hour(0)) / 60_000);
  };
  assertEquals(await claim(true), [24 * 60 - 1, 24 * 60]);
  assertEquals(await claim(false), [0, 1]);
  assertEquals(await claim(true), [24 * 60 - 2, 24 * 60 - 1]);
  const [{ count }] = await store.query<{ count: number }>("SELECT COUNT(*) AS count FROM pipeline_runs");
  assertEquals(count, 24 * 60);
});

storeTest(
  "a window keeps its results once retention has removed its readings",
  async (database) => {
    const store = await database.open();
    const { organization: organizationId } = await newWorld(store, START_MS);
    const change = <T>(work: (all: DataPipelines) => Promise<T>) =>
      store.transaction((sql) => work(new DataPipelines(sql)));
    const made = {
      ...{ organizationId, name: "hourly", schedule: "0 * * * *", hasBackfill: true, sourceType: 1 },
      mql: AVERAGE.map((one) => serialize(one)),
    };
    const id = await change((all) => all.create(made, hour(0)));
    const nowMs = hour(5);
    for (let due; [due] = await new DataPipelines(store).due(nowMs, 10), due;) {
      await change((all) => all.scheduleNext(due!, nowMs));
    }
    /** Computes the windows that are due, each with one document or none. */
    const compute = async (count: number, isEmpty: (run: PipelineRun) => boolean) => {
      const ends: string[] = [];
      for (;;) {
        const times = { nowMs: nowMs + DAY_MS, leaseMs: nowMs + 2 * DAY_MS };
        const [run] = await change((all) => all.claim(1, [], "one", times));
        if (!run) return ends.sort();
        await change((all) => all.complete(run, isEmpty(run) ? [] : [serialize({ count })], nowMs));
        const runs = await new DataPipelines(store).runs(id, 0, 20);
        const ended = runs.find((one) => one.id === run.id)!;
        ends.push(`${(run.fromMs - hour(0)) / HOUR_MS} ${ended.status} ${ended.error.split(":")[0]}`.trim());
      }
    };
    const found = async () => {
      const documents = (await Array.fromAsync(new DataPipelines(store).documents(id))).flat();
      return documents.map((one) => deserialize(one).count);
    };
    assertEquals(await compute(1, ({ fromMs }) => fromMs === hour(1)), [
      "0 3",
      "1 3",
      "2 3",
      "3 3",
      "4 3",
    ]);
    assertEquals(await found(), [1, 1, 1, 1]);

    // Readings of all windows arrive late, after those of the first three, and some of the fourth, are gone.
    await store.transaction((sql) => noteRemoved(sql, organizationId, (hour(3) + 60_000) * 1000));
    await store.transaction((sql) => noteRemoved(sql, organizationId, hour(1) * 1000));
    await noteLate(store, organizationId, hour(0), hour(5));
    await change((all) => all.scheduleLate(nowMs));
    const gone = "retention has removed readings of this window since it was computed";
    assertEquals(await compute(2, () => false), [
      `0 4 ${gone}`,
      "1 3",
      `2 4 ${gone}`,
      `3 4 ${gone}`,
      "4 3",
    ]);
    assertEquals(await found(), [1, 2, 1, 1, 2]);
    // Other organizations' pipelines are not concerned.
    const { organization: other } = await newWorld(store, START_MS);
    assertEquals(await lastRemovedUs(store, other), undefined);
  },
);

sqliteTest("saved queries are kept, begin other queries, and stay in their organization", (database) => {
  const limits = { ...defaultLimits(), savedQueriesPerOrganization: 1 };
  return withCloud(database, async (cloud) => {
    const [mine, theirs] = [await newWorld(cloud.store), await newWorld(cloud.store)];
    const { organization: organizationId } = mine;
    const [me, they] = [await person(cloud, mine), await person(cloud, theirs)];
    await me.readings(START_MS, 10, 20, 30);
    const refusal = (call: Promise<unknown>) =>
      call.then(() => "done", (error) => {
        const { code, message } = SvcError.from(error);
        return `${code}: ${message}`;
      });
    const warm = [serialize({ $match: { "data.readings.celsius": { $gt: 15 } } })];
    const { id } = await me.data.createSavedQuery({ organizationId, name: "warm", mqlBinary: warm });
    const count = { organizationId, mqlBinary: [serialize({ $count: "n" })], queryPrefixName: "warm" };
    const counted = async () => deserialize((await me.data.tabularDataByMQL(count)).rawData[0]).n;
    await me.data.updateSavedQuery({ id, name: "warmer" });
    await me.data.updateSavedQuery({ id, name: "warm" });
    assertEquals(await counted(), 2);
    const { savedQuery } = await me.data.getSavedQuery({ id });
    assertEquals([savedQuery?.name, savedQuery?.organizationId], ["warm", organizationId]);

    const hostile = [serialize({ $match: { $where: "while (true);" } })];
    const unsafe = me.data.createSavedQuery({ organizationId, name: "bad", mqlBinary: hostile });
    assertStringIncludes(await refusal(unsafe), "$where");
    assertStringIncludes(await refusal(they.data.getSavedQuery({ id })), "permission_denied");
    const foreign = { ...count, organizationId: theirs.organization };
    assertStringIncludes(await refusal(they.data.tabularDataByMQL(foreign)), "not_found");
    const third = me.data.createSavedQuery({ organizationId, name: "third", mqlBinary: warm });
    assertStringIncludes(await refusal(third), "saved_queries_per_organization");
    const { queries } = await me.data.listSavedQueries({ organizationId });
    assertEquals(queries.map(({ name }) => name), ["warm"]);
    await me.data.deleteSavedQuery({ id });
    assertStringIncludes(await refusal(me.data.tabularDataByMQL(count)), 'no saved query "warm"');

    const made = { organizationId, name: "daily", mqlBinary: warm, schedule: "0 0 * * *" };
    for (const wrong of [{ schedule: "daily" }, { name: "" }, { mqlBinary: [] }, { dataSourceType: 3 }]) {
      assertStringIncludes(
        await refusal(me.pipelines.createDataPipeline({ ...made, ...wrong })),
        "invalid_argument",
      );
    }
    const pipeline = await me.pipelines.createDataPipeline(made);
    // A pipeline of others is none.
    const dataSource = { type: TabularDataSourceType.PIPELINE_SINK, pipelineId: pipeline.id };
    const sink = they.data.tabularDataByMQL({
      organizationId: theirs.organization,
      mqlBinary: warm,
      dataSource,
    });
    assertStringIncludes(await refusal(sink), "not_found");
  }, { limits });
});
