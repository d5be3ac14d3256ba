/**
 * A lidar that replays a log in the text format of CARMEN (`FLASER` lines; `.log` or `.clf`, also packed with gzip).
 * Each request for a point cloud gives the next scan; after the last one, requests fail with `reached end of dataset`.
 */

import { type Camera, CameraApi } from "../../../lib/api/sensors/camera.ts";
import { object, text } from "../../../lib/base/schema/schema.ts";
import { model } from "../../../lib/resource/registry.ts";

/** By an address worked out as it runs: few machines replay logs. */
const REPLAYING = new URL("./carmen.ts", import.meta.url).href;

const attributes = object({
  log: text("path of the log").required(),
}).required();

export const ReplayLidar = model({
  api: CameraApi,
  name: "svc:lidar:replay",
  doc: "A 2D lidar that replays the scans of a CARMEN log, one at each request.",
  attributes,
  construct: async ({ name, attributes: { log }, host, clock }): Promise<Camera> => {
    const { CarmenLidar }: typeof import("./carmen.ts") = await import(REPLAYING);
    return await CarmenLidar.open(name, host, log, clock);
  },
});
