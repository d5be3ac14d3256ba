/** What arrives from the network, before anybody has shown a key. */

import { generateKeyPairSync } from "node:crypto";
import { Buffer } from "node:buffer";
import { gzipSync } from "node:zlib";
import { settle, SystemClock } from "../../../lib/base/clock.ts";
import { Tokens } from "../../../lib/wire/auth/tokens.ts";
import { HpackDecoder, HpackEncoder, HpackError } from "../../../lib/wire/http2/hpack.ts";
import { FLAG, TYPE, uint32 } from "../../../lib/wire/http2/frame.ts";
import { decodeDns, encodeDns } from "../../../lib/wire/mdns/dns_message.ts";
import { Decoder } from "../../../lib/wire/rpc/decoder.ts";
import { decodeStatusText, framed, parseTimeoutMs } from "../../../lib/wire/rpc/message.ts";
import { MessageReader } from "../../../lib/wire/rpc/message_reader.ts";
import { Inflater } from "../../../lib/wire/flow/inflate.ts";
import { create, type DescMessage, toBinary } from "../../../lib/wire/rpc/proto.ts";
import { decodeDescription, encodeDescription } from "../../../lib/wire/webrtc/description.ts";
import {
  metadataFrom,
  readRequest,
  readResponse,
  requestEnd,
  requestHeaders,
} from "../../../lib/wire/webrtc/frame.ts";
import { Metadata } from "../../../lib/wire/rpc/metadata.ts";
import { readStunAnswer } from "../../../lib/wire/webrtc/stun.ts";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { ArmService } from "../../../proto/gen/arm_pb.ts";
import { DataService } from "../../../proto/gen/data_pb.ts";
import { AppService } from "../../../proto/gen/app_pb.ts";
import { frameBytes, GET, Notes, OK, Wire } from "../../support/http2_wire.ts";
import { joined } from "../damage.ts";
import { bytesOf, type Target, textIn } from "../target.ts";

const LIST_BYTES_MAX = 64 * 1024;

/** Header blocks, each after its length. */
function headerBlocks(): Uint8Array[] {
  const encoder = new HpackEncoder();
  const block = (more: [string, string][]) => {
    const bytes = encoder.encode([...GET, ...more]);
    return joined(Uint8Array.of(bytes.length), bytes);
  };
  return [
    joined(block([["x-one", "y".repeat(40)]]), block([["x-one", "z"], ["grpc-timeout", "3S"]]), block([])),
  ];
}

function readBlocks(bytes: Uint8Array): void {
  const decoder = new HpackDecoder(LIST_BYTES_MAX);
  for (let at = 0; at < bytes.length; at += 1 + bytes[at]) {
    decoder.decode(bytes.subarray(at + 1, at + 1 + bytes[at]));
  }
}

function conversations(role: "server" | "client"): Uint8Array[] {
  const encoder = new HpackEncoder();
  const fields = role === "server" ? GET : OK;
  const settings = frameBytes(TYPE.settings, 0, 0, joined(Uint8Array.of(0, 4), uint32(70_000)));
  const headers = (id: number, flags: number) => frameBytes(TYPE.headers, flags, id, encoder.encode(fields));
  return [
    joined(
      settings,
      headers(1, FLAG.endHeaders),
      frameBytes(TYPE.data, FLAG.endStream, 1, new Uint8Array(300)),
    ),
    joined(
      settings,
      headers(1, 0),
      frameBytes(TYPE.continuation, FLAG.endHeaders, 1, encoder.encode([["x", "y"]])),
      frameBytes(TYPE.window, 0, 1, uint32(1000)),
      frameBytes(TYPE.ping, 0, 0, new Uint8Array(8)),
      frameBytes(TYPE.reset, 0, 1, uint32(8)),
      frameBytes(TYPE.priority, 0, 3, new Uint8Array(5)),
      frameBytes(TYPE.goaway, 0, 0, new Uint8Array(8)),
    ),
  ];
}

/** A connection takes the bytes, ends, and leaves nothing behind. */
async function converse(role: "server" | "client", bytes: Uint8Array): Promise<void> {
  const notes: Notes[] = [];
  let ends = 0;
  const wire = new Wire({
    role,
    closed: () => ends++,
    accept: (stream) => {
      notes.push(new Notes());
      queueMicrotask(() => stream.headers(OK, notes.length % 2 === 0));
      return notes.at(-1)!;
    },
  });
  for (let request = 0; role === "client" && request < 4; request++) {
    notes.push(new Notes());
    wire.connection.request(GET, request % 2 === 0, notes.at(-1)!);
  }
  await wire.sendBytes(bytes);
  wire.close();
  await settle();
  const left = [wire.connection.table.size, ends, notes.filter(({ over }) => !over).length];
  if (left.join() !== "0,1,0") throw new Error(`streams, ends and open requests: ${left}`);
}

