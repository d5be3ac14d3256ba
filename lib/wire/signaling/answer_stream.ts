/**
 * Waits at a signaling server for calls to this server's hosts: one stream brings one call (published).
 *
 * The answerer treats such a call like one of the server's own signaling.
 */

import {
  type AnswerRequest,
  type AnswerResponse,
  AnswerResponseSchema,
  type SignalingService,
} from "../../../proto/gen/signaling_pb.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { CODES, SvcError } from "../../base/error.ts";
import { Queue } from "../../base/collections/queue.ts";
import type { CallOptions, ServiceClient } from "../rpc/channel.ts";
import { Metadata } from "../rpc/metadata.ts";
import { create, type MessageInitShape } from "../rpc/proto.ts";
import { statusOf } from "../rpc/service.ts";
import type { IceServer } from "../webrtc/ice_choice.ts";
import type { IceCandidate } from "../webrtc/description.ts";
import { CONNECT_MS, WEBRTC_LIMITS } from "../webrtc/limits.ts";
import type { IncomingCall } from "./call_queue.ts";
import {
  candidateFrom,
  candidateMessage,
  GENERATION,
  HEARTBEAT_SECONDS,
  heartbeatMsIn,
  HEARTBEATS_ALLOWED,
  HOST,
} from "./service.ts";

export interface AnswerStreamOptions {
  readonly signaling: ServiceClient<typeof SignalingService>;
  /** The names of this server, one to five. */
  readonly hosts: readonly string[];
  readonly clock: Clock;
  /** The heartbeat interval to ask the server for; servers of others keep the published one. */
  readonly heartbeatMs?: number;
  /** `header` and `signal` of the stream. */
  readonly call: CallOptions;
  /** Called whenever the server has sent something, so that it is alive. */
  readonly alive?: () => void;
}

/** A call from a signaling server, and the ICE servers for it. */
export interface BroughtCall {
  readonly call: IncomingCall;
  readonly iceServers: readonly IceServer[];
  /** Resolves when the stream of the call has ended. */
  readonly over: Promise<void>;
}

/** Three of the published heartbeat intervals; with another interval, longer by that interval. */
const SILENCE_MS = 45_000;
/** Minimum time for a call, whatever the clocks of both sides say (published). */
const CONNECT_MIN_MS = 5_000;
/** Limit of responses to a call: the answer, candidates and the end. */
const RESPONSES_MAX = WEBRTC_LIMITS.candidates + 2;

/** Waits for the next call. Rejects when the stream ends without one; `unavailable` when the server falls silent. */
export async function nextCall(options: AnswerStreamOptions): Promise<BroughtCall> {
  const { signaling, hosts, clock, heartbeatMs, call: { header = [], signal } } = options;
  const responses = new Queue<AnswerResponse>(RESPONSES_MAX);
  const sent = Metadata.from([
    ...header,
    ...hosts.map((host) => [HOST, host] as [string, string]),
    [HEARTBEATS_ALLOWED, "true"],
    ...heartbeatMs === undefined ? [] : [[HEARTBEAT_SECONDS, String(heartbeatMs / 1000)] as [string, string]],
  ]);
  let silenceMs = SILENCE_MS;
  const onHeader = (header: Metadata) => silenceMs += heartbeatMsIn(header) ?? 0;
  const over = new AbortController();
  const signals = AbortSignal.any([over.signal, ...signal ? [signal] : []]);
  const requests = signaling.answer(responses, { header: sent, signal: signals, onHeader })
    [Symbol.asyncIterator]();
  try {
    for (;;) {
      const request = await next(requests, clock, silenceMs, signals);
      options.alive?.();

      const { uuid, stage } = request;
      if (stage.case === "heartbeat") continue;
      if (stage.case !== "init") {
        throw new SvcError("internal", `a call began with ${stage.case ?? "nothing"}`);
      }

      const { sdp, optionalConfig, deadline: until, callerAuthEntity, callerAuthMetadata } = stage.value;
      const leftMs = until ? Number(until.seconds) * 1000 + until.nanos / 1e6 - clock.nowMs() : CONNECT_MS;
      const call = new StreamCall({
        id: uuid,
        offer: {
          sdp,
          disableTrickle: optionalConfig?.disableTrickle ?? false,
          caller: { entity: callerAuthEntity || undefined, generation: callerAuthMetadata[GENERATION] },
        },
        deadlineMs: clock.monotonicMs() + Math.min(CONNECT_MS, Math.max(CONNECT_MIN_MS, leftMs)),
        responses,
      });
      const done = follow(call, requests).finally(() => over.abort(ended()));
      return { call, iceServers: optionalConfig?.additionalIceServers ?? [], over: done };
    }
  } catch (error) {
    over.abort(ended());
    responses.end();
    throw error;
  }
}

