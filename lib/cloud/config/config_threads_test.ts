import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { defaultLimits } from "../access/limits.ts";
import { type ConfigThread, ConfigThreads } from "./config_threads.ts";

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
