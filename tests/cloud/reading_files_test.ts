/**
 * Readings that have moved into files: every reader finds each of them once, whatever moves, is removed, or breaks off
 * meanwhile.
 */

import { isDeepStrictEqual } from "node:util";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { deserialize, serialize } from "bson";
import { contentOptions } from "../../cli/cloud/serve/content.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { storedBy } from "../../lib/cloud/access/usage_report.ts";
import { Conditions, tabularConditions } from "../../lib/cloud/capture/filter.ts";
import { type DataOrigin, originIdOf } from "../../lib/cloud/capture/origins.ts";
import { payloadIn } from "../../lib/cloud/capture/payload.ts";
import { type Query, ReadingQueries } from "../../lib/cloud/data/queries/queries.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { TabularData, type TabularReading } from "../../lib/cloud/data/tabular_data.ts";
import { readingsAs } from "../../lib/cloud/exports/readings.ts";
import { ReadingMoves } from "../../lib/cloud/readings/mover.ts";
import { ReadingPacker } from "../../lib/cloud/readings/packer.ts";
import { ReadingRemoval } from "../../lib/cloud/readings/removal.ts";
import { setRetention } from "../../lib/cloud/capture/retention_policies.ts";
import { RetentionRunner } from "../../lib/cloud/retention/runner.ts";
import { neededFiles, releaseOrphans } from "../../lib/cloud/store/file_refs.ts";
import { lastInFiles, lastsOfFiles } from "../../lib/cloud/readings/lasts.ts";
import { openSandbox } from "../../lib/cloud/sandbox/sandbox.ts";
import type { FileStore } from "../../lib/cloud/store/files.ts";
import { ClockCheck } from "../../lib/cloud/store/clock_check.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import type { Sql, Store } from "../../lib/cloud/store/store.ts";
import { forgetTagLists } from "../../lib/cloud/store/tag_lists.ts";
import { TagsFilterType } from "../../proto/gen/data_pb.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { CONTENT, newWorld, type World } from "./world.ts";

const START_MS = Date.UTC(2026, 2, 15, 14);
const DAY_MS = 24 * 3600 * 1000;
const LIMITS = { readingsMin: 20, readingsMax: 60, bytesMax: 64 * 1024 };
const signal = new AbortController().signal;

interface Place {
  readonly store: Store;
  readonly files: FileStore;
  readonly world: World;
}

async function placeOf(database: TestDatabase): Promise<Place> {
  const store = await database.open();
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  return { store, files, world: await newWorld(store) };
}

function originOf({ organization, location, machine, part }: World, componentName: string): DataOrigin {
  return {
    organizationId: organization,
    locationId: location,
    machineId: machine,
    machineName: "rover",
    partId: part,
    partName: "rover-main",
    componentType: "rdk:component:sensor",
    componentName,
    methodName: "Readings",
    parameters: "{}",
  };
}

/** A reading of this minute; every third has the same time as another one, and some have numbers that JSON lacks. */
function readingAt(minute: number): TabularReading {
  const at = minute - (minute % 3 === 2 ? 1 : 0);
  const celsius = minute % 7 === 0 ? NaN : minute / 2;
  return {
    capturedUs: (START_MS + at * 60_000) * 1000 + 123,
    receivedUs: (START_MS + at * 60_000) * 1000 + 5_900,
    payload: { z: minute, readings: { celsius, list: [minute, "a\u0000b", null, { b: true, a: 1 }] } },
  };
}

function minutes(from: number, count: number): TabularReading[] {
  return Array.from({ length: count }, (_, index) => readingAt(from + index));
}

function add(
  { store, files, world }: Place,
  component: string,
  readings: readonly TabularReading[],
  tags: string[] = [],
) {
  return storeReadings({ store, files }, originOf(world, component), readings, tags, START_MS);
}

async function move({ store, files }: Pick<Place, "store" | "files">): Promise<void> {
  const clock = new SystemClock();
  const logger = silentLogs(clock).logger("cloud");
  await store.transaction((sql) => sql.query("UPDATE reading_moves SET next_ms = 0"));
  await new ReadingMoves({ store, files, clock, logger, packer: packerOf() }, LIMITS).run(signal);
}

function packerOf(): ReadingPacker {
  return new ReadingPacker(new SystemClock(), undefined);
}

