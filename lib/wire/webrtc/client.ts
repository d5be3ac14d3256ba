/**
 * The client side of gRPC over a data channel: a `Channel` over a connected peer.
 *
 * Owns the streams of the peer: calls beyond the servers' limit wait for their turn. A canceled call is reset; when
 * the peer is gone, every call fails with `unavailable`.
 */

import type { Response } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { BriefMap } from "../../base/collections/brief_map.ts";
import { type Clock, race } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { CallOptions, Channel } from "../rpc/channel.ts";
import { checkSize } from "../rpc/message.ts";
import { Metadata } from "../rpc/metadata.ts";
import type { DescMethod } from "../rpc/proto.ts";
import { pathOf } from "../rpc/service.ts";
import { metadataFrom, readResponse, requestEnd, requestHeaders, requestPacket, reset } from "./frame.ts";
import { BROKEN_FRAMES_MAX, FRAME_BYTES_MAX, WEBRTC_LIMITS } from "./limits.ts";
import { Outbox, type Outflow } from "./outbox.ts";
import { PacketReader } from "./packet_reader.ts";
import type { FrameListener, RtcPeer } from "./peer.ts";

/** Limit of calls that wait for a stream. */
const WAITING_MAX = 10_000;

export interface FrameClientParts {
  readonly peer: Pick<RtcPeer, "data" | "close">;
  readonly clock: Clock;
}

/** Calls over a peer, which passes its frames here. */
export class FrameClient implements Channel, FrameListener {
  readonly #parts: FrameClientParts;
  readonly #outbox: Outbox;
  readonly #calls = new BriefMap<bigint, ClientCall>();
  readonly #waiting = new Set<() => void>();
  /** Calls under way or about to start. */
  #active = 0;
  #nextId = 0n;
  #broken = 0;
  #error: SvcError | undefined;

  constructor(parts: FrameClientParts) {
    this.#parts = parts;
    this.#outbox = new Outbox(parts.peer.data, undefined, (error) => parts.peer.close(SvcError.from(error)));
  }

