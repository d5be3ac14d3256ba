/**
 * How long captured data is kept: by age and by size, of an organization and of a collector, oldest first.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { BinaryData } from "../../lib/cloud/data/binary_data.ts";
import { Datasets } from "../../lib/cloud/data/datasets.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { TabularData } from "../../lib/cloud/data/tabular_data.ts";
import {
  collectorsIn,
  GB_BYTES,
  hasCollectors,
  keepCollectors,
  lastRemovedUs,
  setRetention,
} from "../../lib/cloud/capture/retention_policies.ts";
import { ReadingMoves } from "../../lib/cloud/readings/mover.ts";
import { ReadingPacker } from "../../lib/cloud/readings/packer.ts";
import { RetentionRunner } from "../../lib/cloud/retention/runner.ts";
import { ClockCheck } from "../../lib/cloud/store/clock_check.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newWorld, type World } from "./world.ts";

const NOW_MS = Date.parse("2026-03-15T12:00:00Z");
const DAY_MS = 24 * 3600 * 1000;

Deno.test("the retention of collectors is read from the published settings", () => {
  const methods = (...capture_methods: object[]) => ({
    service_configs: [{ type: "data_manager", attributes: { capture_methods } }],
  });
  const policy = (retention_policy: object, more = {}) => ({ method: "Readings", retention_policy, ...more });
  assertEquals(
    collectorsIn({
      components: [
        { name: "a", ...methods(policy({ days: 5 })) },
        { name: "b", ...methods(policy({ binary_limit_gb: 2, tabular_limit_gb: 0.5 })) },
        { name: "c", ...methods({ method: "Readings" }, policy({ days: -1 }), policy({ days: "x" })) },
        { name: "d", service_configs: [{ type: "other", attributes: {} }, 7, { type: "data_manager" }] },
        "nothing",
      ],
      services: [
        // The name that it had before.
        { name: "e", ...methods(policy({ days: 1 }, { name: "rdk:service:vision/old" })) },
      ],
      remotes: [
        {
          name: "kitchen",
          prefix: "k-",
          ...methods(policy({ days: 2 }, { name: "rdk:component:sensor/s" })),
        },
        {
          name: "cellar",
          ...methods(policy({ days: 3 }, { name: "rdk:component:sensor/s" }), policy({ days: 4 })),
        },
      ],
    } as never),
    [
      {
        componentName: "a",
        methodName: "Readings",
        days: 5,
        binaryBytes: undefined,
        tabularBytes: undefined,
      },
      {
        componentName: "b",
        methodName: "Readings",
        days: undefined,
        binaryBytes: 2 * GB_BYTES,
        tabularBytes: GB_BYTES / 2,
      },
      {
        componentName: "e",
        methodName: "Readings",
        days: 1,
        binaryBytes: undefined,
        tabularBytes: undefined,
      },
      {
        componentName: "k-s",
        methodName: "Readings",
        days: 2,
        binaryBytes: undefined,
        tabularBytes: undefined,
      },
      {
        componentName: "s",
        methodName: "Readings",
        days: 3,
        binaryBytes: undefined,
        tabularBytes: undefined,
      },
    ],
  );
  assertEquals(collectorsIn({ components: "x", services: null } as never), []);
});

Deno.test("a part and a resource have a retention of all that they capture", () => {
  const config = (retention_policy: unknown, ...capture_methods: object[]) => ({
    service_configs: [{ type: "data_manager", attributes: { retention_policy, capture_methods } }],
  });
  const readings = { method: "Readings" };
  const found = collectorsIn({
    data_retention_policy: { days: 30, binary_limit_gb: 1 },
    components: [
      { name: "a", ...config({ days: 5 }, readings, { method: "DoCommand", retention_policy: { days: 2 } }) },
      { name: "b", ...config({ binary_limit_gb: 2 }) },
      { name: "c", ...config("x", readings) },
    ],
    remotes: [{
      name: "far",
      prefix: "k-",
      ...config({ days: 9 }, { ...readings, name: "rdk:component:sensor/s" }),
    }],
  } as never).map(({ componentName, methodName, days, binaryBytes }) => [
    componentName,
    methodName,
    days,
    binaryBytes,
  ]);
  assertEquals(found, [
    ["", "", 30, undefined],
    ["a", "", 5, undefined],
    ["a", "DoCommand", 2, undefined],
    ["b", "", undefined, 2 * GB_BYTES],
    ["k-s", "", 9, undefined],
  ]);
  for (const wrong of [7, "30", null, { days: 0 }, { days: -1 }, [30]]) {
    assertEquals(collectorsIn({ data_retention_policy: wrong } as never), []);
  }
});

storeTest(
  "the retention of a part removes nothing of other parts, and the shortest one holds",
  async (database) => {
    const store = await database.open();
    const clock = new FakeClock(NOW_MS);
    const [mine, others] = [await newWorld(store), await newWorld(store)];
    const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
    for (const world of [mine, others]) {
      for (const name of ["thermo", "wind"]) await addReadings(store, world, name, 1, 6, 20);
    }
    const retentions = [
      { componentName: "", methodName: "", days: 10 },
      { componentName: "wind", methodName: "", days: 3 },
      { componentName: "wind", methodName: "Readings", days: 8 },
    ];
    await store.transaction((sql) => keepCollectors(sql, mine.part, retentions));
    const described = await svcCloud("retention", "--org", mine.organization, ...database.flags);
    assertStringIncludes(
      described,
      "\neverything of part rover-main: 10 days\nwind of part rover-main: 3 days\n",
    );
    const logger = silentLogs(clock).logger("cloud");
    const runner = new RetentionRunner({
      ...{ store, files, clock, logger },
      clockCheck: new ClockCheck({ store, clock, logger }),
      audit: new Audit(store, clock),
      packer: new ReadingPacker(clock, undefined),
    });
    const left = async () => {
      const counts = [mine, others].flatMap(({ part }) => ["thermo", "wind"].map((name) => ({ part, name })));
      const all = counts.map(async ({ part, name }) => {
        const found = new Conditions().is("o.part_id", part).is("o.component_name", name);
        return (await new TabularData(store).count(found)).count;
      });
      return (await Promise.all(all)).join();
    };
    try {
      await until(async () => await left() === "2,1,3,3", { meanwhile: moving(clock, 1_000) });
    } finally {
      await runner.close();
    }
  },
);

function originOf({ organization, part, machine }: World, componentName: string) {
  return {
    organizationId: organization,
    locationId: "",
    machineId: machine,
    machineName: "rover",
    partId: part,
    partName: "rover-main",
    componentType: "sensor",
    componentName,
    methodName: "Readings",
    parameters: "{}",
  };
}

/** Readings of this many days ago. */
function addReadings(
  store: Store,
  world: World,
  component: string,
  ...days: readonly number[]
): Promise<string> {
  const readings = days.map((ago) => ({
    capturedUs: (NOW_MS - ago * DAY_MS) * 1000,
    receivedUs: 0,
    payload: { ago },
  }));
  return storeReadings({ store }, originOf(world, component), readings, [], NOW_MS);
}

