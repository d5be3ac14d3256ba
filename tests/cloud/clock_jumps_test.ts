/** A control plane whose clock was wrong for a while: what it wrote meanwhile does no harm once the clock is right. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { serialize } from "bson";
import { X509Certificate } from "node:crypto";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Logs, silentLogs } from "../../lib/base/log/log.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { Accounts } from "../../lib/cloud/accounts/accounts.ts";
import { Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { PersonSessions } from "../../lib/cloud/accounts/sessions.ts";
import { newKeySecret } from "../../lib/cloud/access/keys.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { setRetention } from "../../lib/cloud/capture/retention_policies.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { TabularData } from "../../lib/cloud/data/tabular_data.ts";
import { DataPipelines } from "../../lib/cloud/pipelines/pipelines.ts";
import { ReadingPacker } from "../../lib/cloud/readings/packer.ts";
import { RetentionRunner } from "../../lib/cloud/retention/runner.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { noteSetting } from "../../lib/cloud/store/settings.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { Presence } from "../../lib/cloud/tenants/presence.ts";
import { keepTriggers } from "../../lib/cloud/triggers/outbox.ts";
import { TriggerWatch } from "../../lib/cloud/notifications/watch.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { Authority, newAuthority } from "../../lib/cloud/store/secrets/authority.ts";
import { ClockCheck } from "../../lib/cloud/store/clock_check.ts";
import { Secrets } from "../../lib/cloud/store/secrets/secrets.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { svcCloudPrinted } from "./program.ts";
import { sqliteTest, storeTest, type TestDatabase } from "./stores.ts";
import { newWorld, withCloud, type World } from "./world.ts";

const DAY_MS = 24 * 3600 * 1000;

storeTest(
  "a machine seen by a clock that was ahead is offline once it is gone, and seen again",
  async (database) => {
    const store = await database.open();
    const clock = new FakeClock();
    const { part } = await newWorld(store);
    const logger = silentLogs(clock).logger("cloud");
    const presence = new Presence(store, clock, logger);
    const stored = async () => (await new Parts(store).get(part)).seenMs;
    const both = async () => {
      const seenMs = await stored();
      return [presence, new Presence(store, clock, logger)].map((one) => one.state(one.seenMs(part, seenMs)));
    };
    const triggers = [{ name: "on", event: { type: "part_online" }, notifications: [] }];
    await store.transaction((sql) => keepTriggers(sql, part, triggers, true));
    const watch = new TriggerWatch(store, clock);
    const watched = async () => {
      // Past the time that it gives the machines after its start.
      for (let at = 0; at < 30; at++) {
        await clock.advance(10_000);
        await watch.lookAtParts();
      }
      const [row] = await store.query<{ online: number }>("SELECT is_online AS online FROM part_triggers");
      return row.online;
    };

    clock.setOn(60 * DAY_MS);
    presence.saw(part);
    await presence.save();
    assertEquals(await both(), ["online", "online"]);
    clock.setOn(-60 * DAY_MS);
    assertEquals(await both(), ["offline", "offline"]);
    assertEquals(await watched(), 0);

    // Its next poll counts, for this control plane and for others.
    presence.saw(part);
    await presence.save();
    assertEquals([await both(), await stored()], [["online", "online"], clock.nowMs()]);
    await clock.advance(60_000);
    assertEquals(await both(), ["offline", "offline"]);
    await presence.close();
  },
);

storeTest("a certificate of a clock that was ahead is replaced once the clock is right", async (database) => {
  const store = await database.open();
  const clock = new FakeClock();
  const { part } = await newWorld(store);
  const host = new DenoHost();
  const logger = silentLogs(clock).logger("keys");
  const secrets = await Secrets.open({ store, host, folder: `${database.folder}/keys`, clock, logger });
  const authority = new Authority(secrets, store, clock);
  const first = await authority.ofPart(part, ["rover"]);
  clock.setOn(400 * DAY_MS);
  const ahead = await authority.ofPart(part, ["rover"]);
  assert(ahead.certificate !== first.certificate);
  clock.setOn(-400 * DAY_MS);
  const { certificate } = await authority.ofPart(part, ["rover"]);
  assert(Date.parse(new X509Certificate(certificate).validFrom) < clock.nowMs());
  assertEquals((await authority.ofPart(part, ["rover"])).certificate, certificate);
});

Deno.test("an authority that was made by a wrong clock is valid at the right time, for years", async () => {
  for (const made of ["1970-01-01", "2019-06-01", "2069-12-31"]) {
    const { certificate } = await newAuthority(Date.parse(made));
    const { validFrom, validTo } = new X509Certificate(certificate);
    assert(Date.parse(validFrom) < Date.UTC(2026, 0, 1), made);
    assert(Date.parse(validTo) > Date.UTC(2035, 0, 1), made);
  }
});

/** A right clock, and readings of some days ago that are kept for 30 days. */
async function keeping(database: TestDatabase) {
  const store = await database.open();
  const clock = new FakeClock(Date.now());
  const world = await newWorld(store, clock.nowMs());
  await upload(store, world, clock, 1, 20);
  await store.transaction((sql) => setRetention(sql, world.organization, { days: 30 }));
  const logs: string[] = [];
  const logger = new Logs(clock, [({ message }) => void logs.push(message)]).logger("cloud");
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  const start = () =>
    new RetentionRunner({
      ...{ store, files, clock, logger },
      clockCheck: new ClockCheck({ store, clock, logger }),
      audit: new Audit(store, clock),
      packer: new ReadingPacker(clock, undefined),
    });
  const left = async () => (await new TabularData(store).count(new Conditions())).count;
  const step = moving(clock, 15_000);
  // Beside PostgreSQL's clock only timers go on: the steps of a slow wait would put the time of day ahead of it.
  const meanwhile = async () => {
    await step();
    if (database.kind === "postgres") clock.setOn(-15_000);
  };
  const logged = (text: string) =>
    until(() => logs.some((one) => one.includes(text)), { meanwhile, found: () => logs.join("\n") });
  return { store, clock, world, logs, start, left, logged, meanwhile };
}

