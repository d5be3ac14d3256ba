/**
 * Published calls one by one: unserved ones give the reason, over the network and to everybody; and calls of App that
 * no other test makes.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { Health } from "../../proto/gen/health_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { UNSERVED } from "../../lib/cloud/access/unserved.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

/** The answer to an empty request for a path. */
async function answerTo(channel: Channel, path: string): Promise<string> {
  const [, typeName, name] = path.split("/");
  const method = { ...Health.method.check, name, parent: { ...Health, typeName } };
  try {
    for await (const _ of channel.call(method, empty())) return "an answer";
    return "nothing";
  } catch (error) {
    const { code, message } = SvcError.from(error);
    return `${code}: ${message}`;
  }
}

async function* empty(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array();
}

storeTest(
  "published calls that svc-cloud does not serve are answered with their reason",
  (database) =>
    withCloud(database, async ({ store, channel }) => {
      const { owner } = await newWorld(store);
      for (const caller of [await channel(owner), await channel()]) {
        const wrong: string[] = [];
        for (const [path, reason] of UNSERVED) {
          const answer = await answerTo(caller, path);
          if (answer !== `unimplemented: ${reason}`) wrong.push(`${path}: ${answer}`);
        }
        assertEquals(wrong, []);
        assertEquals(
          await answerTo(caller, "/viam.app.v1.AppService/Nonsense"),
          "unimplemented: The server does not implement the method /viam.app.v1.AppService/Nonsense",
        );
      }
    }),
);

storeTest(
  "a part is found by name, marked as main, and deleted",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { owner, machine: robotId, location: locationId, part } = await newWorld(store);
      const { newRobotPart, ...all } = await app(owner);
      const { partId } = await newRobotPart({ robotId, partName: "arm" });
      const { part: found } = await all.getRobotPartByNameAndLocation({ name: "arm", locationId });
      assertEquals(found?.id, partId);
      await all.markPartAsMain({ partId });
      const main = async () =>
        (await all.getRobotParts({ robotId })).parts.filter(({ mainPart }) => mainPart).map(({ id }) => id);
      assertEquals(await main(), [partId]);
      await all.markPartAsMain({ partId: part });
      await all.deleteRobotPart({ partId });
      assertEquals(await main(), [part]);
    }),
);

storeTest(
  "a deleted location is gone; calls list the keys with a role",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { owner, operator, organization: organizationId, machine: robotId } = await newWorld(store);
      const all = await app(owner);
      const { location } = await all.createLocation({ organizationId, name: "shed" });
      await all.deleteLocation({ locationId: location!.id });
      const { locations } = await all.listLocations({ organizationId });
      assertEquals(locations.map(({ name }) => name), ["hall"]);
      const { authorizations } = await all.listAuthorizations({ organizationId });
      assertEquals(authorizations.map(({ identityId }) => identityId).sort(), [owner.id, operator.id].sort());
      const ofMachine = await all.listAuthorizations({ organizationId, resourceIds: [robotId] });
      assertEquals(ofMachine.authorizations, []);
      const unknown = [location!.id, (await newWorld(store)).machine];
      for (const id of unknown) {
        const listed = all.listAuthorizations({ organizationId, resourceIds: [robotId, id] });
        await assertRejects(() => listed, SvcError, `there is no location or machine "${id}"`);
      }
      await assertRejects(() => all.checkPermissions({}), SvcError, "permissions is empty");
      const permissions = Array.from(
        { length: 1_001 },
        () => ({ resourceType: "location", resourceId: "x" }),
      );
      await assertRejects(() => all.checkPermissions({ permissions }), SvcError, "found 1001 resources");
      const { id } = await all.createKey({
        name: "of the machine",
        authorizations: [{
          authorizationType: "role",
          authorizationId: "robot_owner",
          resourceType: "robot",
          resourceId: robotId,
        }],
      });
      const { apiKeys } = await all.getRobotAPIKeys({ robotId });
      assertEquals(apiKeys.map(({ apiKey }) => apiKey?.id).includes(id), true);
    }),
);
