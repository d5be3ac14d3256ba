import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../error.ts";
import { Queue } from "./queue.ts";

Deno.test("Queue: returns queued and awaited values in order", async () => {
  const queue = new Queue<number>(3);
  queue.push(1);
  queue.push(2);
  assertEquals(await queue.next(), { done: false, value: 1 });
  assertEquals(await queue.next(), { done: false, value: 2 });
  const waiting = queue.next();
  queue.push(3);
  assertEquals(await waiting, { done: false, value: 3 });
});

Deno.test("Queue.push: refuses a value when full and accepts again after a read", async () => {
  const queue = new Queue<number>(2);
  assertEquals([queue.push(1), queue.push(2), queue.push(3)], [true, true, false]);
  await queue.next();
  assertEquals(queue.push(4), true);
});

Deno.test("Queue.end: wakes a waiting reader and calls the end callback once", async () => {
  let left = 0;
  const queue = new Queue<number>(2, () => left++);
  const waiting = queue.next();
  queue.end();
  queue.end();
  assertEquals(await waiting, { done: true, value: undefined });
  assertEquals(await queue.next(), { done: true, value: undefined });
  assertEquals([queue.push(1), left], [false, 1]);
});

Deno.test("Queue: a reader that breaks its loop ends the queue", async () => {
  let left = 0;
  const queue = new Queue<number>(2, () => left++);
  queue.push(1);
  for await (const value of queue) {
    assertEquals(value, 1);
    break;
  }
  assertEquals([queue.push(2), left], [false, 1]);
});

Deno.test("Queue: an aborted signal ends the queue, even if it aborted before", async () => {
  const abort = new AbortController();
  const queue = new Queue<number>(2, () => {}, abort.signal);
  const waiting = queue.next();
  abort.abort();
  assertEquals(await waiting, { done: true, value: undefined });
  assertEquals(await new Queue<number>(2, () => {}, abort.signal).next(), { done: true, value: undefined });
});

Deno.test("Queue.end: a failure reaches the reader once, whether it waits or not", async () => {
  const failure = new SvcError("resource_exhausted", "too slow");
  const waited = new Queue<number>(1);
  const waiting = waited.next();
  waited.end(failure);
  await assertRejects(() => waiting, SvcError, "too slow");
  const later = new Queue<number>(1);
  later.push(1);
  later.end(failure);
  await assertRejects(() => later.next(), SvcError, "too slow");
  assertEquals((await later.next()).done, true);
});

Deno.test("Queue.close: refuses new values and ends after the queued values are read", async () => {
  const queue = new Queue<number>(4);
  for (const value of [1, 2]) queue.push(value);
  queue.close(new Error("over"));
  assertEquals(queue.push(3), false);
  assertEquals([(await queue.next()).value, (await queue.next()).value], [1, 2]);
  await assertRejects(() => queue.next(), Error, "over");
  assertEquals((await queue.next()).done, true);
});
