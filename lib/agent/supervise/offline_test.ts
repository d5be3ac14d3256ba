import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { Logs } from "../../base/log/log.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { rebootDue, rebootOf } from "./offline.ts";

const MINUTE_MS = 60_000;

Deno.test("a reboot is due after the configured time, and never without one", () => {
  const rebootAfterMs = 10 * MINUTE_MS;
  assertEquals(rebootDue({ forMs: 9 * MINUTE_MS, rebootAfterMs, reboots: 0 }), false);
  assertEquals(rebootDue({ forMs: 10 * MINUTE_MS, rebootAfterMs, reboots: 0 }), true);
  assertEquals(rebootDue({ forMs: Infinity, rebootAfterMs: 0, reboots: 0 }), false);
});

Deno.test("rebootDue: doubles the wait after each reboot, up to a day", () => {
  const wait = (reboots: number, rebootAfterMs = 10 * MINUTE_MS) => {
    let minutes = 0;
    while (!rebootDue({ forMs: minutes * MINUTE_MS, rebootAfterMs, reboots })) minutes++;
    return minutes;
  };
  assertEquals([0, 1, 2, 3, 7, 8, 1000].map((reboots) => wait(reboots)), [10, 20, 40, 80, 1280, 1440, 1440]);
  assertEquals(wait(5, 3 * 1440 * MINUTE_MS), 3 * 1440);
});

Deno.test("rebootOf: returns the reboot command of Linux or Windows, and undefined in dev mode", async () => {
  const commands = new FakeCommands();
  const logger = new Logs(new FakeClock(), []).logger("svc-agent");
  for (const os of ["linux", "windows"]) {
    await rebootOf({ os, devMode: false }, commands, logger)?.("a test");
    assertEquals(rebootOf({ os, devMode: true }, commands, logger), undefined);
  }
  assertEquals(commands.ran, ["systemctl reboot", "shutdown.exe /r /t 0 /d p:4:1"]);
});
