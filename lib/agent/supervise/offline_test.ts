import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { OfflineReboots, type OfflineRebootsParts, rebootDue, rebootOf } from "./offline.ts";

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

/** An offline device that looks at itself every ten seconds, and reboots after ten minutes. */
function bench(change: Partial<OfflineRebootsParts> = {}) {
  const clock = new FakeClock(), logged: LogRecord[] = [], rebooted: string[] = [];
  const logger = new Logs(clock, [memorySink(logged)]).logger("svc-agent");
  let stored = 0, looks = 0;
  const parts: OfflineRebootsParts = {
    evidence: () => (looks++, Promise.resolve(undefined)),
    reboot: (reason) => Promise.resolve(void rebooted.push(reason)),
    reboots: {
      get: () => Promise.resolve(stored),
      set: async (count) => {
        for (let turn = 0; turn < 10; turn++) await Promise.resolve();
        stored = count;
      },
    },
    clock,
    logger,
    ...change,
  };
  const offline = new OfflineReboots(parts), { signal } = new AbortController();
  const passFor = async (minutes: number) => {
    for (let pass = 0; pass < 6 * minutes; pass++) {
      await clock.advance(10_000);
      await offline.pass(10 * MINUTE_MS, signal);
    }
    await offline.close();
  };
  const lines = () => logged.splice(0).filter(({ level }) => level !== "debug").map(({ message }) => message);
  return { offline, clock, rebooted, passFor, lines, stored: () => stored, looks: () => looks };
}

Deno.test("OfflineReboots: an offline device is rebooted after ten minutes, and counts it until it is online", async () => {
  const { offline, rebooted, passFor, stored, looks } = bench();
  await passFor(9);
  assertEquals([rebooted, stored()], [[], 0]);
  // The network is looked at every half a minute, not with each pass.
  assertEquals(looks(), 18);
  await passFor(1);
  assertEquals([rebooted.splice(0), stored()], [["offline for 10 minutes"], 1]);
  await passFor(9);
  assertEquals(rebooted, [], "the next one waits twice as long");
  await offline.online();
  assertEquals(stored(), 0);
  await passFor(10);
  assertEquals(rebooted.length, 1);
});

Deno.test("OfflineReboots: a network that works, and a development agent, reboot nothing", async () => {
  const works = bench({ evidence: () => Promise.resolve("example.org") });
  await works.passFor(30);
  assertEquals([works.rebooted, works.lines()], [[], []]);
  const developing = bench({ reboot: undefined });
  await developing.passFor(9);
  assertEquals(developing.lines(), []);
  await developing.passFor(9);
  assertEquals(developing.lines(), ["device_reboot_after_offline_minutes reboots nothing in dev mode"]);
});

Deno.test("OfflineReboots: a device that cannot count its reboots is not rebooted", async () => {
  const full = () => Promise.reject(new SvcError("resource_exhausted", "the disk is full"));
  const { offline, rebooted, passFor, lines } = bench({
    reboots: { get: () => Promise.resolve(0), set: full },
  });
  await passFor(20);
  const logged = "cannot count the reboots of an offline device, so it is not rebooted: the disk is full";
  assertEquals([rebooted, lines()], [[], [logged]]);
  await offline.online();
  assertEquals(lines(), [logged], "being online begins anew");
});
