/**
 * World state store: shapes and places that a machine knows besides its frame system, each with an id, and their
 * changes.
 */

import { type Transform, TransformSchema } from "../../../proto/gen/common_pb.ts";
import { TransformChangeType, WorldStateStoreService } from "../../../proto/gen/world_state_store_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Pose, Vec3 } from "../../geometry/pose.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import { nameFrames } from "../shared/far_names.ts";
import { callOf, ResourceClient, resourceHandlers } from "../shared/resource.ts";

/** A frame with a shape, in the published form. */
export interface WorldTransform {
  /** The transform's id. */
  readonly uuid?: Uint8Array;
  /** The name of the frame. */
  readonly referenceFrame?: string;
  /** Pose of the frame in millimetres and degrees, and the frame that it is relative to; absent numbers are 0. */
  readonly poseInObserverFrame?: { readonly referenceFrame?: string; readonly pose?: Partial<Pose> };
  /** The shape. Absent if the frame has none. */
  readonly physicalObject?: WorldObject;
  /** Facts for those who draw the world, such as `color` and `opacity`. */
  readonly metadata?: JsonObject;
}

/** A shape, with the pose of its centre in the frame. */
export interface WorldObject {
  /** In millimetres and degrees; absent numbers are 0. */
  readonly center?: Partial<Pose>;
  /** For people. */
  readonly label?: string;
  /** The kind of shape, and its sizes in millimetres. */
  readonly geometryType?:
    | { readonly case: "sphere"; readonly value: { readonly radiusMm?: number } }
    | { readonly case: "box"; readonly value: { readonly dimsMm?: Partial<Vec3> } }
    | { readonly case: "capsule"; readonly value: { readonly radiusMm?: number; readonly lengthMm?: number } }
    | { readonly case: "mesh"; readonly value: { readonly contentType?: string; readonly mesh?: Uint8Array } }
    | { readonly case: "pointcloud"; readonly value: { readonly pointCloud?: Uint8Array } }
    | { readonly case: undefined; readonly value?: undefined };
}

/** A change of a transform. */
export interface TransformChange {
  /** What became of it. */
  readonly type: "added" | "removed" | "updated";
  /** Of a removed one the id, of an updated one the id and what has changed. */
  readonly transform: WorldTransform;
  /** Paths of what has changed: `poseInObserverFrame.pose.theta`. */
  readonly updatedFields: readonly string[];
}

/** Things in the world around the machine, as transforms. */
export interface WorldStateStore extends Resource {
  /** Ids of all transforms. */
  listUuids(call?: Call): Promise<readonly Uint8Array[]>;
  /** The transform with an id; throws `not_found` if there is none. */
  getTransform(uuid: Uint8Array, call?: Call): Promise<WorldTransform>;
  /** The changes from now on, until the call's signal aborts. */
  streamTransformChanges(call?: Call): AsyncIterable<TransformChange>;
}

const TYPES: Record<TransformChange["type"], TransformChangeType> = {
  added: TransformChangeType.ADDED,
  removed: TransformChangeType.REMOVED,
  updated: TransformChangeType.UPDATED,
};

class WorldStateStoreClient extends ResourceClient<typeof WorldStateStoreService> implements WorldStateStore {
  async listUuids(call?: Call): Promise<readonly Uint8Array[]> {
    return (await this.rpc.listUUIDs(this.request(call), call)).uuids;
  }

  async getTransform(uuid: Uint8Array, call?: Call): Promise<WorldTransform> {
    const { transform } = await this.rpc.getTransform({ ...this.request(call), uuid }, call);
    if (transform) return this.#here(transform);
    throw new SvcError("not_found", `${this.name} has no such transform`);
  }

  async *streamTransformChanges(call?: Call): AsyncGenerator<TransformChange> {
    for await (const change of this.rpc.streamTransformChanges(this.request(call), call)) {
      const type = (Object.keys(TYPES) as TransformChange["type"][]).find((one) =>
        TYPES[one] === change.changeType
      );
      if (!type || !change.transform) continue;
      yield {
        type,
        transform: this.#here(change.transform),
        updatedFields: change.updatedFields?.paths ?? [],
      };
    }
  }

  /** With the frames' names of this machine. */
  #here(transform: Transform): Transform {
    nameFrames(this.name, TransformSchema, transform);
    return transform;
  }
}

/** The API `rdk:service:world_state_store`. */
export const WorldStateStoreApi: Api<WorldStateStore> = {
  name: "rdk:service:world_state_store",
  desc: WorldStateStoreService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) =>
    new WorldStateStoreClient(name, channel, WorldStateStoreService),
  serve: (find) =>
    service(WorldStateStoreService, {
      ...resourceHandlers(find),
      listUUIDs: async (request, ctx) => ({
        uuids: [...await find(request.name).listUuids(callOf(request, ctx))],
      }),
      getTransform: async (request, ctx) => ({
        transform: await find(request.name).getTransform(request.uuid, callOf(request, ctx)),
      }),
      streamTransformChanges: async function* (request, ctx) {
        for await (const change of find(request.name).streamTransformChanges(callOf(request, ctx))) {
          const paths = [...change.updatedFields];
          yield {
            changeType: TYPES[change.type],
            transform: change.transform,
            updatedFields: paths.length > 0 ? { paths } : undefined,
          };
        }
      },
    }),
};
