/**
 * Who may use signaling: whoever has a token of the control plane, and whoever has one for the machine that is called.
 *
 * Published clients that dial with external authentication show the signaling server the very token that they have got
 * for the machine. It is good for calls to that machine and for nothing else here: a machine that has been shown it
 * reaches no other one with it.
 */

import { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import type { Auth, KeySource } from "../../wire/auth.ts";
import type { CallContext } from "../../wire/service.ts";
import { HOST } from "../../wire/signaling/service.ts";
import { credentialsType, EXTERNAL, unauthenticated } from "../../wire/tokens.ts";
import type { MachineTokens } from "../access/machine_tokens.ts";

type Guard = Pick<Auth, "gate" | "recheck">;

const PREFIX = "Bearer ";

export interface SignalingGateParts {
  readonly guard: Guard;
  readonly tokens: MachineTokens;
  readonly keys: Pick<KeySource, "isCurrent">;
}

/** The guard, for which tokens of machines are good at signaling too. */
export function signalingGuard({ guard, tokens, keys }: SignalingGateParts): Guard {
  const check = async (ctx: CallContext, token: string) => {
    const [host, ...others] = ctx.requestHeader.all(HOST);
    if (host === undefined || others.length > 0) {
      throw unauthenticated(
        `a token of a machine is good for one ${HOST}, found ${others.length + +(host !== undefined)}`,
      );
    }
    const { entity, generation } = tokens.read(token, host);
    if (!await keys.isCurrent(entity, generation)) {
      throw unauthenticated("unauthenticated: the key of this token has been replaced or is no more");
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

/** A token of a machine, if the call is one of signaling and shows it. */
function machineTokenOf({ path, requestHeader }: CallContext): string | undefined {
  if (!path.startsWith(`/${SignalingService.typeName}/`)) return undefined;
  const [value = "", ...others] = requestHeader.all("authorization");
  const token = others.length === 0 && value.startsWith(PREFIX) ? value.slice(PREFIX.length) : "";
  return credentialsType(token) === EXTERNAL ? token : undefined;
}
