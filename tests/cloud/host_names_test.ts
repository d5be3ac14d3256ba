/**
 * The host names of parts: unique in their location, kept by their first holder, in certificates and at the doors that
 * lead to a machine by its name.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { X509Certificate } from "node:crypto";
import { ExternalAuthService } from "../../proto/gen/auth_pb.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { hostWordOf } from "../../lib/cloud/tenants/names.ts";
import { MIGRATIONS } from "../../lib/cloud/store/migrations.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";
import { migrate } from "../../lib/cloud/store/open_store.ts";

const DAY_MS = 24 * 3600 * 1000;

/** Another machine in the world's location, with an owner of it alone, and its own key. */
async function newNeighbour({ store }: ServedCloud, { location }: World, name: string) {
  const { id, partId } = await store.transaction((sql) => new Machines(sql).create(location, name, 1));
  const [owner, own] = [
    await newKey(store, "owner", "machine", id),
    await newKey(store, "operator", "machine", id),
  ];
  return { id, partId, owner, own };
}

async function fqdnOf({ app }: ServedCloud, { owner }: World, id: string): Promise<string> {
  return (await (await app(owner)).getRobotPart({ id })).part!.fqdn;
}

/** Which part a name leads the world's owner to: the one whose key opens the name. */
async function opens({ channel }: ServedCloud, host: string, key: World["owner"]): Promise<string> {
  const { authenticateTo } = client(ExternalAuthService, await channel(key));
  return await awaitOutcome(authenticateTo({ entity: host }));
}

storeTest(
  "two machines with Chinese names in one location have names of their own",
  (database) =>
    withCloud(database, async (served) => {
      const world = await newWorld(served.store);
      const [first, second] = [
        await newNeighbour(served, world, "機器人"),
        await newNeighbour(served, world, "測試"),
      ];
      const fqdns = [await fqdnOf(served, world, first.partId), await fqdnOf(served, world, second.partId)];
      for (const [index, one] of [first, second].entries()) {
        assertMatch(fqdns[index], new RegExp(`^xn--[a-z0-9-]+\\.${world.location}\\.svc\\.internal$`));
        const robot = await served.robot(one.own);
        const { tlsCertificate } = await robot.certificate({ id: one.partId });
        assertEquals(new X509Certificate(tlsCertificate).checkHost(fqdns[index]), fqdns[index]);
        assertEquals((await robot.config({ id: one.partId })).config?.cloud?.fqdn, fqdns[index]);
        assertEquals(await opens(served, fqdns[index], one.owner), "ok");
        assertEquals(await opens(served, fqdns[1 - index], one.owner), "permission_denied");
      }
      assertEquals(fqdns[0] === fqdns[1], false);
    }),
);

storeTest(
  "a part that is renamed like another gets another host name, also after the other has left",
  (database) => {
    const clock = new FakeClock();
    return withCloud(database, async (served) => {
      const world = await newWorld(served.store, clock.nowMs());
      const victim = {
        id: world.part,
        own: await newKey(served.store, "operator", "machine", world.machine),
      };
      const word = `rover-main.${world.location}.svc.internal`;
      const certified = async (key: World["owner"], id: string) => {
        const { tlsCertificate } = await (await served.robot(key)).certificate({ id });
        return new X509Certificate(tlsCertificate).subjectAltName!;
      };
      assertMatch(await certified(victim.own, victim.id), /DNS:rover-main\./);
      const thief = await newNeighbour(served, world, "thief");
      const [thiefs, owners] = [await served.app(thief.owner), await served.app(world.owner)];
      for (const name of ["rover-main", "Rover  Main", "ROVER-MAIN"]) {
        await thiefs.updateRobotPart({ id: thief.partId, name });
        assertMatch(await fqdnOf(served, world, thief.partId), /^rover-main-2\./);
        assertMatch(await certified(thief.own, thief.partId), /DNS:rover-main-2\./);
        assertEquals([await opens(served, word, world.owner), await opens(served, word, thief.owner)], [
          "ok",
          "permission_denied",
        ]);
      }
      const found = await owners.getRobotPartByNameAndLocation({
        name: "rover-main",
        locationId: world.location,
      });
      assertEquals(found.part?.id, victim.id);
      // The victim's last certificate still names it.
      await owners.updateRobotPart({ id: victim.id, name: "explorer" });
      await thiefs.updateRobotPart({ id: thief.partId, name: "rover main" });
      assertMatch(await fqdnOf(served, world, thief.partId), /^rover-main-2\./);
      await owners.updateRobotPart({ id: victim.id, name: "rover-main" });
      assertEquals(await fqdnOf(served, world, victim.id), word);
      await owners.deleteRobot({ id: world.machine });
      await thiefs.updateRobotPart({ id: thief.partId, name: "other" });
      await thiefs.updateRobotPart({ id: thief.partId, name: "rover-main" });
      assertMatch(await fqdnOf(served, world, thief.partId), /^rover-main-2\./);
      await clock.advance(91 * DAY_MS);
      const late = await served.app(thief.owner);
      await late.updateRobotPart({ id: thief.partId, name: "other" });
      await late.updateRobotPart({ id: thief.partId, name: "rover-main" });
      assertEquals(await fqdnOf(served, world, thief.partId), word);
    }, { clock });
  },
);

