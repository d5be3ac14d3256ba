/**
 * The requests of the published command line `viam`, command by command, repeated as plain calls.
 *
 * The fields that each command sets, empties or omits come from its published sources; this test checks the fields of
 * the answers that it reads.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { AppService, Visibility } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { DataService, TagsFilterType } from "../../proto/gen/data_pb.ts";
import { DatasetService } from "../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { packed } from "../../lib/base/files/archive.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";

/** Its page size for data. */
const PAGE = 100n;
const DEADLINE_MS = 120_000;

storeTest(
  "viam login api-key, organizations, locations, machines: list, create, rename, status, delete",
  (database) =>
    asCommandLine(database, async (channel, world) => {
      const app = client(AppService, channel);
      // organizations list; every other command begins with it too, to find one by its name.
      const { organizations: [organization] } = await app.listOrganizations({});
      assertEquals(organization.id, world.organization);
      // locations list
      const { locations: [hall] } = await app.listLocations({ organizationId: organization.id });
      assertEquals([hall.name, hall.robotCount], ["hall", 1]);
      // machines create --name --location
      const { id } = await app.newRobot({ name: "made", location: hall.id });
      // machines list
      const { robots } = await app.listRobots({ locationId: hall.id });
      const mains = await Promise.all(robots.map(async (robot) => {
        const { parts } = await app.getRobotParts({ robotId: robot.id });
        return parts.find(({ mainPart }) => mainPart)?.id;
      }));
      assertEquals([robots.map(({ name }) => name).sort(), mains.every(Boolean)], [["made", "rover"], true]);
      // machines update --new-name: the organization is the one given as the location's own.
      const { location } = await app.getLocation({ locationId: hall.id });
      const primary = location!.organizations.find((one) => one.primary)!.organizationId;
      assertEquals(primary, organization.id);
      await app.updateRobot({ id, location: hall.id, name: "renamed" });
      // machines status
      assertEquals((await app.getRobot({ id })).robot?.name, "renamed");
      const { organizationIdentities } = await app.getOrganizationsWithAccessToLocation({
        locationId: hall.id,
      });
      assertEquals(organizationIdentities[0].name, organization.name);
      // machines delete
      await app.deleteRobot({ id });
      assertEquals((await app.listRobots({ locationId: hall.id })).robots.length, 1);
      // metadata read
      for (
        const { data } of [
          await app.getOrganizationMetadata({ organizationId: organization.id }),
          await app.getLocationMetadata({ locationId: hall.id }),
          await app.getRobotMetadata({ id: world.machine }),
          await app.getRobotPartMetadata({ id: world.part }),
        ]
      ) assertEquals(data, {});
    }),
);

storeTest(
  "viam machines part: list, fragments add, restart; machines logs and machines part logs",
  (database) =>
    asCommandLine(database, async (channel, world, served) => {
      const app = client(AppService, channel);
      const { parts: [part] } = await app.getRobotParts({ robotId: world.machine });
      // machines part fragments add: returns the complete configuration as read, with one more fragment.
      const { fragment } = await app.createFragment({ organizationId: world.organization, name: "shared" });
      const { fragments } = await app.listFragments({ organizationId: world.organization, showPublic: true });
      assertEquals(fragments.map(({ id }) => id), [fragment!.id]);
      const robotConfig = { ...part.robotConfig, fragments: [fragment!.id] };
      await app.updateRobotPart({ id: part.id, name: part.name, robotConfig });
      // machines part restart
      await app.markPartForRestart({ partId: part.id });
      const robot = await served.robot(await ownKey(served.store, world));
      assertEquals((await robot.needsRestart({ id: part.id })).mustRestart, true);

      const lines = Array.from({ length: 120 }, (_, at) => ({ message: `line ${at}`, level: "info" }));
      await robot.log({ id: part.id, logs: [...lines, { message: "oops", level: "error" }] });
      // machines logs: keyword and page token are there and empty; pages until one is empty.
      const messages: string[] = [];
      for (let pageToken = "";;) {
        const page = await app.getRobotPartLogs({ id: part.id, filter: "", pageToken, levels: [] });
        if (page.logs.length === 0) break;
        messages.push(...page.logs.map(({ message }) => message));
        pageToken = page.nextPageToken;
        if (pageToken === "") break;
      }
      assertEquals([messages.length, new Set(messages).size], [121, 121]);
      // machines logs --levels error --keyword oops
      const found = await app.getRobotPartLogs({
        id: part.id,
        filter: "oops",
        pageToken: "",
        levels: ["error"],
      });
      assertEquals(found.logs.map(({ message }) => message), ["oops"]);
      // machines part logs --errors
      const errors = await app.getRobotPartLogs({ id: part.id, errorsOnly: true, pageToken: "" });
      assertEquals(errors.logs.map(({ message }) => message), ["oops"]);
      // machines part logs --tail
      const tail = app.tailRobotPartLogs({ id: part.id, errorsOnly: true })[Symbol.asyncIterator]();
      const next = tail.next();
      let heard = false;
      next.then(() => heard = true, () => heard = true);
      // A follower gets entries from its beginning on, so distinct lines are logged until the first arrives.
      const deadline = AbortSignal.timeout(DEADLINE_MS);
      for (let output = 0; !heard; output++) {
        await robot.log({ id: part.id, logs: [{ message: `again ${output}`, level: "error" }] });
        await new SystemClock().sleep(20, deadline);
      }
      assertStringIncludes((await next).value?.logs[0].message ?? "", "again");
      await tail.return?.();
    }),
);

