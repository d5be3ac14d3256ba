/**
 * A machine that moves to another organization begins anew there: nothing that opened it before does so any longer, and
 * what it logged and captured stays where it was.
 */

import { assertEquals } from "@std/assert";
import { CloudSLAMService } from "../../proto/gen/cloud_slam_pb.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { Accounts } from "../../lib/cloud/accounts/accounts.ts";
import { newRolloutId, Rollouts } from "../../lib/cloud/rollouts/rollouts.ts";
import { checkedPlan } from "../../lib/cloud/rollouts/plan.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { assertRefused } from "../support/refusals.ts";
import { until } from "../support/until.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";

const PLAN = checkedPlan({
  ...{ steps: [], windows: [], readings: [], atOnce: 0, unhealthyMax: 0, errorsMax: 0 },
  ...{ soakSeconds: 0, takeSeconds: 0, lateSeconds: 0 },
});

async function capture({ channel }: ServedCloud, key: World["owner"], partId: string, text: string) {
  const sync = client(DataSyncService, await channel(key));
  const about = { partId, componentName: "eye" };
  const { binaryDataId } = await sync.dataCaptureUpload({
    metadata: {
      ...about,
      componentType: "rdk:component:camera",
      methodName: "GetImages",
      type: DataType.BINARY_SENSOR,
    },
    sensorContents: [{ data: { case: "binary", value: new TextEncoder().encode(`image ${text}`) } }],
  });
  await sync.dataCaptureUpload({
    metadata: {
      ...about,
      componentType: "rdk:component:sensor",
      methodName: "Readings",
      type: DataType.TABULAR_SENSOR,
    },
    sensorContents: [{ data: { case: "struct", value: { readings: { text } } } }],
  });
  return binaryDataId;
}

/** What a key sees of the part's data: images by the machine, and the latest reading. */
async function seenBy({ channel }: ServedCloud, key: World["owner"], { machine, part }: World) {
  const data = client(DataService, await channel(key));
  const filter = { robotId: machine };
  const images = await data.binaryDataByFilter({ dataRequest: { filter }, includeBinary: true }).then(
    (answer) => answer.data.map(({ binary }) => new TextDecoder().decode(binary)),
    (error) => SvcError.from(error).code,
  );
  const latest = await data.getLatestTabularData({
    partId: part,
    resourceName: "eye",
    resourceSubtype: "rdk:component:sensor",
    methodName: "Readings",
  }).then(({ payload }) => JSON.stringify(payload ?? null), (error) => SvcError.from(error).code);
  return [images, latest];
}

storeTest(
  "a machine in another organization has new keys, and its former data stays with the former one",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app, robot, channel } = served;
      const [from, to] = [await newWorld(store), await newWorld(store)];
      const { machine, part: id } = from;
      const own = await newKey(store, "operator", "machine", machine);
      const helper = await newKey(store, "owner", "machine", machine);
      const owner = await app(from.owner);
      await owner.updateRobotPart({ id, robotConfig: { note: { password: "old secret" } } });
      await owner.updateRobotPart({ id, robotConfig: { debug: true } });
      const { part } = await owner.createRobotPartSecret({ partId: id });
      const before = await (await robot(own)).certificate({ id });
      const log = (message: string, key: World["owner"]) =>
        robot(key).then((machine) => machine.log({ id, logs: [{ message, level: "info" }] }));
      await log("before", own);
      const image = await capture(served, own, id, "before");
      const held = await robot(own);

      // Only an owner of both sides moves it.
      const move = { id: machine, name: "moved", location: to.location };
      assertEquals(await awaitOutcome(owner.updateRobot(move)), "permission_denied");
      await store.transaction((sql) =>
        new Keys(sql).grant(from.owner.id, { role: "owner", kind: "location", resourceId: to.location })
      );
      await owner.updateRobot(move);

      const [rows] = [await store.query("SELECT id FROM api_keys WHERE id IN (?, ?)", own.id, helper.id)];
      assertEquals([
        rows.length,
        await awaitOutcome(held.config({ id })),
        await awaitOutcome(held.certificate({ id })),
      ], [
        0,
        "unauthenticated",
        "unauthenticated",
      ]);
      assertEquals((await store.query("SELECT id FROM shared_secrets WHERE part_id = ?", id)).length, 0);
      assertEquals(part?.secrets.length, 1);
      const operators = await app(from.operator);
      assertEquals(await awaitOutcome(operators.getRobotPart({ id })), "permission_denied");
      const theirs = await app(to.owner);
      assertEquals((await theirs.getRobotAPIKeys({ robotId: machine })).apiKeys, []);

      const ownNow = await newKey(store, "operator", "machine", machine);
      const after = await (await robot(ownNow)).certificate({ id });
      assertEquals(before.tlsPrivateKey === after.tlsPrivateKey, false);
      for (const key of [to.owner, to.operator, ownNow]) {
        const caller = await app(key);
        assertEquals((await caller.getRobotPartLogs({ id })).logs, []);
        assertEquals((await caller.getRobotPartHistory({ id })).history, []);
        assertEquals(await seenBy(served, key, from), [[], "null"]);
        const data = client(DataService, await channel(key));
        assertEquals(
          await awaitOutcome(data.binaryDataByIDs({ binaryDataIds: [image] })),
          "permission_denied",
        );
      }
      const [images] = await seenBy(served, from.owner, { ...from, machine: "" });
      assertEquals(images, ["image before"]);

      // What comes from now on belongs to the new organization.
      const [{ movedMs }] = await store.query<{ movedMs: number }>(
        `SELECT moved_ms AS "movedMs" FROM parts WHERE id = ?`,
        id,
      );
      await until(() => Date.now() > movedMs, { withinMs: 10_000 });
      await log("after", ownNow);
      await capture(served, ownNow, id, "after");
      await theirs.updateRobotPart({ id, robotConfig: { debug: false } });
      assertEquals((await theirs.getRobotPartLogs({ id })).logs.map(({ message }) => message), ["after"]);
      assertEquals((await theirs.getRobotPartHistory({ id })).history.map(({ old }) => old?.robotConfig), [{
        debug: true,
      }]);
      for (const key of [to.owner, ownNow]) {
        assertEquals(await seenBy(served, key, from), [["image after"], '{"readings":{"text":"after"}}']);
      }
    }),
);

