/**
 * TabularDataByMQL and TabularDataBySQL: queries over the readings of an organization.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { deserialize, serialize } from "bson";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { AppService } from "../../proto/gen/app_pb.ts";
import { DataService, TabularDataSourceType } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { storeTest, withDatabase } from "./stores.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { newKey, newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";
import { awaitOutcome } from "../support/outcome.ts";

const START_MS = Date.UTC(2026, 2, 15, 14);
const HOUR_MS = 3_600_000;
type Stage = { readonly [operator: string]: unknown };

/** A person with this key, who asks in one organization. */
async function person({ channel }: ServedCloud, key: World["owner"], organizationId: string) {
  const connection = await channel(key);
  const data = client(DataService, connection);
  const sync = client(DataSyncService, connection);
  return {
    data,
    async query(...stages: readonly Stage[]) {
      const mqlBinary = stages.map((stage) => serialize(stage));
      const { rawData } = await data.tabularDataByMQL({ organizationId, mqlBinary });
      return rawData.map((one) => deserialize(one));
    },
    /** The refusal of a query, `code: message`. */
    refusal(...stages: readonly Stage[]): Promise<string> {
      return this.query(...stages).then((found) => `found ${found.length}`, (error) => {
        const { code, message } = SvcError.from(error);
        return `${code}: ${message}`;
      });
    },
    /** One reading an hour. */
    async readings(
      partId: string,
      component: string,
      values: readonly number[],
      tags: readonly string[] = [],
    ) {
      await sync.dataCaptureUpload({
        metadata: {
          partId,
          componentType: "rdk:component:sensor",
          componentName: component,
          methodName: "Readings",
          type: DataType.TABULAR_SENSOR,
          tags: [...tags],
        },
        sensorContents: values.map((celsius, hour) => ({
          metadata: {
            timeRequested: toTimestamp(START_MS + hour * HOUR_MS),
            timeReceived: toTimestamp(START_MS + hour * HOUR_MS + 5),
          },
          data: { case: "struct" as const, value: { readings: { celsius } } },
        })),
      });
    },
  };
}

storeTest(
  "a query finds readings of every source and time that its $match lets pass",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, machine, location, organization } = await newWorld(cloud.store);
      const me = await person(cloud, owner, organization);
      await me.readings(part, "indoors", Array.from({ length: 1_203 }, (_, hour) => hour), ["warm"]);
      await me.readings(part, "outdoors", [3, 4, 5]);
      const at = (hours: number) => new Date(START_MS + hours * HOUR_MS);
      const count = async (match: Stage) =>
        (await me.query({ $match: match }, { $count: "found" }))[0]?.found ?? 0;
      assertEquals(await count({ location_id: location, robot_id: machine, part_id: part }), 1_206);
      assertEquals(await count({ component_name: { $in: ["outdoors", "attic"] } }), 3);
      assertEquals(await count({ time_requested: { $gt: at(1), $lte: at(3) } }), 3);
      assertEquals(await count({ time_received: { $gt: at(0), $lt: at(2) } }), 4);
      assertEquals(await count({ component_name: "outdoors", "data.readings.celsius": { $gte: 4 } }), 2);
    }),
);

storeTest(
  "a query sees only the organization that it names, and needs a role on it",
  (database) =>
    withCloud(database, async (cloud) => {
      const mine = await newWorld(cloud.store);
      const theirs = await newWorld(cloud.store);
      const me = await person(cloud, mine.owner, mine.organization);
      const they = await person(cloud, theirs.owner, theirs.organization);
      await me.readings(mine.part, "indoors", [20]);
      await they.readings(theirs.part, "indoors", [3]);
      const stage = { $match: { organization_id: { $exists: true } } };
      assertEquals((await me.query(stage)).map((one) => one.organization_id), [mine.organization]);
      const curious = await person(cloud, mine.owner, theirs.organization);
      assertStringIncludes(await curious.refusal(stage), "permission_denied");
      const ofMachine = await newKey(cloud.store, "owner", "machine", theirs.machine);
      const narrow = await person(cloud, ofMachine, mine.organization);
      assertStringIncludes(await narrow.refusal(stage), "permission_denied");
    }),
);

