/**
 * TURN over TCP and TLS for the addon, which knows TURN over UDP alone: a UDP port of the loopback interface takes its
 * messages and passes them on in a stream (source: RFC 8656, sections 3.1 and 12.5).
 *
 * Such a server is the only way out of networks that let no UDP through. The stream goes through the proxy that the
 * environment names, and the certificate of a TLS server is checked. Messages that the stream cannot take are dropped,
 * as by a network.
 */

import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { isIP, type Socket } from "node:net";
import { type Clock, deadline, SystemClock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { processEnv } from "../../base/native/environment.ts";
import { openUdp, type UdpSender, type UdpSocket } from "../../base/udp.ts";
import { connectTcp } from "../flow/tcp.ts";
import { connectThrough, proxyOf } from "../grpc/proxy.ts";

export interface StreamServer {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
}

/** A server's stand-in on the loopback interface. */
export interface StreamRelay {
  readonly host: string;
  readonly port: number;
  close(): void;
}

/** Connects to a server; by default as this file does. */
export type ConnectStream = (server: StreamServer, signal: AbortSignal) => Promise<Duplex>;

const LOOPBACK = "127.0.0.1";
/** The time of a connection to all of the servers; a peer has as long to connect. */
const CONNECT_MS = 10_000;
/** A server that has not connected by then has another one beside it. */
const NEXT_SERVER_MS = 500;
/** The pause before a connection is tried again. */
const AGAIN_MS = 1_000;
/** Messages that wait for the connection: the first question and its repetitions. */
const WAITING_MAX = 16;
/** Bytes that the system has not taken; what comes beyond is dropped. */
const UNSENT_BYTES_MAX = 256 * 1024;
const STUN_HEAD_BYTES = 20;
const CHANNEL_HEAD_BYTES = 4;

/** The length of the message that begins with `head`, and its length in a stream; `undefined` for anything else. */
export function lengthsOf(
  head: Uint8Array,
): { readonly bytes: number; readonly inStream: number } | undefined {
  const [first = 0, , high = 0, low = 0] = head;
  const kind = first >> 6;
  if (head.length < CHANNEL_HEAD_BYTES || kind > 1) return undefined;
  const bytes = (kind === 0 ? STUN_HEAD_BYTES : CHANNEL_HEAD_BYTES) + (high << 8 | low);
  // Only the data of a channel may end anywhere; a stream pads it.
  const inStream = Math.ceil(bytes / 4) * 4;
  return kind === 0 && inStream !== bytes ? undefined : { bytes, inStream };
}

/** A message as it travels in a stream; `undefined` for a datagram that is no whole message of TURN. */
export function inStream(datagram: Uint8Array): Uint8Array | undefined {
  const lengths = lengthsOf(datagram);
  if (!lengths || lengths.bytes > datagram.length) return undefined;
  const message = new Uint8Array(lengths.inStream);
  message.set(datagram.subarray(0, lengths.bytes));
  return message;
}

/** Takes a stream apart. */
export class StreamReader {
  #left = Buffer.alloc(0);

  /** The messages that `bytes` complete. Throws `internal` for a stream of anything else. */
  read(bytes: Uint8Array): Uint8Array[] {
    this.#left = Buffer.concat([this.#left, bytes]);
    const messages: Uint8Array[] = [];
    while (this.#left.length >= CHANNEL_HEAD_BYTES) {
      const lengths = lengthsOf(this.#left);
      if (!lengths) throw new SvcError("internal", "the server does not speak TURN");
      if (this.#left.length < lengths.inStream) break;
      messages.push(Buffer.from(this.#left.subarray(0, lengths.bytes)));
      this.#left = this.#left.subarray(lengths.inStream);
    }
    return messages;
  }
}

export interface StreamRelayParts {
  readonly clock: Clock;
  readonly connect: ConnectStream;
}

/**
 * Opens a stand-in for servers that take the same credentials: the first of them that connects is used. `failed` is
 * called when none does. Throws `unavailable` if there is no port.
 */
export async function openStreamRelay(
  servers: readonly StreamServer[],
  failed: (error: SvcError) => void,
  parts: StreamRelayParts = { clock: new SystemClock(), connect: connectStream },
): Promise<StreamRelay> {
  const relay = new Relay(servers, failed, parts);
  try {
    const udp = await openUdp((bytes, sender) => relay.take(bytes, sender), { host: LOOPBACK, port: 0 });
    relay.udp = udp;
    return { host: LOOPBACK, port: udp.port, close: () => relay.close() };
  } catch (cause) {
    throw new SvcError("unavailable", "cannot open a port on the loopback interface", { cause });
  }
}

class Relay {
  udp: UdpSocket | undefined;
  /** The addon's socket: the first that sends. */
  #sender: UdpSender | undefined;
  #stream: Duplex | undefined;
  #isConnecting = false;
  #notBeforeMs = 0;
  #waiting: Uint8Array[] = [];
  readonly #closed = new AbortController();

  constructor(
    private readonly servers: readonly StreamServer[],
    private readonly failed: (error: SvcError) => void,
    private readonly parts: StreamRelayParts,
  ) {}

  /** Passes a datagram on. */
  take(datagram: Uint8Array, { address, port }: UdpSender): void {
    const message = inStream(datagram);
    if (!message || this.#closed.signal.aborted) return;
    this.#sender ??= { address, port };
    if (port !== this.#sender.port) return;
    if (this.#stream) return this.#write(message);
    if (this.#waiting.length < WAITING_MAX) this.#waiting.push(message);
    if (!this.#isConnecting && this.parts.clock.monotonicMs() >= this.#notBeforeMs) void this.#begin();
  }

  close(): void {
    this.#closed.abort(new SvcError("canceled", "the peer is over"));
    this.#stream?.destroy();
    this.udp?.close();
  }

  #write(message: Uint8Array): void {
    const { writableLength = 0 } = this.#stream ?? {};
    if (writableLength < UNSENT_BYTES_MAX) this.#stream?.write(message);
  }

  /** Never rejects: the addon takes silence for a server that is away. */
  async #begin(): Promise<void> {
    this.#isConnecting = true;
    const { signal } = this.#closed;
    try {
      const stream = await this.#connected(signal);
      if (signal.aborted) return void stream.destroy();
      this.#read(stream);
      for (const message of this.#waiting.splice(0)) this.#write(message);
    } catch (error) {
      if (!signal.aborted) this.failed(causeOf(error));
      this.#waiting.length = 0;
      this.#notBeforeMs = this.parts.clock.monotonicMs() + AGAIN_MS;
    } finally {
      this.#isConnecting = false;
    }
  }

  /** The first stream; each server begins a little after the one before it, or at its failure. */
  async #connected(signal: AbortSignal): Promise<Duplex> {
    const late = () => new SvcError("deadline_exceeded", "no TURN server has answered");
    const limit = deadline(this.parts.clock, CONNECT_MS, late, signal);
    const found = new AbortController();
    const tries: Promise<Duplex>[] = [];
    let before: Promise<unknown> = Promise.resolve();
    for (const server of this.servers) {
      const turn = before;
      const over = AbortSignal.any([limit.signal, found.signal]);
      const one = turn.then(() => over.throwIfAborted()).then(() => this.parts.connect(server, over));
      one.catch(() => {});
      // Of two that connect at once, one is not needed.
      void one.then((stream) => found.signal.aborted && stream.destroy(), () => {});
      before = Promise.race([one.then(() => {}, () => {}), this.parts.clock.sleep(NEXT_SERVER_MS, over)])
        .catch(
          () => {},
        );
      tries.push(one);
    }
    try {
      return await Promise.any(tries);
    } finally {
      found.abort(new SvcError("canceled", "another TURN server has answered"));
      limit.done();
    }
  }

  #read(stream: Duplex): void {
    const reader = new StreamReader();
    this.#stream = stream;
    const over = () => {
      if (this.#stream === stream) this.#stream = undefined;
      this.#notBeforeMs = this.parts.clock.monotonicMs() + AGAIN_MS;
      stream.destroy();
    };
    stream.on("error", over).on("close", over).on("data", (bytes: Uint8Array) => {
      const { address, port } = this.#sender ?? {};
      if (address === undefined || port === undefined || this.#closed.signal.aborted) return;
      try {
        for (const message of reader.read(bytes)) this.udp?.send(address, port, message).catch(() => {});
      } catch {
        over();
      }
    });
  }
}

/** Of several failures, the first one. */
function causeOf(error: unknown): SvcError {
  return SvcError.from(error instanceof AggregateError ? error.errors[0] : error);
}

/** A connection to a server, through the environment's proxy if it names one for this address. */
async function connectStream(server: StreamServer, signal: AbortSignal): Promise<Duplex> {
  const { host, port, secure } = server;
  const proxy = proxyOf({ host, port }, secure, processEnv);
  const below = proxy ? await connectThrough(proxy, { host, port }, signal) : connectTcp(host, port);
  const stop = () => below.destroy();
  signal.addEventListener("abort", stop, { once: true });
  try {
    if (!proxy) await happened(below, "connect", server);
    signal.throwIfAborted();
    if ("setNoDelay" in below) below.setNoDelay(true);
    if (!secure) return below;
    const stream = connectTls({
      socket: below as Socket,
      host,
      servername: isIP(host) === 0 ? host : undefined,
    });
    await happened(stream, "secureConnect", server);
    return stream;
  } catch (error) {
    below.on("error", () => {});
    below.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Resolves at the event; rejects if the connection fails or ends before. */
function happened(
  stream: { once(event: string, run: (error?: Error) => void): unknown },
  event: string,
  { host, port }: StreamServer,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (why: string, cause?: Error) =>
      reject(
        new SvcError("unavailable", `cannot connect to the TURN server ${host}:${port}: ${why}`, { cause }),
      );
    stream.once(event, () => resolve());
    stream.once("error", (error) => failed(messageOf(error), error));
    stream.once("close", () => failed("the connection was closed"));
  });
}
