/**
 * ReleaseService. Thin, as `fleet_service.ts`.
 */

import type { ReleaseService } from "../../../../proto/gen/releases_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { CloudContext } from "../../access/context.ts";
import { ReleaseKeys } from "../../packages/release_keys.ts";
import { Releases } from "../../packages/releases.ts";

export function releaseHandlers({ store, secrets }: Pick<CloudContext, "store" | "secrets">) {
  const keys = new ReleaseKeys(secrets);
  return {
    async listReleases() {
      const releases = (await new Releases(store).list()).map(({ bytes, createdMs, ...one }) => ({
        ...one,
        bytes: BigInt(bytes),
        created: toTimestamp(createdMs),
      }));
      return { releases, keyId: keys.list().at(-1)?.id ?? "" };
    },
  } satisfies ServiceImpl<typeof ReleaseService>;
}
