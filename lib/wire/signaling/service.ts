/**
 * SignalingService: callers offer and update calls and get answers; remote answerers serve hosts over a stream of
 * their own.
 *
 * Owns the published messages and texts. The program decides whom a caller may reach, and who may answer for a host.
 */

import {
  type AnswerRequest,
  AnswerRequestSchema,
  type AnswerResponse,
  type CallRequest,
  type CallResponse,
  CallResponseSchema,
  type CallUpdateRequest,
  type ICECandidate,
  SignalingService,
} from "../../../proto/gen/signaling_pb.ts";
import { type Clock, race } from "../../base/clock.ts";
import { CODES, SvcError } from "../../base/error.ts";
import { Secret } from "../../base/secret.ts";
import type { Metadata } from "../rpc/metadata.ts";
import { create, type MessageInitShape, timestampFromMs } from "../rpc/proto.ts";
import { type CallContext, type Service, service, statusOf } from "../rpc/service.ts";
import type { IceServer } from "../webrtc/ice_choice.ts";
import type { IceCandidate } from "../webrtc/description.ts";
import { CANDIDATE_BYTES_MAX } from "../webrtc/limits.ts";
import type { AnswerStage, Caller, CallerUpdate, CallQueue, IncomingCall } from "./call_queue.ts";

type Awaitable<T> = T | Promise<T>;

/** Metadata keys of a call's host, and of an answerer's hosts. */
export const HOST = "rpc-host";
/** Hosts per answering stream (the published limit). */
const HOSTS_MAX = 5;
const HOST_LENGTH_MAX = 256;

export interface SignalingParts {
  readonly queue: Pick<CallQueue, "offer" | "update" | "take">;
  readonly clock: Clock;
  /** The queue's name of the host that a caller names; `undefined` if this caller has no such host. */
  readonly hostOf: (name: string, ctx: CallContext) => Awaitable<string | undefined>;
  /** The owner of a host by its queue's name (`CallOffer.owner`). */
  readonly ownerOf?: (host: string) => Awaitable<string>;
  /** ICE servers for callers and answerers. */
  readonly iceServers?: (host: string, ctx: CallContext) => Awaitable<readonly IceServer[]>;
  /** Throws unless the caller may answer for the hosts; absent without remote answerers. */
  readonly answering?: Answering;
}

/** Support for remote answerers. */
export interface Answering {
  /** The queue's names of the hosts that the caller answers for. Throws for a host that it may not. */
  hosts(names: readonly string[], ctx: CallContext): Awaitable<readonly string[]>;
  /** The generation of the caller's key, for the answerer (`Peer.generation`). */
  generationOf?(caller: Caller): Awaitable<string | undefined>;
  /**
   * Called when an answerer for these hosts connects, to count or refuse it; the function that it returns, when it
   * disconnects.
   */
  online?(hosts: readonly string[], ctx: CallContext): () => void;
}

/** Passes facts about the caller's key to the answerer. */
export const GENERATION = "svc_gen";

/** Interval of heartbeats to waiting answerers (published). */
const HEARTBEAT_MS = 15_000;
export const HEARTBEATS_ALLOWED = "heartbeats-allowed";
/**
 * Not published: an answerer asks for heartbeats at an interval in seconds, from the second one on; a server that
 * knows the header repeats it. The connection's own pings find a broken connection anyway.
 */
export const HEARTBEAT_SECONDS = "svc-heartbeat-seconds";
const HEARTBEAT_MAX_MS = 3_600_000;

export function signalingService(parts: SignalingParts): Service {
  const { queue } = parts;
  return service(SignalingService, {
    call: (request, ctx) => call(parts, request, ctx),
    callUpdate: async ({ uuid, update }, ctx) => {
      queue.update(uuid, await hostFor(parts, ctx), updateOf(update));
      return {};
    },
    answer: parts.answering && ((responses, ctx) => answer(parts, parts.answering!, responses, ctx)),
    optionalWebRTCConfig: async (_request, ctx) => {
      const servers = await parts.iceServers?.(await hostFor(parts, ctx), ctx) ?? [];
      return { config: { additionalIceServers: servers.map(serverMessage) } };
    },
    // The message is ignored.
    reportConnectionMetadata: () => ({}),
  });
}

