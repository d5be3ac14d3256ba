/**
 * The request limit: how many calls one resource may have under way, so that a slow one does not take the machine
 * with it.
 */

import { BriefMap } from "../../base/brief_map.ts";
import type { Environment } from "../../base/host.ts";
import { nextTurn } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Message } from "../../wire/proto.ts";
import type { CallContext, Interceptor } from "../../wire/service.ts";
import { resourceNamed, type Types } from "./call.ts";

/** The published default. */
const DEFAULT_LIMIT = 100;
/** Where a user sets another one; the second is the published name. */
const VARIABLES = ["SVC_RESOURCE_REQUESTS_LIMIT", "VIAM_RESOURCE_REQUESTS_LIMIT"] as const;

const ROBOT_SERVICE = "viam.robot.v1.RobotService";
/** What modules report by: refusing it would hide the trouble. */
const EXEMPT: ReadonlySet<string> = new Set([`/${ROBOT_SERVICE}/Log`, `/${ROBOT_SERVICE}/SendTraces`]);
const COUNTED = /^viam\.(component|service|robot)\./;

interface RequestLimitParts {
  readonly host: Environment;
  readonly registry: Types;
}

/**
 * So many turns of the program a call waits for others to end: those that came with it, in the same moment, are not
 * under way for long.
 */
const TURNS = 4;

/** Refuses, as `resource_exhausted`, a call beyond the limit on its resource. Keys are resource and service. */
export function requestLimit({ host, registry }: RequestLimitParts): Interceptor {
  const limit = limitOf(host);
  const underWay = new Map<string, BriefMap<number, CallContext>>();
  let calledBefore = 0;
  const enter = (key: string, ctx: CallContext) => {
    const calls = underWay.getOrInsertComputed(key, () => new BriefMap());
    if (calls.size >= limit && working(calls) >= limit) return undefined;
    const call = calledBefore++;
    calls.set(call, ctx);
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
    throw new SvcError(
      "resource_exhausted",
      `exceeded request limit ${limit} on resource ${key} with ${ctx.method.name}; ` +
        `wait for earlier calls to end, or set ${VARIABLES[0]} to more`,
    );
  }
}

/** Calls that keep the resource busy. One that waits for its reader does not: else a reader could block the resource. */
function working(calls: BriefMap<number, CallContext>): number {
  return calls.values().filter(({ unread }) => !unread).length;
}

function limitOf(host: Environment): number {
  for (const variable of VARIABLES) {
    const limit = Number(host.env(variable));
    if (Number.isSafeInteger(limit) && limit > 0) return limit;
  }
  return DEFAULT_LIMIT;
}

function keyOf(types: Types, ctx: CallContext, request: Message | undefined): string | undefined {
  const service = ctx.method.parent.typeName;
  const name = resourceNamed(types, ctx.method, request);
  if (name !== undefined && COUNTED.test(service)) return `${name}.${service}`;
  // The machine's own service has no resource to name: its calls share one count.
  return service === ROBOT_SERVICE && !EXEMPT.has(ctx.path) ? service : undefined;
}