/** How many readings are in the table, and in how many files how many are. */
async function placesOf(store: Store): Promise<readonly number[]> {
  const [{ own }] = await store.query<{ own: number }>("SELECT COUNT(*) AS own FROM tabular_data");
  const [{ files, moved }] = await store.query<{ files: number; moved: number }>(
    "SELECT COUNT(*) AS files, CAST(COALESCE(SUM(readings), 0) AS BIGINT) AS moved FROM reading_files",
  );
  return [own, files, moved];
}

/** The same readings, whatever order their members have. */
function minuteOf(one: { readonly payload: { readonly [name: string]: unknown } }): number {
  return Number(one.payload.z);
}

/** What each reader finds. */
async function everything({ store, files, world }: Place) {
  const data = new TabularData(store, files);
  const all = () => new Conditions().only("o.organization_id = ?", world.organization);
  const found: Record<string, unknown> = {};
  for (const order of ["oldest first", "newest first"] as const) {
    for (const limit of [7, 1_000]) {
      const pages: unknown[] = [];
      for (let last = "";;) {
        const page = await data.page(all(), { limit, order, last });
        pages.push(...page.readings);
        if ((last = page.last) === "") break;
      }
      found[`${order} by ${limit}`] = pages;
    }
  }
  for (const [from, until] of [[0, 1_000], [30, 90], [31, 31], [500, 600]]) {
    const times = {
      fromUs: (START_MS + from * 60_000) * 1000,
      untilUs: (START_MS + until * 60_000) * 1000 + 999,
    };
    found[`count ${from} ${until}`] = await data.count(all().within("captured", times));
    found[`received ${from} ${until}`] = await data.count(all().within("received", times));
    const last = await lastInFiles(
      store,
      world.organization,
      times.fromUs,
      await lastsOfFiles(store, files, world.organization, times.fromUs),
    );
    const own = await store.query<{ us: number | null }>(
      "SELECT MAX(captured_us) AS us FROM tabular_data WHERE captured_us < ?",
      times.fromUs,
    );
    found[`last before ${from}`] = Math.max(last ?? -1, own[0].us ?? -1);
  }
  for (const resourceName of ["thermo", "wind", "none"]) {
    const query = { partId: world.part, resourceName, resourceSubtype: "sensor", methodName: "Readings" };
    found[`latest ${resourceName}`] = await data.latest(query);
    found[`exported ${resourceName}`] = await Array.fromAsync(
      data.export({ ...query, fromMs: START_MS + 10 * 60_000 }),
    );
  }
  const tagged = (tags: string[]) =>
    tabularConditions({ tagsFilter: { type: TagsFilterType.MATCH_BY_OR, tags } as never }, [
      { kind: "organization", resourceId: world.organization, role: "owner" } as never,
    ]);
  found.tagged = [
    await data.count(tagged(["a"])),
    await data.count(tagged(["b"])),
    await data.count(tagged(["c"])),
  ];
  const sources = all();
  const pieces = await Array.fromAsync(
    readingsAs("jsonl", store, { files, sources, captured: {} }, () => {}),
  );
  const lines = new TextDecoder().decode(await new Blob(pieces as Uint8Array<ArrayBuffer>[]).arrayBuffer());
  found.lines = lines.trim().split("\n").sort();
  found.usage = (await storedBy(store, world.organization)).find(({ kind }) => kind === "readings");
  return found;
}

/** Names the readers that find something else by now. */
async function assertUnchanged(place: Place, before: Record<string, unknown>): Promise<void> {
  const now = await everything(place);
  assertEquals(Object.keys(before).filter((reader) => !isDeepStrictEqual(now[reader], before[reader])), []);
}