async function* call(
  parts: SignalingParts,
  { sdp, disableTrickle }: CallRequest,
  ctx: CallContext,
): AsyncGenerator<CallResponse> {
  const host = await hostFor(parts, ctx);
  const owner = await parts.ownerOf?.(host);
  const offer = { sdp, disableTrickle, caller: callerOf(ctx), owner };
  const { id: uuid, stages, leave } = parts.queue.offer(host, offer);
  try {
    for await (const stage of stages) {
      yield create(CallResponseSchema, { uuid, stage: callStage(stage) });
    }
  } finally {
    leave();
  }
}

function callStage(stage: AnswerStage) {
  if ("sdp" in stage) return { case: "init" as const, value: { sdp: stage.sdp } };
  return { case: "update" as const, value: { candidate: candidateMessage(stage.candidate) } };
}

function updateOf(update: CallUpdateRequest["update"]): CallerUpdate {
  switch (update.case) {
    case "candidate":
      return { candidate: candidateFrom(update.value) };
    case "done":
      return { done: true };
    case "error":
      return { error: new SvcError("aborted", `the caller has given up: ${update.value.message}`) };
  }
  throw new SvcError("invalid_argument", "the update has no stage");
}

/** Serves a remote answerer, one call after another (published). */
async function* answer(
  { queue, clock, iceServers }: SignalingParts,
  answering: Answering,
  responses: AsyncIterable<AnswerResponse>,
  ctx: CallContext,
): AsyncGenerator<AnswerRequest> {
  const names = hostNames(ctx, HOSTS_MAX);
  const hosts = await answering.hosts(names, ctx);
  const offline = answering.online?.(hosts, ctx);
  const incoming = responses[Symbol.asyncIterator]();
  try {
    const taken = yield* waited(queue, hosts, clock, ctx);
    const listening = listen(incoming, taken, ctx.signal);
    const { offer: { sdp, disableTrickle, caller }, deadlineMs } = taken;
    const [host = ""] = hosts;
    const servers = await iceServers?.(host, ctx) ?? [];
    const leftMs = deadlineMs - clock.monotonicMs();
    const deadline = timestampFromMs(Math.round(clock.nowMs() + leftMs));

    const optionalConfig = {
      additionalIceServers: servers.map(serverMessage),
      disableTrickle,
    };
    const generation = await answering.generationOf?.(caller);
    const value = {
      sdp,
      optionalConfig,
      deadline,
      callerAuthEntity: caller.entity ?? "",
      callerAuthMetadata: generation === undefined ? undefined : { [GENERATION]: generation },
    };
    yield stageOf(taken, { case: "init", value });

    try {
      for await (const candidate of taken.candidates) {
        yield stageOf(taken, { case: "update", value: { candidate: candidateMessage(candidate) } });
      }
      yield stageOf(taken, { case: "done", value: {} });
    } catch (error) {
      yield stageOf(taken, { case: "error", value: { status: statusOf(SvcError.from(error)) } });
    }

    await listening;
  } finally {
    offline?.();
  }
}

/** The interval that an answerer asks for; `undefined` if it asks for none. */
export function heartbeatMsIn(header: Metadata): number | undefined {
  const seconds = header.get(HEARTBEAT_SECONDS) ?? "";
  if (!/^\d{1,6}$/.test(seconds)) return undefined;
  return Math.min(Math.max(HEARTBEAT_MS, Number(seconds) * 1000), HEARTBEAT_MAX_MS);
}

