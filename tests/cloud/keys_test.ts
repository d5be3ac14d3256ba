/**
 * The owner of a key: the rights of its owner, and the limits of an organization that gave it a role.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { type GrantKind, Keys, KeyUses, newKeySecret, type Role } from "../../lib/cloud/access/keys.ts";
import { MIGRATIONS } from "../../lib/cloud/store/migrations.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { until } from "../support/until.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, withCloud, type World } from "./world.ts";
import { migrate } from "../../lib/cloud/store/open_store.ts";

const TYPES = { organization: "organization", location: "location", machine: "robot" };

function authorization(identityId: string, role: Role, kind: GrantKind, resourceId: string) {
  const resourceType = TYPES[kind];
  return { authorizationId: `${resourceType}_${role}`, resourceType, resourceId, identityId };
}

async function failing(run: Promise<unknown>): Promise<SvcError> {
  try {
    await run;
  } catch (error) {
    return SvcError.from(error);
  }
  throw new Error("it went well");
}

/** Gives a key of one organization a role in another, as the control plane's operator does. */
async function share(store: Store, keyId: string, { organization }: World): Promise<void> {
  const grant = { role: "operator", kind: "organization", resourceId: organization } as const;
  await store.transaction((sql) => new Keys(sql).grant(keyId, grant));
}

storeTest("CreateOrganization is refused unless serve has --organizations anybody", async (database) => {
  await withCloud(database, async ({ store, app }) => {
    const world = await newWorld(store);
    const refused = await failing((await app(world.owner)).createOrganization({ name: "mine" }));
    assertEquals(refused.code, "permission_denied");
    assertStringIncludes(refused.message, "svc-cloud org create");
    const noted = await new Audit(store, new SystemClock()).newest(1);
    assertEquals(noted.map(({ action, outcome }) => [action, outcome]), [["CreateOrganization", "refused"]]);
  });
  await withCloud(database, async ({ store, app }) => {
    const world = await newWorld(store);
    const machine = await app(await newKey(store, "owner", "machine", world.machine));
    assertEquals((await failing(machine.createOrganization({ name: "ours" }))).code, "permission_denied");
    await (await app(world.operator)).createOrganization({ name: "theirs" });
  }, { organizations: "anybody" });
});

storeTest(
  "the owner of a key rotates and deletes it, even if others gave it a role",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const [owner, stranger] = [await app(mine.owner), await app(other.owner)];
      await share(store, mine.operator.id, other);
      const { id } = mine.operator;
      for (
        const attempt of [
          () => stranger.rotateKey({ id }),
          () => stranger.renameKey({ id, name: "ours now" }),
          () => stranger.deleteKey({ id }),
          () => stranger.createKeyFromExistingKeyAuthorizations({ id }),
        ]
      ) assertEquals((await failing(attempt())).code, "permission_denied");
      // A twin opens what the owner has, and nothing that the other organization gave.
      const twin = await owner.createKeyFromExistingKeyAuthorizations({ id });
      const { organizations } = await (await app(twin)).listOrganizations({});
      assertEquals(organizations.map((one) => one.id), [mine.organization]);
      await owner.renameKey({ id, name: "still mine" });
      const { key } = await owner.rotateKey({ id });
      await app({ id, key });
      await owner.deleteKey({ id });
      assertEquals((await failing(app({ id, key }))).code, "unauthenticated");
    }),
);

storeTest(
  "whatever takes rights from a key is announced by its name, and can be looked up afterwards",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const heard: string[] = [];
      const stop = await store.notices.hear("changes", (text) => void heard.push(text));
      const { id } = world.operator;
      const owner = await app(world.owner);
      const role = authorization(id, "operator", "organization", world.organization);
      const named = (count: number) =>
        until(() => heard.filter((one) => one === `key ${id}`).length >= count);
      await owner.rotateKey({ id });
      await named(1);
      await owner.removeRole({ authorization: role });
      await named(2);
      await share(store, id, world);
      await owner.deleteKey({ id });
      await named(3);
      const audit = new Audit(store, new SystemClock());
      const { changes } = await audit.changesSince(Date.now() - 600_000, [
        "key",
        "machine",
        "location",
        "organization",
      ]);
      assertEquals(
        new Set(changes.map(({ resource }) => resource)),
        new Set([`key ${id}`, `organization ${world.organization}`]),
      );
      const later = await audit.changesSince(Date.now() + 600_000, [
        "key",
        "machine",
        "location",
        "organization",
      ]);
      assertEquals([later.changes.length, later.hasMore], [0, false]);
      await stop();
    }),
);

