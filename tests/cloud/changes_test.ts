/** What machines hear at once of their control plane. */

import { assert, assertEquals } from "@std/assert";
import { ChangeService, type FollowResponse } from "../../proto/gen/changes_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { Releases } from "../../lib/cloud/packages/releases.ts";
import type { NewKey } from "../../lib/cloud/access/keys.ts";
import { Secrets } from "../../lib/cloud/store/secrets/secrets.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { until } from "../support/until.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, ownKey, type ServedCloud, withCloud } from "./world.ts";

/** The changes that a follower of a part receives. */
async function follow({ channel }: ServedCloud, key: NewKey, id: string) {
  const over = new AbortController();
  const { follow } = client(ChangeService, await channel(key));
  const answers = follow({ id }, { signal: over.signal })[Symbol.asyncIterator]();
  const { value: first } = await answers.next() as { value: FollowResponse };
  assertEquals([first.config, first.restart, first.release], [false, false, false]);
  const heard: string[] = [];
  const rest = (async () => {
    for (let next = await answers.next(); !next.done; next = await answers.next()) {
      const news = next.value as FollowResponse;
      heard.push((["config", "restart", "release"] as const).filter((kind) => news[kind]).join("+"));
    }
  })().catch((error) => void heard.push(SvcError.from(error).code));
  return {
    heard,
    /** Waits until it has heard of something, and forgets it. */
    next: async () => {
      await until(() => heard.length > 0);
      return heard.splice(0);
    },
    end: async () => {
      over.abort();
      await rest;
    },
  };
}

storeTest(
  "the control plane notifies a machine of changes to its own configuration, keys and orders alone",
  (database) =>
    withCloud(database, async (cloud) => {
      const { store, app, robot } = cloud;
      const world = await newWorld(store);
      const other = await newWorld(store);
      const own = await newKey(store, "operator", "machine", world.machine);
      const mine = await follow(cloud, own, world.part);
      const theirs = await follow(cloud, await ownKey(store, other), other.part);
      const owner = await app(world.owner);

      await owner.updateRobotPart({ id: world.part, name: "rover-main", robotConfig: { debug: true } });
      assertEquals(await mine.next(), ["config"]);
      assertEquals((await (await robot(own)).config({ id: world.part })).config?.debug, true);
      await owner.markPartForRestart({ partId: world.part });
      assertEquals(await mine.next(), ["restart"]);
      assertEquals((await (await robot(own)).needsRestart({ id: world.part })).mustRestart, true);
      // Nothing has been polled for the other part: its connection is its sign of life.
      const { part } = await (await app(other.owner)).getRobotPart({ id: other.part });
      assert(part?.lastAccess !== undefined);

      const authorization = {
        resourceType: "robot",
        resourceId: world.machine,
        organizationId: world.organization,
      };
      const role = {
        authorizationType: "role",
        authorizationId: "robot_operator",
        identityType: "api-key",
        identityId: "",
      };
      const { id } = await owner.createKey({
        authorizations: [{ ...authorization, ...role }],
        name: "visitor",
      });
      assertEquals(await mine.next(), ["config"]);
      await owner.deleteKey({ id });
      assertEquals(await mine.next(), ["config"]);

      // A fragment notifies the parts that use it.
      const { fragment } = await owner.createFragment({
        organizationId: world.organization,
        name: "lights",
        config: {},
      });
      await owner.updateRobotPart({
        id: world.part,
        name: "rover-main",
        robotConfig: { fragments: [fragment!.id] },
      });
      assertEquals(await mine.next(), ["config"]);
      await owner.updateFragment({ id: fragment!.id, name: "lights", config: { debug: true } });
      assertEquals(await mine.next(), ["config"]);
      // What says the same is no news.
      await owner.updateRobotPart({
        id: world.part,
        name: "rover-main",
        robotConfig: { fragments: [fragment!.id] },
      });
      await owner.updateRobotPart({ id: world.part, name: "rover-main", robotConfig: {} });
      assertEquals(await mine.next(), ["config"]);
      assertEquals(theirs.heard, []);

      await owner.deleteRobot({ id: world.machine });
      assertEquals(await mine.next(), ["not_found"]);
      await Promise.all([mine.end(), theirs.end()]);
    }),
);

