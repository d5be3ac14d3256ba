/** The call on an organization's usage: its limits, its retention and that of collectors, by role and tenant. */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { UsageService } from "../../proto/gen/usage_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { keepCollectors, readRetention, setRetention } from "../../lib/cloud/capture/retention_policies.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { LogStore } from "../../lib/cloud/logs/logs.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { svcCloud } from "./program.ts";
import { newWorld, ownKey, withCloud } from "./world.ts";

storeTest("the usage of an organization has each limit, and how long data is kept", (database) => {
  return withCloud(database, async ({ store, channel, app }) => {
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const { organization: organizationId } = world;
    await (await app(world.owner)).createFragment({
      name: "arm",
      organizationId,
      config: { components: [] },
    });
    const collectors = Array.from({ length: 501 }, (_, at) => ({
      componentName: "camera",
      methodName: `m${at}`,
      days: 7,
    }));
    await store.transaction(async (sql) => {
      await setRetention(sql, organizationId, { days: 30, tabularBytes: 5_000_000_000 });
      await keepCollectors(sql, world.part, collectors);
    });
    const operator = client(UsageService, await channel(world.operator));
    const found = await operator.getUsage({ organizationId });
    const texts = found.limits.find(({ name }) => name === "config_bytes_per_organization")!;
    assertEquals([texts.allowed, texts.used > 0n], [1000n, true]);
    assertEquals(found.limits.every(({ name }) => name.endsWith("_per_organization")), true);
    assertEquals(found.limits.length, 8);
    const { days, binaryBytes, tabularBytes } = found.retention!;
    assertEquals([days, binaryBytes, tabularBytes], [30, 0n, 5_000_000_000n]);
    assertEquals([found.collectors.length, found.moreCollectors], [500, true]);
    const [{ machineName, partName, componentName, retention }] = found.collectors;
    assertEquals([machineName, partName, componentName, retention?.days], [
      "rover",
      "rover-main",
      "camera",
      7,
    ]);

    const stranger = client(UsageService, await channel(other.owner));
    await assertRejects(() => stranger.getUsage({ organizationId }), SvcError);
    const own = await stranger.getUsage({ organizationId: other.organization });
    assertEquals([own.collectors, own.moreCollectors, own.retention?.days], [[], false, 0]);
    assertEquals(own.limits.filter(({ used }) => used > 0n), []);
  }, { limits: { ...defaultLimits(), configBytesPerOrganization: 1000 } });
});

const DAY_MS = 24 * 3600 * 1000;

storeTest("owners choose the retention within the operator's bound", (database) => {
  return withCloud(database, async ({ store, channel }) => {
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const { organization: organizationId } = world;
    const owner = client(UsageService, await channel(world.owner));
    const operator = client(UsageService, await channel(world.operator));
    const stranger = client(UsageService, await channel(other.owner));
    const days = (days: number) => ({ organizationId, own: { days } });
    await store.transaction((sql) => setRetention(sql, organizationId, { days: 30 }));

    await owner.setRetention({ organizationId, own: { days: 7, tabularBytes: 5n }, ownLogDays: 3 });
    const found = await operator.getUsage({ organizationId });
    assertEquals([found.bound?.days, found.own?.days, found.retention?.days], [30, 7, 7]);
    assertEquals(found.retention?.tabularBytes, 5n);
    const { logDays, logDaysMax, ownLogDays, auditDays } = found.records!;
    assertEquals([logDays, logDaysMax, ownLogDays, auditDays], [3, 30, 3, 365]);
    assertStringIncludes(
      await svcCloud("retention", "--org", organizationId, ...database.flags),
      "its owners' choice: 7 days, 5e-9 GB of readings; logs 3 days",
    );

    await assertRejects(
      () => owner.setRetention(days(31)),
      SvcError,
      "found 31, wanted a whole number from 1 to 30",
    );
    await assertRejects(
      () => owner.setRetention({ organizationId, ownLogDays: 31 }),
      SvcError,
      "days of logs: found 31",
    );
    await assertRejects(() => operator.setRetention(days(1)), SvcError);
    await assertRejects(() => stranger.setRetention(days(1)), SvcError);
    assertEquals((await readRetention(store, organizationId)).days, 7);

    // The operator's bound, set later, acts at once.
    await store.transaction((sql) => setRetention(sql, organizationId, { days: 5 }));
    assertEquals((await readRetention(store, organizationId)).days, 5);
    await owner.setRetention({ organizationId });
    assertEquals(await readRetention(store, organizationId), {
      days: 5,
      binaryBytes: undefined,
      tabularBytes: undefined,
    });
    const [{ outcome }] = await store.query<{ outcome: string }>(
      "SELECT outcome FROM audit WHERE action LIKE '%SetRetention' AND outcome = 'done' LIMIT 1",
    );
    assertEquals(outcome, "done");
  });
});

storeTest("logs expire after as many days as their organization's owners say", (database) => {
  const clock = new FakeClock(Date.parse("2026-03-15T12:00:00Z"));
  return withCloud(database, async ({ store, app, robot, channel }) => {
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const logs = ["one", "two"].map((message) => create(LogEntrySchema, { message, level: "info" }));
    for (const { machine, part } of [world, other]) {
      await (await robot(await ownKey(store, { machine }))).log({ id: part, logs });
    }
    const { organization: organizationId } = world;
    await client(UsageService, await channel(world.owner)).setRetention({ organizationId, ownLogDays: 2 });
    const shown = async ({ owner, part: id }: typeof world) =>
      (await (await app(owner)).getRobotPartLogs({ id })).logs.length;
    assertEquals([await shown(world), await shown(other)], [2, 2]);
    await clock.advance(2 * DAY_MS + 1);
    assertEquals([await shown(world), await shown(other)], [0, 2]);
    await new LogStore(store, clock, defaultLimits()).forgetOld();
    const kept = await store.query<{ id: string }>("SELECT DISTINCT part_id AS id FROM logs");
    assertEquals(kept.map(({ id }) => id), [other.part]);
  }, { clock });
});
