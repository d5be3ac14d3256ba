/**
 * Serves a machine of the models that fit a small board, with the same runtime as `svc-server`, once the command line
 * is parsed.
 */

import { BaseApi } from "../../lib/api/actuators/base.ts";
import { BoardApi } from "../../lib/api/actuators/board.ts";
import { EncoderApi } from "../../lib/api/sensors/encoder.ts";
import { GenericApi } from "../../lib/api/actuators/generic.ts";
import { MotorApi } from "../../lib/api/actuators/motor.ts";
import { MovementSensorApi } from "../../lib/api/sensors/movement_sensor.ts";
import { PowerSensorApi } from "../../lib/api/sensors/power_sensor.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { ServoApi } from "../../lib/api/actuators/servo.ts";
import type { Host } from "../../lib/base/host.ts";
import { startRuntime } from "../../lib/machine/runtime.ts";
import { type ConfigRule, modelEntries, type ModelEntry, Registry } from "../../lib/resource/registry.ts";
import { EXIT, failed } from "../program.ts";
import { serveMachine } from "../serving.ts";
import type { MicroOptions } from "./main.ts";
import { MOTOR_HZ, pwmRule } from "./pwm_rule.ts";

const APIS = [
  BaseApi,
  BoardApi,
  EncoderApi,
  GenericApi,
  MotorApi,
  MovementSensorApi,
  PowerSensorApi,
  SensorApi,
  ServoApi,
];

const MODELS: readonly ModelEntry[] = [
  ...modelEntries(BaseApi, {
    fake: async () => (await import("../../drivers/base/fake.ts")).FakeBase,
    wheeled: async () => (await import("../../drivers/base/wheeled.ts")).WheeledBase,
  }),
  ...modelEntries(BoardApi, {
    fake: async () => (await import("../../drivers/board/fake.ts")).FakeBoard,
    linux: async () => (await import("../../drivers/board/linux.ts")).LinuxBoard,
  }),
  ...modelEntries(EncoderApi, {
    fake: async () => (await import("../../drivers/encoder/fake.ts")).FakeEncoder,
    incremental: async () => (await import("../../drivers/encoder/incremental.ts")).IncrementalEncoder,
    single: async () => (await import("../../drivers/encoder/single.ts")).SingleEncoder,
  }),
  ...modelEntries(GenericApi, {
    fake: async () => (await import("../../drivers/generic/fake.ts")).FakeGeneric,
  }),
  ...modelEntries(MotorApi, {
    fake: async () => (await import("../../drivers/motor/fake.ts")).FakeMotor,
    gpio: async () => (await import("../../drivers/motor/gpio.ts")).gpioMotor(MOTOR_HZ),
  }),
  ...modelEntries(MovementSensorApi, {
    fake: async () => (await import("../../drivers/movement_sensor/fake.ts")).FakeMovementSensor,
    "gps-nmea": async () => (await import("../../drivers/movement_sensor/gps_nmea.ts")).GpsNmeaMovementSensor,
    mpu6050: async () => (await import("../../drivers/movement_sensor/mpu6050.ts")).Mpu6050MovementSensor,
  }),
  ...modelEntries(PowerSensorApi, {
    fake: async () => (await import("../../drivers/power_sensor/fake.ts")).FakePowerSensor,
    ina219: async () => (await import("../../drivers/power_sensor/ina219.ts")).Ina219PowerSensor,
  }),
  ...modelEntries(SensorApi, {
    fake: async () => (await import("../../drivers/sensor/fake.ts")).FakeSensor,
    "hc-sr04": async () => (await import("../../drivers/sensor/hc_sr04.ts")).HcSr04Sensor,
  }),
  ...modelEntries(ServoApi, {
    fake: async () => (await import("../../drivers/servo/fake.ts")).FakeServo,
    gpio: async () => (await import("../../drivers/servo/gpio.ts")).GpioServo,
  }),
];

/** Modules are programs of their own, which do not fit on a small board. */
const noModules: ConfigRule = ({ modules }) =>
  modules.length === 0
    ? []
    : [{ severity: "error", path: "modules", message: "svc-micro-server runs no modules; svc-server does" }];

export function microRegistry(): Registry {
  return new Registry(APIS, MODELS, [noModules, pwmRule]);
}

/** Executes `options`; returns the exit code. */
export async function run({ dumpResources, ...options }: MicroOptions, host: Host): Promise<number> {
  const registry = microRegistry();
  try {
    if (dumpResources !== "") {
      const text = `${JSON.stringify(await registry.dump(), null, "\t")}\n`;
      await host.writeFile(dumpResources, text, { mode: 0o600 });
      return EXIT.ok;
    }
    const { config: configPath, debug, noTls, logFile } = options;
    const { allowInsecureCreds: allowInsecureCredentials } = options;
    return await serveMachine(
      { name: "svc-micro-server", logFile, debug },
      host,
      ({ stop, stopping, ...parts }) =>
        startRuntime(
          {
            configPath,
            debug,
            noTls,
            webrtc: false,
            allowInsecureCredentials,
            showConfigDiffs: false,
            diagnostics: { ftdc: false, webProfile: false, telemetry: false },
            stop,
            stopping,
          },
          { registry, host, ...parts },
        ),
    );
  } catch (error) {
    return failed("svc-micro-server", error, host);
  }
}
