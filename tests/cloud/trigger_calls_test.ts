/** The calls on triggers: an organization's triggers and notifications by page, tests and retries, by role and tenant. */

import { assertEquals, assertRejects } from "@std/assert";
import { TriggerService } from "../../proto/gen/triggers_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Deliveries } from "../../lib/cloud/notifications/deliveries.ts";
import { keepTriggers, oldestEvents } from "../../lib/cloud/triggers/outbox.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { assertRefused } from "../support/refusals.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const START_MS = 1_700_000_000_000;
const HOOK = "https://example.com/hook?key=hidden";
const MESSAGE = { method: "POST", headers: [], body: "", subject: "", text: "" } as const;

const triggersNamed = (...names: readonly string[]) =>
  names.map((name) => ({
    name,
    event: { type: "part_offline" },
    notifications: [{ type: "webhook", value: HOOK }],
  }));

/** Adds dead notifications, a millisecond apart; returns their ids, oldest first. */
function addDead(
  { store }: ServedCloud,
  { organization: organizationId, part: partId }: World,
  count: number,
  kind: "webhook" | "email" = "webhook",
): Promise<string[]> {
  return store.transaction(async (sql) => {
    const ids: string[] = [];
    for (let at = 0; at < count; at++) {
      const about = { organizationId, partId, trigger: "away", kind, target: HOOK } as const;
      ids.push(await new Deliveries(sql).add({ ...about, message: MESSAGE }, START_MS + at, "gone"));
    }
    return ids;
  });
}

storeTest("an organization's triggers come by page, each with its last notification", (database) => {
  return withCloud(database, async (served) => {
    const { store, channel } = served;
    const world = await newWorld(store);
    await store.transaction(async (sql) => {
      await keepTriggers(sql, world.part, triggersNamed("away", "here"), false);
      for (let at = 0; at < 60; at++) {
        const { partId } = await new Machines(sql).create(world.location, `cart ${at}`, START_MS);
        await keepTriggers(sql, partId, triggersNamed("one"), false);
      }
    });
    const [, last] = await addDead(served, world, 2);
    const calls = client(TriggerService, await channel(world.operator));
    const question = { organizationId: world.organization };
    const first = await calls.listTriggers(question);
    const second = await calls.listTriggers({ ...question, pageToken: first.nextPageToken });
    assertEquals([first.nextPageToken !== "", second.nextPageToken], [true, ""]);
    const all = [...first.triggers, ...second.triggers];
    assertEquals([all.length, new Set(all.map(({ partId }) => partId)).size], [62, 61]);
    const own = all.filter(({ partId }) => partId === world.part);
    assertEquals(own.map(({ name, event, last }) => [name, event, last?.id, last?.error]), [
      ["away", "part_offline", last, "gone"],
      ["here", "part_offline", undefined, undefined],
    ]);
    assertEquals([own[0].machineName, own[0].machineId], ["rover", world.machine]);
    const shown = JSON.stringify(own, (_, value) => typeof value === "bigint" ? Number(value) : value);
    assertEquals([shown.includes("hidden"), own[0].receivers.length], [false, 1]);
    await assertRejects(
      () => calls.listTriggers({ ...question, pageToken: "a b\0" }),
      SvcError,
      "page token",
    );
    const listed = await svcCloud("trigger", "list", "--org", world.organization, ...database.flags);
    assertEquals([listed.match(/part_offline/g)?.length, /away[^]*here/.test(listed)], [62, true]);
  });
});

storeTest("notifications come by page and state; dead ones are sent again, all or one", (database) => {
  return withCloud(database, async (served) => {
    const { store, channel } = served;
    const world = await newWorld(store);
    const { organization: organizationId } = world;
    const ids = await addDead(served, world, 5);
    const calls = client(TriggerService, await channel(world.owner));
    const seen: string[] = [];
    for (let pageToken = "", more = true; more;) {
      const page = await calls.listDeliveries({ organizationId, limit: 2, pageToken });
      seen.push(...page.deliveries.map(({ id }) => id));
      [pageToken, more] = [page.nextPageToken, page.nextPageToken !== ""];
    }
    assertEquals(seen, ids.toReversed());
    const { deliveries: [newest] } = await calls.listDeliveries({ organizationId, state: "dead", limit: 1 });
    assertEquals([newest.error, newest.partName, newest.machineName, newest.receiver.includes("hidden")], [
      "gone",
      "rover-main",
      "rover",
      false,
    ]);
    assertEquals((await calls.listDeliveries({ organizationId, state: "pending" })).deliveries, []);
    for (
      const [question, problem] of [[{ state: "lost" }, "lost"], [
        { pageToken: "1:'" },
        "page token",
      ]] as const
    ) {
      await assertRejects(() => calls.listDeliveries({ organizationId, ...question }), SvcError, problem);
    }

    assertEquals((await calls.retryDeliveries({ organizationId, id: ids[2] })).again, 1);
    await assertRejects(() => calls.retryDeliveries({ organizationId, id: ids[2] }), SvcError, "no dead");
    // The oldest come first, if there are more than one call sends.
    assertEquals(
      await store.transaction((sql) => new Deliveries(sql).retry({ organizationId, limit: 2 }, START_MS)),
      2,
    );
    const dead = await calls.listDeliveries({ organizationId, state: "dead" });
    assertEquals(dead.deliveries.map(({ id }) => id), [ids[4], ids[3]]);
    assertEquals((await calls.retryDeliveries({ organizationId })).again, 2);
  });
});

