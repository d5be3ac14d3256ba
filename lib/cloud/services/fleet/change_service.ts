/** ChangeService: announces changes to machines at once, and stores their reports about themselves. */

import type { ChangeService } from "../../../../proto/gen/changes_pb.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { CloudContext } from "../../access/context.ts";
import { keepHealth } from "../../fleet/part_health.ts";
import type { PartChanges } from "../../fleet/part_changes.ts";
import type { SharedCredentials } from "../../fleet/shared_credentials.ts";

export function changeHandlers(cloud: CloudContext, changes: PartChanges, devices: SharedCredentials) {
  const { access, presence, store, clock } = cloud;
  return {
    follow({ id }, ctx) {
      // A follower polls rarely: its connection is the sign of life. Pings end a dead one.
      const admission = access.admissionOf(ctx);
      return changes.follow(id, ctx.signal, () => {
        if (!admission.has("machine")) return false;
        presence.saw(id);
        return devices.sawConnection(id, ctx);
      });
    },
    async report({ id, ...health }) {
      presence.saw(id);
      await store.transaction((sql) => keepHealth(sql, id, health, clock.nowMs()));
      return {};
    },
  } satisfies ServiceImpl<typeof ChangeService>;
}