storeTest(
  "viam organizations, locations and machines api-key create",
  (database) =>
    asCommandLine(database, async (channel, { organization, location, machine }, served) => {
      const { createKey } = client(AppService, channel);
      const common = { authorizationType: "role", identityId: "", identityType: "api-key" };
      for (
        const [resourceType, resourceId] of [
          ["organization", organization],
          ["location", location],
          ["robot", machine],
        ]
      ) {
        const authorization = {
          ...common,
          authorizationId: `${resourceType}_owner`,
          resourceType,
          resourceId,
          organizationId: organization,
        };
        const made = await createKey({ authorizations: [authorization], name: `me-${resourceType}` });
        const { organizations } = await (await served.app(made)).listOrganizations({});
        assertEquals(organizations.map(({ id }) => id), [organization]);
      }
    }),
);

storeTest(
  "viam module create, update, upload",
  (database) =>
    asCommandLine(database, async (channel, { organization: organizationId }) => {
      const app = client(AppService, channel);
      // module create --name --org-id: who has no public name is asked for by its id.
      const { organization } = await app.getOrganization({ organizationId });
      assertEquals(organization?.publicNamespace, "");
      const { moduleId } = await app.createModule({ name: "soil", organizationId });
      assertEquals(moduleId, `${organizationId}:soil`);
      // module update
      await app.getModule({ moduleId });
      await app.updateModule({
        moduleId,
        visibility: Visibility.PRIVATE,
        url: "",
        description: "measures soil",
        models: [{ api: "rdk:component:sensor", model: "acme:soil:probe" }],
        entrypoint: "run.sh",
        apps: [],
      });
      // module upload --version --platform
      const bytes = new TextEncoder().encode("#!/bin/sh\n");
      const archive: Uint8Array[] = [];
      const file = { path: "run.sh", bytes: bytes.length, content: [bytes] };
      for await (const chunk of packed([file])) archive.push(chunk);
      const moduleFileInfo = { moduleId, version: "1.0.0", platform: "linux/amd64", platformTags: [] };
      await app.uploadModuleFile((async function* () {
        yield { moduleFile: { case: "moduleFileInfo" as const, value: moduleFileInfo } };
        for (const value of archive) yield { moduleFile: { case: "file" as const, value } };
      })());
      const { module } = await app.getModule({ moduleId });
      assertEquals(
        module?.versions.map(({ version, files }) => [version, files.map((one) => one.platform)]),
        [
          ["1.0.0", ["linux/amd64"]],
        ],
      );
      const { modules } = await app.listModules({ organizationId });
      assertEquals(modules.map((one) => [one.moduleId, one.entrypoint]), [[moduleId, "run.sh"]]);
    }),
);

