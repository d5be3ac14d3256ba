/**
 * Odometry that replays a log in the text format of CARMEN: `ODOM` lines, and the odometry of `FLASER` lines. Each
 * request for a position gives the next one, and each request for an orientation the next one of its own; after the
 * last one, requests fail with `reached end of dataset`.
 */

import { type MovementSensor, MovementSensorApi } from "../../lib/api/sensors/movement_sensor.ts";
import { object, text } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";

/** By an address worked out as it runs: few machines replay logs. */
const REPLAYING = new URL("./carmen_odometry.ts", import.meta.url).href;

const attributes = object({
  log: text("path of the log").required(),
}).required();

export const ReplayOdometry = model({
  api: MovementSensorApi,
  name: "svc:odometry:replay",
  doc: "Wheel odometry that replays a CARMEN log, a pose at each request.",
  attributes,
  construct: async ({ name, attributes: { log }, host }): Promise<MovementSensor> => {
    const { CarmenOdometer }: typeof import("./carmen_odometry.ts") = await import(REPLAYING);
    return await CarmenOdometer.open(name, host, log);
  },
});