storeTest("dead notifications that are sent again count towards the limits of the day", (database) => {
  const limits = { ...defaultLimits(), webhooksPerOrganizationDay: 3, mailsPerOrganizationDay: 1 };
  return withCloud(database, async (served) => {
    const { store, channel } = served;
    const world = await newWorld(store);
    const { organization: organizationId } = world;
    const ids = await addDead(served, world, 5);
    const [mail] = await addDead(served, world, 2, "email");
    const calls = client(TriggerService, await channel(world.owner));
    const pending = async () =>
      (await calls.listDeliveries({ organizationId, state: "pending" })).deliveries.map(({ id }) => id);

    assertEquals((await calls.retryDeliveries({ organizationId, id: ids[4] })).again, 1);
    // Two webhooks and a mail are left.
    assertEquals((await calls.retryDeliveries({ organizationId })).again, 3);
    assertEquals((await pending()).toSorted(), [ids[0], ids[1], ids[4], mail].toSorted());
    for (const id of ["", ids[2]]) {
      await assertRefused(
        "resource_exhausted",
        "webhooks_per_organization_day",
        () => calls.retryDeliveries({ organizationId, id }),
      );
    }
    // The operator of the control plane is not limited.
    await svcCloud("trigger", "retry", "all", "--org", organizationId, ...database.flags);
    assertEquals((await pending()).length, 7);
  }, { limits });
});

storeTest("a test of a trigger is an event; only an owner orders one, and nobody elsewhere", (database) => {
  return withCloud(database, async (served) => {
    const { store, channel } = served;
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const { organization: organizationId, part: partId } = world;
    await store.transaction((sql) => keepTriggers(sql, partId, triggersNamed("away"), false));
    const [id] = await addDead(served, world, 1);
    const [owner, operator, stranger] = await Promise.all(
      [world.owner, world.operator, other.owner].map(async (key) =>
        client(TriggerService, await channel(key))
      ),
    );
    await assertRejects(() => owner.testTrigger({ partId, trigger: "none" }), SvcError, "none");
    const order = { partId, trigger: "away" };
    for (const calls of [operator, stranger]) {
      await assertRejects(() => calls.testTrigger(order), SvcError);
      await assertRejects(() => calls.retryDeliveries({ organizationId, id }), SvcError);
    }
    assertEquals(await oldestEvents(store, 10), []);
    await owner.testTrigger(order);
    assertEquals((await oldestEvents(store, 10)).map(({ facts }) => facts), [{
      kind: "test",
      trigger: "away",
    }]);

    await assertRejects(() => stranger.listTriggers({ organizationId }), SvcError);
    await assertRejects(() => stranger.listDeliveries({ organizationId }), SvcError);
    const own = { organizationId: other.organization };
    assertEquals([
      (await stranger.listTriggers(own)).triggers,
      (await stranger.listDeliveries(own)).deliveries,
    ], [
      [],
      [],
    ]);
    await assertRejects(() => stranger.retryDeliveries({ ...own, id }), SvcError, "no dead");
    assertEquals((await stranger.retryDeliveries(own)).again, 0);
    // A part that has come from elsewhere shows nothing of there.
    await store.transaction((sql) =>
      sql.query(
        "UPDATE locations SET organization_id = ?, name = id WHERE id = ?",
        other.organization,
        world.location,
      )
    );
    const [moved] = (await stranger.listTriggers(own)).triggers;
    assertEquals([moved.partId, moved.last], [partId, undefined]);
    const { deliveries: [left] } = await operator.listDeliveries({ organizationId });
    assertEquals([left.partId, left.partName, left.machineId], [partId, "", ""]);
  });
});
