import { assert, assertEquals, assertRejects } from "@std/assert";
import { settle } from "../base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../base/error.ts";
import { Operation } from "./operation.ts";

function device() {
  const clock = new FakeClock();
  const log: string[] = [];
  const operation = new Operation(() => {
    log.push("halt");
    return Promise.resolve();
  });
  const move = (name: string, ms: number) => async (signal: AbortSignal) => {
    log.push(`${name} begins`);
    await clock.sleep(ms, signal).finally(() => log.push(`${name} ends`));
  };
  return { clock, log, operation, move };
}

Deno.test("Operation: an undisturbed movement runs to its end", async () => {
  const { clock, log, operation, move } = device();
  const done = operation.run(move("a", 100));
  await clock.advance(99);
  assert(operation.running);
  await clock.advance(1);
  assertEquals(await done, true);
  assertEquals(operation.running, false);
  assertEquals(log, ["a begins", "a ends"]);
});

Deno.test("Operation: a newer movement starts after the older has ended, without a halt", async () => {
  const { clock, log, operation, move } = device();
  const older = operation.run(move("a", 100));
  await settle();
  const newer = operation.run(move("b", 100));
  assertEquals(await older, false);
  await clock.advance(100);
  assertEquals(await newer, true);
  assertEquals(log, ["a begins", "a ends", "b begins", "b ends"]);
});

Deno.test("Operation: only the newest of several waiting movements runs", async () => {
  const { clock, log, operation, move } = device();
  const results = [
    operation.run(move("a", 100)),
    operation.run(move("b", 100)),
    operation.run(move("c", 100)),
  ];
  await clock.advance(100);
  assertEquals(await Promise.all(results), [false, false, true]);
  assertEquals(log, ["c begins", "c ends"]);
});

Deno.test("Operation.stop: interrupts the movement and halts the device", async () => {
  const { log, operation, move } = device();
  const moving = operation.run(move("a", 100));
  await settle();
  await operation.stop();
  assertEquals(await moving, false);
  assertEquals(log, ["a begins", "a ends", "halt"]);
});

Deno.test("Operation: an aborted caller halts the device, and the movement rejects with its reason", async () => {
  const { log, operation, move } = device();
  const caller = new AbortController();
  const moving = operation.run(move("a", 100), caller.signal);
  await settle();
  caller.abort(new SvcError("deadline_exceeded", "too late"));
  await assertRejects(() => moving, SvcError, "too late");
  assertEquals(log, ["a begins", "a ends", "halt"]);
});

Deno.test("Operation: a movement of an already aborted caller never starts, but the device halts", async () => {
  const { log, operation, move } = device();
  await assertRejects(
    () => operation.run(move("a", 100), AbortSignal.abort(new Error("gone"))),
    Error,
    "gone",
  );
  assertEquals(log, ["halt"]);
});

Deno.test("Operation: a failing movement halts the device, and a failing halt is reported too", async () => {
  const { log, operation } = device();
  await assertRejects(() => operation.run(() => Promise.reject(new Error("pin 3 is stuck"))), Error, "pin 3");
  assertEquals(log, ["halt"]);

  const broken = new Operation(() => Promise.reject(new Error("no power")));
  const error = await assertRejects(
    () => broken.run(() => Promise.reject(new Error("pin 3 is stuck"))),
    SvcError,
  );
  assert(error.message.includes("pin 3 is stuck") && error.message.includes("no power"), error.message);
});

Deno.test("Operation: an error of the replaced movement is not hidden", async () => {
  const { operation } = device();
  const older = operation.run(async (signal) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw new SvcError("unavailable", "lost the arm");
  });
  const failed = assertRejects(() => older, SvcError, "lost the arm");
  await settle();
  assertEquals(await operation.run(() => Promise.resolve()), true);
  await failed;
});
