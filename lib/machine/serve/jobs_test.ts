import { assertEquals, assertMatch } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { parseSchedule } from "../config/schedule.ts";
import { type Bench, bench, component } from "../../../tests/support/machine_bench.ts";

const MOTORS = { components: [component("motor", "m"), component("motor", "n")] };

/** A bench with motors `m` and `n` and these jobs. */
async function benchWith(...jobs: JsonObject[]): Promise<Bench> {
  const scene = bench();
  await scene.apply({ ...MOTORS, jobs });
  return scene;
}

function job(name: string, schedule: string, more: JsonObject = {}): JsonObject {
  return { name, schedule, resource: "m", method: "Stop", ...more };
}

/** Seconds since the start of every job's runs that went well and that did not. */
function runs({ jobs }: Bench) {
  const startMs = new FakeClock().nowMs();
  const seconds = (times: readonly number[]) => times.map((ms) => (ms - startMs) / 1000);
  return jobs.statuses().map(({ name, succeededMs, failedMs }) => [
    name,
    seconds(succeededMs),
    seconds(failedMs),
  ]);
}

Deno.test("Jobs: a job with a duration runs at its multiples, and MachineStatus lists its runs", async () => {
  const scene = await benchWith(job("stopper", "5s"));
  await scene.clock.advance(16_000);
  assertEquals(scene.diary, ["stop m", "stop m", "stop m"]);
  assertEquals(runs(scene), [["stopper", [5, 10, 15], []]]);
  const { jobStatuses } = await scene.robot.getMachineStatus({});
  assertEquals(jobStatuses.map(({ jobName }) => jobName), ["stopper"]);
  assertEquals(jobStatuses[0].recentSuccessfulRuns.map(({ seconds }) => Number(seconds) % 100), [5, 10, 15]);
  await scene.close();
});

Deno.test("Jobs: a job with a cron schedule runs by the calendar", async () => {
  // The fake clock starts at 22:13:20 UTC; every zone's seconds and most zones' quarters are the same.
  const scene = await benchWith(job("minutely", "* * * * *"), job("tens", "*/10 * * * * *"));
  await scene.clock.advance(101_000);
  assertEquals(runs(scene), [
    ["minutely", [40, 100], []],
    ["tens", [10, 20, 30, 40, 50, 60, 70, 80, 90, 100], []],
  ]);
  await scene.close();
});

Deno.test("Jobs: a clock that is set back a little repeats no run of a cron schedule", async () => {
  const scene = await benchWith(job("minutely", "* * * * *"), job("tens", "*/10 * * * * *"));
  await scene.clock.advance(40_000);
  // As after a leap second, and a correction by NTP.
  scene.clock.setOn(-500);
  await scene.clock.advance(5_000);
  scene.clock.setOn(-3_000);
  await scene.clock.advance(20_000);
  const [[, minutely], [, tens]] = runs(scene);
  assertEquals([minutely, tens], [[40], [10, 20, 30, 40, 50, 60]]);
  await scene.close();
});

Deno.test("Jobs: a clock that is set far forward starts no run of a cron schedule, and a correction does", async () => {
  const HOUR_MS = 3_600_000;
  const ofYears = await benchWith(job("minutely", "* * * * *"));
  // The clock had stood at some time, and gets the right one.
  ofYears.clock.setOn(20 * 365 * 24 * HOUR_MS + 5_000);
  await ofYears.clock.advance(30_000);
  assertEquals(ofYears.diary, []);
  ofYears.clock.setOn(4 * HOUR_MS);
  await ofYears.clock.advance(31_000);
  assertEquals(ofYears.diary, [], "the minute that was due is hours ago");
  // From then on the new time counts.
  await ofYears.clock.advance(60_000);
  assertEquals(ofYears.diary, ["stop m"]);
  await ofYears.close();

  const corrected = await benchWith(job("minutely", "* * * * *"));
  corrected.clock.setOn(2 * HOUR_MS);
  await corrected.clock.advance(41_000);
  assertEquals(corrected.diary, ["stop m"], "a run that a correction passes over is made up for");
  await corrected.close();
});

