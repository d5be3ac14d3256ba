/**
 * RolloutService. Thin, as `fleet_service.ts`.
 */

import type {
  RolloutPartSchema,
  RolloutPlanSchema,
  RolloutSchema,
  RolloutService,
} from "../../../../proto/gen/rollouts_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf } from "../../access/context.ts";
import type { ConfigContext } from "../../config/config_threads.ts";
import { cutPage, pageStart } from "../context.ts";
import { abortRollout, pauseRollout, resumeRollout } from "../../rollouts/orders.ts";
import { type GivenPlan, type RolloutPlan, stepName } from "../../rollouts/plan.ts";
import { type Rollout, type RolloutPart, Rollouts, type StepCounts } from "../../rollouts/rollouts.ts";
import { startRollout } from "../../rollouts/starting.ts";

const PARTS_PAGE = 500;
/** A plan with every default. */
export const NO_PLAN: GivenPlan = {
  steps: [],
  soakSeconds: 0,
  takeSeconds: 0,
  lateSeconds: 0,
  atOnce: 0,
  unhealthyMax: 0,
  errorsMax: 0,
  windows: [],
  readings: [],
};

export function rolloutHandlers(cloud: ConfigContext) {
  const { store, audit } = cloud;
  const rollouts = new Rollouts(store);
  const rolloutOf = async (id: string) => (await rolloutMessages(rollouts, [await rollouts.get(id)]))[0];
  return {
    async startRollout({ change, plan, ...request }, ctx) {
      const given = { kind: "", id: "", version: "", ...change };
      const order = { ...request, change: given, plan: plan ?? NO_PLAN };
      return { rollout: await rolloutOf(await startRollout(cloud, order, actorOf(ctx).who)) };
    },
    async getRollout({ id }) {
      return { rollout: await rolloutOf(id) };
    },
    async listRollouts({ organizationId }) {
      return { rollouts: await rolloutMessages(rollouts, await rollouts.list(organizationId)) };
    },
    async listRolloutParts({ id, unhealthy, pageToken }) {
      const after = pageToken ? pageStart(pageToken) : undefined;
      const parts = await rollouts.parts(id, { unhealthy, after, limit: PARTS_PAGE + 1 });
      const { page, nextPageToken } = cutPage(parts, PARTS_PAGE, ({ place }) => String(place));
      const { organizationId } = await rollouts.get(id);
      // Parts that have left the organization are hidden from it.
      const own = page.filter((one) => one.organizationId === organizationId);
      return { parts: own.map(partMessage), nextPageToken };
    },
    async pauseRollout({ id }, ctx) {
      await pauseRollout(audit, actorOf(ctx), id);
      return {};
    },
    async resumeRollout({ id }, ctx) {
      await resumeRollout(audit, actorOf(ctx), id);
      return {};
    },
    async abortRollout({ id, revert }, ctx) {
      await abortRollout(audit, actorOf(ctx), id, revert);
      return {};
    },
  } satisfies ServiceImpl<typeof RolloutService>;
}

/** Rollouts with the counts of their steps. */
export async function rolloutMessages(
  rollouts: Rollouts,
  all: readonly Rollout[],
): Promise<MessageInitShape<typeof RolloutSchema>[]> {
  const counts = await rollouts.counts(all.map(({ id }) => id));
  return all.map((one) => ({
    id: one.id,
    organizationId: one.organizationId,
    name: one.name,
    change: { ...one.change },
    plan: planMessage(one.plan),
    state: one.state,
    step: one.step,
    reason: one.reason,
    who: one.who,
    created: toTimestamp(one.createdMs),
    ended: one.endedMs === null ? undefined : toTimestamp(one.endedMs),
    steps: rolloutSteps(one, counts.get(one.id) ?? []),
  }));
}

/** Each step under its name, with its counts. */
export function rolloutSteps({ plan }: Pick<Rollout, "plan">, counts: readonly StepCounts[]) {
  const none = { machines: 0, waiting: 0, changing: 0, healthy: 0, unhealthy: 0, skipped: 0 };
  return Array.from({ length: plan.steps.length + 1 }, (_, step) => {
    return { name: stepName(plan, step), ...none, ...counts[step] };
  });
}

function planMessage(
  { steps, soakMs, takeMs, lateMs, atOnce, unhealthyMax, errorsMax, windows, readings }: RolloutPlan,
): MessageInitShape<typeof RolloutPlanSchema> {
  return {
    ...{ atOnce, unhealthyMax, errorsMax },
    steps: [...steps],
    windows: [...windows],
    soakSeconds: soakMs / 1000,
    takeSeconds: takeMs / 1000,
    lateSeconds: lateMs / 1000,
    readings: readings.flatMap(({ component, evals }) =>
      evals.map(({ operator, value }) => ({ component, operator, value: JSON.stringify(value) }))
    ),
  };
}

function partMessage(one: RolloutPart): MessageInitShape<typeof RolloutPartSchema> {
  const { partId, partName, machineId, machineName, step, state, unhealthy, reason, appliedMs } = one;
  const applied = appliedMs === null ? undefined : toTimestamp(appliedMs);
  return { partId, partName, machineId, machineName, step, state, unhealthy, reason, applied };
}
