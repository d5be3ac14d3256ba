/**
 * BackupService. Thin, as `fleet_service.ts`.
 *
 * Whoever has data here may know whether it is backed up; where to, and what an error says of the host, is for the
 * administrators of the control plane.
 */

import type { BackupService } from "../../../../proto/gen/backups_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { IS_ADMINISTRATOR } from "../../access/administrators.ts";
import type { CloudContext } from "../../access/context.ts";
import { lastBackup } from "../../retention/last_backup.ts";

export function backupHandlers({ store }: Pick<CloudContext, "store">) {
  return {
    async getLastBackup(_, { entity }) {
      const isAdministrator = entity !== undefined &&
        (await store.query(IS_ADMINISTRATOR, entity)).length > 0;
      const { made, failed } = await lastBackup(store);
      const placeOf = ({ place }: { readonly place: string }) => isAdministrator ? place : "";
      return {
        made: made && {
          time: toTimestamp(made.timeMs),
          contents: BigInt(made.contents),
          missing: BigInt(made.missing),
          place: placeOf(made),
        },
        failed: failed && {
          time: toTimestamp(failed.timeMs),
          place: placeOf(failed),
          reason: isAdministrator ? failed.reason : "",
        },
      };
    },
  } satisfies ServiceImpl<typeof BackupService>;
}
