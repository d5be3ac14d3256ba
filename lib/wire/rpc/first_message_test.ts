/** A call whose first message does not come ends. */

import { assertEquals } from "@std/assert";
import { AudioOutService } from "../../../proto/gen/audio_out_pb.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { CODES } from "../../base/error.ts";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { Cancellation } from "./cancellation.ts";
import { Metadata } from "./metadata.ts";
import { canceledByCaller, pathOf, type RawSink, service, ServiceTable, type Status } from "./service.ts";

Deno.test("a client stream without its first message ends at a deadline, but a bidi stream may wait", async () => {
  const clock = new FakeClock();
  const table = new ServiceTable(clock);
  table.add(service(AudioOutService, { playStream: () => ({}) }));
  table.add(service(EchoService, {
    async *echoMultiple() {},
    async *echoBiDi(requests) {
      for await (const { message } of requests) yield { message };
    },
  }));
  const ended: Record<string, Status> = {};
  const cancellations: Record<string, Cancellation> = {};
  const begin = (path: string) => {
    const sink: RawSink = {
      header() {},
      message: () => undefined,
      end: (status) => void (ended[path] = status),
    };
    const requests: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({ next: () => new Promise<IteratorResult<Uint8Array>>(() => {}) }),
    };
    const call = {
      path,
      header: new Metadata(),
      peer: { kind: "grpc" as const },
      cancellation: cancellations[path] = new Cancellation(),
      requests,
    };
    return table.handle(call, sink);
  };
  const upload = pathOf(AudioOutService.method.playStream), many = pathOf(EchoService.method.echoMultiple);
  const both = pathOf(EchoService.method.echoBiDi);
  const calls = [upload, many, both].map(begin);
  await settle();
  await clock.advance(119_000);
  assertEquals(ended, {});
  await clock.advance(1_000);
  await Promise.all(calls.slice(0, 2));
  assertEquals([ended[upload].code, ended[many].code], [CODES.deadline_exceeded, CODES.deadline_exceeded]);
  assertEquals(ended[both], undefined);
  cancellations[both].cancel(canceledByCaller(both));
  await calls[2];
  assertEquals(clock.pending, 0);
});