storeTest(
  "a key of a machine or location queries what was captured there, however it asks",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, machine, location, organization } = await newWorld(cloud.store);
      const all = await person(cloud, owner, organization);
      await all.readings(part, "indoors", [20]);
      const app = await cloud.app(owner);
      const place = async (name: string, parentLocationId?: string) =>
        (await app.createLocation({ organizationId: organization, name, parentLocationId })).location!.id;
      const [inside, beside] = [await place("cellar", location), await place("yard")];
      const parts = new Map<string, string>();
      for (const [name, at] of [["near", location], ["inside", inside], ["beside", beside]] as const) {
        const made = await cloud.store.transaction((sql) => new Machines(sql).create(at, name, 0));
        parts.set(name, made.partId);
        await all.readings(made.partId, name, [7]);
      }
      const keys: readonly (readonly [World["owner"], string[]])[] = [
        [await ownKey(cloud.store, { machine }), ["indoors"]],
        [await newKey(cloud.store, "viewer", "location", location), ["indoors", "inside", "near"]],
        [await newKey(cloud.store, "owner", "location", beside), ["beside"]],
        [owner, ["beside", "indoors", "inside", "near"]],
      ];

      for (const [key, wanted] of keys) {
        const me = await person(cloud, key, organization);
        const names = { $group: { _id: "$component_name" } };
        const other = { $match: { part_id: parts.get("near") } };
        for (
          const stages of [
            [names],
            [{ $match: { organization_id: organization } }, names],
            [{ $match: { component_name: { $in: ["beside", "indoors", "inside", "near"] } } }, names],
          ]
        ) {
          const found = await me.query(...stages);
          assertEquals(found.map((one) => one._id).sort(), wanted, JSON.stringify(stages));
        }
        for (
          const stage of [
            { $unionWith: "readings" },
            { $lookup: { from: "readings", pipeline: [names], as: "found" } },
            {
              $graphLookup: {
                from: "readings",
                startWith: 1,
                connectFromField: "a",
                connectToField: "b",
                as: "c",
              },
            },
            { $facet: { found: [names] } },
          ]
        ) assertStringIncludes(await me.refusal({ $limit: 1 }, stage), "invalid_argument");
        const sees = wanted.some((one) => one === "near");
        assertEquals((await me.query(other, names)).map((one) => one._id), sees ? ["near"] : []);

        const rows = async (sqlQuery: string): Promise<unknown[]> => {
          const { rawData } = await me.data.tabularDataBySQL({ organizationId: organization, sqlQuery });
          return rawData.map((one) => deserialize(one).name).sort();
        };
        for (
          const query of [
            "SELECT component_name AS name FROM readings",
            `SELECT component_name AS name FROM readings WHERE organization_id = '${organization}' OR TRUE`,
            "SELECT DISTINCT b.component_name AS name FROM range(1) a LEFT JOIN readings b ON TRUE",
            "WITH r AS (SELECT * FROM readings) SELECT component_name AS name FROM r UNION SELECT component_name FROM readings",
            "SELECT unnest((SELECT list(component_name) FROM readings)) AS name",
            "SELECT b.name FROM range(1), LATERAL (SELECT component_name AS name FROM readings) b",
          ]
        ) {
          assertEquals(await rows(query), wanted, query);
        }
        for (
          const query of [
            "SELECT table_name AS name FROM information_schema.tables",
            "SELECT name FROM pragma_table_info('readings')",
            "SELECT path AS name FROM duckdb_databases()",
            "SELECT file AS name FROM glob('*')",
            "SELECT content AS name FROM read_text('/etc/hostname')",
            "CREATE VIEW v AS SELECT * FROM readings",
          ]
        ) {
          assertStringIncludes(await awaitOutcome(rows(query)), "invalid_argument", query);
        }
      }
    }),
);

storeTest(
  "a key of a machine has neither saved queries nor results of pipelines",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, machine, organization: organizationId } = await newWorld(cloud.store);
      const all = await person(cloud, owner, organizationId);
      await all.readings(part, "indoors", [20]);
      const mqlBinary = [serialize({ $limit: 1 })];
      await all.data.createSavedQuery({ organizationId, name: "first", mqlBinary });
      const { data } = await person(
        cloud,
        await newKey(cloud.store, "owner", "machine", machine),
        organizationId,
      );
      const dataSource = { type: TabularDataSourceType.PIPELINE_SINK, pipelineId: "any" };
      for (const more of [{ queryPrefixName: "first" }, { dataSource }]) {
        const asked = data.tabularDataByMQL({ organizationId, mqlBinary, ...more });
        assertEquals(await awaitOutcome(asked), "permission_denied");
      }
      const found = await all.data.tabularDataByMQL({ organizationId, mqlBinary, queryPrefixName: "first" });
      assertEquals(found.rawData.length, 1);
    }),
);