storeTest("each reader finds the same readings before they move and after", async (database) => {
  const place = await placeOf(database);
  const { store, files } = place;
  await add(place, "thermo", minutes(0, 130), ["a", "b"]);
  await add(place, "wind", minutes(40, 50));
  await add(place, "rare", minutes(0, 5), ["c"]);
  const before = await everything(place);
  assertEquals((before["oldest first by 7"] as unknown[]).length, 185);

  await move(place);
  // 60, 60 and 50; ten of the first source, and those of the last one, are too few.
  assertEquals(await placesOf(store), [15, 3, 170]);
  await assertUnchanged(place, before);
  await forgetTagLists(store);
  await assertUnchanged(place, before);

  // Some of these are late: their times are among those of files.
  await add(place, "thermo", minutes(200, 30), ["a"]);
  await add(place, "wind", [...minutes(20, 40), ...minutes(140, 5)]);
  const later = await everything(place);
  assertEquals((later["oldest first by 1000"] as unknown[]).length, 185 + 30 + 25);
  await move(place);
  await assertUnchanged(place, later);
  assertEquals((await placesOf(store)).reduce((sum, one, at) => at === 1 ? sum : sum + one), 240);

  // Each content is in use, and each is a file that other programs read.
  assertEquals(
    (await neededFiles(store)).sort(),
    (await Array.fromAsync(files.list({ olderThanMs: Infinity }))).sort(),
  );
});

/** Answers of queries in both languages. */
async function answers({ store, files, world }: Place) {
  const queries = new ReadingQueries(store, files, CONTENT);
  const of = (query: Query) => queries.run([world.organization, "x"], query, signal);
  const sql = async (text: string) =>
    (await of({ sql: text })).map((one) => deserialize(one, { promoteValues: true })).map((one) =>
      JSON.stringify(one)
    );
  const mql = async (...stages: object[]) =>
    (await of({ mql: stages.map((stage) => serialize(stage)) })).map((one) =>
      JSON.stringify(deserialize(one))
    );
  const at = (minute: number) => new Date(START_MS + minute * 60_000);
  const found = {
    counted: await sql(
      "SELECT component_name, tags, COUNT(*) AS n, MAX(time_received) AS last FROM readings GROUP BY ALL ORDER BY ALL",
    ),
    summed: await sql(
      `SELECT component_name, AVG(data.readings.celsius) AS mean, SUM(data.z) AS sum FROM readings
       WHERE time_requested >= TIMESTAMP '${
        at(30).toISOString().slice(0, 19)
      }' AND part_id = '${world.part}' GROUP BY ALL ORDER BY ALL`,
    ),
    joined: await sql(
      `SELECT a.data.z AS z, b.data.z AS other FROM readings a JOIN readings b ON a.time_requested = b.time_requested
       WHERE a.component_name = 'thermo' AND b.component_name = 'wind' ORDER BY ALL`,
    ),
    found: await mql(
      { $match: { component_name: "thermo", time_requested: { $gte: at(20), $lt: at(70) } } },
      { $sort: { "data.z": 1 } },
      { $project: { time_requested: 1, time_received: 1, tags: 1, data: 1 } },
    ),
    grouped: await mql({ $group: { _id: "$component_name", n: { $sum: 1 } } }, { $sort: { _id: 1 } }),
  };
  await queries.close();
  return found;
}

storeTest("queries find readings in files, in SQL and in MQL", async (database) => {
  const place = await placeOf(database);
  await add(place, "thermo", minutes(0, 130), ["a", "b"]);
  await add(place, "wind", minutes(40, 50));
  const other = { ...place, world: await newWorld(place.store) };
  await add(other, "thermo", minutes(0, 60));
  const before = await answers(place);
  assertEquals(before.grouped, ['{"_id":"thermo","n":130}', '{"_id":"wind","n":50}']);
  await move(place);
  assertEquals(await placesOf(place.store), [10, 4, 230]);
  assertEquals(await answers(place), before);
});

