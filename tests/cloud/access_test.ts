/**
 * Who may call what: every call that is served, by everybody, as the table of rules says.
 */

import { assert, assertEquals } from "@std/assert";
import { AuthorizationSchema } from "../../proto/gen/app_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { RULES } from "../../lib/cloud/access/rules.ts";
import { BinaryData } from "../../lib/cloud/data/binary_data.ts";
import { Datasets } from "../../lib/cloud/data/datasets.ts";
import { Sequences } from "../../lib/cloud/data/sequences.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { Fragments } from "../../lib/cloud/fleet/fragments.ts";
import type { Rule } from "../../lib/cloud/access/access.ts";
import type { Sql } from "../../lib/cloud/store/store.ts";
import type { Channel } from "../../lib/wire/channel.ts";
import { create, type DescMessage, type Message, toBinary } from "../../lib/wire/proto.ts";
import { TrainingJobs } from "../../lib/cloud/training/training.ts";
import { newJob } from "./training_world.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";

const REFUSALS = ["unauthenticated", "permission_denied", "unimplemented"];
const DEADLINE_MS = 60_000;

storeTest(
  "every call that is served has a rule, and every rule a call that is served",
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
  "each call lets in those whom its rule allows, and nobody else",
  (database) =>
    withCloud(database, async (served) => {
      const { store, channel, robot } = served;
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const channels = {
        nobody: await channel(),
        stranger: await channel(other.owner),
        operator: await channel(mine.operator),
        owner: await channel(mine.owner),
      };
      // Those who follow logs have something to hear of.
      const talking = talk(await robot(mine.owner), mine.part);
      try {
        for (const rule of RULES) {
          const found: Record<string, boolean> = {};
          const codes: string[] = [];
          const something = await somethingIn(served, mine);
          for (const [who, connection] of Object.entries(channels)) {
            const about = rule.method.methodKind === "server_streaming"
              ? { ...something, part: mine.part }
              : something;
            const code = await codeOf(connection, rule, about);
            codes.push(`${who}: ${code}`);
            found[who] = !REFUSALS.includes(code);
          }
          const { need } = rule;
          const wanted = {
            nobody: need === "nobody",
            stranger: need === "nobody" || need === "anybody",
            operator: !["owner", "machine", "insider"].includes(need),
            owner: need !== "machine",
          };
          assertEquals(found, wanted, `${rule.path} (${codes.join(", ")})`);
        }
      } finally {
        await talking.stop();
      }
    }, { organizations: "anybody" }),
);

storeTest(
  "the key of a training job reads captured data, and does nothing else",
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
        if (rule.need === "nobody") continue;
        const code = await codeOf(connection, rule, something);
        if (REFUSALS.includes(code) === Boolean(rule.forJobs)) wrong.push(`${rule.path}: ${code}`);
      }
      assertEquals(wrong, []);
    }),
);

storeTest(
  "a role on a location or a machine ends there",
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
  "a role on a location holds in the locations inside it",
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
    }),
);

storeTest(
  "what is not there is not found, what is not said is asked for",
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
  "nobody gives away what they do not have",
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
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  return {
    stop: () => {
      over = true;
      return talking;
    },
  };
}

/** Names of things to call about; new ones for each rule, whose call may remove them. */
async function somethingIn({ store }: ServedCloud, { organization, owner }: World) {
  const world = await newWorld(store);
  await store.transaction(async (sql) => {
    await sql.query(
      "UPDATE locations SET organization_id = ?, name = ? WHERE id = ?",
      organization,
      world.location,
      world.location,
    );
  });
  const key = (await newKey(store, "operator", "organization", organization)).id;
  const fragment = await store.transaction((sql) =>
    new Fragments(sql).create(organization, world.part, {}, 0)
  );
  const training_job = await store.transaction(async (sql) => {
    const jobs = new TrainingJobs(sql);
    const id = await jobs.add(newJob(organization), [], 0);
    // One that may be deleted; that it cannot be cancelled is no refusal.
    await jobs.cancel(id, 0);
    return id;
  });
  const item = await store.transaction((sql) =>
    new Packages(sql).createItem(organization, `item-${world.part}`, "module", 0)
  );
  const { data, dataset, sequence } = await store.transaction((sql) => capturedIn(sql, organization, world));
  return {
    ...world,
    organization,
    key,
    fragment,
    data,
    dataset,
    sequence,
    owner,
    training_job,
    package: `${organization}:${item.name}`,
  };
}

/** An image of a machine, a dataset and a sequence. */
async function capturedIn(sql: Sql, organizationId: string, { location, machine, part }: World) {
  const origin = {
    organizationId,
    locationId: location,
    machineId: machine,
    machineName: "rover",
    partId: part,
    partName: "rover-main",
    componentType: "camera",
    componentName: "cam",
    methodName: "GetImages",
    parameters: "{}",
  };
  const image = {
    origin,
    fileName: "",
    fileExt: ".jpg",
    mimeType: "image/jpeg",
    tags: [],
    datasetIds: [],
    boxes: [],
    classifications: [],
  };
  const window = { resources: [{ resourceName: "cam", methodName: "" }], tags: [], startUs: 0, endUs: 1 };
  return {
    data: await new BinaryData(sql).add(image, { sha256: "0".repeat(64), bytes: 0 }, 0),
    dataset: await new Datasets(sql).create(organizationId, part, "images", 0),
    sequence: await new Sequences(sql).create(await new Fleet(sql).part(part), window, 0),
  };
}

async function codeOf(
  channel: Channel,
  { method, on }: Rule,
  something: Awaited<ReturnType<typeof somethingIn>>,
): Promise<string> {
  const authorization = create(AuthorizationSchema, {
    authorizationId: "organization_operator",
    resourceType: "organization",
    resourceId: something.organization,
    identityId: something.key,
  });
  const message = create(method.input as DescMessage);
  for (const { kind, field } of on) {
    const value = kind === "authorized" ? authorization : something[kind as keyof typeof something];
    put(method.input, message, field, value);
  }
  const request = toBinary(method.input, message);
  try {
    const requests = async function* () {
      yield request;
    };
    for await (const _ of channel.call(method, requests(), { timeoutMs: DEADLINE_MS })) break;
    return "ok";
  } catch (error) {
    assert(error instanceof SvcError);
    return error.code;
  }
}

/** Sets a field, as one of a list where it is one; `metadata.partId` is one of a message inside. */
function put(desc: DescMessage, message: Message, path: string, value: unknown): void {
  const [name, ...rest] = path.split("|")[0].split(".");
  const field = desc.field[name];
  const there = (message as unknown as Record<string, unknown>)[name] as Message | undefined;
  const inside = rest.length > 0 ? there ?? create(field.message!) : undefined;
  if (inside) put(field.message!, inside, rest.join("."), value);
  const set = inside ?? (field.fieldKind === "list" ? [value] : value);
  const target = message as unknown as Record<string, unknown>;
  if (field.oneof) target[field.oneof.localName] = { case: name, value: set };
  else target[name] = set;
}

async function failing(run: Promise<unknown>): Promise<string> {
  try {
    await run;
    return "ok";
  } catch (error) {
    return SvcError.from(error).code;
  }
}
