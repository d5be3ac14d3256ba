/** The SLAM service that builds maps from a 2D lidar, in files of the published format. */

import { type Slam, SlamApi } from "../../lib/api/services/slam.ts";
import { model } from "../../lib/resource/registry.ts";
import { attributes, MODEL_NAME } from "./mapper/settings.ts";

/** By an address worked out as it runs: machines without the service do not read it. */
const SERVICE = new URL("./mapper/service.ts", import.meta.url).href;

export const MapperSlam = model({
  api: SlamApi,
  name: MODEL_NAME,
  doc: "Builds, extends and uses maps from a 2D lidar, with an IMU, odometry or neither.",
  attributes,
  construct: async (parts): Promise<Slam> => {
    const { openMapper }: typeof import("./mapper/service.ts") = await import(SERVICE);
    return await openMapper(parts);
  },
});
