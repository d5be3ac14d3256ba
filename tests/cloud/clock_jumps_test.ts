/** A control plane whose clock was wrong for a while: what it wrote meanwhile does no harm once the clock is right. */

import { assert, assertEquals } from "@std/assert";
import { X509Certificate } from "node:crypto";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { Presence } from "../../lib/cloud/tenants/presence.ts";
import { keepTriggers } from "../../lib/cloud/triggers/outbox.ts";
import { TriggerWatch } from "../../lib/cloud/notifications/watch.ts";
import { Authority, newAuthority } from "../../lib/cloud/store/secrets/authority.ts";
import { Secrets } from "../../lib/cloud/store/secrets/secrets.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { storeTest } from "./stores.ts";
import { newWorld } from "./world.ts";

const DAY_MS = 24 * 3600 * 1000;

storeTest(
  "a machine seen by a clock that was ahead is offline once it is gone, and seen again",
  async (database) => {
    const store = await database.open();
    const clock = new FakeClock();
    const { part } = await newWorld(store);
    const logger = silentLogs(clock).logger("cloud");
    const presence = new Presence(store, clock, logger);
    const stored = async () => (await new Parts(store).get(part)).seenMs;
    const both = async () => {
      const seenMs = await stored();
      return [presence, new Presence(store, clock, logger)].map((one) => one.state(one.seenMs(part, seenMs)));
    };
    const triggers = [{ name: "on", event: { type: "part_online" }, notifications: [] }];
    await store.transaction((sql) => keepTriggers(sql, part, triggers, true));
    const watch = new TriggerWatch(store, clock);
    const watched = async () => {
      // Past the time that it gives the machines after its start.
      for (let at = 0; at < 30; at++) {
        await clock.advance(10_000);
        await watch.lookAtParts();
      }
      const [row] = await store.query<{ online: number }>("SELECT is_online AS online FROM part_triggers");
      return row.online;
    };

    clock.setOn(60 * DAY_MS);
    presence.saw(part);
    await presence.save();
    assertEquals(await both(), ["online", "online"]);
    clock.setOn(-60 * DAY_MS);
    assertEquals(await both(), ["offline", "offline"]);
    assertEquals(await watched(), 0);

    // Its next poll counts, for this control plane and for others.
    presence.saw(part);
    await presence.save();
    assertEquals([await both(), await stored()], [["online", "online"], clock.nowMs()]);
    await clock.advance(60_000);
    assertEquals(await both(), ["offline", "offline"]);
    await presence.close();
  },
);

storeTest("a certificate of a clock that was ahead is replaced once the clock is right", async (database) => {
  const store = await database.open();
  const clock = new FakeClock();
  const { part } = await newWorld(store);
  const host = new DenoHost();
  const logger = silentLogs(clock).logger("keys");
  const secrets = await Secrets.open({ store, host, folder: `${database.folder}/keys`, clock, logger });
  const authority = new Authority(secrets, store, clock);
  const first = await authority.ofPart(part, ["rover"]);
  clock.setOn(400 * DAY_MS);
  const ahead = await authority.ofPart(part, ["rover"]);
  assert(ahead.certificate !== first.certificate);
  clock.setOn(-400 * DAY_MS);
  const { certificate } = await authority.ofPart(part, ["rover"]);
  assert(Date.parse(new X509Certificate(certificate).validFrom) < clock.nowMs());
  assertEquals((await authority.ofPart(part, ["rover"])).certificate, certificate);
});

Deno.test("an authority that was made by a wrong clock is valid at the right time, for years", async () => {
  for (const made of ["1970-01-01", "2019-06-01", "2069-12-31"]) {
    const { certificate } = await newAuthority(Date.parse(made));
    const { validFrom, validTo } = new X509Certificate(certificate);
    assert(Date.parse(validFrom) < Date.UTC(2026, 0, 1), made);
    assert(Date.parse(validTo) > Date.UTC(2035, 0, 1), made);
  }
});
