import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { EVENTS, isFinalState, isRunning, next, TRAINING_STATES, type TrainingEvent } from "./state.ts";

const refused = "refused";
/** Everything that can happen to a job in every state, one row for each state. */
const WANTED = {
  //            start          cancel       complete     fail        repeat     interrupt   delete
  pending: ["in_progress", "canceled", refused, refused, refused, refused, refused],
  in_progress: [refused, "canceling", "completed", "failed", "pending", "failed", refused],
  canceling: [refused, "canceling", "canceled", "canceled", "canceled", "canceled", refused],
  completed: [refused, refused, refused, refused, refused, refused, "deleted"],
  failed: [refused, refused, refused, refused, refused, refused, "deleted"],
  canceled: [refused, refused, refused, refused, refused, refused, "deleted"],
};

Deno.test("training states: each event in each state leads to the expected state or is refused", () => {
  for (const state of TRAINING_STATES) {
    const found = EVENTS.map((event) => {
      try {
        return next(state, event as Exclude<TrainingEvent, "delete">) as string;
      } catch (error) {
        assertEquals(SvcError.from(error).code, "failed_precondition");
        return refused;
      }
    });
    assertEquals(found, WANTED[state], state);
  }
  assertEquals(TRAINING_STATES.filter(isFinalState), ["completed", "failed", "canceled"]);
  assertEquals(TRAINING_STATES.filter(isRunning), ["in_progress", "canceling"]);
});

Deno.test("training states: a refusal names the state and the wanted states", () => {
  assertThrows(() => next("completed", "cancel"), SvcError, "COMPLETED, wanted one that has not ended");
});
