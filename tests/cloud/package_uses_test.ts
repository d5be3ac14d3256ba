/** Which parts and fragments name an item of the registry, by the call, by command and in older databases. */

import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { ConfigurationService } from "../../proto/gen/configurations_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { recordPackageUses } from "../../lib/cloud/store/steps/package_uses.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { svcCloud, svcCloudPrinted } from "./program.ts";
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

storeTest(
  "config set and fragment set warn of modules and packages that the registry does not have",
  (database) =>
    withCloud(database, async ({ store }) => {
      const [{ organization, part }, other] = [await newWorld(store), await newWorld(store)];
      const file = { sha256: "0".repeat(64), bytes: 1 };
      await store.transaction(async (sql) => {
        const one = { type: "module", metadata: {}, file, platform: "" } as const;
        await new Packages(sql).add({
          ...one,
          organizationId: organization,
          name: "driver",
          version: "1.2.0",
        }, 1);
        const foreign = { ...one, organizationId: other.organization, name: "secret", version: "1.0.0" };
        await new Packages(sql).add(foreign, 1);
      });
      const module = (version: string, more: JsonObject = {}) => ({
        ...{ name: "a", type: "registry", module_id: `${organization}:driver`, version, ...more },
      });
      const path = join(database.folder, "config.json");
      const warningsOf = async (config: JsonObject, command = ["config", "set", part, path]) => {
        await Deno.writeTextFile(path, JSON.stringify(config));
        const { remarks } = await svcCloudPrinted(...command, ...database.flags);
        return remarks.split("\n").filter((line) => line.includes("warning"));
      };

      const none = { modules: [module("^1"), { ...module("latest"), name: "b" }] };
      assertEquals(await warningsOf(none), []);
      const own = { modules: [{ ...module("banana"), type: "local", executable_path: "/bin/true" }] };
      assertEquals(await warningsOf(own), []);
      assertEquals(await warningsOf({ modules: [module("${environment.VERSION}")] }), []);

      const [banana] = await warningsOf({ modules: ["no object", module("banana")].slice(1) });
      assertMatch(
        banana,
        /set: warning: modules\.0\.version: there is no version "banana" of .*found 1\.2\.0; wanted/,
      );
      const [range] = await warningsOf({ modules: [module("1.2.0"), { ...module("^9"), name: "b" }] });
      assertMatch(range, /modules\.1\.version: there is no version "\^9"/);
      const map = { name: "m", package: `${organization}/hall`, version: "1", type: "slam_map" };
      assertMatch((await warningsOf({ packages: [map] }))[0], /packages\.0: the registry has no ".*\/hall"/);
      // Another organization's private module is none.
      const foreign = module("latest", { module_id: `${other.organization}:secret` });
      assertMatch((await warningsOf({ modules: [foreign] }))[0], /modules\.0: the registry has no/);

      const set = ["fragment", "set", "shared", path, "--org", organization];
      assertMatch(
        (await warningsOf({ modules: [module("banana")] }, set))[0],
        /fragment set: warning: modules\.0/,
      );
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