Deno.test("a query that cannot run, fills its memory or is given up ends alone", () =>
  withDatabase("sqlite", (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, organization } = await newWorld(cloud.store);
      const me = await person(cloud, owner, organization);
      await me.readings(part, "indoors", [20]);
      assertEquals(
        await me.refusal({ $match: { $where: "true" } }),
        "invalid_argument: mql_binary[0]: $where is not allowed: queries run no code",
      );
      const sink = { type: TabularDataSourceType.PIPELINE_SINK };
      const piped = me.data.tabularDataByMQL({ organizationId: organization, dataSource: sink });
      assertEquals(await awaitOutcome(piped), "not_found");

      const huge = { $map: { input: { $range: [0, 1e9] }, in: { value: "$$this" } } };
      assertMatch(
        await me.refusal({ $set: { huge } }),
        /^(resource_exhausted|failed_precondition): .* MiB of memory/,
      );

      const theirs = await newWorld(cloud.store);
      const they = await person(cloud, theirs.owner, theirs.organization);
      await they.readings(theirs.part, "indoors", [3]);
      const giveUp = new AbortController();
      const regex = { $match: { component_name: { $regex: "^(([a-z])+.)+[A-Z]([a-z])+$" } } };
      const names = { $set: { component_name: "a".repeat(60) } };
      const mqlBinary = [names, regex].map((stage) => serialize(stage));
      const endless = me.data.tabularDataByMQL(
        { organizationId: organization, mqlBinary },
        { signal: giveUp.signal },
      );
      const ended = awaitOutcome(endless);
      assertEquals(await they.query({ $count: "found" }), [{ found: 1 }]);
      giveUp.abort();
      assertEquals(await ended, "canceled");
      assertEquals(await me.query({ $count: "found" }), [{ found: 1 }]);
    })));

storeTest(
  "a query in SQL joins and ranks the readings of its organization and sees no other",
  (database) =>
    withCloud(database, async (cloud) => {
      const mine = await newWorld(cloud.store);
      const theirs = await newWorld(cloud.store);
      const me = await person(cloud, mine.owner, mine.organization);
      const they = await person(cloud, theirs.owner, theirs.organization);
      await me.readings(mine.part, "indoors", Array.from({ length: 1_203 }, (_, hour) => hour), ["warm"]);
      await me.readings(mine.part, "outdoors", [3, 4, 5.5]);
      await they.readings(theirs.part, "indoors", [30]);
      const ask = async (sqlQuery: string) => {
        const { rawData } = await me.data.tabularDataBySQL({ organizationId: mine.organization, sqlQuery });
        return rawData.map((one) => deserialize(one));
      };
      assertEquals(
        await ask("SELECT organization_id, COUNT(*) FROM readings GROUP BY organization_id"),
        [{ organization_id: mine.organization, _1: 1_206 }],
      );
      assertEquals(
        await ask(
          `SELECT i.data.readings.celsius - o.data.readings.celsius AS warmer, i.tags FROM readings i
           JOIN readings o USING (time_requested)
           WHERE i.component_name = 'indoors' AND o.component_name = 'outdoors' ORDER BY time_requested`,
        ),
        [-3, -3, -3.5].map((warmer) => ({ warmer, tags: ["warm"] })),
      );
      assertEquals(
        await ask(
          "SELECT COUNT(*) FROM readings WHERE component_name = 'indoors' AND " +
            `time_requested BETWEEN '${new Date(START_MS + HOUR_MS).toISOString()}' AND ` +
            `'${new Date(START_MS + 3 * HOUR_MS).toISOString()}'`,
        ),
        [{ _1: 3 }],
      );
      const [{ data, time_requested: time }] = await ask(
        "SELECT * FROM readings ORDER BY time_requested DESC LIMIT 1",
      );
      assertEquals([data, time], [{ readings: { celsius: 1_202 } }, new Date(START_MS + 1_202 * HOUR_MS)]);
    }),
);

