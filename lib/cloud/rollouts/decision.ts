/** Decides the next step of a rollout by the counts of its parts. Pure. */

import { stepName } from "./plan.ts";
import type { Rollout, StepCounts } from "./rollouts.ts";
import { counted } from "../../base/log/counted.ts";

export type RolloutDecision =
  | { readonly kind: "halt"; readonly reason: string }
  | { readonly kind: "step"; readonly step: number }
  | { readonly kind: "complete"; readonly reason: string }
  /** Waits until machines are changed, healthy or online. */
  | { readonly kind: "wait" };

/** `onlineWaiting`: parts of the steps so far that wait for their change and are online. */
export function decided(
  { plan, step, stepMs, accepted }: Pick<Rollout, "plan" | "step" | "stepMs" | "accepted">,
  counts: readonly StepCounts[],
  onlineWaiting: number,
  nowMs: number,
): RolloutDecision {
  const unhealthy = sumOf(counts, "unhealthy");
  if (unhealthy - accepted > plan.unhealthyMax) {
    const most = plan.unhealthyMax === 0 ? "none" : `at most ${plan.unhealthyMax}`;
    const found = counted(unhealthy - accepted, "machine");
    return { kind: "halt", reason: `${found} turned unhealthy in ${stepName(plan, step)}, wanted ${most}` };
  }
  if (sumOf(counts, "changing") > 0 || onlineWaiting > 0) return { kind: "wait" };

  const own = counts[step];
  const isLast = step >= plan.steps.length;
  // A step whose machines are all offline says nothing about the change.
  const isUntried = own !== undefined && own.waiting > 0 && own.healthy === 0;
  if (!isLast) return isUntried ? { kind: "wait" } : { kind: "step", step: step + 1 };

  const waiting = sumOf(counts, "waiting");
  if (waiting === 0) return { kind: "complete", reason: "" };
  if (nowMs - stepMs < plan.lateMs) return { kind: "wait" };
  const left = waiting === 1 ? "1 machine that was" : `${waiting} machines that were`;
  return { kind: "complete", reason: `without ${left} offline all the time` };
}

function sumOf(counts: readonly StepCounts[], kind: keyof StepCounts): number {
  return counts.reduce((sum, one) => sum + one[kind], 0);
}
