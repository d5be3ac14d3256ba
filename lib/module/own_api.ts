/**
 * A resource type of the module's own: machines learn its service from the module, and pass calls on unchanged.
 *
 * The service comes as its description, a `FileDescriptorProto` as JSON, which `protoc` and `buf` write for a `.proto`
 * file, so that no code has to be generated.
 */

import { createFileRegistry, FileDescriptorProtoSchema, fromJson } from "../wire/rpc/proto.ts";
import type { DescService } from "../wire/rpc/proto.ts";
import { type ForwardingResource, passthrough } from "../api/shared/passthrough.ts";
import { SvcError } from "../base/error.ts";
import type { Json } from "../base/schema/schema.ts";
import { parseApi } from "../resource/name.ts";
import type { Api } from "../resource/registry.ts";
import type { Resource } from "../resource/resource.ts";
import { type CallContext, type Service, service } from "../wire/rpc/service.ts";

/** A request or an answer: fields by their names in camelCase. */
// deno-lint-ignore no-explicit-any
export type OwnMessage = any;

/** A resource of such a type: its methods by their names in camelCase, which take requests and return answers. */
export type OwnResource = Resource & {
  readonly [method: string]: unknown;
};

type OwnMethod = (request: OwnMessage, ctx: CallContext) => OwnMessage;

/** What an API of your own consists of. */
export interface OwnApiParts {
  /** `acme:component:counter` */
  readonly name: string;
  /** The full name of the service: `acme.counter.v1.CounterService`. */
  readonly service: string;
  /** The file that describes the service; it imports no other. */
  readonly file: Json;
}

/**
 * The API. A resource has the methods of the service, by their names in camelCase. A method takes one request and
 * returns one answer, or an async iterable of answers. A client-streaming method takes an async iterable, whose first
 * request names the resource.
 */
export function ownApi({ name, service: typeName, file }: OwnApiParts): Api<OwnResource> {
  parseApi(name);
  const described = createFileRegistry(fromJson(FileDescriptorProtoSchema, file), () => undefined);
  const desc = described.getService(typeName);
  if (!desc) throw new SvcError("invalid_argument", `the description of ${name} has no service ${typeName}`);

  const far: Api<ForwardingResource> = passthrough(name, desc);
  return {
    name,
    desc,
    namedBy: far.namedBy,
    monitored: far.monitored,
    joints: "none",
    captured: "none",
    client: (resource, channel) => callable(far.client(resource, channel), desc),
    serve: (find) => served(desc, find),
  };
}

function served(desc: DescService, find: (name: string) => OwnResource): Service {
  const methodOf = (name: string, localName: string): OwnMethod => {
    const resource = find(name);
    const method = resource[localName];
    if (typeof method === "function") return method.bind(resource);
    throw new SvcError("unimplemented", `${resource.name} does not support ${localName}`);
  };
  const handlers = desc.methods.map(({ localName, methodKind }): [string, OwnMethod] => {
    const one: OwnMethod = (request, ctx) => methodOf(request.name, localName)(request, ctx);
    const many = async (requests: AsyncIterable<OwnMessage>, ctx: CallContext) => {
      const iterator = requests[Symbol.asyncIterator]();
      const first = await iterator.next();
      if (first.done) throw new SvcError("invalid_argument", `${ctx.path} got no request`);
      const all = async function* () {
        yield first.value;
        for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value;
      };
      return methodOf(first.value.name, localName)(all(), ctx);
    };
    switch (methodKind) {
      case "unary":
      case "server_streaming":
        return [localName, one];
      case "client_streaming":
        return [localName, many];
      case "bidi_streaming":
        return [localName, async function* (requests: AsyncIterable<OwnMessage>, ctx: CallContext) {
          yield* await many(requests, ctx);
        }];
    }
  });
  return service(desc, Object.fromEntries(handlers));
}

/** A client for a resource elsewhere, with the methods of its service. */
function callable(resource: ForwardingResource, desc: DescService): OwnResource {
  const methods = desc.methods.map((method) => [
    method.localName,
    (input: OwnMessage, ctx?: { signal?: AbortSignal }) =>
      resource.forward(method, named(input, resource.name.far), { signal: ctx?.signal }),
  ]);
  return Object.assign(resource, Object.fromEntries(methods));
}

/** Adds to requests the name of their resource. */
function named(input: OwnMessage, name: string): OwnMessage {
  if (!(Symbol.asyncIterator in Object(input))) return { ...input, name };
  return (async function* () {
    for await (const one of input) yield { ...one, name };
  })();
}
