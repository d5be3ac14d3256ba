/**
 * Calls between those who want to reach a host and those who answer for it.
 *
 * A caller leaves an offer under the name of a host; whoever answers for that host takes it. From then on the two tell
 * each other through the call: the answer, then candidates of both, until the connection is there, one of them gives up
 * or the time is over. It does not matter to either whether the other is in this program or behind a stream.
 *
 * The room owns how WebRTC connections are arranged: the queue of calls, SignalingService over it, whoever answers with
 * a peer, and whoever dials.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Queue } from "../../base/queue.ts";
import type { Peer } from "../service.ts";
import type { Candidate } from "../webrtc/description.ts";
import { CONNECT_MS, WEBRTC_LIMITS } from "../webrtc/limits.ts";

/** How much a queue keeps. */
export interface CallQueueLimits {
  /** Calls that are not connected yet, of all hosts. */
  readonly calls: number;
  /** The same of one host. */
  readonly callsOfHost: number;
  /** Candidates of one side that the other side has not taken. */
  readonly candidates: number;
  /** From the offer to the connection. */
  readonly connectMs: number;
}

export const CALL_QUEUE_LIMITS: CallQueueLimits = {
  calls: 1024,
  callsOfHost: WEBRTC_LIMITS.offers,
  candidates: WEBRTC_LIMITS.candidates,
  connectMs: CONNECT_MS,
};

/** Who calls, as far as signaling has found out. */
export type Caller = Omit<Peer, "kind">;

/** What a caller asks for. */
export interface Offer {
  /** A session description, as it travels. */
  readonly sdp: string;
  /** All candidates are to be in the descriptions. */
  readonly disableTrickle: boolean;
  readonly caller: Caller;
}

/** What the caller hears: the answer first, then candidates. */
export type AnswerStage = { readonly sdp: string } | { readonly candidate: Candidate };

/** A call, as the caller has it. */
export interface OutgoingCall {
  readonly id: string;
  /** Ends when the connection is there, or with the reason why there is none. Has one reader. */
  readonly stages: AsyncIterable<AnswerStage>;
  /** The caller waits for no more stages: if it has the answer, the call goes on without it. */
  leave(): void;
}

/** A call, as whoever answers it has it. */
export interface IncomingCall extends Offer {
  readonly id: string;
  /** By when it has to be connected, on the clock's monotonic time. */
  readonly deadlineMs: number;
  /** The caller's candidates; ends after the last one, or with the reason why the call is over. Has one reader. */
  readonly candidates: AsyncIterable<Candidate>;
  /** The session description of the answer, as it travels; once, and before candidates. */
  answer(sdp: string): void;
  candidate(candidate: Candidate): void;
  /** The connection is there, or the other side has all that it needs: there are no more stages. */
  done(): void;
  /** There will be no connection. */
  fail(error: SvcError): void;
}

/** What a caller tells after its offer. */
export type CallerUpdate =
  | { readonly candidate: Candidate }
  | { readonly done: true }
  | { readonly error: SvcError };

interface CallQueueParts {
  readonly clock: Clock;
  readonly limits?: Partial<CallQueueLimits>;
}

export class CallQueue {
  readonly #clock: Clock;
  readonly #limits: CallQueueLimits;
  /** All that are not connected yet, by their ids. */
  readonly #calls = new Map<string, Call>();
  /** Those that nobody has taken, oldest first. */
  readonly #offered = new Set<Call>();
  readonly #takers = new Set<Taker>();

  constructor({ clock, limits = {} }: CallQueueParts) {
    this.#clock = clock;
    this.#limits = { ...CALL_QUEUE_LIMITS, ...limits };
  }

  /** How many calls are not connected yet. */
  get size(): number {
    return this.#calls.size;
  }