storeTest(
  "an organization that gave a foreign key a role sees and removes only that role",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const [owner, stranger] = [await app(mine.owner), await app(other.owner)];
      await share(store, mine.operator.id, other);
      await share(store, mine.operator.id, mine);
      const { id } = mine.operator;
      const seen = async (by: typeof owner, orgId: string) => {
        const found = (await by.listKeys({ orgId })).apiKeys.find(({ apiKey }) => apiKey?.id === id);
        return found && {
          name: found.apiKey?.name,
          created: found.apiKey?.createdOn !== undefined,
          on: found.authorizations.map(({ resourceId }) => resourceId).sort(),
        };
      };
      const both = [mine.organization, other.organization].sort();
      assertEquals(await seen(owner, mine.organization), { name: "operator", created: true, on: both });
      assertEquals(await seen(stranger, other.organization), {
        name: "",
        created: false,
        on: [other.organization],
      });
      const role = authorization(id, "operator", "organization", other.organization);
      await stranger.removeRole({ authorization: role });
      assertEquals(await seen(stranger, other.organization), undefined);
      assertEquals((await seen(owner, mine.organization))?.on, [mine.organization]);
      const others = authorization(id, "operator", "organization", mine.organization);
      assertEquals((await failing(stranger.removeRole({ authorization: others }))).code, "permission_denied");
    }),
);

storeTest(
  "nobody gets into a stranger's list of organizations by giving its key a role",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const stranger = await app(other.owner);
      for (
        const [kind, resourceId] of [
          ["organization", other.organization],
          ["location", other.location],
          ["machine", other.machine],
        ] as const
      ) {
        const role = authorization(mine.owner.id, "operator", kind, resourceId);
        const refused = await failing(stranger.addRole({ authorization: role }));
        assertEquals(refused.code, "permission_denied");
        // Nor by changing the role of a key of its own into one of the stranger's.
        const own = authorization(other.operator.id, "operator", "organization", other.organization);
        const change = { oldAuthorization: own, newAuthorization: role };
        assertEquals((await failing(stranger.changeRole(change))).code, "invalid_argument");
      }
      const { organizations } = await (await app(mine.owner)).listOrganizations({});
      assertEquals(organizations.map(({ id }) => id), [mine.organization]);
      // A key that both belong to may do it: it speaks for both.
      const grant = { role: "owner", kind: "organization", resourceId: mine.organization } as const;
      await store.transaction((sql) => new Keys(sql).grant(other.owner.id, grant));
      const role = authorization(mine.operator.id, "operator", "organization", other.organization);
      await stranger.addRole({ authorization: role });
      // Once both sides have consented, the giver of the role may change it.
      const now = authorization(mine.operator.id, "owner", "organization", other.organization);
      await stranger.changeRole({ oldAuthorization: role, newAuthorization: now });
    }),
);

storeTest(
  "key grant gives roles in any organization, and key own changes the owner of a key",
  async (database) => {
    const store = await database.open();
    const [mine, other] = [await newWorld(store), await newWorld(store)];
    const list = async () => {
      const { keys: all }: { keys: { id: string; organizationId: string; grants: unknown[] }[] } = JSON.parse(
        await svcCloud("key", "list", ...database.flags, "--json"),
      );
      const { organizationId, grants } = all.find(({ id }) => id === mine.operator.id)!;
      return { organizationId, grants: grants.length };
    };
    assertEquals(await list(), { organizationId: mine.organization, grants: 1 });
    const on = ["--on", `machine:${other.machine}`];
    await svcCloud("key", "grant", mine.operator.id, ...on, ...database.flags);
    assertEquals(await list(), { organizationId: mine.organization, grants: 2 });
    await svcCloud("key", "own", mine.operator.id, "--org", other.organization, ...database.flags);
    assertEquals(await list(), { organizationId: other.organization, grants: 2 });
  },
);

