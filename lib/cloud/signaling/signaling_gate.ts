/**
 * Authentication for signaling: accepts tokens of the control plane, and tokens of the machine that is called.
 *
 * Published clients with external authentication send the signaling server the token that they got for the machine. It
 * is valid for calls to that machine only: a machine that received it reaches no other machine with it.
 */

import { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import type { Auth, KeySource } from "../../wire/auth/auth.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import { withoutPort } from "../tenants/hosts.ts";
import { HOST } from "../../wire/signaling/service.ts";
import { credentialsType, EXTERNAL, unauthenticated } from "../../wire/auth/tokens.ts";
import type { MachineTokens } from "../access/machine_tokens.ts";

type Guard = Pick<Auth, "gate" | "recheck">;

const PREFIX = "Bearer ";

export interface SignalingGateParts {
  readonly guard: Guard;
  readonly tokens: MachineTokens;
  readonly keys: Pick<KeySource, "isCurrent">;
}

/** The guard, extended to accept machine tokens for signaling. */
export function signalingGuard({ guard, tokens, keys }: SignalingGateParts): Guard {
  const check = async (ctx: CallContext, token: string) => {
    const [host, ...others] = ctx.requestHeader.all(HOST);
    if (host === undefined || others.length > 0) {
      throw unauthenticated(
        `a token of a machine is valid for one ${HOST}, found ${others.length + +(host !== undefined)}`,
      );
    }
    const { entity, generation } = tokens.read(token, withoutPort(host));
    if (!await keys.isCurrent(entity, generation)) {
      throw unauthenticated("unauthenticated: the key of this token has been replaced or no longer exists");
    }
    ctx.entity = entity;
  };
  return {
    gate: {
      authenticate: (ctx) => {
        const token = machineTokenOf(ctx);
        return token === undefined ? guard.gate.authenticate(ctx) : check(ctx, token);
      },
    },
    recheck: (ctx) => {
      const token = machineTokenOf(ctx);
      return token === undefined ? guard.recheck(ctx) : check(ctx, token);
    },
  };
}

/** The machine token of a signaling call. */
function machineTokenOf({ path, requestHeader }: CallContext): string | undefined {
  if (!path.startsWith(`/${SignalingService.typeName}/`)) return undefined;
  const [value = "", ...others] = requestHeader.all("authorization");
  const token = others.length === 0 && value.startsWith(PREFIX) ? value.slice(PREFIX.length) : "";
  return credentialsType(token) === EXTERNAL ? token : undefined;
}