storeTest("a query in SQL takes over a process of its own key, with an empty database", async (database) => {
  const place = await placeOf(database);
  await add(place, "thermo", minutes(0, 60));
  await move(place);
  const other = { ...place, world: await newWorld(place.store) };
  await add(other, "wind", minutes(0, 40));
  await move(other);
  const host = new DenoHost();
  let [started, killedAtWrite] = [0, false];
  host.pipe = (command) => {
    const process = DenoHost.prototype.pipe.call(host, command);
    const isFirst = ++started === 1;
    return {
      ...process,
      signal: process.signal.bind(process),
      write: (bytes) => {
        if (isFirst && killedAtWrite) process.signal("SIGKILL", { group: true });
        return process.write(bytes);
      },
    };
  };
  const workFolder = `${database.folder}/data/work`;
  const sandbox = await openSandbox(host, new SystemClock(), [`${database.folder}/data`]);
  const confined = typeof sandbox === "string" ? {} : { sandbox };
  const queries = new ReadingQueries(
    place.store,
    place.files,
    contentOptions({ ...CONTENT, ...confined, host, workFolder }),
  );
  const counted = async ({ world }: Place, key: string) => {
    const sql = "SELECT component_name AS name, COUNT(*) AS n FROM readings GROUP BY ALL";
    return (await queries.run([world.organization, key], { sql }, signal)).map((one) => deserialize(one));
  };
  try {
    for (let round = 0; round < 3; round++) {
      assertEquals(await counted(place, "mine"), [{ name: "thermo", n: 60 }]);
    }
    assertEquals(started, 1);
    // The end of a process that waited is no verdict on the query.
    killedAtWrite = true;
    assertEquals(await counted(place, "mine"), [{ name: "thermo", n: 60 }]);
    started--;
    assertEquals(started, 1);
    assertEquals(await counted(place, "another key"), [{ name: "thermo", n: 60 }]);
    assertEquals(started, 2);
    assertEquals(await counted(other, "mine"), [{ name: "wind", n: 40 }]);
    assertEquals(started, 3);
    // Processes that wait see no readings: whatever is removed now is nowhere any more.
    const folders = await Array.fromAsync(Deno.readDir(workFolder));
    assert(folders.length > 0);
    for (const { name } of folders) {
      // A process that has waited long enough ends, and its folder with it.
      const content = Array.fromAsync(Deno.readDir(`${workFolder}/${name}`)).catch((error) => {
        if (error instanceof Deno.errors.NotFound) return [];
        throw error;
      });
      assertEquals(await content, []);
    }

    // Whatever a query leaves is not there for the next one, and a refused query leaves no process.
    await assertRejects(() => queries.run([place.world.organization, "another key"], { sql: "NO" }, signal));
    await counted(place, "another key");
    assertEquals(started, 4);
    const mql = [serialize({ $count: "n" })];
    for (let round = 0; round < 2; round++) {
      const [all] = await queries.run([place.world.organization, "another key"], { mql }, signal);
      assertEquals(deserialize(all), { n: 60 });
    }
    assertEquals(started, 6);
  } finally {
    await queries.close();
  }
  assertEquals(await Array.fromAsync(Deno.readDir(workFolder)), []);
});

storeTest("a reading that arrives again is the one in the file", async (database) => {
  const place = await placeOf(database);
  await add(place, "thermo", minutes(0, 60));
  await move(place);
  assertEquals(await placesOf(place.store), [0, 1, 60]);
  const before = await everything(place);
  // In another order of names, with another one that is new.
  const again = minutes(0, 60).map(({ payload: { z, readings }, ...one }) => ({
    ...one,
    payload: { readings, z },
  }));
  await add(place, "thermo", again);
  await assertUnchanged(place, before);
  await add(place, "thermo", [...again, readingAt(61)]);
  assertEquals(await placesOf(place.store), [1, 1, 60]);
});

storeTest("a scan finds each reading once while others move", async (database) => {
  const place = await placeOf(database);
  const { store, files, world } = place;
  // More than one page of the table.
  for (const from of [0, 400, 800]) await add(place, "thermo", minutes(from, 400));
  const clock = new SystemClock();
  const parts = { store, files, clock, logger: silentLogs(clock).logger("cloud"), packer: packerOf() };
  const sources = new Conditions().only("o.organization_id = ?", world.organization);
  const found: number[] = [];
  let batches = 0;
  for await (const { rows } of new TabularData(store, files).scan(sources, { captured: {}, received: {} })) {
    found.push(...rows.map(({ capturedUs }) => capturedUs));
    if (++batches > 2) continue;
    // Files with readings of the page before, and of the next one.
    await store.transaction((sql) => sql.query("UPDATE reading_moves SET next_ms = 0"));
    await new ReadingMoves(parts, { ...LIMITS, readingsMax: 90, readingsMin: 700 - 300 * batches }).run(
      signal,
    );
  }
  assertEquals(found.length, 1_200);
  assertEquals(
    found.toSorted((a, b) => a - b),
    minutes(0, 1_200).map(({ capturedUs }) => capturedUs).toSorted((a, b) => a - b),
  );

  // A page after the other, too.
  const place2 = { ...place, world: await newWorld(store) };
  await add(place2, "thermo", minutes(0, 300));
  const walked: number[] = [];
  const all = () => new Conditions().only("o.organization_id = ?", place2.world.organization);
  for (let last = "", pages = 0;; pages++) {
    const page = await new TabularData(store, files).page(all(), { limit: 40, order: "newest first", last });
    walked.push(...page.readings.map(minuteOf));
    if ((last = page.last) === "") break;
    if (pages === 2) await move(place2);
  }
  assertEquals(walked.toSorted((a, b) => a - b), Array.from({ length: 300 }, (_, minute) => minute));
});

