/** What a control plane shows of the state of a fleet: each caller sees the machines of its own roles. */

import { assertEquals } from "@std/assert";
import { PartReportService } from "../../proto/gen/part_reports_pb.ts";
import { MachineTags } from "../../lib/cloud/tenants/machine_tags.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { keepHealth } from "../../lib/cloud/fleet/part_health.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { assertRefused } from "../support/refusals.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, ownKey, withCloud } from "./world.ts";

const BROKEN = Array.from({ length: 5 }, (_, at) => `rdk:component:motor/m${at}: it has no board`);

storeTest(
  "reports of parts show versions, tags, health and the state of the configuration",
  (database) =>
    withCloud(database, async ({ store, channel }) => {
      const { owner, machine, part } = await newWorld(store);
      const { listPartReports } = client(PartReportService, await channel(owner));
      const [quiet] = (await listPartReports({ machineIds: [machine] })).reports;
      assertEquals([quiet.partId, quiet.hasReported, quiet.configState], [part, false, "unknown"]);
      assertEquals([quiet.serverVersion, quiet.wantedServer, quiet.wantedAgent], ["", "stable", "stable"]);

      await store.transaction(async (sql) => {
        await new MachineTags(sql).add(machine, ["canary", "arm"]);
        await keepHealth(sql, part, { revision: "0", unhealthy: BROKEN, heldBack: false }, 1);
        await sql.query("UPDATE parts SET info = ? WHERE id = ?", JSON.stringify({ version: "1.2.3" }), part);
      });
      const [near] = (await listPartReports({ machineIds: [machine, machine] })).reports;
      assertEquals(near.unhealthy, BROKEN);
      assertEquals([near.hasReported, near.unhealthyCount, near.configState], [true, 5, "applied"]);
      assertEquals([near.serverVersion, near.machineTags], ["1.2.3", ["arm", "canary"]]);

      // A list of all machines has the beginning of it, and no configuration is worked out for it.
      const [far] = (await listPartReports({})).reports;
      assertEquals([far.partId, far.unhealthy, far.unhealthyCount], [part, BROKEN.slice(0, 3), 5]);
      assertEquals([far.configState, far.wantedServer], ["", ""]);

      await store.transaction((sql) =>
        sql.query(
          "UPDATE parts SET config = ?, revision = 7 WHERE id = ?",
          '{"agent":{"version_control":{"viam-server":"1.5.0"}}}',
          part,
        )
      );
      const [behind] = (await listPartReports({ machineIds: [machine] })).reports;
      assertEquals([behind.configState, behind.wantedServer], ["behind", "1.5.0"]);
    }),
);

storeTest(
  "reports of parts show nothing of another's machines, and a key of one machine only that one",
  (database) =>
    withCloud(database, async ({ store, channel }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const location = mine.location;
      const second = await store.transaction((sql) => new Machines(sql).create(location, "second", 0));
      const asked = async (key: typeof mine.owner, machineIds: string[] = []) => {
        const { reports } = await client(PartReportService, await channel(key)).listPartReports({
          machineIds,
        });
        return reports.map(({ machineId }) => machineId).sort();
      };
      assertEquals(await asked(mine.owner), [mine.machine, second.id].sort());
      assertEquals(await asked(mine.operator), [mine.machine, second.id].sort());
      assertEquals(await asked(other.owner), [other.machine]);
      assertEquals(await asked(await newKey(store, "viewer", "machine", mine.machine)), [mine.machine]);
      assertEquals(await asked(await ownKey(store, mine)), [mine.machine]);
      await assertRefused("permission_denied", "", () => asked(other.owner, [mine.machine]));
      await assertRefused("permission_denied", "", () => asked(other.owner, [other.machine, mine.machine]));
      await assertRefused("not_found", "nothing", () => asked(mine.owner, ["nothing"]));
      await assertRefused(
        "invalid_argument",
        "found 201 machine ids, wanted at most 200",
        () => asked(mine.owner, Array(201).fill(mine.machine)),
      );
    }),
);
