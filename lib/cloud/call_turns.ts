/**
 * Turns of calls: a few are worked on at once, and the others wait for a short while.
 *
 * A control plane with more calls than it can answer would otherwise begin all of them: each would wait for the others'
 * statements, and every answer would come after its caller had gone. So it begins only as many as it can end, refuses
 * those that have waited too long, and forgets those whose callers have gone. Turns and places are shared fairly among
 * organizations, and among the keys of each.
 */

import { CallerTurns } from "../base/async/turns.ts";
import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { Deadlines } from "../wire/rpc/deadlines.ts";
import type { CallContext, Interceptor } from "../wire/rpc/service.ts";

export interface CallTurnLimits {
  readonly turnsMax: number;
  readonly turnsOfGroupMax: number;
  /** Limits of the waiting calls: of all, of one organization, and of one key. */
  readonly waiting: readonly [number, number, number];
  /** How long a call waits for its turn. */
  readonly waitMs: number;
  /** A call that takes longer gives its turn to another: it waits for something with limits of its own. */
  readonly holdMs: number;
}

type TurnCall = Pick<CallContext, "method" | "entity" | "peer" | "signal" | "cancel">;

const LIMITS: CallTurnLimits = {
  turnsMax: 64,
  turnsOfGroupMax: 48,
  waiting: [2_000, 1_500, 512],
  waitMs: 5_000,
  holdMs: 5_000,
};
/** Refused callers come back after this time, and up to as long again, so that they do not come back together. */
const RETRY_MS = 2_000;

export class CallTurns {
  readonly #turns: CallerTurns;
  readonly #deadlines: Deadlines;

  /** `groupOf` has the organization of a call. */
  constructor(
    clock: Clock,
    private readonly groupOf: (call: TurnCall) => string,
    private readonly limits = LIMITS,
  ) {
    this.#turns = new CallerTurns({ ...limits, what: "calls" }, clock);
    this.#deadlines = new Deadlines(clock);
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
    const { waitMs, holdMs } = this.limits;
    const stopWaiting = this.#deadlines.after(waitMs, () => call.cancel(busy()));
    const leave = await this.#enter(call).finally(stopWaiting);
    const stopHolding = this.#deadlines.after(holdMs, leave);
    return () => {
      stopHolding();
      leave();
    };
  }

  async #enter(call: TurnCall): Promise<() => void> {
    try {
      return await this.#turns.enter([this.groupOf(call), call.entity], call.signal);
    } catch (error) {
      if (call.signal.aborted) throw call.signal.reason;
      throw busy(error);
    }
  }
}

function busy(cause?: unknown): SvcError {
  const retryMs = Math.round(RETRY_MS * (1 + Math.random()));
  const when = `try again in ${Math.ceil(retryMs / 1000)} s`;
  return new SvcError("unavailable", `this control plane has more calls than it can answer: ${when}`, {
    cause,
    retryMs,
  });
}
