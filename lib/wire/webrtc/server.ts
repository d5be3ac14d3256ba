/**
 * The server side of gRPC over a data channel: serves the frames of a peer as calls of a `ServiceTable`.
 *
 * Owns the mapping of frames to calls: headers first, then messages, then the client's end; the answer is one frame of
 * headers, messages, and trailers always; to some callers an error comes without headers. Frames without a call are dropped (published); a peer that sends too many
 * meaningless frames is closed.
 */

import type { Request, RequestHeaders } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { BriefMap } from "../../base/collections/brief_map.ts";
import { CODES, SvcError } from "../../base/error.ts";
import { Cancellation } from "../rpc/cancellation.ts";
import { checkSize, MAX_MESSAGE_BYTES, PUBLIC_MESSAGE_BYTES } from "../rpc/message.ts";
import { Metadata } from "../rpc/metadata.ts";
import type { Allowance } from "../flow/byte_budget.ts";
import {
  canceledByCaller,
  type Peer,
  type RawCall,
  type RawSink,
  type ServiceTable,
  type Status,
} from "../rpc/service.ts";
import type { DataChannel } from "./addon.ts";
import {
  isViaProxy,
  metadataFrom,
  readRequest,
  responseHeaders,
  responsePacket,
  responseTrailers,
  timeoutMsOf,
  wantsBareErrors,
} from "./frame.ts";
import { BROKEN_FRAMES_MAX } from "./limits.ts";
import { Outbox, type Outflow } from "./outbox.ts";
import { PacketReader } from "./packet_reader.ts";
import type { FrameListener } from "./peer.ts";

export interface FrameServerParts {
  readonly table: ServiceTable;
  readonly channel: DataChannel;
  readonly peer: Peer;
  readonly allowance: Allowance;
  /** Calls under way at once. */
  readonly callsMax: number;
  /** Ends the peer. */
  readonly leave: (error: SvcError) => void;
}

type Frame = Request["type"];

export class FrameServer implements FrameListener {
  readonly #parts: FrameServerParts;
  readonly #outbox: Outbox;
  readonly #calls = new BriefMap<bigint, ServerCall>();
  /** A call that the client gave up counts until its handler has ended. */
  #running = 0;
  #broken = 0;
  #gone = false;
  /** Set when it accepts no more calls: resolves when none is under way. */
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(parts: FrameServerParts) {
    this.#parts = parts;
    const failed = (error: unknown) => parts.leave(SvcError.from(error));
    this.#outbox = new Outbox(parts.channel, parts.allowance.unread, failed);
  }

  /** The number of calls under way. */
  get running(): number {
    return this.#running;
  }