storeTest(
  "what is past its retention goes, oldest first, into the audit log, and nothing else",
  async (database) => {
    const store = await database.open();
    const clock = new FakeClock(NOW_MS);
    const [mine, others] = [await newWorld(store), await newWorld(store)];
    const { organization: id } = mine;
    await addReadings(store, mine, "thermo", 1, 5, 20, 40, 50);
    await addReadings(store, mine, "wind", 1, 5, 20);
    await addReadings(store, others, "thermo", 400);
    const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
    const image = async (ago: number) => {
      const file = await files.put(async function* () {
        yield new Uint8Array(100).fill(ago);
      }());
      const labels = { tags: [], datasetIds: [], boxes: [], classifications: [] };
      const about = { fileName: "", fileExt: ".jpg", mimeType: "image/jpeg", ...labels };
      const upload = { origin: originOf(mine, "cam"), capturedUs: (NOW_MS - ago * DAY_MS) * 1000, ...about };
      return await store.transaction((sql) => new BinaryData(sql).add(upload, file, NOW_MS));
    };
    const images = [await image(1), await image(35), await image(45)];
    const dataset = await store.transaction((sql) => new Datasets(sql).create(id, "kept", "images", 0));
    await store.transaction((sql) => new Datasets(sql).add(dataset, [images[1]]));

    await svcCloud("retention", "--org", id, "--days", "30", ...database.flags);
    const collectors = [{ componentName: "wind", methodName: "Readings", days: 10 }];
    await store.transaction((sql) => keepCollectors(sql, mine.part, collectors));
    assertEquals(await hasCollectors(store, mine.part, collectors), true);
    const described = await svcCloud("retention", "--org", id, ...database.flags);
    assertStringIncludes(described, ": 30 days\nwind Readings of part");

    const logger = silentLogs(clock).logger("cloud");
    const runner = new RetentionRunner({
      ...{ store, files, clock, logger },
      clockCheck: new ClockCheck({ store, clock, logger }),
      audit: new Audit(store, clock),
      packer: new ReadingPacker(clock, undefined),
    });
    const counts = async (world: World, component: string) => {
      const found = new Conditions().only("o.part_id = ?", world.part).only(
        "o.component_name = ?",
        component,
      );
      return (await new TabularData(store).count(found)).count;
    };
    const left = async () =>
      [
        await counts(mine, "thermo"),
        await counts(mine, "wind"),
        (await new BinaryData(store).count(new Conditions())).count,
      ].join();
    const meanwhile = moving(clock, 1_000);
    try {
      await until(async () => await left() === "3,2,2", { meanwhile, found: () => "" });
      assertEquals(await counts(others, "thermo"), 1);
      assertEquals(await lastRemovedUs(store, id), (NOW_MS - 20 * DAY_MS) * 1000);
      // The content of the image that is gone is gone; those in datasets stay.
      assertEquals((await Array.fromAsync(files.list({ olderThanMs: Infinity }))).length, 2);
      const audited = await svcCloud("audit", "--who", "svc-cloud", "--json", ...database.flags);
      for (const what of ["removed 2 readings", 'removed 1 reading"', 'removed 1 image or file"']) {
        assertStringIncludes(audited, what);
      }

      // A size: the oldest go until the rest fits.
      const [{ bytes }] = await store.query<{ bytes: number }>(
        "SELECT MAX(LENGTH(payload)) AS bytes FROM tabular_data",
      );
      await store.transaction((sql) => setRetention(sql, id, { tabularBytes: 3 * bytes, binaryBytes: 150 }));
      await until(async () => await left() === "2,1,1" || await left() === "1,2,1", { meanwhile });
      await store.transaction((sql) => setRetention(sql, id, {}));
      await assertRejects(() =>
        svcCloud("retention", "--org", id, "--off", "--days", "1", ...database.flags)
      );
      await assertRejects(() => svcCloud("retention", "--org", id, "--days", "-1", ...database.flags));
    } finally {
      await runner.close();
    }
    const usage = JSON.parse(await svcCloud("usage", "--org", id, "--json", ...database.flags)).usage;
    const rows = Object.fromEntries(usage.map((one: { kind: string; rows: number }) => [one.kind, one.rows]));
    assertEquals([rows.readings, rows.files, rows.logs, rows["pipeline results"]], [3, 1, 0, 0]);
  },
);

