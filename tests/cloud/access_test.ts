/**
 * Who may call what: every call that is served, by everybody, as the table of rules says.
 */

import { assertEquals } from "@std/assert";
import { ExternalAuthService } from "../../proto/gen/auth_pb.ts";
import { type GrantKind, Keys, type NewKey, type Role } from "../../lib/cloud/access/keys.ts";
import { Shares } from "../../lib/cloud/tenants/sharing.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { SvcError } from "../../lib/base/error.ts";
import { RULES } from "../../lib/cloud/access/rules.ts";
import { TrainingJobs } from "../../lib/cloud/training/training.ts";
import { codeOf, somethingIn } from "./rule_calls.ts";
import { newJob } from "./training_world.ts";
import { locationsAbove } from "../../lib/cloud/tenants/locations.ts";
import { newKey, newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";
import { pause } from "../support/until.ts";

const REFUSALS = ["unauthenticated", "permission_denied", "unimplemented"];
/** Calls after which everything is there as before, perhaps with something new beside it. */
const HARMLESS =
  /^(Add|Binary|BoundingBoxLabels|Check|Create|Export|Get|List|New|Search|Sequences|Tabular|Tags)/;

storeTest(
  "every served call has an access rule, and every access rule has a served call",
  (database) =>
    withCloud(database, ({ cloud: { table } }) => {
      const served = [...table.services].flatMap(({ desc, handlers }) =>
        desc.methods.map(({ name, localName }) => ({
          path: `/${desc.typeName}/${name}`,
          handler: handlers[localName],
        }))
      );
      assertEquals(served.filter(({ handler }) => !handler).map(({ path }) => path), [], "no handler");
      assertEquals(served.map(({ path }) => path).sort(), RULES.map(({ path }) => path).sort());
      return Promise.resolve();
    }),
);

storeTest(
  "each call admits exactly the callers that its rule allows",
  (database) =>
    withCloud(database, async (served) => {
      const { store, channel, robot } = served;
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const channels = {
        nobody: await channel(),
        stranger: await channel(other.owner),
        viewer: await channel(await newKey(store, "viewer", "organization", mine.organization)),
        operator: await channel(mine.operator),
        owner: await channel(mine.owner),
      };
      const rover = await robot(await ownKey(store, mine));
      let something = await somethingIn(served, mine);
      for (const rule of RULES) {
        const streams = rule.method.methodKind === "server_streaming";
        // Those who follow logs have something to hear of.
        const talking = streams ? talk(rover, mine.part) : undefined;
        const about = streams ? { ...something, part: mine.part } : something;
        const found: Record<string, boolean> = {};
        const codes: string[] = [];
        try {
          for (const [who, connection] of Object.entries(channels)) {
            const code = await codeOf(connection, rule, about);
            codes.push(`${who}: ${code}`);
            found[who] = !REFUSALS.includes(code);
          }
        } finally {
          await talking?.stop();
        }
        const { need } = rule;
        const wanted = {
          nobody: need === "unauthenticated",
          stranger: need === "unauthenticated" || need === "authenticated",
          viewer: ["unauthenticated", "authenticated", "viewer"].includes(need),
          operator: !["owner", "machine", "machine_or_owner", "administrator"].includes(need),
          owner: need !== "machine" && need !== "administrator",
        };
        assertEquals(found, wanted, `${rule.path} (${codes.join(", ")})`);
        if (!HARMLESS.test(rule.method.name)) something = await somethingIn(served, mine);
      }
    }, { organizations: "anybody" }),
);

/**
 * The calls that the specification reserves for owners, and those on the same jobs and containers that it does not
 * name.
 */
const FOR_OWNERS = [
  "SubmitTrainingJob",
  "SubmitCustomTrainingJob",
  "GetTrainingJob",
  "ListTrainingJobs",
  "CancelTrainingJob",
  "DeleteCompletedTrainingJob",
  "GetTrainingJobLogs",
  "ListContainers",
  "RegisterCustomTrainingContainer",
  "DeleteCustomTrainingContainer",
];

storeTest(
  "svc-cloud refuses training calls of an operator and of a location's owner",
  (database) =>
    withCloud(database, async (served) => {
      const { store, channel } = served;
      const world = await newWorld(store);
      const ofLess = await newKey(store, "owner", "location", world.location);
      const something = await somethingIn(served, world);
      const training = RULES.filter(({ method }) => FOR_OWNERS.includes(method.name));
      const paths = (typeName: string) =>
        training.filter(({ method }) => method.parent.typeName === typeName).map(({ method }) => method.name);
      assertEquals(paths("viam.app.mltraining.v1.MLTrainingService").sort(), FOR_OWNERS.toSorted());
      for (const key of [world.operator, ofLess]) {
        const connection = await channel(key);
        const codes = await Promise.all(training.map((rule) => codeOf(connection, rule, something)));
        assertEquals(codes, training.map(() => "permission_denied"));
      }
    }),
);

storeTest(
  "the API key of a training job reads captured data and is refused every other call",
  (database) =>
    withCloud(database, async (served) => {
      const { store, channel } = served;
      const world = await newWorld(store);
      const key = await newKey(store, "operator", "organization", world.organization);
      await store.transaction(async (sql) => {
        const jobs = new TrainingJobs(sql);
        await jobs.giveKey(await jobs.add(newJob(world.organization), [], 0), key.id);
      });
      const connection = await channel(key);
      const something = await somethingIn(served, world);
      const wrong: string[] = [];
      for (const rule of RULES) {
        if (rule.need === "unauthenticated") continue;
        const code = await codeOf(connection, rule, something);
        if (REFUSALS.includes(code) === Boolean(rule.forJobs)) wrong.push(`${rule.path}: ${code}`);
      }
      assertEquals(wrong, []);
    }),
);

storeTest(
  "a role on a location or a machine gives no access to the organization around it",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const hall = await app(await newKey(store, "owner", "location", world.location));
      const rover = await app(await newKey(store, "operator", "machine", world.machine));
      assertEquals((await hall.getRobot({ id: world.machine })).robot?.name, "rover");
      assertEquals((await rover.getRobot({ id: world.machine })).robot?.location, world.location);
      await hall.newRobot({ name: "second", location: world.location });
      assertEquals(
        await failing(hall.getOrganization({ organizationId: world.organization })),
        "permission_denied",
      );
      assertEquals(await failing(rover.listRobots({ locationId: world.location })), "permission_denied");
      assertEquals(await failing(rover.deleteRobot({ id: world.machine })), "permission_denied");
      assertEquals((await rover.listOrganizations({})).organizations.map(({ id }) => id), [
        world.organization,
      ]);
    }),
);