  frame(bytes: Uint8Array): void {
    if (this.#gone) return;
    let request;
    try {
      request = readRequest(bytes);
    } catch (error) {
      return this.#complain(SvcError.from(error));
    }
    const { stream, type } = request;
    if (!stream) return this.#complain(new SvcError("invalid_argument", "a frame names no stream"));
    const call = this.#calls.get(stream.id);
    if (call) call.frame(type);
    else if (type.case === "headers") this.#open(stream.id, type);
  }

  drained(): void {
    this.#outbox.advance();
  }

  /** Accepts no more calls; resolves when none is under way. */
  drain(): Promise<void> {
    this.#idle ??= Promise.withResolvers();
    if (this.#running === 0) this.#idle.resolve();
    return this.#idle.promise;
  }

  gone(error: SvcError): void {
    this.#gone = true;
    this.#outbox.close();
    for (const call of this.#calls.values()) call.lost(error);
    this.#calls.clear();
  }

  #open(id: bigint, { value: headers }: Extract<Frame, { case: "headers" }>): void {
    const { table, peer, allowance, callsMax } = this.#parts;
    const flow = this.#outbox.flow();
    const reply = new Reply(id, headers, flow, allowance);
    if (this.#idle) {
      return reply.end({ code: CODES.unavailable, message: "the server is stopping" }, new Metadata());
    }
    if (this.#running >= callsMax) {
      const problem = `too many calls on one connection: wanted at most ${callsMax}`;
      return reply.end({ code: CODES.resource_exhausted, message: problem }, new Metadata());
    }

    const call = new ServerCall(headers, peer, allowance, {
      drop: () => flow.clear(),
      reset: () => {
        if (this.#outbox.isCrowded) flow.clear();
        else reply.reset(this.#outbox.flow());
      },
    });
    this.#calls.set(id, call);
    this.#running++;
    void table.handle(call, reply).finally(() => {
      this.#running--;
      if (this.#calls.get(id) === call) this.#calls.delete(id);
      if (this.#running === 0) this.#idle?.resolve();
    });
  }

  #complain(error: SvcError): void {
    if (++this.#broken < BROKEN_FRAMES_MAX) return;
    const problem = `the peer sent ${this.#broken} unusable frames, the last one because ${error.message}`;
    this.#parts.leave(new SvcError("invalid_argument", problem));
  }
}

/** The end of a call that its client resets, in the published words. */
const RESET: Status = { code: CODES.canceled, message: "request cancelled" };

interface CallOutcome {
  /** Drops the answer, because nobody waits for it any more. */
  drop(): void;
  /**
   * Drops the answer, and tells the client that the call has ended, because it keeps the stream until then
   * (published).
   */
  reset(): void;
}

/** The client's direction of a call. */
class ServerCall implements RawCall {
  readonly path: string;
  readonly header: Metadata;
  readonly timeoutMs?: number;
  readonly requests: PacketReader;
  readonly cancellation = new Cancellation();
  #isReset = false;

  constructor(
    headers: RequestHeaders,
    readonly peer: Peer,
    private readonly allowance: Allowance,
    private readonly outcome: CallOutcome,
  ) {
    this.path = headers.method;
    this.header = metadataFrom(headers.metadata);
    const timeoutMs = timeoutMsOf(headers);
    // Clients without a limit send zero (published).
    if (timeoutMs !== undefined && timeoutMs > 0) this.timeoutMs = timeoutMs;
    this.requests = new PacketReader(allowance.unauthenticated);
  }

  frame(frame: Frame): void {
    if (frame.case === "message") {
      const { hasMessage, packetMessage, eos } = frame.value;
      if (hasMessage) this.requests.push(packetMessage?.data ?? new Uint8Array(), packetMessage?.eom ?? true);
      // Every packet of the last message may have the end flag.
      if (eos && (!hasMessage || (packetMessage?.eom ?? true))) this.requests.end();
    } else if (frame.case === "headers") {
      this.#end(new SvcError("invalid_argument", `${this.path} got headers twice`));
    } else if (frame.case === "rstStream" && frame.value) {
      // A second reset of the call ends nothing more.
      if (!this.#isReset) this.outcome.reset();
      this.#isReset = true;
      this.#end(canceledByCaller(this.path));
    }
  }

  admitted(caller: "authenticated" | "unauthenticated"): void {
    if (caller === "authenticated") this.requests.admit(this.allowance.authenticated, MAX_MESSAGE_BYTES);
    else this.requests.admit(this.allowance.unauthenticated, PUBLIC_MESSAGE_BYTES);
  }

  decoding(bytes: number): void {
    this.requests.decoding(bytes);
  }

  released(): void {
    this.requests.release();
  }

  /** The peer is gone. */
  lost(error: SvcError): void {
    this.outcome.drop();
    this.requests.abort(error);
    this.cancellation.cancel(canceledByCaller(this.path));
  }

  #end(error: SvcError): void {
    this.requests.abort(error);
    this.cancellation.cancel(error);
  }
}

/** The server's direction of a call. */
class Reply implements RawSink {
  readonly #path: string;
  readonly #viaProxy: boolean;
  readonly #wantsBareErrors: boolean;
  #opened = false;
  #ended = false;

  constructor(
    private readonly id: bigint,
    headers: RequestHeaders,
    private readonly flow: Outflow,
    private readonly allowance: Allowance,
  ) {
    this.#path = headers.method;
    this.#viaProxy = isViaProxy(headers);
    this.#wantsBareErrors = wantsBareErrors(headers);
  }

  /** Drops what is unsent, and ends the answer as cancelled with a flow of its own, unless its end was sent. */
  reset(last: Outflow): void {
    const isSent = this.#ended && !this.flow.hasMore;
    this.flow.clear();
    if (isSent) return;
    if (!this.flow.hasSent) last.frame(responseHeaders(this.id, new Metadata()));
    last.frame(responseTrailers(this.id, RESET, new Metadata(), this.#viaProxy));
  }

  get roomBytes(): number {
    return this.allowance.unread.roomBytes;
  }

  checkRoom(bytes: number): void {
    this.allowance.unread.check(bytes);
  }

  header(header: Metadata): void {
    if (this.#opened) return;
    this.#opened = true;
    this.flow.frame(responseHeaders(this.id, header));
  }

  message(bytes: Uint8Array): Promise<void> | undefined {
    checkSize(bytes, this.#path);
    return this.flow.message(bytes, (data, eom) => responsePacket(this.id, data, eom));
  }

  end(status: Status, trailer: Metadata): void {
    if (status.code === 0 || !this.#wantsBareErrors) this.header(new Metadata());
    this.#ended = true;
    this.flow.frame(responseTrailers(this.id, status, trailer, this.#viaProxy));
  }
}
