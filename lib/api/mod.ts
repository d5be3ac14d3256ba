/**
 * Every API that the machine serves, one line for each kind of resource, in any order.
 *
 * The room owns the types of resources: a file for each, with its interface, its service, its client and its
 * facets.
 */

import type { AnyApi } from "../resource/registry.ts";
import { ArmApi } from "./arm.ts";
import { AudioInApi } from "./audio_in.ts";
import { AudioOutApi } from "./audio_out.ts";
import { BaseApi } from "./base.ts";
import { BaseRemoteControlApi } from "./base_remote_control.ts";
import { BoardApi } from "./board.ts";
import { ButtonApi } from "./button.ts";
import { CameraApi } from "./camera.ts";
import { DataManagerApi } from "./data_manager.ts";
import { DiscoveryApi } from "./discovery.ts";
import { EncoderApi } from "./encoder.ts";
import { GantryApi } from "./gantry.ts";
import { GenericApi } from "./generic.ts";
import { GenericServiceApi } from "./generic_service.ts";
import { GripperApi } from "./gripper.ts";
import { InputControllerApi } from "./input_controller.ts";
import { MlModelApi } from "./ml_model.ts";
import { MotionApi } from "./motion.ts";
import { MotorApi } from "./motor.ts";
import { MovementSensorApi } from "./movement_sensor.ts";
import { PowerSensorApi } from "./power_sensor.ts";
import { PUBLISHED } from "./published.ts";
import { SensorApi } from "./sensor.ts";
import { ServoApi } from "./servo.ts";
import { ShellApi } from "./shell.ts";
import { SlamApi } from "./slam.ts";
import { SwitchApi } from "./switch.ts";
import { VideoApi } from "./video.ts";
import { VisionApi } from "./vision.ts";
import { WorldStateStoreApi } from "./world_state_store.ts";

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
