/**
 * Turns of calls: a few are worked on at once, and the others wait for a short while.
 *
 * A control plane with more calls than it can answer would otherwise begin all of them: each would wait for the others'
 * statements, and every answer would come after its caller had gone. So it begins only as many as it can end, refuses
 * those that have waited too long, and forgets those whose callers have gone. When calls have waited all the time for a
 * while, further ones wait for a shorter time: what is answered is then answered soon, and the others come back one
 * after another (`ReturnTimes`). Turns and places are shared fairly among organizations, and among the keys of each.
 */

import { ReturnTimes } from "../base/async/return_times.ts";
import { CallerTurns } from "../base/async/turns.ts";
import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { Deadlines } from "../base/async/deadlines.ts";
import type { CallContext, Interceptor } from "../wire/rpc/service.ts";

export interface CallTurnLimits {
  readonly turnsMax: number;
  readonly turnsOfGroupMax: number;
  /** Limits of the waiting calls: of all, of one organization, and of one key. */
  readonly waiting: readonly [number, number, number];
  /** How long a call waits for its turn. */
  readonly waitMs: number;
  /** After this time with calls that wait, a further one waits no longer than this. */
  readonly crowdedMs: number;
  /** A call that takes longer gives its turn to another: it waits for something with limits of its own. */
  readonly holdMs: number;
}

type TurnCall = Pick<CallContext, "method" | "path" | "entity" | "peer" | "signal" | "cancel">;

const LIMITS: CallTurnLimits = {
  turnsMax: 64,
  turnsOfGroupMax: 48,
  waiting: [2_000, 1_500, 512],
  waitMs: 5_000,
  crowdedMs: 1_000,
  holdMs: 5_000,
};
const RETURN_LIMITS = { firstMs: 1_000, mostMs: 60_000 };

export class CallTurns {
  readonly #turns: CallerTurns;
  readonly #deadlines: Deadlines;
  readonly #returns: ReturnTimes;
  /** When a call found that none was waiting. */
  #emptyMs = 0;

  /** `groupOf` has the organization of a call. */
  constructor(
    private readonly clock: Clock,
    private readonly groupOf: (call: TurnCall) => string,
    private readonly limits = LIMITS,
  ) {
    this.#turns = new CallerTurns({ ...limits, what: "calls" }, clock);
    this.#deadlines = new Deadlines(clock);
    this.#returns = new ReturnTimes(RETURN_LIMITS, clock);
  }

  /** How many calls wait. */
  get waiting(): number {
    return this.#turns.waiting;
  }

  /** A refused call needs no turn. */
  readonly interceptor: Interceptor = (ctx, request) => request === undefined ? undefined : this.take(ctx);

  /** Waits for a turn of a unary call, and returns what ends it. Streams have limits of their own. */
  async take(call: TurnCall): Promise<() => void> {
    if (call.method.methodKind !== "unary") return () => {};
    const stopWaiting = this.#deadlines.after(this.#waitMs(), () => call.cancel(this.#busy(call)));
    const leave = await this.#enter(call).finally(stopWaiting);
    const stopHolding = this.#deadlines.after(this.limits.holdMs, leave);
    return () => {
      stopHolding();
      leave();
      this.#returns.ended();
    };
  }

  /** How long a call that comes now may wait. */
  #waitMs(): number {
    const { waitMs, crowdedMs } = this.limits;
    const nowMs = this.clock.monotonicMs();
    if (this.#turns.waiting === 0) this.#emptyMs = nowMs;
    return nowMs - this.#emptyMs < crowdedMs ? waitMs : crowdedMs;
  }

  async #enter(call: TurnCall): Promise<() => void> {
    try {
      return await this.#turns.enter([this.groupOf(call), call.entity], call.signal);
    } catch (error) {
      if (call.signal.aborted) throw call.signal.reason;
      throw this.#busy(call, error);
    }
  }

  #busy(call: TurnCall, cause?: unknown): SvcError {
    const retryMs = this.#returns.pauseMs(this.groupOf(call), `${call.entity} ${call.path}`);
    const when = `try again in ${Math.ceil(retryMs / 1000)} s`;
    return new SvcError("unavailable", `this control plane has more calls than it can answer: ${when}`, {
      cause,
      retryMs,
    });
  }
}
