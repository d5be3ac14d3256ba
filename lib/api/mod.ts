/**
 * Every API the machine serves. Order does not matter; each line is one kind of resource.
 */

import type { AnyApi } from "../resource/registry.ts";
import { ArmApi } from "./arm.ts";
import { ButtonApi } from "./button.ts";
import { GantryApi } from "./gantry.ts";
import { GenericApi } from "./generic.ts";
import { GenericServiceApi } from "./generic_service.ts";
import { GripperApi } from "./gripper.ts";
import { InputControllerApi } from "./input_controller.ts";
import { MotorApi } from "./motor.ts";
import { MovementSensorApi } from "./movement_sensor.ts";
import { PowerSensorApi } from "./power_sensor.ts";
import { PUBLISHED } from "./published.ts";
import { SensorApi } from "./sensor.ts";
import { ServoApi } from "./servo.ts";
import { SwitchApi } from "./switch.ts";

export const APIS: readonly AnyApi[] = [
  ArmApi,
  ButtonApi,
  GantryApi,
  GenericApi,
  GenericServiceApi,
  GripperApi,
  InputControllerApi,
  MotorApi,
  MovementSensorApi,
  PowerSensorApi,
  SensorApi,
  ServoApi,
  SwitchApi,
  ...PUBLISHED,
];