function ended(): SvcError {
  return new SvcError("canceled", "the call is over");
}

async function next(
  requests: AsyncIterator<AnswerRequest>,
  clock: Clock,
  silenceMs: number,
  signal: AbortSignal,
): Promise<AnswerRequest> {
  const silent = () =>
    new SvcError("unavailable", `the signaling server said nothing for ${silenceMs / 1000} s`);
  const limit = deadline(clock, silenceMs, silent, signal);
  try {
    const { value, done } = await race(requests.next(), limit.signal);
    if (!done) return value;
  } finally {
    limit.done();
  }

  throw new SvcError("unavailable", "the signaling server has ended the stream");
}

/** Passes on the caller's updates, until the call is over. Never rejects. */
async function follow(call: StreamCall, requests: AsyncIterator<AnswerRequest>): Promise<void> {
  try {
    for (;;) {
      const { value, done } = await requests.next();
      if (done) return call.callerDone();
      const { uuid, stage } = value as AnswerRequest;
      if (uuid !== call.id) continue;
      if (stage.case === "update") call.callerCandidate(candidateFrom(stage.value.candidate));
      else if (stage.case === "done") call.callerDone();
      else if (stage.case === "error") {
        const { code = CODES.unknown, message = "" } = stage.value.status ?? {};
        throw SvcError.fromStatus(code, message);
      }
    }
  } catch (error) {
    call.callerGone(SvcError.from(error));
  }
}

interface StreamCallParts extends Pick<IncomingCall, "id" | "offer" | "deadlineMs"> {
  readonly responses: Queue<AnswerResponse>;
}

class StreamCall implements IncomingCall {
  readonly candidates = new Queue<IceCandidate>(WEBRTC_LIMITS.candidates);
  readonly id: string;
  readonly offer: IncomingCall["offer"];
  readonly deadlineMs: number;
  readonly #responses: Queue<AnswerResponse>;

  constructor({ id, offer, deadlineMs, responses }: StreamCallParts) {
    this.id = id;
    this.offer = offer;
    this.deadlineMs = deadlineMs;
    this.#responses = responses;
  }

  answer(sdp: string): void {
    this.#respond({ case: "init", value: { sdp } });
  }

  candidate(candidate: IceCandidate): void {
    this.#respond({ case: "update", value: { candidate: candidateMessage(candidate) } });
  }

  done(): void {
    this.#respond({ case: "done", value: {} });
    this.#responses.close();
  }

  fail(error: SvcError): void {
    this.#respond({ case: "error", value: { status: statusOf(error) } });
    this.#responses.close();
  }

  callerCandidate(candidate: IceCandidate): void {
    // Excess responses are not needed.
    this.candidates.push(candidate);
  }

  callerDone(): void {
    this.candidates.close();
  }

  callerGone(error: SvcError): void {
    this.candidates.end(error);
    this.#responses.end();
  }

  #respond(stage: MessageInitShape<typeof AnswerResponseSchema>["stage"]): void {
    this.#responses.push(create(AnswerResponseSchema, { uuid: this.id, stage }));
  }
}
