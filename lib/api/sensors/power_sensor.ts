/** Power sensor: voltage, current and power. A model supports some of the methods; the others are `unimplemented`. */

import { PowerSensorService } from "../../../proto/gen/power_sensor_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call } from "../../resource/resource.ts";
import { callOf, ComponentClient } from "../shared/resource.ts";
import { fromReadingsMessage, type Readings } from "../shared/readings.ts";
import { capturedReadings, type Sensor, sensorHandlers } from "./sensor.ts";

/** Measures electricity. */
export interface PowerSensor extends Sensor {
  /** `isAc`: alternating current. */
  getVoltage(call?: Call): Promise<{ volts: number; isAc: boolean }>;
  /** Amperes, and whether the current alternates. */
  getCurrent(call?: Call): Promise<{ amperes: number; isAc: boolean }>;
  /** Watts. */
  getPower(call?: Call): Promise<number>;
}

class PowerSensorClient extends ComponentClient<typeof PowerSensorService> implements PowerSensor {
  async getReadings(call?: Call): Promise<Readings> {
    return fromReadingsMessage(await this.rpc.getReadings(this.request(call), call));
  }

  async getVoltage(call?: Call): Promise<{ volts: number; isAc: boolean }> {
    const { volts, isAc } = await this.rpc.getVoltage(this.request(call), call);
    return { volts, isAc };
  }

  async getCurrent(call?: Call): Promise<{ amperes: number; isAc: boolean }> {
    const { amperes, isAc } = await this.rpc.getCurrent(this.request(call), call);
    return { amperes, isAc };
  }

  async getPower(call?: Call): Promise<number> {
    return (await this.rpc.getPower(this.request(call), call)).watts;
  }
}

/** The API `rdk:component:power_sensor`. */
export const PowerSensorApi: Api<PowerSensor> = {
  name: "rdk:component:power_sensor",
  desc: PowerSensorService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: {
    ...capturedReadings,
    Voltage: async (sensor, _, call) => {
      const { volts, isAc } = await sensor.getVoltage(call);
      return { reading: { volts, is_ac: isAc } };
    },
    Current: async (sensor, _, call) => {
      const { amperes, isAc } = await sensor.getCurrent(call);
      return { reading: { amperes, is_ac: isAc } };
    },
    Power: async (sensor, _, call) => ({ reading: { watts: await sensor.getPower(call) } }),
  },
  client: (name: ResourceName, channel: Channel) => new PowerSensorClient(name, channel, PowerSensorService),
  serve: (find) =>
    service(PowerSensorService, {
      ...sensorHandlers(find),
      getVoltage: (request, ctx) => find(request.name).getVoltage(callOf(request, ctx)),
      getCurrent: (request, ctx) => find(request.name).getCurrent(callOf(request, ctx)),
      getPower: async (request, ctx) => ({ watts: await find(request.name).getPower(callOf(request, ctx)) }),
    }),
};