storeTest(
  "a person with a role on nothing but the machine that moves keeps the account, without the role",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [from, to] = [await newWorld(store), await newWorld(store)];
      const grant = { role: "operator", kind: "machine", resourceId: from.machine } as const;
      const secret = await newKeySecret();
      const person = await store.transaction(async (sql) => {
        const id = await new Accounts(sql).create({ email: "ann@example.com", name: "Ann", secret }, 0);
        await new Keys(sql).grant(id, grant);
        await new Keys(sql).grant(from.owner.id, {
          role: "owner",
          kind: "location",
          resourceId: to.location,
        });
        return id;
      });
      const key = await newKey(store, "operator", "machine", from.machine);
      await (await app(from.owner)).updateRobot({ id: from.machine, name: "moved", location: to.location });
      assertEquals((await new Accounts(store).find(person))?.email, "ann@example.com");
      const left = await store.query("SELECT key_id FROM grants WHERE key_id IN (?, ?)", person, key.id);
      const own = await store.query("SELECT id FROM api_keys WHERE id = ?", key.id);
      assertEquals([left.length, own.length], [0, 0]);
    }),
);

storeTest(
  "a machine in another organization is mapped there, and its session of the former one ends",
  (database) =>
    withCloud(database, async ({ store, app, channel }) => {
      const [from, to] = [await newWorld(store), await newWorld(store)];
      const { machine: robotId } = from;
      const mappingOf = async ({ owner, organization: organizationId }: World) => {
        const calls = client(CloudSLAMService, await channel(owner));
        const sensors = [{ sourceComponentName: "lidar", type: "camera" }];
        const request = { organizationId, robotId, mapName: "hall", sensors };
        return { ...calls, start: () => calls.startMappingSession(request) };
      };
      const [formerly, now] = [await mappingOf(from), await mappingOf(to)];
      const { sessionId } = await formerly.start();
      assertEquals(await awaitOutcome(formerly.start()), "already_exists");
      await store.transaction((sql) =>
        new Keys(sql).grant(from.owner.id, { role: "owner", kind: "location", resourceId: to.location })
      );
      await (await app(from.owner)).updateRobot({ id: robotId, name: "moved", location: to.location });

      const activeId = async () => (await now.getActiveMappingSessionsForRobot({ robotId })).sessionId;
      assertEquals(await activeId(), "");
      const started = await now.start();
      assertEquals(await activeId(), started.sessionId);
      assertEquals(await awaitOutcome(now.start()), "already_exists");
      assertEquals(await awaitOutcome(now.stopMappingSession({ sessionId })), "permission_denied");
      // The former organization still sees its session, which waits for no further data.
      await until(async () => {
        const { sessionMetadata } = await formerly.getMappingSessionMetadataByID({ sessionId });
        return sessionMetadata?.timeCloudRunJobEnded !== undefined;
      }, { withinMs: 60_000 });
      await now.stopMappingSession({ sessionId: started.sessionId });
    }),
);

storeTest(
  "a machine that moves within its organization keeps its keys and data",
  (database) =>
    withCloud(database, async (served) => {
      const world = await newWorld(served.store);
      const own = await newKey(served.store, "operator", "machine", world.machine);
      await capture(served, own, world.part, "before");
      const app = await served.app(world.owner);
      const { location } = await app.createLocation({ organizationId: world.organization, name: "shed" });
      await app.updateRobot({ id: world.machine, name: "rover", location: location!.id });
      assertEquals(await seenBy(served, own, world), [["image before"], '{"readings":{"text":"before"}}']);
      assertEquals(
        (await (await served.robot(own)).config({ id: world.part })).config?.cloud?.locationId,
        location!.id,
      );
    }),
);

storeTest(
  "a machine in another organization is in no rollout of the former one",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [from, to] = [await newWorld(store), await newWorld(store)];
      const rollout = (organizationId: string) => ({
        id: newRolloutId(),
        organizationId,
        name: `of ${organizationId}`,
        change: { kind: "svc-server", id: "", version: "2.0.0" } as const,
        plan: PLAN,
        who: "somebody",
      });
      const former = rollout(from.organization);
      const begin = (made: ReturnType<typeof rollout>) =>
        store.transaction((sql) => new Rollouts(sql).add(made, [{ id: from.part, step: 0 }], Date.now()));
      await begin(former);
      await assertRefused("failed_precondition", former.name, () => begin(rollout(to.organization)));
      await store.transaction((sql) =>
        new Keys(sql).grant(from.owner.id, { role: "owner", kind: "location", resourceId: to.location })
      );
      await (await app(from.owner)).updateRobot({ id: from.machine, name: "moved", location: to.location });
      await begin(rollout(to.organization));
      const [{ state, reason }] = await new Rollouts(store).parts(former.id, { limit: 2 });
      assertEquals([state, reason], ["skipped", "it was moved to another organization"]);
    }),
);
