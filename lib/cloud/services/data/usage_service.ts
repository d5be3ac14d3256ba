/**
 * UsageService. Thin, as `fleet_service.ts`.
 */

import type { UsageService } from "../../../../proto/gen/usage_pb.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import {
  type DataRetention,
  retentionSettings,
  selectCollectors,
  setOwnRetention,
} from "../../capture/retention_policies.ts";

/** Limit of the collectors in an answer. */
const COLLECTORS_MAX = 500;

type UsageParts = Pick<CloudContext, "store" | "usage" | "limits" | "audit">;

export function usageHandlers({ store, usage, limits: allowed, audit }: UsageParts) {
  return {
    async getUsage({ organizationId }) {
      const limits = (await usage.ofOrganization(organizationId)).map((one) => ({
        name: one.name,
        used: BigInt(one.used),
        allowed: BigInt(one.allowed),
      }));
      const { bound, own, inEffect } = await retentionSettings(store, organizationId);
      const { logDays, auditDays } = allowed;
      const found = await selectCollectors(store, organizationId, COLLECTORS_MAX + 1);
      return {
        limits,
        ...{ retention: keptMessage(inEffect), bound: keptMessage(bound), own: keptMessage(own) },
        records: {
          ...{ logDaysMax: logDays, auditDays, ownLogDays: own.logDays ?? 0 },
          logDays: Math.min(logDays, own.logDays ?? logDays),
        },
        collectors: found.slice(0, COLLECTORS_MAX).map((one) => ({ ...one, retention: keptMessage(one) })),
        moreCollectors: found.length > COLLECTORS_MAX,
      };
    },

    async setRetention({ organizationId, own, ownLogDays }, ctx) {
      const wanted = {
        days: own?.days || undefined,
        binaryBytes: Number(own?.binaryBytes ?? 0n) || undefined,
        tabularBytes: Number(own?.tabularBytes ?? 0n) || undefined,
        logDays: ownLogDays || undefined,
      };
      await audit.change(
        actorOf(ctx),
        { kind: "organization", id: organizationId },
        (sql) => setOwnRetention(sql, organizationId, wanted, allowed.logDays),
      );
      return {};
    },
  } satisfies ServiceImpl<typeof UsageService>;
}

function keptMessage({ days = 0, binaryBytes = 0, tabularBytes = 0 }: DataRetention) {
  return { days, binaryBytes: BigInt(binaryBytes), tabularBytes: BigInt(tabularBytes) };
}
