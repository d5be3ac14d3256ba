/** PostgreSQL is restarted under the load of two control planes, as an update of its package does. */

import { assert, assertEquals } from "@std/assert";
import { ChangeService } from "../../proto/gen/changes_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { NewKey } from "../../lib/cloud/access/keys.ts";
import { Deliveries, type NewDelivery } from "../../lib/cloud/notifications/deliveries.ts";
import { connect, openStore } from "../../lib/cloud/store/open_store.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { needingTest } from "../support/needing.ts";
import { postgresPrograms, startPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";
import type { TestDatabase } from "./stores.ts";
import { newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";

const clock = new SystemClock();
const needed = postgresPrograms() === undefined
  ? { missing: "PostgreSQL is not installed here" }
  : { found: undefined };
const WRITERS = 4;
const CLAIMS = { all: 5, ofOrganization: 5 };
const LEASE_MS = 3600_000;
const LATE_MS = 365 * 24 * 3600_000;
const PAUSE_MS = 20;

/** Repeats some work until the load is over; collects the codes of its failures. */
function createLoad() {
  const over = new AbortController();
  const codes = new Set<string>();
  const works: Promise<void>[] = [];
  return {
    codes,
    signal: over.signal,
    repeat: (work: () => Promise<unknown>) => {
      works.push((async () => {
        while (!over.signal.aborted) {
          await work().catch((error) => void codes.add(SvcError.from(error).code));
          await clock.sleep(PAUSE_MS);
        }
      })());
    },
    end: async () => {
      over.abort();
      await Promise.all(works);
    },
  };
}

/**
 * Follows the changes of a part as a machine does, which connects again; counts those of its configuration. Resolves
 * with the first answer: what changes before that, a machine does not hear.
 */
async function followConfig({ channel }: ServedCloud, key: NewKey, id: string, signal: AbortSignal) {
  const found = { answers: 0, configs: 0 };
  const { follow } = client(ChangeService, await channel(key));
  const following = (async () => {
    while (!signal.aborted) {
      try {
        for await (const { config } of follow({ id }, { signal })) {
          found.answers++;
          if (config) found.configs++;
        }
      } catch {
        await clock.sleep(PAUSE_MS);
      }
    }
  })();
  await until(() => found.answers > 0);
  return { found, following };
}

/** Adds deliveries, and claims them over both stores; returns all claims. */
function claim(load: ReturnType<typeof createLoad>, { organization, part }: World, stores: readonly Store[]) {
  const claimed: string[] = [];
  const delivery: NewDelivery = {
    ...{ organizationId: organization, partId: part, trigger: "t", kind: "webhook", target: "" },
    message: { method: "POST", headers: [], body: "", subject: "", text: "" },
  };
  // Due so late that the control planes themselves leave them alone.
  const dueMs = clock.nowMs() + LATE_MS;
  load.repeat(() => stores[0].transaction((sql) => new Deliveries(sql).add(delivery, dueMs)));
  for (const store of stores) {
    load.repeat(async () => {
      const some = await store.transaction((sql) =>
        new Deliveries(sql).claim(CLAIMS, [], dueMs, dueMs + LEASE_MS)
      );
      claimed.push(...some.map(({ id }) => id));
    });
  }
  return claimed;
}

for (const mode of ["fast", "immediate"] as const) {
  needingTest(
    `postgres: a restart (${mode}) under load loses nothing acknowledged, and machines hear of changes again`,
    needed,
    async () => {
      const server = startPostgres();
      const folder = await Deno.makeTempDir({ prefix: "svc-restart-" });
      const url = `postgres://svc@127.0.0.1:${server.port}/postgres`;
      const open = () => openStore({ url }, clock);
      const database: TestDatabase = {
        ...{ kind: "postgres", folder, open, flags: [] },
        connect: () => connect({ url }, clock),
      };
      const load = createLoad();
      try {
        await withCloud(database, (one) =>
          withCloud(database, async (other) => {
            const world = await newWorld(one.store);
            const own = await ownKey(one.store, world);
            const { found, following } = await followConfig(other, own, world.part, load.signal);
            const owner = await one.app(world.owner);
            let changes = 0;
            const change = () =>
              owner.updateRobotPart({
                id: world.part,
                name: "rover-main",
                robotConfig: { changes: ++changes },
              });
            await change();
            await until(() => found.configs > 0);

            await one.store.transaction((sql) =>
              sql.query("CREATE TABLE written (id TEXT NOT NULL PRIMARY KEY)")
            );
            const acknowledged = new Set<string>();
            for (let writer = 0; writer < WRITERS; writer++) {
              load.repeat(async () => {
                const id = crypto.randomUUID();
                await other.store.transaction((sql) => sql.query("INSERT INTO written (id) VALUES (?)", id));
                acknowledged.add(id);
              });
            }
            const claimed = claim(load, world, [one.store, other.store]);
            load.repeat(change);
            await until(() => acknowledged.size > 50 && claimed.length > 5);

            await server.restart(mode);
            const before = { written: acknowledged.size, claimed: claimed.length, configs: found.configs };
            await until(() =>
              acknowledged.size > before.written + 50 && claimed.length > before.claimed + 5 &&
              found.configs > before.configs
            );
            await load.end();
            await following;

            assert([...load.codes].every((code) => code === "unavailable"), [...load.codes].join(", "));
            const rows = await one.store.query<{ id: string }>("SELECT id FROM written");
            const ids = new Set(rows.map(({ id }) => id));
            assertEquals([...acknowledged].filter((id) => !ids.has(id)), []);
            assertEquals(new Set(claimed).size, claimed.length, "a delivery was claimed twice");
          }));
      } finally {
        await load.end();
        server.stop();
        await Deno.remove(folder, { recursive: true });
      }
    },
  );
}
