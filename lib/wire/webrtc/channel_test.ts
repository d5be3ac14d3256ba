/** gRPC over a data channel: messages of every size, fairness, slow readers, and ends. */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { echoTable } from "../../../tests/support/echo.ts";
import { until } from "../../../tests/support/until.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { RequestSchema, ResponseSchema } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { nextTurn, SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { client } from "../rpc/channel.ts";
import { Metadata } from "../rpc/metadata.ts";
import { PortAllowance } from "../flow/byte_budget.ts";
import { fromBinary } from "../rpc/proto.ts";
import type { DataChannel } from "./addon.ts";
import { FrameClient } from "./client.ts";
import { requestHeaders, requestPacket, responsePacket } from "./frame.ts";
import { PACKET_BYTES, WEBRTC_LIMITS } from "./limits.ts";
import { FrameServer } from "./server.ts";

const clock = new SystemClock();

/** One direction of a channel; a reader that stops reading blocks the sender. */
class Direction implements DataChannel {
  bufferedBytes = 0;
  messageBytesMax = 65_536;
  reading = true;
  /** The frames, in the order in which they were sent. */
  readonly sent: Uint8Array[] = [];
  to: (bytes: Uint8Array) => void = () => {};
  drained: () => void = () => {};
  #held: Uint8Array[] = [];

  send(message: Uint8Array): void {
    this.sent.push(message);
    this.#held.push(message.slice());
    this.bufferedBytes += message.length;
    nextTurn(() => this.read());
  }

  read(): void {
    if (!this.reading) return;
    for (const message of this.#held.splice(0)) {
      this.bufferedBytes -= message.length;
      this.to(message);
    }
    this.drained();
  }
}

function pair(limits = {}, callsMax = WEBRTC_LIMITS.calls) {
  const { table, seen } = echoTable();
  const [toServer, toClient] = [new Direction(), new Direction()];
  const budgets = new PortAllowance(limits);
  let left: SvcError | undefined;
  const leave = (error: SvcError) => void (left = error);
  const allowance = budgets.connection(() =>
    leave(new SvcError("resource_exhausted", "it reads too little"))
  );
  const peer = { kind: "webrtc" as const };
  const server = new FrameServer({ table, channel: toClient, peer, allowance, callsMax, leave });
  const frames = new FrameClient({ peer: { data: toServer, close: (error) => frames.gone(error) }, clock });
  toServer.to = (bytes) => server.frame(bytes);
  toServer.drained = () => frames.drained();
  toClient.to = (bytes) => frames.frame(bytes);
  toClient.drained = () => server.drained();
  return { echo: client(EchoService, frames), frames, server, seen, budgets, toClient, left: () => left };
}

Deno.test("data channel: messages of every size pass both ways, with metadata and errors", async () => {
  const { echo, server, budgets } = pair();
  for (const length of [0, 1, PACKET_BYTES - 3, PACKET_BYTES, PACKET_BYTES + 1, 3_000_000]) {
    const message = "m".repeat(length);
    assertEquals((await echo.echo({ message })).message.length, length);
  }
  const headers: Metadata[] = [];
  const options = {
    header: Metadata.from([["x-a", "b"], ["x-a", "c"]]),
    onHeader: (one: Metadata) => headers.push(one),
  };
  await echo.echo({ message: "hi" }, options);
  assertEquals(headers[0].all("x-a"), ["b", "c"]);
  const error = await assertRejects(() => echo.echo({ message: "fail:data_loss:gone:1500" }), SvcError);
  assertEquals([error.code, error.message, error.retryMs], ["data_loss", "gone", 1500]);
  await until(() => server.running === 0);
  assertEquals(budgets.usedBytes, { received: 0, unread: 0 });
});

Deno.test("data channel: bidi streams work, and calls beyond the limit wait", async () => {
  const { echo } = pair();
  const letters = async function* () {
    for (const message of ["a", "b", "c"]) yield { message };
  };
  const answers: string[] = [];
  for await (const { message } of echo.echoBiDi(letters())) answers.push(message);
  assertEquals(answers, ["a", "b", "c"]);
  const all = await Promise.all(
    Array.from({ length: 1000 }, (_, index) => echo.echo({ message: `${index}` })),
  );
  assertEquals(all.map(({ message }) => message), Array.from({ length: 1000 }, (_, index) => `${index}`));
});

Deno.test("data channel: a call that is canceled as its turn comes gives it to the next", async () => {
  for (const canceledBy of ["the caller of both", "the end of the other", "its turn"]) {
    // The server counts a canceled call until its handler has ended.
    const { echo, seen, frames, server } = pair({}, 2 * WEBRTC_LIMITS.calls);
    const hang = (signal?: AbortSignal) => {
      const call = echo.echo({ message: "hang" }, { signal });
      call.catch(() => {});
      return call;
    };
    const over = new AbortController(), [first, second] = [new AbortController(), new AbortController()];
    const cancels = canceledBy === "the caller of both" ? [over, over] : [first, second];
    hang(cancels[0].signal);
    for (let at = 1; at < WEBRTC_LIMITS.calls; at++) hang();
    await until(() => seen.calls === WEBRTC_LIMITS.calls);
    const canceled = hang(cancels[1].signal);
    let answered = "";
    void echo.echo({ message: "at last" }).then(({ message }) => answered = message, () => {});
    await until(() => server.running === WEBRTC_LIMITS.calls);

    cancels[0].abort(new SvcError("canceled", "enough"));
    if (canceledBy === "its turn") { for (let turn = 0; turn < 5; turn++) await Promise.resolve(); }
    cancels[1].abort(new SvcError("canceled", "enough"));
    await assertRejects(() => canceled, SvcError, "enough");
    await until(() => answered === "at last", { found: () => canceledBy });

    // Those that never began took no room from others, and gave none away.
    const more = [hang(), hang()];
    await until(() => seen.calls === WEBRTC_LIMITS.calls + 2);
    assertEquals(server.running, WEBRTC_LIMITS.calls);
    frames.gone(new SvcError("unavailable", "over"));
    server.gone(new SvcError("unavailable", "over"));
    for (const one of more) await assertRejects(() => one, SvcError, "over");
  }
});

