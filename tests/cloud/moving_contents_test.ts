/**
 * Files of readings in an object store: they stay readable while they move there and back, and whatever removes readings
 * removes objects.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { TabularData, type TabularReading } from "../../lib/cloud/data/tabular_data.ts";
import { ReadingMoves } from "../../lib/cloud/readings/mover.ts";
import { ReadingPacker } from "../../lib/cloud/readings/packer.ts";
import { ReadingRemoval } from "../../lib/cloud/readings/removal.ts";
import { setRetention } from "../../lib/cloud/capture/retention_policies.ts";
import { RetentionRunner } from "../../lib/cloud/retention/runner.ts";
import { releaseOrphans } from "../../lib/cloud/store/file_refs.ts";
import type { FileStore } from "../../lib/cloud/store/files.ts";
import { ClockCheck } from "../../lib/cloud/store/clock_check.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { MovingFiles } from "../../lib/cloud/store/moving_files.ts";
import { S3Files } from "../../lib/cloud/store/s3/s3_files.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { type S3Server, withS3Environment } from "../support/s3_server.ts";
import { moving, until } from "../support/until.ts";
import { svcCloud } from "./program.ts";
import { storeTest, withDatabase } from "./stores.ts";
import { newWorld, type World } from "./world.ts";
import { linuxProgram } from "../support/linux_program.ts";

const START_MS = Date.UTC(2026, 2, 15, 14);
const DAY_MS = 24 * 3600 * 1000;
const LIMITS = { readingsMin: 20, readingsMax: 60, bytesMax: 64 * 1024 };
const PREFIX = "machines/one/";
const signal = new AbortController().signal;

interface Place {
  readonly store: Store;
  readonly files: FileStore;
  readonly world: World;
}

/** A reading every `stepMs`. */
function readings(from: number, count: number, stepMs = 60_000): TabularReading[] {
  return Array.from({ length: count }, (_, index) => {
    const us = (START_MS + (from + index) * stepMs) * 1000;
    return { capturedUs: us, receivedUs: us, payload: { z: from + index } };
  });
}

/** Stores readings, and packs full files of them. */
async function addPacked({ store, files, world }: Place, list: readonly TabularReading[]): Promise<void> {
  const origin = {
    organizationId: world.organization,
    locationId: world.location,
    machineId: world.machine,
    machineName: "rover",
    partId: world.part,
    partName: "rover-main",
    componentType: "rdk:component:sensor",
    componentName: "thermo",
    methodName: "Readings",
    parameters: "{}",
  };
  await storeReadings({ store, files }, origin, list, [], START_MS);
  await store.transaction((sql) => sql.query("UPDATE reading_moves SET next_ms = 0"));
  const clock = new SystemClock();
  const logger = silentLogs(clock).logger("cloud");
  const packer = new ReadingPacker(clock, undefined);
  await new ReadingMoves({ store, files, clock, logger, packer }, LIMITS).run(signal);
}

function remove({ store, files }: Place, from: number, until: number): Promise<number> {
  const times = { fromUs: (START_MS + from * 60_000) * 1000, untilUs: (START_MS + until * 60_000) * 1000 };
  const removal = new ReadingRemoval({
    store,
    files,
    packer: new ReadingPacker(new SystemClock(), undefined),
  });
  const found = new Conditions().within("captured", times);
  return removal.remove(found, ["x"], signal, (work) => store.transaction(work));
}

async function numbersIn({ store, files }: Pick<Place, "store" | "files">): Promise<number[]> {
  const limits = { limit: 999, order: "oldest first", last: "" } as const;
  const page = await new TabularData(store, files).page(new Conditions(), limits);
  return page.readings.map(({ payload }) => Number(payload.z));
}

const range = (from: number, until: number) => Array.from({ length: until - from }, (_, at) => from + at);

const openS3 = (server: S3Server) => S3Files.open(server.client(), { prefix: PREFIX, olderThanMs: 0 });

const listed = async (files: FileStore) =>
  (await Array.fromAsync(files.list({ olderThanMs: Infinity }))).sort();

