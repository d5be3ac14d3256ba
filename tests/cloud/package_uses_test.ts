/** Which parts and fragments name an item of the registry, by the call, by command and in older databases. */

import { assertEquals, assertMatch } from "@std/assert";
import { ConfigurationService } from "../../proto/gen/configurations_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { recordPackageUses } from "../../lib/cloud/store/steps/package_uses.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

storeTest(
  "the record of the uses of packages follows configurations, and older databases get one",
  (database) =>
    withCloud(database, async ({ store, app, channel }) => {
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const { organization: organizationId } = world;
      const owner = await app(world.owner);
      await owner.createModule({ organizationId, name: "driver" });
      const itemId = `${organizationId}:driver`;
      const named = (version: string) => [
        { name: "a", type: "registry", module_id: itemId, version },
        { name: "b", type: "registry", module_id: itemId, version },
      ];
      const make = async (name: string, config: JsonObject) =>
        (await owner.createFragment({ organizationId, name, config })).fragment!.id;
      const inner = await make("inner", { modules: named("1.0.0") });
      const outer = await make("outer", { fragments: [inner], modules: { not: "a list" } });
      const packages: JsonObject[] = [
        { name: "far", package: `${organizationId}/driver`, version: "stable", type: "module" },
        { name: "odd", package: "x", type: "module" },
      ];
      await owner.updateRobotPart({ id: world.part, robotConfig: { packages, fragments: [outer] } });
      const uses = async (of: typeof world, pageToken = "") => {
        const calls = client(ConfigurationService, await channel(of.operator));
        const { parts, fragments } = await calls.listPackageUses({
          organizationId: of.organization,
          itemId,
          pageToken,
        });
        return [
          ...fragments.map(({ name, version }) => ["fragment", name, version]),
          ...parts.map((one) => [one.machineName, one.fragmentName, one.version]),
        ];
      };
      const found = [["fragment", "inner", "1.0.0"], ["rover", "", "stable"], ["rover", "outer", "1.0.0"]];
      assertEquals(await uses(world), found);
      assertEquals(await uses(world, `${world.part}  stable`), found.slice(2));
      assertMatch((await failing(uses(world, "odd"))).message, /found page token "odd"/);
      const listed = JSON.parse(
        await svcCloud("package", "uses", "driver", "--org", organizationId, "--json", ...database.flags),
      );
      assertEquals(listed.uses.length, 3);
      // A private item is none for others, and a public one shows them their own uses alone.
      assertEquals((await failing(uses(other))).code, "not_found");
      await store.transaction((sql) => sql.query("UPDATE registry_items SET visibility = 'public'"));
      assertEquals(await uses(other), []);
      const stranger = client(ConfigurationService, await channel(other.owner));
      assertEquals(
        (await failing(stranger.listPackageUses({ organizationId, itemId }))).code,
        "permission_denied",
      );

      await store.transaction(async (sql) => {
        await sql.query("DELETE FROM part_packages");
        await sql.query("DELETE FROM fragment_packages");
        await recordPackageUses(sql);
      });
      assertEquals(await uses(world), found);
      await owner.updateRobotPart({ id: world.part, robotConfig: {} });
      assertEquals(await uses(world), found.slice(0, 1));
    }),
);

async function failing(run: Promise<unknown>): Promise<SvcError> {
  try {
    await run;
  } catch (error) {
    return SvcError.from(error);
  }
  throw new Error("it did not fail");
}
