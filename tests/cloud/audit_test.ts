/** The audit log under somebody who tries and tries. */

import { assertEquals } from "@std/assert";
import { FakeClock } from "../support/fake_clock.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { namedEntries } from "../../lib/cloud/logs/audit_names.ts";
import { storeTest } from "./stores.ts";
import { migrate } from "../../lib/cloud/store/open_store.ts";

storeTest(
  "refused attempts of one caller do not fill the log, nor hide those of others",
  async (database) => {
    const clock = new FakeClock();
    const store = await database.open();
    await migrate(store);
    const audit = new Audit(store, clock);
    const on = [{ kind: "part", id: "p" }] as const;
    const refuse = async (who: string, times: number) => {
      for (let time = 0; time < times; time++) await audit.refused({ who, action: "DeleteRobotPart" }, on);
    };
    const entries = async (who: string) => (await audit.newest(1_000)).filter((one) => one.who === who);
    await refuse("loud", 200);
    await refuse("quiet", 1);
    assertEquals([(await entries("loud")).length, (await entries("quiet")).length], [61, 1]);
    const more = (await entries("loud")).filter(({ resource }) => resource.endsWith("are left out"));
    assertEquals(more.map(({ resource }) => resource), [
      "part p, and further attempts in this minute are left out",
    ]);
    await clock.advance(60_000);
    await refuse("loud", 1);
    assertEquals((await entries("loud")).length, 62);
    const many = Array.from(
      { length: 5_000 },
      (_, index) => ({ kind: "part", id: `part ${index}` }) as const,
    );
    await audit.refused({ who: "wordy", action: "DeleteRobotPart" }, many);
    assertEquals((await entries("wordy"))[0].resource.length, 1_001);
    // Entries are kept for as many days as the limit says.
    await clock.advance(40 * 24 * 3600_000);
    await refuse("late", 1);
    await audit.forgetOld(41);
    assertEquals((await entries("loud")).length, 62);
    await audit.forgetOld(39);
    assertEquals((await audit.newest(1_000)).map(({ who }) => who), ["late"]);
  },
);

storeTest("an audit log without entries is shown", async (database) => {
  const store = await database.open();
  assertEquals(await namedEntries(store, "o", new Map(), []), []);
});