storeTest(
  "a moved machine gets names in its new location, and keeps nobody's there",
  (database) =>
    withCloud(database, async (served) => {
      const world = await newWorld(served.store);
      const app = await served.app(world.owner);
      const { location } = await app.createLocation({ organizationId: world.organization, name: "shed" });
      const robot = await app.newRobot({ location: location!.id, name: "rover" });
      const [there] = (await app.getRobotParts({ robotId: robot.id })).parts;
      await app.updateRobot({ id: world.machine, name: "second", location: location!.id });
      const moved = await fqdnOf(served, world, world.part);
      assertEquals([there.fqdn, moved], [
        `rover-main.${location!.id}.svc.internal`,
        `rover-main-2.${location!.id}.svc.internal`,
      ]);
      assertEquals(
        await opens(served, `rover-main.${world.location}.svc.internal`, world.owner),
        "permission_denied",
      );
    }),
);

storeTest(
  "an older database's parts keep their names, and of namesakes the oldest does",
  async (database) => {
    const store = database.connect();
    const step = MIGRATIONS.findIndex((texts) => texts.some((text) => String(text).includes("part_hosts")));
    await migrate(store, step);
    const names = ["rover", "Rover", "機器人", "測試", "x".repeat(80), "größe"];
    await store.transaction(async (sql) => {
      await sql.query("INSERT INTO organizations (id, name, created_ms) VALUES ('o', 'o', 0)");
      await sql.query(
        "INSERT INTO locations (id, organization_id, name, created_ms) VALUES ('l', 'o', 'l', 0)",
      );
      for (const [index, name] of names.entries()) {
        await sql.query(
          `INSERT INTO machines (id, location_id, name, created_ms) VALUES (?, 'l', ?, 0)`,
          `m${index}`,
          name,
        );
        const text = "INSERT INTO parts (id, machine_id, name, main, created_ms) VALUES (?, ?, ?, 1, ?)";
        await sql.query(text, `p${index}`, `m${index}`, name, index);
      }
    });
    await migrate(store);
    const rows = await store.query<{ word: string }>("SELECT word FROM part_hosts ORDER BY part_id");
    assertEquals(rows.map(({ word }) => word), [
      "rover",
      "rover-2",
      "part",
      "xn--g6w251d",
      "x".repeat(63),
      "gr-e",
    ]);
    await store.close();
  },
);

Deno.test("hostWordOf() makes a label of any name", () => {
  assertEquals(
    ["Rover 1", "größe", "測試", "--", "🙂", "é".repeat(200), "a".repeat(70)].map((name) =>
      hostWordOf(name, "0123456789abcdef")
    ),
    ["rover-1", "xn--gre-6ka8i", "xn--g6w251d", "part", "part", "part-0123456789ab", "a".repeat(63)],
  );
});
