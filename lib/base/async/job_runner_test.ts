import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { moving, until } from "../../../tests/support/until.ts";
import { settle } from "../clock.ts";
import { SvcError } from "../error.ts";
import { type LogRecord, Logs } from "../log/log.ts";
import { JOB_LEASE_MS, JobRunner } from "./job_runner.ts";
import { PeriodicWork, type WorkStep } from "./periodic_work.ts";

function createBench() {
  const clock = new FakeClock();
  const logged: string[] = [];
  const logger = new Logs(clock, [({ message }: LogRecord) => void logged.push(message)]).logger("work");
  return { clock, logged, parts: { clock, logger, everyMs: 1_000, problem: "cannot look" } };
}

Deno.test("PeriodicWork: looks at intervals and when woken, one look at a time, until it is closed", async () => {
  const { clock, logged, parts } = createBench();
  let [looks, atOnce] = [0, 0];
  let gate = Promise.resolve();
  const look: WorkStep = async () => {
    assertEquals(++atOnce, 1);
    looks++;
    await gate;
    atOnce--;
  };
  const failing: WorkStep = () => Promise.reject(new SvcError("unavailable", `look ${looks}`));
  const work = new PeriodicWork(parts, [failing, look]);
  assertEquals(looks, 0, "the first look waits for the constructor of the owner");
  await settle();
  assertEquals([looks, logged], [1, ["cannot look: look 0"]]);
  await clock.advance(999);
  assertEquals(looks, 1);
  await clock.advance(1);
  assertEquals(looks, 2);

  const slow = Promise.withResolvers<void>();
  gate = slow.promise;
  work.wake();
  await settle();
  work.wake();
  const closed = work.close();
  await settle();
  assertEquals([looks, work.signal.aborted], [3, true]);
  slow.resolve();
  await closed;
  await work.close();
  await clock.advance(10_000);
  assertEquals(looks, 3);
});

Deno.test("PeriodicWork: a failure while it is closed is not logged, and no further step begins", async () => {
  const { logged, parts } = createBench();
  let hasBegun = false;
  const work = new PeriodicWork(parts, [
    (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    () => Promise.resolve(hasBegun = true),
  ]);
  await settle();
  await work.close(new Error("the end"));
  assertEquals([logged, hasBegun], [[], false]);
});

/** The leases of a shared place, by job. */
class Shared {
  readonly owners = new Map<string, { runner: string; untilMs: number }>();
  readonly waiting: string[] = [];
}

function createRunner(shared: Shared, parts: ReturnType<typeof createBench>["parts"], capacity: number) {
  const ran: string[] = [];
  const ends: unknown[] = [];
  const runner = new JobRunner<{ readonly id: string }>({
    ...parts,
    steps: {
      renew: (untilMs) => {
        for (const [id, owner] of shared.owners) {
          if (owner.runner === runner.id) owner.untilMs = untilMs;
          else runner.running.get(id)?.cancel(new SvcError("aborted", "another's"));
        }
        return Promise.resolve();
      },
      recover: () => {
        for (const [id, { untilMs }] of shared.owners) {
          if (untilMs > parts.clock.nowMs()) continue;
          shared.owners.delete(id);
          shared.waiting.push(id);
        }
        return Promise.resolve();
      },
      startNext: () => {
        const id = runner.running.size < capacity ? shared.waiting.shift() : undefined;
        if (id === undefined) return Promise.resolve(false);
        shared.owners.set(id, { runner: runner.id, untilMs: parts.clock.nowMs() + JOB_LEASE_MS });
        runner.start(id, { id }, (signal) => {
          ran.push(id);
          const { promise, resolve } = Promise.withResolvers<void>();
          signal.addEventListener("abort", () => {
            ends.push(SvcError.from(signal.reason).message);
            resolve();
          });
          return promise;
        });
        return Promise.resolve(true);
      },
    },
  });
  return { runner, ran, ends };
}

Deno.test("JobRunner: a runner that lives keeps its jobs; those of one that falls silent are another's", async () => {
  const { clock, parts } = createBench();
  const shared = new Shared();
  shared.waiting.push("a", "b", "c");
  const first = createRunner(shared, parts, 2);
  await settle();
  const second = createRunner(shared, parts, 2);
  await settle();
  assertEquals([first.ran, second.ran], [["a", "b"], ["c"]]);
  for (let passed = 0; passed < 4 * JOB_LEASE_MS; passed += 1_000) await clock.advance(1_000);
  assertEquals([first.ran, second.ran], [["a", "b"], ["c"]]);

  // As if it had been killed, or cut off from the others.
  const gone = [...shared.owners].find(([id]) => id === "a")!;
  gone[1].runner = "a program that was killed";
  await until(() => first.ends.length > 0, { meanwhile: moving(clock, 1_000) });
  assertEquals(first.ends, ["another's"]);
  const again = () => [...first.ran, ...second.ran].filter((id) => id === "a").length === 2;
  await until(again, { meanwhile: moving(clock, 1_000) });

  await first.runner.close(new Error("the end"));
  await second.runner.close(new Error("the end"));
  assertEquals([...first.ends, ...second.ends], ["another's", "the end", "the end", "the end"]);
  assertEquals([first.runner.running.size, second.runner.running.size], [0, 0]);
});

Deno.test("JobRunner: the end of a job makes room for the next one at once", async () => {
  const { parts } = createBench();
  const shared = new Shared();
  shared.waiting.push("a", "b");
  const { runner, ran } = createRunner(shared, parts, 1);
  await settle();
  assertEquals(ran, ["a"]);
  runner.running.get("a")?.cancel(new Error("done"));
  await settle();
  await until(() => ran.length === 2);
  await runner.close(new Error("the end"));
});
