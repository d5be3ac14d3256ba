/**
 * The states of a training job, its events, and their results. Pure.
 *
 * The first commit decides a race: a job that is being canceled does not complete, and a completed job cannot be
 * canceled.
 */

import { SvcError } from "../../base/error.ts";

export const TRAINING_STATES = [
  "pending",
  "in_progress",
  "canceling",
  "completed",
  "failed",
  "canceled",
] as const;
export type TrainingState = typeof TRAINING_STATES[number];

export const EVENTS = ["start", "cancel", "complete", "fail", "repeat", "interrupt", "delete"] as const;
/** Its runner has ended: `repeat`, and it begins anew; `interrupt`, and it does so no longer. */
export type TrainingEvent = typeof EVENTS[number];

type Outcome = TrainingState | "deleted";

/** Every transition that is not listed is refused. */
const NEXT: { readonly [S in TrainingState]: { readonly [E in TrainingEvent]?: Outcome } } = {
  // No runner works on it, so there is nothing to wait for.
  pending: { start: "in_progress", cancel: "canceled" },
  in_progress: {
    cancel: "canceling",
    complete: "completed",
    fail: "failed",
    repeat: "pending",
    interrupt: "failed",
  },
  canceling: {
    cancel: "canceling",
    complete: "canceled",
    fail: "canceled",
    repeat: "canceled",
    interrupt: "canceled",
  },
  completed: { delete: "deleted" },
  failed: { delete: "deleted" },
  canceled: { delete: "deleted" },
};

const WANTED: { readonly [E in TrainingEvent]: string } = {
  start: "one that is pending",
  cancel: "one that has not ended",
  complete: "one in progress",
  fail: "one in progress",
  repeat: "one in progress",
  interrupt: "one in progress",
  delete: "one that has ended: cancel it first",
};

/** Throws `failed_precondition` for an event that this state does not allow. */
export function next(state: TrainingState, event: "delete"): "deleted";
export function next(state: TrainingState, event: Exclude<TrainingEvent, "delete">): TrainingState;
export function next(state: TrainingState, event: TrainingEvent): Outcome {
  const outcome = NEXT[state][event];
  if (outcome) return outcome;
  throw new SvcError(
    "failed_precondition",
    `cannot ${event} a training job that is ${spoken(state)}, wanted ${WANTED[event]}`,
  );
}

/** Whether a state is final, so that only deletion can follow. */
export function isFinalState(state: TrainingState): boolean {
  return NEXT[state].delete !== undefined;
}

/** Whether a runner works on it, or should. */
export function isRunning(state: TrainingState): boolean {
  return NEXT[state].interrupt !== undefined;
}

/** The published word. */
export function spoken(state: TrainingState): string {
  return state.toUpperCase();
}
