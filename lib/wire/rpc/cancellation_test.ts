/** Calls that end before their time: who hears of it, and what no longer does. */

import { assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { Cancellation } from "./cancellation.ts";

const GONE = new SvcError("canceled", "the caller has gone"),
  LATE = new SvcError("deadline_exceeded", "late");

function never(): Promise<never> {
  return new Promise(() => {});
}

Deno.test("Cancellation: cancel rejects all waits and aborts the signal with its first reason", async () => {
  const cancellation = new Cancellation();
  const waits = [1, 2, 3].map(() => assertRejects(() => cancellation.race(never()), SvcError, "has gone"));
  const { signal } = cancellation;
  assertEquals(signal.aborted, false);
  cancellation.cancel(GONE);
  cancellation.cancel(LATE);
  await Promise.all(waits);
  assertStrictEquals(signal.reason, GONE);
  assertStrictEquals(cancellation.reason, GONE);
  assertThrows(() => cancellation.throwIfCanceled(), SvcError, "has gone");
});

Deno.test("Cancellation: race after cancel rejects at once", async () => {
  const cancellation = new Cancellation();
  cancellation.cancel(GONE);
  assertStrictEquals(cancellation.signal.reason, GONE);
  await assertRejects(() => cancellation.race(never()), SvcError, "has gone");
  // What fails later fails unheard.
  await assertRejects(() => cancellation.race(Promise.reject(LATE)), SvcError, "has gone");
});

Deno.test("Cancellation: a finished race is not affected by a later cancel", async () => {
  const cancellation = new Cancellation();
  assertEquals(await cancellation.race(Promise.resolve(1)), 1);
  await assertRejects(() => cancellation.race(Promise.reject(LATE)), SvcError, "late");
  const both = [cancellation.race(Promise.resolve(2)), cancellation.race(Promise.resolve(3))];
  assertEquals(await Promise.all(both), [2, 3]);
  cancellation.cancel(GONE);
});

Deno.test("Cancellation: cancel after settle has no effect", () => {
  const cancellation = new Cancellation();
  const { signal } = cancellation;
  cancellation.settle();
  cancellation.cancel(GONE);
  assertEquals([signal.aborted, cancellation.reason], [false, undefined]);
});