/** Uploads readings that a machine captured some days ago, by its own clock. */
async function upload(store: Store, world: World, clock: FakeClock, ...days: readonly number[]) {
  const { organization: organizationId, machine: machineId, part: partId } = world;
  const origin = {
    ...{ organizationId, locationId: "", machineId, machineName: "rover", partId, partName: "rover-main" },
    ...{ componentType: "sensor", componentName: "thermo", methodName: "Readings", parameters: "{}" },
  };
  const nowMs = clock.nowMs();
  const readings = days.map((ago) => {
    return { capturedUs: Math.floor(nowMs - ago * DAY_MS) * 1000, receivedUs: 0, payload: { ago } };
  });
  await storeReadings({ store }, origin, readings, [], nowMs);
}

storeTest("a clock that leaps ahead removes nothing, and the log says why", async (database) => {
  const { clock, logs, start, left, logged, meanwhile, store, world } = await keeping(database);
  const runner = start();
  try {
    const noted = () => store.query("SELECT value FROM settings WHERE name = 'last right time'");
    await until(async () => (await noted()).length > 0, { meanwhile });
    clock.setOn(60 * DAY_MS);
    await logged("nothing is removed for its age: this computer's clock shows ");
    const [problem] = logs;
    const than = database.kind === "postgres" ? "PostgreSQL's clock" : "the last time that svc-cloud knows";
    assertStringIncludes(problem, `60 days after ${than}`);
    assertEquals(await left(), 2);
    // Nor does the time of the next check stay ahead.
    await store.transaction((sql) => setRetention(sql, world.organization, { days: 30, tabularBytes: 1 }));
    await until(async () => await left() === 0, { meanwhile });
    clock.setOn(-60 * DAY_MS);
    await upload(store, world, clock, 40);
    await logged("the clock is right");
    await until(async () => await left() === 0, { meanwhile });
  } finally {
    await runner.close();
  }
});

