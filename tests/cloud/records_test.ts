/** The logs of many machines at once: merged in order, by page and by place, followed, and each tenant's own. */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { create } from "../../lib/wire/rpc/proto.ts";
import { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { RecordService } from "../../proto/gen/records_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { MachineTags } from "../../lib/cloud/tenants/machine_tags.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newWorld, ownKey, type ServedCloud, withCloud } from "./world.ts";

const START_MS = 1_700_000_000_000;

/** Writes one entry per time, with the time as its message. */
async function write(
  { store, robot }: ServedCloud,
  machine: string,
  times: readonly number[],
  level = "info",
): Promise<void> {
  const [{ id }] = await new Parts(store).ofMachine(machine);
  const logs = times.map((at) =>
    create(LogEntrySchema, {
      message: `message ${at}`,
      level,
      loggerName: "rdk.motor",
      time: toTimestamp(START_MS + at),
    })
  );
  await (await robot(await ownKey(store, { machine }))).log({ id, logs });
}

const numbers = ({ logs }: { readonly logs: readonly { readonly entry?: { readonly message: string } }[] }) =>
  logs.map(({ entry }) => Number(entry?.message.replace("message ", "")));

storeTest("the logs of many machines come as one, a page at a time", (database) => {
  return withCloud(database, async (served) => {
    const { store, channel } = served;
    const world = await newWorld(store);
    const { organization: organizationId } = world;
    const [second, third, elsewhere] = await store.transaction(async (sql) => {
      const yard = await new Locations(sql).create(organizationId, "yard", "", START_MS);
      return [
        await new Machines(sql).create(world.location, "barrow", START_MS),
        await new Machines(sql).create(yard, "crane", START_MS),
        yard,
      ] as const;
    });
    await write(served, world.machine, [1, 4, 7, 9]);
    await write(served, second.id, [2, 5, 8, 9], "error");
    await write(served, third.id, [3, 6, 9]);
    const records = client(RecordService, await channel(world.owner));
    const selection = { organizationId };
    const whole = await records.listLogs({ selection });
    assertEquals(numbers(whole), [9, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    assertEquals([whole.parts, whole.partsLeftOut, whole.nextPageToken], [3, 0, ""]);

    const paged: number[] = [];
    const seen = new Set<string>();
    for (let pageToken = "", more = true; more;) {
      const page = await records.listLogs({ selection, limit: 2, pageToken });
      paged.push(...numbers(page));
      for (const { partId, entry } of page.logs) seen.add(`${partId} ${entry?.message}`);
      ({ nextPageToken: pageToken } = page);
      more = pageToken !== "";
    }
    assertEquals([paged, seen.size], [numbers(whole), 11]);
    const of = async (more: object) =>
      numbers(await records.listLogs({ selection: { ...selection, ...more } }));
    assertEquals(await of({ levels: ["error"] }), [9, 8, 5, 2]);
    assertEquals(await of({ filter: "MESSAGE 6" }), [6]);
    assertEquals(await of({ locationIds: [elsewhere] }), [9, 6, 3]);
    assertEquals(await of({ machineIds: [second.id, third.id], end: toTimestamp(START_MS + 6) }), [
      6,
      5,
      3,
      2,
    ]);
    assertEquals(await of({ start: toTimestamp(START_MS + 8) }), [9, 9, 9, 8]);
    assertEquals(await of({ tags: ["none"] }), []);
    await store.transaction((sql) => new MachineTags(sql).add(third.id, ["tall"]));
    assertEquals(await of({ tags: ["none", "tall"] }), [9, 6, 3]);
    await assertRejects(() => records.listLogs({ selection, pageToken: "1:x" }), SvcError, "page token");
    const words = Array(1001).fill("word");
    await assertRejects(
      () => records.listLogs({ selection: { ...selection, tags: words } }),
      SvcError,
      "1000",
    );
  }, { clock: new FakeClock(START_MS) });
});

storeTest("many logs are followed without a gap, and only by those who see the machines", (database) => {
  const clock = new FakeClock(START_MS);
  return withCloud(database, async (served) => {
    const { store, channel } = served;
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const second = await store.transaction((sql) =>
      new Machines(sql).create(world.location, "barrow", START_MS)
    );
    await write(served, world.machine, [1, 3]);
    const owner = client(RecordService, await channel(world.owner));
    const selection = { organizationId: world.organization };
    const stop = new AbortController();
    const stream = owner.followLogs({ selection, limit: 1 }, { signal: stop.signal })[Symbol.asyncIterator]();
    const first = (await stream.next()).value;
    assertEquals([numbers(first), first.parts, first.nextPageToken !== ""], [[3], 2, true]);
    const next = stream.next();
    await write(served, second.id, [5, 6]);
    let arrived: Awaited<typeof next>["value"];
    void next.then(({ value }) => arrived = value);
    await until(() => arrived !== undefined, { meanwhile: moving(clock, 100) });
    assertEquals(numbers(arrived), [5, 6]);
    assertEquals(arrived.logs[0].machineName, "barrow");
    stop.abort();
    await assertRejects(() => stream.next());

    const [machine, stranger] = await Promise.all(
      [await ownKey(store, { machine: second.id }), other.owner].map(async (key) =>
        client(RecordService, await channel(key))
      ),
    );
    assertEquals(numbers(await machine.listLogs({ selection })), [6, 5]);
    assertEquals(numbers(await machine.listLogs({})), [6, 5]);
    assertEquals(numbers(await stranger.listLogs({})), []);
    const ids = { machineIds: [world.machine], locationIds: [world.location] };
    assertEquals(numbers(await stranger.listLogs({ selection: ids })), []);
    const refused = await assertRejects(() => stranger.listLogs({ selection }), SvcError);
    assert(refused.code === "permission_denied" || refused.code === "not_found", refused.code);
  }, { clock });
});

storeTest("an owner reads who did what in the organization, and learns of nobody else", (database) => {
  return withCloud(database, async (served) => {
    const { store, app, channel } = served;
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const { organization: organizationId, location } = world;
    const owner = await app(world.owner);
    const { robotId } = await owner.newRobot({ name: "barrow", location }).then(({ id }) => ({
      robotId: id,
    }));
    await owner.updateRobot({ id: robotId, name: "cart", location });
    await owner.deleteRobot({ id: robotId });
    const stranger = await app(other.owner);
    await assertRejects(() => stranger.deleteRobot({ id: world.machine }), SvcError);
    await assertRejects(
      () => stranger.listRobotsForLocations({ locationIds: [world.location, other.location] }),
      SvcError,
    );
    await svcCloud("location", "rename", location, "yard", "--org", organizationId, ...database.flags);
    const records = client(RecordService, await channel(world.owner));
    const read = async (more: object = {}) =>
      (await records.listAuditEntries({ organizationId, ...more })).entries;
    const all = await read();
    const short = all.map(({ whoKind, action, outcome }) => `${whoKind} ${action} ${outcome}`).sort();
    assertEquals(short, [
      "key DeleteRobot done",
      "key NewRobot done",
      "key UpdateRobot done",
      "operator location rename done",
      "other DeleteRobot refused",
      "other ListRobotsForLocations refused",
    ]);
    const text = JSON.stringify(all, (_, value) => typeof value === "bigint" ? String(value) : value);
    for (const hidden of [other.owner.id, other.location, other.organization]) assert(!text.includes(hidden));
    const deleted = all.find(({ action, outcome }) => action === "DeleteRobot" && outcome === "done");
    assertEquals([deleted?.who, deleted?.whoName, deleted?.resource], [
      world.owner.id,
      "owner",
      `machine ${robotId}`,
    ]);
    assertEquals(all.find(({ action }) => action === "NewRobot")?.resourceName, "location yard");
    assertEquals((await read({ action: "robot", who: "OWN" })).length, 3);
    assertEquals((await read({ action: "%" })).length, 0);
    assertEquals((await read({ end: toTimestamp(0) })).length, 0);
    const pages = [await records.listAuditEntries({ organizationId, limit: 4 })];
    pages.push(
      await records.listAuditEntries({ organizationId, limit: 4, pageToken: pages[0].nextPageToken }),
    );
    assertEquals(pages.flatMap(({ entries }) => entries), all);
    assertEquals(pages[1].nextPageToken, "");

    for (const key of [world.operator, other.owner]) {
      const calls = client(RecordService, await channel(key));
      await assertRejects(() => calls.listAuditEntries({ organizationId }), SvcError);
    }
    await assertRejects(
      () => records.listAuditEntries({ organizationId, pageToken: "x" }),
      SvcError,
      "page token",
    );
    await assertRejects(
      () => records.listAuditEntries({ organizationId, who: "x".repeat(257) }),
      SvcError,
      "256",
    );
  });
});