storeTest(
  "what a machine captured whose clock was ahead is kept as long as what came with it",
  async (database) => {
    const store = await database.open();
    const clock = new FakeClock(NOW_MS);
    const world = await newWorld(store);
    const { organization: id } = world;
    const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
    const yearsAhead = -50 * 365;
    await addReadings(store, world, "thermo", 0, yearsAhead, yearsAhead + 1);
    const file = await files.put(async function* () {
      yield new Uint8Array(100);
    }());
    const labels = { tags: [], datasetIds: [], boxes: [], classifications: [] };
    const image = {
      ...{ fileName: "", fileExt: ".jpg", mimeType: "image/jpeg", ...labels },
      ...{ origin: originOf(world, "cam"), capturedUs: (NOW_MS - yearsAhead * DAY_MS) * 1000 },
    };
    await store.transaction((sql) => new BinaryData(sql).add(image, file, NOW_MS));
    await store.transaction((sql) => setRetention(sql, id, { days: 30 }));

    const logger = silentLogs(clock).logger("cloud");
    const runner = new RetentionRunner({
      ...{ store, files, clock, logger },
      clockCheck: new ClockCheck({ store, clock, logger }),
      audit: new Audit(store, clock),
      packer: new ReadingPacker(clock, undefined),
    });
    const left = async () =>
      [
        (await new TabularData(store).count(new Conditions())).count,
        (await new BinaryData(store).count(new Conditions())).count,
      ].join();
    try {
      const checked = () => store.query<{ nextMs: number }>('SELECT next_ms AS "nextMs" FROM data_retention');
      const meanwhile = moving(clock, 1_000);
      await until(async () => (await checked())[0].nextMs > NOW_MS, { meanwhile });
      assertEquals(await left(), "3,1");
      await until(async () => await left() === "0,0", { meanwhile: moving(clock, 3600_000) });
    } finally {
      await runner.close();
    }
  },
);