Deno.test("data channel: a small answer overtakes a large answer", async () => {
  const { echo, seen, toClient } = pair();
  toClient.reading = false;
  const answers = [echo.echo({ message: "big:5000000" })];
  await until(() => toClient.sent.length > 3);
  answers.push(echo.echo({ message: "small" }));
  await until(() => seen.calls === 2);
  toClient.reading = true;
  toClient.read();
  await Promise.all(answers);
  const streams = toClient.sent.map((frame) => fromBinary(ResponseSchema, frame).stream!.id);
  assert(streams.lastIndexOf(1n) < streams.lastIndexOf(0n) / 2, "the small answer came late");
});

Deno.test("data channel: a canceled call ends at the server and releases its memory", async () => {
  const { echo, seen, server, budgets, toClient } = pair();
  const over = new AbortController();
  const hanging = echo.echo({ message: "hang" }, { signal: over.signal });
  await until(() => seen.calls === 1);
  over.abort(new SvcError("canceled", "enough"));
  await assertRejects(() => hanging, SvcError, "enough");
  assertEquals(SvcError.from(await seen.canceled).code, "canceled");
  await assertRejects(() => echo.echo({ message: "hang" }, { timeoutMs: 20 }), SvcError);
  const stream = echo.echoMultiple({ message: "endless" })[Symbol.asyncIterator]();
  await stream.next();
  await stream.return!();
  await until(() => server.running === 0);
  // Published clients keep the stream until the server says that it has ended; once is enough.
  const ends = toClient.sent.map((frame) => fromBinary(ResponseSchema, frame)).flatMap(({ stream, type }) =>
    type.case === "trailers" && stream!.id !== 1n ? [[stream!.id, type.value.status?.message]] : []
  );
  assertEquals(ends, [[0n, "request cancelled"], [2n, "request cancelled"]]);
  assertEquals(budgets.usedBytes, { received: 0, unread: 0 });
});

Deno.test("data channel: a client that does not read keeps at most 200 KB of a stream at the server", async () => {
  const { echo, toClient, budgets, server, frames } = pair();
  toClient.reading = false;
  const stream = echo.echoMultiple({ message: "endless" })[Symbol.asyncIterator]();
  const waiting = stream.next();
  waiting.catch(() => {});
  await until(() => budgets.usedBytes.unread > 0);
  const { unread } = budgets.usedBytes;
  assert(unread < 200_000, `${unread} bytes wait`);
  server.gone(new SvcError("unavailable", "over"));
  frames.gone(new SvcError("unavailable", "over"));
  await until(() => server.running === 0);
  assertEquals(budgets.usedBytes.unread, 0);
});

Deno.test("data channel: an answer beyond the budget fails its own call only", async () => {
  const { echo, toClient } = pair({ unread: 1_000_000, unreadByConnection: 500_000 });
  const error = await assertRejects(() => echo.echo({ message: "big:600000" }), SvcError);
  assertEquals(error.code, "resource_exhausted");
  assertEquals((await echo.echo({ message: "hi" })).message, "hi");
  assertEquals(toClient.bufferedBytes, 0);
});

Deno.test("data channel: every call ends when the peer disconnects", async () => {
  const { echo, frames, server } = pair();
  const calls = [echo.echo({ message: "hang" }), echo.echo({ message: "hang" })];
  await until(() => server.running === 2);
  const ended = Promise.all(calls.map((call) => call.catch((error: SvcError) => error.code)));
  server.gone(new SvcError("unavailable", "gone"));
  frames.gone(new SvcError("unavailable", "gone"));
  assertEquals(await ended, ["unavailable", "unavailable"]);
  await assertRejects(() => echo.echo({ message: "hi" }), SvcError, "gone");
  await until(() => server.running === 0);
});

Deno.test("data channel: packets follow the published messages", () => {
  const data = new Uint8Array(300).fill(7);
  for (const id of [0n, 1n, 300n, 2n ** 63n]) {
    for (const eom of [true, false]) {
      const request = fromBinary(RequestSchema, requestPacket(id, data, eom));
      assertEquals([request.stream!.id, request.type.case], [id, "message"]);
      const value = request.type.value as {
        hasMessage: boolean;
        packetMessage: { data: Uint8Array; eom: boolean };
      };
      assertEquals([value.hasMessage, value.packetMessage.data, value.packetMessage.eom], [true, data, eom]);
      const response = fromBinary(ResponseSchema, responsePacket(id, data, eom));
      assertEquals([response.stream!.id, response.type.case], [id, "message"]);
    }
  }
  const { type } = fromBinary(RequestSchema, requestHeaders(5n, "/a.B/C", new Metadata(), 1500));
  assertEquals(type.case === "headers" && [type.value.method, type.value.timeout?.seconds], ["/a.B/C", 1n]);
});
