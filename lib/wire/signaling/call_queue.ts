/**
 * Calls between callers of a host and the answerers for it.
 *
 * A caller leaves an offer under the name of a host; an answerer for that host takes it. From then on the two exchange
 * through the call: the answer, then candidates of both, until they are connected, one of them gives up or the time is
 * over. Neither sees whether the other is in this program or behind a stream.
 *
 * The room owns how WebRTC connections are arranged: the queue of calls, SignalingService over it, the answerer with
 * its peers, and the dialer.
 */

import { SharedPool } from "../../base/async/shared_pool.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Queue } from "../../base/collections/queue.ts";
import type { Peer } from "../rpc/service.ts";
import type { IceCandidate } from "../webrtc/description.ts";
import { CONNECT_MS, WEBRTC_LIMITS } from "../webrtc/limits.ts";

/** The limits of a queue. */
export interface CallQueueLimits {
  /** Unconnected calls, of all hosts. */
  readonly calls: number;
  /** Unconnected calls to all hosts of one owner. */
  readonly callsOfOwner: number;
  /** Unconnected calls to one host. */
  readonly callsOfHost: number;
  /** Unconnected calls of one caller to a host. */
  readonly callsOfCaller: number;
  /** Candidates of one side that the other has not taken. */
  readonly candidates: number;
  /** Time from the offer to the connection. */
  readonly connectMs: number;
}

const CALL_QUEUE_LIMITS: CallQueueLimits = {
  calls: 1024,
  callsOfOwner: 256,
  callsOfHost: WEBRTC_LIMITS.offers,
  callsOfCaller: WEBRTC_LIMITS.offers / 2,
  candidates: WEBRTC_LIMITS.candidates,
  connectMs: CONNECT_MS,
};

/** The caller's identity, as far as signaling knows it. */
export type Caller = Omit<Peer, "kind">;

/** A caller's request. */
export interface CallOffer {
  /** The session description in its transit form. */
  readonly sdp: string;
  /** Whether the descriptions must contain all candidates. */
  readonly disableTrickle: boolean;
  readonly caller: Caller;
  /** The owner of the host, such as an organization; absent if all hosts have the same owner. */
  readonly owner?: string;
}

/** The stages of an answer: the description first, then candidates. */
export type AnswerStage = { readonly sdp: string } | { readonly candidate: IceCandidate };

/** The caller's view of a call. */
export interface OutgoingCall {
  readonly id: string;
  /** Ends when the call is connected, or with the reason why not. Has one reader. */
  readonly stages: AsyncIterable<AnswerStage>;
  /** The caller needs no more stages: if it has the answer, the call continues without it. */
  leave(): void;
}

/** The answerer's view of a call. */
export interface IncomingCall {
  readonly id: string;
  readonly offer: CallOffer;
  /** The deadline of the connection, on the clock's monotonic time. */
  readonly deadlineMs: number;
  /** The caller's candidates; ends after the last one, or with the reason why the call is over. Has one reader. */
  readonly candidates: AsyncIterable<IceCandidate>;
  /** Sends the answer in its transit form; once, and before candidates. */
  answer(sdp: string): void;
  candidate(candidate: IceCandidate): void;
  /** The call is connected, or the other side has everything it needs: no more stages follow. */
  done(): void;
  /** The call cannot be connected. */
  fail(error: SvcError): void;
}

/** The caller's updates after its offer. */
export type CallerUpdate =
  | { readonly candidate: IceCandidate }
  | { readonly done: true }
  | { readonly error: SvcError };

interface CallQueueParts {
  readonly clock: Clock;
  readonly limits?: Partial<CallQueueLimits>;
}

export class CallQueue {
  readonly #clock: Clock;
  readonly #limits: CallQueueLimits;
  readonly #pool: SharedPool;
  /** All unconnected calls, by id. */
  readonly #calls = new Map<string, Call>();
  /** Calls that no answerer has taken, oldest first. */
  readonly #offered = new Set<Call>();
  readonly #takers = new Set<Taker>();

