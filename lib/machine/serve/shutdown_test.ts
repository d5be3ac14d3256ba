import { assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { shutDown, type ShutdownStage } from "./shutdown.ts";

function bench(stages: (diary: string[], clock: FakeClock) => ShutdownStage[]) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const diary: string[] = [];
  const forced = new AbortController();
  const logger = new Logs(clock, [memorySink(records)]).logger("rdk");
  const outcome = shutDown(stages(diary, clock), { clock, logger, forced: forced.signal });
  const logged = () => records.splice(0).map(({ level, message }) => `${level} ${message}`);
  return { clock, diary, forced, outcome, logged };
}

const quick = (name: string) => (diary: string[]): ShutdownStage => ({
  name,
  close: () => {
    diary.push(name);
    return Promise.resolve();
  },
});

Deno.test("shutDown: closes stages in order, each after the previous has closed", async () => {
  const slow = (diary: string[], clock: FakeClock): ShutdownStage => ({
    name: "slow",
    close: async () => {
      await clock.sleep(3_000);
      diary.push("slow");
    },
  });
  const { clock, diary, outcome, logged } = bench((diary, clock) => [
    quick("first")(diary),
    slow(diary, clock),
    quick("last")(diary),
  ]);
  await clock.advance(2_999);
  assertEquals(diary, ["first"]);
  await clock.advance(1);
  assertEquals(await outcome, true);
  assertEquals([diary, logged(), clock.pending], [["first", "slow", "last"], [], 0]);
});

Deno.test("shutDown: logs a failing stage and closes the others", async () => {
  const { diary, outcome, logged } = bench((diary) => [
    { name: "the port", close: () => Promise.reject(new SvcError("unknown", "broken")) },
    {
      name: "jobs",
      close: () => {
        throw new Error("a bug");
      },
    },
    quick("resources")(diary),
  ]);
  assertEquals(await outcome, false);
  assertEquals(diary, ["resources"]);
  assertEquals(logged(), ["error cannot close the port: broken", "error cannot close jobs: a bug"]);
});

Deno.test("shutDown: names unfinished parts every 10 s and gives up after 60 s", async () => {
  const left = new Set(["arm", "motor"]);
  const { clock, diary, outcome, logged } = bench((diary) => [
    { name: "resources", close: () => new Promise(() => {}), remaining: () => [...left] },
    quick("modules")(diary),
  ]);
  await clock.advance(10_000);
  assertEquals(logged(), ["warn still closing after 10 s: arm, motor, modules"]);
  left.delete("arm");
  await clock.advance(49_999);
  const lines = logged();
  assertEquals(lines.length, 4);
  assertStringIncludes(lines[3], "after 50 s: motor, modules");
  await clock.advance(1);
  assertEquals(await outcome, false);
  assertEquals(logged(), [
    "error the shutdown is forced (not closed within 60 s), still open: motor, modules",
  ]);
  assertEquals([diary, clock.pending], [[], 0]);
});

Deno.test("shutDown: returns at once when it is forced, before or while it closes", async () => {
  for (const early of [true, false]) {
    const { clock, forced, outcome, logged } = bench(() => [
      { name: "resources", close: () => new Promise(() => {}) },
    ]);
    if (!early) await clock.advance(1_000);
    forced.abort(new SvcError("canceled", "SIGINT came again"));
    assertEquals(await outcome, false);
    assertEquals(logged(), ["error the shutdown is forced (SIGINT came again), still open: resources"]);
    assertEquals(clock.pending, 0);
  }
});
