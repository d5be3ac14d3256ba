import { assertEquals } from "@std/assert";
import { decided } from "./decision.ts";
import { checkedPlan } from "./plan.ts";
import { NO_PLAN } from "../services/fleet/rollout_service.ts";
import type { StepCounts } from "./rollouts.ts";

const LATE_SECONDS = 100;

function step(counts: Partial<StepCounts>): StepCounts {
  const none = { waiting: 0, changing: 0, healthy: 0, unhealthy: 0, skipped: 0 };
  const machines = Object.values(counts).reduce((sum, one) => sum + one, 0);
  return { machines, ...none, ...counts };
}

function decision(
  at: number,
  counts: readonly StepCounts[],
  more: { unhealthyMax?: number; accepted?: number; onlineWaiting?: number; afterSeconds?: number } = {},
) {
  const { unhealthyMax = 0, accepted = 0, onlineWaiting = 0, afterSeconds = 0 } = more;
  const plan = checkedPlan({ ...NO_PLAN, steps: ["50%"], lateSeconds: LATE_SECONDS, unhealthyMax });
  const found = decided({ plan, step: at, stepMs: 0, accepted }, counts, onlineWaiting, afterSeconds * 1000);
  if ("reason" in found) return `${found.kind}: ${found.reason}`;
  return "step" in found ? `step ${found.step}` : found.kind;
}

Deno.test("decided: goes on when every machine of a step that is online is healthy", () => {
  const rest = step({ waiting: 5 });
  assertEquals(decision(0, [step({ changing: 1, healthy: 4 }), rest]), "wait");
  assertEquals(decision(0, [step({ waiting: 1, healthy: 4 }), rest], { onlineWaiting: 1 }), "wait");
  assertEquals(decision(0, [step({ waiting: 1, healthy: 4 }), rest]), "step 1");
  assertEquals(
    decision(0, [step({ waiting: 5 }), rest]),
    "wait",
    "a step whose machines are all offline says nothing",
  );
  assertEquals(decision(0, [step({ skipped: 5 }), rest]), "step 1");
  assertEquals(decision(1, [step({ healthy: 5 }), step({ healthy: 5 })]), "complete: ");
});

Deno.test("decided: halts beyond the unhealthy machines that the plan allows and a person has accepted", () => {
  const counts = [step({ healthy: 3, unhealthy: 2 }), step({ waiting: 5 })];
  assertEquals(decision(0, counts), "halt: 2 machines turned unhealthy in 50%, wanted none");
  assertEquals(
    decision(0, counts, { unhealthyMax: 1 }),
    "halt: 2 machines turned unhealthy in 50%, wanted at most 1",
  );
  assertEquals(decision(0, counts, { unhealthyMax: 2 }), "step 1");
  assertEquals(decision(0, counts, { accepted: 1 }), "halt: 1 machine turned unhealthy in 50%, wanted none");
  assertEquals(decision(0, counts, { accepted: 2 }), "step 1");
});

Deno.test("decided: behind the last step it waits for offline machines until they are late", () => {
  const counts = [step({ healthy: 4, waiting: 1 }), step({ healthy: 4, waiting: 1 })];
  assertEquals(decision(1, counts, { afterSeconds: LATE_SECONDS - 1 }), "wait");
  assertEquals(
    decision(1, counts, { afterSeconds: LATE_SECONDS }),
    "complete: without 2 machines that were offline all the time",
  );
  const [own] = counts;
  assertEquals(
    decision(1, [step({ healthy: 5 }), own], { afterSeconds: LATE_SECONDS }),
    "complete: without 1 machine that was offline all the time",
  );
});
