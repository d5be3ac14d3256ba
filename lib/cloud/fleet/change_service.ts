/**
 * ChangeService: announces changes to machines at once.
 */

import type { ChangeService } from "../../../proto/gen/changes_pb.ts";
import type { ServiceImpl } from "../../wire/rpc/service.ts";
import type { CloudContext } from "../context.ts";
import type { PartChanges } from "./part_changes.ts";

export function changeHandlers({ access, presence }: CloudContext, changes: PartChanges) {
  return {
    follow({ id }, ctx) {
      // A follower polls rarely: its connection is the sign of life. Pings end a dead one.
      const isMachine = access.admissionOf(ctx).has("machine");
      return changes.follow(id, ctx.signal, () => isMachine && presence.saw(id));
    },
  } satisfies ServiceImpl<typeof ChangeService>;
}
