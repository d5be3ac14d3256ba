import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { defaultLimits } from "../access/limits.ts";
import type { ConditionJob } from "../triggers/conditions.ts";
import { type ConfigThread, ConfigThreads } from "./config_threads.ts";

const JOB: ConditionJob = { payloads: [], conditions: [[{ operator: "gt", value: { celsius: 30 } }]] };

Deno.test("ConfigThreads: a check under way fails at once when the control plane stops", async () => {
  const clock = new FakeClock();
  const asked = Promise.withResolvers<void>();
  let ended = 0;
  const createThread = () => {
    const thread: ConfigThread = { post: () => asked.resolve(), onAnswer: () => {}, end: () => void ended++ };
    queueMicrotask(() => thread.onAnswer({ ready: true }));
    return thread;
  };
  const threads = new ConfigThreads(createThread, defaultLimits(), clock);
  const schema = threads.machineSchema();
  schema.catch(() => {});
  await asked.promise;
  threads.close();
  const { code, message } = await assertRejects(() => passing(clock, 60_000, schema), SvcError);
  assertEquals([code, message, ended], ["unavailable", "the control plane is stopping", 1]);
});

Deno.test("ConfigThreads: a job over its limit fails, and keeps its organization's turn until its thread is done", async () => {
  const clock = new FakeClock();
  const made: ConfigThread[] = [];
  let ended = 0;
  const createThread = () => {
    const thread: ConfigThread = { post: () => {}, onAnswer: () => {}, end: () => void ended++ };
    queueMicrotask(() => thread.onAnswer({ ready: true }));
    made.push(thread);
    return thread;
  };
  const threads = new ConfigThreads(createThread, defaultLimits(), clock, 10_000);
  const judge = (organization: string) => threads.judge(organization, JOB);
  const refused = async (work: Promise<unknown>) => {
    const error = await assertRejects(
      () => passing(clock, 11_000, work),
      SvcError,
      "takes more than 10000 ms",
    );
    assertEquals(error.code, "deadline_exceeded");
  };
  await refused(judge("mine"));
  const again = judge("mine");
  const others = judge("theirs");
  await settle();
  assertEquals([made.length, ended, threads.waiting], [2, 0, 1], "the other organization has a thread");
  made[1].onAnswer({ judged: [1] });
  assertEquals(await others, [1]);
  // The first thread answers what nobody waits for any more.
  made[0].onAnswer({ judged: [7] });
  await settle();
  assertEquals([ended, threads.waiting], [1, 0]);
  made[1].onAnswer({ judged: [2] });
  assertEquals(await again, [2]);

  // Two that never end leave their turns in the end.
  await Promise.all([refused(judge("mine")), refused(judge("theirs"))]);
  const late = judge("mine");
  await clock.advance(5 * 60_000);
  assertEquals([ended, made.length], [3, 4]);
  made[3].onAnswer({ judged: [3] });
  assertEquals(await late, [3]);
  threads.close();
  assertEquals([ended, clock.pending], [4, 0]);
});