storeTest(
  "keys show their creator, and their last use, which is written once a minute",
  async (database) => {
    const store = await database.open();
    const clock = new FakeClock(1_700_000_000_000);
    const world = await newWorld(store);
    const keys = new Keys(store);
    const lastUse = async () => (await keys.get(world.owner.id)).usedMs;
    const uses = new KeyUses(store, clock, silentLogs(clock).logger("keys"));
    uses.saw(world.owner.id);
    await clock.advance(20_000);
    const secondMs = clock.nowMs();
    uses.saw(world.owner.id);
    uses.saw("a part, which is no key");
    assertEquals(await lastUse(), null);
    await clock.advance(40_000);
    await until(async () => await lastUse() === secondMs);
    await clock.advance(5_000);
    const thirdMs = clock.nowMs();
    uses.saw(world.owner.id);
    await uses.close();
    assertEquals(await lastUse(), thirdMs);

    await withCloud(database, async ({ app }) => {
      const owner = await app(world.owner);
      const made = await owner.createKey({
        name: "by a key",
        authorizations: [authorization("", "viewer", "machine", world.machine)],
      });
      assertEquals((await keys.get(made.id)).creator, world.owner.id);
    });
    await svcCloud(
      "key",
      "create",
      "--on",
      `machine:${world.machine}`,
      "--name",
      "by a person",
      ...database.flags,
    );
    const listed = await svcCloud("key", "list", ...database.flags);
    assertMatch(listed, /^by a key .* viewer of machine rover .* owner /m);
    assertMatch(listed, /^by a person .* operator of machine rover .* cli:\w+ /m);
    assertMatch(listed, /^owner .*\d\d:\d\d:\d\d$/m);
  },
);

storeTest(
  "the migration assigns each old key to its organization, and to none if that is unclear",
  async (database) => {
    const store = database.connect();
    const owned = MIGRATIONS.findIndex((step) =>
      step.some((text) => String(text).includes("api_keys ADD COLUMN"))
    );
    await migrate(store, owned);
    const secret = await newKeySecret();
    await store.transaction(async (sql) => {
      const make = (id: string, ms: number) =>
        sql.query("INSERT INTO organizations (id, name, created_ms) VALUES (?, ?, ?)", id, id, ms);
      const key = async (id: string, ...on: string[]) => {
        const text = "INSERT INTO api_keys (id, name, hash, created_ms) VALUES (?, ?, ?, ?)";
        await sql.query(text, id, id, secret.hash, 200);
        for (const one of on) {
          await sql.query(
            "INSERT INTO grants (key_id, role, kind, resource_id) VALUES (?, 'owner', ?, ?)",
            id,
            one === "hall" ? "location" : "organization",
            one,
          );
        }
      };
      await make("home", 100);
      await make("elder", 50);
      await make("later", 300);
      await sql.query(
        "INSERT INTO locations (id, organization_id, name, created_ms) VALUES ('hall', 'home', 'hall', 150)",
      );
      await key("simple", "home");
      await key("placed", "hall");
      await key("shared", "home", "later");
      await key("unclear", "home", "elder");
      await key("idle");
    });
    await migrate(store);
    const rows = await store.query<{ id: string; of: string | null }>(
      `SELECT id, organization_id AS "of" FROM api_keys ORDER BY id`,
    );
    assertEquals(Object.fromEntries(rows.map(({ id, of }) => [id, of])), {
      simple: "home",
      placed: "home",
      shared: "home",
      // An earlier giver of a role must not become its owner.
      unclear: null,
      idle: null,
    });
  },
);