  async *call(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): AsyncGenerator<Uint8Array> {
    const path = pathOf(method);
    const over = new AbortController();
    const release = this.#follow(path, options, over);
    const outgoing = requests[Symbol.asyncIterator]();
    let call: ClientCall | undefined;
    let entered = false;
    try {
      if (this.#active >= WEBRTC_LIMITS.calls) await this.#turn(path, over.signal);
      if (this.#error) throw this.#error;
      over.signal.throwIfAborted();
      entered = true;
      this.#active++;
      call = this.#begin(path, options);
      over.signal.addEventListener("abort", () => call?.answers.abort(over.signal.reason));
      void call.send(outgoing, over.signal).catch((error) => over.abort(SvcError.from(error)));
      yield* call.answers;
    } finally {
      release();
      if (call) this.#finish(call);
      if (entered) this.#active--;
      this.#wake();
      over.abort(new SvcError("canceled", `${path} is over`));
      void outgoing.return?.()?.catch(() => {});
    }
  }

  close(): void {
    this.#parts.peer.close(new SvcError("canceled", "the channel was closed"));
  }

  frame(bytes: Uint8Array): void {
    let response;
    try {
      response = readResponse(bytes);
    } catch (error) {
      if (++this.#broken >= BROKEN_FRAMES_MAX) this.#parts.peer.close(SvcError.from(error));
      return;
    }
    // Frames of ended calls are dropped (published).
    if (response.stream) this.#calls.get(response.stream.id)?.frame(response.type);
  }

  drained(): void {
    this.#outbox.advance();
  }

  gone(error: SvcError): void {
    this.#error = error;
    this.#outbox.close();
    for (const call of this.#calls.values()) call.answers.abort(error);
    this.#calls.clear();
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** Waits until another call may start. */
  async #turn(path: string, signal: AbortSignal): Promise<void> {
    while (!this.#error && this.#active >= WEBRTC_LIMITS.calls) {
      if (this.#waiting.size >= WAITING_MAX) {
        const problem = `${path} cannot wait for a WebRTC peer: ${WAITING_MAX} calls wait already`;
        throw new SvcError("resource_exhausted", problem);
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      try {
        await race(promise, signal);
      } finally {
        this.#waiting.delete(resolve);
      }
    }
  }

  /** Starts the next waiting call if there is room: every call that ends asks, also one that ends while it starts. */
  #wake(): void {
    const [wake] = this.#waiting;
    if (!wake || this.#active >= WEBRTC_LIMITS.calls) return;
    this.#waiting.delete(wake);
    wake();
  }

  #begin(path: string, { header = new Metadata(), timeoutMs, onHeader, onTrailer }: CallOptions): ClientCall {
    const id = this.#nextId;
    const headers = requestHeaders(id, path, header, timeoutMs);
    const bytesMax = Math.min(FRAME_BYTES_MAX, this.#outbox.frameBytesMax);
    if (headers.length > bytesMax) {
      const problem = `the metadata of ${path} takes ${headers.length} bytes, wanted at most ${bytesMax}`;
      throw new SvcError("resource_exhausted", problem);
    }
    this.#nextId++;
    const flow = this.#outbox.flow();
    const call = new ClientCall(id, path, flow, onHeader, onTrailer);
    this.#calls.set(id, call);
    flow.frame(headers);
    return call;
  }

  #finish(call: ClientCall): void {
    call.answers.release();
    if (!this.#calls.delete(call.id)) return;
    call.flow.clear();
    if (call.ended || this.#error) return;
    this.#outbox.flow().frame(reset(call.id));
  }

  /** Aborts `over` with the caller or at the deadline; the returned function releases both. */
  #follow(path: string, { timeoutMs, signal }: CallOptions, over: AbortController): () => void {
    const follow = () => {
      const { reason } = signal!;
      const canceled = new SvcError("canceled", `${path} was canceled: ${messageOf(reason)}`, {
        cause: reason,
      });
      over.abort(reason instanceof SvcError ? reason : canceled);
    };
    if (signal?.aborted) follow();
    signal?.addEventListener("abort", follow, { once: true });

    const stop = timeoutMs === undefined ? () => {} : this.#parts.clock.after(timeoutMs, () => {
      over.abort(new SvcError("deadline_exceeded", `${path} did not end within ${timeoutMs} ms`));
    });
    return () => {
      stop();
      signal?.removeEventListener("abort", follow);
    };
  }
}

/** One call on its stream. */
class ClientCall {
  readonly answers = new PacketReader();
  /** The server has ended the call. */
  ended = false;
  #opened = false;

  constructor(
    readonly id: bigint,
    private readonly path: string,
    readonly flow: Outflow,
    private readonly onHeader: CallOptions["onHeader"],
    private readonly onTrailer: CallOptions["onTrailer"],
  ) {}

  /** Sends every message, as fast as the channel takes it. */
  async send(outgoing: AsyncIterator<Uint8Array>, signal: AbortSignal): Promise<void> {
    for (let next; !(next = await race(outgoing.next(), signal)).done;) {
      if (this.ended) return;
      checkSize(next.value, this.path);
      const sent = this.flow.message(next.value, (data, eom) => requestPacket(this.id, data, eom));
      if (sent) await race(sent, signal);
    }
    this.flow.frame(requestEnd(this.id));
  }

  frame(frame: Response["type"]): void {
    if (this.ended) return;
    switch (frame.case) {
      case "headers":
        if (this.#opened) return this.#fail("sent headers twice");
        this.#opened = true;
        return this.onHeader?.(metadataFrom(frame.value.metadata));
      case "message": {
        if (!this.#opened) return this.#fail("sent a message before the headers");
        const { data, eom } = frame.value.packetMessage ?? { data: new Uint8Array(), eom: true };
        return this.answers.push(data, eom);
      }
      case "trailers": {
        this.ended = true;
        const { status: { code, message } = { code: 0, message: "" }, metadata } = frame.value;
        const trailer = metadataFrom(metadata);
        this.onTrailer?.(trailer);
        const error = code === 0 ? undefined : SvcError.fromStatus(code, message, trailer.retryPushbackMs);
        return this.answers.end(error);
      }
    }
  }

  #fail(how: string): void {
    this.answers.abort(new SvcError("internal", `the server of ${this.path} ${how}`));
  }
}
