/**
 * The request limit: how many calls one resource may have under way, so that a slow one does not take the machine
 * with it.
 */

import type { Environment } from "../../base/host.ts";
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

/** Refuses, as `resource_exhausted`, a call beyond the limit on its resource. Keys are resource and service. */
export function requestLimit({ host, registry }: RequestLimitParts): Interceptor {
  const limit = limitOf(host);
  const underWay = new Map<string, Set<CallContext>>();
  return (ctx, request) => {
    const key = keyOf(registry, ctx, request);
    if (key === undefined) return;
    const calls = underWay.getOrInsertComputed(key, () => new Set());
    if (calls.size >= limit && working(calls) >= limit) {
      throw new SvcError(
        "resource_exhausted",
        `exceeded request limit ${limit} on resource ${key} with ${ctx.method.name}; ` +
          `wait for earlier calls to end, or set ${VARIABLES[0]} to more`,
      );
    }
    calls.add(ctx);
    return () => {
      calls.delete(ctx);
      if (calls.size === 0) underWay.delete(key);
    };
  };
}

/** Calls that keep the resource busy. One that waits for its reader does not: else a reader could block the resource. */
function working(calls: ReadonlySet<CallContext>): number {
  let count = 0;
  for (const call of calls) if (!call.unread) count++;
  return count;
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