storeTest(
  "a role on a location also covers its inner locations, but not its parent",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { organization: organizationId, location, owner } = await newWorld(store);
      const all = await app(owner);
      const inner = await all.createLocation({ organizationId, name: "room", parentLocationId: location });
      const locationId = inner.location!.id;
      const hall = await app(await newKey(store, "owner", "location", location));
      assertEquals((await hall.getLocation({ locationId })).location?.parentLocationId, location);
      const room = await app(await newKey(store, "owner", "location", locationId));
      assertEquals(await failing(room.getLocation({ locationId: location })), "permission_denied");
      const circle = all.updateLocation({ locationId: location, parentLocationId: locationId });
      assertEquals(await failing(circle), "invalid_argument");
      let deepest = locationId;
      for (let level = 3; level <= 11; level++) {
        const made = all.createLocation({
          organizationId,
          name: `level ${level}`,
          parentLocationId: deepest,
        });
        if (level > 10) assertEquals(await failing(made), "invalid_argument");
        else deepest = (await made).location!.id;
      }
      const top = (await all.createLocation({ organizationId, name: "top" })).location!.id;
      const below = all.updateLocation({ locationId: location, parentLocationId: top });
      assertEquals(await failing(below), "invalid_argument");
      // An older database may have nested more; one query finds them all.
      await store.transaction(async (sql) => {
        const text =
          "INSERT INTO locations (id, organization_id, parent_id, name, created_ms) VALUES (?, ?, ?, ?, 0)";
        for (let level = 0; level < 300; level++) {
          await sql.query(
            text,
            `deep-${level}`,
            organizationId,
            level === 0 ? location : `deep-${level - 1}`,
            `${level}`,
          );
        }
      });
      assertEquals((await locationsAbove(store, "deep-299")).length, 301);
      assertEquals((await hall.getLocation({ locationId: "deep-299" })).location?.id, "deep-299");

      // As the published Python library documents it: an empty name stays, an empty parent is the top level.
      await room.updateLocation({ locationId, name: "den" });
      const up = { locationId, name: "", parentLocationId: "" };
      assertEquals(await failing(room.updateLocation(up)), "permission_denied");
      assertEquals((await room.getLocation({ locationId })).location?.name, "den");
      const { location: moved } = await all.updateLocation(up);
      assertEquals([moved?.name, moved?.parentLocationId], ["den", ""]);
      assertEquals(await failing(hall.getLocation({ locationId })), "permission_denied");
      const { location: back } = await all.updateLocation({ locationId, parentLocationId: location });
      assertEquals([back?.name, back?.parentLocationId], ["den", location]);
    }),
);

