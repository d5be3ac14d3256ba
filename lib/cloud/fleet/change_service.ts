/**
 * ChangeService: announces changes to machines at once.
 */

import type { ChangeService } from "../../../proto/gen/changes_pb.ts";
import type { ServiceImpl } from "../../wire/service.ts";
import type { PartChanges } from "./part_changes.ts";

export function changeHandlers(changes: PartChanges) {
  return {
    follow({ id }, { signal }) {
      return changes.follow(id, signal);
    },
  } satisfies ServiceImpl<typeof ChangeService>;
}