/** Messages with their prefix, of which the first byte says whether a compression was announced. */
async function readMessages(bytes: Uint8Array): Promise<void> {
  const encoding = bytes[0] % 2 === 1 ? "gzip" : undefined;
  const reader = new MessageReader({ encoding, inflater: new Inflater() });
  reader.push(new Uint8Array(bytes.subarray(1)));
  reader.end();
  try {
    for await (const _message of reader);
  } finally {
    reader.release();
  }
}

const SERVICES = [RobotService, ArmService, DataService, AppService];
const INPUTS: readonly DescMessage[] = SERVICES.flatMap(({ methods }) => methods.map(({ input }) => input));
const decoder = new Decoder();

const { privateKey } = generateKeyPairSync("ed25519");
const tokens = new Tokens({
  types: ["api-key"],
  audience: ["machine"],
  signingKeys: () => [privateKey],
  externalKeys: [],
  clock: new SystemClock(),
});

const SDP = `v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n` +
  `m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=setup:actpass\r\n`;

export const WIRE: readonly Target[] = [
  {
    name: "wire/hpack",
    covers: ["wire/http2/hpack.ts", "wire/http2/huffman.ts"],
    samples: headerBlocks,
    read: readBlocks,
    isRefusal: (error) => error instanceof HpackError,
  },
  ...(["server", "client"] as const).map((role): Target => ({
    name: `wire/http2-${role}`,
    covers: ["wire/http2/"],
    samples: () => conversations(role),
    read: (bytes) => converse(role, bytes),
  })),
  {
    name: "wire/messages",
    covers: ["wire/rpc/message_reader.ts", "wire/flow/inflate.ts"],
    samples: () => [
      joined(Uint8Array.of(0), framed(bytesOf("one")), framed(bytesOf("two"))),
      joined(Uint8Array.of(1), framed(gzipSync(bytesOf("one".repeat(50))), 1), framed(bytesOf("two"))),
    ],
    read: readMessages,
    refusals: ["invalid_argument", "resource_exhausted", "internal", "unimplemented"],
  },
  {
    name: "wire/requests",
    covers: ["wire/rpc/message_weight.ts", "wire/rpc/decoder.ts"],
    samples: () =>
      INPUTS.map((desc, at) => joined(Uint8Array.of(at & 255, at >> 8), toBinary(desc, create(desc)))),
    read: (bytes) => decoder.decode(INPUTS[(bytes[0] | bytes[1] << 8) % INPUTS.length], bytes.subarray(2)),
    refusals: ["internal", "resource_exhausted"],
  },
  {
    name: "wire/webrtc-frames",
    covers: ["wire/webrtc/frame.ts", "wire/rpc/message.ts"],
    samples: () => [requestHeaders(1n, "/a.B/C", new Metadata(), 3000), requestEnd(1n)],
    read: (bytes) => {
      const { type } = readRequest(bytes);
      if (type.case === "headers") metadataFrom(type.value.metadata);
      readResponse(bytes);
    },
  },
  {
    name: "wire/sdp",
    covers: ["wire/webrtc/description.ts"],
    samples: () => [bytesOf(SDP)],
    read: (bytes) => decodeDescription(encodeDescription({ type: "offer", sdp: textIn(bytes) }), "offer"),
  },
  {
    name: "wire/sdp-transport",
    covers: ["wire/webrtc/description.ts"],
    samples: () => [bytesOf(encodeDescription({ type: "offer", sdp: SDP }))],
    read: (bytes) => decodeDescription(textIn(bytes), "offer"),
  },
  {
    name: "wire/stun",
    covers: ["wire/webrtc/stun.ts"],
    samples: () => [Buffer.from("0101000c2112a4420102030405060708090a0b0c002000080001a147e112a643", "hex")],
    read: readStunAnswer,
  },
  {
    name: "wire/mdns",
    covers: ["dns-packet", "wire/mdns/"],
    samples: () => [encodeDns({
      type: "response",
      id: 1,
      flags: 0,
      answers: [
        { type: "PTR", name: "_rpc._tcp.local", ttl: 120, data: "a._rpc._tcp.local" },
        { type: "TXT", name: "a._rpc._tcp.local", ttl: 120, data: ["grpc", "webrtc"] },
        { type: "SRV", name: "a._rpc._tcp.local", ttl: 120, data: { target: "a.local", port: 8080 } },
        { type: "A", name: "a.local", ttl: 120, data: "192.0.2.1" },
      ],
    })],
    read: decodeDns,
  },
  {
    name: "wire/tokens",
    covers: ["wire/auth/tokens.ts"],
    samples: () => [bytesOf(tokens.issue("somebody", "api-key", "1"))],
    read: (bytes) => tokens.read(textIn(bytes)),
    refusals: ["unauthenticated"],
  },
  {
    name: "wire/header-texts",
    covers: ["wire/rpc/message.ts"],
    samples: () => ["3S", "99999999n", "a%20b%E2%82%ACc", "%"].map(bytesOf),
    read: (bytes) => {
      decodeStatusText(textIn(bytes));
      parseTimeoutMs(textIn(bytes));
    },
    refusals: ["internal"],
  },
];
