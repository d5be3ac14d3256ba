/**
 * Operations: the calls under way, which people and programs can list, await and cancel.
 *
 * A call gives its operation's id as metadata `opid`, or gets one; the header of its answer has it. A call with the id
 * of an operation under way joins it: a module's callback during a call is part of that call and is canceled with it,
 * and the operation ends with the last of its calls.
 */

import { BriefMap } from "../../base/collections/brief_map.ts";
import { type Clock, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Message } from "../../wire/rpc/proto.ts";
import type { CallContext, Interceptor } from "../../wire/rpc/service.ts";
import { shownJson } from "../../wire/rpc/shown_json.ts";
import { idFrom } from "./call.ts";
import { Holds } from "./holds.ts";

/** Metadata key of an operation's id, both ways. */
export const OPERATION_ID = "opid";

/** One operation, as listed. */
export interface ListedOperation {
  readonly id: string;
  /** `/viam.component.motor.v1.MotorService/GoFor` */
  readonly method: string;
  /** The request as JSON; empty for methods with a stream of requests. */
  readonly arguments: JsonObject;
  readonly startedMs: number;
  /** The session that the caller named. */
  readonly sessionId?: string;
}

interface Running {
  readonly id: string;
  /** Its first call, with the request. */
  readonly first: CallContext;
  readonly request: Message | undefined;
  readonly startedMs: number;
  /** Its unfinished calls: the first one and those that joined. */
  readonly calls: CallContext[];
  ended?: PromiseWithResolvers<void>;
}

/** Calls that only carry or describe other calls are no operations (published). */
const EXEMPT_SERVICES: ReadonlySet<string> = new Set([
  "proto.rpc.webrtc.v1.SignalingService",
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
  // The page only looks, and a look at the log lasts.
  "svc.page.v1.MachinePageService",
  "svc.page.v1.CallBatchService",
]);
const EXEMPT_PATH = "/viam.robot.v1.RobotService/StreamStatus";

export class Operations {
  readonly #running = new BriefMap<string, Running>();
  readonly #holds = new Holds();

  constructor(private readonly clock: Clock) {}

  readonly interceptor: Interceptor = (ctx, request) => {
    if (EXEMPT_SERVICES.has(ctx.method.parent.typeName) || ctx.path === EXEMPT_PATH) return;
    this.#holds.check(ctx.requestHeader);
    const id = idFrom(ctx.requestHeader, OPERATION_ID) ?? crypto.randomUUID();
    ctx.responseHeader.set(OPERATION_ID, id);
    const joined = this.#running.get(id);
    const running = joined ??
      { id, first: ctx, request, startedMs: this.clock.nowMs(), calls: [] };
    if (!joined) this.#running.set(id, running);
    running.calls.push(ctx);
    return () => this.#leave(running, ctx);
  };

  /** The operations under way, without that of `asking`. Oldest first. */
  list(asking?: CallContext): ListedOperation[] {
    return this.#others(asking).map((running) => ({
      id: running.id,
      method: running.first.path,
      arguments: argumentsOf(running),
      startedMs: running.startedMs,
      sessionId: running.first.requestHeader.get("viam-sid"),
    }));
  }

  /** Ends the operation's calls as `canceled`. An unknown id counts as an ended operation. */
  cancel(id: string): void {
    const running = this.#running.get(id.toLowerCase());
    if (running) cancel(running, "on request");
  }

  /** Cancels all operations except that of `asking`, and ends what people hold. */
  cancelOthers(asking: CallContext, why: string): void {
    this.#holds.end();
    for (const running of this.#others(asking)) cancel(running, why);
  }

  /** Resolves when the operation has ended; at once if it has, or if `asking` is part of it. */
  async ended(id: string, asking: CallContext): Promise<void> {
    const running = this.#running.get(id.toLowerCase());
    if (!running || running.calls.includes(asking)) return;
    running.ended ??= Promise.withResolvers();
    await race(running.ended.promise, asking.signal);
  }

  #others(asking: CallContext | undefined): Running[] {
    return this.#running.values().filter(({ calls }) => !asking || !calls.includes(asking));
  }

  #leave({ id, calls, ended }: Running, ctx: CallContext): void {
    calls.splice(calls.indexOf(ctx), 1);
    if (calls.length > 0) return;
    this.#running.delete(id);
    ended?.resolve();
  }
}

function cancel({ id, calls }: Running, why: string): void {
  const reason = new SvcError("canceled", `operation ${id} was canceled ${why}`);
  for (const call of calls) call.cancel(reason);
}

function argumentsOf({ first, request }: Running): JsonObject {
  if (!request) return {};
  try {
    return shownJson(first.method.input, request);
  } catch {
    // Times and packed messages without a JSON form. The list is worth more than this detail.
    return {};
  }
}
