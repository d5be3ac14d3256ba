/**
 * Serves a machine of the models that fit a small board, with the same runtime as `svc-server`, once the command line
 * is parsed.
 */

import { BaseApi } from "../../lib/api/base.ts";
import { BoardApi } from "../../lib/api/board.ts";
import { EncoderApi } from "../../lib/api/encoder.ts";
import { GenericApi } from "../../lib/api/generic.ts";
import { MotorApi } from "../../lib/api/motor.ts";
import { MovementSensorApi } from "../../lib/api/movement_sensor.ts";
import { PowerSensorApi } from "../../lib/api/power_sensor.ts";
import { SensorApi } from "../../lib/api/sensor.ts";
import { ServoApi } from "../../lib/api/servo.ts";
import type { Host } from "../../lib/base/host.ts";
import { startRuntime } from "../../lib/machine/runtime.ts";
import { type AnyModel, type ConfigRule, Registry } from "../../lib/resource/registry.ts";
import { FakeBase } from "../../drivers/base/fake.ts";
import { WheeledBase } from "../../drivers/base/wheeled.ts";
import { FakeBoard } from "../../drivers/board/fake.ts";
import { LinuxBoard } from "../../drivers/board/linux.ts";
import { FakeEncoder } from "../../drivers/encoder/fake.ts";
import { IncrementalEncoder } from "../../drivers/encoder/incremental.ts";
import { SingleEncoder } from "../../drivers/encoder/single.ts";
import { FakeGeneric } from "../../drivers/generic/fake.ts";
import { FakeMotor } from "../../drivers/motor/fake.ts";
import { gpioMotor } from "../../drivers/motor/gpio.ts";
import { FakeMovementSensor } from "../../drivers/movement_sensor/fake.ts";
import { GpsNmeaMovementSensor } from "../../drivers/movement_sensor/gps_nmea.ts";
import { Mpu6050MovementSensor } from "../../drivers/movement_sensor/mpu6050.ts";
import { FakePowerSensor } from "../../drivers/power_sensor/fake.ts";
import { Ina219PowerSensor } from "../../drivers/power_sensor/ina219.ts";
import { FakeSensor } from "../../drivers/sensor/fake.ts";
import { HcSr04Sensor } from "../../drivers/sensor/hc_sr04.ts";
import { FakeServo } from "../../drivers/servo/fake.ts";
import { GpioServo } from "../../drivers/servo/gpio.ts";
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

const MODELS: readonly AnyModel[] = [
  FakeBase,
  WheeledBase,
  FakeBoard,
  LinuxBoard,
  FakeEncoder,
  IncrementalEncoder,
  SingleEncoder,
  FakeGeneric,
  FakeMotor,
  gpioMotor(MOTOR_HZ),
  FakeMovementSensor,
  GpsNmeaMovementSensor,
  Mpu6050MovementSensor,
  FakePowerSensor,
  Ina219PowerSensor,
  FakeSensor,
  HcSr04Sensor,
  FakeServo,
  GpioServo,
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
      const text = `${JSON.stringify(registry.dump(), null, "\t")}\n`;
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
