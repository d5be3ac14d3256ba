/**
 * Locations shared with another organization: what its people can see and do, and what stays closed.
 */

import { assertEquals } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import { RULES } from "../../lib/cloud/access/rules.ts";
import { Keys } from "../../lib/cloud/access/keys.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { Shares } from "../../lib/cloud/tenants/sharing.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { codeOf, somethingIn } from "./rule_calls.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";

storeTest(
  "sharing a location needs an owner of the location and of the other organization",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app } = served;
      const [host, guest] = [await newWorld(store), await newWorld(store)];
      const owner = await app(host.owner);
      const share = { locationId: host.location, organizationId: guest.organization };
      assertEquals(await awaitOutcome(owner.shareLocation(share)), "permission_denied");
      assertEquals(await awaitOutcome((await app(guest.owner)).shareLocation(share)), "permission_denied");
      const both = await bothOwner(served, host, guest);
      const own = { locationId: host.location, organizationId: host.organization };
      assertEquals(await awaitOutcome(both.shareLocation(own)), "invalid_argument");
      assertEquals(await awaitOutcome(owner.unshareLocation(share)), "not_found");
      await both.shareLocation(share);
      await both.shareLocation(share);
      const guests = async () =>
        (await owner.getLocation({ locationId: host.location })).location?.organizations.map((one) => one);
      assertEquals(
        (await guests())?.map(({ organizationId, primary }) => [organizationId, primary]),
        [[host.organization, true], [guest.organization, false]],
      );
      // Who owns the location takes it back alone.
      assertEquals(await awaitOutcome((await app(guest.owner)).unshareLocation(share)), "permission_denied");
      await owner.unshareLocation(share);
      assertEquals((await guests())?.length, 1);
    }),
);

storeTest(
  "guests view and operate the location by calls of AppService alone, and own nothing",
  (database) =>
    withCloud(database, async (served) => {
      const { store, channel } = served;
      const [host, guest] = [await newWorld(store), await newWorld(store)];
      const wrong: string[] = [];
      const connections = [await channel(guest.owner), await channel(guest.operator)];
      for (const rule of RULES) {
        if (rule.on.length === 0 || rule.method.methodKind === "server_streaming") continue;
        const something = await somethingIn(served, host);
        await sharing(served, something, guest);
        const open = rule.method.parent.typeName === AppService.typeName &&
          ["viewer", "operator"].includes(rule.need) &&
          rule.on.every(({ kind }) => ["location", "machine", "part"].includes(kind));
        for (const connection of connections) {
          const code = await codeOf(connection, rule, something);
          if ((code === "permission_denied") === open) wrong.push(`${rule.path}: ${code}`);
        }
      }
      assertEquals(wrong, []);
    }),
);

storeTest(
  "guests do not see other guests, the parent location, or secrets",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app } = served;
      const [host, guest, other] = [await newWorld(store), await newWorld(store), await newWorld(store)];
      const owner = await app(host.owner);
      const make = async (name: string, parentLocationId: string) =>
        (await owner.createLocation({ organizationId: host.organization, name, parentLocationId })).location!
          .id;
      const room = await make("room", host.location);
      const cupboard = await make("cupboard", room);
      await owner.newRobot({ name: "broom", location: cupboard });
      const { id: hidden } = await owner.newRobot({ name: "vault", location: host.location });
      const shares = { ...host, location: room };
      await sharing(served, shares, guest);
      await sharing(served, shares, other);
      const look = await app(guest.operator);
      const { locations } = await look.listLocations({ organizationId: guest.organization });
      assertEquals(
        locations.map((one) => [one.name, one.parentLocationId, one.organizations.length]).sort(),
        [["cupboard", room, 2], ["hall", "", 1], ["room", "", 2]],
      );
      const { organizationIdentities } = await look.getOrganizationsWithAccessToLocation({
        locationId: room,
      });
      assertEquals(
        organizationIdentities.map(({ id }) => id).sort(),
        [host.organization, guest.organization].sort(),
      );
      const all = await owner.getOrganizationsWithAccessToLocation({ locationId: room });
      assertEquals(all.organizationIdentities.length, 3);
      const { robots } = await look.listRobotsForOrg({ orgId: guest.organization });
      assertEquals(robots.map(({ name }) => name).sort(), ["broom", "rover"]);
      const { locationSummaries } = await look.listMachineSummaries({ organizationId: guest.organization });
      assertEquals(
        locationSummaries.flatMap(({ machineSummaries }) => machineSummaries.map((one) => one.machineName))
          .sort(),
        ["broom", "rover"],
      );
      assertEquals(await awaitOutcome(look.getRobot({ id: hidden })), "permission_denied");
      assertEquals(await awaitOutcome(look.getLocation({ locationId: host.location })), "permission_denied");
      assertEquals(
        await awaitOutcome(look.getOrganization({ organizationId: host.organization })),
        "permission_denied",
      );
      // Nothing of the organization: it is not among theirs, and neither are its private packages.
      assertEquals((await look.listOrganizations({})).organizations.map(({ id }) => id), [
        guest.organization,
      ]);
    }),
);

storeTest(
  "roles on a location or machine of the guest organization give no access to shared locations",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app } = served;
      const [host, guest] = [await newWorld(store), await newWorld(store)];
      await sharing(served, host, guest);
      const hall = await app(await newKey(store, "owner", "location", guest.location));
      const rover = await app(await newKey(store, "owner", "machine", guest.machine));
      for (const one of [hall, rover]) {
        assertEquals(await awaitOutcome(one.getRobot({ id: host.machine })), "permission_denied");
      }
    }),
);

storeTest(
  "machines admit the guests' keys for as long as they are shared",
  (database) =>
    withCloud(database, async (served) => {
      const { store } = served;
      const [host, guest] = [await newWorld(store), await newWorld(store)];
      const part = await new Parts(store).get(host.part);
      const known = async () => (await new Keys(store).hashesFor(part.id)).map(({ id }) => id).sort();
      const own = [host.owner.id, host.operator.id].sort();
      assertEquals(await known(), own);
      await sharing(served, host, guest);
      assertEquals(await known(), [...own, guest.owner.id, guest.operator.id].sort());
      await store.transaction((sql) => new Shares(sql).unshare(host.location, guest.organization));
      assertEquals(await known(), own);
    }),
);

storeTest(
  "captured data of a shared location stays visible to the owner's organization only",
  (database) =>
    withCloud(database, async (served) => {
      const { store, channel } = served;
      const [host, guest] = [await newWorld(store), await newWorld(store)];
      const something = await somethingIn(served, host);
      await sharing(served, something, guest);
      const found = async (key: World["owner"]) => {
        const { binaryDataByFilter } = client(DataService, await channel(key));
        return (await binaryDataByFilter({ countOnly: true })).count;
      };
      assertEquals([await found(host.operator), await found(guest.owner)], [1n, 0n]);
    }),
);

/** A client with the key of an owner of both. */
async function bothOwner({ store, app }: ServedCloud, host: World, guest: World) {
  const key = await newKey(store, "owner", "organization", host.organization);
  await store.transaction((sql) =>
    new Keys(sql).grant(key.id, { role: "owner", kind: "organization", resourceId: guest.organization })
  );
  return await app(key);
}

async function sharing({ store }: ServedCloud, host: Pick<World, "location">, guest: World): Promise<void> {
  await store.transaction((sql) => new Shares(sql).share(host.location, guest.organization));
}
