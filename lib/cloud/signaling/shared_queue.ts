/**
 * The calls of several control planes on one database: a caller at one of them reaches a machine that is connected to
 * another.
 *
 * Each process has a queue of its own. If no machine takes a call there, it asks the others by notices. The first
 * process with a waiting machine claims the call and gets the offer; then the two pass on what caller and machine
 * send. A lost notice means that the call does not connect in time, and the caller calls again. Tokens of callers stay
 * in the process that received them.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf, type Code, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { isObject } from "../../base/schema/schema.ts";
import type {
  AnswerStage,
  CallerUpdate,
  CallOffer,
  CallQueue,
  IncomingCall,
  OutgoingCall,
} from "../../wire/signaling/call_queue.ts";
import { CONNECT_MS } from "../../wire/webrtc/limits.ts";
import type { Notices } from "../store/notices.ts";

/** The operations of signaling on calls. */
export type Calls = Pick<CallQueue, "offer" | "update" | "take" | "close">;

/** Interval of the requests to the other processes while a call waits. */
const SEEK_MS = 500;
const HEAR_AGAIN_MS = 5_000;

interface Reported {
  readonly from: string;
  /** The receiver; absent for all. */
  readonly to?: string;
  /** The id of the call in the process where it was made. */
  readonly call: string;
}

interface Failure {
  readonly code: Code;
  readonly message: string;
}

type SentUpdate = Extract<CallerUpdate, { candidate: unknown } | { done: true }> | {
  readonly error: Failure;
};

/** The messages between processes. */
type Notice =
  & Reported
  & (
    /** Asks which process has a machine that serves this host. */
    | { readonly kind: "seek"; readonly host: string }
    | { readonly kind: "claim" }
    | { readonly kind: "offer"; readonly host: string; readonly offer: CallOffer }
    | { readonly kind: "stage"; readonly stage: AnswerStage }
    /** There are no more stages. */
    | { readonly kind: "over"; readonly error?: Failure }
    | { readonly kind: "caller"; readonly update: SentUpdate }
    /** From a process that received the caller's update, to the one that has the call. */
    | { readonly kind: "update"; readonly host: string; readonly update: SentUpdate }
  );

type Message = Notice extends infer N ? N extends Notice ? Omit<N, "from"> : never : never;