  constructor({ clock, limits = {} }: CallQueueParts) {
    this.#clock = clock;
    this.#limits = { ...CALL_QUEUE_LIMITS, ...limits };
    const { calls, callsOfOwner, callsOfHost, callsOfCaller } = this.#limits;
    const shares = [calls, callsOfOwner, callsOfHost, callsOfCaller];
    const levels = ["this server", "one organization", "one machine", "one caller to a machine"];
    this.#pool = new SharedPool({ shares, levels, what: "pending calls" }, clock);
  }

  /** The number of unconnected calls. */
  get size(): number {
    return this.#calls.size;
  }

  /** Offers a call to the answerers for `host`. Throws `resource_exhausted` if too many wait and none gives way. */
  offer(host: string, offer: CallOffer): OutgoingCall {
    const { connectMs } = this.#limits;
    const { owner = "", caller: { entity, remoteAddress } } = offer;
    const path = [owner, host, entity ?? `address ${remoteAddress}`];
    const holder = this.#pool.take(path, (reason) => call.fail(reason));
    const deadlineMs = this.#clock.monotonicMs() + connectMs;
    const call: Call = new Call(host, offer, deadlineMs, this.#limits.candidates, () => {
      stop();
      holder.release();
      this.#calls.delete(call.id);
      this.#offered.delete(call);
    });
    const stop = this.#clock.after(connectMs, () => {
      if (call.isDone) return call.end();
      const problem = this.#offered.has(call)
        ? `nobody has answered for ${host} within ${connectMs} ms; is the machine online?`
        : `no WebRTC connection to ${host} within ${connectMs} ms`;
      call.fail(new SvcError(this.#offered.has(call) ? "unavailable" : "deadline_exceeded", problem));
    });

    this.#calls.set(call.id, call);
    const taker = this.#takers.values().find(({ hosts }) => hosts.includes(host));
    if (taker) this.#hand(call, taker);
    else this.#offered.add(call);

    return call.outgoing;
  }

  /** An update of the caller of `id`. Throws `not_found` if `host` has no such call any more. */
  update(id: string, host: string, update: CallerUpdate): void {
    const call = this.#calls.get(id);
    if (call?.host !== host) {
      throw new SvcError("not_found", `there is no call ${id} to ${host}, or it is connected or over`);
    }
    if ("candidate" in update) call.callerCandidate(update.candidate);
    else if ("error" in update) call.fail(update.error);
    else call.callerDone();
  }

  /** The next call to any of these hosts. Rejects with the signal's reason when it aborts. */
  take(hosts: readonly string[], signal: AbortSignal): Promise<IncomingCall> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingCall>();
    if (signal.aborted) {
      reject(signal.reason);
      return promise;
    }

    const aborted = () => {
      this.#takers.delete(taker);
      reject(signal.reason);
    };
    const taker: Taker = {
      hosts,
      take: (call) => {
        signal.removeEventListener("abort", aborted);
        resolve(call);
      },
    };
    signal.addEventListener("abort", aborted, { once: true });
    this.#takers.add(taker);

    const call = this.#offered.values().find(({ host }) => hosts.includes(host));
    if (call) this.#hand(call, taker);
    return promise;
  }

  /** Whether no answerer has taken this call yet. */
  waits(id: string): boolean {
    const call = this.#calls.get(id);
    return call !== undefined && this.#offered.has(call);
  }

  /** Whether an answerer waits for calls to this host. */
  isAwaited(host: string): boolean {
    return this.#takers.values().some(({ hosts }) => hosts.includes(host));
  }

  /** Takes the call with this id, if no answerer has taken it yet. */
  takeNow(id: string): IncomingCall | undefined {
    const call = this.#calls.get(id);
    return call && this.#offered.delete(call) ? call : undefined;
  }

  /** Ends all unconnected calls. */
  close(): void {
    for (const call of [...this.#calls.values()]) {
      call.fail(new SvcError("unavailable", "the server is stopping"));
    }
  }

  #hand(call: Call, taker: Taker): void {
    this.#offered.delete(call);
    this.#takers.delete(taker);
    taker.take(call);
  }
}

