/**
 * Moving from SQLite to PostgreSQL: everything arrives, also after a break, and the old database stays as it is.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { copyDatabase } from "../../lib/cloud/store/moving/database_move.ts";
import { svcCloud } from "./program.ts";
import { sharedStoreTest } from "./stores.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

const READINGS = 450;

sharedStoreTest("a database on SQLite moves, goes on after a break, and is checked", async (database) => {
  const data = await Deno.makeTempDir({ prefix: "svc-move-" });
  const { folder: _, flags } = database;
  const url = flags[flags.indexOf("--database") + 1];
  const old = () => openStore({ sqlite: sqliteIn(`${data}/cloud.db`, new DenoHost()) }, new SystemClock());
  try {
    const example = JSON.parse(await svcCloud("init", "--json", "--data", data));
    await svcCloud("machine", "create", "Zoë 🤖", "--data", data);
    const store = await old();
    const [source, readings] = await store.transaction(async (sql) => {
      // Rows that refer to rows of their own table.
      let parent = example.locationId;
      for (const name of ["hall", "room", "corner"]) {
        parent = await new Locations(sql).create(example.organizationId, name, parent, 1);
      }
      const part = await new Parts(sql).get(example.partId);
      const origin = {
        ...part,
        partId: part.id,
        partName: part.name,
        componentType: "sensor",
        componentName: "s",
      };
      const readings = Array.from({ length: READINGS }, (_, at) => {
        // A large one goes alone.
        return {
          capturedUs: 1_700_000_000_000_000 + at,
          receivedUs: 0,
          payload: { at, text: "x".repeat(at === 7 ? 9e6 : 9) },
        };
      });
      return [{ ...origin, methodName: "Readings", parameters: "{}" }, readings] as const;
    });
    await storeReadings({ store }, source, readings, ["a"], 1);
    const machines = await svcCloud("machine", "list", "--json", "--data", data);

    // It breaks off in the midst.
    const target = await openStore({ url }, new SystemClock());
    let seen = 0;
    const broken = copyDatabase(store, target, () => {
      if (++seen === 5) throw new Error("the power is gone");
    });
    await assertRejects(() => broken, Error, "the power is gone");
    await target.close();
    await store.close();

    const host = new DenoHost();
    const leave = await host.lock(`${data}/serve.lock`);
    const move = () => svcCloud("database", "move", "--to", url, "--data", data, "--json");
    assertStringIncludes(String(await assertRejects(move)), "stop it, and move then");
    leave?.();
    const { tables } = JSON.parse(await move());
    const rows = new Map(tables.map((one: { table: string; rows: number }) => [one.table, one.rows]));
    assertEquals([rows.get("tabular_data"), rows.get("locations"), rows.get("machines")], [READINGS, 4, 2]);
    assertEquals(await svcCloud("machine", "list", "--json", "--data", data, "--database", url), machines);

    // The old one takes no changes that the new one would miss, until somebody wants it back.
    for (
      const words of [["machine", "list"], ["location", "create", "late"], [
        "serve",
        "--listen",
        "127.0.0.1:0",
      ]]
    ) {
      const refused = String(await assertRejects(() => svcCloud(...words, "--data", data)));
      assertStringIncludes(refused, "has moved");
      assertStringIncludes(refused, "give the new one with --database");
      assertEquals(refused.includes(new URL(url).password || "a password"), false);
    }
    await Deno.remove(`${data}/moved.txt`);
    assertEquals(await svcCloud("machine", "list", "--json", "--data", data), machines);
    assertStringIncludes(String(await assertRejects(move)), "by an earlier move");
    await assertRejects(() => svcCloud("database", "move", "--to", "sqlite://x", "--data", data));
    await assertRejects(() => svcCloud("database", "move", "--to", url, "--data", data, "--database", url));
  } finally {
    await Deno.remove(data, { recursive: true });
  }
});
