/**
 * The base of all API files: the handlers that every service has, the base class of every client, and the
 * encoding of a call's extra arguments. Each API's own methods are in its own file.
 *
 * The room owns what several types share: handlers and clients, time, poses, readings, kinematics, and
 * capture.
 */

import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { type CallOptions, type Channel, client, type ServiceClient } from "../../wire/rpc/channel.ts";
import type { DescService } from "../../wire/rpc/proto.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import type { Geometry } from "../../geometry/geometry.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Call, Component, Resource } from "../../resource/resource.ts";
import { fromGeometryMessage, toGeometryMessage } from "./geometry.ts";

/** The `Call` of a request as it arrived. */
export function callOf(request: { extra?: JsonObject }, ctx: CallContext): Call {
  return { extra: request.extra, signal: ctx.signal, connectionEnded: ctx.peer.ended };
}

/**
 * Passes on a stream that only its caller ends. Throws `unavailable` if it ends before: its resource was closed or
 * replaced, and a caller who took that for the end would wait for nothing more, without knowing it.
 */
export async function* relayEndless<T>(
  items: AsyncIterable<T>,
  what: string,
  { signal }: Pick<CallContext, "signal">,
): AsyncGenerator<T> {
  yield* items;
  if (signal.aborted) return;
  throw new SvcError(
    "unavailable",
    `${what} have ended: their resource was closed or replaced; open the stream again`,
  );
}

/** A request to a resource. */
export interface Named {
  /** The resource's name, without its API. */
  readonly name: string;
}

/** The handlers of the methods that every API has. */
export interface ResourceHandlers {
  /** DoCommand: passes a command on, and returns its result. */
  readonly doCommand: (
    request: Named & { readonly command?: JsonObject },
    ctx: CallContext,
  ) => Promise<{ result: JsonObject }>;
  /** GetStatus: the status of the resource's model. */
  readonly getStatus: (request: Named, ctx: CallContext) => Promise<{ result: JsonObject }>;
}

/** The handlers of DoCommand and GetStatus, which every API has. */
export function resourceHandlers(find: (name: string) => Resource): ResourceHandlers {
  return {
    doCommand: async ({ name, command = {} }, { signal }) => ({
      result: await find(name).doCommand(command, { signal }),
    }),
    getStatus: async ({ name }, { signal }) => ({ result: await find(name).getStatus({ signal }) }),
  };
}

/** The handlers of DoCommand, GetStatus and GetGeometries, which every component API has. */
export function componentHandlers(find: (name: string) => Component) {
  return {
    ...resourceHandlers(find),
    getGeometries: async (request: Named & { extra?: JsonObject }, ctx: CallContext) => ({
      geometries: (await find(request.name).getGeometries(callOf(request, ctx))).map(toGeometryMessage),
    }),
  };
}

/** The methods of `resourceHandlers`, as a client sees them. */
interface CommonRpc {
  doCommand(
    request: Named & { command: JsonObject },
    options?: CallOptions,
  ): Promise<{ result?: JsonObject }>;
  getStatus(request: Named, options?: CallOptions): Promise<{ result?: JsonObject }>;
  getGeometries?(
    request: Named & { extra?: JsonObject },
    options?: CallOptions,
  ): Promise<{ geometries: Parameters<typeof fromGeometryMessage>[0][] }>;
}

/** A resource behind a channel. */
export abstract class ResourceClient<S extends DescService> implements Resource {
  /** The calls of the API. */
  protected readonly rpc: ServiceClient<S>;

  /** A resource behind `channel` that serves `desc`. */
  constructor(readonly name: ResourceName, protected readonly channel: Channel, desc: S) {
    this.rpc = client(desc, channel);
  }

  /** The fields that every request has. */
  protected request(call?: Call): { name: string; extra?: JsonObject } {
    return { name: this.name.far, extra: call?.extra };
  }

  async doCommand(command: JsonObject, call?: Call): Promise<JsonObject> {
    const request = { name: this.name.far, command };
    return (await commonOf(this.rpc).doCommand(request, call)).result ?? {};
  }

  async getStatus(call?: Call): Promise<JsonObject> {
    return (await commonOf(this.rpc).getStatus({ name: this.name.far }, call)).result ?? {};
  }

  /** Leaves the channel open, because its owner closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

export abstract class ComponentClient<S extends DescService> extends ResourceClient<S> implements Component {
  async getGeometries(call?: Call): Promise<Geometry[]> {
    const answer = await commonOf(this.rpc).getGeometries?.(this.request(call), call);
    return (answer?.geometries ?? []).map(fromGeometryMessage);
  }
}

/** The calls that every API has. */
function commonOf(rpc: unknown): CommonRpc {
  return rpc as CommonRpc;
}