/** The next call; sends heartbeats until it comes. */
async function* waited(
  queue: SignalingParts["queue"],
  hosts: readonly string[],
  clock: Clock,
  ctx: CallContext,
): AsyncGenerator<AnswerRequest, IncomingCall> {
  const taking = queue.take(hosts, ctx.signal);
  const beats = ctx.requestHeader.get(HEARTBEATS_ALLOWED) === "true";
  const wantedMs = heartbeatMsIn(ctx.requestHeader);
  if (wantedMs !== undefined) ctx.responseHeader.set(HEARTBEAT_SECONDS, String(wantedMs / 1000));

  for (let intervalMs = HEARTBEAT_MS;; intervalMs = wantedMs ?? HEARTBEAT_MS) {
    if (!beats) return await taking;
    const over = new AbortController();
    const heartbeat = clock.sleep(intervalMs, over.signal).then(() => undefined, () => undefined);
    const taken = await Promise.race([taking, heartbeat]).finally(() => over.abort());
    if (taken) return taken;
    yield create(AnswerRequestSchema, { stage: { case: "heartbeat", value: {} } });
  }
}

/** Passes the answerer's stages to the caller, until one of them ends the call. */
async function listen(
  responses: AsyncIterator<AnswerResponse>,
  call: IncomingCall,
  signal: AbortSignal,
): Promise<void> {
  try {
    for (;;) {
      const { value: response, done } = await race(responses.next(), signal);
      if (done) throw new SvcError("unavailable", "the answerer of the call has disconnected");
      if (response.uuid !== call.id) continue;
      const { stage } = response;
      if (stage.case === "init") call.answer(stage.value.sdp);
      else if (stage.case === "update") call.candidate(candidateFrom(stage.value.candidate));
      else if (stage.case === "done") return call.done();
      else if (stage.case === "error") {
        const { code = CODES.unknown, message = "" } = stage.value.status ?? {};
        throw SvcError.fromStatus(code, message);
      }
    }
  } catch (error) {
    call.fail(SvcError.from(error));
  }
}

function stageOf(
  { id: uuid }: IncomingCall,
  stage: MessageInitShape<typeof AnswerRequestSchema>["stage"],
): AnswerRequest {
  return create(AnswerRequestSchema, { uuid, stage });
}

/** The queue's name of the caller's host. */
async function hostFor(parts: SignalingParts, ctx: CallContext): Promise<string> {
  const [name = ""] = hostNames(ctx, 1);
  const host = await parts.hostOf(name, ctx);
  if (host !== undefined) return host;
  // Clients recognize this text as the advice to connect directly.
  throw new SvcError("invalid_argument", "host not preconfigured");
}

/** The names in the metadata of a call. */
function hostNames(ctx: CallContext, max: number): readonly string[] {
  const names = ctx.requestHeader.all(HOST);
  if (names.length < 1 || names.length > max) {
    const wanted = max === 1 ? "one" : `one to ${max}`;
    throw new SvcError(
      "invalid_argument",
      `the metadata has ${names.length} times ${HOST}, wanted ${wanted}`,
    );
  }
  const long = names.find((name) => name.length > HOST_LENGTH_MAX);
  if (long === undefined) return names;
  throw new SvcError("invalid_argument", `${HOST} is longer than ${HOST_LENGTH_MAX} characters`);
}

/** The caller's identity for the answerer: the token is not sent again over WebRTC. */
function callerOf({ entity, peer, requestHeader }: CallContext): Caller {
  const { kind: _, ...caller } = peer;
  const [scheme, token] = requestHeader.get("authorization")?.split(" ", 2) ?? [];
  return { ...caller, entity, ...scheme === "Bearer" && token ? { token: new Secret(token) } : {} };
}

export function candidateMessage({ candidate, mid = "0" }: IceCandidate) {
  return { candidate, sdpMid: mid, sdpmLineIndex: 0 };
}

export function candidateFrom(message: ICECandidate | undefined): IceCandidate {
  const { candidate = "", sdpMid: mid } = message ?? {};
  if (candidate.length > CANDIDATE_BYTES_MAX) {
    const limit = `wanted at most ${CANDIDATE_BYTES_MAX}`;
    throw new SvcError("invalid_argument", `an ICE candidate has ${candidate.length} characters, ${limit}`);
  }
  return { candidate, mid };
}

function serverMessage({ urls, username = "", credential = "" }: IceServer) {
  return { urls: [...urls], username, credential };
}