storeTest(
  "a scan of many sources finds each reading once, whichever statement they move after",
  async (database) => {
    const place = await placeOf(database);
    const { store, files } = place;
    for (let movedAfter = 1, isOver = false; !isOver; movedAfter++) {
      const world = await newWorld(store);
      const here = { ...place, world };
      // In a file alone, in a file and in the table, in the table alone, and one without readings of these times.
      await add(here, "barometer", minutes(0, 60));
      await add(here, "hygrometer", minutes(0, 60));
      await move(here);
      await add(here, "hygrometer", minutes(60, 25));
      await add(here, "thermometer", minutes(0, 40));
      await add(here, "late", minutes(10_000, 1));

      let statements = 0;
      const sql: Sql = {
        query: async (text, ...values) => {
          const rows = await store.query(text, ...values);
          if (++statements === movedAfter) await move(here);
          return rows as never;
        },
      };
      const sources = new Conditions().only("o.organization_id = ?", world.organization);
      const captured = { untilUs: readingAt(1_000).capturedUs };
      const found = new Map<string, number[]>();
      for await (const part of new TabularData(sql, files).scan(sources, { captured, received: {} })) {
        const minutesOf = part.rows.map(({ payload }) => minuteOf({ payload: payloadIn(payload) }));
        found.set(part.origin.componentName, [
          ...found.get(part.origin.componentName) ?? [],
          ...minutesOf,
        ]);
      }

      const all = (count: number) => Array.from({ length: count }, (_, minute) => minute);
      const sorted = [...found].map(([name, some]) => [name, some.toSorted((a, b) => a - b)] as const);
      assertEquals(
        new Map(sorted),
        new Map([["barometer", all(60)], ["hygrometer", all(85)], ["thermometer", all(40)]]),
        `moved after statement ${movedAfter}`,
      );
      isOver = statements < movedAfter;
    }
  },
);

