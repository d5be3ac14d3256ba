/**
 * Signaling for machines behind NAT: callers find machines by name, if they may operate them, and machines answer as
 * themselves.
 *
 * Owns the rules of who may call whom, and the limit of answerers for a machine. The queue identifies a machine by
 * its part's id, so that all names of the part lead to the same machine, and a name that moves to another part does
 * not.
 *
 * The room owns the connection of people and machines that cannot reach each other directly: the calls of one
 * control plane or of several on one database, the tokens for these, and STUN and TURN.
 */

import type { CallContext, Service } from "../../wire/rpc/service.ts";
import { KeyCounts } from "../../base/async/key_counts.ts";
import { type Code, SvcError } from "../../base/error.ts";
import { CallQueue, type CallQueueLimits } from "../../wire/signaling/call_queue.ts";
import { type Answering, HOST, signalingService } from "../../wire/signaling/service.ts";
import type { IceServer } from "../../wire/webrtc/ice_choice.ts";
import { Keys } from "../access/keys.ts";
import { type Limits, overLimit } from "../access/limits.ts";
import type { CloudContext } from "../access/context.ts";
import { Parts } from "../tenants/parts.ts";
import { partFor } from "../access/host_access.ts";
import { withoutPort } from "../tenants/hosts.ts";
import { type TurnOptions, turnServers } from "./ice_servers.ts";
import { type Calls, SharedQueue } from "./shared_queue.ts";

export interface SignalingOptions {
  /** The address at which the control plane answers STUN. */
  readonly stunPort?: number;
  readonly turn?: TurnOptions;
}

/** Interval of checks whether a caller may still answer for a machine. */
const RECHECK_MS = 5_000;
const REFUSALS: readonly Code[] = ["permission_denied", "failed_precondition"];

export interface CloudSignaling {
  readonly service: Service;
  close(): Promise<void>;
}

export function cloudSignaling(cloud: CloudContext, options: SignalingOptions = {}): CloudSignaling {
  const { store: { notices }, clock, limits, logger } = cloud;
  const local = new CallQueue({ clock, limits: queueLimits(limits) });
  const shared = notices.shared ? new SharedQueue({ local, notices, clock, logger }) : undefined;
  const queue: Calls = shared ?? local;
  const service = signalingService({
    queue,
    clock,
    hostOf: async (name, ctx) => (await partFor(cloud, ctx, withoutPort(name), "operator")).id,
    ownerOf: async (id) => (await new Parts(cloud.store).get(id)).organizationId,
    iceServers: (_host, ctx) => iceServers(cloud, options, ctx),
    answering: answering(cloud),
  });
  return {
    service,
    close: async () => {
      queue.close();
      await shared?.closed();
    },
  };
}

function queueLimits({ callsPerMachine }: Limits): Partial<CallQueueLimits> {
  return { callsOfHost: callsPerMachine, callsOfCaller: Math.ceil(callsPerMachine / 2) };
}

async function iceServers(
  { addresses, clock }: CloudContext,
  { stunPort, turn }: SignalingOptions,
  ctx: CallContext,
): Promise<IceServer[]> {
  const servers: IceServer[] = [];
  if (stunPort !== undefined) {
    const { hostname } = new URL(await addresses.linkFor(ctx.peer));
    servers.push({ urls: [`stun:${hostname}:${stunPort}`] });
  }
  if (turn) servers.push(turnServers(turn, ctx.entity ?? "", clock));
  return servers;
}

/** Machines answer with a key of their own; keys of an organization are for calling them. */
function answering(cloud: CloudContext): Answering {
  const { clock, limits } = cloud;
  /** How many streams answer for a part, by its id. */
  const streams = new KeyCounts();
  const count = (hosts: readonly string[], more: number) => hosts.forEach((host) => streams.add(host, more));
  const check = async (names: readonly string[], ctx: CallContext) => {
    const parts = await Promise.all(names.map((name) => partFor(cloud, ctx, name, "machine")));
    return [...new Set(parts.map(({ id }) => id))];
  };
  return {
    hosts: check,
    generationOf: async ({ entity }) => {
      return entity === undefined ? undefined : await new Keys(cloud.store).generation(entity);
    },
    online: (hosts, ctx) => {
      // Checks and counts in one step, because several streams may arrive at the same time.
      const full = hosts.find((host) => streams.of(host) >= limits.answersPerMachine);
      if (full !== undefined) {
        throw overLimit(limits, "answersPerMachine", `${streams.of(full)} answer already`);
      }
      count(hosts, 1);
      const names = ctx.requestHeader.all(HOST);
      let over = false;
      let callOff = () => {};
      const later = () => {
        if (!over) callOff = clock.after(RECHECK_MS, () => void look());
      };
      const look = async () => {
        try {
          await check(names, ctx);
        } catch (thrown) {
          const error = SvcError.from(thrown);
          // An unreachable database does not end the stream.
          if (REFUSALS.includes(error.code)) return ctx.cancel(error);
        }
        later();
      };
      later();
      return () => {
        over = true;
        callOff();
        count(hosts, -1);
      };
    },
  };
}
