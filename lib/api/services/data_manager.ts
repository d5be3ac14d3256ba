/** Data manager: captures the data of resources, keeps it and sends it to the control plane. */

import { DataManagerService } from "../../../proto/gen/data_manager_pb.ts";
import { any, anyObject, bool, integer, list, number, object, text } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import { MIME_TYPES, mimeTypeNumber } from "../shared/captured_file.ts";
import { callOf, ResourceClient, resourceHandlers } from "../shared/resource.ts";

export interface DataManager extends Resource {
  /** Folders of this computer whose files the machine uploads for clients; absent if it runs elsewhere. */
  readonly uploadFolders?: readonly string[];
  /** Sends all data captured so far to the control plane. Throws if it cannot send all of it. */
  sync(call?: Call): Promise<void>;
  /**
   * Accepts a file for one or more datasets. Once this resolves, the file is safe, but it may not have
   * reached the control plane yet.
   */
  uploadBinaryDataToDatasets(file: FileForDatasets, call?: Call): Promise<void>;
}

export interface FileForDatasets {
  readonly content: Uint8Array;
  /** Empty if unknown. */
  readonly mimeType: string;
  readonly tags: readonly string[];
  readonly datasetIds: readonly string[];
}

/** Highest capture rate; calls take time too, so the real rate may be lower. */
export const FREQUENCY_MAX_HZ = 1_000;

/** A resource's entry under `service_configs`. */
export const captureField = object({
  captureMethods: list(
    object({
      name: text(
        "in the list of a remote: full name of the resource there, such as rdk:component:sensor/s",
      ),
      method: text("the method to capture, such as Readings or GetImages").required(),
      captureFrequencyHz: number("how often", { min: 0, max: FREQUENCY_MAX_HZ }).default(0),
      additionalParams: anyObject("arguments of the method").default({}),
      retentionPolicy: any("how long the control plane keeps it: days, binary_limit_gb, tabular_limit_gb"),
      recentDataStore: any("no effect: all readings are in one store"),
      disabled: bool("do not capture this method for now").default(false),
      tags: list(text(), "tags of the captured data").default([]),
      cacheSizeKb: number("KiB of readings collected for one upload; 0 is the default", { min: 0 }),
      captureQueueSize: integer("no effect: this implementation has no queue", { min: 0 }),
      captureBufferSize: integer("no effect: this implementation has no buffer", { min: 0 }),
    }),
    "the methods to capture",
  ).default([]),
  retentionPolicy: any(
    "how long the control plane keeps what all methods give: days, binary_limit_gb, tabular_limit_gb",
  ),
}).orEmpty();

class DataManagerClient extends ResourceClient<typeof DataManagerService> implements DataManager {
  async sync(call?: Call): Promise<void> {
    await this.rpc.sync(this.request(call), call);
  }

  async uploadBinaryDataToDatasets(file: FileForDatasets, call?: Call): Promise<void> {
    const { content: binaryData, mimeType, tags, datasetIds } = file;
    await this.rpc.uploadBinaryDataToDatasets({
      ...this.request(call),
      binaryData,
      tags: [...tags],
      datasetIds: [...datasetIds],
      mimeType: mimeTypeNumber(mimeType),
    }, call);
  }
}

export const DataManagerApi: Api<DataManager> = {
  name: "rdk:service:data_manager",
  desc: DataManagerService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  instancesMax: 1,
  serviceConfig: captureField,
  client: (name: ResourceName, channel: Channel) => new DataManagerClient(name, channel, DataManagerService),
  serve: (find) =>
    service(DataManagerService, {
      ...resourceHandlers(find),
      sync: async (request, ctx) => {
        await find(request.name).sync(callOf(request, ctx));
        return {};
      },
      uploadBinaryDataToDatasets: async (request, ctx) => {
        const { name, binaryData: content, tags, datasetIds, mimeType } = request;
        const file = { content, tags, datasetIds, mimeType: MIME_TYPES[mimeType] ?? "" };
        await find(name).uploadBinaryDataToDatasets(file, callOf(request, ctx));
        return {};
      },
    }),
};
