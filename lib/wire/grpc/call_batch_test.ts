import { assertEquals } from "@std/assert";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { CallBatchService, type CallManyResponse_Answer } from "../../../proto/gen/machine_page_pb.ts";
import { assertRefused } from "../../../tests/support/refusals.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { CODES, SvcError } from "../../base/error.ts";
import { client as clientOf } from "../rpc/channel.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { Metadata } from "../rpc/metadata.ts";
import { create, fromBinary, toBinary } from "../rpc/proto.ts";
import { type CallContext, pathOf, service, ServiceTable } from "../rpc/service.ts";
import { callBatchService } from "./call_batch.ts";

const ECHO = pathOf(EchoService.method.echo);
const { input, output } = EchoService.method.echo;

const call = (message: string, path = ECHO) => ({
  path,
  request: toBinary(input, create(input, { message })),
});

/** A table whose echo waits for `wait`, refuses `no`, and answers `long` at length. */
function batchTable() {
  const seen: CallContext[] = [];
  const waiting: (() => void)[] = [];
  const table = new ServiceTable(new FakeClock(), [(ctx) => void seen.push(ctx)]);
  table.add(service(EchoService, {
    async echo({ message }, { signal }) {
      if (message === "no") throw new SvcError("failed_precondition", "not now");
      if (message === "long") return { message: "x".repeat(20_000) };
      if (message === "wait") {
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
          signal.addEventListener("abort", () => resolve());
        });
      }
      return { message: `${message}!` };
    },
  }));
  table.add(callBatchService(table, "opid"));
  const { callMany } = clientOf(CallBatchService, memoryChannel(table));
  return { callMany, seen, waiting };
}

Deno.test("callMany: each call has its own answer, refusal or word that it must be made alone", async () => {
  const { callMany, seen } = batchTable();
  const calls = [
    call("a"),
    call("no"),
    call("long"),
    call("b", pathOf(EchoService.method.echoMultiple)),
    call("c"),
  ];
  const header = Metadata.from([["opid", "1"], ["viam-sid", "2"]]);
  const answers: CallManyResponse_Answer[] = [];
  for await (const batch of callMany({ calls }, { header })) answers.push(...batch.answers);
  answers.sort((a, b) => a.call - b.call);
  const text = (at: number) => fromBinary(output, answers[at].response).message;
  assertEquals([text(0), text(4)], ["a!", "c!"]);
  assertEquals([answers[1].code, answers[1].problem], [CODES.failed_precondition, "not now"]);
  assertEquals([answers[2].alone, answers[2].response.length], [true, 0]);
  assertEquals(answers[3].code, CODES.unimplemented);
  // Each is an operation of its own, in the caller's session.
  const inner = seen.filter(({ path }) => path === ECHO).map(({ requestHeader }) => requestHeader);
  assertEquals(inner.map((one) => [one.get("opid"), one.get("viam-sid")]), Array(4).fill([undefined, "2"]));
});

Deno.test("callMany: an answer does not wait for a slower one, and a caller that goes away cancels what remains", async () => {
  const { callMany, seen, waiting } = batchTable();
  const gone = new AbortController();
  const answers = callMany({ calls: [call("wait"), call("quick")] }, { signal: gone.signal });
  const iterator = answers[Symbol.asyncIterator]();
  const { value } = await iterator.next();
  assertEquals(value.answers.map(({ call }: { call: number }) => call), [1]);
  assertEquals(waiting.length, 1);
  const [slow] = seen.filter(({ path }) => path === ECHO);
  const canceled = new Promise((resolve) => slow.signal.addEventListener("abort", resolve));
  gone.abort(new SvcError("canceled", "gone"));
  await iterator.next().catch(() => {});
  await canceled;
});

Deno.test("callMany: too many calls, too long requests and too many of one caller are refused", async () => {
  const { callMany } = batchTable();
  const first = (calls: ReturnType<typeof call>[], signal?: AbortSignal) =>
    callMany({ calls }, { signal })[Symbol.asyncIterator]().next();
  await assertRefused("invalid_argument", "at most 64", () => first(Array(65).fill(call("a"))));
  await assertRefused("invalid_argument", "at most 4096", () => first([call("x".repeat(5000))]));
  const ends = new AbortController();
  const held = Array.from(
    { length: 8 },
    () => first(Array(64).fill(call("wait")), ends.signal).catch(() => {}),
  );
  await assertRefused("resource_exhausted", "512", () => first([call("a")]));
  ends.abort(new SvcError("canceled", "gone"));
  await Promise.all(held);
  assertEquals((await first([call("a")])).done, false);
});