Deno.test("a process that has answered a query answers no other organization and no revoked key", () =>
  withDatabase("sqlite", (database) =>
    withCloud(database, async (cloud) => {
      const [mine, theirs] = [await newWorld(cloud.store), await newWorld(cloud.store)];
      // One key with a role in both organizations, and one that is revoked.
      const secret = await newKeySecret();
      const grants = [mine, theirs].map(({ organization }) =>
        ({ role: "owner", kind: "organization", resourceId: organization }) as const
      );
      const both = await cloud.store.transaction((sql) => new Keys(sql).create(secret, "both", grants, 0));
      const me = await person(cloud, mine.owner, mine.organization);
      const they = await person(cloud, theirs.owner, theirs.organization);
      await me.readings(mine.part, "indoors", [1, 2]);
      await they.readings(theirs.part, "outdoors", [3]);
      const { data } = await person(cloud, both, mine.organization);
      const counted = async (organizationId: string) => {
        const sqlQuery = "SELECT organization_id AS id, COUNT(*) AS n FROM readings GROUP BY ALL";
        const { rawData } = await data.tabularDataBySQL({ organizationId, sqlQuery });
        return rawData.map((one) => deserialize(one));
      };
      for (let round = 0; round < 2; round++) {
        assertEquals(await counted(mine.organization), [{ id: mine.organization, n: 2 }]);
        assertEquals(await counted(theirs.organization), [{ id: theirs.organization, n: 1 }]);
      }
      await client(AppService, await cloud.channel(mine.owner)).deleteKey({ id: both.id });
      for (const { organization } of [mine, theirs]) {
        assertEquals(await awaitOutcome(counted(organization)), "unauthenticated");
      }
    })));

Deno.test("a process that has answered a query tells a key nothing that is outside its lowered or removed role", () =>
  withDatabase("sqlite", (database) =>
    withCloud(database, async (cloud) => {
      const world = await newWorld(cloud.store);
      const organizationId = world.organization;
      const owner = await person(cloud, world.owner, organizationId);
      await owner.readings(world.part, "indoors", [1, 2]);
      const app = client(AppService, await cloud.channel(world.owner));
      const roleOf = (identityId: string, resourceType: string, resourceId: string) => ({
        authorizationType: "role",
        authorizationId: `${resourceType}_owner`,
        resourceType,
        resourceId,
        identityId,
        identityType: "api-key",
        organizationId,
      });
      const grant = { role: "owner", kind: "organization", resourceId: organizationId } as const;
      for (const change of ["lowered", "removed"]) {
        const secret = await newKeySecret();
        const key = await cloud.store.transaction((sql) => new Keys(sql).create(secret, change, [grant], 0));
        const { data } = await person(cloud, key, organizationId);
        const query = async () => {
          const sqlQuery = "SELECT COUNT(*) AS found FROM readings";
          const { rawData } = await data.tabularDataBySQL({ organizationId, sqlQuery });
          return deserialize(rawData[0]!).found;
        };
        for (let round = 0; round < 2; round++) assertEquals(await query(), 2);
        const before = roleOf(key.id, "organization", organizationId);
        if (change === "removed") {
          await app.removeRole({ authorization: before });
          assertEquals(await awaitOutcome(query()), "permission_denied");
        } else {
          const { location } = await app.createLocation({ organizationId, name: "shed" });
          const after = roleOf(key.id, "location", location!.id);
          await app.changeRole({ oldAuthorization: before, newAuthorization: after });
          assertEquals(await query(), 0);
        }
      }
    })));

Deno.test("a query in SQL that never ends, or fills its memory, ends alone", () =>
  withDatabase("sqlite", (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, organization: organizationId } = await newWorld(cloud.store);
      const me = await person(cloud, owner, organizationId);
      await me.readings(part, "indoors", [20]);
      const theirs = await newWorld(cloud.store);
      const they = await person(cloud, theirs.owner, theirs.organization);
      const count = "SELECT COUNT(*) FROM readings";
      const giveUp = new AbortController();
      const recursion =
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x FROM n) SELECT COUNT(*) FROM n";
      const endless = awaitOutcome(
        me.data.tabularDataBySQL({ organizationId, sqlQuery: recursion }, { signal: giveUp.signal }),
      );
      const others = await they.data.tabularDataBySQL({
        organizationId: theirs.organization,
        sqlQuery: count,
      });
      assertEquals(others.rawData.map((one) => deserialize(one)), [{ _1: 0 }]);
      giveUp.abort();
      assertEquals(await endless, "canceled");
      const full = "SELECT list(range) AS x FROM range(1000000000)";
      assertEquals(
        await awaitOutcome(me.data.tabularDataBySQL({ organizationId, sqlQuery: full })),
        "resource_exhausted",
      );
      const { rawData } = await me.data.tabularDataBySQL({ organizationId, sqlQuery: count });
      assertEquals(rawData.map((one) => deserialize(one)), [{ _1: 1 }]);
    })));