Deno.test("Jobs: runs under a clock that was years ahead are forgotten when it is right", async () => {
  const YEARS_MS = 10 * 365 * 86_400_000;
  const scene = await benchWith(job("tens", "*/10 * * * * *"), job("often", "5s"));
  scene.clock.setOn(YEARS_MS);
  await scene.clock.advance(61_000);
  scene.faults.add("m");
  await scene.clock.advance(10_000);
  scene.faults.delete("m");
  scene.clock.setOn(-YEARS_MS);
  await scene.clock.advance(20_000);
  assertEquals(runs(scene), [["tens", [90], []], ["often", [75, 80, 85, 90], []]]);
  await scene.close();
});

Deno.test("Jobs: keep the last ten runs of each outcome", async () => {
  const scene = await benchWith(job("often", "1s"));
  await scene.clock.advance(12_500);
  scene.faults.add("m");
  await scene.clock.advance(11_500);
  assertEquals(runs(scene), [[
    "often",
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    [15, 16, 17, 18, 19, 20, 21, 22, 23, 24],
  ]]);
  await scene.close();
});

Deno.test("Jobs: a continuous job runs again at once, and once a second while it fails", async () => {
  const scene = await benchWith(job("again", "continuous"));
  await scene.clock.advance(52);
  const before = scene.diary.length;
  scene.faults.add("m");
  await scene.clock.advance(3_000);
  assertEquals(scene.diary.length, before);
  assertEquals([before, scene.jobs.statuses()[0].failedMs.length], [11, 3]);
  await scene.close();
});

Deno.test("Jobs: DoCommand receives the job's command, other methods only the name", async () => {
  const scene = bench();
  const command = { steps: [1, { deep: true }] };
  await scene.apply({
    components: [component("generic", "g")],
    jobs: [job("ask", "5s", { resource: "g", method: "DoCommand", command })],
  });
  await scene.clock.advance(5_000);
  assertEquals(scene.diary, [`do g ${JSON.stringify(command)}`]);
  assertEquals(runs(scene), [["ask", [5], []]]);
  await scene.close();
});

Deno.test("Jobs: each failure is logged by the job's own logger, with a suggestion", async () => {
  const scene = await benchWith(
    job("typo", "5s", { method: "Stopp" }),
    job("nobody", "5s", { resource: "x" }),
    job("kind", "5s", { resource: "rdk:component:motor/m", method: "GoFur" }),
  );
  await scene.clock.advance(10_000);
  const logged = scene.records.filter(({ message }) => message === "Job failed");
  assertEquals(logged.map(({ logger, level, fields }) => [logger, level, fields.error]).slice(3), [
    ["rdk.job_manager.typo", "warn", '"m" has no method Stopp; did you mean Stop?'],
    ["rdk.job_manager.nobody", "warn", 'there is no resource "x"'],
    ["rdk.job_manager.kind", "warn", '"rdk:component:motor/m" has no method GoFur; did you mean GoFor?'],
  ]);
  await scene.close();
});

Deno.test("Jobs: an ambiguous resource name is resolved by its method or its full name", async () => {
  const scene = bench();
  await scene.apply({
    components: [component("motor", "m"), component("generic", "m")],
    jobs: [
      job("clear", "1s"),
      job("unclear", "1s", { method: "GetGeometries" }),
      job("full", "1s", { method: "GetGeometries", resource: "rdk:component:generic/m" }),
    ],
  });
  await scene.clock.advance(1_000);
  assertEquals(runs(scene), [["clear", [1], []], ["unclear", [], [1]], ["full", [1], []]]);
  const [failed] = scene.records.filter(({ message }) => message === "Job failed");
  assertMatch(
    failed.fields.error as string,
    /ambiguous, wanted rdk:component:motor\/m or rdk:component:generic\/m/,
  );
  await scene.close();
});

Deno.test("Jobs: a job never overlaps itself, and a missed run follows at once", async () => {
  const scene = await benchWith(job("slow", "5s", { method: "GoFor" }));
  await scene.clock.advance(12_000);
  assertEquals(scene.diary, ["go m"]);
  const [operation] = (await scene.robot.getOperations({})).operations;
  await scene.robot.cancelOperation({ id: operation.id });
  await scene.clock.advance(0);
  assertEquals(scene.diary, ["go m", "aborted m", "go m"]);
  assertEquals(runs(scene), [["slow", [], [12]]]);
  await scene.close();
});

