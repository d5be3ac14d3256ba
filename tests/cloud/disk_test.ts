/**
 * A disk that machines fill: uploads end before the database's reserve, and people still revoke, delete and log in.
 */

import { assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { SvcError } from "../../lib/base/error.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { type Needed, needingTest } from "../support/needing.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { METRICS_KEY, newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

const MIB = 1024 ** 2;

async function failing(call: Promise<unknown>): Promise<SvcError> {
  return await call.then(() => new SvcError("unknown", "it did not fail"), (error) => SvcError.from(error));
}

/** Uploads and readings of a world's machine. */
async function machineOf({ store, channel, robot }: ServedCloud, world: World) {
  const key = await ownKey(store, world);
  const { dataCaptureUpload } = client(DataSyncService, await channel(key));
  const { part: partId } = world;
  let number = 0;
  const randomBytes = (count: number) => {
    const bytes = new Uint8Array(count);
    for (let at = 0; at < count; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
    return bytes;
  };
  const logs = (await robot(key)).log;
  return {
    key,
    upload: (bytes: number) => {
      const data = { case: "binary" as const, value: randomBytes(bytes) };
      const metadata = { partId, type: DataType.FILE, fileName: `f${number++}`, fileExtension: ".bin" };
      return dataCaptureUpload({ metadata, sensorContents: [{ data }] });
    },
    read: (letters: number) => {
      const value = { text: `${number++} ${"x".repeat(letters)}` };
      const metadata = { partId, type: DataType.TABULAR_SENSOR, componentName: "s", methodName: "Readings" };
      return dataCaptureUpload({ metadata, sensorContents: [{ data: { case: "struct" as const, value } }] });
    },
    log: (letters: number) => logs({ id: partId, logs: [{ message: `${number++} ${"x".repeat(letters)}` }] }),
  };
}

/** A disk of 64 MiB, with a control plane's folder on it. */
async function withSmallDisk(run: (database: TestDatabase) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-small-" });
  await mount(["-t", "tmpfs", "-o", "size=64m", "none", folder]);
  const opened: Store[] = [];
  const open = async () => {
    const store = await openStore(
      { sqlite: sqliteIn(`${folder}/cloud.db`, new DenoHost()) },
      new SystemClock(),
    );
    opened.push(store);
    return store;
  };
  try {
    await run({ folder, open } as TestDatabase);
  } finally {
    for (const store of opened) await store.close();
    await new Deno.Command("umount", { args: [folder] }).output();
    await Deno.remove(folder);
  }
}

async function mount(args: string[]): Promise<void> {
  const { success } = await new Deno.Command("mount", { args, stdout: "null", stderr: "null" }).output();
  if (!success) throw new Error("mount failed");
}

/** Whether this user may mount a disk. */
async function mounting(): Promise<Needed<true>> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    return { missing: "mounting a disk needs root on Linux" };
  }
  const folder = await Deno.makeTempDir();
  try {
    await mount(["-t", "tmpfs", "none", folder]);
    await new Deno.Command("umount", { args: [folder] }).output();
    return { found: true };
  } catch {
    return { missing: "this computer lets nobody mount" };
  } finally {
    await Deno.remove(folder).catch(() => {});
  }
}

needingTest(
  "a machine's key fills the disk: its owner still logs in, changes, revokes and deletes",
  await mounting(),
  () =>
    withSmallDisk((database) =>
      withCloud(database, async (cloud) => {
        const { store, app, channel, token, url } = cloud;
        const world = await newWorld(store);
        const machine = await machineOf(cloud, world);
        let refused: SvcError | undefined;
        for (let file = 0; file < 100 && !refused; file++) {
          await machine.upload(2 * MIB).catch((error) => refused = SvcError.from(error));
        }
        assertEquals(refused?.code, "resource_exhausted");
        assertStringIncludes(refused!.message, "16 MiB of them are kept for its database");
        // Other machines' uploads are refused at once, and by logs and readings nobody gets at the rest.
        for (const fill of [machine.log, machine.read]) {
          let code = "";
          for (let entry = 0; entry < 100 && code === ""; entry++) {
            await fill(MIB / 2).catch((error) => code = SvcError.from(error).code);
          }
          assertEquals(code, "resource_exhausted");
        }

        const page = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${METRICS_KEY}` } });
        const free = /svc_cloud_disk_free_bytes (\d+)/.exec(await page.text())?.[1];
        assertGreater(Number(free), 4 * MIB);

        await token(world.operator);
        const people = await app(world.owner);
        await people.updateRobotPart({
          id: world.part,
          name: "rover-main",
          robotConfigJson: '{"debug":true}',
        });
        await people.deleteKey({ id: machine.key.id });
        assertEquals((await failing(token(machine.key))).code, "unauthenticated");
        const { deleteBinaryDataByFilter } = client(DataService, await channel(world.owner));
        const { deletedCount } = await deleteBinaryDataByFilter({
          filter: { organizationIds: [world.organization] },
        });
        assertGreater(deletedCount, 10n);
        await (await machineOf(cloud, world)).upload(2 * MIB);
      }, { keepsReserve: true })
    ),
);

storeTest(
  "what logs, readings, data and revisions take is limited, for a machine and an organization",
  (database) => {
    const clock = new FakeClock();
    const limits = {
      ...defaultLimits(),
      logBytesPerPart: 3_000,
      readingBytesPerOrganization: 1_000,
      dataBytesPerMachine: 500,
      configBytesPerOrganization: 20_000,
      configBytesPerPart: 3_000,
    };
    return withCloud(database, async (cloud) => {
      const { store, app } = cloud;
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const machine = await machineOf(cloud, world);
      const message = async (call: Promise<unknown>) => (await failing(call)).message;
      await machine.upload(400);
      assertStringIncludes(await message(machine.upload(200)), "limit data_bytes_per_machine");
      await machine.read(600);
      assertStringIncludes(await message(machine.read(600)), "limit reading_bytes_per_organization");
      await machine.log(1_000);
      assertStringIncludes(await message(machine.log(2_500)), "limit log_bytes_per_part");
      const { upload, read, log } = await machineOf(cloud, other);
      for (const fill of [upload, read, log]) await fill(300);

      // The oldest revisions of a part give way to new ones; all together they end at the organization's limit.
      const people = await app(world.owner);
      const set = (id: string, letters: number, mark = 0) => {
        const robotConfigJson = JSON.stringify({ notes: `${mark}${"x".repeat(letters)}` });
        return people.updateRobotPart({ id, name: "rover-main", robotConfigJson });
      };
      for (let revision = 0; revision < 8; revision++) await set(world.part, 900, revision);
      const { history } = await people.getRobotPartHistory({ id: world.part });
      assertEquals(history.length, 2);
      const text = "SELECT config_bytes AS bytes FROM parts WHERE id = ?";
      const [{ bytes }] = await store.query<{ bytes: number }>(text, world.part);
      const [sum] = await store.query<{ letters: number }>(
        `SELECT LENGTH(config) + (SELECT SUM(LENGTH(old_config)) FROM part_history WHERE part_id = parts.id) AS letters
       FROM parts WHERE id = ?`,
        world.part,
      );
      assertEquals(bytes, sum.letters);
      assertStringIncludes(await message(set(world.part, 18_000)), "limit config_bytes_per_organization");

      // What is removed makes room.
      await store.transaction((sql) => sql.query("DELETE FROM stored_bytes WHERE kind = 'logs'"));
      await clock.advance(11_000);
      await machine.log(1_000);
    }, { clock, limits });
  },
);
