/**
 * The base of all API files: the handlers that every service has, the base class of every client, and the
 * encoding of a call's extra arguments. Each API's own methods are in its own file.
 *
 * The room owns what several types share: handlers and clients, time, poses, readings, kinematics, and
 * capture.
 */

import type { JsonObject } from "../../base/schema/schema.ts";
import { type CallOptions, type Channel, client, type ServiceClient } from "../../wire/rpc/channel.ts";
import type { DescService, JsonObject as Struct } from "../../wire/rpc/proto.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import type { Geometry } from "../../geometry/geometry.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Call, Component, Resource } from "../../resource/resource.ts";
import { fromGeometryMessage, toGeometryMessage } from "./geometry.ts";

/** The `Call` of a request as it arrived. */
export function callOf(request: { extra?: Struct }, ctx: CallContext): Call {
  return { extra: request.extra as JsonObject | undefined, signal: ctx.signal };
}

type Named = { name: string };

/** The handlers of DoCommand and GetStatus, which every API has. */
export function resourceHandlers(find: (name: string) => Resource) {
  return {
    doCommand: async (request: Named & { command?: Struct }, ctx: CallContext) => ({
      result: await find(request.name).doCommand((request.command ?? {}) as JsonObject, {
        signal: ctx.signal,
      }),
    }),
    getStatus: async (request: Named, ctx: CallContext) => ({
      result: await find(request.name).getStatus({ signal: ctx.signal }),
    }),
  };
}

/** The handlers of DoCommand, GetStatus and GetGeometries, which every component API has. */
export function componentHandlers(find: (name: string) => Component) {
  return {
    ...resourceHandlers(find),
    getGeometries: async (request: Named & { extra?: Struct }, ctx: CallContext) => ({
      geometries: (await find(request.name).getGeometries(callOf(request, ctx))).map(toGeometryMessage),
    }),
  };
}

/** The methods of `resourceHandlers`, as a client sees them. */
interface CommonRpc {
  doCommand(request: Named & { command: Struct }, options?: CallOptions): Promise<{ result?: Struct }>;
  getStatus(request: Named, options?: CallOptions): Promise<{ result?: Struct }>;
  getGeometries?(
    request: Named & { extra?: Struct },
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
  protected request(call?: Call): { name: string; extra?: Struct } {
    return { name: this.name.far, extra: call?.extra as Struct | undefined };
  }

  async doCommand(command: JsonObject, call?: Call): Promise<JsonObject> {
    const request = { name: this.name.far, command: command as Struct };
    return ((await this.common.doCommand(request, call)).result ?? {}) as JsonObject;
  }

  async getStatus(call?: Call): Promise<JsonObject> {
    return ((await this.common.getStatus({ name: this.name.far }, call)).result ?? {}) as JsonObject;
  }

  /** Leaves the channel open, because its owner closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The calls that every API has. */
  protected get common(): CommonRpc {
    return this.rpc as unknown as CommonRpc;
  }
}

export abstract class ComponentClient<S extends DescService> extends ResourceClient<S> implements Component {
  async getGeometries(call?: Call): Promise<Geometry[]> {
    const answer = await this.common.getGeometries?.(this.request(call), call);
    return (answer?.geometries ?? []).map(fromGeometryMessage);
  }
}