storeTest(
  "changes by other processes on the database are announced, too",
  (database) =>
    withCloud(database, async (cloud) => {
      const { machine, part } = await newWorld(cloud.store);
      const mine = await follow(cloud, await ownKey(cloud.store, { machine }), part);
      // Another control plane, or a command beside this one.
      const others = await database.open();
      const [clock, folder] = [new SystemClock(), `${database.folder}/keys`];
      const logger = silentLogs(clock).logger("other");
      Secrets.sealNotices({ store: others, host: new DenoHost(), folder, clock, logger });
      const actor = { who: "cli:somebody", action: "config set" };
      const audit = new Audit(others, clock);
      await audit.change(
        actor,
        { kind: "part", id: part },
        (sql, nowMs) => new PartConfigs(sql).set(part, configText({ debug: true }), "cli:somebody", nowMs),
      );
      assertEquals(await mine.next(), ["config"]);
      await audit.change(actor, { kind: "part", id: part }, (sql) => new Parts(sql).orderRestart(part));
      assertEquals(await mine.next(), ["restart"]);
      await cloud.store.transaction((sql) => new Parts(sql).takeRestart(part));
      const release = { kind: "release", id: "svc-server 1.0.0" } as const;
      const program = { name: "svc-server", version: "1.0.0", platform: "linux/amd64" };
      await audit.change(actor, release, (sql, nowMs) => {
        const file = { sha256: "0".repeat(64), bytes: 1 };
        return new Releases(sql).add({ ...program, channel: "dev", file }, nowMs);
      });
      assertEquals(await mine.next(), ["release"]);
      await audit.change(actor, release, (sql) =>
        new Releases(sql).setChannel("svc-server", "1.0.0", "stable"));
      assertEquals(await mine.next(), ["release"]);
      await mine.end();
    }),
);

/** Follows as soon as there is room. */
async function untilFollowed(cloud: ServedCloud, key: NewKey, id: string) {
  let following: Awaited<ReturnType<typeof follow>> | undefined;
  const attempt = async () => following = await follow(cloud, key, id).catch(() => undefined);
  await until(() => following !== undefined, { meanwhile: attempt });
  return following!;
}

storeTest(
  "ChangeService refuses callers without a role on the machine, and followers above the limits",
  (database) =>
    withCloud(database, async (cloud) => {
      const { store, channel } = cloud;
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const refused = async (key: NewKey | undefined, id: string) => {
        const { follow } = client(ChangeService, await channel(key));
        const over = new AbortController();
        try {
          await follow({ id }, { signal: over.signal })[Symbol.asyncIterator]().next();
          return "served";
        } catch (error) {
          return SvcError.from(error).code;
        } finally {
          over.abort();
        }
      };
      assertEquals(await refused(undefined, world.part), "unauthenticated");
      assertEquals(await refused(other.owner, world.part), "permission_denied");
      assertEquals(await refused(world.owner, "nobody"), "not_found");

      const [own, theirs] = [await ownKey(store, world), await ownKey(store, other)];
      const [first, second] = [
        await follow(cloud, own, world.part),
        await follow(cloud, own, world.part),
      ];
      const third = await follow(cloud, own, world.part);
      // The oldest connection makes room for a returning machine, but not for other machines.
      assertEquals(await first.next(), ["resource_exhausted"]);
      assertEquals(await refused(theirs, other.part), "served");
      // The one that was served goes in its own time.
      const more = await untilFollowed(cloud, theirs, other.part);
      assertEquals(await refused(theirs, other.part), "served");
      assertEquals(await more.next(), ["resource_exhausted"], "it replaces the one of its own part");
      assertEquals([second.heard, third.heard], [[], []]);
      await Promise.all([first.end(), second.end(), third.end(), more.end()]);
    }, { limits: { ...defaultLimits(), followersPerPart: 2, followersAtOnce: 3 } }),
);
