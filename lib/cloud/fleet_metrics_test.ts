import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { newWorld } from "../../tests/cloud/world.ts";
import { sqliteTest } from "../../tests/cloud/stores.ts";
import { SvcError } from "../base/error.ts";
import { silentLogs } from "../base/log/log.ts";
import { FleetMetrics } from "./fleet_metrics.ts";
import type { SqlRow, Store } from "./store/store.ts";
import { Presence } from "./tenants/presence.ts";

sqliteTest(
  "figures of the fleet: a sum that fails says why, is not kept, and others are for a minute",
  async (database) => {
    const store = await database.open();
    const clock = new FakeClock();
    const { part } = await newWorld(store, clock.nowMs());
    const presence = new Presence(store, clock, silentLogs(clock).logger("cloud"));
    presence.saw(part);
    let failing = "";
    let asked = 0;
    const watched = Object.assign(Object.create(store) as Store, {
      query: async <R extends SqlRow>(sql: string, ...values: never[]): Promise<R[]> => {
        if (sql.includes("stored_bytes")) asked++;
        if (failing !== "" && sql.includes(failing)) throw new SvcError("unavailable", `no ${failing} now`);
        const rows = await store.query<R>(sql, ...values);
        // The list of the parts is the slow one here.
        if (sql.includes("FROM parts")) await clock.advance(10);
        return [...rows];
      },
    });
    const metrics = new FleetMetrics(watched, presence, clock);
    for (const table of ["stored_bytes", "training_jobs", "trigger_events"]) {
      failing = table;
      await assertRejects(() => metrics.figures(), SvcError, `no ${table} now`);
    }
    failing = "";
    asked = 0;
    const { states, seen, queues } = await metrics.figures();
    assertEquals(states.map(({ value }) => value), [1, 0, 0]);
    assertEquals(seen.map(({ value }) => Math.round(value)), [Math.round(clock.nowMs() / 1000)]);
    assertEquals(queues.length, 4);
    await clock.advance(50_000);
    await metrics.figures();
    assertEquals(asked, 1);
    await clock.advance(10_000);
    await metrics.figures();
    assertEquals(asked, 2);
    await presence.close();
  },
);