Deno.test("Jobs: a new configuration starts, replaces and stops jobs, and keeps unchanged ones", async () => {
  const scene = await benchWith(job("kept", "4s"), job("changed", "3s"), job("gone", "2s"));
  await scene.clock.advance(3_500);
  await scene.apply({
    ...MOTORS,
    jobs: [
      job("kept", "4s"),
      job("changed", "10s", { resource: "n" }),
      job("new", "1s", { resource: "n" }),
    ],
  });
  scene.diary.length = 0;
  await scene.clock.advance(1_000);
  assertEquals(scene.diary, ["stop m", "stop n"]);
  assertEquals(runs(scene), [["kept", [4], []], ["changed", [3], []], ["new", [4.5], []]]);
  await scene.clock.advance(9_000);
  assertEquals(runs(scene)[1], ["changed", [3, 13.5], []]);
  await scene.close();
});

Deno.test("Jobs: a job goes on where only the order of its command's members has changed", async () => {
  const scene = bench();
  const asked = (command: JsonObject) => ({
    components: [component("generic", "g")],
    jobs: [job("kept", "4s", { resource: "g", method: "DoCommand", command })],
  });
  await scene.apply(asked({ a: 1, b: 2 }));
  await scene.clock.advance(3_500);
  await scene.apply(asked({ b: 2, a: 1 }));
  await scene.clock.advance(1_000);
  assertEquals(runs(scene), [["kept", [4], []]]);
  await scene.close();
});

Deno.test("Jobs: a replaced job waits for the current run of its predecessor", async () => {
  const scene = await benchWith(job("mover", "1s", { method: "GoFor" }));
  await scene.clock.advance(1_000);
  await scene.apply({ ...MOTORS, jobs: [job("mover", "2s")] });
  await scene.clock.advance(10_000);
  assertEquals(scene.diary, ["go m"]);
  const [operation] = (await scene.robot.getOperations({})).operations;
  await scene.robot.cancelOperation({ id: operation.id });
  await scene.clock.advance(2_000);
  assertEquals(scene.diary, ["go m", "aborted m", "stop m"]);
  await scene.close();
});

Deno.test("Jobs.close: cancels running calls and starts no others", async () => {
  const scene = await benchWith(job("mover", "1s", { method: "GoFor" }), job("often", "continuous"));
  await scene.clock.advance(1_000);
  await scene.jobs.close();
  const { length } = scene.diary;
  await scene.clock.advance(10_000);
  assertEquals(scene.diary.slice(length).filter((line) => line !== "aborted m"), []);
  assertEquals(scene.jobs.statuses()[0].failedMs, []);
  await scene.close();
});

Deno.test("Jobs: log_configuration of a job sets the level of its own logger", async () => {
  const scene = bench();
  await scene.apply({ ...MOTORS, jobs: [job("chatty", "1s", { log_configuration: { level: "debug" } })] });
  const { config } = scene.machine;
  assertEquals(config!.log, [{ pattern: "rdk.job_manager.chatty", level: "debug" }]);
  await scene.close();
});

Deno.test("parseSchedule: accepts durations, continuous and cron, and rejects other texts", () => {
  const kinds = (...texts: string[]) => texts.map((text) => parseSchedule(text)?.kind);
  assertEquals(kinds("5m", "1h30m", "250ms"), ["every", "every", "every"]);
  assertEquals(kinds("continuous", "Continuous"), ["continuous", "continuous"]);
  assertEquals(
    kinds("0 9 * * 1-5", "*/5 * * * *", "0 0 12 * * *", "0 0 L * *", "@daily"),
    Array(5).fill("cron"),
  );
  assertEquals(
    kinds("", "0s", "-5m", "5", "sometimes", "61 * * * *", "* * * *", "0 0 30 2 *"),
    Array(8).fill(undefined),
  );
});

Deno.test("Jobs: a cron schedule without future times ends the job with an error in the log", async () => {
  const scene = await benchWith(job("past", "0 0 0 1 1 * 2020"));
  await scene.clock.advance(1_000);
  const logged = scene.records.filter(({ level }) => level === "error").map(({ message }) => message);
  assertEquals(logged, ["the job ended: its schedule has no further time"]);
  await scene.close();
});