storeTest("a crash at any point of a move leaves each reading once", async (database) => {
  const place = await placeOf(database);
  const { store, files } = place;
  await add(place, "thermo", minutes(0, 60));
  const before = await everything(place);
  const contents = async () => (await Array.fromAsync(files.list({ olderThanMs: Infinity }))).length;
  const stopped = new SvcError("unavailable", "here the program was killed");

  // Between the content and the transaction: nobody cleans up.
  const dead = (name: string): FileStore =>
    new Proxy(files, {
      get(target, key) {
        if (key === "receive" && name === "receive") {
          return async (...all: Parameters<FileStore["receive"]>) => {
            await target.put(...all);
            throw stopped;
          };
        }
        if (key === "receive" && name === "keep") {
          return async (...all: Parameters<FileStore["receive"]>) => {
            return { ...await target.receive(...all), keep: () => Promise.reject(stopped) };
          };
        }
        if (key === "removeUnless") return () => Promise.reject(stopped);
        const value = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  await assertRejects(() => move({ store, files: dead("receive") }), SvcError, "killed");
  assertEquals([await placesOf(store), await contents()], [[60, 0, 0], 1]);
  await assertUnchanged(place, before);
  await releaseOrphans(store, files, Infinity, signal);
  assertEquals(await contents(), 0);

  // Right after the transaction.
  await assertRejects(() => move({ store, files: dead("keep") }), SvcError, "killed");
  assertEquals([await placesOf(store), await contents()], [[0, 1, 60], 1]);
  await assertUnchanged(place, before);
  await releaseOrphans(store, files, Infinity, signal);
  await assertUnchanged(place, before);

  // Between the new content of a file and the end of the old one.
  const removal = new ReadingRemoval({ store, files: dead("removeUnless"), packer: packerOf() });
  const some = new Conditions().only("o.organization_id = ?", place.world.organization)
    .within("captured", { untilUs: readingAt(29).capturedUs });
  await assertRejects(
    () => removal.remove(some, ["x"], signal, (work) => store.transaction(work)),
    SvcError,
    "killed",
  );
  assertEquals([await placesOf(store), await contents()], [[0, 1, 30], 2]);
  await releaseOrphans(store, files, Infinity, signal);
  assertEquals(await contents(), 1);
  const left = await new TabularData(store, files).page(new Conditions(), {
    limit: 99,
    order: "oldest first",
    last: "",
  });
  assertEquals(
    left.readings.map(minuteOf).sort((a, b) => a - b),
    Array.from({ length: 30 }, (_, at) => 30 + at),
  );
});

storeTest(
  "readings that are removed while they move are gone, and two that move the same do it once",
  async (database) => {
    const place = await placeOf(database);
    const { store, files } = place;
    await add(place, "thermo", minutes(0, 60));
    const gone = new Conditions().within("captured", { untilUs: readingAt(2).capturedUs });
    const removing: FileStore = new Proxy(files, {
      get(target, key) {
        if (key === "receive") {
          return async (...all: Parameters<FileStore["receive"]>) => {
            await store.transaction((sql) => new TabularData(sql).remove(gone, 10));
            return await target.receive(...all);
          };
        }
        const value = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    await move({ store, files: removing });
    const [own, , moved] = await placesOf(store);
    assertEquals(own + moved, 57);

    const other = { ...place, world: await newWorld(store) };
    await add(other, "thermo", minutes(0, 60));
    const second = await database.open();
    // It moves all of it while the first one has its file ready.
    let hasMoved = false;
    const overtaken: FileStore = new Proxy(files, {
      get(target, key) {
        if (key === "receive") {
          return async (...all: Parameters<FileStore["receive"]>) => {
            if (!hasMoved) {
              hasMoved = true;
              await move({ store: second, files });
            }
            return await target.receive(...all);
          };
        }
        const value = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    await move({ store, files: overtaken });
    const all = new Conditions().only("o.organization_id = ?", other.world.organization);
    assertEquals((await new TabularData(store, files).count(all)).count, 60);
    const page = await new TabularData(store, files).page(all, {
      limit: 99,
      order: "oldest first",
      last: "",
    });
    assertEquals(
      page.readings.map(minuteOf).sort((a, b) => a - b),
      Array.from({ length: 60 }, (_, minute) => minute),
    );
  },
);

storeTest("what is removed is gone from files and their contents, and nothing else is", async (database) => {
  const place = await placeOf(database);
  const { store, files, world } = place;
  await add(place, "thermo", minutes(0, 120), ["a"]);
  await add(place, "wind", minutes(0, 60), ["b"]);
  await move(place);
  assertEquals(await placesOf(store), [0, 3, 180]);
  const removal = new ReadingRemoval({ store, files, packer: packerOf() });
  const remove = (found: Conditions) =>
    removal.remove(found, ["x"], signal, (work) => store.transaction(work));
  const all = () => new Conditions().only("o.organization_id = ?", world.organization);
  const count = async () => (await new TabularData(store, files).count(all())).count;

  // One file whole, and a part of the next.
  const untilUs = readingAt(69).capturedUs;
  const thermo = () => all().only("o.component_name = ?", "thermo");
  const gone = (await new TabularData(store, files).count(thermo().within("captured", { untilUs }))).count;
  assertEquals(await remove(thermo().within("captured", { untilUs })), gone);
  assertEquals(await count(), 180 - gone);
  assertEquals(await remove(thermo().within("captured", { untilUs })), 0);
  assertEquals(await Array.fromAsync(files.list({ olderThanMs: Infinity })).then((found) => found.length), 2);
  const stored = (await storedBy(store, world.organization)).find(({ kind }) => kind === "readings")!;
  assertEquals([stored.rows, stored.bytes], Object.values(await new TabularData(store, files).count(all())));

  assertEquals(await remove(all().only("d.tags = ?", '["b"]')), 60);
  assertEquals(await remove(all()), 120 - gone);
  assertEquals(await placesOf(store), [0, 0, 0]);
  assertEquals(await Array.fromAsync(files.list({ olderThanMs: Infinity })), []);
  const [{ bytes }] = await store.query<{ bytes: number }>(
    "SELECT CAST(SUM(bytes) AS BIGINT) AS bytes FROM stored_bytes WHERE owner_id = ?",
    originIdOf(originOf(world, "thermo")),
  );
  assertEquals(bytes, 0);
});

storeTest(
  "sources with the same readings share contents, which stay until the last of them has lost its readings",
  async (database) => {
    const place = await placeOf(database);
    const { store, files, world } = place;
    const removal = new ReadingRemoval({ store, files, packer: packerOf() });
    const of = (component: string) =>
      new Conditions().only("o.organization_id = ?", world.organization).only(
        "o.component_name = ?",
        component,
      );
    const remove = (found: Conditions) =>
      removal.remove(found, ["x"], signal, (work) => store.transaction(work));
    const contents = async () => (await Array.fromAsync(files.list({ olderThanMs: Infinity }))).length;
    const readable = async (component: string) => {
      const selection = { files, sources: of(component), captured: {} };
      const pieces = await Array.fromAsync(readingsAs("jsonl", store, selection, () => {}));
      return (await new Blob(pieces as Uint8Array<ArrayBuffer>[]).text()).split("\n").length - 1;
    };

    for (const component of ["thermo", "wind", "rain"]) await add(place, component, minutes(0, 60));
    await move(place);
    assertEquals([await placesOf(store), await contents()], [[0, 3, 180], 1]);
    // A rewritten content is that of another source before, and after it.
    const untilUs = readingAt(29).capturedUs;
    const some = await remove(of("thermo").within("captured", { untilUs }));
    assertEquals([await readable("thermo"), await readable("wind"), await contents()], [60 - some, 60, 2]);
    await remove(of("wind").within("captured", { untilUs }));
    assertEquals([await readable("thermo"), await readable("wind"), await contents()], [
      60 - some,
      60 - some,
      2,
    ]);
    await remove(of("thermo"));
    assertEquals([await readable("wind"), await readable("rain"), await contents()], [60 - some, 60, 2]);
    await remove(of("wind"));
    assertEquals([await readable("rain"), await contents()], [60, 1]);
    await remove(of("rain"));
    assertEquals(await contents(), 0);
  },
);

storeTest("retention reaches readings in files, by age and by size, the oldest first", async (database) => {
  const place = await placeOf(database);
  const { store, files, world } = place;
  const clock = new FakeClock(START_MS + 100 * DAY_MS - 3_600_000);
  const onDays = (from: number, count: number) =>
    Array.from({ length: count }, (_, index): TabularReading => ({
      capturedUs: (START_MS + (from + index) * DAY_MS) * 1000,
      receivedUs: 0,
      payload: { z: from + index },
    }));
  await add(place, "thermo", onDays(0, 90));
  await move(place);
  // Late ones, older than any in a file, and newer ones.
  await add(place, "thermo", [...onDays(-3, 3), ...onDays(90, 5)]);
  assertEquals(await placesOf(store), [8, 2, 90]);
  const logger = silentLogs(clock).logger("cloud");
  const all = new Conditions().only("o.organization_id = ?", world.organization);
  const left = async () => {
    const page = await new TabularData(store, files).page(all, {
      limit: 999,
      order: "oldest first",
      last: "",
    });
    return page.readings.map(minuteOf);
  };
  const kept = async (retention: { days?: number; tabularBytes?: number }, first: number) => {
    await store.transaction((sql) => setRetention(sql, world.organization, retention));
    const runner = new RetentionRunner({
      ...{ store, files, clock, logger, clockCheck: new ClockCheck({ store, clock, logger }) },
      ...{ audit: new Audit(store, clock), packer: new ReadingPacker(clock, undefined) },
    });
    try {
      await until(async () => (await left())[0] === first, {
        meanwhile: moving(clock, 1_000),
        found: () => "",
      });
    } finally {
      await runner.close();
    }
    const now = await left();
    assertEquals(now, Array.from({ length: 95 - first }, (_, at) => first + at));
  };
  // From day 40 on, an hour before its reading.
  await kept({ days: 60 }, 40);
  const { bytes } = await new TabularData(store, files).count(all);
  await kept({ tabularBytes: Math.ceil(bytes / 55 * 20) }, 75);
  await kept({ tabularBytes: Math.ceil(bytes / 55 * 3) }, 92);
  assert((await placesOf(store))[1] === 0);
});