interface Taker {
  readonly hosts: readonly string[];
  readonly take: (call: IncomingCall) => void;
}

/** One call: its offer, its way to each side, and its end. */
class Call implements IncomingCall {
  readonly id = crypto.randomUUID();
  readonly outgoing: OutgoingCall;
  readonly candidates: AsyncIterable<IceCandidate>;
  readonly #fromCaller: CallerCandidates;
  readonly #toCaller: AnswerStages;
  #over = false;

  constructor(
    readonly host: string,
    readonly offer: CallOffer,
    readonly deadlineMs: number,
    candidatesMax: number,
    private readonly ended: () => void,
  ) {
    this.#fromCaller = new CallerCandidates(candidatesMax);
    this.#toCaller = new AnswerStages(candidatesMax);
    this.candidates = this.#fromCaller.queue;
    this.outgoing = { id: this.id, stages: this.#toCaller.stages, leave: () => this.#leave() };
  }

  callerCandidate(candidate: IceCandidate): void {
    this.#fromCaller.add(candidate);
  }

  callerDone(): void {
    this.#fromCaller.complete();
    if (this.isDone) this.end();
  }

  answer(sdp: string): void {
    this.#toCaller.answer(sdp);
  }

  candidate(candidate: IceCandidate): void {
    this.#toCaller.add(candidate);
  }

  done(): void {
    this.#toCaller.complete();
    if (this.#fromCaller.isComplete) this.end();
  }

  fail(error: SvcError): void {
    this.end(error);
  }

  /** Whether the answerer has sent everything. */
  get isDone(): boolean {
    return this.#toCaller.isComplete;
  }

  /** Ends both sides. The first reason counts. */
  end(error?: SvcError): void {
    if (this.#over) return;
    this.#over = true;
    this.ended();
    this.#toCaller.end(error);
    this.#fromCaller.end(error);
  }

  /** A caller with an answer may stop reading; without one it has given up. */
  #leave(): void {
    if (!this.#toCaller.isAnswered) this.fail(new SvcError("canceled", "the caller has given up"));
  }
}

/** The caller's candidates on their way to the answerer, at most so many. */
class CallerCandidates {
  readonly queue: Queue<IceCandidate>;
  isComplete = false;
  #count = 0;

  constructor(private readonly max: number) {
    this.queue = new Queue(max);
  }

  add(candidate: IceCandidate): void {
    if (++this.#count > this.max) {
      const limit = `wanted at most ${this.max}`;
      throw new SvcError("resource_exhausted", `too many ICE candidates of the caller, ${limit}`);
    }
    // Candidates after the connection are not needed.
    this.queue.push(candidate);
  }

  complete(): void {
    this.isComplete = true;
    this.queue.close();
  }

  end(error: SvcError | undefined): void {
    if (error) this.queue.end(error);
    else this.queue.close();
  }
}

/** The answer and the candidates after it, on their way to the caller. */
class AnswerStages {
  readonly stages: Queue<AnswerStage>;
  isAnswered = false;
  isComplete = false;

  constructor(candidatesMax: number) {
    this.stages = new Queue(1 + candidatesMax);
  }

  answer(sdp: string): void {
    if (this.isAnswered) throw new SvcError("invalid_argument", "the call has been answered already");
    this.isAnswered = true;
    this.stages.push({ sdp });
  }

  add(candidate: IceCandidate): void {
    if (!this.isAnswered) throw new SvcError("invalid_argument", "the answer comes before its candidates");
    // Excess candidates are not needed.
    this.stages.push({ candidate });
  }

  complete(): void {
    this.isComplete = true;
    this.stages.close();
  }

  end(error: SvcError | undefined): void {
    this.stages.close(error);
  }
}
