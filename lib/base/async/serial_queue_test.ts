import { assertEquals, assertRejects } from "@std/assert";
import { settle } from "../clock.ts";
import { SerialQueue, SerialQueues } from "./serial_queue.ts";

Deno.test("SerialQueue runs one piece of work after another", async () => {
  const queue = new SerialQueue();
  const events: string[] = [];
  const first = Promise.withResolvers<void>();
  const done = [
    queue.run(async () => {
      events.push("first begins");
      await first.promise;
      events.push("first ends");
    }),
    queue.run(() => events.push("second")),
  ];
  await Promise.resolve();
  first.resolve();
  await Promise.all(done);
  assertEquals(events, ["first begins", "first ends", "second"]);
});

Deno.test("SerialQueue gives a failure to its caller alone, thrown or rejected", async () => {
  const queue = new SerialQueue();
  const failing = [
    queue.run(() => {
      throw new Error("thrown");
    }),
    queue.run(() => Promise.reject(new Error("rejected"))),
  ];
  const value = queue.run(() => 7);
  await assertRejects(() => failing[0], Error, "thrown");
  await assertRejects(() => failing[1], Error, "rejected");
  assertEquals(await value, 7);
  await queue.idle();
});

Deno.test("SerialQueue is idle when what was given before has ended", async () => {
  const queue = new SerialQueue();
  let ended = false;
  const work = queue.run(async () => {
    await Promise.resolve();
    ended = true;
  });
  await queue.idle();
  assertEquals(ended, true);
  await work;
});

Deno.test("SerialQueues: work for one key waits for no other key, and a failure holds nothing back", async () => {
  const queues = new SerialQueues();
  const events: string[] = [];
  const first = Promise.withResolvers<void>();
  const failing = queues.run("a", async () => {
    await first.promise;
    events.push("a fails");
    throw new Error("no");
  });
  const later = queues.run("a", () => events.push("a again"));
  await queues.run("b", () => events.push("b"));
  await settle();
  assertEquals(queues.size, 1, "a key without work takes no memory");
  first.resolve();
  await assertRejects(() => failing, Error, "no");
  await later;
  assertEquals(events, ["b", "a fails", "a again"]);
  await settle();
  assertEquals(queues.size, 0);
});