  /** Offers a call to those who answer for `host`. Throws `resource_exhausted` where too many wait. */
  offer(host: string, offer: Offer): OutgoingCall {
    const { calls, callsOfHost, connectMs } = this.#limits;
    const ofHost = this.#calls.values().filter((one) => one.host === host).toArray().length;
    if (this.#calls.size >= calls || ofHost >= callsOfHost) {
      const limit = this.#calls.size >= calls ? `${calls} calls` : `${callsOfHost} calls to ${host}`;
      throw new SvcError(
        "resource_exhausted",
        `cannot call ${host}: ${limit} are on their way; try again later`,
      );
    }
    const deadlineMs = this.#clock.monotonicMs() + connectMs;
    const call: Call = new Call(host, offer, deadlineMs, this.#limits.candidates, () => {
      stop();
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

  /** What the caller of `id` has to add. Throws `not_found` where there is no such call to `host` any more. */
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

  /** Whether nobody has taken this call yet. */
  waits(id: string): boolean {
    const call = this.#calls.get(id);
    return call !== undefined && this.#offered.has(call);
  }

  /** Whether somebody waits for calls to this host. */
  isAwaited(host: string): boolean {
    return this.#takers.values().some(({ hosts }) => hosts.includes(host));
  }

  /** Takes this very call, if nobody has taken it yet. */
  takeNow(id: string): IncomingCall | undefined {
    const call = this.#calls.get(id);
    return call && this.#offered.delete(call) ? call : undefined;
  }

  /** Ends all calls that are not connected yet. */
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

/** Both ends of a call. */
class Call implements IncomingCall {
  readonly id = crypto.randomUUID();
  readonly sdp: string;
  readonly disableTrickle: boolean;
  readonly caller: Caller;
  readonly candidates: Queue<Candidate>;
  readonly outgoing: OutgoingCall;
  readonly #stages: Queue<AnswerStage>;
  readonly #candidatesMax: number;
  #candidates = 0;
  #answered = false;
  #callerDone = false;
  #done = false;
  #over = false;

  constructor(
    readonly host: string,
    { sdp, disableTrickle, caller }: Offer,
    readonly deadlineMs: number,
    candidatesMax: number,
    private readonly ended: () => void,
  ) {
    this.sdp = sdp;
    this.disableTrickle = disableTrickle;
    this.caller = caller;
    this.#candidatesMax = candidatesMax;
    this.candidates = new Queue(candidatesMax);
    // The answer, and the candidates after it.
    this.#stages = new Queue(1 + candidatesMax);
    this.outgoing = { id: this.id, stages: this.#stages, leave: () => this.#leave() };
  }

  callerCandidate(candidate: Candidate): void {
    if (++this.#candidates > this.#candidatesMax) {
      const limit = `at most ${this.#candidatesMax} are taken`;
      throw new SvcError("resource_exhausted", `too many ICE candidates of the caller, ${limit}`);
    }
    // Those that come after the connection is there are not needed.
    this.candidates.push(candidate);
  }

  callerDone(): void {
    this.#callerDone = true;
    this.candidates.close();
    if (this.#done) this.end();
  }

  answer(sdp: string): void {
    if (this.#answered) throw new SvcError("invalid_argument", "the call has been answered already");
    this.#answered = true;
    this.#stages.push({ sdp });
  }

  candidate(candidate: Candidate): void {
    if (!this.#answered) throw new SvcError("invalid_argument", "the answer comes before its candidates");
    // More than there is room for are not needed.
    this.#stages.push({ candidate });
  }

  done(): void {
    this.#done = true;
    this.#stages.close();
    if (this.#callerDone) this.end();
  }

  fail(error: SvcError): void {
    this.end(error);
  }

  /** A caller that has all it needs reads no more; without an answer it has given up. */
  #leave(): void {
    if (!this.#answered) this.fail(new SvcError("canceled", "the caller has given up"));
  }

  /** Whether those who answer have said all. */
  get isDone(): boolean {
    return this.#done;
  }

  /** Ends both sides. The first reason counts. */
  end(error?: SvcError): void {
    if (this.#over) return;
    this.#over = true;
    this.ended();
    this.#stages.close(error);
    if (error) this.candidates.end(error);
    else this.candidates.close();
  }
}
