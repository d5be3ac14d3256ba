/**
 * ExternalAuthService: exchanges a token of this control plane for one that opens a machine.
 */

import type { ExternalAuthService } from "../../../../proto/gen/auth_pb.ts";
import { SvcError } from "../../../base/error.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { CloudContext } from "../../access/context.ts";
import { partFor } from "../../access/host_access.ts";
import { everyName, withoutPort } from "../../tenants/hosts.ts";
import { Keys } from "../../access/keys.ts";
import type { MachineTokens } from "../../access/machine_tokens.ts";

export function externalAuthHandlers(cloud: CloudContext, tokens: MachineTokens) {
  return {
    async authenticateTo({ entity: host }, ctx) {
      const part = await partFor(cloud, ctx, withoutPort(host), "operator");
      const { entity = "" } = ctx;
      const generation = await new Keys(cloud.store).generation(entity);
      if (generation === undefined) {
        throw new SvcError("permission_denied", "the secret of a part opens no machines, wanted an API key");
      }
      return { accessToken: tokens.issue(entity, generation, everyName(part, cloud.machineDomain)) };
    },
  } satisfies ServiceImpl<typeof ExternalAuthService>;
}
