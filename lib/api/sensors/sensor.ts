/**
 * Sensor: returns named readings.
 *
 * The room owns the components that report and change nothing.
 */

import { SensorService } from "../../../proto/gen/sensor_pb.ts";
import type { GetReadingsRequest } from "../../../proto/gen/common_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { type CallContext, service } from "../../wire/rpc/service.ts";
import type { CaptureMethods } from "../../resource/facets.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";
import { fromReadingsMessage, type Readings, toReadingsMessage } from "../shared/readings.ts";

/** Measures anything. */
export interface Sensor extends Component {
  /** Values by name. */
  getReadings(call?: Call): Promise<Readings>;
}

class SensorClient extends ComponentClient<typeof SensorService> implements Sensor {
  async getReadings(call?: Call): Promise<Readings> {
    return fromReadingsMessage(await this.rpc.getReadings(this.request(call), call));
  }
}

/** The handlers that every kind of sensor serves. */
export function sensorHandlers(find: (name: string) => Sensor) {
  return {
    ...componentHandlers(find),
    getReadings: async (request: GetReadingsRequest, ctx: CallContext) =>
      toReadingsMessage(await find(request.name).getReadings(callOf(request, ctx))),
  };
}

/** The capture methods of every kind of sensor. */
export const capturedReadings: CaptureMethods<Sensor> = {
  Readings: async (sensor, _, call) => ({ reading: { readings: await sensor.getReadings(call) } }),
};

/** The API `rdk:component:sensor`. */
export const SensorApi: Api<Sensor> = {
  name: "rdk:component:sensor",
  desc: SensorService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: capturedReadings,
  client: (name: ResourceName, channel: Channel) => new SensorClient(name, channel, SensorService),
  serve: (find) => service(SensorService, sensorHandlers(find)),
};
