/**
 * A server's promises in the published framing, frame by frame.
 */

import { assert, assertEquals } from "@std/assert";
import { echoTable } from "../../../tests/support/echo.ts";
import { until } from "../../../tests/support/until.ts";
import { EchoRequestSchema, EchoResponseSchema } from "../../../proto/gen/echo_pb.ts";
import { RequestSchema, ResponseSchema } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { CODES } from "../../base/error.ts";
import { Metadata } from "../rpc/metadata.ts";
import { PortAllowance } from "../flow/byte_budget.ts";
import { create, fromBinary, toBinary } from "../rpc/proto.ts";
import { requestEnd, requestHeaders, requestPacket, reset } from "./frame.ts";
import { PACKET_BYTES } from "./limits.ts";
import { FrameServer } from "./server.ts";

const ECHO = "/proto.rpc.examples.echo.v1.EchoService/Echo";
const BIDI = "/proto.rpc.examples.echo.v1.EchoService/EchoBiDi";

const output = (message: string) => toBinary(EchoRequestSchema, create(EchoRequestSchema, { message }));
const opening = (id: bigint, method = ECHO, timeoutMs?: number) =>
  requestHeaders(id, method, new Metadata(), timeoutMs);

/** A packet as Go writes it: each one of a message says whether the message is the last one. */
function goPacket(id: bigint, data: Uint8Array, eom: boolean, eos: boolean): Uint8Array {
  const value = { hasMessage: true, packetMessage: { data, eom }, eos };
  return toBinary(
    RequestSchema,
    create(RequestSchema, { stream: { id }, type: { case: "message", value } }),
  );
}

/** A server with a channel that takes everything. */
function bench() {
  const { table, seen } = echoTable();
  const sent: Uint8Array[] = [];
  const channel = {
    bufferedBytes: 0,
    messageBytesMax: 65_536,
    send: (message: Uint8Array | string) => void sent.push(message as Uint8Array),
  };
  const allowance = new PortAllowance().connection(() => {});
  const peer = { kind: "webrtc" as const };
  const server = new FrameServer({ table, channel, peer, allowance, callsMax: 256, leave: () => {} });
  /** The answers of a stream, in short. */
  const answers = (id: bigint) =>
    sent.map((bytes) => fromBinary(ResponseSchema, bytes)).filter(({ stream }) => stream!.id === id).map(
      ({ type }) => {
        if (type.case === "trailers") return `trailers ${type.value.status?.code}`;
        if (type.case !== "message") return `${type.case}`;
        return `message ${fromBinary(EchoResponseSchema, type.value.packetMessage!.data).message}`;
      },
    );
  const give = (...frames: Uint8Array[]) => {
    for (const frame of frames) server.frame(frame);
  };
  const ended = (id: bigint) => until(() => answers(id).some((one) => one.startsWith("trailers")));
  return { give, answers, ended, sent, seen, server };
}

Deno.test("FrameServer: answers every call with headers, messages and trailers", async () => {
  const { give, answers, ended } = bench();
  give(opening(1n), requestPacket(1n, output("hi"), true), requestEnd(1n));
  give(opening(2n), requestPacket(2n, output("fail:data_loss:gone"), true), requestEnd(2n));
  give(opening(3n, "/a.B/C"), requestEnd(3n));
  for (const id of [1n, 2n, 3n]) await ended(id);
  assertEquals(answers(1n), ["headers", "message hi", "trailers 0"]);
  assertEquals(answers(2n), ["headers", `trailers ${CODES.data_loss}`]);
  assertEquals(answers(3n), ["headers", `trailers ${CODES.unimplemented}`]);
});

Deno.test("FrameServer: the library for TypeScript gets an error before the first answer without headers", async () => {
  const { give, answers, ended } = bench();
  const from = (id: bigint, library: string, method = ECHO) =>
    requestHeaders(id, method, Metadata.from([["viam_client", library]]), undefined);
  const [typescript, python] = ["typescript;v0.61.1;v0.1.512", "python;v0.85.1;v0.1.512"];
  const failing = requestPacket(1n, output("fail:data_loss:gone"), true);
  give(from(1n, typescript), failing, requestEnd(1n));
  give(from(2n, typescript, "/a.B/C"), requestEnd(2n));
  give(from(3n, python, "/a.B/C"), requestEnd(3n));
  give(from(4n, typescript), requestPacket(4n, output("hi"), true), requestEnd(4n));
  for (const id of [1n, 2n, 3n, 4n]) await ended(id);
  assertEquals(answers(1n), [`trailers ${CODES.data_loss}`]);
  assertEquals(answers(2n), [`trailers ${CODES.unimplemented}`]);
  assertEquals(answers(3n), ["headers", `trailers ${CODES.unimplemented}`]);
  assertEquals(answers(4n), ["headers", "message hi", "trailers 0"]);
});

Deno.test("FrameServer: drops frames before the headers, and repeated headers end the stream", async () => {
  const { give, answers, ended, sent, server } = bench();
  give(requestPacket(1n, output("hi"), true), requestEnd(1n), reset(1n));
  assertEquals([sent.length, server.running], [0, 0]);
  give(opening(2n), opening(2n));
  await ended(2n);
  assertEquals(answers(2n).at(-1), `trailers ${CODES.invalid_argument}`);
});

