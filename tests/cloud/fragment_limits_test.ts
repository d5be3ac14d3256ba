/**
 * Hostile fragments and configurations on a serving control plane: refused when they are saved, and stored ones of the
 * past fail at their own machine's poll alone.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { createConfigThread } from "../../cli/cloud/checks/thread.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Json, JsonObject } from "../../lib/base/schema/schema.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { ConfigThreads } from "../../lib/cloud/config/config_threads.ts";
import { Fragments } from "../../lib/cloud/config/fragments/fragments.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { recordFragmentUses } from "../../lib/cloud/store/steps/fragment_uses.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { newWorld, withCloud, type World } from "./world.ts";
import { sqliteTest, storeTest } from "./stores.ts";

/** Written as an earlier version of the program accepted it; returns the outermost fragment. */
async function towerOf(store: Store, world: World, levels: number, width: number): Promise<string> {
  return await store.transaction(async (sql) => {
    const fragments = new Fragments(sql);
    let inner: JsonObject = { components: [{ name: "x" }] };
    let id = "";
    for (let level = levels; level > 0; level--) {
      id = await fragments.create(world.organization, `level ${level}`, configText(inner), 0);
      const entry = (index: number): Json => ({ id, variables: { index } });
      inner = { fragments: Array.from({ length: width }, (_, index) => entry(index)) };
    }
    return id;
  });
}

storeTest(
  "fragments that multiply are refused at every door, and a stored configuration fails for its machine alone",
  (database) =>
    withCloud(database, async ({ store, app, robot }) => {
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const owner = await app(world.owner);
      const tower = await towerOf(store, world, 4, 40);
      const wide = {
        fragments: Array.from({ length: 40 }, (_, index) => ({ id: tower, variables: { index } })),
      };
      const limit = /limit fragments_per_configuration: found more than 200/;
      const create = owner.createFragment({ organizationId: world.organization, name: "top", config: wide });
      assertMatch((await failing(create)).message, limit);
      const { fragment } = await owner.createFragment({ organizationId: world.organization, name: "top" });
      assertMatch((await failing(owner.updateFragment({ id: fragment!.id, config: wide }))).message, limit);
      assertMatch(
        (await failing(owner.updateRobotPart({ id: world.part, robotConfig: wide }))).message,
        limit,
      );
      const nested = owner.listNestedFragments({ fragmentId: tower });
      assertEquals((await nested).fragments.length, 3);

      await store.transaction((sql) => new PartConfigs(sql).set(world.part, configText(wide), "", 0));
      const machine = await robot(world.owner);
      for (const _ of [1, 2]) {
        const error = await failing(machine.config({ id: world.part }));
        assertEquals(error.code, "failed_precondition");
        assertMatch(error.message, new RegExp(`part ${world.part} cannot be used: .*${limit.source}`));
      }
      assertEquals((await (await robot(other.owner)).config({ id: other.part })).config?.revision, "0");
      // The machine has a configuration again as soon as a fragment in it is mended.
      await store.transaction((sql) =>
        new Fragments(sql).update(tower, "level 1", configText({ debug: true }), 0)
      );
      assertEquals((await machine.config({ id: world.part })).config?.debug, true);
    }),
);

storeTest(
  "the record of uses follows configurations, and older databases get one",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const owner = await app(world.owner);
      const make = async (name: string, config: JsonObject = {}) =>
        (await owner.createFragment({ organizationId: world.organization, name, config })).fragment!.id;
      const inner = await make("inner");
      const outer = await make("outer", { fragments: [inner] });
      const counts = async () => {
        const { fragments } = await owner.listFragments({ organizationId: world.organization });
        return fragments.map(({ name, robotPartCount }) => [name, robotPartCount]);
      };
      const use = (...fragments: Json[]) =>
        owner.updateRobotPart({ id: world.part, robotConfig: { fragments } });
      await use({ id: outer, version: "1" }, inner, { id: outer, variables: { a: 1 } });
      assertEquals(await counts(), [["inner", 1], ["outer", 1]]);
      const { versionUsages } = await owner.getFragmentUsage({ fragmentId: outer });
      assertEquals(versionUsages.map(({ version, machines }) => [version, machines]), [["", 1], ["1", 1]]);
      await use(outer);
      assertEquals(await counts(), [["inner", 0], ["outer", 1]]);
      const refusal = async (id: string) => (await failing(owner.deleteFragment({ id }))).message;
      assertMatch(await refusal(inner), /used by 0 parts and 1 fragment,/);
      assertMatch(await refusal(outer), /used by 1 part and 0 fragments/);
      const recorded = async () => [
        ...await store.query(
          "SELECT * FROM part_fragments UNION ALL SELECT * FROM fragment_fragments ORDER BY 1",
        ),
      ];
      const before = await recorded();
      assertEquals(before.length, 2);
      await store.transaction(async (sql) => {
        await sql.query("DELETE FROM part_fragments");
        await sql.query("DELETE FROM fragment_fragments");
        await recordFragmentUses(sql);
      });
      assertEquals(await recorded(), before);
    }),
);

sqliteTest(
  "an expensive configuration ends its thread, and the next one is checked in a new one",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const owner = await app(world.owner);
      const clock = new SystemClock();
      let started = 0;
      const create = () => {
        started++;
        return createConfigThread();
      };
      const soon = new ConfigThreads(create, defaultLimits(), clock, 1);
      const components = Array.from({ length: 20_000 }, (_, at) => ({ name: `c${at}` }));
      const text = JSON.stringify({ components });
      try {
        for (const _ of [1, 2]) {
          const error = await failing(soon.run(store, world.organization, { kind: "check", text }));
          assertEquals(error.code, "deadline_exceeded");
          assertMatch(error.message, /takes more than 1 ms to check/);
        }
        assertEquals(started, 2);
      } finally {
        soon.close();
      }
      // The rules of the machine apply in the thread.
      const bad = owner.updateRobotPart({
        id: world.part,
        robotConfig: { network: { bind_address: "nowhere" } },
      });
      assertMatch((await failing(bad)).message, /network\.bind_address/);
      const robotConfigJson = '{"debug":true, "revision":"1.0"}';
      const good = await owner.updateRobotPart({ id: world.part, robotConfigJson });
      assertEquals(good.part?.robotConfigJson, '{"debug":true,"revision":"1.0"}');
      const noJson = owner.updateRobotPart({ id: world.part, robotConfigJson: "{" });
      assertMatch((await failing(noJson)).message, /the configuration is not JSON/);

      // Thousands of problems cost no more than their number: suggestions are for the first few.
      const name = (at: number) => `${"model".repeat(8)}${at}`;
      const attributes = Object.fromEntries(
        Array.from({ length: 3_000 }, (_, at) => [`a${at}`, `\${packages.ml_model.${name(at)}x}`]),
      );
      const packages = Array.from({ length: 3_000 }, (_, at) => ({
        name: name(at),
        package: "o/m",
        type: "ml_model",
        version: "1",
      }));
      const component = { name: "a", api: "rdk:component:generic", model: "fake", attributes };
      const robotConfig = { components: [component], packages };
      const logged = (await failing(owner.updateRobotPart({ id: world.part, robotConfig }))).message;
      assertMatch(logged, /did you mean/);
    }, { createConfigThread }),
);

async function failing(run: Promise<unknown>): Promise<SvcError> {
  try {
    await run;
  } catch (error) {
    return SvcError.from(error);
  }
  throw new Error("it did not fail");
}
