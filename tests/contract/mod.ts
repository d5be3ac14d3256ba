/**
 * Every contract. A new API with models adds its own here.
 */

import { contract as arm } from "./arm.ts";
import { contract as audioIn } from "./audio_in.ts";
import { contract as audioOut } from "./audio_out.ts";
import { contract as base } from "./base.ts";
import { contract as baseRemoteControl } from "./base_remote_control.ts";
import { contract as board } from "./board.ts";
import { contract as button } from "./button.ts";
import { contract as camera } from "./camera.ts";
import type { Contract } from "./contract.ts";
import { contract as discovery } from "./discovery.ts";
import { contract as dataManager } from "./data_manager.ts";
import { contract as encoder } from "./encoder.ts";
import { contract as gantry } from "./gantry.ts";
import { contract as generic } from "./generic.ts";
import { contract as genericService } from "./generic_service.ts";
import { contract as gripper } from "./gripper.ts";
import { contract as inputController } from "./input_controller.ts";
import { contract as mlModel } from "./ml_model.ts";
import { contract as motion } from "./motion.ts";
import { contract as motor } from "./motor.ts";
import { contract as movementSensor } from "./movement_sensor.ts";
import { contract as powerSensor } from "./power_sensor.ts";
import { contract as sensor } from "./sensor.ts";
import { contract as servo } from "./servo.ts";
import { contract as shell } from "./shell.ts";
import { contract as slam } from "./slam.ts";
import { contract as switches } from "./switch.ts";
import { contract as video } from "./video.ts";
import { contract as vision } from "./vision.ts";
import { contract as worldStateStore } from "./world_state_store.ts";

// deno-lint-ignore no-explicit-any
export const CONTRACTS: readonly Contract<any>[] = [
  arm,
  audioIn,
  audioOut,
  base,
  baseRemoteControl,
  board,
  button,
  camera,
  discovery,
  dataManager,
  encoder,
  gantry,
  generic,
  genericService,
  gripper,
  inputController,
  mlModel,
  motion,
  motor,
  movementSensor,
  powerSensor,
  sensor,
  servo,
  shell,
  slam,
  switches,
  video,
  vision,
  worldStateStore,
];
