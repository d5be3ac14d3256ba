/** Orders of people for a running rollout: pause, resume, abort. */

import type { Actor, Audit } from "../access/audit.ts";
import { Rollouts } from "./rollouts.ts";

/** Pauses a rollout: no further machine is changed, but changed machines are still watched. */
export async function pauseRollout(audit: Audit, actor: Actor, id: string): Promise<void> {
  await audit.change(actor, { kind: "rollout", id }, async (sql, nowMs) => {
    await new Rollouts(sql).turn(id, ["running"], "paused", "", nowMs);
  });
}

/** Resumes a rollout; machines that have become unhealthy so far do not halt it again. */
export async function resumeRollout(audit: Audit, actor: Actor, id: string): Promise<void> {
  await audit.change(actor, { kind: "rollout", id }, async (sql, nowMs) => {
    const rollouts = new Rollouts(sql);
    await rollouts.turn(id, ["paused", "halted"], "running", "", nowMs);
    await rollouts.accept(id, nowMs);
  });
}

/** Aborts a rollout; with `reverts` the change is reverted on every machine that has it. */
export async function abortRollout(audit: Audit, actor: Actor, id: string, reverts: boolean): Promise<void> {
  await audit.change(actor, { kind: "rollout", id }, async (sql, nowMs) => {
    const rollouts = new Rollouts(sql);
    await rollouts.requireUnfinished(id);
    const reason = "the rollout was aborted";
    await rollouts.turnParts(id, ["waiting"], "skipped", reason);
    if (reverts) await rollouts.turnParts(id, ["applied", "taken", "healthy"], "reverting", reason);
    else await rollouts.turnParts(id, ["applied", "taken"], "kept", reason);
    await rollouts.turn(id, ["running", "paused", "halted"], "aborted", "", nowMs);
  });
}