Deno.test("FrameServer: a stream without an id is stream 0, and a frame without a stream is ignored", async () => {
  const { give, answers, ended, sent } = bench();
  const headers = create(RequestSchema, { type: { case: "headers", value: { method: ECHO } } });
  give(toBinary(RequestSchema, headers));
  assertEquals(sent.length, 0);
  give(opening(0n), requestPacket(0n, output("hi"), true), requestEnd(0n));
  await ended(0n);
  assertEquals(answers(0n), ["headers", "message hi", "trailers 0"]);
});

Deno.test("FrameServer: accepts eos on each packet of the last message, and drops later messages", async () => {
  const { give, answers, ended } = bench();
  const message = output("a message in three packets");
  give(opening(1n));
  give(goPacket(1n, message.subarray(0, 5), false, true), goPacket(1n, message.subarray(5, 9), false, true));
  give(goPacket(1n, message.subarray(9), true, true));
  give(requestPacket(1n, output("late"), true));
  await ended(1n);
  assertEquals(answers(1n), ["headers", "message a message in three packets", "trailers 0"]);
});

Deno.test("FrameServer: an empty message is a packet with eom alone", async () => {
  const { give, answers, ended } = bench();
  give(opening(1n), requestPacket(1n, new Uint8Array(), true), requestEnd(1n));
  await ended(1n);
  assertEquals(answers(1n), ["headers", "message ", "trailers 0"]);
});

Deno.test("FrameServer: a reset ends its own stream, and others continue", async () => {
  const { give, answers, ended, seen, server } = bench();
  give(opening(1n), requestPacket(1n, output("hang"), true), requestEnd(1n));
  give(opening(2n, BIDI), requestPacket(2n, output("a"), true));
  await until(() => seen.calls === 1 && answers(2n).includes("message a"));
  give(reset(1n));
  await until(() => server.running === 1);
  give(requestPacket(2n, output("b"), true), requestEnd(2n));
  await ended(2n);
  assertEquals(answers(2n), ["headers", "message a", "message b", "trailers 0"]);
  // A cancelled request gets no answer but its end: a client keeps the stream until then.
  assertEquals(answers(1n), ["headers", `trailers ${CODES.canceled}`]);
  give(opening(3n, BIDI), requestPacket(3n, output("c"), true));
  await until(() => answers(3n).includes("message c"));
  give(reset(3n));
  await ended(3n);
  assertEquals(answers(3n), ["headers", "message c", `trailers ${CODES.canceled}`]);
  give(reset(1n), reset(2n), reset(3n));
  assertEquals([answers(1n).length, answers(2n).length], [2, 4]);
});

Deno.test("FrameServer: enforces the timeout of the headers, and zero means no limit", async () => {
  const { give, answers, ended, server } = bench();
  give(opening(1n, ECHO, 1), requestPacket(1n, output("hang"), true), requestEnd(1n));
  await ended(1n);
  assertEquals(answers(1n), ["headers", `trailers ${CODES.deadline_exceeded}`]);
  give(opening(2n, ECHO, 0), requestPacket(2n, output("hi"), true), requestEnd(2n));
  await ended(2n);
  assertEquals(answers(2n).at(-1), "trailers 0");
  await until(() => server.running === 0);
});

Deno.test("a proxy hands on its caller's limit as a header, which holds where the frame has none", async () => {
  const { give, answers, ended } = bench();
  const proxied = (id: bigint, limit: string, seconds?: bigint) => {
    const md = { "grpc-timeout": { values: [limit] } };
    const value = {
      method: ECHO,
      metadata: { md },
      timeout: seconds === undefined ? undefined : { seconds },
    };
    return toBinary(
      RequestSchema,
      create(RequestSchema, { stream: { id }, type: { case: "headers", value } }),
    );
  };
  give(proxied(1n, "1m"), requestPacket(1n, output("hang"), true), requestEnd(1n));
  await ended(1n);
  assertEquals(answers(1n), ["headers", `trailers ${CODES.deadline_exceeded}`]);
  for (const [id, headers] of [[2n, proxied(2n, "soon")], [3n, proxied(3n, "1n", 60n)]] as const) {
    give(headers, requestPacket(id, output("hi"), true), requestEnd(id));
    await ended(id);
    assertEquals(answers(id), ["headers", "message hi", "trailers 0"]);
  }
});

Deno.test("FrameServer: splits answers into packets of at most PACKET_BYTES", async () => {
  const { give, sent } = bench();
  give(opening(1n), requestPacket(1n, output("big:100000"), true), requestEnd(1n));
  const sizes = () =>
    sent.map((bytes) => fromBinary(ResponseSchema, bytes).type).flatMap((type) =>
      type.case === "message" ? [type.value.packetMessage!] : []
    );
  await until(() => sizes().some(({ eom }) => eom));
  assert(sizes().every(({ data }) => data.length <= PACKET_BYTES));
  assertEquals(sizes().filter(({ eom }) => eom).length, 1);
});
