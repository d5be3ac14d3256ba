/**
 * APIs known by their descriptor alone: their resources live elsewhere (in a module, on another machine), and
 * this side forwards each call over the resource's channel with only the name rewritten.
 *
 * All four streaming kinds pass; answers, errors and cancellation come back unchanged. This serves the
 * published APIs that no built-in model implements, and APIs that only a module knows.
 */

import { safety_heartbeat_monitored } from "../../../proto/gen/common_pb.ts";
import { assert, SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { CallOptions, Channel } from "../../wire/rpc/channel.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import {
  type DescMessage,
  type DescMethod,
  type DescService,
  getOption,
  type Message,
} from "../../wire/rpc/proto.ts";
import type { CallContext, Service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import { type Call, unsupported } from "../../resource/resource.ts";
import { nameFrames } from "./far_names.ts";
import { ResourceClient } from "./resource.ts";

/** The API called `name` (`rdk:service:shell`), built from its service. */
export function passthrough(name: string, desc: DescService): Api<ForwardingResource> {
  return {
    name,
    desc,
    namedBy: ["name"],
    get monitored() {
      return monitoredBy(desc);
    },
    joints: "none",
    captured: "none",
    client: (resource, channel) => new ForwardingResource(resource, channel, desc),
    serve: (find) => forwardingService(desc, find),
  };
}

/** The methods marked by the published option. */
function monitoredBy(desc: DescService): readonly string[] | "none" {
  const marked = desc.methods.filter((method) => getOption(method, safety_heartbeat_monitored));
  return marked.length === 0 ? "none" : marked.map(({ name }) => name);
}

/** A resource of any API behind a channel; `name.far` is its name at the far end. */
export class ForwardingResource extends ResourceClient<DescService> {
  constructor(name: ResourceName, channel: Channel, private readonly desc: DescService) {
    super(name, channel, desc);
  }

  /**
   * Forwards a call. `input` is the request, or the requests of a method that takes a stream; they already
   * carry this resource's name. The result has the form that `ServiceClient` returns for the method's kind.
   */
  forward(method: DescMethod, input: unknown, options?: CallOptions): unknown {
    const methods = this.rpc as Record<string, (input: unknown, options?: CallOptions) => unknown>;
    const call = methods[method.localName];
    assert(call, `the client of ${this.desc.typeName} has the method ${method.name}`);
    return call(input, options);
  }

  override async doCommand(command: JsonObject, call?: Call): Promise<JsonObject> {
    if (!this.desc.method.doCommand) throw unsupported(this.name, "DoCommand");
    return await super.doCommand(command, call);
  }

  override async getStatus(call?: Call): Promise<JsonObject> {
    return this.desc.method.getStatus ? await super.getStatus(call) : {};
  }
}

/** Forwards every method of a service to the resource that the (first) request names. */
function forwardingService(desc: DescService, find: (name: string) => ForwardingResource): Service {
  let handlers: Service["handlers"] | undefined;
  return {
    desc,
    get handlers() {
      handlers ??= Object.fromEntries(
        desc.methods.map((method) => [method.localName, handlerOf(method, find)]),
      );
      return handlers;
    },
  };
}

function handlerOf(method: DescMethod, find: (name: string) => ForwardingResource) {
  const one = (request: Message, ctx: CallContext) => {
    const target = named(method, request);
    const resource = find(target.name);
    target.name = resource.name.far;
    return answers(method, resource, resource.forward(method, request, optionsOf(ctx)));
  };
  const many = async (requests: AsyncIterable<Message>, ctx: CallContext) => {
    const iterator = requests[Symbol.asyncIterator]();
    const first = await iterator.next();
    if (first.done) throw new SvcError("invalid_argument", `${ctx.path} got no request`);
    const target = named(method, first.value);
    const resource = find(target.name);
    const all = renamed(method, first.value, iterator, resource.name.far);
    return answers(method, resource, resource.forward(method, all, optionsOf(ctx)));
  };
  switch (method.methodKind) {
    case "unary":
    case "server_streaming":
      return one;
    case "client_streaming":
      return many;
    case "bidi_streaming":
      return async function* (requests: AsyncIterable<Message>, ctx: CallContext) {
        yield* await many(requests, ctx) as AsyncIterable<Message>;
      };
  }
}

/** The answers, with the frames of a remote by their names on this machine. */
function answers({ methodKind, output }: DescMethod, { name }: ForwardingResource, given: unknown): unknown {
  if (name.remote === "") return given;
  const here = (answer: Message) => {
    nameFrames(name, output, answer);
    return answer;
  };
  if (methodKind === "unary" || methodKind === "client_streaming") {
    return (given as Promise<Message>).then(here);
  }
  return mapped(given as AsyncIterable<Message>, here);
}

async function* mapped<T>(items: AsyncIterable<T>, change: (item: T) => T): AsyncGenerator<T> {
  for await (const item of items) yield change(item);
}

/** Rewrites the name in the first message, and in later messages that have it as a field of their own. */
async function* renamed(method: DescMethod, first: Message, rest: AsyncIterator<Message>, name: string) {
  try {
    named(method, first).name = name;
    yield first;
    for (let next = await rest.next(); !next.done; next = await rest.next()) {
      if (hasName(method.input)) (next.value as unknown as Named).name = name;
      yield next.value;
    }
  } finally {
    await rest.return?.();
  }
}

interface Named {
  name: string;
}

/** The part of a request that names the resource: the message itself, or the member of a oneof that opens a stream. */
function named(method: DescMethod, request: Message): Named {
  if (hasName(method.input)) return request as unknown as Named;
  for (const oneof of method.input.oneofs) {
    const chosen =
      (request as unknown as Record<string, { case?: string; value?: unknown }>)[oneof.localName];
    const field = oneof.fields.find((field) => field.localName === chosen?.case);
    if (chosen && field?.message && hasName(field.message)) return chosen.value as Named;
  }
  throw new SvcError(
    "invalid_argument",
    `${method.parent.typeName}.${method.name}: the request names no resource`,
  );
}

function hasName(message: DescMessage): boolean {
  return message.field.name?.fieldKind === "scalar";
}

/** Metadata with this prefix belongs to the caller and is forwarded to modules. */
const CALLERS_METADATA = "viam-metadata-";

function optionsOf(ctx: CallContext): CallOptions {
  const pairs = [...ctx.requestHeader].filter(([key]) => key.startsWith(CALLERS_METADATA));
  return { signal: ctx.signal, header: Metadata.from(pairs) };
}