storeTest(
  "readings stay readable while their files move to an object store and back",
  (database) =>
    withS3Environment(async (server) => {
      const store = await database.open();
      const folderPath = `${database.folder}/files`;
      const folder = await FolderFiles.open(new SystemFiles(), folderPath, { olderThanMs: 0 });
      const s3 = await openS3(server);
      const here: Place = { store, files: folder, world: await newWorld(store) };
      const copy = (to: string, ...more: string[]) =>
        svcCloud("files", "move", to, ...database.flags, ...more, "--json").then((text) => JSON.parse(text));
      await addPacked(here, readings(0, 120));
      assertEquals((await copy(server.address)).copied, 2);

      // What comes and goes until the control plane is restarted.
      await addPacked(here, readings(120, 60));
      assertEquals(await remove(here, 0, 9), 10);
      const both: Place = { ...here, files: new MovingFiles(s3, folder) };
      assertEquals(await numbersIn(both), range(10, 180));
      await assertRejects(() => numbersIn({ store, files: s3 }), SvcError, "is missing");

      // While the second copy runs, files are read, made and removed.
      const copying = { runs: true };
      const copied = copy(server.address).finally(() => copying.runs = false);
      try {
        while (copying.runs) assertEquals(await numbersIn(both), range(10, 180));
      } finally {
        await copied;
      }
      await addPacked(both, readings(180, 60));
      assertEquals(await remove(both, 60, 129), 70);
      assertEquals(await remove(both, 10, 12), 3);
      const wanted = [...range(13, 60), ...range(130, 240)];
      assertEquals(await numbersIn(both), wanted);
      assertEquals(await numbersIn({ store, files: s3 }), wanted);

      // Removed contents that the first copy had taken, too.
      await releaseOrphans(store, both.files, Infinity, signal);
      assertEquals((await listed(s3)).length, 3);

      // The way back, with the object store as the place before.
      const back = `${database.folder}/back`;
      const again = await FolderFiles.open(new SystemFiles(), back, { olderThanMs: 0 });
      const returning: Place = { ...here, files: new MovingFiles(again, s3) };
      assertEquals(await numbersIn(returning), wanted);
      assertEquals((await copy(back, "--files", server.address)).copied, 3);
      assertEquals(await remove(returning, 130, 239), 110);
      assertEquals(await numbersIn({ store, files: again }), range(13, 60));
      assertEquals([(await listed(again)).length, (await listed(s3)).length], [1, 1]);
    }),
);

storeTest(
  "readings that are removed from an object store, or grow too old, leave no object",
  (database) =>
    withS3Environment(async (server) => {
      const store = await database.open();
      const place: Place = { store, files: await openS3(server), world: await newWorld(store) };
      const objects = () => Array.fromAsync(server.client().list("")).then((all) => all.length);
      await addPacked(place, readings(0, 120));
      assertEquals(await objects(), 2);
      assertEquals(await remove(place, 0, 69), 70);
      assertEquals([await objects(), await numbersIn(place)], [1, range(70, 120)]);
      assertEquals(await remove(place, 0, 999), 50);
      assertEquals(await objects(), 0);

      await addPacked(place, readings(0, 120, DAY_MS));
      assertEquals(await objects(), 2);
      const clock = new FakeClock(START_MS + 100 * DAY_MS - 3_600_000);
      await store.transaction((sql) => setRetention(sql, place.world.organization, { days: 30 }));
      const logger = silentLogs(clock).logger("cloud");
      const runner = new RetentionRunner({
        ...{ store, files: place.files, clock, logger },
        clockCheck: new ClockCheck({ store, clock, logger }),
        audit: new Audit(store, clock),
        packer: new ReadingPacker(clock, undefined),
      });
      try {
        await until(async () => (await numbersIn(place))[0] === 70, {
          meanwhile: moving(clock, 1_000),
          found: () => "",
        });
      } finally {
        await runner.close();
      }
      assertEquals([await objects(), await numbersIn(place)], [1, range(70, 120)]);
    }),
);

Deno.test("a control plane with its contents in an object store is backed up there and restored", () =>
  withS3Environment((server) =>
    withDatabase("sqlite", async (database) => {
      const data = `${database.folder}/first`;
      const at = (prefix: string) => server.address.replace("machines/one", prefix);
      const live = ["--data", data, "--files", server.address];
      await svcCloud("init", ...live);
      await Deno.writeFile(`${database.folder}/program`, linuxProgram());
      await svcCloud("release", "publish", "svc-server", "1.0.0", `${database.folder}/program`, ...live);
      const contents = await listed(await openS3(server));
      assertEquals(contents.length, 1);

      const made = JSON.parse(await svcCloud("backup", at("backups"), "--json", ...live));
      assertEquals([made.contents, made.missing], [1, 0]);
      const copy = ["--data", `${database.folder}/copy`, "--files", at("restored")];
      const restored = JSON.parse(await svcCloud("restore", at("backups"), "--json", ...copy));
      assertEquals([restored.contents, restored.missing], [1, 0]);
      const files = await S3Files.open(server.client(), { prefix: "restored/", olderThanMs: 0 });
      assertEquals(await listed(files), contents);

      // The control plane would take a backup among its own contents for what is left behind.
      const inside = ["--data", data, "--files", at("backups/files")];
      await assertRejects(
        () => svcCloud("backup", at("backups"), ...inside),
        Error,
        "keeps its own contents",
      );
      const folder = ["--data", data, "--files", `${database.folder}/backups/files`];
      await assertRejects(
        () => svcCloud("backup", `${database.folder}/backups`, ...folder),
        Error,
        "keeps its own contents",
      );
    })
  ));