export interface SharedQueueParts {
  readonly local: CallQueue;
  readonly notices: Notices;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class SharedQueue implements Calls {
  readonly #id = crypto.randomUUID();
  readonly #closing = new AbortController();
  /** The hosts of calls made here that no machine has taken yet. */
  readonly #sought = new Map<string, string>();
  /** Calls made here that another process has claimed. */
  readonly #given = new Map<string, { readonly incoming: IncomingCall; readonly callOff: () => void }>();
  /** Calls of other processes that are offered here: the id here, and the host. */
  readonly #taken = new Map<string, { readonly id: string; readonly host: string }>();
  #listening: Promise<void>;

  constructor(private readonly parts: SharedQueueParts) {
    this.#listening = this.#hear();
  }

  offer(host: string, offer: CallOffer): OutgoingCall {
    const call = this.parts.local.offer(host, offer);
    void this.#seek(host, call.id);
    return call;
  }

  update(id: string, host: string, update: CallerUpdate): void {
    try {
      this.parts.local.update(id, host, update);
    } catch (thrown) {
      const error = SvcError.from(thrown);
      if (error.code !== "not_found") throw error;
      this.#tell({ kind: "update", call: id, host, update: sent(update) });
    }
  }

  take(hosts: readonly string[], signal: AbortSignal): Promise<IncomingCall> {
    return this.parts.local.take(hosts, signal);
  }

  close(): void {
    this.#closing.abort(new SvcError("unavailable", "the control plane is stopping"));
    this.parts.local.close();
    for (const call of [...this.#given.keys()]) this.#forget(call);
  }

  /** Resolves when no notice is processed any more. */
  async closed(): Promise<void> {
    await this.#listening;
  }

  async #hear(): Promise<void> {
    const { notices, clock, logger } = this.parts;
    const { signal } = this.#closing;
    let stop: (() => Promise<void>) | undefined;
    while (!stop && !signal.aborted) {
      try {
        stop = await notices.hear("signaling", (text) => this.#heard(text));
      } catch (error) {
        logger.warn(`cannot hear of calls at other control planes: ${chainOf(error)}`);
        await clock.sleep(HEAR_AGAIN_MS, signal).catch(() => {});
      }
    }
    const { promise: aborted, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve());
    if (!signal.aborted) await aborted;
    await stop?.().catch(() => {});
  }

  /** Asks the others for as long as a call waits. */
  async #seek(host: string, call: string): Promise<void> {
    const { local, clock } = this.parts;
    this.#sought.set(call, host);
    while (local.waits(call) && !this.#closing.signal.aborted) {
      this.#tell({ kind: "seek", call, host });
      await clock.sleep(SEEK_MS, this.#closing.signal).catch(() => {});
    }
    this.#sought.delete(call);
  }

  #tell(message: Message): void {
    const { notices, logger } = this.parts;
    notices.tell("signaling", JSON.stringify({ ...message, from: this.#id })).catch((error) => {
      logger.debug(`cannot tell other control planes of a call: ${chainOf(error)}`);
    });
  }

  #heard(text: string): void {
    let notice: Notice;
    try {
      notice = JSON.parse(text);
      if (!isObject(notice) || notice.from === this.#id) return;
      if (notice.to === undefined || notice.to === this.#id) this.#take(notice);
    } catch (error) {
      this.parts.logger.debug(`a notice of another control plane cannot be used: ${chainOf(error)}`);
    }
  }

  #take(notice: Notice): void {
    const { local } = this.parts;
    const { from, call } = notice;
    switch (notice.kind) {
      case "seek":
        if (local.isAwaited(notice.host)) this.#tell({ kind: "claim", to: from, call });
        return;
      case "claim":
        return void this.#give(call, from);
      case "offer":
        return void this.#answer(notice);
      case "stage": {
        const given = this.#given.get(call)?.incoming;
        if ("sdp" in notice.stage) given?.answer(notice.stage.sdp);
        else given?.candidate(notice.stage.candidate);
        return;
      }
      case "over": {
        const given = this.#forget(call);
        return notice.error ? given?.fail(failed(notice.error)) : given?.done();
      }
      case "caller": {
        const taken = this.#taken.get(call);
        if (taken) local.update(taken.id, taken.host, received(notice.update));
        return;
      }
      case "update":
        return local.update(call, notice.host, received(notice.update));
    }
  }

  /** Hands a call to the first process that claims it, and passes on what the caller sends. */
  async #give(call: string, to: string): Promise<void> {
    const { local, clock } = this.parts;
    const host = this.#sought.get(call);
    const incoming = host === undefined ? undefined : local.takeNow(call);
    if (host === undefined || !incoming) return;
    const { sdp, disableTrickle, owner, caller: { token: _, ...caller } } = incoming.offer;
    const callOff = clock.after(CONNECT_MS, () => this.#given.delete(call));
    this.#given.set(call, { incoming, callOff });
    this.#tell({ kind: "offer", to, call, host, offer: { sdp, disableTrickle, caller, owner } });
    try {
      for await (const candidate of incoming.candidates) {
        this.#tell({ kind: "caller", to, call, update: { candidate } });
      }
      this.#tell({ kind: "caller", to, call, update: { done: true } });
    } catch (error) {
      this.#forget(call);
      this.#tell({ kind: "caller", to, call, update: sent({ error: SvcError.from(error) }) });
    }
  }

  #forget(call: string): IncomingCall | undefined {
    const given = this.#given.get(call);
    given?.callOff();
    this.#given.delete(call);
    return given?.incoming;
  }

  /** Offers another process's call to the machines here, and passes on what they send. */
  async #answer({ from: to, call, host, offer }: Extract<Notice, { kind: "offer" }>): Promise<void> {
    let error: Failure | undefined;
    try {
      const { id, stages } = this.parts.local.offer(host, offer);
      this.#taken.set(call, { id, host });
      for await (const stage of stages) this.#tell({ kind: "stage", to, call, stage });
    } catch (thrown) {
      error = failureOf(SvcError.from(thrown));
    } finally {
      this.#taken.delete(call);
    }
    this.#tell({ kind: "over", to, call, error });
  }
}

function sent(update: CallerUpdate): SentUpdate {
  return "error" in update ? { error: failureOf(update.error) } : update;
}

function received(update: SentUpdate): CallerUpdate {
  return "error" in update ? { error: failed(update.error) } : update;
}

function failureOf({ code, message }: SvcError): Failure {
  return { code, message };
}

function failed({ code, message }: Failure): SvcError {
  return new SvcError(code, message);
}
