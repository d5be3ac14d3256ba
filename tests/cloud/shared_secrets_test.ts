/**
 * Secrets of locations and parts: shown once, valid until deleted, and only for their own location or part.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { PackageService } from "../../proto/gen/packages_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { isHashOf } from "../../lib/base/key_hash.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { newWorld, type ServedCloud, withCloud } from "./world.ts";
import { storeTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";

storeTest(
  "a part's secret is shown once and gives access to this part only",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app } = served;
      const world = await newWorld(store);
      const owner = await app(world.owner);
      const made = (await owner.createRobotPartSecret({ partId: world.part })).part!;
      assertEquals(made.secrets.map(({ secret }) => secret), [made.secret]);
      assert(made.secret.length > 40);
      const again = (await owner.getRobotPart({ id: world.part })).part!;
      assertEquals([again.secret, again.secrets.map(({ id, secret }) => [id, secret])], [
        "",
        [[made.secrets[0].id, ""]],
      ]);
      const looked = (await (await app(world.operator)).getRobotPart({ id: world.part })).part!;
      assertEquals(looked.secrets, []);

      const { partId: other } = await owner.newRobotPart({ robotId: world.machine, partName: "other" });
      await asRobot(served, world.part, made.secret, async (channel) => {
        const robot = client(RobotService, channel);
        assertEquals((await robot.config({ id: world.part })).config?.cloud?.id, world.part);
        assertMatch((await robot.certificate({ id: world.part })).tlsPrivateKey, /PRIVATE KEY/);
        await robot.log({ id: world.part, logs: [{ message: "here", level: "info" }] });
        await client(PackageService, channel).listPackages({ organizationId: world.organization }).then(
          () => assert(false),
          (error) => assertEquals(SvcError.from(error).code, "permission_denied"),
        );
        for (
          const call of [
            () => robot.config({ id: other }),
            () => robot.certificate({ id: other }),
            () => client(AppService, channel).getRobot({ id: world.machine }),
            () => client(AppService, channel).createRobotPartSecret({ partId: world.part }),
            () => client(AppService, channel).updateRobotPart({ id: world.part, name: "mine" }),
          ]
        ) assertEquals(await awaitOutcome(call()), "permission_denied");
        // A machine knows its configuration.
        const { part } = await client(AppService, channel).getRobotPart({ id: world.part });
        assertEquals(part?.id, world.part);
      });
    }, { organizations: "anybody" }),
);

storeTest(
  "refuses secrets of other parts, wrong secrets, and wrong types",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app } = served;
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const { secret } = (await (await app(world.owner)).createRobotPartSecret({ partId: world.part })).part!;
      const [id, random] = secret.split(".");
      const tries: [string, string, string][] = [
        [other.part, "robot-secret", secret],
        [world.part, "robot-secret", `${id}.${random}x`],
        [world.part, "robot-secret", ""],
        [world.part, "robot-secret", id],
        [`${world.part} ${id}`, "robot-secret", secret],
        [world.machine, "robot-secret", secret],
        [world.part, "api-key", secret],
        [id, "api-key", secret],
        [world.owner.id, "robot-secret", world.owner.key],
        [`${world.part}\0`, "robot-secret", secret],
      ];
      for (const [entity, type, payload] of tries) {
        assertEquals(
          await awaitOutcome(authenticate(served, entity, type, payload)),
          "unauthenticated",
          entity,
        );
      }
      const location = authenticate(served, world.location, "robot-location-secret", secret);
      assertEquals(await awaitOutcome(location), "invalid_argument");
    }),
);

storeTest(
  "a new part secret is valid beside the old secret until the old secret is deleted",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app } = served;
      const { owner: key, part: partId } = await newWorld(store);
      const owner = await app(key);
      const old = (await owner.createRobotPartSecret({ partId })).part!;
      const fresh = (await owner.createRobotPartSecret({ partId })).part!;
      assertEquals(fresh.secrets.map(({ secret }) => secret !== ""), [false, true]);
      await asRobot(served, partId, old.secret, async (channel) => {
        const ask = () => awaitOutcome(client(RobotService, channel).needsRestart({ id: partId }));
        assertEquals(await ask(), "ok");
        await asRobot(served, partId, fresh.secret, async (second) => {
          await owner.deleteRobotPartSecret({ partId, secretId: old.secrets[0].id });
          assertEquals(await ask(), "unauthenticated");
          assertEquals(await awaitOutcome(client(RobotService, second).needsRestart({ id: partId })), "ok");
        });
      });
      const gone = owner.deleteRobotPartSecret({ partId, secretId: old.secrets[0].id });
      assertEquals(await awaitOutcome(gone), "not_found");
      for (let count = 1; count < 5; count++) await owner.createRobotPartSecret({ partId });
      assertMatch(
        await owner.createRobotPartSecret({ partId }).then(() => "made", ({ message }) => message),
        /limit secrets_per_part: found 6/,
      );
    }),
);

storeTest(
  "the secret of a location is shown once; only the machines there get its hash",
  (database) =>
    withCloud(database, async ({ store, app, robot }) => {
      const world = await newWorld(store);
      const { location: locationId, organization: organizationId } = world;
      const owner = await app(world.owner);
      assertEquals((await owner.locationAuth({ locationId })).auth?.secrets, []);
      const auth = (await owner.createLocationSecret({ locationId })).auth!;
      const [{ id: secretId, secret }] = auth.secrets;
      assertEquals([auth.secret, auth.locationId], [secret, locationId]);
      const later = (await owner.locationAuth({ locationId })).auth!;
      assertEquals([later.secret, later.secrets.map((one) => [one.id, one.secret])], ["", [[secretId, ""]]]);
      for (
        const call of [
          async () => (await app(world.operator)).locationAuth({ locationId }),
          async () => (await app(world.operator)).createLocationSecret({ locationId }),
          async () => (await app((await newWorld(store)).owner)).locationAuth({ locationId }),
        ]
      ) assertEquals(await awaitOutcome(call()), "permission_denied");

      const inner = await owner.createLocation({
        organizationId,
        name: "inner",
        parentLocationId: locationId,
      });
      const { id: other } = await owner.newRobot({ name: "other", location: inner.location!.id });
      const [{ id: otherPart }] = (await owner.getRobotParts({ robotId: other })).parts;
      const cloud = await robot(world.owner);
      const known = async (id: string) => (await cloud.config({ id })).config!.cloud!.locationSecrets;
      const [{ id, secret: hash }] = await known(world.part);
      assertEquals([id, await isHashOf(hash, secret)], [secretId, true]);
      assertEquals(await known(otherPart), []);
      await owner.deleteLocationSecret({ locationId, secretId });
      assertEquals(await known(world.part), []);
    }),
);

async function authenticate({ url }: ServedCloud, entity: string, type: string, payload: string) {
  const channel = connectGrpc(new URL(url).host, { clock: new SystemClock() });
  try {
    return await client(AuthService, channel).authenticate({ entity, credentials: { type, payload } });
  } finally {
    channel.close();
  }
}

async function asRobot(
  served: ServedCloud,
  partId: string,
  secret: string,
  use: (channel: Channel) => Promise<void>,
): Promise<void> {
  const { accessToken } = await authenticate(served, partId, "robot-secret", secret);
  const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
  const channel = connectGrpc(new URL(served.url).host, { clock: new SystemClock(), header });
  try {
    await use(channel);
  } finally {
    channel.close();
  }
}