storeTest(
  "viam dataset create, data add, list and export; data export",
  (database) =>
    asCommandLine(database, async (channel, world) => {
      const data = client(DataService, channel);
      const datasets = client(DatasetService, channel);
      const { organization: organizationId, part: partId } = world;
      const id = await capture(channel, partId);
      // dataset create --org-id --name
      const { id: datasetId } = await datasets.createDataset({ name: "apples", organizationId });
      // dataset data add ids
      await data.addBinaryDataToDatasetByIDs({ binaryDataIds: [id], datasetId });
      // dataset list --org-id, dataset list --dataset-ids
      const byOrganization = await datasets.listDatasetsByOrganizationID({ organizationId });
      const byIds = await datasets.listDatasetsByIDs({ ids: [datasetId] });
      // Without ids it wants all of them.
      const all = await datasets.listDatasetsByIDs({ ids: [] });
      for (const { datasets: [one] } of [byOrganization, byIds, all]) {
        assertEquals([one.name, one.id, one.organizationId], ["apples", datasetId, organizationId]);
      }
      // dataset export and data export binary filter: pages until one is empty, then each file.
      // Without --tags it asks for any of no tags, which is no condition.
      const untagged = { type: TagsFilterType.MATCH_BY_OR, tags: [] };
      const filters = [{ datasetId }, { organizationIds: [organizationId] }, {}, { tagsFilter: untagged }];
      for (const filter of filters) {
        const ids: string[] = [];
        for (let last = "";;) {
          const page = await data.binaryDataByFilter({
            dataRequest: { filter, limit: PAGE, last },
            countOnly: false,
            includeBinary: false,
          });
          if (page.data.length === 0) break;
          last = page.last;
          ids.push(...page.data.map(({ metadata }) => metadata!.binaryDataId));
        }
        assertEquals(ids, [id]);
      }
      for (const includeBinary of [false, true]) {
        const answer = await data.binaryDataByIDs({ binaryDataIds: [id], includeBinary });
        assertEquals(answer.data.map(({ binary }) => new TextDecoder().decode(binary)), [
          includeBinary ? "an apple" : "",
        ]);
        assertEquals(answer.data[0].metadata?.fileExt, ".jpg");
      }
      // A content that exceeds an answer: its description again without it, then its URI with the token.
      const { data: [large] } = await data.binaryDataByIDs({ binaryDataIds: [id], includeBinary: false });
      const response = await fetch(large.metadata!.uri, { headers: { authorization: "Bearer token" } });
      assertEquals([response.status, await response.text()], [200, "an apple"]);
      // data export tabular: the interval is there and has neither end.
      const rows = data.exportTabularData({
        partId,
        resourceName: "scale",
        resourceSubtype: "rdk:component:sensor",
        methodName: "Readings",
        interval: {},
      });
      const grams: unknown[] = [];
      for await (const { payload } of rows) {
        grams.push((payload as { readings?: { g?: number } })?.readings?.g);
      }
      assertEquals(grams, [152]);
    }),
);

/** An image and a reading of a part; gives the id of the image. */
async function capture(channel: Channel, partId: string): Promise<string> {
  const { dataCaptureUpload } = client(DataSyncService, channel);
  const image = await dataCaptureUpload({
    metadata: {
      partId,
      componentType: "rdk:component:camera",
      componentName: "eye",
      methodName: "GetImages",
      type: DataType.BINARY_SENSOR,
      fileExtension: ".jpg",
    },
    sensorContents: [{ data: { case: "binary", value: new TextEncoder().encode("an apple") } }],
  });
  await dataCaptureUpload({
    metadata: {
      partId,
      componentType: "rdk:component:sensor",
      componentName: "scale",
      methodName: "Readings",
      type: DataType.TABULAR_SENSOR,
    },
    sensorContents: [{ data: { case: "struct", value: { readings: { g: 152 } } } }],
  });
  return image.binaryDataId;
}

/** Logs in as `viam login api-key` does: the key once, its token from then on. */
async function asCommandLine(
  database: Parameters<typeof withCloud>[0],
  use: (channel: Channel, world: World, served: ServedCloud) => Promise<void>,
): Promise<void> {
  await withCloud(database, async (served) => {
    const world = await newWorld(served.store);
    const { host } = new URL(served.url);
    const clock = new SystemClock();
    const door = connectGrpc(host, { clock });
    const credentials = { type: "api-key", payload: world.owner.key };
    const { accessToken } = await client(AuthService, door).authenticate({
      entity: world.owner.id,
      credentials,
    });
    door.close();
    assert(accessToken.length > 0);
    const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
    const channel = connectGrpc(host, { clock, header });
    try {
      await use(channel, world, served);
    } finally {
      channel.close();
    }
  });
}