storeTest("a damaged file of readings keeps nothing else from its retention", async (database) => {
  const store = await database.open();
  const clock = new FakeClock(NOW_MS);
  const world = await newWorld(store);
  const { organization: id } = world;
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  const logger = silentLogs(clock).logger("cloud");
  const packer = new ReadingPacker(clock, undefined);
  const days = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at);
  await addReadings(store, world, "thermo", ...days(1, 60));
  const limits = { readingsMin: 20, readingsMax: 30, bytesMax: 64 * 1024 };
  const now = new SystemClock();
  const { signal } = new AbortController();
  const parts = { store, files, clock: now, logger, packer: new ReadingPacker(now, undefined) };
  await new ReadingMoves(parts, limits).run(signal);
  await addReadings(store, world, "wind", 10, 45);
  const file = await files.put(async function* () {
    yield new Uint8Array(100);
  }());
  const labels = { tags: [], datasetIds: [], boxes: [], classifications: [] };
  const image = {
    ...{ fileName: "", fileExt: ".jpg", mimeType: "image/jpeg", ...labels },
    ...{ origin: originOf(world, "cam"), capturedUs: (NOW_MS - 41 * DAY_MS) * 1000 },
  };
  await store.transaction((sql) => new BinaryData(sql).add(image, file, NOW_MS));
  // The one with days 31 to 60.
  const [oldest] = await store.query<{ sha256: string }>("SELECT sha256 FROM reading_files ORDER BY from_us");
  const path = `${database.folder}/files/${oldest!.sha256.slice(0, 2)}/${oldest!.sha256}`;
  const content = await Deno.readFile(path);
  await Deno.chmod(path, 0o600);
  await Deno.writeFile(path, content.fill(0, 0, 200));

  const all = new Conditions().only("o.organization_id = ?", id);
  const left = async () =>
    [
      (await new TabularData(store, files).count(all)).count,
      (await store.query<{ n: number }>("SELECT COUNT(*) AS n FROM tabular_data"))[0]!.n,
      (await new BinaryData(store).count(new Conditions())).count,
    ].join();
  const kept = async (retention: Parameters<typeof setRetention>[2], wanted: string) => {
    await store.transaction((sql) => setRetention(sql, id, retention));
    const runner = new RetentionRunner({
      ...{ store, files, clock, logger, packer },
      ...{ clockCheck: new ClockCheck({ store, clock, logger }), audit: new Audit(store, clock) },
    });
    try {
      await until(async () => await left() === wanted, { meanwhile: moving(clock, 1_000), found: () => "" });
    } finally {
      await runner.close();
    }
  };
  assertEquals(await left(), "62,2,1");
  await kept({ days: 40 }, "61,1,0");
  const { bytes } = await new TabularData(store, files).count(all);
  // A little more than fits goes, and with it the damaged file.
  await kept({ tabularBytes: bytes - 10 }, "31,1,0");
});
