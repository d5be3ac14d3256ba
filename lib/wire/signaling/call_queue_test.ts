/**
 * Calls between callers and answerers: who hears what, until when, and their limits.
 */

import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type AnswerStage, type CallOffer, CallQueue, type CallQueueLimits } from "./call_queue.ts";

const OFFER: CallOffer = { sdp: "offer", disableTrickle: false, caller: { entity: "somebody" } };
const never = new AbortController().signal;

function queueOf(limits: Partial<CallQueueLimits> = {}) {
  const clock = new FakeClock();
  return { clock, queue: new CallQueue({ clock, limits }) };
}

function code(run: () => unknown): string {
  return assertThrows(run, SvcError).code;
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

Deno.test("CallQueue: an offer reaches the answerer of its host, before or after the offer", async () => {
  const { queue } = queueOf();
  const waiting = queue.take(["b", "a"], never);
  const first = queue.offer("a", OFFER);
  assertEquals((await waiting).id, first.id);
  const second = queue.offer("b", OFFER);
  const taken = await queue.take(["b"], never);
  assertEquals([taken.id, taken.offer.sdp, taken.offer.caller.entity], [second.id, "offer", "somebody"]);
  queue.close();
  await assertRejects(() => all(first.stages), SvcError, "stopping");
});

Deno.test("CallQueue: passes the answer and candidates to the other side, and ends when both are done", async () => {
  const { queue } = queueOf();
  const { id, stages } = queue.offer("a", OFFER);
  const call = await queue.take(["a"], never);
  assertEquals(code(() => call.candidate({ candidate: "early" })), "invalid_argument");
  call.answer("answer");
  assertEquals(code(() => call.answer("again")), "invalid_argument");
  call.candidate({ candidate: "of the machine" });
  call.done();
  assertEquals<AnswerStage[]>(await all(stages), [{ sdp: "answer" }, {
    candidate: { candidate: "of the machine" },
  }]);
  queue.update(id, "a", { candidate: { candidate: "of the caller" } });
  queue.update(id, "a", { done: true });
  assertEquals(await all(call.candidates), [{ candidate: "of the caller" }]);
  assertEquals([queue.size, code(() => queue.update(id, "a", { done: true }))], [0, "not_found"]);
});

Deno.test("CallQueue: update with another host is not_found", () => {
  const { queue } = queueOf();
  const { id } = queue.offer("a", OFFER);
  assertEquals(code(() => queue.update(id, "b", { done: true })), "not_found");
  assertEquals(code(() => queue.update(crypto.randomUUID(), "a", { done: true })), "not_found");
  queue.close();
});

Deno.test("CallQueue: an unanswered or unconnected call ends after connectMs", async () => {
  const { clock, queue } = queueOf({ connectMs: 100 });
  const unanswered = all(queue.offer("a", OFFER).stages);
  const unconnected = queue.offer("b", OFFER);
  const call = await queue.take(["b"], never);
  call.answer("answer");
  const codes = [unanswered, all(unconnected.stages), all(call.candidates)].map((one) =>
    one.then(() => "ended", (error: SvcError) => error.code)
  );
  await clock.advance(100);
  assertEquals(await Promise.all(codes), ["unavailable", "deadline_exceeded", "deadline_exceeded"]);
  assertEquals(queue.size, 0);
});

Deno.test("CallQueue: leave removes a call without an answer and keeps an answered call", async () => {
  const { queue } = queueOf();
  const answered = queue.offer("a", OFFER);
  const call = await queue.take(["a"], never);
  call.answer("answer");
  answered.leave();
  assertEquals(queue.size, 1);
  queue.offer("a", OFFER).leave();
  assertEquals(queue.size, 1);
  queue.update(answered.id, "a", { error: new SvcError("aborted", "enough") });
  await assertRejects(() => all(call.candidates), SvcError, "enough");
  assertEquals(queue.size, 0);
});

Deno.test("CallQueue: limits calls per host, calls in total, and candidates", async () => {
  const { queue } = queueOf({ calls: 3, callsOfHost: 2, candidates: 2 });
  queue.offer("a", OFFER);
  const { id } = queue.offer("a", OFFER);
  assertEquals(code(() => queue.offer("a", OFFER)), "resource_exhausted");
  queue.offer("b", OFFER);
  assertEquals(code(() => queue.offer("b", OFFER)), "resource_exhausted");
  queue.offer("c", OFFER);
  assertEquals(queue.size, 3, "the oldest call to a gave way");
  const candidate = { candidate: "c" };
  for (let count = 0; count < 2; count++) queue.update(id, "a", { candidate });
  assertEquals(code(() => queue.update(id, "a", { candidate })), "resource_exhausted");
  const call = await queue.take(["a"], never);
  call.answer("answer");
  for (let count = 0; count < 10; count++) call.candidate(candidate);
  queue.close();
});

Deno.test("CallQueue: take rejects when its signal aborts", async () => {
  const { queue } = queueOf();
  const over = new AbortController();
  const waiting = queue.take(["a"], over.signal);
  over.abort(new SvcError("canceled", "over"));
  await assertRejects(() => waiting, SvcError, "over");
  const { id } = queue.offer("a", OFFER);
  assertEquals((await queue.take(["a"], never)).id, id);
  queue.close();
});

Deno.test("CallQueue: the calls to one organization's machines leave places for another's", async () => {
  const { queue } = queueOf();
  const offerTo = (owner: string, host: string, entity: string) => {
    return queue.offer(host, { ...OFFER, owner, caller: { entity } });
  };
  for (let part = 0; part < 32; part++) {
    for (let call = 0; call < 32; call++) {
      // An organization at its share is refused, or replaces calls of its own.
      try {
        offerTo("flooding", `part ${part}`, `key ${call % 2}`);
      } catch (error) {
        assertEquals(SvcError.from(error).code, "resource_exhausted");
      }
    }
  }
  assertEquals(queue.size, 256);
  const { id } = offerTo("quiet", "machine", "key");
  assertEquals((await queue.take(["machine"], never)).id, id);
  queue.close();
});

Deno.test("CallQueue: one key's calls to a machine leave places for another key", async () => {
  const { queue } = queueOf({ callsOfHost: 4, callsOfCaller: 3 });
  const offerOf = (entity: string) => queue.offer("a", { ...OFFER, caller: { entity } });
  const first = all(offerOf("busy").stages).catch((error) => SvcError.from(error).message);
  for (let call = 0; call < 2; call++) offerOf("busy");
  assertEquals(code(() => offerOf("busy")), "resource_exhausted");
  offerOf("other");
  offerOf("other");
  assertEquals(
    await first,
    "4 pending calls of one machine exist already, the most that there may be: this one gave way to another",
  );
  queue.close();
});
