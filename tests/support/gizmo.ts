/**
 * An unpublished API with all four kinds of calls, for tests of APIs that a machine has to learn.
 */

import { anyObject } from "../../lib/base/schema/schema.ts";
import { type Api, model } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";
import { create, createFileRegistry, FileDescriptorProtoSchema } from "../../lib/wire/rpc/proto.ts";

/** The API, which echoes requests, and a model of it. */
export function gizmo() {
  /** Numbers of descriptor.proto. */
  const [OPTIONAL, STRING, INT64] = [1, 9, 3];
  const field = (name: string, number: number, type: number) => ({ name, number, type, label: OPTIONAL });
  const file = create(FileDescriptorProtoSchema, {
    name: "acme/gizmo.proto",
    package: "acme.gizmo.v1",
    syntax: "proto3",
    messageType: [{
      name: "Turn",
      field: [
        field("name", 1, STRING),
        field("turns", 7, INT64),
      ],
    }],
    service: [{
      name: "GizmoService",
      method: ["One", "Out", "In", "Both"].map((name) => ({
        name,
        inputType: ".acme.gizmo.v1.Turn",
        outputType: ".acme.gizmo.v1.Turn",
        serverStreaming: name === "Out" || name === "Both",
        clientStreaming: name === "In" || name === "Both",
      })),
    }],
  });
  const desc = createFileRegistry(file, () => undefined).getService("acme.gizmo.v1.GizmoService")!;
  class Gizmo extends BaseResource {
    turned: bigint[] = [];
  }
  type Turn = { name: string; turns: bigint };
  const api: Api<Gizmo> = {
    name: "acme:component:gizmo",
    desc,
    namedBy: ["name"],
    monitored: "none",
    joints: "none",
    captured: "none",
    client: (name) => new Gizmo(name),
    serve: (find) => {
      const both = async function* (requests: AsyncIterable<Turn>) {
        for await (const { name, turns } of requests) {
          find(name).turned.push(turns);
          yield { name, turns: turns + 1n };
        }
      };
      const alone = (request: Turn) => ({ name: find(request.name).name.short, turns: request.turns + 1n });
      const handlers = {
        one: alone,
        out: async function* (request: Turn) {
          yield await Promise.resolve(alone(request));
          yield alone(request);
        },
        in: async (requests: AsyncIterable<Turn>) => (await Array.fromAsync(both(requests))).at(-1)!,
        both,
      };
      return { desc, handlers };
    },
  };
  const doc = "for tests";
  const attributes = anyObject().default({});
  const fake = model({
    api,
    name: "acme:gizmo:fake",
    doc,
    attributes,
    construct: ({ name }) => new Gizmo(name),
  });
  return { api, fake, desc };
}
