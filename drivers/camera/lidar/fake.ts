/**
 * A 2D lidar without hardware, as a camera that returns point clouds: it measures the simulated building of a fake
 * base.
 */

import { BaseApi } from "../../../lib/api/actuators/base.ts";
import { type Camera, CameraApi } from "../../../lib/api/sensors/camera.ts";
import { integer, number, object, text } from "../../../lib/base/schema/schema.ts";
import { model } from "../../../lib/resource/registry.ts";

/** By an address worked out as it runs: machines without a simulated building do not read it. */
const SIMULATED = new URL("./simulated.ts", import.meta.url).href;

const attributes = object({
  base: text("a fake base with a simulated building, on which the lidar is mounted").required().names("base"),
  beams: integer("beams in a turn of 360 degrees", { min: 8, max: 4096 }).default(360),
  maxRangeM: number("the greatest range, in metres", { above: 0, max: 100 }).default(12),
  noiseM: number("standard deviation of a range, in metres", { min: 0, max: 1 }).default(0.01),
  sweepS: number("how long a turn takes, in seconds", { min: 0, max: 1 }).default(0),
  seed: integer("another seed gives other noise", { min: 0 }).default(1),
}).required();

export const FakeLidar = model({
  api: CameraApi,
  name: "svc:lidar:fake",
  doc: "A 2D lidar without hardware, on a fake base that drives in a simulated building.",
  attributes,
  construct: async ({ name, attributes: { base, ...settings }, dependencies, clock }): Promise<Camera> => {
    const { SimulatedLidar }: typeof import("./simulated.ts") = await import(SIMULATED);
    return new SimulatedLidar(name, dependencies.get(BaseApi, base), settings, clock);
  },
});
