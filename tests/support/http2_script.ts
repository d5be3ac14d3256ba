/**
 * For the tests of the client: an HTTP/2 server that follows a script, frame by frame, right or wrong.
 */

import { Buffer } from "node:buffer";
import { createServer, type Socket } from "node:net";
import { EchoRequestSchema, EchoResponseSchema } from "../../proto/gen/echo_pb.ts";
import type { Clock } from "../../lib/base/clock.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { framed, GRPC_CONTENT_TYPE } from "../../lib/wire/rpc/message.ts";
import type { HeaderFields } from "../../lib/wire/rpc/metadata.ts";
import { HpackDecoder, HpackEncoder } from "../../lib/wire/http2/hpack.ts";
import {
  FLAG,
  FRAME_HEADER_BYTES,
  H2,
  OutgoingBytes,
  PREFACE,
  SETTING,
  TYPE,
  uint32,
} from "../../lib/wire/http2/frame.ts";
import { create, fromBinary, toBinary } from "../../lib/wire/rpc/proto.ts";

const HEADER: HeaderFields = [[":status", "200"], ["content-type", GRPC_CONTENT_TYPE]];

/** A call whose request has come in full, or at least its header. */
export interface ScriptedCall {
  readonly stream: number;
  readonly path: string;
  /** Texts of the messages so far. */
  readonly messages: string[];
}

/** The server's end of one connection. */
export class ScriptedPeer {
  readonly calls: ScriptedCall[] = [];
  /** Streams that the client has reset. */
  readonly resets: number[] = [];
  closed = false;
  readonly #encoder = new HpackEncoder();
  readonly #decoder = new HpackDecoder(1_000_000);
  readonly #bodies = new Map<number, Buffer>();
  #skip = PREFACE.length;
  #input = Buffer.alloc(0);

  constructor(private readonly socket: Socket, private readonly script: Script) {
    socket.on("data", (bytes: Buffer) => this.#receive(bytes));
    socket.on("error", () => {});
    socket.on("close", () => this.closed = true);
  }

  send(type: number, flags: number, stream: number, payload: Uint8Array): void {
    const out = new OutgoingBytes();
    out.frame(type, flags, stream, payload);
    if (!this.socket.destroyed) this.socket.write(out.take()!);
  }

  /** SETTINGS, with a limit of streams if one is given. */
  settings(streams?: number): void {
    const limit = streams === undefined ? [] : [Uint8Array.of(0, SETTING.streams), uint32(streams)];
    this.send(TYPE.settings, 0, 0, Buffer.concat(limit));
  }

  header(stream: number, more: HeaderFields = []): void {
    this.send(TYPE.headers, FLAG.endHeaders, stream, this.#encoder.encode([...HEADER, ...more]));
  }

  message(stream: number, message: string): void {
    const bytes = toBinary(EchoResponseSchema, create(EchoResponseSchema, { message }));
    this.send(TYPE.data, 0, stream, framed(bytes));
  }

  end(stream: number): void {
    const trailer = this.#encoder.encode([["grpc-status", "0"]]);
    this.send(TYPE.headers, FLAG.endHeaders | FLAG.endStream, stream, trailer);
  }

  /** A whole answer. */
  answer(stream: number, message: string): void {
    this.header(stream);
    this.message(stream, message);
    this.end(stream);
  }

  refuse(stream: number): void {
    this.send(TYPE.reset, 0, stream, uint32(H2.refused));
  }

  goaway(lastStream: number): void {
    this.send(TYPE.goaway, 0, 0, Buffer.concat([uint32(lastStream), uint32(H2.noError)]));
  }

  hangUp(): void {
    this.socket.destroy();
  }

  #receive(bytes: Buffer): void {
    const skipped = Math.min(this.#skip, bytes.length);
    this.#skip -= skipped;
    this.#input = Buffer.concat([this.#input, bytes.subarray(skipped)]);
    while (this.#input.length >= FRAME_HEADER_BYTES) {
      const end = FRAME_HEADER_BYTES + this.#input.readUIntBE(0, 3);
      if (this.#input.length < end) return;
      const frame = this.#input.subarray(0, end);
      this.#input = this.#input.subarray(end);
      this.#frame(frame[3], frame[4], frame.readUInt32BE(5), frame.subarray(FRAME_HEADER_BYTES));
    }
  }

  #frame(type: number, flags: number, stream: number, payload: Buffer): void {
    if (type === TYPE.reset) this.resets.push(stream);
    if (type === TYPE.headers) {
      const fields = new Map(this.#decoder.decode(payload));
      const call = { stream, path: fields.get(":path") ?? "", messages: [] };
      this.calls.push(call);
      this.script.call?.(this, call);
    }
    if (type !== TYPE.data) return;
    const call = this.calls.find((one) => one.stream === stream)!;
    let body = Buffer.concat([this.#bodies.get(stream) ?? Buffer.alloc(0), payload]);
    for (
      let end;
      body.length >= 5 && body.length >= (end = 5 + body.readUInt32BE(1));
      body = body.subarray(end)
    ) {
      call.messages.push(fromBinary(EchoRequestSchema, body.subarray(5, end)).message);
    }
    this.#bodies.set(stream, body);
    if (flags & FLAG.endStream) this.script.ended?.(this, call);
  }
}

/** The server's behaviour. Unless `opened` differs, it sends SETTINGS first, without a limit. */
export interface Script {
  opened?(peer: ScriptedPeer): void;
  /** The header of a call has come. */
  call?(peer: ScriptedPeer, call: ScriptedCall): void;
  /** All of a call's request has come. */
  ended?(peer: ScriptedPeer, call: ScriptedCall): void;
}

/** Runs `test` with a channel to a server that follows `script`; `peers` are its connections so far. */
export async function withScript(
  clock: Clock,
  script: Script,
  test: (channel: Channel, peers: readonly ScriptedPeer[]) => Promise<void>,
  keepaliveMs?: number,
): Promise<void> {
  const peers: ScriptedPeer[] = [];
  const server = createServer({ noDelay: true }, (socket) => {
    const peer = new ScriptedPeer(socket, script);
    peers.push(peer);
    if (script.opened) script.opened(peer);
    else peer.settings();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const channel = connectGrpc(`127.0.0.1:${port}`, { clock, keepaliveMs });
  try {
    await test(channel, peers);
  } finally {
    channel.close();
    for (const peer of peers) peer.hangUp();
    await new Promise((resolve) => server.close(resolve));
  }
}
