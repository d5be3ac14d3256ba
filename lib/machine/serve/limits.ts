/**
 * The request limit: how many calls one resource may have under way, so that a slow one does not take the machine with
 * it. A refusal names the callers that occupy the resource.
 *
 * One caller may use the whole limit, until another one comes: then the oldest call of the caller with the most is
 * canceled. So nobody keeps a motor, or the machine's own service, from others' calls.
 */

import { BriefMap } from "../../base/collections/brief_map.ts";
import { escapedLine } from "../../base/escape.ts";
import type { Environment } from "../../base/host.ts";
import { type Clock, nextTurn } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Message } from "../../wire/rpc/proto.ts";
import type { CallContext, Interceptor } from "../../wire/rpc/service.ts";
import { resourceNamed, type Types } from "./call.ts";

/** The published default. */
const DEFAULT_LIMIT = 100;
/** No resource answers more calls at once in useful time. */
const LIMIT_MAX = 100_000;
/** Variables that set another limit; the second name is the published one. */
const VARIABLES = ["SVC_RESOURCE_REQUESTS_LIMIT", "VIAM_RESOURCE_REQUESTS_LIMIT"] as const;

const ROBOT_SERVICE = "viam.robot.v1.RobotService";
/** Methods by which modules report: refusing them would hide the trouble. */
const EXEMPT: ReadonlySet<string> = new Set([`/${ROBOT_SERVICE}/Log`, `/${ROBOT_SERVICE}/SendTraces`]);
const COUNTED = /^viam\.(component|service|robot)\./;

/** A refusal lists this many groups of calls, out of at most this many calls. */
const HOLDERS_LOGGED = 3;
const HOLDERS_LOOKED_AT = 1_000;
/** Letters of a client's own words in a refusal. */
const CLIENT_LETTERS = 40;

interface RequestLimitParts {
  readonly host: Environment;
  readonly registry: Types;
  readonly clock: Clock;
  /** Receives the problem of an unusable limit. */
  readonly logger: Logger;
}

/** A call under way. */
interface Held {
  readonly ctx: CallContext;
  readonly sinceMs: number;
  /** It has been canceled for another caller, and has not ended yet. */
  gaveWay?: boolean;
}

/**
 * A call waits this many turns for others to end: calls that arrived at the same moment are not under way for long.
 */
const TURNS = 4;

/** Refuses, as `resource_exhausted`, a call beyond the limit of its resource. Keys are resource and service. */
export function requestLimit({ host, registry, clock, logger }: RequestLimitParts): Interceptor {
  const limit = limitOf(host, logger);
  const underWay = new Map<string, BriefMap<number, Held>>();
  let calledBefore = 0;
  const enter = (key: string, ctx: CallContext) => {
    const calls = underWay.getOrInsertComputed(key, () => new BriefMap());
    if (calls.size >= limit && working(calls) >= limit) return undefined;
    const call = calledBefore++;
    calls.set(call, { ctx, sinceMs: clock.monotonicMs() });
    return () => {
      calls.delete(call);
      if (calls.size === 0 && underWay.get(key) === calls) underWay.delete(key);
    };
  };
  return (ctx, request) => {
    const key = keyOf(registry, ctx, request);
    return key === undefined ? undefined : enter(key, ctx) ?? wait(key, ctx);
  };

  async function wait(key: string, ctx: CallContext): Promise<() => void> {
    for (let turn = 0; turn < TURNS; turn++) {
      await new Promise<void>((resolve) => void nextTurn(resolve));
      const end = enter(key, ctx);
      if (end) return end;
    }

    const yielding = yieldingCall(underWay.get(key)?.values() ?? [], ctx, limit);
    if (yielding) {
      yielding.gaveWay = true;
      const problem =
        `exceeded request limit ${limit} on resource ${key}: this call gave way to another caller's`;
      yielding.ctx.cancel(new SvcError("resource_exhausted", problem));
      const end = enter(key, ctx);
      if (end) return end;
    }

    throw new SvcError(
      "resource_exhausted",
      `exceeded request limit ${limit} on resource ${key} with ${ctx.method.name}; ` +
        `held by ${holders(underWay.get(key)?.values() ?? [], clock.monotonicMs())}; ` +
        `wait for these calls to end, cancel them, or set ${VARIABLES[0]} to more`,
    );
  }
}

