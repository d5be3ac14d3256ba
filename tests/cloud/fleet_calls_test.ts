/**
 * Calls about the fleet as a whole: metadata of things, lists of machines, organizations found, named and deleted.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { AgentDeviceService } from "../../proto/gen/agent_pb.ts";
import { FragmentVisibility } from "../../proto/gen/app_pb.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { newKey, newWorld, ownKey, withCloud } from "./world.ts";
import { storeTest } from "./stores.ts";
import { until } from "../support/until.ts";
import { awaitOutcome } from "../support/outcome.ts";

storeTest(
  "operators read and owners replace the metadata of organizations, locations, machines and parts",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const { organization: organizationId, location: locationId, machine, part } = world;
      const owner = await app(world.owner);
      const operator = await app(world.operator);
      type Data = Parameters<typeof owner.updateRobotMetadata>[0]["data"];
      const calls = [
        {
          write: (data: Data) => owner.updateOrganizationMetadata({ organizationId, data }),
          read: () => operator.getOrganizationMetadata({ organizationId }),
        },
        {
          write: (data: Data) => owner.updateLocationMetadata({ locationId, data }),
          read: () => operator.getLocationMetadata({ locationId }),
        },
        {
          write: (data: Data) => owner.updateRobotMetadata({ id: machine, data }),
          read: () => operator.getRobotMetadata({ id: machine }),
        },
        {
          write: (data: Data) => owner.updateRobotPartMetadata({ id: part, data }),
          read: () => operator.getRobotPartMetadata({ id: part }),
        },
      ];
      for (const [shelf, { write, read }] of calls.entries()) {
        assertEquals((await read()).data, {});
        const data = { shelf, tags: ["a", null, { deep: true }] };
        await write(data);
        assertEquals((await read()).data, data);
        // All of it is replaced.
        await write({ other: "one" });
        assertEquals((await read()).data, { other: "one" });
        await write(undefined);
        assertEquals((await read()).data, {});
      }
      assertEquals(
        await awaitOutcome(operator.updateRobotMetadata({ id: machine, data: {} })),
        "permission_denied",
      );
      assertEquals(await awaitOutcome(owner.getRobotMetadata({ id: "nothing" })), "not_found");
      const note = { id: part, data: { note: "x".repeat(100) } };
      assertMatch(await messageOf(owner.updateRobotPartMetadata(note)), /limit metadata_letters/);
    }, { limits: { ...defaultLimits(), metadataLetters: 100 } }),
);

storeTest(
  "ListRobotsForOrg and ListRobotsForLocations need a role on everything that they list",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const other = await newWorld(store);
      const { organization: organizationId, location } = world;
      const owner = await app(world.owner);
      const shed = (await owner.createLocation({ organizationId, name: "shed" })).location!.id;
      await owner.newRobot({ name: "barrow", location: shed });
      const names = ({ robots }: { robots: { name: string }[] }) => robots.map(({ name }) => name).sort();
      assertEquals(names(await owner.listRobotsForOrg({ orgId: organizationId })), ["barrow", "rover"]);
      const both = { locationIds: [shed, location, shed] };
      assertEquals(names(await owner.listRobotsForLocations(both)), ["barrow", "rover"]);
      // All or nothing: each location is asked for.
      const hall = await app(await newKey(store, "operator", "location", location));
      assertEquals(names(await hall.listRobotsForLocations({ locationIds: [location] })), ["rover"]);
      assertEquals(await awaitOutcome(hall.listRobotsForLocations(both)), "permission_denied");
      assertEquals(names(await hall.listRobotsForOrg({ orgId: organizationId })), ["rover"]);
      assertEquals(
        await awaitOutcome(owner.listRobotsForLocations({ locationIds: [location, other.location] })),
        "permission_denied",
      );
      assertEquals(await awaitOutcome(owner.listRobotsForLocations({})), "invalid_argument");
    }),
);

storeTest(
  "SearchOrganizations finds the caller's own organizations, and a namespace is set once",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const owner = await app(mine.owner);
      const found = async (query: Parameters<typeof owner.searchOrganizations>[0]) =>
        (await owner.searchOrganizations(query)).organizations.map(({ orgId }) => orgId);
      assertEquals(await found({ orgName: "WORLD" }), [mine.organization]);
      assertEquals(await found({ orgId: other.organization }), []);
      const free = async (publicNamespace: string) =>
        (await owner.getOrganizationNamespaceAvailability({ publicNamespace })).available;
      assertEquals(await free("acme"), true);
      for (const name of ["", "No Such Name"]) {
        assertEquals(await awaitOutcome(free(name)), "invalid_argument");
      }
      const organizationId = mine.organization;
      const { organization } = await owner.updateOrganizationNamespace({
        organizationId,
        newPublicNamespace: "acme",
      });
      assertEquals(organization?.publicNamespace, "acme");
      assertEquals([await free("acme"), await found({ publicNamespace: "acme" })], [false, [organizationId]]);
      const again = owner.updateOrganizationNamespace({ organizationId, newPublicNamespace: "other" });
      assertEquals(await awaitOutcome(again), "failed_precondition");
    }),
);

storeTest(
  "refuses unsupported settings of an organization, and changes nothing",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { organization: organizationId, owner } = await newWorld(store);
      const me = await app(owner);
      const before = await me.getOrganization({ organizationId });
      const refused = [
        { region: "eu" },
        { cid: "7" },
        { defaultFragments: { fragments: [{ fragmentId: "f" }] } },
        { allowedLoginMethods: {} },
      ];
      for (const more of refused) {
        const update = me.updateOrganization({ organizationId, name: "other", ...more });
        assertMatch(await messageOf(update), /which this control plane does not keep/);
      }
      assertEquals(await me.getOrganization({ organizationId }), before);
      await me.updateOrganization({
        organizationId,
        region: "",
        cid: "",
        defaultFragments: { fragments: [] },
      });
    }),
);

storeTest(
  "summaries of machines are of one organization or of all of the caller's, 100 by default",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const owner = await app(mine.owner);
      for (let number = 0; number < 100; number++) {
        await owner.newRobot({ name: `rover ${number}`, location: mine.location });
      }
      const counts = async (
        key: typeof mine.owner,
        query: { organizationId?: string; limit?: number } = {},
      ) => {
        const { locationSummaries } = await (await app(key)).listMachineSummaries(query);
        return locationSummaries.map((
          { locationId, machineSummaries },
        ) => [locationId, machineSummaries.length]);
      };
      assertEquals(await counts(mine.owner), [[mine.location, 100]]);
      assertEquals(await counts(mine.owner, { limit: 1000 }), [[mine.location, 101]]);
      // The published library for Go sends 0 where its caller wants no limit.
      assertEquals(await counts(mine.owner, { limit: 0 }), [[mine.location, 100]]);
      assertEquals(await counts(mine.owner, { limit: -1 }), [[mine.location, 0]]);
      assertEquals(await counts(mine.owner, { organizationId: mine.organization, limit: 2 }), [[
        mine.location,
        2,
      ]]);
      assertEquals(await counts(other.operator), [[other.location, 1]]);
      // A role on a location or on a machine alone shows just that.
      assertEquals(
        await counts(await newKey(store, "operator", "location", mine.location), { limit: 1000 }),
        [
          [mine.location, 101],
        ],
      );
      const single = await newKey(store, "operator", "machine", mine.machine);
      assertEquals(await counts(single), [[mine.location, 1]]);
      const { locationSummaries } = await (await app(single)).listMachineSummaries({});
      assertEquals(
        locationSummaries.map(({ locationName, machineSummaries }) => [
          locationName,
          machineSummaries.map(({ machineId }) => machineId),
        ]),
        [["", [mine.machine]]],
      );
      assertEquals(await counts(single, { organizationId: mine.organization }), [[mine.location, 1]]);
      await owner.createLocation({
        organizationId: mine.organization,
        name: "inside",
        parentLocationId: mine.location,
      });
      const inner = await newKey(store, "owner", "location", mine.location);
      assertEquals((await counts(inner)).map(([, machines]) => machines).sort(), [0, 100]);
      const theirs = counts(mine.owner, { organizationId: other.organization });
      assertEquals(await awaitOutcome(theirs), "permission_denied");
    }),
);

storeTest(
  "a summary of a part has what it runs on, and the fragments in its configuration",
  (database) =>
    withCloud(database, async ({ store, app, robot, channel }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const [owner, stranger] = [await app(mine.owner), await app(other.owner)];
      const { organization: organizationId, machine, part: id } = mine;
      const fragments = [];
      for (const name of ["wheels", "eyes"]) {
        fragments.push((await owner.createFragment({ organizationId, name, config: {} })).fragment!.id);
      }
      const shared = await stranger.createFragment({
        organizationId: other.organization,
        name: "theirs",
        config: {},
        visibility: FragmentVisibility.PUBLIC_UNLISTED,
      });
      const used = [...fragments, { id: fragments[0], prefix: "rear" }, shared.fragment!.id];
      await owner.updateRobotPart({ id, name: "main", robotConfig: { fragments: used } });
      const key = await ownKey(store, { machine });
      await (await robot(key)).config({
        id,
        agentInfo: { host: "pi", os: "linux", version: "1.2.3", platform: "linux/arm64" },
      });
      const summary = async () => {
        const { locationSummaries } = await owner.listMachineSummaries({ organizationId });
        const [{ partSummaries: [part] }] = locationSummaries[0].machineSummaries;
        const { os, platform, dnsName, viamServerVersion, viamAgentVersion } = part;
        return {
          runs: [os, platform, dnsName, viamServerVersion?.version.value, viamAgentVersion?.version.value],
          fragments: part.fragments.map(({ name, id }) => [name, id]),
        };
      };
      const [wheels, eyes] = fragments;
      const dnsName = (await owner.getRobotPart({ id })).part!.dnsName;
      await until(async () => (await summary()).runs[0] !== undefined);
      const names = [["eyes", eyes], ["theirs", shared.fragment!.id], ["wheels", wheels]];
      assertEquals(await summary(), {
        runs: ["linux", "linux/arm64", dnsName, "1.2.3", undefined],
        fragments: names,
      });

      // An agent knows more of the device. What its owner hides from others has no name any more.
      await client(AgentDeviceService, await channel(key)).deviceAgentConfig({
        id,
        versionInfo: { agentRunning: "2.0.0", viamServerRunning: "1.3.0" },
        hostInfo: { platform: "linux/arm", distro: "debian:12" },
      });
      await stranger.updateFragment({ id: shared.fragment!.id, visibility: FragmentVisibility.PRIVATE });
      await until(async () => (await summary()).runs[4] !== undefined);
      const later = await summary();
      assertEquals(later.runs, ["linux", "linux/arm", dnsName, "1.3.0", "2.0.0"]);
      assertEquals(later.fragments.map(([name]) => name).sort(), ["", "eyes", "wheels"]);
    }),
);

storeTest(
  "summaries of machines ask the database as often for a thousand fragments as for one",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { organization: organizationId, owner: key } = await newWorld(store);
      const owner = await app(key);
      let asked = 0;
      const query = store.query.bind(store);
      store.query = (text, ...values) => {
        asked++;
        return query(text, ...values);
      };
      const asks = async (count: number) => {
        asked = 0;
        const fragmentIds = Array.from({ length: count }, (_, at) => `fragment ${at}`);
        const locationIds = Array.from({ length: count }, (_, at) => `location ${at}`);
        await owner.listMachineSummaries({ organizationId, fragmentIds, locationIds });
        await owner.listMachineSummaries({ organizationId, fragmentIds });
        return asked;
      };
      const few = await asks(1);
      const many = await asks(1_000);
      // Other work of the control plane asks now and then as well.
      assert(many < few + 100, `${many} questions for a thousand fragments, ${few} for one`);
    }),
);

storeTest(
  "DeleteOrganization deletes an organization and its keys once it has no locations",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { organization: organizationId, location: locationId, machine: id, owner, operator } =
        await newWorld(store);
      const all = await app(owner);
      assertMatch(await messageOf(all.deleteOrganization({ organizationId })), /has 1 locations/);
      await all.deleteRobot({ id });
      await all.deleteLocation({ locationId });
      const look = await app(operator);
      assertEquals(await awaitOutcome(look.deleteOrganization({ organizationId })), "permission_denied");
      await all.deleteOrganization({ organizationId });
      assertEquals(await awaitOutcome(look.listOrganizations({})), "unauthenticated");
    }),
);

async function messageOf(call: Promise<unknown>): Promise<string> {
  return await call.then(() => "ok", (error) => SvcError.from(error).message);
}
