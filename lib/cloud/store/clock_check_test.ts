import { assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { sqliteTest } from "../../../tests/cloud/stores.ts";
import { Logs } from "../../base/log/log.ts";
import { ClockCheck, noteRightTime } from "./clock_check.ts";

const [MINUTE_MS, HOUR_MS] = [60_000, 3_600_000];

sqliteTest("a clock that stays wrong is told of once, and so is the right one", async (database) => {
  const store = await database.open();
  const clock = new FakeClock();
  const logged: string[] = [];
  const logger = new Logs(clock, [({ message }) => void logged.push(message)]).logger("cloud");
  const check = new ClockCheck({ store, clock, logger });
  const firstMs = clock.nowMs();
  assertEquals([await check.rightMs(), logged], [firstMs, []]);

  for (const aheadMs of [11 * MINUTE_MS, 30 * HOUR_MS]) {
    clock.setOn(aheadMs);
    // The text has another minute every time.
    for (let count = 0; count < 5; count++) {
      assertEquals(await check.rightMs(), undefined);
      await clock.advance(3 * MINUTE_MS);
    }
    clock.setOn(-aheadMs);
    for (let count = 0; count < 2; count++) {
      assertEquals(await check.rightMs(), clock.nowMs());
      await clock.advance(MINUTE_MS);
    }
    assertEquals(logged.length, 2, logged.join("\n"));
    assertStringIncludes(logged.splice(0).join("\n"), "the clock is right");
  }

  // Another program finds the last time too far back, until an operator says that the clock is right.
  clock.setOn(15 * 24 * HOUR_MS);
  const next = new ClockCheck({ store, clock, logger });
  for (let count = 0; count < 3; count++) {
    assertEquals(await next.rightMs(), undefined);
    await clock.advance(HOUR_MS);
  }
  assertEquals(logged.length, 1, logged.join("\n"));
  await store.transaction((sql) => noteRightTime(sql, clock.nowMs()));
  assertEquals(await next.rightMs(), clock.nowMs());
  assertEquals(logged.length, 2);
});
