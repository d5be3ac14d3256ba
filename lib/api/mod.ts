/**
 * Every API that the machine serves, one line for each kind of resource, in any order.
 *
 * The room owns the types of resources: a file for each, with its interface, its service, its client and its
 * facets. Components that only report are in `sensors/`, all others in `actuators/`.
 */

import type { AnyApi } from "../resource/registry.ts";
import { AudioInApi } from "./sensors/audio_in.ts";
import { CameraApi } from "./sensors/camera.ts";
import { EncoderApi } from "./sensors/encoder.ts";
import { InputControllerApi } from "./sensors/input_controller.ts";
import { MovementSensorApi } from "./sensors/movement_sensor.ts";
import { PowerSensorApi } from "./sensors/power_sensor.ts";
import { SensorApi } from "./sensors/sensor.ts";
import { ArmApi } from "./actuators/arm.ts";
import { AudioOutApi } from "./actuators/audio_out.ts";
import { BaseApi } from "./actuators/base.ts";
import { BoardApi } from "./actuators/board.ts";
import { ButtonApi } from "./actuators/button.ts";
import { GantryApi } from "./actuators/gantry.ts";
import { GenericApi } from "./actuators/generic.ts";
import { GripperApi } from "./actuators/gripper.ts";
import { MotorApi } from "./actuators/motor.ts";
import { ServoApi } from "./actuators/servo.ts";
import { SwitchApi } from "./actuators/switch.ts";
import { BaseRemoteControlApi } from "./services/base_remote_control.ts";
import { DataManagerApi } from "./services/data_manager.ts";
import { DiscoveryApi } from "./services/discovery.ts";
import { GenericServiceApi } from "./services/generic_service.ts";
import { MlModelApi } from "./services/ml_model.ts";
import { MotionApi } from "./services/motion.ts";
import { ShellApi } from "./services/shell.ts";
import { SlamApi } from "./services/slam.ts";
import { VideoApi } from "./services/video.ts";
import { VisionApi } from "./services/vision.ts";
import { WorldStateStoreApi } from "./services/world_state_store.ts";
import { PUBLISHED } from "./published.ts";

export const APIS: readonly AnyApi[] = [
  ArmApi,
  AudioInApi,
  AudioOutApi,
  BaseApi,
  BaseRemoteControlApi,
  BoardApi,
  ButtonApi,
  CameraApi,
  DataManagerApi,
  DiscoveryApi,
  EncoderApi,
  GantryApi,
  GenericApi,
  GenericServiceApi,
  GripperApi,
  InputControllerApi,
  MlModelApi,
  MotionApi,
  MotorApi,
  MovementSensorApi,
  PowerSensorApi,
  SensorApi,
  ServoApi,
  ShellApi,
  SlamApi,
  SwitchApi,
  VideoApi,
  VisionApi,
  WorldStateStoreApi,
  ...PUBLISHED,
];