storeTest(
  "lists show a key with single roles what it may see, and a viewer everything but secrets",
  (database) =>
    withCloud(database, async ({ store, app, channel, robot }) => {
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const { organization: organizationId, location, machine, part } = world;
      const all = await app(world.owner);
      const { location: yard } = await all.createLocation({ organizationId, name: "yard" });
      const { id: far } = await all.newRobot({ name: "far", location: yard!.id });
      const { id: second } = await all.newRobot({ name: "second", location });
      const names = async (key: NewKey) => {
        const caller = await app(key);
        const { locations } = await caller.listLocations({ organizationId });
        const { robots } = await caller.listRobotsForOrg({ orgId: organizationId });
        const { locationSummaries } = await caller.listMachineSummaries({ organizationId });
        const summed = locationSummaries.flatMap(({ machineSummaries }) => machineSummaries);
        const ids = robots.map(({ id }) => id).sort();
        assertEquals(summed.map(({ machineId }) => machineId).sort(), ids);
        return [locations.map(({ name }) => name).sort(), ids];
      };
      const key = (role: Role, kind: GrantKind, id: string) => newKey(store, role, kind, id);
      const every = [["hall", "yard"], [machine, far, second].sort()];
      const viewer = await key("viewer", "organization", organizationId);
      assertEquals(await names(world.owner), every);
      assertEquals(await names(viewer), every);
      assertEquals(await names(await key("viewer", "location", location)), [
        ["hall"],
        [machine, second].sort(),
      ]);
      assertEquals(await names(await key("operator", "machine", machine)), [[], [machine]]);
      const stranger = await app(other.owner);
      assertEquals(await failing(stranger.listLocations({ organizationId })), "permission_denied");
      assertEquals(await failing(stranger.listRobotsForOrg({ orgId: organizationId })), "permission_denied");

      // What a viewer sees has stars for secrets, and it changes, restarts and opens nothing.
      const config = { components: [{ name: "a", attributes: { password: "hunter2" } }] };
      await all.updateRobotPart({ id: part, name: "rover-main", robotConfig: config });
      const looks = await app(viewer);
      const { part: seen } = await looks.getRobotPart({ id: part });
      const text = JSON.stringify(seen?.robotConfig);
      assertEquals([text.includes("hunter2"), text.includes('"a"')], [false, true]);
      const own = await robot(await key("viewer", "machine", machine));
      for (
        const call of [
          () => looks.markPartForRestart({ partId: part }),
          () => looks.updateRobotPart({ id: part, name: "x", robotConfig: config }),
          () => looks.newRobot({ name: "x", location }),
          () => own.config({ id: part }),
          () => own.needsRestart({ id: part }),
          () => own.certificate({ id: part }),
        ] as (() => Promise<unknown>)[]
      ) assertEquals(await failing(call()), "permission_denied");
      const outside = client(ExternalAuthService, await channel(viewer));
      const { fqdn } = seen!;
      assertEquals(await failing(outside.authenticateTo({ entity: fqdn })), "permission_denied");
      const hashes = (await new Keys(store).hashesFor(part)).map(({ id }) => id);
      assertEquals([hashes.includes(viewer.id), hashes.includes(world.operator.id)], [false, true]);
      // A viewer in a guest organization is a viewer in what is shared with it.
      const guest = await key("viewer", "organization", other.organization);
      await store.transaction((sql) => new Shares(sql).share(location, other.organization));
      const visits = await app(guest);
      assertEquals((await visits.getRobot({ id: machine })).robot?.name, "rover");
      assertEquals(await failing(visits.markPartForRestart({ partId: part })), "permission_denied");
    }),
);

storeTest(
  "missing things are not found, and missing ids are requested",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const all = await app((await newWorld(store)).owner);
      assertEquals(await failing(all.getRobot({ id: "nothing" })), "not_found");
      assertEquals(await failing(all.getRobot({})), "invalid_argument");
      assertEquals(await failing(all.createKey({})), "invalid_argument");
      const unknown = { authorizations: [{ resourceType: "planet", resourceId: "x" }] };
      assertEquals(await failing(all.createKey(unknown)), "invalid_argument");
    }),
);

storeTest(
  "nobody can grant a role without having it",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const on = (world: World) => ({
        authorizationType: "role",
        authorizationId: "organization_owner",
        resourceType: "organization",
        resourceId: world.organization,
      });
      const owner = await app(mine.owner);
      const both = { authorizations: [on(mine), on(other)] };
      assertEquals(await failing(owner.createKey(both)), "permission_denied");
      const add = owner.addRole({ authorization: { ...on(other), identityId: mine.operator.id } });
      assertEquals(await failing(add), "permission_denied");
      assertEquals(await failing(owner.deleteKey({ id: other.owner.id })), "permission_denied");
    }),
);

/** A part that logs all the time. */
function talk(rover: Awaited<ReturnType<ServedCloud["robot"]>>, id: string) {
  let over = false;
  const talking = (async () => {
    for (let number = 0; !over; number++) {
      await rover.log({ id, logs: [{ message: String(number), level: "info" }] });
      await pause();
    }
  })();
  return {
    stop: () => {
      over = true;
      return talking;
    },
  };
}

async function failing(run: Promise<unknown>): Promise<string> {
  try {
    await run;
    return "ok";
  } catch (error) {
    return SvcError.from(error).code;
  }
}
