/**
 * UsageService. Thin, as `fleet/fleet_service.ts`.
 */

import type { UsageService } from "../../../proto/gen/usage_pb.ts";
import type { ServiceImpl } from "../../wire/rpc/service.ts";
import type { CloudContext } from "../context.ts";
import { collectorsOf, type DataRetention, retentionOf } from "./policies.ts";

/** Limit of the collectors in an answer. */
const COLLECTORS_MAX = 500;

export function usageHandlers({ store, usage }: Pick<CloudContext, "store" | "usage">) {
  return {
    async getUsage({ organizationId }) {
      const limits = (await usage.ofOrganization(organizationId)).map(({ name, used, allowed }) => ({
        name,
        used: BigInt(used),
        allowed: BigInt(allowed),
      }));
      const found = await collectorsOf(store, organizationId, COLLECTORS_MAX + 1);
      return {
        limits,
        retention: keptMessage(await retentionOf(store, organizationId)),
        collectors: found.slice(0, COLLECTORS_MAX).map((one) => ({ ...one, retention: keptMessage(one) })),
        moreCollectors: found.length > COLLECTORS_MAX,
      };
    },
  } satisfies ServiceImpl<typeof UsageService>;
}

function keptMessage({ days = 0, binaryBytes = 0, tabularBytes = 0 }: DataRetention) {
  return { days, binaryBytes: BigInt(binaryBytes), tabularBytes: BigInt(tabularBytes) };
}