/**
 * Calls that occupy the resource. A call that only waits for its reader does not count: else a reader could block the
 * resource.
 */
function working(calls: BriefMap<number, Held>): number {
  return calls.values().filter(isWorking).length;
}

function isWorking({ ctx, gaveWay }: Held): boolean {
  return !ctx.unread && !gaveWay;
}

/**
 * The oldest call of the caller with the most, if this is more than the newcomer's: calls of the machine itself and its
 * modules do not give way. None while too many canceled calls have not ended.
 */
function yieldingCall(all: readonly Held[], ctx: CallContext, limit: number): Held | undefined {
  if (all.length >= 2 * limit) return undefined;
  const groups = Map.groupBy(all.filter(isWorking), (held) => ownerKey(held.ctx));
  const own = groups.get(ownerKey(ctx))?.length ?? 0;
  let largest: readonly Held[] = [];
  for (const calls of groups.values()) {
    const [oldest] = calls;
    if (oldest && isFromOutside(oldest.ctx) && calls.length > largest.length) largest = calls;
  }
  return largest.length > own + 1 ? largest[0] : undefined;
}

/** Modules call over a socket without an address. */
function isFromOutside({ peer: { kind, remoteAddress } }: CallContext): boolean {
  return kind === "webrtc" || kind === "grpc" && remoteAddress !== undefined;
}

function ownerKey({ entity, peer: { kind, remoteAddress } }: CallContext): string {
  return entity ?? `${kind} ${remoteAddress}`;
}

/**
 * `2 GoFor by key-1 from 10.0.0.7 (python;v0.60) for up to 12 s`: calls grouped by method and caller, largest group
 * first.
 */
function holders(calls: readonly Held[], nowMs: number): string {
  const busy = calls.slice(0, HOLDERS_LOOKED_AT).filter(isWorking);
  const groups = [...Map.groupBy(busy, ({ ctx }) => `${ctx.method.name}${callerOf(ctx)}`)]
    .sort(([, a], [, b]) => b.length - a.length);
  const reported = groups.slice(0, HOLDERS_LOGGED).map(([what, held]) => {
    const [oldest] = held;
    const seconds = (nowMs - (oldest?.sinceMs ?? nowMs)) / 1000;
    return `${held.length} ${what} for up to ${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  });
  const others = groups.length - reported.length;
  return [...reported, ...others > 0 ? [`${others} other kinds of calls`] : []].join(", ") ||
    "calls that have just ended";
}

function callerOf({ entity, peer, requestHeader }: CallContext): string {
  const name = requestHeader.all("viam_client")[0]?.slice(0, CLIENT_LETTERS);
  const own = peer.kind === "memory" ? " from the machine itself" : "";
  return [
    entity === undefined ? "" : ` by ${entity}`,
    peer.remoteAddress === undefined ? own : ` from ${peer.remoteAddress}`,
    name ? ` (${escapedLine(name)})` : "",
  ].join("");
}

function limitOf(host: Environment, logger: Logger): number {
  const variable = VARIABLES.find((one) => host.env(one));
  if (variable === undefined) return DEFAULT_LIMIT;
  const limit = Number(host.env(variable));
  if (Number.isSafeInteger(limit) && limit > 0 && limit <= LIMIT_MAX) return limit;
  const wanted = `wanted a whole number from 1 to ${LIMIT_MAX}; ${DEFAULT_LIMIT} is used`;
  logger.warn(`${variable} is "${host.env(variable)}", ${wanted}`);
  return DEFAULT_LIMIT;
}

function keyOf(types: Types, ctx: CallContext, request: Message | undefined): string | undefined {
  const service = ctx.method.parent.typeName;
  const name = resourceNamed(types, ctx.method, request);
  if (name !== undefined && COUNTED.test(service)) return `${name}.${service}`;
  // The machine's own service names no resource: its calls share one count.
  return service === ROBOT_SERVICE && !EXEMPT.has(ctx.path) ? service : undefined;
}