sqliteTest(
  "after a long stop old data goes once a machine or the operator says that the clock is right",
  async (database) => {
    const { clock, start, left, logged, meanwhile, store, world } = await keeping(database);
    const checkOnce = async () => {
      const logger = silentLogs(clock).logger("cloud");
      return await new ClockCheck({ store, clock, logger }).rightMs();
    };
    assertEquals(await checkOnce(), clock.nowMs());
    await clock.advance(60 * DAY_MS);
    const runner = start();
    try {
      await logged("no machine has sent anything of this time yet");
      assertEquals(await left(), 2);
      // A machine whose clock stands still confirms nothing; what is of this time does.
      await upload(store, world, clock, 60);
      assertEquals(await checkOnce(), undefined);
      await upload(store, world, clock, 0);
      await until(async () => await left() === 1, { meanwhile });
    } finally {
      await runner.close();
    }

    const ago = (days: number) => String(Date.now() - days * DAY_MS);
    await store.transaction((sql) => noteSetting(sql, "last right time", ago(90)));
    const remarks = async (...words: string[]) =>
      (await svcCloudPrinted(...words, ...database.flags)).remarks;
    assertStringIncludes(await remarks("usage"), "If the clock is right: svc-cloud retention --trust-clock");
    const { organization } = world;
    assertEquals(await remarks("retention", "--org", organization, "--trust-clock"), "");
    assertEquals(await remarks("usage"), "");
  },
);

sqliteTest("a clock that is ahead for a while leaves no window of a pipeline out", async (database) => {
  const hourMs = 3600_000;
  const startMs = Math.floor(Date.now() / hourMs) * hourMs + 15 * 60_000;
  const clock = new FakeClock(startMs);
  await withCloud(database, async ({ store }) => {
    const { organization: organizationId } = await newWorld(store, startMs);
    const meanwhile = moving(clock, 5_000);
    await until(
      async () => (await store.query("SELECT 1 FROM settings WHERE name = 'last right time'")).length > 0,
      {
        meanwhile,
      },
    );
    const made = { organizationId, name: "hourly", schedule: "0 * * * *", hasBackfill: false, sourceType: 1 };
    const mql = [serialize({ $count: "n" })];
    const id = await store.transaction((sql) => new DataPipelines(sql).create({ ...made, mql }, startMs));
    clock.setOn(3 * DAY_MS);
    for (let at = 0; at < 20; at++) await meanwhile();
    assertEquals(await new DataPipelines(store).runs(id, 0, 10), []);
    clock.setOn(-3 * DAY_MS);
    await until(async () => (await new DataPipelines(store).runs(id, 0, 10)).length > 0, {
      meanwhile: moving(clock, 60_000),
    });
    const [run] = await new DataPipelines(store).runs(id, 0, 10);
    assertEquals(run.fromMs, startMs - 15 * 60_000);
  }, { clock });
});

storeTest(
  "a session and a link that were made by a clock that was ahead live no longer than others",
  async (database) => {
    const store = await database.open();
    const nowMs = Date.UTC(2026, 2, 15);
    const { organization } = await newWorld(store);
    const ann = { email: "ann@example.com", name: "Ann", password: "a hash", secret: await newKeySecret() };
    const id = await store.transaction((sql) => new Accounts(sql).create(ann, nowMs));
    const sessions = new PersonSessions(store);
    const invitations = new Invitations(store);
    const origin = { address: "127.0.0.1", agent: "a browser" };
    const begin = (atMs: number) =>
      store.transaction((sql) => new PersonSessions(sql).begin(id, origin, atMs, atMs + DAY_MS));
    const [right, slightly, ahead] = [
      await begin(nowMs),
      await begin(nowMs + 60_000),
      await begin(nowMs + 400 * DAY_MS),
    ];
    const { opener } = await store.transaction((sql) =>
      new Invitations(sql).invite(organization, "bob@example.com", [], nowMs + 400 * DAY_MS)
    );
    const forget = (atMs: number) =>
      store.transaction(async (sql) => {
        await new PersonSessions(sql).forgetOld(atMs);
        await new Invitations(sql).forgetOld(atMs);
      });
    const open = async (atMs: number) => {
      const found = await Promise.all([right, slightly, ahead].map((one) => sessions.opened(one, atMs)));
      return found.map((one) => one && (one.untilMs - nowMs) / DAY_MS);
    };
    await forget(nowMs);
    assertEquals(await open(nowMs), [1, 1 + 60_000 / DAY_MS, 1]);
    assertEquals((await invitations.opened(opener, nowMs)).createdMs, nowMs);
    await forget(nowMs + 30 * DAY_MS);
    assertEquals(await open(nowMs + 30 * DAY_MS), [undefined, undefined, undefined]);
    await assertRejects(() => invitations.opened(opener, nowMs + 30 * DAY_MS));
  },
);
