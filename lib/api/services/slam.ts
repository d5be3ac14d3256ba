/** SLAM: the machine's pose on a map, and the map itself. */

import { MappingMode, SensorType, SLAMService } from "../../../proto/gen/slam_pb.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import { MIME } from "../../geometry/image/image.ts";
import type { Pose } from "../../geometry/pose.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import { ResourceClient, resourceHandlers } from "../shared/resource.ts";
import { fromPoseMessage } from "../shared/geometry.ts";
import { capturedPose } from "../shared/capture.ts";

/** A map, and the robot's place on it. */
export interface Slam extends Resource {
  /** Pose of the machine on the map. */
  getPosition(call?: Call): Promise<SlamPosition>;
  /**
   * Parts of one PCD file, in metres; `edited` asks for the map as corrected by a person, if there is one.
   */
  getPointCloudMap(options?: { readonly edited?: boolean }, call?: Call): AsyncIterable<Uint8Array>;
  /** Parts of one file in the format that the properties name. */
  getInternalState(call?: Call): AsyncIterable<Uint8Array>;
  /** Where it computes, and whether it makes, updates or only uses a map. */
  getProperties(call?: Call): Promise<SlamProperties>;
}

/** `extra`: what else is known of the place, such as `place` and `confidence`. */
export type SlamPosition = Pose & { readonly extra?: JsonObject };

/** Where a SLAM service computes, and what it does with its map. */
export interface SlamProperties {
  /** Whether a control plane computes, and not the machine. */
  readonly cloudSlam: boolean;
  /** Whether the service makes a map, adds to one, or only finds its place on one. */
  readonly mappingMode: MappingModeName;
  /** The ending of the internal state's file name, for example `.pbstream`. */
  readonly internalStateFileType?: string;
  /** The sensors that it listens to. */
  readonly sensors: readonly { readonly name: string; readonly type: SensorTypeName }[];
}

/** What a SLAM service does with its map. */
export type MappingModeName = "unspecified" | "create_new_map" | "localize_only" | "update_existing_map";
/** The kinds of sensors that a SLAM service listens to. */
export type SensorTypeName = "unspecified" | "camera" | "movement_sensor";

const MAPPING_MODES: { readonly [M in MappingModeName]: MappingMode } = {
  unspecified: MappingMode.UNSPECIFIED,
  create_new_map: MappingMode.CREATE_NEW_MAP,
  localize_only: MappingMode.LOCALIZE_ONLY,
  update_existing_map: MappingMode.UPDATE_EXISTING_MAP,
};

const SENSOR_TYPES: { readonly [T in SensorTypeName]: SensorType } = {
  unspecified: SensorType.UNSPECIFIED,
  camera: SensorType.CAMERA,
  movement_sensor: SensorType.MOVEMENT_SENSOR,
};

class SlamClient extends ResourceClient<typeof SLAMService> implements Slam {
  async getPosition(call?: Call): Promise<SlamPosition> {
    const { pose, extra } = await this.rpc.getPosition({ name: this.name.far }, call);
    return { ...fromPoseMessage(pose), ...(extra ? { extra: extra as JsonObject } : {}) };
  }

  async *getPointCloudMap({ edited }: { edited?: boolean } = {}, call?: Call): AsyncIterable<Uint8Array> {
    const request = { name: this.name.far, returnEditedMap: edited };
    for await (const part of this.rpc.getPointCloudMap(request, call)) yield part.pointCloudPcdChunk;
  }

  async *getInternalState(call?: Call): AsyncIterable<Uint8Array> {
    const request = { name: this.name.far };
    for await (const part of this.rpc.getInternalState(request, call)) yield part.internalStateChunk;
  }

  async getProperties(call?: Call): Promise<SlamProperties> {
    const answer = await this.rpc.getProperties({ name: this.name.far }, call);
    return {
      cloudSlam: answer.cloudSlam,
      mappingMode: wordOf(MAPPING_MODES, answer.mappingMode),
      internalStateFileType: answer.internalStateFileType,
      sensors: answer.sensorInfo.map(({ name, type }) => ({
        name: this.name.nearOf(name),
        type: wordOf(SENSOR_TYPES, type),
      })),
    };
  }
}

/** The API `rdk:service:slam`. */
export const SlamApi: Api<Slam> = {
  name: "rdk:service:slam",
  desc: SLAMService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: {
    Position: async (slam, _, call) => ({ reading: { pose: capturedPose(await slam.getPosition(call)) } }),
    PointCloudMap: async (slam, _, call) => {
      const parts = await Array.fromAsync(slam.getPointCloudMap({}, call));
      const content = new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
      return { files: [{ content, mimeType: MIME.pcd }] };
    },
  },
  client: (name: ResourceName, channel: Channel) => new SlamClient(name, channel, SLAMService),
  serve: (find) =>
    service(SLAMService, {
      ...resourceHandlers(find),
      getPosition: async (request, ctx) => {
        const { extra, ...pose } = await find(request.name).getPosition({ signal: ctx.signal });
        return { pose, extra };
      },
      getPointCloudMap: async function* ({ name, returnEditedMap: edited }, { signal }) {
        for await (const part of find(name).getPointCloudMap({ edited }, { signal })) {
          yield { pointCloudPcdChunk: part };
        }
      },
      getInternalState: async function* ({ name }, { signal }) {
        for await (const part of find(name).getInternalState({ signal })) yield { internalStateChunk: part };
      },
      getProperties: async ({ name }, { signal }) => {
        const found = await find(name).getProperties({ signal });
        return {
          cloudSlam: found.cloudSlam,
          mappingMode: MAPPING_MODES[found.mappingMode],
          internalStateFileType: found.internalStateFileType,
          sensorInfo: found.sensors.map(({ name, type }) => ({ name, type: SENSOR_TYPES[type] })),
        };
      },
    }),
};

function wordOf<W extends string>(
  numbers: { readonly [word in W]: number },
  number: number,
): W | "unspecified" {
  const words = Object.keys(numbers) as W[];
  return words.find((word) => numbers[word] === number) ?? "unspecified";
}
