/** The call on an organization's usage: its limits, its retention and that of collectors, by role and tenant. */

import { assertEquals, assertRejects } from "@std/assert";
import { UsageService } from "../../proto/gen/usage_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { keepCollectors, setRetention } from "../../lib/cloud/retention/policies.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

storeTest("the usage of an organization has each limit, and how long data is kept", (database) => {
  return withCloud(database, async ({ store, channel, app }) => {
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const { organization: organizationId } = world;
    await (await app(world.owner)).createFragment({
      name: "arm",
      organizationId,
      config: { components: [] },
    });
    const collectors = Array.from({ length: 501 }, (_, at) => ({
      componentName: "camera",
      methodName: `m${at}`,
      days: 7,
    }));
    await store.transaction(async (sql) => {
      await setRetention(sql, organizationId, { days: 30, tabularBytes: 5_000_000_000 });
      await keepCollectors(sql, world.part, collectors);
    });
    const operator = client(UsageService, await channel(world.operator));
    const found = await operator.getUsage({ organizationId });
    const texts = found.limits.find(({ name }) => name === "config_bytes_per_organization")!;
    assertEquals([texts.allowed, texts.used > 0n], [1000n, true]);
    assertEquals(found.limits.every(({ name }) => name.endsWith("_per_organization")), true);
    assertEquals(found.limits.length, 8);
    const { days, binaryBytes, tabularBytes } = found.retention!;
    assertEquals([days, binaryBytes, tabularBytes], [30, 0n, 5_000_000_000n]);
    assertEquals([found.collectors.length, found.moreCollectors], [500, true]);
    const [{ machineName, partName, componentName, retention }] = found.collectors;
    assertEquals([machineName, partName, componentName, retention?.days], [
      "rover",
      "rover-main",
      "camera",
      7,
    ]);

    const stranger = client(UsageService, await channel(other.owner));
    await assertRejects(() => stranger.getUsage({ organizationId }), SvcError);
    const own = await stranger.getUsage({ organizationId: other.organization });
    assertEquals([own.collectors, own.moreCollectors, own.retention?.days], [[], false, 0]);
    assertEquals(own.limits.filter(({ used }) => used > 0n), []);
  }, { limits: { ...defaultLimits(), configBytesPerOrganization: 1000 } });
});
